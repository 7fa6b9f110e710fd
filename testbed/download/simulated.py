"""Downloads in virtual time: the same sender and receiver as on the switches, the last mile as a queue of its rate."""

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

QUEUE_PACKETS = 100


def simulate_download(plan: DownloadPlan, _: ReportProgress | None = None) -> DownloadMeasurements:
    """Run the plan until the file is there and acknowledged, or its limit; the same plan gives the same
    measurements."""
    return _Run(plan).finish()


class _Run:
    def __init__(self, plan: DownloadPlan) -> None:
        self.plan = plan
        self.sender, self.receiver = plan.sender(), plan.receiver()
        self.chance = random.Random(plan.seed)
        self.events: list[tuple[float, int, str, PacketInTransit, bytes]] = []
        self.count = 0
        self.free_s = 0.0
        self.hop_s = (
            8 * (FRAME_OVERHEAD_BYTES + plan.parameters.symbol_bytes) / plan.last_mile_rate_bps
        )
        self.arrivals: list[float] = []
        self.dropped = 0
        breaks = breaks_by_faults(plan.network, plan.faults)
        self.paths = ImpairedPaths(plan.network, plan.faults, plan.seed, breaks, self.chance)

    def finish(self) -> DownloadMeasurements:
        now, ended = 0.0, None
        while not self.sender.done and now < self.plan.limit_s:
            arrival = self.events[0][0] if self.events else float("inf")
            now = max(now, min(arrival, self.sender.next_due_s(), self.receiver.next_deadline_s()))
            self._step(now)
            if ended is None and self.receiver.done:
                ended = now
        return DownloadMeasurements(
            fabric="simulator",
            seconds=ended,
            sent=self.sender.sent,
            received=self.receiver.received,
            verified=self.receiver.file == self.plan.file(),
            arrivals_s=tuple(self.arrivals),
            counters={**self.receiver.counters, "queue_drops": self.dropped},
        )

    def _step(self, now: float) -> None:
        while self.events and self.events[0][0] <= now:
            at, _, to, place, data = heapq.heappop(self.events)
            if not place.arrived:
                self._travel(place, data, at, to=to)
            elif to == "last mile":
                self._enqueue(data, at)
            elif to == "sink":
                self.arrivals.append(at)
                self.receiver.receive(data, at)
            else:
                self.sender.receive(data)
        for packet in self.sender.packets_due(now):
            self._carry(
                self.plan.forward.path_of(packet.label).links, packet.data, now, to="last mile"
            )
        for acknowledgement in self.receiver.acknowledgements_due(now):
            for label in RETURN_LABELS:
                self._carry(
                    self.plan.backward.path_of(label).links, acknowledgement, now, to="source"
                )

    def _carry(self, links: tuple[int, ...], data: bytes, now: float, *, to: str) -> None:
        """Over the links, to where it is dealt with when it comes: packets of short and long paths queue in the order
        in which they arrive."""
        self._travel(PacketInTransit(links, 0, len(data) + FRAME_OVERHEAD_BYTES), data, now, to=to)

    def _travel(self, packet: PacketInTransit, data: bytes, now: float, *, to: str) -> None:
        for at, place in self.paths.next_hop_times(packet, now, now):
            self._push(at, to, place, data)

    def _enqueue(self, data: bytes, at: float) -> None:
        """In the queue of the last mile, if there is room."""
        if self.free_s - at > QUEUE_PACKETS * self.hop_s:
            self.dropped += 1
            return
        self.free_s = max(at, self.free_s) + self.hop_s
        self._push(self.free_s, "sink", PacketInTransit((), 0, 0), data)

    def _push(self, at: float, to: str, place: PacketInTransit, data: bytes) -> None:
        self.count += 1
        heapq.heappush(self.events, (at, self.count, to, place, data))
