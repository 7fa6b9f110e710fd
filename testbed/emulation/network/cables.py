"""Cables of a wiring as veth pairs: which interface, with what index, is in which namespace.

Indices are chosen here, so that nothing has to be looked up after the interfaces are made.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.kernel.rtnetlink import (
    Message,
    Netlink,
    VethEnd,
    delete_group,
    make_veth,
    set_group,
    set_up,
)
from testbed.emulation.network.kernel.tunnels import make_tunnel
from testbed.model.wiring import Cable, Wiring, WiringPart
from topologies.network import Link, LinkId

_FIRST_INDEX = 10_000
_FIRST_HOST_INDEX = 2  # loopback is 1
_DELETE_LIMIT_S, _DELETE_CABLE_S = 60.0, 0.05


@dataclass(frozen=True, kw_only=True)
class CableEnd:
    """One interface. ``host``: the host in whose namespace it lies, None next to the switches. ``link``: the directed
    link whose packets it sends, None where the model has none that way (or the cable is outside the model)."""

    interface: str
    index: int
    host: str | None
    link: Link | None


@dataclass(frozen=True, kw_only=True)
class CablePlan:
    """The ends on this machine, and the messages that make them. ``GROUP`` marks the interfaces next to the switches.

    ``sending`` and ``receiving`` lack the ends that lie on another machine.
    """

    GROUP: ClassVar[int] = 77
    wiring: Wiring
    sending: Mapping[LinkId, CableEnd]
    receiving: Mapping[LinkId, CableEnd]
    hosts: Mapping[str, tuple[CableEnd, ...]]
    messages: tuple[Message, ...]

    def ends_of(self, host: str) -> tuple[CableEnd, ...]:
        """The host's interfaces in port order."""
        return self.hosts.get(host, ())


def plan_cables(
    wiring: Wiring, namespaces: HostNamespaces, *, mtu: int, part: WiringPart | None = None, underlay_index: int = 0
) -> CablePlan:
    """Lay every cable of the wiring, or those of a part; all interfaces of a host have its MAC address: whoever sends
    to it need not know by which one the way ends."""
    macs = {host.name: bytes.fromhex(host.mac.replace(":", "")) for host in wiring.hosts}
    next_index = _FIRST_INDEX
    messages: list[Message] = []
    by_host: dict[str, list[CableEnd]] = {name: [] for name in macs}
    sending: dict[LinkId, CableEnd] = {}
    receiving: dict[LinkId, CableEnd] = {}
    for number, cable in enumerate(wiring.cables):
        pair: list[CableEnd | None] = []
        for device, port, name, link in _sides(cable):
            if part is not None and device not in part.devices:
                pair.append(None)
                continue
            host = device if device in macs else None
            index = next_index if host is None else _FIRST_HOST_INDEX + port
            next_index += host is None
            found = None if link is None else wiring.network.link(*link)
            end = CableEnd(interface=name, index=index, host=host, link=found)
            pair.append(end)
            if host is not None:
                by_host[host].append(end)
        a, b = pair
        for link, sender, receiver in ((cable.forward, a, b), (cable.backward, b, a)):
            if link is not None and sender is not None:
                sending[link] = sender
            if link is not None and receiver is not None:
                receiving[link] = receiver
        if a is not None and b is not None:
            messages += _cable_messages(a, b, macs, namespaces, mtu)
        elif (alone := a or b) is not None and part is not None:
            made, tunnel = _veth_end(alone, macs, namespaces), part.tunnels[number]
            messages.append(
                make_tunnel(made, tunnel, part, underlay_index=underlay_index, mtu=mtu, group=CablePlan.GROUP)
            )
    return CablePlan(
        wiring=wiring,
        sending=sending,
        receiving=receiving,
        hosts={name: tuple(sorted(found, key=lambda e: e.index)) for name, found in by_host.items() if found},
        messages=tuple(messages),
    )


def _cable_messages(
    a: CableEnd, b: CableEnd, macs: Mapping[str, bytes], namespaces: HostNamespaces, mtu: int
) -> list[Message]:
    """Make the pair; the end next to the switches comes first, because the first one is up at once."""
    first, second = (b, a) if a.host is not None else (a, b)
    veths = [_veth_end(end, macs, namespaces) for end in (first, second)]
    made = [make_veth(*veths, mtu=mtu, group=CablePlan.GROUP)]
    return made if second.host is not None else [*made, set_up(second.index, True)]


def _veth_end(end: CableEnd, macs: Mapping[str, bytes], namespaces: HostNamespaces) -> VethEnd:
    return VethEnd(
        name=end.interface,
        index=end.index,
        mac=None if end.host is None else macs[end.host],
        namespace=None if end.host is None else namespaces.descriptor(end.host),
    )


def _sides(cable: Cable) -> tuple[tuple[str, int, str, LinkId | None], ...]:
    """(device, port, interface, link that it sends) of both ends."""
    return (
        (cable.a, cable.a_port, cable.a_interface, cable.forward),
        (cable.b, cable.b_port, cable.b_interface, cable.backward),
    )


def mark_for_removal(interfaces: Set[str]) -> None:
    """Those of the interfaces that are there go with the cables (``remove_marked``)."""
    with Netlink() as netlink:
        found = netlink.interfaces()
        netlink.apply([set_group(found[name], CablePlan.GROUP) for name in sorted(interfaces & found.keys())])


def remove_marked(cables: int) -> None:
    """Delete every interface next to the switches, of so many cables. NetlinkError (ENODEV) where there is none."""
    with Netlink() as netlink:
        netlink.apply([delete_group(CablePlan.GROUP)], limit_s=_DELETE_LIMIT_S + _DELETE_CABLE_S * cables)
