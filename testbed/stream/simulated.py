"""The simulated fabric: runs streams in virtual time, without privileges.

Sender and receiver are those of the emulation. Packets take the paths of the plan's label
intervals, with the delays, impairments and faults of the links. The capacity of a link is no
bottleneck, unless the link has a rate trace: plans that would fill a link are rejected.
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

# Time from the movement of nodes to the first packet under the new split. The controller of the
# emulation takes about this time.
CHANGE_S = 0.3

# Time between two reports of progress, in virtual time.
_PROGRESS_INTERVAL_S = 0.5

# An arrival of a packet: its time, its number (so that no two arrivals compare equal), the packet
# of the stream (None for a loss report), its bytes, and its position on the path if it has reached
# an impaired link (None if it has reached its destination).
_Event = tuple[float, int, OutgoingPacket | None, bytes, PacketInTransit | None]


class SimulatedStreamFabric:
    """Runs streams in virtual time. Runs of equal plans have equal measurements.

    Args:
        sender: Builds the sender of a plan.
    """

    name = "simulator"

    def __init__(self, sender: Callable[[StreamPlan], StreamSender] = build_sender) -> None:
        self._sender = sender

    def run(
        self, plan: StreamPlan, progress: Callable[[Progress], None] | None = None
    ) -> StreamMeasurements:
        """Run the plan in virtual time.

        A packet or event takes about 10 us of real time.

        Raises:
            RuntimeError: The counters of the ends contradict the packet logs. No machine is late in
                virtual time, so the testbed itself has an error.
        """
        measurements = _Run(plan, self._sender(plan)).finish(progress)
        contradiction = miscounted(RunFacts(plan, measurements))
        if contradiction is not None:
            raise RuntimeError(f"a run in virtual time contradicts itself: {contradiction}")
        return measurements

    def run_concurrently(
        self, plans: Sequence[StreamPlan], progress: Callable[[Progress], None] | None = None
    ) -> tuple[StreamMeasurements, ...]:
        """Run several streams under the same faults.

        The links have capacity for all, so the streams do not affect each other.
        """
        check_concurrent(plans)
        return tuple(self.run(plan, progress) for plan in plans)


class _Run:
    """One run of a plan in virtual time.

    The methods that run for every packet take several steps at once, because calls are a large part
    of the cost.
    """

    def __init__(self, plan: StreamPlan, sender: StreamSender) -> None:
        self.plan = plan
        self.sender = sender
        self.receiver = build_receiver(plan)
        self.content = ContentCheck(plan)
        self.rng = random.Random(plan.seed * 7919 + 17)
        self.events: list[_Event] = []
        self.event_count = 0
        self.sent = SentLog()
        self.received = ReceivedLog()
        breaks = _breaks_by_link(plan)
        backward_splits = (plan.backward, *(change.backward for change in plan.changes))
        self.forward_paths = _SplitPaths(plan, plan.splits)
        self.backward_paths = _SplitPaths(plan, backward_splits)
        self.links = ImpairedPaths(plan.network, plan.faults, plan.seed, breaks, self.rng)

    def finish(self, report_progress: Callable[[Progress], None] | None) -> StreamMeasurements:
        """Run the stream to its end and return the measurements."""
        plan = self.plan
        now_s = 0.0
        reported_s = 0.0
        source_end_s = plan.duration_s - plan.stream.playback_s
        while True:
            now_s = max(now_s, self._next_s())
            if now_s > plan.duration_s:
                break
            if now_s >= source_end_s:
                self.sender.finish_source()
            self._step(now_s)
            if report_progress is not None and now_s - reported_s >= _PROGRESS_INTERVAL_S:
                reported_s = now_s
                report_progress(self._progress(now_s))
        self.content.take(self.receiver.advance(plan.duration_s))
        sent = self.sent.packets()
        received = self.received.packets()
        faults = []
        for fault in plan.faults:
            faults.append(FaultTimes(fault=fault, start_s=fault.start_s, stop_s=fault.stop_s))
        return StreamMeasurements(
            fabric="simulator",
            sent=sent,
            received=received,
            blocks=block_outcomes(
                sent, received, plan.stream.source_packets, plan.stream.playback_s
            ),
            faults=tuple(faults),
            changes=change_times(plan),
            health=RunHealth(sender_lag_s=0.0, unplanned_drops=0),
            counters={**sender_counters(self.sender), **self.content.counters(self.receiver)},
        )

    def _progress(self, now_s: float) -> Progress:
        active_faults = []
        for fault in self.plan.faults:
            if fault.start_s <= now_s < fault.stop_s:
                active_faults.append(describe(fault))
        reading = CounterReading(
            at_s=now_s,
            sent=len(self.sent),
            received=len(self.received),
            block_size=int(self.sent.values[-1]) if self.sent else None,
            faults=tuple(active_faults),
        )
        return Progress(
            done_s=now_s,
            total_s=self.plan.duration_s,
            doing="in virtual time",
            reading=reading,
        )

    def _next_s(self) -> float:
        """Return the time of the next arrival, packet or deadline."""
        arrival_s = self.events[0][0] if self.events else math.inf
        return min(arrival_s, self.sender.next_due_s(), self.receiver.next_deadline_s())

    def _step(self, now_s: float) -> None:
        """Process the arrivals until now, and then what both ends send."""
        events = self.events
        receiver = self.receiver
        sender = self.sender
        while events and events[0][0] <= now_s:
            at_s, _, packet, data, transit = heapq.heappop(events)
            if transit is not None:
                self._forward(transit, at_s, packet, data)
            elif packet is not None:
                self.received.add(at_s, packet.block, packet.symbol)
                self.content.take(receiver.receive(data, at_s))
            else:
                sender.receive(data, at_s)
        if sender.next_due_s() <= now_s:
            for packet in sender.packets_due(now_s):
                self.sent.add(
                    now_s,
                    packet.due_s,
                    packet.block,
                    packet.symbol,
                    packet.label,
                    packet.block_size,
                )
                self._send(self.forward_paths, packet.label, packet.data, now_s, packet)
        if closed_blocks := receiver.advance(now_s):
            self.content.take(closed_blocks)
        for report in receiver.reports_due(now_s):
            for label in RETURN_LABELS:
                self._send(self.backward_paths, label, report, now_s, None)

    def _send(
        self,
        paths: _SplitPaths,
        label: int,
        data: bytes,
        now_s: float,
        packet: OutgoingPacket | None,
    ) -> None:
        """Send a packet of the stream, or a loss report if ``packet`` is None."""
        frame_bytes = len(data) + FRAME_HEADERS_BYTES
        transit = PacketInTransit(paths.links_of(label, now_s), 0, frame_bytes)
        self._forward(transit, now_s, packet, data)

    def _forward(
        self, transit: PacketInTransit, at_s: float, packet: OutgoingPacket | None, data: bytes
    ) -> None:
        """Forward a packet to its destination, or to the next impaired link of its path."""
        for arrival_s, next_transit in self.links.next_hop_times(transit, at_s, at_s):
            self.event_count += 1
            remaining = None if next_transit.arrived else next_transit
            heapq.heappush(self.events, (arrival_s, self.event_count, packet, data, remaining))


class _SplitPaths:
    """The paths of the label splits of one direction, which are active one after another."""

    def __init__(self, plan: StreamPlan, splits: tuple[LabelSplit, ...]) -> None:
        self._starts_s = [-1.0, *(times.switch_start_s for times in change_times(plan))]
        self._links: list[list[tuple[int, ...]]] = []
        for split in splits:
            links_of_paths = [path.links for path in split.paths]
            self._links.append(split.per_label(links_of_paths))

    def links_of(self, label: int, now_s: float) -> tuple[int, ...]:
        """Return the links of the path that a packet with this label takes now."""
        return self._links[bisect.bisect_right(self._starts_s, now_s) - 1][label]


def change_times(plan: StreamPlan) -> tuple[ChangeTimes, ...]:
    """Return when the simulated controller makes each change.

    It does so CHANGE_S after the nodes have moved, or after half a frame if that is less.
    """
    move_times_s = [change.at_s for change in plan.changes]
    changes = []
    for moved_s, next_s in pairwise([*move_times_s, plan.duration_s]):
        switch_s = moved_s + min(CHANGE_S, (next_s - moved_s) / 2)
        changes.append(
            ChangeTimes(
                began_s=moved_s,
                links_s=moved_s if plan.handover == "after" else switch_s,
                switch_start_s=switch_s,
                switch_stop_s=switch_s,
                done_s=switch_s,
            )
        )
    return tuple(changes)


def _breaks_by_link(plan: StreamPlan) -> dict[int, list[Break]]:
    """Return for each link when it is broken by a fault or absent, in order of the start."""
    breaks = breaks_by_faults(plan.network, plan.faults)
    absent_since_s = dict.fromkeys(plan.absent, -1.0)
    for change, times in zip(plan.changes, change_times(plan), strict=True):
        for link in change.appeared:
            absence = Break(absent_since_s.pop(link), times.began_s, 1.0)
            breaks.setdefault(plan.network.link_index[link], []).append(absence)
        absent_since_s |= dict.fromkeys(change.vanished, times.links_s)
    for link, since_s in absent_since_s.items():
        absence = Break(since_s, math.inf, 1.0)
        breaks.setdefault(plan.network.link_index[link], []).append(absence)
    return breaks
