"""Cables as veth pairs: which interface, with what index, is in which namespace."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from testbed.model.wiring import Wiring
from topologies.network import Link, LinkId


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
