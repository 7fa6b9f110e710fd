"""Cables as veth pairs: which interface, with what index, is in which namespace, and how they all go."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

from testbed.emulation.network.kernel.rtnetlink import Netlink, delete_group, set_group
from testbed.model.wiring import Wiring
from topologies.network import Link, LinkId

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
    """The ends on this machine. ``GROUP`` marks the interfaces next to the switches.

    ``sending`` and ``receiving`` lack the ends that lie on another machine. ``hosts``: port -> interface, in the order
    of the links.
    """

    GROUP: ClassVar[int] = 77
    wiring: Wiring
    sending: Mapping[LinkId, CableEnd]
    receiving: Mapping[LinkId, CableEnd]
    hosts: Mapping[str, Mapping[int, CableEnd]]

    def ends_of(self, host: str) -> tuple[CableEnd, ...]:
        """The host's interfaces in the order of its links."""
        return tuple(self.hosts.get(host, {}).values())


def mark_for_removal(interfaces: Set[str]) -> None:
    """Those of the interfaces that are there go with the cables (``remove_marked``)."""
    with Netlink() as netlink:
        found = netlink.interfaces()
        netlink.apply([set_group(found[name], CablePlan.GROUP) for name in sorted(interfaces & found.keys())])


def remove_marked(cables: int) -> None:
    """Delete every interface next to the switches, of so many cables. NetlinkError (ENODEV) where there is none."""
    with Netlink() as netlink:
        netlink.apply([delete_group(CablePlan.GROUP)], limit_s=_DELETE_LIMIT_S + _DELETE_CABLE_S * cables)
