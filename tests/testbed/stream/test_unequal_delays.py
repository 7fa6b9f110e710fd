"""A stream over paths of unequal delay: N stays at rest while nothing fails, and failures are judged as without
delays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import testbed
from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol.sender import OutgoingPacket, StreamSender
from fec.redundancy.labels import LABELS
from testbed.stream.endpoints import (
    block_size_control,
    build_receiver,
    build_sender,
    label_sequence,
    payload_source,
)
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.verdict import judge
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import EachLink
from testbed.stream.prediction.path_delays import longest_path_delay_s
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.delay_loop import DelayLoop
from tests.helpers.stream_plans import planned

CASES = {
    "swiss-t1, 10 to 30 ms": ("swiss-t1:delay_s=0.01", "s1", "s6"),
    "optical cloud, 60 to 140 ms": ("optical-cloud:delay_s=0.02", "x1", "x11"),
    "manet, 30 to 200 ms": ("manet:nodes=40,seed=3,delay_s=0.01", "n0", "n39"),
    "Geant2012 by its fibres": ("topohub:topozoo/Geant2012,delay=geo", "0", "20"),
    "Agis by its fibres": ("topohub:topozoo/Agis,delay=geo", "0", "20"),
}


def plan_of(case: str, **options: object) -> StreamPlan:
    network, source, sink = CASES[case]
    roomy = StreamParameters(symbol_bytes=16, playback_s=60.0)
    known = testbed.network(network)
    least = planned(known, source, sink, stream=roomy, duration_s=70.0)
    stream = replace(
        roomy, playback_s=max(0.4, round(3.05 * longest_path_delay_s(least) + 0.005, 2))
    )
    return planned(known, source, sink, stream=stream, **options)  # type: ignore[arg-type]


def unaware(plan: StreamPlan) -> StreamSender:
    """The rival: a sender to which all paths are the same."""
    parameters = replace(build_sender(plan).parameters, delay_of_label=bytes(LABELS))
    code, content = (
        ReedSolomonCode(plan.stream.source_packets),
        payload_source(plan.seed, plan.stream.symbol_bytes),
    )
    return StreamSender(parameters, code, label_sequence(plan), block_size_control(plan), content)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.soak] * (case[:4] in ("mane", "Gean")))
        for case in CASES
    ],
)
def test_n_stays_at_rest_and_a_failures_redundancy_is_as_predicted(case: str) -> None:
    plan = plan_of(case, faults=EachLink(most=1))
    run = SimulatedStreamFabric().run(plan)
    found = Analysis(plan, run)
    before = run.sent.block_size[run.sent.time_s < plan.faults[0].start_s]
    assert set(before.tolist()) == {found.theory.policy.base}
    verdict = judge(found)
    assert (
        not verdict.invalid and [check.name for check in verdict.checks if not check.passed] == []
    )
    assert abs(found.ror.measured - found.ror.predicted) <= found.ror.tolerance
    assert found.faults[0].packets > 100 and run.counters["sent_spurious_losses"] == 0
    assert not run.never_complete.any()


def test_sender_that_ignores_paths_raises_n_without_a_failure() -> None:
    """And learns within the first second by how much packets of some come later."""
    plan = plan_of("swiss-t1, 10 to 30 ms", duration_s=2.0)
    run = SimulatedStreamFabric(unaware).run(plan)
    sizes = run.sent.block_size
    assert run.counters["sent_spurious_losses"] > 0 and sizes.max() > sizes.min()
    assert sizes[run.sent.time_s > 1.0].max() == sizes.min()


class Channel:
    """Each hop's delay is off by up to a share of it; ``longer``: a link that takes so much longer from a moment on."""

    def __init__(
        self, plan: StreamPlan, jitter: float, factor: float = 1.0, longer_s: float = 0.0
    ) -> None:
        self.chance, self.jitter, self.longer_s = random.Random(5), jitter, longer_s
        self.links = plan.network.links
        self.factor = factor
        self.path_of = plan.forward.per_label(path.links for path in plan.forward.paths)
        self.slow = max(plan.forward.loaded, key=plan.forward.load)

    def __call__(self, packet: OutgoingPacket, at_s: float) -> Sequence[float]:
        hops = self.path_of[packet.label]
        off = [self.factor * (1 + self.jitter * self.chance.uniform(-1, 1)) for _ in hops]
        delay_s = sum(self.links[i].delay_s * one for i, one in zip(hops, off, strict=True))
        return (delay_s + 0.0003 + self.longer_s * (at_s > 1.0 and self.slow in hops),)


@pytest.mark.parametrize(
    ("jitter", "factor", "longer_s", "most_raised"),
    [(0.1, 1.0, 0.0, 0), (0.1, 1.2, 0.0, 0), (0.0, 0.5, 0.0, 6), (0.0, 1.5, 0.03, 10)],
)
def test_delays_that_are_not_as_planned_are_learnt(
    jitter: float, factor: float, longer_s: float, most_raised: int
) -> None:
    """A tenth of jitter is no news; delays half as long again, or 30 ms more on one link, raise N for some blocks."""
    plan = plan_of("swiss-t1, 10 to 30 ms", duration_s=5.0)
    sender = build_sender(plan)
    loop = DelayLoop(sender, build_receiver(plan), forward=Channel(plan, jitter, factor, longer_s))
    loop.backward = lambda way, number, at: (0.01,)
    loop.run_until(2.5)
    sizes = {packet.block: packet.block_size for _, packet in reversed(loop.sent)}
    assert len(sizes) > 110
    raised = int((np.array(list(sizes.values())) > min(sizes.values())).sum())
    assert raised <= most_raised
    assert all(packet.block_size == min(sizes.values()) for at, packet in loop.sent if at > 1.8)
