"""The simulated fabric: runs a streaming plan in virtual time over the plan's own label intervals, without any
privilege.

The same sender and receiver as on the switches; links have their delays, impairments and faults, and capacity is not a
bottleneck (plans that would fill a link are refused when they are built) but for that of a rate trace.
"""

from __future__ import annotations

import bisect
import heapq
import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise

from fec.protocol.sender import OutgoingPacket, StreamSender
from testbed.faults.fault import ChangeTimes, FaultTimes, describe
from testbed.model.label_split import LabelSplit
from testbed.model.progress import CounterReading, Progress
from testbed.stream.endpoints import ContentCheck, build_receiver, build_sender, sender_counters
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.paths import (
    FRAME_HEADERS_BYTES,
    Break,
    ImpairedPaths,
    PacketInTransit,
    breaks_by_faults,
)
from testbed.stream.judgement.end_counters import miscounted
from testbed.stream.judgement.packet_logs import ReceivedLog, SentLog, block_outcomes
from testbed.stream.measurements import RunHealth, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import check_concurrent
from testbed.stream.prediction.active_faults import RETURN_LABELS

CHANGE_S = 0.3
"""From the moment at which nodes have moved to the first packet under the new split: what a controller takes on this
scale."""


_Event = tuple[float, int, OutgoingPacket | None, bytes, PacketInTransit | None]
"""When it arrives, its number (so that no two are alike), the packet of the stream (None: a loss report on its way
back), its bytes, and its journey where it has only come to an impaired link."""


class SimulatedStreamFabric:
    """``run`` gives the same measurements for the same plan, always. ``sender``: what stands at the source, by the
    plan."""

    name = "simulator"

    def __init__(self, sender: Callable[[StreamPlan], StreamSender] = build_sender) -> None:
        self._sender = sender

    def run(
        self, plan: StreamPlan, progress: Callable[[Progress], None] | None = None
    ) -> StreamMeasurements:
        """Run the plan in virtual time. Cost: about 10 us of real time a packet and event.

        Raises:
            RuntimeError: The ends counted something that contradicts the logs of packets. No
                machine is late in virtual time, so the testbed itself has an error.
        """
        measurements = _Run(plan, self._sender(plan)).finish(progress)
        contradiction = miscounted(RunFacts(plan, measurements))
        if contradiction is not None:
            raise RuntimeError(f"a run in virtual time contradicts itself: {contradiction}")
        return measurements

    def run_concurrently(
        self, plans: Sequence[StreamPlan], progress: Callable[[Progress], None] | None = None
    ) -> tuple[StreamMeasurements, ...]:
        """Several streams under the same faults; links have room for all, so that they do not meet."""
        check_concurrent(plans)
        return tuple(self.run(plan, progress) for plan in plans)


class _Run:
    def __init__(self, plan: StreamPlan, sender: StreamSender) -> None:
        self.plan = plan
        self.sender = sender
        self.receiver = build_receiver(plan)
        self.content = ContentCheck(plan)
        self.chance = random.Random(plan.seed * 7919 + 17)
        self.events: list[_Event] = []
        self.count = 0
        self.sent, self.received = SentLog(), ReceivedLog()
        breaks = _breaks(plan)
        backward = (plan.backward, *(change.backward for change in plan.changes))
        self.paths = _SplitPaths(plan, plan.splits), _SplitPaths(plan, backward)
        self.links = ImpairedPaths(plan.network, plan.faults, plan.seed, breaks, self.chance)

    def finish(self, progress: Callable[[Progress], None] | None) -> StreamMeasurements:
        plan, now, reported = self.plan, 0.0, 0.0
        source_ends = plan.duration_s - plan.stream.playback_s
        while True:
            now = max(now, self._next_s())
            if now > plan.duration_s:
                break
            if now >= source_ends:
                self.sender.finish_source()
            self._step(now)
            if progress is not None and now - reported >= 0.5:
                reported = now
                progress(
                    Progress(
                        done_s=now,
                        total_s=plan.duration_s,
                        doing="in virtual time",
                        reading=self._reading(now),
                    )
                )
        self.content.take(self.receiver.advance(plan.duration_s))
        sent, received = self.sent.packets(), self.received.packets()
        return StreamMeasurements(
            fabric="simulator", sent=sent, received=received,
            blocks=block_outcomes(sent, received, plan.stream.source_packets, plan.stream.playback_s),
            faults=tuple(FaultTimes(fault=f, start_s=f.start_s, stop_s=f.stop_s) for f in plan.faults),
            changes=change_times(plan), health=RunHealth(sender_lag_s=0.0, unplanned_drops=0),
            counters={**sender_counters(self.sender), **self.content.counters(self.receiver)},
        )  # fmt: skip

    def _reading(self, now: float) -> CounterReading:
        return CounterReading(
            at_s=now,
            sent=len(self.sent),
            received=len(self.received),
            block_size=int(self.sent.values[-1]) if self.sent else None,
            faults=tuple(describe(f) for f in self.plan.faults if f.start_s <= now < f.stop_s),
        )

    def _next_s(self) -> float:
        arrival = self.events[0][0] if self.events else math.inf
        return min(arrival, self.sender.next_due_s(), self.receiver.next_deadline_s())

    def _step(self, now: float) -> None:
        events, receiver, sender = self.events, self.receiver, self.sender
        while events and events[0][0] <= now:
            at_s, _, packet, data, journey = heapq.heappop(events)
            if journey is not None:
                self._travel(journey, at_s, (packet, data))
            elif packet is not None:
                self.received.add(at_s, packet.block, packet.symbol)
                self.content.take(receiver.receive(data, at_s))
            else:
                sender.receive(data, at_s)
        if sender.next_due_s() <= now:
            for packet in sender.packets_due(now):
                self._send_stream(packet, now)
        if closed := receiver.advance(now):
            self.content.take(closed)
        for report in receiver.reports_due(now):
            for label in RETURN_LABELS:
                self._carry(self.paths[1], label, report, now)

    def _send_stream(self, packet: OutgoingPacket, now: float) -> None:
        self.sent.add(
            now, packet.due_s, packet.block, packet.symbol, packet.label, packet.block_size
        )
        self._carry(self.paths[0], packet.label, packet.data, now, packet)

    def _carry(
        self,
        paths: _SplitPaths,
        label: int,
        data: bytes,
        now: float,
        packet: OutgoingPacket | None = None,
    ) -> None:
        begin = PacketInTransit(paths.links_of(label, now), 0, len(data) + FRAME_HEADERS_BYTES)
        self._travel(begin, now, (packet, data))

    def _travel(
        self, journey: PacketInTransit, at_s: float, carried: tuple[OutgoingPacket | None, bytes]
    ) -> None:
        """On from where the packet is now, to its end or to the next impaired link that it comes to."""
        for later, place in self.links.next_hop_times(journey, at_s, at_s):
            self.count += 1
            heapq.heappush(
                self.events, (later, self.count, *carried, None if place.arrived else place)
            )


class _SplitPaths:
    """The paths of one direction's label splits, one after another in force."""

    def __init__(self, plan: StreamPlan, splits: tuple[LabelSplit, ...]) -> None:
        self.since = [-1.0, *(times.switch_start_s for times in change_times(plan))]
        self.links: list[list[tuple[int, ...]]] = []
        for split in splits:
            links_of_paths = [path.links for path in split.paths]
            self.links.append(split.per_label(links_of_paths))

    def links_of(self, label: int, now: float) -> tuple[int, ...]:
        """The links of the path that a packet with this label takes now."""
        return self.links[bisect.bisect_right(self.since, now) - 1][label]


def change_times(plan: StreamPlan) -> tuple[ChangeTimes, ...]:
    """When the simulated controller makes each change: CHANGE_S after the nodes have moved (or half a frame, if that is
    less)."""
    moments = [change.at_s for change in plan.changes]
    found = []
    for at, after in pairwise([*moments, plan.duration_s]):
        switch = at + min(CHANGE_S, (after - at) / 2)
        links = at if plan.handover == "after" else switch
        found.append(
            ChangeTimes(
                began_s=at,
                links_s=links,
                switch_start_s=switch,
                switch_stop_s=switch,
                done_s=switch,
            )
        )
    return tuple(found)


def _breaks(plan: StreamPlan) -> dict[int, list[Break]]:
    """Link index -> when faults are in force on it or it is out of reach, in order of their beginnings."""
    found = breaks_by_faults(plan.network, plan.faults)
    gone = dict.fromkeys(plan.absent, -1.0)
    for change, times in zip(plan.changes, change_times(plan), strict=True):
        for link in change.appeared:
            found.setdefault(plan.network.link_index[link], []).append(
                Break(gone.pop(link), times.began_s, 1.0)
            )
        gone |= dict.fromkeys(change.vanished, times.links_s)
    for link, since in gone.items():
        found.setdefault(plan.network.link_index[link], []).append(Break(since, math.inf, 1.0))
    return found
