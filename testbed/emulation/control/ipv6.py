"""IPv6 next to IPv4 on a network that is up: an address a host, permanent neighbours, one rule a switch and host.

Nothing is left to the protocol that would send packets of its own: no link-local addresses, no search for duplicates,
neighbours or routers. What the kernel still says when an address appears (RFC 3810) no rule forwards.
"""

import socket
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from testbed.emulation.control.base_rules import install_shortest_paths
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.kernel.rtnetlink import Message, add_address, add_neighbour
from testbed.errors import CapabilityError, InputError
from testbed.model.wiring import WiredHost
from topologies.text.addresses import packed_mac

MIN_MTU = 1280
"""RFC 8200, section 5."""
PREFIX_LENGTH = 64
_PREFIX = int(IPv6Address("fd00::"))
_SETTINGS = {
    "addr_gen_mode": 1,  # no address of the kernel's own
    "accept_dad": 0,
    "accept_ra": 0,
    "router_solicitations": 0,
    "disable_ipv6": 0,  # last: from now on
}


def ipv6_address(ip: str) -> str:
    """A host's address in fd00::/64: the last three bytes of its IPv4 address.

    >>> ipv6_address("10.0.0.5"), ipv6_address("10.0.1.2")
    ('fd00::5', 'fd00::102')
    """
    return str(IPv6Address(_PREFIX | int(IPv4Address(ip)) & 0xFFFFFF))


def require_mtu(mtu: int) -> None:
    """InputError for packets that are too small for IPv6."""
    if mtu < MIN_MTU:
        raise InputError(f"--ipv6: an MTU of {mtu} bytes; IPv6 needs {MIN_MTU} or more (--mtu)")


def add_ipv6(net: EmulatedNetwork, *, rules: bool = True) -> None:
    """Give every host that is here its address and the others as neighbours and, with ``rules``, let every pair talk
    over shortest paths. Raises InputError for too small an MTU, CapabilityError on a kernel without IPv6."""
    require_mtu(net.mtu)
    if not Path("/proc/sys/net/ipv6").is_dir():
        raise CapabilityError("--ipv6: this kernel has no IPv6")
    if net.wiring.routed:
        raise InputError(
            "--ipv6: hosts of this network have several cables, and are given IPv4 addresses only"
        )
    known = {
        host.name: (socket.inet_pton(socket.AF_INET6, ipv6_address(host.ip)), packed_mac(host.mac))
        for host in net.wiring.hosts
    }
    connected = {device for cable in net.wiring.cables for device in (cable.a, cable.b)}
    for host in net.wiring.hosts:
        if host.name in connected & net.namespaces.pids.keys():
            _add_to(net, host, known)
    if rules:
        install_shortest_paths(
            net.wiring, net.switch_names, lambda host: [f"ipv6,ipv6_dst={ipv6_address(host.ip)}"]
        )


def _add_to(net: EmulatedNetwork, host: WiredHost, known: dict[str, tuple[bytes, bytes]]) -> None:
    interface, netlink = net.interface_of(host.name), net.namespaces.netlink_of(host.name)
    scopes = [f"ipv6/conf/{name}" for name in ("lo", interface)]
    net.namespaces.set_sysctls(
        host.name, {f"{one}/{key}": value for one in scopes for key, value in _SETTINGS.items()}
    )
    index = netlink.interfaces()[interface]
    messages: list[Message] = [add_address(index, ipv6_address(host.ip), PREFIX_LENGTH)]
    messages += [
        add_neighbour(index, ip, mac) for name, (ip, mac) in known.items() if name != host.name
    ]
    netlink.apply(messages)
