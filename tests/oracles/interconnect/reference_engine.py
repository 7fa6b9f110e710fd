"""The reference engine: virtual cut-through with objects and Python's heap, to be read beside
docs/workloads/interconnect.md.

It wakes far more often than the compiled engine and must come to the same history: nothing that could move ever waits.
``Routing`` and ``Avoidance`` are where FT-DRB (``ft_drb_routing.py``) and NAC (``nac.py``) come in; as they stand here,
packets follow static tables, and deadlocks are not avoided. ``reference_run.py`` puts the parts together.
"""

from __future__ import annotations

import heapq

from testbed.interconnect.engine_inputs import EngineInputs
from testbed.interconnect.static_paths import NONE
from tests.oracles.interconnect.reference_parts import (
    NEVER,
    Buffer,
    Channel,
    EventKind,
    Packet,
    lane_of,
    queues_of_readers,
)


class ReferenceEngine:
    """One run; ``stopped`` says at its end why it stopped."""

    def __init__(self, inputs: EngineInputs) -> None:
        self.model, self.options, self.cables = inputs.model, inputs.options, inputs.cables
        self.layout, self.links, self.hosts = (
            inputs.model.layout,
            inputs.model.links,
            inputs.model.hosts,
        )
        queues, columns = inputs.model.queues, (column.tolist() for column in inputs.messages)
        self.messages = [
            Packet(number, source, destination, size, born, variant=variant, middles=(first, NONE))
            for number, (born, source, destination, size, variant, first) in enumerate(
                zip(*columns, strict=True)
            )
        ]
        self.times, self.rates = (
            inputs.transmission.ticks.tolist(),
            inputs.transmission.rate.tolist(),
        )
        self.queues_of = queues_of_readers(self.layout)
        readers = {
            queue: reader for reader, queues in enumerate(self.queues_of) for queue in queues
        }
        numbers = zip(
            queues.slots.tolist(), queues.router.tolist(), queues.rank.tolist(), strict=True
        )
        self.buffers = [
            Buffer(q, slots, router, rank, lane_of(self.layout, q), readers[q], free=slots)
            for q, (slots, router, rank) in enumerate(numbers)
        ]
        self.channels = [Channel(number=c) for c in range(self.layout.channels)]
        self.read_until = [0] * len(self.queues_of)
        self.down: set[int] = set()
        self.events: list[tuple[int, int, int]] = []
        self.now = self.last_move = self.digest = self.packet_hops = self.livelocked = 0
        self.next_message = self.deliveries = 0
        self.stopped = ""
        self.trace: list[tuple[int, int, int]] = []
        self.routing: Routing = Routing(self)
        self.avoidance = Avoidance()

    def at(self, tick: int, kind: int, number: int) -> None:
        """Let an event of that EventKind happen at the tick."""
        heapq.heappush(self.events, (int(tick), kind, int(number)))

    def wake(self, channel: int, tick: int) -> None:
        """Let the channel (NONE: nothing) be arbitrated at the tick (NEVER: nothing)."""
        if channel != NONE and tick < NEVER:
            self.at(tick, EventKind.WAKE, channel)

    def run(self) -> None:
        """All events in order of tick, kind and number."""
        born = [message.born for message in self.messages]
        for i, tick in enumerate(self.cables.tick.tolist()):
            self.at(tick, EventKind.CABLE, i)
        while not self.stopped:
            if self.next_message < len(born) and (
                not self.events
                or self.events[0][:2] > (born[self.next_message], EventKind.INJECTION)
            ):
                self.now = born[self.next_message]
                self.next_message += 1
                self.make(self.messages[self.next_message - 1])
            elif not self.events:
                self.stopped = "finished"
            else:
                self.now, kind, number = event = heapq.heappop(self.events)
                while self.events and self.events[0] == event:
                    heapq.heappop(self.events)
                if self.now > self.options.end:
                    self.stopped = "out-of-time"
                else:
                    self.happen(kind, number)

    def happen(self, kind: int, number: int) -> None:
        """One event; when all of this tick have moved, NAC's detection follows at its router."""
        router = NONE
        if kind == EventKind.CABLE:
            self.change_cable(int(self.cables.cable[number]), bool(self.cables.down[number]))
        elif kind == EventKind.WAKE:
            link = self.link_of(number)
            router = int(self.links.start[link])
            if number < self.links.entry[link]:
                self.avoidance.woken(int(self.links.entry[link]))
            self.arbitrate(self.channels[number])
        elif kind == EventKind.ARRIVAL:
            router = self.arrive(self.buffers[number])
        elif kind in (EventKind.DELIVERY, EventKind.NOTICE):
            router = self.routing.happen(kind, number)
        else:
            router = self.avoidance.happen(kind, number)
        self.avoidance.changed(router)

    def link_of(self, channel: int) -> int:
        """The link that the channel is, or leads into."""
        return channel if channel < self.layout.links else channel - self.layout.links

    def make(self, packet: Packet) -> None:
        """A message is made at its source."""
        self.routing.choose_path(packet)
        self.join(self.buffers[self.layout.source_queue + 2 * packet.source], packet)

    def join(self, buffer: Buffer, packet: Packet) -> None:
        """The packet begins in this queue."""
        buffer.here.append(packet)
        if len(buffer.here) == 1:
            self.ask(buffer)
            self.arbitrate(self.channels[buffer.wants])

    def arrive(self, buffer: Buffer) -> int:
        """The head of the next packet on its way reaches the buffer."""
        packet = buffer.coming.popleft()
        buffer.here.append(packet)
        if buffer.number < self.layout.links * self.layout.lanes:
            self.routing.passed(packet, buffer)
        if len(buffer.here) == 1:
            self.ask(buffer)
            self.arbitrate(self.channels[buffer.wants])
        return buffer.router

    def own_link(self, buffer: Buffer) -> int:
        """The link whose output buffer this is; NONE: it is none."""
        first = self.layout.links * self.layout.lanes
        if self.layout.output_buffers and first <= buffer.number < self.layout.source_queue:
            return buffer.number // self.layout.lanes - self.layout.links
        return NONE

    def ask(self, buffer: Buffer) -> None:
        """The buffer's head asks for its channel."""
        at_host = buffer.router == NONE
        buffer.wants = (
            int(self.hosts.uplink[buffer.here[0].source])
            if at_host
            else self.routing.channel_for(buffer)
        )
        buffer.since = self.now
        self.channels[buffer.wants].askers.append(buffer)
        if self.read_until[buffer.reader] > self.now:
            self.wake(buffer.wants, self.read_until[buffer.reader])
        if buffer.ready > self.now:
            self.wake(buffer.wants, buffer.ready)
        self.avoidance.asked(buffer)

    def withdraw(self, buffer: Buffer) -> None:
        """The buffer's head asks no more."""
        self.channels[buffer.wants].askers.remove(buffer)
        buffer.wants = NONE

    def behind(self, channel: int, lane: int) -> Buffer:
        """The buffer that the channel fills on the lane."""
        return self.buffers[channel * self.layout.lanes + lane]

    def lanes_of(self, buffer: Buffer) -> range:
        """The lanes that the buffer's head may use behind the channel it wants."""
        packet, ports, channel = buffer.here[0], self.layout, buffer.wants
        if not packet.is_data and ports.lanes > ports.data_lanes:
            return range(ports.data_lanes, ports.data_lanes + 1)
        if buffer.router == NONE:
            return range(ports.data_lanes)
        if ports.output_buffers and channel < ports.links:
            return range(buffer.lane, buffer.lane + 1)
        if (lanes := self.routing.lanes_for(buffer)) is not None:
            return lanes
        link = self.link_of(channel)
        routes = self.model.routes
        if routes.classes == 2 and self.links.end[link] >= 0:
            half = ports.data_lanes // 2
            if self.options.keep_class and self.goes_on(buffer, link):
                return range(half, ports.data_lanes) if buffer.lane >= half else range(half)
            crossing = routes.lane_class[packet.variant, buffer.router, self.routing.target(packet)]
            return range(half, ports.data_lanes) if crossing else range(half)
        return range(ports.data_lanes)

    def goes_on(self, buffer: Buffer, link: int) -> bool:
        """Whether the buffer's head came over a link of the same ring, in the same direction."""
        came = buffer.number // self.layout.lanes
        return came < self.layout.links and bool(self.model.axes[came] == self.model.axes[link])

    def open_lane(self, buffer: Buffer) -> Buffer | None:
        """The first buffer behind the channel with room for the head, from the one whose turn it is."""
        lanes = list(self.lanes_of(buffer))
        if self.options.lanes_in_turn and len(lanes) > 1:
            first = (buffer.last_lane + 1 - lanes[0]) % len(lanes)
            lanes = lanes[first:] + lanes[:first]
        for lane in lanes:
            there = self.behind(buffer.wants, lane)
            if there.open_at > self.now:
                continue
            if there.slots == 0 or (
                there.room(self.now) > 0 and self.avoidance.may_enter(buffer, there)
            ):
                return there
        return None

    def arbitrate(self, channel: Channel) -> None:
        """ACKs first, then avoidance buffers, then by round robin, or by who has asked first (ties by rank)."""
        if channel.busy > self.now:
            return
        if (
            channel.number < self.layout.links
            and int(self.links.cable[channel.number]) in self.down
        ):
            return
        ranks = int(self.model.channels.ranks[channel.number])
        ready = []
        for buffer in channel.askers:
            reads = max(self.read_until[buffer.reader], buffer.ready)
            if reads > self.now or not self.avoidance.may_request(buffer):
                continue
            there = self.open_lane(buffer)
            if there is not None:
                grade = (
                    0
                    if not buffer.here[0].is_data
                    else 1
                    if buffer.number >= self.layout.avoidance_queue
                    else 2
                )
                turn = (buffer.rank - channel.last - 1) % ranks
                order = (
                    (grade, buffer.since, buffer.rank) if self.options.fifo else (grade, turn, 0)
                )
                ready.append((order, buffer, there))
        if ready:
            _, buffer, there = min(ready, key=lambda item: item[0])
            self.grant(channel, buffer, there)

    def grant(self, channel: Channel, buffer: Buffer, there: Buffer) -> None:
        """The buffer's head goes over the channel."""
        self.withdraw(buffer)
        packet = buffer.here.popleft()
        transmission = self.times[self.rates[channel.number]][packet.size]
        done = self.now + transmission if packet.tail < self.now + transmission else packet.tail
        self.free_slot(buffer, self.now if self.options.head_release else done)
        channel.busy, channel.last = done, buffer.rank
        channel.carried += 1
        self.last_move = self.now
        self.digest = (
            self.digest * 48271 + channel.number * 7919 + packet.number * 31 + self.now
        ) & 0x7FFFFFFF
        self.trace.append((self.now, channel.number, packet.number))
        buffer.last_lane = there.lane
        if buffer.router != NONE:
            buffer.ready = there.open_at = done + self.options.turnaround
            self.wake(channel.number, there.open_at)
        self.set_out(channel, packet, there, done)
        self.read_until[buffer.reader] = done
        self.wake(channel.number, done)
        for queue in self.queues_of[buffer.reader]:
            self.wake(self.buffers[queue].wants, done)
        if buffer.here:
            self.ask(buffer)
        self.avoidance.granted(channel.number, buffer)

    def free_slot(self, buffer: Buffer, gone: int) -> None:
        """The slot is free, where the buffer is filled from, when the packet has gone and the credit is back."""
        if buffer.slots:
            feeder = buffer.number // self.layout.lanes
            slot = buffer.leave_slot(
                gone + (self.options.credit_delay if feeder < self.layout.links else 0)
            )
            self.wake(feeder, slot.tick)

    def set_out(self, channel: Channel, packet: Packet, there: Buffer, done: int) -> None:
        """The packet, whose tail leaves at ``done``, is under way: to the next buffer, or to its host."""
        delay = int(self.model.channels.delay[channel.number])
        head, packet.tail = self.now + delay, done + delay
        if channel.number < self.layout.links:
            if self.links.start[channel.number] < 0:
                packet.entered = self.now
            else:
                packet.hops += 1
                if packet.is_data:
                    self.packet_hops += 1
                    self.livelocked += packet.hops == self.options.hop_cap
            if self.links.host[channel.number] >= 0:
                self.avoidance.left(packet)
                self.routing.reach_host(packet, there)
                return
        there.fill(packet)
        stored = self.model.channels.stores[channel.number]
        self.at(packet.tail if stored else head, EventKind.ARRIVAL, there.number)

    def change_cable(self, cable: int, down: bool) -> None:
        """A cable fails or works again."""
        (self.down.add if down else self.down.discard)(cable)
        links = self.cables.links[self.cables.first[cable] : self.cables.first[cable + 1]].tolist()
        self.avoidance.ways_changed()
        for link in links:
            self.avoidance.cable_changed(link)
            self.wake(link, self.now)
            self.wake(int(self.links.entry[link]), self.now)
            self.routing.cable_changed(link, down)
        for link in links:
            self.avoidance.changed(int(self.links.start[link]))

    def deliver(self, packet: Packet, tick: int) -> None:
        """A message's tail is at its host at that tick."""
        packet.delivered = tick
        self.deliveries += 1


class Routing:
    """Static tables: where packets go, and what happens when they arrive."""

    acks = 0

    def __init__(self, engine: ReferenceEngine) -> None:
        self.engine, self.layout, self.links = engine, engine.layout, engine.links

    def choose_path(self, packet: Packet) -> None:
        """A message is made."""

    def target(self, packet: Packet) -> int:
        """What the packet is bound for next, in the routing tables."""
        return int(self.engine.hosts.target[packet.destination])

    def link_for(self, packet: Packet, router: int) -> int:
        """The link by which the packet leaves the router."""
        link = int(self.engine.model.routes.next_link[packet.variant, router, self.target(packet)])
        return link if link >= 0 else int(self.engine.hosts.downlink[packet.destination])

    def lanes_for(self, buffer: Buffer) -> range | None:
        """The lanes behind its channel that the buffer's head may use; None: those of its class."""
        return None

    def channel_for(self, buffer: Buffer) -> int:
        """The channel that the head of a router's buffer is to take."""
        own = self.engine.own_link(buffer)
        return (
            own
            if own != NONE
            else int(self.links.entry[self.link_for(buffer.here[0], buffer.router)])
        )

    def passed(self, packet: Packet, buffer: Buffer) -> None:
        """A packet has come over a link to a router."""

    def reach_host(self, packet: Packet, sink: Buffer) -> None:
        """A packet's head has reached its host's link."""
        self.engine.deliver(packet, packet.tail)

    def cable_changed(self, link: int, down: bool) -> None:
        """The link of a cable has failed, or works again."""

    def happen(self, kind: int, number: int) -> int:
        """One of the routing's own events; returns the router concerned."""
        raise NotImplementedError(kind)


class Avoidance:
    """No deadlock avoidance: everything may move, and nothing is watched."""

    def may_request(self, buffer: Buffer) -> bool:
        """Whether the buffer's head may ask for its channel now."""
        return True

    def may_enter(self, buffer: Buffer, there: Buffer) -> bool:
        """Whether the buffer's head may take a slot there, where there is one."""
        return True

    def asked(self, buffer: Buffer) -> None:
        """The buffer's head asks for its channel."""

    def left(self, packet: Packet) -> None:
        """A packet is on its way into its host."""

    def granted(self, channel: int, buffer: Buffer) -> None:
        """The buffer's head has got the channel."""

    def woken(self, entry: int) -> None:
        """The link behind that way into its output buffer is arbitrated."""

    def cable_changed(self, link: int) -> None:
        """The link of a cable has failed, or works again."""

    def ways_changed(self) -> None:
        """A cable has failed, or works again; what waits for its links is not yet routed anew."""

    def changed(self, router: int) -> None:
        """The state of a router (NONE: of none) may have changed at this tick."""

    def happen(self, kind: int, number: int) -> int:
        """One of the avoidance's own events; returns the router concerned."""
        raise NotImplementedError(kind)
