"""The reference engine: virtual cut-through with objects and Python's heap, to be read beside docs/workloads/interconnect.md.

It wakes far more often than the compiled engine and must come to the same history: nothing that could move ever waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from testbed.interconnect.compiled.kernel_loop import Plan
from testbed.interconnect.compiled.kernel_state import (
    ARRIVAL,
    CABLE_EVENT,
    DATA,
    DELIVERY,
    IDENTIFICATION,
    INJECTION,
    LOOK,
    NEVER,
    NONE,
    NOTICE,
    RECOVERY,
    WAKE,
    Options,
)
from testbed.interconnect.network_model import NetworkModel
from testbed.interconnect.reference.reference_parts import Buffer, Channel, Packet


class ReferenceEngine:
    """One run. ``nac`` and ``drb`` are the parts of NAC and FT-DRB, or None."""

    def __init__(self, model: NetworkModel, options: Options, plan: Plan, messages: Sequence[Packet]) -> None:
        self.model, self.ports, self.options, self.plan, self.messages = model, model.ports, options, plan, messages
        ports = model.ports
        self.buffers = [
            Buffer(
                number=q, slots=int(ports.slots[q]), router=int(ports.router_of[q]), rank=int(ports.rank[q]),
                lane=q % ports.lanes if q < ports.source_queue else 0, reader=int(ports.reader[q]), free=int(ports.slots[q]),
            )
            for q in range(ports.queues)
        ]  # fmt: skip
        self.channels = [Channel(number=c) for c in range(ports.channels)]
        self.read_until = [0] * len(ports.reader_first)
        self.down: set[int] = set()
        self.events: list[tuple[int, int, int]] = []
        self.now = self.last_move = self.digest = self.packet_hops = self.livelocked = self.handled = 0
        self.next_message = 0
        self.stopped = ""
        self.trace: list[tuple[int, int, int]] = []
        self.nac: Any = None
        self.drb: Any = None

    def at(self, tick: int, kind: int, number: int) -> None:
        """Let an event happen."""
        heapq.heappush(self.events, (int(tick), kind, int(number)))

    def wake(self, channel: int, tick: int) -> None:
        if channel != NONE and tick < NEVER:
            self.at(tick, WAKE, channel)

    def run(self) -> None:
        """All events in order of tick, kind and number."""
        born = self.plan.born.tolist()
        for i, tick in enumerate(self.plan.event_tick.tolist()):
            self.at(tick, CABLE_EVENT, i)
        while not self.stopped:
            if self.next_message < len(born) and (
                not self.events or self.events[0][:2] > (born[self.next_message], INJECTION)
            ):
                self.now = born[self.next_message]
                self.next_message += 1
                self.make(self.messages[self.next_message - 1])
            elif not self.events:
                self.stopped = "finished"
            else:
                self.now, kind, number = heapq.heappop(self.events)
                self.handled += 1
                if self.now > self.options.end:
                    self.stopped = "out-of-time"
                else:
                    self.happen(kind, number)

    def happen(self, kind: int, number: int) -> None:
        """One event; when all of this tick have moved, its router looks whether it is blocked (NAC, 1)."""
        router = NONE
        if kind == ARRIVAL:
            router = self.arrive(self.buffers[number])
        elif kind == WAKE:
            link = self.link_of(number)
            router = int(self.ports.link_from[link])
            if self.nac is not None and number < self.ports.entry[link]:
                self.wake(int(self.ports.entry[link]), self.now)
            self.arbitrate(self.channels[number])
        elif kind == LOOK:
            self.nac.look_round(number)
        elif kind == IDENTIFICATION:
            router = self.nac.hear_probe(number)
        elif kind == RECOVERY:
            router = self.nac.hear_signal(number)
        elif kind > RECOVERY:
            self.nac.try_again(number)
        elif kind == CABLE_EVENT:
            self.change_cable(int(self.plan.event_cable[number]), bool(self.plan.event_down[number]))
        elif kind == DELIVERY:
            self.drb.finish(self.buffers[number])
        elif kind == NOTICE:
            router = self.drb.send_notice(number)
        if self.nac is not None and router != NONE:
            self.at(self.now, LOOK, router)

    def link_of(self, channel: int) -> int:
        return channel if channel < self.ports.links else channel - self.ports.links

    def make(self, packet: Packet) -> None:
        """A message is made at its source."""
        if self.drb is not None:
            self.drb.set_off(packet)
        self.join(self.buffers[self.ports.source_queue + 2 * packet.source], packet)

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
        if self.drb is not None and buffer.number < self.ports.links * self.ports.lanes:
            self.drb.passes(packet, buffer)
        if len(buffer.here) == 1:
            self.ask(buffer)
            self.arbitrate(self.channels[buffer.wants])
        return buffer.router

    def own_link(self, buffer: Buffer) -> int:
        """The link whose output buffer this is; NONE: it is none."""
        first = self.ports.links * self.ports.lanes
        if self.ports.two_stages and first <= buffer.number < self.ports.source_queue:
            return buffer.number // self.ports.lanes - self.ports.links
        return NONE

    def route(self, buffer: Buffer) -> int:
        """The channel that the buffer's head is to take."""
        packet, ports = buffer.here[0], self.ports
        if buffer.router == NONE:
            return int(ports.uplink[packet.source])
        if self.drb is not None:
            return int(self.drb.leave_router(buffer))
        own = self.own_link(buffer)
        if own != NONE:
            return own
        link = int(ports.next_link[packet.variant, buffer.router, ports.goal[packet.destination]])
        return int(ports.entry[link if link >= 0 else ports.downlink[packet.destination]])

    def ask(self, buffer: Buffer) -> None:
        """The buffer's head asks for its channel."""
        buffer.wants = self.route(buffer)
        buffer.since = self.now
        self.channels[buffer.wants].askers.append(buffer)
        if self.read_until[buffer.reader] > self.now:
            self.wake(buffer.wants, self.read_until[buffer.reader])

    def withdraw(self, buffer: Buffer) -> None:
        self.channels[buffer.wants].askers.remove(buffer)
        buffer.wants = NONE

    def behind(self, channel: int, lane: int) -> Buffer:
        return self.buffers[channel * self.ports.lanes + lane]

    def lanes_of(self, buffer: Buffer) -> range:
        """The lanes that the buffer's head may use behind the channel it wants."""
        packet, ports, channel = buffer.here[0], self.ports, buffer.wants
        if packet.kind != DATA:
            return range(ports.data_lanes, ports.data_lanes + 1)
        if buffer.router == NONE:
            return range(ports.data_lanes)
        if ports.two_stages and channel < ports.links:
            return range(buffer.lane, buffer.lane + 1)
        link = self.link_of(channel)
        if ports.classes == 2 and ports.link_to[link] >= 0:
            target = int(ports.goal[packet.destination]) if self.drb is None else self.drb.target(packet)
            half = ports.data_lanes // 2
            crossing = ports.lane_class[packet.variant, buffer.router, target]
            return range(half, ports.data_lanes) if crossing else range(half)
        return range(ports.data_lanes)

    def open_lane(self, buffer: Buffer) -> Buffer | None:
        """The first buffer behind the channel with room for the head."""
        for lane in self.lanes_of(buffer):
            there = self.behind(buffer.wants, lane)
            if there.slots == 0 or there.room(self.now) > 0:
                return there
        return None

    def arbitrate(self, channel: Channel) -> None:
        """ACKs first, then avoidance buffers, then by round robin, or by who has asked first (ties by rank)."""
        if channel.busy > self.now:
            return
        if channel.number < self.ports.links and int(self.ports.cable[channel.number]) in self.down:
            return
        ranks = int(self.ports.ranks[channel.number])
        ready = []
        for buffer in channel.askers:
            if self.read_until[buffer.reader] > self.now or (self.nac is not None and not self.nac.may_go(buffer)):
                continue
            there = self.open_lane(buffer)
            if there is not None:
                grade = 0 if buffer.here[0].kind != DATA else 1 if buffer.number >= self.ports.spare_queue else 2
                turn = (buffer.rank - channel.last - 1) % ranks
                order = (grade, buffer.since, buffer.rank) if self.options.fifo else (grade, turn, 0)
                ready.append((order, buffer, there))
        if ready:
            _, buffer, there = min(ready, key=lambda item: item[0])
            self.grant(channel, buffer, there)

    def grant(self, channel: Channel, buffer: Buffer, there: Buffer) -> None:
        """The buffer's head goes over the channel."""
        self.withdraw(buffer)
        packet = buffer.here.popleft()
        done = self.now + packet.ticks
        self.free_slot(buffer, self.now if self.options.head_release else done)
        channel.busy, channel.last = done, buffer.rank
        channel.carried += 1
        self.last_move = self.now
        self.digest = (self.digest * 48271 + channel.number * 7919 + packet.number * 31 + self.now) & 0x7FFFFFFF
        self.trace.append((self.now, channel.number, packet.number))
        self.set_out(channel, packet, there)
        self.read_until[buffer.reader] = done
        self.wake(channel.number, done)
        first = int(self.ports.reader_first[buffer.reader])
        for other in self.buffers[first : first + int(self.ports.reader_count[buffer.reader])]:
            self.wake(other.wants, done)
        if buffer.here:
            self.ask(buffer)
        if self.nac is not None:
            self.nac.granted(channel.number, buffer)

    def free_slot(self, buffer: Buffer, gone: int) -> None:
        """The slot is free, where the buffer is filled from, when the packet has gone and the credit is back."""
        if buffer.slots:
            feeder = buffer.number // self.ports.lanes
            slot = buffer.leave_slot(gone + (self.options.credit_delay if feeder < self.ports.links else 0))
            self.wake(feeder, slot.tick)

    def set_out(self, channel: Channel, packet: Packet, there: Buffer) -> None:
        """The packet is under way: to the next buffer, or to its host."""
        ports = self.ports
        head = self.now + int(ports.delay[channel.number])
        packet.tail = head + packet.ticks
        if channel.number < ports.links:
            if ports.link_from[channel.number] < 0:
                packet.entered = self.now
            else:
                packet.hops += 1
                if packet.kind == DATA:
                    self.packet_hops += 1
                    self.livelocked += packet.hops == self.options.hop_cap
            if ports.host_at[channel.number] >= 0:
                if self.drb is None:
                    packet.delivered = packet.tail
                else:
                    there.coming.append(packet)
                    self.at(packet.tail, DELIVERY, there.number)
                return
        there.fill(packet)
        self.at(head, ARRIVAL, there.number)

    def change_cable(self, cable: int, down: bool) -> None:
        """A cable fails or works again."""
        (self.down.add if down else self.down.discard)(cable)
        low, high = int(self.plan.cable_first[cable]), int(self.plan.cable_first[cable + 1])
        links = self.plan.cable_links[low:high].tolist()
        for link in links:
            if self.nac is not None:
                self.nac.forget_slot(link)
            self.wake(link, self.now)
            self.wake(int(self.ports.entry[link]), self.now)
            if self.drb is not None:
                self.drb.cable_changed(link, down)
        if self.nac is not None:
            for link in links:
                self.at(self.now, LOOK, int(self.ports.link_from[link]))


def run_reference(
    model: NetworkModel, options: Options, plan: Plan, messages: Sequence[Packet], hook: Any, keep_timeline: int
) -> ReferenceEngine:
    """The engine after its run. ``hook``: FT-DRB's (paths, state, settings), or None."""
    from testbed.interconnect.reference.nac import Nac
    from testbed.interconnect.reference.reference_drb import ReferenceDrb

    engine = ReferenceEngine(model, options, plan, messages)
    if options.nac:
        engine.nac = Nac(engine, keep_timeline)
    if hook is not None:
        engine.drb = ReferenceDrb(engine, *hook)
    engine.run()
    return engine
