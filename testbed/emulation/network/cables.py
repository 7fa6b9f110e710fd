"""Cables of a wiring as veth pairs: which interface, with what index, lies in which namespace.

Indices are chosen here, so that nothing has to be looked up after the interfaces are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.kernel.rtnetlink import Message, VethEnd, make_veth, set_up
from testbed.model.wiring import Cable, Wiring
from topologies.network import Link, LinkId

_FIRST_INDEX = 10_000
_FIRST_HOST_INDEX = 2  # loopback is 1


@dataclass(frozen=True, kw_only=True)
class CableEnd:
    """One interface. ``host``: the host in whose namespace it lies, None beside the switches. ``link``: the directed
    link whose packets it sends, None where the model has none that way (or the cable is outside the model)."""

    interface: str
    index: int
    host: str | None
    link: Link | None


@dataclass(frozen=True, kw_only=True)
class CablePlan:
    """All ends, and the messages that make them. ``GROUP`` marks the interfaces beside the switches."""

    GROUP: ClassVar[int] = 77
    wiring: Wiring
    ends: tuple[tuple[CableEnd, CableEnd], ...]
    sending: Mapping[LinkId, CableEnd]
    receiving: Mapping[LinkId, CableEnd]
    hosts: Mapping[str, tuple[CableEnd, ...]]
    messages: tuple[Message, ...]

    def ends_of(self, host: str) -> tuple[CableEnd, ...]:
        """The host's interfaces in port order."""
        return self.hosts.get(host, ())


def plan_cables(wiring: Wiring, namespaces: HostNamespaces, *, mtu: int) -> CablePlan:
    """Lay every cable of the wiring; a host's first interface has the host's MAC address."""
    macs = {host.name: bytes.fromhex(host.mac.replace(":", "")) for host in wiring.hosts}
    next_index = _FIRST_INDEX
    ends: list[tuple[CableEnd, CableEnd]] = []
    by_host: dict[str, list[CableEnd]] = {name: [] for name in macs}
    sending: dict[LinkId, CableEnd] = {}
    receiving: dict[LinkId, CableEnd] = {}
    for cable in wiring.cables:
        pair = []
        for device, port, name, link in _sides(cable):
            host = device if device in macs else None
            index = next_index if host is None else _FIRST_HOST_INDEX + port
            next_index += host is None
            found = None if link is None else wiring.network.link(*link)
            pair.append(CableEnd(interface=name, index=index, host=host, link=found))
            if host is not None:
                by_host[host].append(pair[-1])
        a, b = pair
        ends.append((a, b))
        for link, sender, receiver in ((cable.forward, a, b), (cable.backward, b, a)):
            if link is not None:
                sending[link], receiving[link] = sender, receiver
    return CablePlan(
        wiring=wiring,
        ends=tuple(ends),
        sending=sending,
        receiving=receiving,
        hosts={name: tuple(sorted(found, key=lambda e: e.index)) for name, found in by_host.items()},
        messages=tuple(m for a, b in ends for m in _cable_messages(a, b, macs, namespaces, mtu)),
    )


def _cable_messages(
    a: CableEnd, b: CableEnd, macs: Mapping[str, bytes], namespaces: HostNamespaces, mtu: int
) -> list[Message]:
    """Make the pair; the end beside the switches comes first, because the first one is up at once."""
    first, second = (b, a) if a.host is not None else (a, b)
    veths = [
        VethEnd(
            name=end.interface,
            index=end.index,
            mac=macs[end.host] if end.host is not None and end.index == _FIRST_HOST_INDEX else None,
            namespace=None if end.host is None else namespaces.descriptor(end.host),
        )
        for end in (first, second)
    ]
    made = [make_veth(*veths, mtu=mtu, group=CablePlan.GROUP)]
    return made if second.host is not None else [*made, set_up(second.index, True)]


def _sides(cable: Cable) -> tuple[tuple[str, int, str, LinkId | None], ...]:
    """(device, port, interface, link that it sends) of both ends."""
    return (
        (cable.a, cable.a_port, cable.a_interface, cable.forward),
        (cable.b, cable.b_port, cable.b_interface, cable.backward),
    )
