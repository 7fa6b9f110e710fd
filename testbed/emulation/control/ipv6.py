"""Adds IPv6 to a running network: an address and permanent neighbours for each host, and rules.

Each switch gets one rule for each host. The protocols that would send packets by themselves are
switched off: there are no link-local addresses, and no search for duplicate addresses, neighbours
or routers. When an address is added, the kernel still sends a multicast report (RFC 3810), which no
rule forwards.
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

#: Smallest MTU of IPv6 in bytes (RFC 8200, section 5).
MIN_MTU = 1280

PREFIX_LENGTH = 64
_PREFIX = int(IPv6Address("fd00::"))

# Settings of an interface, in the order in which they are written. IPv6 is switched on last, when
# the others apply.
_ADDR_GEN_MODE_NONE = 1
_SETTINGS = {
    "addr_gen_mode": _ADDR_GEN_MODE_NONE,
    "accept_dad": 0,
    "accept_ra": 0,
    "router_solicitations": 0,
    "disable_ipv6": 0,
}


def ipv6_address(ip: str) -> str:
    """Return a host's address in fd00::/64; it ends with the last three bytes of its IPv4 address.

    >>> ipv6_address("10.0.0.5"), ipv6_address("10.0.1.2")
    ('fd00::5', 'fd00::102')
    """
    return str(IPv6Address(_PREFIX | int(IPv4Address(ip)) & 0xFFFFFF))


def require_mtu(mtu: int) -> None:
    """Raise InputError if an MTU is too small for IPv6."""
    if mtu < MIN_MTU:
        raise InputError(f"--ipv6: an MTU of {mtu} bytes; IPv6 needs {MIN_MTU} or more (--mtu)")


def add_ipv6(net: EmulatedNetwork, *, rules: bool = True) -> None:
    """Give every host on this machine an IPv6 address, and all other hosts as neighbours.

    Args:
        net: The running network.
        rules: Also let every pair of hosts communicate over a shortest path.

    Raises:
        InputError: The MTU is too small, or hosts have several cables.
        CapabilityError: The kernel has no IPv6.
    """
    require_mtu(net.mtu)
    if not Path("/proc/sys/net/ipv6").is_dir():
        raise CapabilityError("--ipv6: this kernel has no IPv6")
    if net.wiring.routed:
        raise InputError(
            "--ipv6: hosts of this network have several cables, and are given IPv4 addresses only"
        )
    addresses = {}
    for host in net.wiring.hosts:
        packed_ip = socket.inet_pton(socket.AF_INET6, ipv6_address(host.ip))
        addresses[host.name] = (packed_ip, packed_mac(host.mac))
    connected: set[str] = set()
    for cable in net.wiring.cables:
        connected.update((cable.a, cable.b))
    for host in net.wiring.hosts:
        if host.name in connected and host.name in net.namespaces.pids:
            _add_to(net, host, addresses)
    if rules:
        install_shortest_paths(net.wiring, net.switch_names, _ipv6_matches)


def _ipv6_matches(host: WiredHost) -> list[str]:
    """Return the matches of IPv6 packets to a host, in ovs-ofctl's notation."""
    return [f"ipv6,ipv6_dst={ipv6_address(host.ip)}"]


def _add_to(
    net: EmulatedNetwork, host: WiredHost, addresses: dict[str, tuple[bytes, bytes]]
) -> None:
    """Configure one host.

    Args:
        net: The running network.
        host: The host.
        addresses: Name of each host -> its IPv6 and MAC addresses.
    """
    interface = net.interface_of(host.name)
    netlink = net.namespaces.netlink_of(host.name)
    settings: dict[str, object] = {}
    for scope in ("lo", interface):
        for key, value in _SETTINGS.items():
            settings[f"ipv6/conf/{scope}/{key}"] = value
    net.namespaces.set_sysctls(host.name, settings)
    index = netlink.interfaces()[interface]
    messages: list[Message] = [add_address(index, ipv6_address(host.ip), PREFIX_LENGTH)]
    for name, (ip, mac) in addresses.items():
        if name != host.name:
            messages.append(add_neighbour(index, ip, mac))
    netlink.apply(messages)
