"""The simulated fabric: runs a streaming plan in virtual time over the plan's own label intervals, without any privilege.

The same sender and receiver as on the switches; links have their delays and faults, and capacity is not a bottleneck
(plans that would fill a link are refused when they are built).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from fec.sender import OutgoingPacket
from fec.wire import decode_header
from testbed.fabric import Progress
from testbed.model.label_split import LabelSplit
from testbed.model.measurements import FaultTimes, RunHealth, StreamMeasurements
from testbed.model.plan import Fault, StreamPlan
from testbed.streaming.endpoints import ContentCheck, build_receiver, build_sender, sender_counters
from testbed.streaming.recording import ReceivedLog, SentLog, block_outcomes

_RETURN_LABELS = (16384, 49152)
"""One label in each half of the label space: the two return paths."""


@dataclass(order=True)
class _Event:
    at_s: float
    order: int
    to_sink: bool = field(compare=False)
    data: bytes = field(compare=False)


class SimulatedStreamFabric:
    """``run`` gives the same measurements for the same plan, always."""

    name = "simulator"

    def run(self, plan: StreamPlan, progress: Callable[[Progress], None] | None = None) -> StreamMeasurements:
        """Run the plan in virtual time. Cost: about 10 us of real time a packet and event."""
        return _Run(plan).finish(progress)


class _Run:
    def __init__(self, plan: StreamPlan) -> None:
        self.plan = plan
        self.sender = build_sender(plan)
        self.receiver = build_receiver(plan)
        self.content = ContentCheck(plan)
        self.chance = random.Random(plan.seed * 7919 + 17)
        self.events: list[_Event] = []
        self.count = 0
        self.sent, self.received = SentLog(), ReceivedLog()
        self.ways = (_Ways(plan, plan.forward), _Ways(plan, plan.backward))

    def finish(self, progress: Callable[[Progress], None] | None) -> StreamMeasurements:
        plan, now, told = self.plan, 0.0, 0.0
        source_ends = plan.duration_s - plan.stream.playback_s
        while True:
            now = max(now, self._next_s())
            if now > plan.duration_s:
                break
            if now >= source_ends:
                self.sender.finish_source()
            self._step(now)
            if progress is not None and now - told >= 0.5:
                told = now
                progress(Progress(done_s=now, total_s=plan.duration_s, doing="streaming in virtual time"))
        self.content.take(self.receiver.advance(plan.duration_s))
        sent, received = self.sent.packets(), self.received.packets()
        return StreamMeasurements(
            fabric="simulator",
            sent=sent,
            received=received,
            blocks=block_outcomes(sent, received, plan.stream.source_packets, plan.stream.playback_s),
            faults=tuple(FaultTimes(fault=f, start_s=f.start_s, stop_s=f.stop_s) for f in plan.faults),
            health=RunHealth(sender_lag_s=0.0, unplanned_drops=0),
            counters={**sender_counters(self.sender), **self.content.counters(self.receiver)},
        )

    def _next_s(self) -> float:
        arrival = self.events[0].at_s if self.events else float("inf")
        return min(arrival, self.sender.next_due_s(), self.receiver.next_deadline_s())

    def _step(self, now: float) -> None:
        while self.events and self.events[0].at_s <= now:
            event = heapq.heappop(self.events)
            if event.to_sink:
                header = decode_header(event.data)
                self.received.add(event.at_s, header.source_block_number, header.encoding_symbol_id)
                self.content.take(self.receiver.receive(event.data, event.at_s))
            else:
                self.sender.receive(event.data, event.at_s)
        for packet in self.sender.packets_due(now):
            self._send_stream(packet, now)
        self.content.take(self.receiver.advance(now))
        for report in self.receiver.reports_due(now):
            for label in _RETURN_LABELS:
                self._carry(self.ways[1], label, report, now, to_sink=False)

    def _send_stream(self, packet: OutgoingPacket, now: float) -> None:
        self.sent.add(now, packet.due_s, packet.block, packet.symbol, packet.label, packet.block_size)
        self._carry(self.ways[0], packet.label, packet.data, now, to_sink=True)

    def _carry(self, ways: _Ways, label: int, data: bytes, now: float, *, to_sink: bool) -> None:
        arrival = ways.arrival_s(label, now, self.chance)
        if arrival is not None:
            self.count += 1
            heapq.heappush(self.events, _Event(arrival, self.count, to_sink, data))


class _Ways:
    """The paths of one label split with the faults that touch their links."""

    def __init__(self, plan: StreamPlan, split: LabelSplit) -> None:
        self.split = split
        self.links = plan.network.links
        self.faults: dict[int, list[Fault]] = {}
        for fault in plan.faults:
            for index in _faulty_links(plan, fault):
                self.faults.setdefault(index, []).append(fault)

    def arrival_s(self, label: int, now: float, chance: random.Random) -> float | None:
        """When a packet sent now arrives, or None where a fault on its way takes it."""
        at = now
        for index in self.split.path_of(label).links:
            for fault in self.faults.get(index, ()):
                if fault.start_s <= at < fault.stop_s and (
                    fault.kind != "loss" or chance.random() < fault.loss_fraction
                ):
                    return None
            at += self.links[index].delay_s
        return at


def _faulty_links(plan: StreamPlan, fault: Fault) -> list[int]:
    ids = [fault.link]
    if fault.direction == "both":
        ids.append((fault.link[1], fault.link[0], fault.link[2]))
    return [plan.network.link_index[i] for i in ids if i in plan.network.link_index]
