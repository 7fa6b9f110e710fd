"""Downloads in virtual time: the same sender and receiver as on the switches, the last mile as a queue of its rate."""

import heapq
import random
from collections.abc import Sequence

from testbed.download.measurements import DownloadMeasurements
from testbed.download.plan import FRAME_OVERHEAD_BYTES, RETURN_LABELS, DownloadPlan
from testbed.faults.impaired_link import ImpairedLink, queue_bytes
from topologies.network import reverse_of

QUEUE_PACKETS = 100


def simulate_download(plan: DownloadPlan) -> DownloadMeasurements:
    """Run the plan until the file is there and acknowledged, or its limit; the same plan gives the same
    measurements."""
    return _Run(plan).finish()


class _Run:
    def __init__(self, plan: DownloadPlan) -> None:
        self.plan = plan
        self.sender, self.receiver = plan.sender(), plan.receiver()
        self.chance = random.Random(plan.seed)
        self.events: list[tuple[float, int, str, bytes]] = []
        self.count = 0
        self.free_s = 0.0
        self.hop_s = 8 * (FRAME_OVERHEAD_BYTES + plan.parameters.symbol_bytes) / plan.last_rate_bps
        self.last = plan.network.link_index[plan.last_link]
        self.arrivals: list[float] = []
        self.dropped = 0
        self.impaired = _impaired(plan)

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
            at, _, place, data = heapq.heappop(self.events)
            if place == "last mile":
                self._carry((self.last,), data, at, to="sink")
            elif place == "sink":
                self.arrivals.append(at)
                self.receiver.receive(data, at)
            else:
                self.sender.receive(data)
        for packet in self.sender.packets_due(now):
            path = self.plan.forward.path_of(packet.label)
            self._carry(path.links[:-1], packet.data, now, to="last mile")
        for acknowledgement in self.receiver.acknowledgements_due(now):
            for label in RETURN_LABELS:
                self._carry(self.plan.backward.path_of(label).links, acknowledgement, now, to="source")

    def _carry(self, links: Sequence[int], data: bytes, now: float, *, to: str) -> None:
        """Over the links, to where it is dealt with when it comes: packets of short and long paths queue in the order
        in which they arrive."""
        times = [now]
        for index in links:
            times = [later for at in times for later in self._over(index, at, len(data))]
        for at in times:
            self.count += 1
            heapq.heappush(self.events, (at, self.count, to, data))

    def _over(self, index: int, at: float, size: int) -> list[float]:
        """When the copies of a packet that comes to a link then have crossed it."""
        if self._lost(index, at):
            return []
        times = [at]
        for start_s, stop_s, link in self.impaired.get(index, ()):
            if start_s <= at < stop_s:
                times = [later for one in times for later in link.offer(one, size + FRAME_OVERHEAD_BYTES)]
        delay_s = self.plan.network.links[index].delay_s
        return [left + delay_s for one in times if (left := self._queued(index, one)) is not None]

    def _queued(self, index: int, at: float) -> float | None:
        """When the packet leaves the queue of the last mile (at once, on another link); None where it is full."""
        if index != self.last:
            return at
        if self.free_s - at > QUEUE_PACKETS * self.hop_s:
            self.dropped += 1
            return None
        self.free_s = max(at, self.free_s) + self.hop_s
        return self.free_s

    def _lost(self, index: int, at: float) -> bool:
        link = self.plan.network.links[index].id
        for fault in self.plan.faults:
            back = (fault.link[1], fault.link[0], fault.link[2])
            hit = link == fault.link or (fault.direction == "both" and link == back)
            if hit and fault.kind != "impaired" and fault.start_s <= at < fault.stop_s:
                return fault.kind != "loss" or self.chance.random() < fault.loss_fraction
        return False


def _impaired(plan: DownloadPlan) -> dict[int, list[tuple[float, float, ImpairedLink]]]:
    """Link index -> from when to when it is impaired, and by what."""
    found: dict[int, list[tuple[float, float, ImpairedLink]]] = {}
    for number, fault in enumerate(plan.faults):
        ends = (fault.link,) if fault.direction == "forward" else (fault.link, reverse_of(fault.link))
        for link in ends if fault.kind == "impaired" else ():
            if link in plan.network.link_index:
                index = plan.network.link_index[link]
                room = queue_bytes(plan.network.links[index].capacity_bps)
                chain = ImpairedLink(fault.impaired_by, link, seed=plan.seed + number, queue_bytes=room)
                found.setdefault(index, []).append((fault.start_s, fault.stop_s, chain))
    return found
