"""Packets, buffers and channels as objects: what the reference engine moves about, and the kinds of its events and
packets.

Written apart from the compiled engine's arrays; the two share the network's numbers (network_model.py), the run's
settings (engine_inputs.py) and the rules, not the code.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto

from testbed.interconnect.network_model import Layout
from testbed.interconnect.static_paths import NONE

NEVER = 1 << 62
"""The tick of something that is not yet known to happen."""


class EventKind(IntEnum):
    """Events of one tick happen in this order, and of one kind by the number of what they concern."""

    CABLE = 0
    WAKE = 1
    ARRIVAL = 2
    INJECTION = 3
    DELIVERY = 4
    NOTICE = 5
    DETECTION = 6
    IDENTIFICATION = 7
    RECOVERY = 8
    RETRY = 9
    TIMEOUT = 10


class PacketKind(Enum):
    """A message, or one of FT-DRB's ACKs, or its synthetic probe."""

    DATA = auto()
    LATENCY_ACK = auto()
    FAILURE_ACK = auto()
    LINK_UP_ACK = auto()
    PROBE = auto()


@dataclass(eq=False)
class Packet:
    """One message or ACK. ``number``: the same in both engines. ``tail``: when its tail is where its head is.

    Under FT-DRB: ``middles`` and ``header``, its multistep path and which part of it is next; ``sent_by``, the path
    that its source chose (of an ACK: the one it reports on); ``failed_cable``, its error flag, or the failure that it
    notifies of; ``notified``, the last cable of whose failure its source was notified.
    """

    number: int
    source: int
    destination: int
    size: int
    born: int
    kind: PacketKind = PacketKind.DATA
    variant: int = 0
    entered: int = -1
    delivered: int = -1
    tail: int = 0
    hops: int = 0
    middles: tuple[int, int] = (NONE, NONE)
    header: int = 0
    escapes: int = 0
    came_over: int = NONE
    failed_cable: int = NONE
    notified: int = NONE
    sent_by: tuple[int, int] = (NONE, NONE)
    latency: int = 0

    @property
    def is_data(self) -> bool:
        return self.kind is PacketKind.DATA

    @property
    def tells_of_failures(self) -> bool:
        """Whether its source is notified of dead links that it meets."""
        return self.kind in (PacketKind.DATA, PacketKind.PROBE)


@dataclass(eq=False)
class Slot:
    """A slot that a packet has left: free again from ``tick``."""

    tick: int


@dataclass(eq=False)
class Buffer:
    """A queue. ``here``: packets whose heads have arrived; ``coming``: those on their way to it, in order.

    ``free``: slots known to be free where it is filled from; ``returning``: slots whose credits come back, in order.
    ``ready``: from this tick on its head may leave; ``open_at``: and the next may come in; ``last_lane``: which its
    last packet took.
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
    ready: int = 0
    open_at: int = 0
    last_lane: int = NONE

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
        """The slot of the packet that has been taken out: its credit is back at that tick (NEVER: when a signal brings
        it)."""
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


def queues_of_readers(layout: Layout) -> list[range]:
    """One reader a channel (all lanes of the buffer that it fills), one a host, one each for notices and avoidance
    buffers."""
    return [
        *(range(c * layout.lanes, (c + 1) * layout.lanes) for c in range(layout.channels)),
        *(range(q, q + 2) for q in range(layout.source_queue, layout.notice_queue, 2)),
        *(range(q, q + 1) for q in range(layout.notice_queue, layout.queues)),
    ]


def lane_of(layout: Layout, queue: int) -> int:
    """The lane of a queue's packets: ACKs and notices have one of their own where there are more lanes than those of
    data."""
    if queue < layout.source_queue:
        return queue % layout.lanes
    acks = (
        (queue - layout.source_queue) % 2
        if queue < layout.notice_queue
        else queue < layout.avoidance_queue
    )
    return layout.lanes - 1 if acks and layout.lanes > layout.data_lanes else 0
