"""A sender with foresight spends where a failure is under way and nowhere else; the study of adaptive redundancy judges
by it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from experiments.stream.real_time import adaptive_redundancy
from testbed.commands.studies.study_runner import drawn
from testbed.faults.fault import Fault
from testbed.model.json_values import json_ready
from testbed.stream.endpoints import build_sender
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.prediction.block_size_policy import block_size_policy
from testbed.stream.prediction.clairvoyant import clairvoyant_block_sizes, stream_outcome
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from topologies import load_network

DEAD = Fault(link=("s1", "s2", 0), start_s=1.0, stop_s=2.0)


def swiss_plan(*faults: Fault, **changes: Any) -> StreamPlan:
    stream = replace(StreamParameters(rate_pps=400.0), **changes)
    plan = planned(load_network("swiss-t1"), "s1", "s6", stream=stream, faults=faults, duration_s=3.4)
    return plan


def test_foresight_raises_n_from_two_blocks_before_a_failure_to_its_end() -> None:
    plan = swiss_plan(DEAD)
    size_at, base = clairvoyant_block_sizes(plan), block_size_policy(plan).base
    raised = [k / 100 for k in range(300) if size_at(k / 100) > base]
    assert raised[0] == pytest.approx(1.0 - 2 * 20 / 400, abs=0.011)
    assert raised[-1] == pytest.approx(1.99, abs=0.011)
    assert len({size_at(t) for t in raised}) == 1


def test_foresight_loses_nothing_and_spends_less_than_always_being_prepared() -> None:
    plan = swiss_plan(DEAD)
    size_at = clairvoyant_block_sizes(plan)
    knowing = stream_outcome(plan, SimulatedStreamFabric(partial(build_sender, foreseen=size_at)).run(plan))
    prepared = swiss_plan(DEAD, block_size=size_at(1.5))
    always = stream_outcome(prepared, SimulatedStreamFabric().run(prepared))
    assert knowing["late"] == always["late"] == 0 and knowing["undecodable"] == 0
    assert knowing["overhead"] < 0.7 * always["overhead"] and knowing["wasted"] < always["wasted"]
    assert knowing["first_decode_s"][0] is not None and knowing["first_decode_s"][0] < 0.11


def test_a_fixed_block_that_is_too_small_never_decodes_during_the_failure() -> None:
    plan = swiss_plan(DEAD, block_size=22)
    outcome = stream_outcome(plan, SimulatedStreamFabric().run(plan))
    assert outcome["first_decode_s"] == [None]
    assert outcome["late"] > 0.05 and outcome["overhead"] == pytest.approx(0.1, abs=0.01)


def test_random_losses_are_foreseen_by_equation_25() -> None:
    lossy = replace(DEAD, kind="loss", loss_fraction=0.5)
    plan = swiss_plan(lossy, labels="random")
    assert clairvoyant_block_sizes(plan)(1.5) == block_size_policy(plan)(0.125)


@pytest.mark.parametrize(("pattern", "at", "count"), [("on and off", 2.0, 7), ("ramps", 4.0, 48)])
def test_patterns_leave_both_ends_calm_and_never_overlap(pattern: str, at: float, count: int) -> None:
    faults = adaptive_redundancy.changing_faults(pattern, at, 18.0)
    assert isinstance(faults, tuple) and len(faults) == count
    assert faults[0].start_s >= 1.0 and faults[-1].stop_s <= 18.0 - 1.4 + 1e-6
    assert all(a.stop_s <= b.start_s + 1e-6 for a, b in itertools.pairwise(faults))


def test_the_study_passes_on_a_short_stream_and_fails_where_the_sender_does_not_adapt() -> None:
    points = [
        {"pattern": "on and off", "at": 4.0, "sender": sender, "lasts_s": 6.4, "seed": 1}
        for sender in adaptive_redundancy.SENDERS
    ]
    rows = [json.loads(json.dumps(json_ready({**p, **adaptive_redundancy.measure(p)}))) for p in points]
    verdict = adaptive_redundancy.judge(rows)
    assert verdict.passed, [check for check in verdict.checks if not check.passed]
    assert all("<svg" in drawing for drawing in drawn(adaptive_redundancy.STUDY, rows).values())
    still = next(row for row in rows if row["sender"] == "fixed, at rest")
    stuck = [
        {**row, **({k: still[k] for k in ("late", "first_decode_s")} if "estimating" in row["sender"] else {})}
        for row in rows
    ]
    assert not adaptive_redundancy.judge(stuck).passed
    assert np.isfinite(still["late"]) and still["late"] > 0
