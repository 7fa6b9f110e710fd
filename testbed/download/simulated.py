"""Simulates downloads in virtual time, with the same sender and receiver as on switches.

The last mile is a queue that is served at its rate.
"""

import heapq
import random

from testbed.download.plan import (
    FRAME_OVERHEAD_BYTES,
    RETURN_LABELS,
    DownloadMeasurements,
    DownloadPlan,
)
from testbed.model.progress import ReportProgress
from testbed.stream.impaired.paths import ImpairedPaths, PacketInTransit, breaks_by_faults

# Length of the queue before the last mile.
QUEUE_PACKETS = 100


def simulate_download(plan: DownloadPlan, _: ReportProgress | None = None) -> DownloadMeasurements:
    """Simulate a download until the file is acknowledged, or until the limit of the plan.

    Equal plans give equal measurements.
    """
    return _Run(plan).finish()


class _Run:
    """The state of a simulated download."""

    def __init__(self, plan: DownloadPlan) -> None:
        self.plan = plan
        self.sender = plan.sender()
        self.receiver = plan.receiver()
        rng = random.Random(plan.seed)
        # Time (s), number of the event, destination, the packet on its path, its data.
        self.events: list[tuple[float, int, str, PacketInTransit, bytes]] = []
        self.count = 0
        # When the last mile has sent its queue.
        self.free_s = 0.0
        packet_bits = 8 * (FRAME_OVERHEAD_BYTES + plan.parameters.symbol_bytes)
        self.packet_s = packet_bits / plan.last_mile_rate_bps
        self.arrivals: list[float] = []
        self.dropped = 0
        breaks = breaks_by_faults(plan.network, plan.faults)
        self.paths = ImpairedPaths(plan.network, plan.faults, plan.seed, breaks, rng)

    def finish(self) -> DownloadMeasurements:
        """Run the simulation, and return its measurements."""
        now_s = 0.0
        complete_s = None
        while not self.sender.done and now_s < self.plan.limit_s:
            next_s = min(self.sender.next_due_s(), self.receiver.next_deadline_s())
            if self.events:
                next_s = min(next_s, self.events[0][0])
            now_s = max(now_s, next_s)
            self._step(now_s)
            if complete_s is None and self.receiver.done:
                complete_s = now_s
        return DownloadMeasurements(
            fabric="simulator",
            seconds=complete_s,
            sent=self.sender.sent,
            received=self.receiver.received,
            verified=self.receiver.file == self.plan.file(),
            arrivals_s=tuple(self.arrivals),
            counters={**self.receiver.counters, "queue_drops": self.dropped},
        )

    def _step(self, now_s: float) -> None:
        """Process everything that is due now: arrivals first, then the timers of both ends."""
        while self.events and self.events[0][0] <= now_s:
            at_s, _, destination, packet_in_transit, data = heapq.heappop(self.events)
            if not packet_in_transit.arrived:
                self._forward(packet_in_transit, data, at_s, destination)
            elif destination == "last mile":
                self._enqueue(data, at_s)
            elif destination == "sink":
                self.arrivals.append(at_s)
                self.receiver.receive(data, at_s)
            else:
                self.sender.receive(data)
        for packet in self.sender.packets_due(now_s):
            links = self.plan.forward.path_of(packet.label).links
            self._transmit(links, packet.data, now_s, "last mile")
        for acknowledgement in self.receiver.acknowledgements_due(now_s):
            for label in RETURN_LABELS:
                links = self.plan.backward.path_of(label).links
                self._transmit(links, acknowledgement, now_s, "source")

    def _transmit(
        self,
        links: tuple[int, ...],
        data: bytes,
        now_s: float,
        destination: str,
    ) -> None:
        """Put a packet on the first link of its path.

        Packets join the queue of the last mile when they arrive, not when they are sent, because
        paths differ in length.
        """
        packet = PacketInTransit(links, 0, len(data) + FRAME_OVERHEAD_BYTES)
        self._forward(packet, data, now_s, destination)

    def _forward(
        self,
        packet: PacketInTransit,
        data: bytes,
        now_s: float,
        destination: str,
    ) -> None:
        """Schedule the packet's arrival after the next link, unless that link drops it."""
        for at_s, next_packet in self.paths.next_hop_times(packet, now_s, now_s):
            self._schedule(at_s, destination, next_packet, data)

    def _enqueue(self, data: bytes, at_s: float) -> None:
        """Append a packet to the queue of the last mile, or drop it if the queue is full."""
        if self.free_s - at_s > QUEUE_PACKETS * self.packet_s:
            self.dropped += 1
            return
        self.free_s = max(at_s, self.free_s) + self.packet_s
        self._schedule(self.free_s, "sink", PacketInTransit((), 0, 0), data)

    def _schedule(
        self,
        at_s: float,
        destination: str,
        packet: PacketInTransit,
        data: bytes,
    ) -> None:
        self.count += 1
        heapq.heappush(self.events, (at_s, self.count, destination, packet, data))
