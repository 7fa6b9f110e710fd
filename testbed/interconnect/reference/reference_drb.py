"""FT-DRB in the reference engine: source routes, escapes, notices and ACKs with objects (document 003, chapter 3).

What is decided is in ft_drb_steps.py, the same functions that the compiled engine calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testbed.interconnect.compiled.kernel_state import DATA, FAILURE_ACK, ID_MASK, LATENCY_ACK, NONE, NOTICE, UP_NOTICE
from testbed.interconnect.ft_drb.escape_steps import escape_path
from testbed.interconnect.ft_drb.ft_drb_steps import forget_failure, hear_failure, hear_latency, select_path
from testbed.interconnect.reference.reference_parts import Buffer, Packet

if TYPE_CHECKING:
    from testbed.interconnect.reference.reference_engine import ReferenceEngine


class ReferenceDrb:
    """Hosts' memory is in ``state``; here are the notices under way and whom each router has told of a dead link."""

    def __init__(self, engine: ReferenceEngine, paths: Any, state: Any, settings: Any) -> None:
        self.engine, self.ports, self.options = engine, engine.ports, engine.options
        self.paths, self.state, self.settings = paths, state, settings
        self.acks = 0
        self.notices: dict[int, Packet] = {}
        self.told: set[tuple[int, int]] = set()

    def set_off(self, packet: Packet) -> None:
        """A message is made: its source chooses a path."""
        packet.middles = packet.sent_by = select_path(
            self.paths, self.state, self.settings, packet.source, packet.destination, packet.number, self.engine.now
        )

    def target(self, packet: Packet) -> int:
        """Where it is bound next: an intermediate, or its host."""
        for middle in packet.middles[packet.header :]:
            if middle != NONE:
                return int(middle)
        return int(self.ports.goal[packet.destination])

    def next_link(self, packet: Packet, router: int) -> int:
        while packet.header < 2 and packet.middles[packet.header] in (NONE, router):
            packet.header += 1
        link = int(self.ports.next_link[0, router, self.target(packet)])
        return link if link >= 0 else int(self.ports.downlink[packet.destination])

    def is_down(self, link: int) -> bool:
        return int(self.ports.cable[link]) in self.engine.down

    def leave_router(self, buffer: Buffer) -> int:
        """The channel for the head of the buffer; round a dead link by an escape path."""
        own, packet = self.engine.own_link(buffer), buffer.here[0]
        if own != NONE and not self.is_down(own):
            return own
        link = own if own != NONE else self.next_link(packet, buffer.router)
        if self.is_down(link):
            self.report(packet, link)
            packet.flag = int(self.ports.cable[link])
            down = [0] * (int(self.ports.cable.max()) + 1)
            for cable in self.engine.down:
                down[cable] = 1
            packet.middles = escape_path(
                self.paths, self.state.counters, down, buffer.router, packet.came,
                int(self.ports.goal[packet.destination]), packet.number, packet.escapes,
            )  # fmt: skip
            packet.header, packet.escaped = 0, True
            packet.escapes += 1
            link = self.next_link(packet, buffer.router)
        return int(self.ports.entry[link])

    def report(self, packet: Packet, link: int) -> None:
        """The router tells the source, once a message and cable."""
        cable = int(self.ports.cable[link])
        if self.options.notify_by_router and packet.kind == DATA and packet.told != cable:
            packet.told = cable
            self.told.add((link, packet.source))
            self.notice(FAILURE_ACK, int(self.ports.link_from[link]), packet.source, cable)

    def new_ack(self, kind: int, source: int, destination: int) -> Packet:
        number = len(self.engine.messages) + self.acks
        self.acks += 1
        return Packet(number, source, destination, self.options.ack_ticks, self.engine.now, kind=kind)

    def notice(self, kind: int, router: int, host: int, cable: int) -> None:
        packet = self.new_ack(kind, router, host)
        packet.flag = cable
        self.notices[packet.number & ID_MASK] = packet
        self.engine.at(self.engine.now, NOTICE, packet.number & ID_MASK)

    def send_notice(self, number: int) -> int:
        packet = self.notices.pop(number)
        self.engine.join(self.engine.buffers[self.ports.notice_queue + packet.source], packet)
        return packet.source

    def passes(self, packet: Packet, buffer: Buffer) -> None:
        """A packet has come over a link to a router; its hosts may learn from a notification (3.6.1)."""
        packet.came = int(self.ports.cable[buffer.number // self.ports.lanes])
        if self.options.overhear and packet.kind == FAILURE_ACK:
            for i in range(int(self.ports.hosts_first[buffer.router]), int(self.ports.hosts_first[buffer.router + 1])):
                host = int(self.ports.hosts_of[i])
                if host != packet.destination:
                    hear_failure(self.state, self.settings, host, packet.flag, self.engine.now)

    def finish(self, sink: Buffer) -> None:
        """A packet is whole at its host: a message is answered, an ACK is read."""
        packet, now = sink.coming.popleft(), self.engine.now
        host = packet.destination
        if packet.kind == DATA:
            packet.delivered = now
            self.answer(packet)
        elif packet.kind == LATENCY_ACK:
            hear_latency(self.paths, self.state, self.settings, host, packet.source, *packet.sent_by, packet.latency)
        elif packet.kind == FAILURE_ACK:
            hear_failure(self.state, self.settings, host, packet.flag, now)
        else:
            forget_failure(self.state, host, packet.flag)

    def answer(self, packet: Packet) -> None:
        """A latency ACK; or, where destinations tell of failures, a failure ACK for a message with an error flag."""
        if packet.escaped and self.options.notify_by_router:
            return
        kind = FAILURE_ACK if packet.escaped else LATENCY_ACK
        ack = self.new_ack(kind, packet.destination, packet.source)
        ack.flag, ack.sent_by, ack.latency = packet.flag, packet.sent_by, self.engine.now - packet.entered
        self.engine.join(self.engine.buffers[self.ports.source_queue + 2 * ack.source + 1], ack)

    def cable_changed(self, link: int, down: bool) -> None:
        """Those who ask for a link that is dead choose anew; one that works again may be told to those who heard it had failed."""
        engine, entry = self.engine, int(self.ports.entry[link])
        if not down:
            if self.options.up_by_router:
                for host in sorted(h for told, h in self.told if told == link):
                    self.told.discard((link, host))
                    self.notice(UP_NOTICE, int(self.ports.link_from[link]), host, int(self.ports.cable[link]))
            return
        if self.options.tell_queued:
            self.tell_queued(link)
        for channel in dict.fromkeys((entry, link)):
            for buffer in sorted(engine.channels[channel].askers, key=lambda b: b.rank):
                if buffer.wants == channel:
                    engine.withdraw(buffer)
                    engine.ask(buffer)
                    engine.wake(buffer.wants, engine.now)

    def tell_queued(self, link: int) -> None:
        """All packets that wait for the link, in the router's data buffers (3.6.1)."""
        ports, router = self.ports, int(self.ports.link_from[link])
        first, last = int(ports.input_first[router]), int(ports.input_first[router + 1])
        into = ports.inputs[first:last].tolist()
        first, last = int(ports.hosts_first[router]), int(ports.hosts_first[router + 1])
        into += [int(ports.uplink[host]) for host in ports.hosts_of[first:last].tolist()]
        into += [ports.links + link] * bool(ports.two_stages)
        for channel in into:
            for lane in range(ports.data_lanes):
                for packet in self.engine.behind(channel, lane).here:
                    if channel >= ports.links or self.next_link(packet, router) == link:
                        self.report(packet, link)
