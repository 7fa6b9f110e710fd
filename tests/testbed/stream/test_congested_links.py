"""A sender on links that other traffic fills: it answers a failure, and adds nothing to a queue of its own making."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import testbed
from fec.protocol.receiver_types import SourceDelivered
from fec.redundancy.congestion import CongestionBreaker
from testbed.faults.fault import Fault
from testbed.stream.endpoints import build_receiver, build_sender
from testbed.stream.impaired.paths import FRAME_HEADERS_BYTES
from testbed.stream.judgement.streams import judge_stream
from testbed.stream.planning import HEADERS_BYTES
from testbed.stream.prediction.active_faults import RETURN_LABELS
from testbed.stream.simulated import SimulatedStreamFabric

OTHERS_BYTES, QUEUE_S = 1000, 0.05
FAULT = Fault(link=("s1", "s6", 0), start_s=3.0, stop_s=8.0)


class _Queue:
    """A queue of 50 ms that turns the newest packet away, shared with other packets that come at random."""

    def __init__(self, rate_bps: float, others_bps: float, seed: int) -> None:
        self.rate, self.most = rate_bps / 8, rate_bps / 8 * QUEUE_S
        self.every_s = 8 * OTHERS_BYTES / others_bps if others_bps > 0 else math.inf
        self.chance = random.Random(seed)
        self.next_s, self.at_s, self.level = self.every_s * self.chance.random(), 0.0, 0.0
        self.others = self.others_lost = 0

    def pass_on(self, now: float, size: int) -> float | None:
        now = max(now, self.at_s)
        while self.next_s <= now:
            self.others += 1
            self.others_lost += not self._take(self.next_s, OTHERS_BYTES)
            self.next_s += self.every_s * (0.5 + self.chance.random())
        return now + self.level / self.rate if self._take(now, size) else None

    def _take(self, at_s: float, size: int) -> bool:
        self.level, self.at_s = max(0.0, self.level - (at_s - self.at_s) * self.rate), at_s
        fits = self.level + size <= self.most
        self.level += size * fits
        return fits


class _Found(NamedTuple):
    sizes: list[tuple[float, int]]
    lost: int
    others_lost: float
    delivered: float

    def most(self, from_s: float = 0.0) -> int:
        return max(size for at_s, size in self.sizes if at_s >= from_s)


def streamed(load: float) -> _Found:
    """A stream over Swiss-T1 of 12 s, its links loaded so with others' packets and its own at rest; one cable that
    carries a quarter is cut for 5 s."""
    plan = testbed.stream_plan(
        "swiss-t1", "s1", "s6", faults=[FAULT], symbol_bytes=1000, duration_s=12.0
    )
    sender, receiver, links = build_sender(plan), build_receiver(plan), plan.network.links
    own_bps = (
        plan.stream.rate_pps
        * sender.block_size
        / 20
        * (plan.stream.symbol_bytes + HEADERS_BYTES)
        * 8
    )
    queues = {
        i: _Queue(
            links[i].capacity_bps,
            load * links[i].capacity_bps - own_bps * float(plan.forward.load(i)),
            i,
        )
        for i in plan.forward.loaded
    }
    there, back = (
        split.per_label(path.links for path in split.paths)
        for split in (plan.forward, plan.backward)
    )
    events: list[Any] = []
    sizes: list[tuple[float, int]] = []
    now, count, lost, came = 0.0, 0, 0, 0

    def send(data: bytes, way: tuple[int, ...], at_s: float, reporting: bool = False) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (at_s, count, data, way, reporting))

    while now < plan.duration_s:
        due = events[0][0] if events else math.inf
        now = max(now, min(due, sender.next_due_s(), receiver.next_deadline_s(), plan.duration_s))
        if now >= plan.duration_s - plan.stream.playback_s:
            sender.finish_source()
        while events and events[0][0] <= now:
            at_s, _, data, way, reporting = heapq.heappop(events)
            if (
                way
                and {links[way[0]].source, links[way[0]].target} == {"s1", "s6"}
                and 3 <= at_s < 8
            ):
                continue
            if way:
                left_s = (
                    at_s
                    if reporting
                    else queues[way[0]].pass_on(at_s, len(data) + FRAME_HEADERS_BYTES)
                )
                lost += left_s is None
                if left_s is not None:
                    send(data, way[1:], left_s, reporting)
            elif reporting:
                sender.receive(data, at_s)
            else:
                came += sum(
                    isinstance(one, SourceDelivered) for one in receiver.receive(data, at_s)
                )
        for packet in sender.packets_due(now):
            sizes.append((now, packet.block_size))
            send(packet.data, there[packet.label], now)
        came += sum(isinstance(one, SourceDelivered) for one in receiver.advance(now))
        for report in receiver.reports_due(now):
            for label in RETURN_LABELS:
                send(report, back[label], now, reporting=True)
    others = sum(queue.others for queue in queues.values())
    gone = sum(queue.others_lost for queue in queues.values()) / max(1, others)
    return _Found(sizes, lost, gone, came / sender.counters["source"])


def test_late_parity_is_not_judged_if_tcp_fills_queues() -> None:
    plan = testbed.stream_plan("ring:4", "s0", "s2", faults=["s0->s1@2-4"], duration_s=6.0)
    run = SimulatedStreamFabric().run(plan)
    beside = replace(run, counters={**run.counters, "background_bps": 5e6})
    keys = [
        {check.key for check in judge_stream(plan, one).verdict.checks} for one in (run, beside)
    ]
    assert keys[0] - keys[1] == {"late-parity-once-answered"}


@pytest.mark.parametrize("load", [0.5, pytest.param(0.8, marks=pytest.mark.soak), 0.95])
def test_a_failure_is_answered_on_loaded_links_and_nothing_more(load: float) -> None:
    found = streamed(load)
    assert (
        found.most() <= (27 if load < 0.9 else 36)
        and found.delivered == 1.0
        and found.others_lost < 0.001
    )


@pytest.mark.long
def test_n_stays_near_the_failure_where_the_answer_overfills_the_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = streamed(1.0)
    monkeypatch.setattr(CongestionBreaker, "add", lambda *_, **__: None)
    without = streamed(1.0)
    assert without.most(from_s=4.0) == 55
    assert (
        sum(size < 30 for at_s, size in found.sizes if 4 <= at_s < 8)
        > sum(4 <= at_s < 8 for at_s, _ in found.sizes) / 2
    )
    assert 3 * found.lost < without.lost
    assert (
        2 * found.others_lost < without.others_lost and found.delivered > without.delivered - 0.05
    )


@pytest.mark.parametrize("impairments", ["delay:0.1", "delay:0.05,jitter=0.02"])
def test_a_cut_after_a_change_of_delays_is_answered(impairments: str) -> None:
    slower = [
        Fault(link=("s1", by, 0), kind="impaired", impairments=impairments, start_s=1.0)
        for by in ("s2", "s4", "s6", "s8")
    ]
    cut = [Fault(link=(by, "s6", 0), start_s=4.0, stop_s=7.0) for by in ("s3", "s5")]
    plan = testbed.stream_plan(
        "swiss-t1",
        "s1",
        "s6",
        faults=slower + cut,
        labels="random",
        playback_s=1.2,
        duration_s=10.0,
    )
    assert np.isnan(SimulatedStreamFabric().run(plan).blocks.complete_s).sum() <= 1
