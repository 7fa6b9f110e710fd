"""Cables as veth pairs: the name, index and namespace of each interface."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from testbed.model.wiring import Wiring
from topologies.network import Link, LinkId


@dataclass(frozen=True, kw_only=True)
class CableEnd:
    """One interface of a cable.

    Attributes:
        interface: Name of the interface.
        index: Index of the interface in its namespace.
        host: The host whose namespace contains the interface; None for one next to the switches.
        link: The directed link whose packets the interface sends. None if the model has no link in
            this direction, or if the cable is outside the model.
    """

    interface: str
    index: int
    host: str | None
    link: Link | None


@dataclass(frozen=True, kw_only=True)
class CablePlan:
    """The cable ends that are on this machine.

    Attributes:
        GROUP: Interface group of the interfaces next to the switches.
        wiring: The wiring that the cables belong to.
        sending: Link -> the end that sends it, unless that end is on another machine.
        receiving: Link -> the end that receives it, unless that end is on another machine.
        hosts: Host -> port -> its interface, in the order of the host's links.
    """

    GROUP: ClassVar[int] = 77
    wiring: Wiring
    sending: Mapping[LinkId, CableEnd]
    receiving: Mapping[LinkId, CableEnd]
    hosts: Mapping[str, Mapping[int, CableEnd]]

    def ends_of(self, host: str) -> tuple[CableEnd, ...]:
        """Return the host's interfaces in the order of its links."""
        return tuple(self.hosts.get(host, {}).values())
