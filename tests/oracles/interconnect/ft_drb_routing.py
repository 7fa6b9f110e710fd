"""FT-DRB in the reference engine: multistep paths hop by hop, escapes, notifications and ACKs (Zarza 2011, chapter 3).

``testbed/interconnect/ft_drb`` tells the algorithm; what sources decide is in ft_drb_source.py, escape paths in
ft_drb_paths.py.
"""

from __future__ import annotations

from collections import Counter

from testbed.interconnect.engine_inputs import ACK_SIZE, FtDrbSettings
from testbed.interconnect.static_paths import NONE
from tests.oracles.interconnect.ft_drb_paths import Escape, RoutingMap
from tests.oracles.interconnect.ft_drb_source import COUNTED, Source
from tests.oracles.interconnect.reference_engine import ReferenceEngine, Routing
from tests.oracles.interconnect.reference_parts import Buffer, EventKind, Packet, PacketKind

NUMBERS = 1 << 18
"""Notices under way are numbered anew after so many."""


class FtDrbRouting(Routing):
    """All sources, the notices under way, and which hosts each router has notified of a dead link."""

    def __init__(self, engine: ReferenceEngine, settings: FtDrbSettings) -> None:
        super().__init__(engine)
        self.settings, self.network = settings, RoutingMap(engine.model.paths)
        self.counters = Counter(dict.fromkeys(COUNTED, 0))
        self.sources = [
            Source(h, self.network, settings, self.counters) for h in range(self.layout.hosts)
        ]
        self.acks = 0
        self.notices: dict[int, Packet] = {}
        self.notified: set[tuple[int, int]] = set()

    def happen(self, kind: int, number: int) -> int:
        """A packet is whole at its host, or a notice sets off from its router."""
        if kind == EventKind.DELIVERY:
            self.finish(self.engine.buffers[number])
            return NONE
        packet = self.notices.pop(number)
        if packet.kind is PacketKind.PROBE:
            self.engine.join(
                self.engine.buffers[self.layout.source_queue + 2 * packet.source + 1], packet
            )
            return NONE
        self.engine.join(self.engine.buffers[self.layout.notice_queue + packet.source], packet)
        return packet.source

    def choose_path(self, packet: Packet) -> None:
        """The source of a new message chooses its path."""
        source = self.sources[packet.source]
        packet.middles = packet.sent_by = source.select_path(
            packet.destination, packet.number, self.engine.now
        )
        if source.probe_due:
            source.probe_due = False
            self.send_later(self.new_ack(PacketKind.PROBE, packet.source, packet.destination))

    def target(self, packet: Packet) -> int:
        """Where it is bound next: an intermediate, or its host."""
        for middle in packet.middles[packet.header :]:
            if middle != NONE:
                return middle
        return super().target(packet)

    def link_for(self, packet: Packet, router: int) -> int:
        """Its header goes on past intermediates that are here, or left out."""
        while packet.header < 2 and packet.middles[packet.header] in (NONE, router):
            packet.header += 1
        return super().link_for(packet, router)

    def is_down(self, link: int) -> bool:
        """Whether the link's cable has failed."""
        return int(self.links.cable[link]) in self.engine.down

    def channel_for(self, buffer: Buffer) -> int:
        """The channel for the head of the buffer; round a dead link by an escape path (Algorithm 3.1)."""
        own, packet = self.engine.own_link(buffer), buffer.here[0]
        if own != NONE and not self.is_down(own):
            return own
        link = own if own != NONE else self.link_for(packet, buffer.router)
        if self.is_down(link):
            self.notify_source(packet, link)
            self.escape(packet, buffer.router, int(self.links.cable[link]))
            link = self.link_for(packet, buffer.router)
        return int(self.links.entry[link])

    def escape(self, packet: Packet, router: int, cable: int) -> None:
        """Give the packet an escape path from this router; and a message the dead cable as its error flag."""
        cables = self.network.cables(self.network.out_links[router])
        escape = Escape(
            router=router,
            dead=frozenset(cables) & self.engine.down,
            came_over=packet.came_over,
            target=super().target(packet),
            message=packet.number,
            earlier=packet.escapes,
        )
        self.counters["escapes"] += 1
        middles = escape.choose(self.network)
        if middles is None:
            self.counters["escapes_without_way"] += 1
            middles = (escape.live_neighbour(self.network), NONE)
        if packet.tells_of_failures:
            packet.failed_cable = cable
        packet.middles, packet.header = middles, 0
        packet.escapes += 1

    def notify_source(self, packet: Packet, link: int) -> None:
        """The router before a dead link notifies the source of a message (or probe), once a message and cable."""
        cable = int(self.links.cable[link])
        if self.settings.notify_by_router and packet.tells_of_failures and packet.notified != cable:
            packet.notified = cable
            self.notified.add((link, packet.source))
            self.send_notice(
                PacketKind.FAILURE_ACK, int(self.links.start[link]), packet.source, cable
            )

    def new_ack(self, kind: PacketKind, source: int, destination: int) -> Packet:
        """An ACK, numbered on from the messages."""
        number = len(self.engine.messages) + self.acks
        self.acks += 1
        return Packet(number, source, destination, ACK_SIZE, self.engine.now, kind=kind)

    def send_notice(self, kind: PacketKind, router: int, host: int, cable: int) -> None:
        """A notice sets off from a router."""
        packet = self.new_ack(kind, router, host)
        packet.failed_cable = cable
        self.send_later(packet)

    def send_later(self, packet: Packet) -> None:
        """A notice or probe sets off after all that happens at this tick."""
        number = packet.number % NUMBERS
        self.notices[number] = packet
        self.engine.at(self.engine.now, EventKind.NOTICE, number)

    def hosts_of(self, router: int) -> list[int]:
        """The router's own hosts."""
        table = self.engine.model.routers
        found: list[int] = table.hosts[
            table.host_first[router] : table.host_first[router + 1]
        ].tolist()
        return found

    def passed(self, packet: Packet, buffer: Buffer) -> None:
        """Hosts of a router that a notification passes may learn from it (3.6.1)."""
        packet.came_over = int(self.links.cable[buffer.number // self.layout.lanes])
        if self.settings.reuse_notifications and packet.kind is PacketKind.FAILURE_ACK:
            for host in self.hosts_of(buffer.router):
                if host != packet.destination:
                    self.sources[host].record_failure(packet.failed_cable, self.engine.now)

    def reach_host(self, packet: Packet, sink: Buffer) -> None:
        """The packet counts when its tail is there."""
        sink.coming.append(packet)
        self.engine.at(packet.tail, EventKind.DELIVERY, sink.number)

    def finish(self, sink: Buffer) -> None:
        """A packet is whole at its host: a message is acknowledged, an ACK is read."""
        packet, now = sink.coming.popleft(), self.engine.now
        source = self.sources[packet.destination]
        if packet.is_data:
            self.engine.deliver(packet, now)
            self.acknowledge(packet)
        elif packet.kind is PacketKind.PROBE:
            self.acknowledge(packet)
        elif packet.kind is PacketKind.LATENCY_ACK:
            source.record_latency(packet.source, packet.sent_by, packet.latency)
        elif packet.kind is PacketKind.FAILURE_ACK:
            source.record_failure(packet.failed_cable, now)
        else:
            source.clear_failure(packet.failed_cable)

    def acknowledge(self, packet: Packet) -> None:
        """A latency ACK; for a message that escaped none, or a failure ACK where destinations notify (3.6.1)."""
        if packet.escapes and self.settings.notify_by_router:
            return
        kind = PacketKind.FAILURE_ACK if packet.escapes else PacketKind.LATENCY_ACK
        ack = self.new_ack(kind, packet.destination, packet.source)
        ack.failed_cable, ack.sent_by, ack.latency = (
            packet.failed_cable,
            packet.sent_by,
            self.engine.now - packet.entered if packet.is_data else 0,
        )
        self.engine.join(self.engine.buffers[self.layout.source_queue + 2 * ack.source + 1], ack)

    def cable_changed(self, link: int, down: bool) -> None:
        """Heads that ask for a dead link are routed anew; where a link works again, those in its output buffer are,
        too.

        Of a link that works again its router may notify hosts.
        """
        engine = self.engine
        if not down:
            if self.settings.link_up_by_router:
                self.notify_link_up(link)
            for lane in range(self.layout.lanes * self.layout.output_buffers):
                buffer = engine.behind(self.layout.links + link, lane)
                if buffer.wants not in (NONE, link):
                    engine.withdraw(buffer)
                    engine.ask(buffer)
            return
        if self.settings.notify_queued:
            self.notify_queued(link)
        for channel in dict.fromkeys((int(self.links.entry[link]), link)):
            for buffer in sorted(engine.channels[channel].askers, key=lambda b: b.rank):
                if buffer.wants == channel:
                    engine.withdraw(buffer)
                    engine.ask(buffer)
                    engine.wake(buffer.wants, engine.now)

    def notify_link_up(self, link: int) -> None:
        """Notify the hosts that the link's router had notified of its failure (3.6.2)."""
        for host in sorted(host for known, host in self.notified if known == link):
            self.notified.discard((link, host))
            self.send_notice(
                PacketKind.LINK_UP_ACK,
                int(self.links.start[link]),
                host,
                int(self.links.cable[link]),
            )

    def notify_queued(self, link: int) -> None:
        """Notify the sources of all packets that wait for the link in its router's data buffers (3.6.1)."""
        router, table = int(self.links.start[link]), self.engine.model.routers
        into = table.inputs[table.input_first[router] : table.input_first[router + 1]].tolist()
        into += [int(self.engine.hosts.uplink[host]) for host in self.hosts_of(router)]
        into += [self.layout.links + link] * self.layout.output_buffers
        for channel in into:
            for lane in range(self.layout.data_lanes):
                for packet in self.engine.behind(channel, lane).here:
                    if channel >= self.layout.links or self.link_for(packet, router) == link:
                        self.notify_source(packet, link)
