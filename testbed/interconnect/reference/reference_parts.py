"""Packets, buffers and channels as objects: what the reference engine moves about.

Written apart from the compiled engine's arrays; the two share the numbers of network_model.py and the rules, not the code.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from testbed.interconnect.compiled.kernel_state import DATA, NEVER, NONE


@dataclass(eq=False)
class Packet:
    """One message or ACK. ``number``: the same in both engines. ``tail``: when its tail is where its head is."""

    number: int
    source: int
    destination: int
    ticks: int
    born: int
    kind: int = DATA
    variant: int = 0
    entered: int = -1
    delivered: int = -1
    tail: int = 0
    hops: int = 0
    middles: tuple[int, int] = (NONE, NONE)
    header: int = 0
    escaped: bool = False
    escapes: int = 0
    came: int = NONE
    flag: int = NONE
    told: int = NONE
    sent_by: tuple[int, int] = (NONE, NONE)
    latency: int = 0


@dataclass(eq=False)
class Slot:
    """A slot that a packet has left: free again from ``tick``."""

    tick: int


@dataclass(eq=False)
class Buffer:
    """A queue. ``here``: packets whose heads have arrived; ``coming``: those on their way to it, in order.

    ``free``: slots known to be free where it is filled from; ``returning``: slots whose credits come back, in order.
    """

    number: int
    slots: int
    router: int
    rank: int
    lane: int
    reader: int
    here: deque[Packet] = field(default_factory=deque)
    coming: deque[Packet] = field(default_factory=deque)
    free: int = 0
    returning: deque[Slot] = field(default_factory=deque)
    wants: int = NONE
    since: int = 0

    @property
    def held(self) -> int:
        return len(self.here) + len(self.coming)

    def room(self, now: int) -> int:
        """Slots that whoever fills the buffer may use."""
        while self.returning and self.returning[0].tick <= now:
            self.returning.popleft()
            self.free += 1
        return self.free

    def fill(self, packet: Packet) -> None:
        """A packet is on its way."""
        self.coming.append(packet)
        if self.slots:
            self.free -= 1

    def leave_slot(self, tick: int) -> Slot:
        """The slot of the packet that has been taken out: its credit is back at that tick (NEVER: when a signal brings it)."""
        slot = Slot(tick)
        if self.slots:
            self.returning.append(slot)
        return slot


@dataclass(eq=False)
class Channel:
    """``askers``: buffers whose heads want it."""

    number: int
    busy: int = 0
    last: int = -1
    askers: list[Buffer] = field(default_factory=list)
    carried: int = 0


__all__ = ["NEVER", "NONE", "Buffer", "Channel", "Packet", "Slot"]
