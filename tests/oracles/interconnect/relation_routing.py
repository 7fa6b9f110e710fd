"""Routing by a relation, bubble flow control and recovery in the reference engine; written apart from
``compiled/relation_steps.py``."""

from __future__ import annotations

from testbed.interconnect.route_tables import ANY_LANE, FINAL, FIRST, LANE_BITS, RECOVERY, UNDECIDED
from testbed.interconnect.static_paths import NONE
from tests.oracles.interconnect.reference_engine import Avoidance, ReferenceEngine, Routing
from tests.oracles.interconnect.reference_parts import Buffer, EventKind, Packet

Choice = tuple[int, range]
"""A link, and the lanes behind it that will do."""


class RelationRouting(Routing):
    """Every head takes the choice with most room behind it, as the credits say when it begins to ask."""

    def __init__(self, engine: ReferenceEngine) -> None:
        super().__init__(engine)
        self.tables, self.hosts = engine.model.relation, engine.hosts
        self.kept: dict[int, int] = {}
        self.lanes: dict[int, range] = {}

    def channel_for(self, buffer: Buffer) -> int:
        """The channel for the head of a router's buffer."""
        own = self.engine.own_link(buffer)
        self.lanes.pop(buffer.number, None)
        if own != NONE:
            return own
        return int(self.links.entry[self.choose(buffer, buffer.here[0])])

    def lanes_for(self, buffer: Buffer) -> range | None:
        """The lanes that the buffer's head chose; None: any for data."""
        return self.lanes.get(buffer.number)

    def choose(self, buffer: Buffer, packet: Packet) -> int:
        """The link by which the packet is to leave; a packet that NAC put aside keeps its own."""
        router, goal = buffer.router, int(self.hosts.target[packet.destination])
        aside = buffer.number >= self.layout.avoidance_queue
        if aside and packet.number in self.kept:
            return self.kept[packet.number]
        if packet.variant == UNDECIDED:
            packet.variant = FIRST if self.goes_round(packet, router, goal) else FINAL
        if packet.variant == FIRST and packet.middles[0] == router:
            packet.variant = FINAL
        if packet.variant != FIRST and goal == router:
            return int(self.hosts.downlink[packet.destination])
        start = int(self.tables.start_row[router])
        if packet.variant == RECOVERY:
            self.lanes[buffer.number] = range(self.layout.data_lanes, self.layout.data_lanes + 1)
            return int(self.tables.choices[start, goal, 0]) >> LANE_BITS
        target = packet.middles[0] if packet.variant == FIRST else goal
        (link, lanes), _ = self.best(self.row_of(buffer, packet), target, packet)
        if len(lanes) < self.layout.data_lanes or self.tables.all_lanes > 1:
            self.lanes[buffer.number] = lanes
        self.kept[packet.number] = link
        return link

    def row_of(self, buffer: Buffer, packet: Packet) -> int:
        """What the packet has come over; where it starts, or its detour ends, the router."""
        aside = buffer.number >= self.layout.avoidance_queue
        link = (
            buffer.number - self.layout.avoidance_queue
            if aside
            else buffer.number // self.layout.lanes
        )
        lane = 0 if aside else buffer.lane
        part = lane // self.tables.lanes if self.tables.detour else 0
        on_first = packet.variant == FIRST
        starts = self.links.start[link] < 0 or lane >= self.layout.data_lanes
        if starts or (self.tables.detour and (part == 0) != on_first):
            return int(self.tables.start_row[buffer.router])
        return int(self.tables.row[link * self.tables.lanes + lane % self.tables.lanes])

    def best(self, row: int, target: int, packet: Packet) -> tuple[Choice, int]:
        """The choice with most room, and how much: the first of the best from one on that differs by packet."""
        choices = [int(code) for code in self.tables.choices[row, target] if code != NONE]
        turn = packet.number % len(choices)
        shift = self.tables.lanes if self.tables.detour and packet.variant != FIRST else 0
        found = [self.read(code, shift) for code in choices[turn:] + choices[:turn]]
        room = [self.room(*choice) for choice in found]
        return found[room.index(max(room))], max(room)

    def read(self, code: int, shift: int) -> Choice:
        lane = code & ANY_LANE
        lanes = (
            range(self.layout.data_lanes)
            if lane == ANY_LANE
            else range(lane + shift, lane + shift + 1)
        )
        return code >> LANE_BITS, lanes

    def room(self, link: int, lanes: range) -> int:
        """Free slots in the output buffer, where there is one, and in the input after the link."""
        behind = [link] + [self.layout.links + link] * self.layout.output_buffers
        return sum(
            self.engine.behind(channel, lane).room(self.engine.now)
            for channel in behind
            for lane in lanes
        )

    def goes_round(self, packet: Packet, router: int, goal: int) -> bool:
        """UGAL-L: whether the detour's queue times hops is less than straight on.

        Queues are those of links, all lanes together; where both ways begin with the same link, those of their lanes.
        """
        middle = packet.middles[0]
        if router in (middle, goal) or middle == goal:
            return False
        row, hops = int(self.tables.start_row[router]), self.tables.hops
        packet.variant = FIRST
        (over, lanes), room_over = self.best(row, middle, packet)
        packet.variant = FINAL
        (link, _), room = self.best(row, goal, packet)
        full = self.engine.behind(over, lanes[0]).slots * (1 + self.layout.output_buffers)
        if link != over:
            every = range(self.layout.data_lanes)
            room, room_over, full = (
                self.room(link, every),
                self.room(over, every),
                full * len(every),
            )
        detour = int(hops[row, middle]) + int(hops[self.tables.start_row[middle], goal])
        return (full - room) * int(hops[row, goal]) > (full - room_over) * detour


class Bubble(Avoidance):
    """Who enters a ring, from a host or out of another ring, leaves a slot free behind it."""

    def __init__(self, engine: ReferenceEngine) -> None:
        self.engine, self.layout, self.axes = engine, engine.layout, engine.model.axes

    def may_enter(self, buffer: Buffer, there: Buffer) -> bool:
        """False where the packet would take the last free slot of a ring that it is not in."""
        if buffer.router == NONE or buffer.number >= self.layout.links * self.layout.lanes:
            return True
        link = self.engine.link_of(buffer.wants)
        in_it = self.axes[buffer.number // self.layout.lanes] == self.axes[link]
        return in_it or bool(self.engine.links.end[link] < 0) or there.room(self.engine.now) > 1


class Disha(Avoidance):
    """Recovery (after Anjan and Pinkston 1995): the one packet with the token goes on a lane that no other uses."""

    def __init__(self, engine: ReferenceEngine, timeout: int) -> None:
        self.engine, self.timeout = engine, timeout
        self.token: Packet | None = None
        self.recovered = 0

    def asked(self, buffer: Buffer) -> None:
        """Watch the head of a router's input."""
        layout = self.engine.layout
        if (
            buffer.router != NONE
            and buffer.number < layout.links * layout.lanes
            and buffer.lane < layout.data_lanes
        ):
            self.engine.at(self.engine.now + self.timeout, EventKind.TIMEOUT, buffer.number)

    def left(self, packet: Packet) -> None:
        """A packet is on its way into its host."""
        if packet is self.token:
            self.token = None

    def happen(self, kind: int, number: int) -> int:
        """A head may have waited too long."""
        engine, buffer = self.engine, self.engine.buffers[number]
        idle = engine.now - engine.last_move > engine.options.watchdog
        if engine.next_message == len(engine.messages) and idle:
            engine.stopped = "no-progress"
        elif (
            buffer.wants != NONE
            and engine.now - buffer.since >= self.timeout
            and self.may_recover(buffer)
        ):
            self.recover(buffer)
        return NONE

    def may_recover(self, buffer: Buffer) -> bool:
        """Not the packet with the token, nor one that only waits for its host."""
        ends_at = self.engine.links.end[self.engine.link_of(buffer.wants)]
        return bool(ends_at >= 0) and buffer.here[0] is not self.token

    def recover(self, buffer: Buffer) -> None:
        """The head takes the token and asks for the lane of recovery, or waits for the token."""
        engine = self.engine
        if self.token is not None:
            engine.at(engine.now + self.timeout, EventKind.TIMEOUT, buffer.number)
            return
        self.token = buffer.here[0]
        self.token.variant = RECOVERY
        self.recovered += 1
        engine.withdraw(buffer)
        engine.ask(buffer)
        engine.arbitrate(engine.channels[buffer.wants])
