"""What failures cost a stream: by hand for one failure, to the packet in total, and nought for a sender that never
answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.faults.fault import Fault
from testbed.stream.endpoints import build_sender
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.judgement.failure_costs import failure_costs
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.prediction.active_faults import DIAGNOSES
from testbed.stream.prediction.expected_redundancy import StateCosts
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from tests.helpers.wrong_senders import sender_of_one_size
from topologies import load_network

STREAM = StreamParameters(rate_pps=100, playback_s=1.0, symbol_bytes=16)


def swiss_plan(*cuts: tuple[str, str, float, float]) -> StreamPlan:
    faults = [
        Fault(link=(a, b, 0), kind="down", start_s=start, stop_s=stop) for a, b, start, stop in cuts
    ]
    return planned(
        load_network("swiss-t1"), "s1", "s6", stream=STREAM, faults=faults, duration_s=40.0
    )


def costs_of(plan: StreamPlan, size: int | None = None) -> dict[str, Any]:
    """``size``: of a sender that takes that block size whatever happens."""
    sender = build_sender if size is None else sender_of_one_size(size)
    return failure_costs(RunFacts(plan, SimulatedStreamFabric(sender).run(plan)))


def test_one_failure_costs_equation_22_besides_its_transient() -> None:
    plan = swiss_plan(("s1", "s2", 5.0, 25.0))
    costs, states = costs_of(plan), StateCosts(plan)
    (broken,) = [
        row for row in states.singles() if states.cables[int(np.argmax(row))] == ("s1", "s2", 0)
    ]
    extra = float(states.block_sizes(broken[None, :])[0]) - states.base
    assert costs["formula"] == costs["states"] == pytest.approx(20.0 * 5 * extra)
    assert [(one["name"], one["measured"]) for one in costs["by_down"]] == [
        ("0", 0.0),
        ("1", extra),
    ]
    assert [one["name"] for one in costs["by_cable"]] == ["s1-s2"]
    assert costs["settled"] == costs["settled_predicted"] > 0.9 * costs["formula"]
    assert costs["total"] == pytest.approx(
        costs["states"] + costs["before"] + costs["after"], abs=extra
    )
    assert (
        costs["redundancy"]
        == pytest.approx(costs["redundancy_states"])
        == pytest.approx(0.5 * extra / states.base)
    )


def test_failures_that_overlap_cost_the_union_of_their_labels() -> None:
    costs = costs_of(swiss_plan(("s1", "s2", 5.0, 25.0), ("s1", "s4", 10.0, 30.0)))
    assert costs["overlapping_s"] == pytest.approx(15.0, abs=0.01) and costs[
        "failing_s"
    ] == pytest.approx(25.0, abs=0.01)
    assert costs["states"] > 1.1 * costs["formula"]
    assert costs["redundancy"] == pytest.approx(costs["redundancy_states"], rel=0.02)
    assert [one["name"] for one in costs["by_down"]] == ["0", "1", "2"]


def test_a_sender_that_never_answers_is_judged_and_costs_nothing() -> None:
    costs = costs_of(swiss_plan(("s1", "s2", 5.0, 25.0)), size=22)
    assert costs["settled"] == 0 < costs["settled_predicted"]
    assert costs["redundancy"] == 0 < costs["redundancy_states"]
    assert costs["undecodable_settled"] > 50


def test_a_time_beyond_the_reach_of_any_block_counts_for_nothing() -> None:
    around = [("s1", other, 5.0, 25.0) for other in ("s2", "s4", "s6", "s8")]
    plan = swiss_plan(*around)
    assert np.isnan(StateCosts(plan).block_sizes(np.ones((1, 16), dtype=np.bool_)))
    costs = costs_of(plan)
    assert costs["beyond_s"] == pytest.approx(20.0, abs=0.01)
    assert costs["states"] == costs["settled"] == 0 == costs["redundancy"]


def test_a_time_in_which_no_report_gets_back_counts_for_nothing() -> None:
    plan = swiss_plan(
        ("s1", "s2", 5.0, 25.0), ("s1", "s6", 5.0, 25.0)
    )  # both ways back begin or end there
    costs = costs_of(plan)
    assert costs["beyond_s"] == pytest.approx(20.0, abs=0.01)
    assert costs["undecodable_settled"] == 0
    known, theory = StateCosts(plan), StateCosts(plan, reports=False)
    assert (
        np.isnan(known.block_sizes(known.pairs())).sum()
        > 0
        == np.isnan(theory.block_sizes(theory.pairs())).sum()
    )


def test_blocks_of_a_doubting_sender_belong_to_a_limited_transient() -> None:
    plan = swiss_plan(("s1", "s2", 5.0, 25.0))
    run = SimulatedStreamFabric().run(plan)
    sure = failure_costs(RunFacts(plan, run))

    def doubting(until_s: float) -> dict[str, Any]:
        lost = float(plan.forward.load(plan.network.link_index["s1", "s2", 0]))
        events = [
            {
                "at_s": 0.0,
                "certain": True,
                "lost_fraction": 0.0,
                "block_size": 22,
                "speaker": "diagnosis",
            },
            {
                "at_s": 5.2,
                "certain": False,
                "lost_fraction": lost,
                "block_size": 22,
                "speaker": "diagnosis",
            },
            {
                "at_s": until_s,
                "certain": True,
                "lost_fraction": lost,
                "block_size": 27,
                "speaker": "diagnosis",
            },
            {
                "at_s": 25.2,
                "certain": True,
                "lost_fraction": 0.0,
                "block_size": 22,
                "speaker": "diagnosis",
            },
        ]
        return failure_costs(
            RunFacts(plan, replace(run, counters={**run.counters, DIAGNOSES: events}))
        )

    assert sure["settled"] > doubting(6.0)["settled"] > 0
    assert (
        doubting(20.0)["settled"] > 0.85 * sure["settled"]
    )  # after 1.3 s the sender is judged all the same
