"""N for a known state of the network is what a stream under it needs, and what a stream sent and lost is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.faults.fault import Fault
from testbed.stream.judgement.outcome import stream_outcome
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.prediction.active_faults import planned_epochs
from testbed.stream.prediction.block_size_policy import block_size_policy
from testbed.stream.prediction.stream_theory import StreamTheory
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from topologies import load_network

DEAD = Fault(link=("s1", "s2", 0), start_s=1.0, stop_s=2.0)


def swiss_plan(*faults: Fault, **changes: Any) -> StreamPlan:
    stream = replace(StreamParameters(rate_pps=400.0), **changes)
    plan = planned(
        load_network("swiss-t1"), "s1", "s6", stream=stream, faults=faults, duration_s=3.4
    )
    return plan


def test_adaptive_sender_wastes_fewer_packets_than_a_fixed_block() -> None:
    plan = swiss_plan(DEAD)
    adapting = stream_outcome(plan, SimulatedStreamFabric().run(plan))
    prepared = swiss_plan(DEAD, block_size=needed_size(plan))
    always = stream_outcome(prepared, SimulatedStreamFabric().run(prepared))
    assert always["late"] == always["undecodable"] == 0 and always["first_decode_s"][0] < 0.11
    assert adapting["overhead"] < 0.7 * always["overhead"] and adapting["wasted"] < always["wasted"]


def needed_size(plan: StreamPlan) -> int:
    """N that answers the worst state of the plan."""
    worst = max(planned_epochs(plan), key=lambda epoch: epoch.loss)
    return int(StreamTheory(plan).requirement(worst).size)


def test_a_fixed_block_that_is_too_small_never_decodes_during_the_failure() -> None:
    plan = swiss_plan(DEAD, block_size=22)
    outcome = stream_outcome(plan, SimulatedStreamFabric().run(plan))
    assert outcome["first_decode_s"] == [None]
    assert outcome["late"] > 0.05 and outcome["overhead"] == pytest.approx(0.1, abs=0.01)


def test_random_losses_need_what_equation_25_says() -> None:
    plan = swiss_plan(replace(DEAD, kind="loss", loss_fraction=0.5), labels="random")
    policy = block_size_policy(plan)
    assert needed_size(plan) == policy(0.125)
    assert policy(0.125) > needed_size(replace(plan, faults=())) == policy.base
