"""No event, no pass: of every workload, on either fabric, no check holds of a run in which nothing was sent, counted or
drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import testbed
from testbed.api.workloads.registry import WORKLOADS, workload_of
from testbed.errors import InputError
from testbed.faults.fault import FaultTimes
from testbed.metapath.plan import MetapathPlan, MetapathRun, ReceivedDatagrams, SentDatagrams
from testbed.model.verdict import Verdict
from testbed.model.workload import How
from testbed.simulation.judgement import judge_runs
from testbed.stream.judgement.packet_logs import ReceivedLog, SentLog, block_outcomes
from testbed.stream.measurements import RunHealth, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.probe import judge_probe, probe_plan, probe_step
from tests.helpers.drawn import drawn

FABRICS = ("simulator", "emulation")


def silent_stream(plan: StreamPlan, run: StreamMeasurements) -> StreamMeasurements:
    sent, received = SentLog().packets(), ReceivedLog().packets()
    blocks = block_outcomes(sent, received, plan.stream.source_packets, plan.stream.playback_s)
    return replace(run, sent=sent, received=received, blocks=blocks, changes=())


def silent_metapaths(plan: MetapathPlan) -> MetapathRun:
    numbers, times = np.zeros(0, dtype=np.int64), np.zeros(0)
    return MetapathRun(
        sent=SentDatagrams(time_s=times, message=numbers, path=numbers, copy=numbers),
        received=ReceivedDatagrams(time_s=times, number=numbers, dead_link=numbers),
        faults=tuple(FaultTimes(fault=f, start_s=f.start_s, stop_s=f.stop_s) for f in plan.faults),
        health=RunHealth(sender_lag_s=0.0, unplanned_drops=0),
    )


def silent_bulk(run: Any) -> Any:
    nothing = {link: replace(count, packets=0, bytes=0) for link, count in run.links.items()}
    records = tuple(replace(r, deliveries=0, started_s=None, done_s=None) for r in run.transfers)
    return replace(
        run, transfers=records, seconds=0.0, frame_times_s=(), links=nothing, dropped={}, injected=0
    )


def silent_striping(run: Any) -> Any:
    return replace(
        run, operations=tuple(replace(one, bytes=0, seconds=0.0) for one in run.operations)
    )


def silent_rounds(run: Any) -> Any:
    nothing = {
        "lightpaths": 0,
        "sent": 0,
        "delivered": 0,
        "misdelivered": 0,
        "wrong_wavelength_packets": {},
        "dropped": {},
    }
    return tuple(replace(one, **nothing) for one in run)


def silent_simulation(run: Any) -> Any:
    return tuple(
        row | {"sent": 0, "received": 0, "measured_messages": 0, "livelocked": 0} for row in run
    )


def judged(plan: Any, run: Any) -> Verdict:
    verdict: Verdict = workload_of(plan).judge(plan, run).verdict
    return verdict


def measured(plan: Any) -> Any:
    return workload_of(plan).measured(plan, How(fabric="simulator"), None)


def faulty() -> StreamPlan:
    faults = ["s0->s1@2-3", "s3->s2@5-6"]
    return testbed.stream_plan(
        "ring:4", "s0", "s2", faults=faults, duration_s=8, rate_pps=200, hold_s=0.3
    )


def partly_lost() -> StreamPlan:
    """A stream long enough that the sender can tell the share that its links lose."""
    faults = ["s0->s1@2-5 loss 0.5", "s3->s2@6-9 loss 0.5"]
    return testbed.stream_plan("ring:4", "s0", "s2", faults=faults, duration_s=10, rate_pps=400)


def impaired(words: str) -> StreamPlan:
    return testbed.stream_plan(
        "ring:4", "s0", "s2", faults=[f"s0->s1@2-9 {words}"], duration_s=10, rate_pps=400
    )


STREAMS: dict[str, Callable[[], StreamPlan]] = {
    "faults": faulty,
    "losses": partly_lost,
    "single path": partial(
        testbed.stream_plan,
        "ring:4",
        "s0",
        "s2",
        method="single",
        faults=["s0->s1@2-3"],
        duration_s=5,
        rate_pps=200,
    ),
    "fixed N": partial(
        testbed.stream_plan,
        "ring:4",
        "s0",
        "s2",
        block_size=40,
        faults=["s0->s1@2-3"],
        duration_s=5,
        rate_pps=200,
    ),
    "overlapping": partial(
        testbed.stream_plan,
        "ring:4",
        "s0",
        "s2",
        faults=["s0->s1@2-4", "s3->s2@3-5"],
        duration_s=7,
        rate_pps=200,
    ),
    "bursts": partial(impaired, "ge:p=0.02,r=0.3"),
    "delays": partial(impaired, "delay:0.01"),
    "moving": partial(
        testbed.mobility_plan,
        "manet:nodes=12,degree=6,seed=3",
        "n0",
        "n11",
        count=2,
        frame_s=2.0,
        rate_pps=200.0,
    ),
}


@cache
def stream(name: str) -> tuple[StreamPlan, StreamMeasurements]:
    plan = STREAMS[name]()
    return plan, measured(plan)


@cache
def example(name: str) -> tuple[Any, Any]:
    workload = WORKLOADS.find(name)
    assert workload is not None and workload.example is not None
    plan = workload.example()
    return plan, measured(plan)


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("name", STREAMS)
def test_a_silent_stream_passes_no_check(name: str, fabric: str) -> None:
    plan, run = stream(name)
    true, silent = judged(plan, run), judged(plan, replace(silent_stream(plan, run), fabric=fabric))
    assert true.passed, [check.name for check in true.checks if not check.passed]
    assert (
        silent.checks
        and not silent.passed
        and not [check.name for check in silent.checks if check.passed]
    )
    assert all(check.key for check in (*true.checks, *silent.checks))


EXAMPLES: dict[str, Callable[[Any, Any], Any]] = {
    "bulk": lambda plan, run: silent_bulk(run),
    "striping": lambda plan, run: silent_striping(run),
    "wavelengths": lambda plan, run: silent_rounds(run),
    "simulation": lambda plan, run: silent_simulation(run),
    "campaign": lambda plan, run: (),
    "download": lambda plan, run: replace(
        run, seconds=None, sent=0, received=0, verified=False, arrivals_s=(), counters={}
    ),
}


def test_every_workload_is_among_these() -> None:
    """The tunnel's runs, which no simulator gives, are in ``tests/testbed/tunnel/test_trial.py``."""
    assert {*EXAMPLES, "stream", "metapath", "tunnel"} == set(WORKLOADS.builtin_names())


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_run_without_events_passes_no_check(name: str, fabric: str) -> None:
    plan, run = example(name)
    silent = EXAMPLES[name](plan, run)
    if hasattr(silent, "fabric"):
        silent = replace(silent, fabric=fabric)
    true, verdict = judged(plan, run), judged(plan, silent)
    assert true.passed, [check.name for check in true.checks if not check.passed]
    assert (
        verdict.checks
        and not verdict.passed
        and not [check.name for check in verdict.checks if check.passed]
    )
    assert all(check.key for check in (*true.checks, *verdict.checks))


@pytest.mark.parametrize("name", ["striping", "wavelengths", "simulation"])
def test_an_empty_list_of_measurements_passes_nothing(name: str) -> None:
    plan, run = example(name)
    verdict = judged(plan, replace(run, operations=()) if name == "striping" else ())
    assert not verdict.passed and not [check.name for check in verdict.checks if check.passed]


@pytest.mark.parametrize("routing", ["ft-drb", "single", "recomputed"])
@pytest.mark.parametrize("kind", ["down", "blackhole"])
def test_a_silent_plain_stream_passes_no_check(routing: Any, kind: str) -> None:
    plan = testbed.metapath_plan(
        "torus:3x3", "h0_0", "h1_1", routing=routing, faults=[f"s0_0->s1_0@1-2 {kind}", f"s2_0->s2_1@3-4 {kind}"],
        duration_s=6.0,
    )  # fmt: skip
    verdict = judged(plan, silent_metapaths(plan))
    assert verdict.checks and not [check.name for check in verdict.checks if check.passed]
    assert all(check.key for check in verdict.checks)


def test_a_probe_of_no_block_tells_nothing() -> None:
    plan = testbed.stream_plan("ring:4", "s0", "s2", faults="none")
    link = plan.network.links[plan.forward.loaded[0]].id
    steps = []
    for size in (40, 39):
        step_plan = probe_plan(plan, link, size, 20)
        steps.append(probe_step(step_plan, silent_stream(step_plan, measured(step_plan))))
    verdict = judge_probe(plan, tuple(steps), None)
    assert len(verdict.checks) == 4 and {check.outcome for check in verdict.checks} == {
        "cannot-tell"
    }


@drawn(30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=3))
def test_a_simulation_that_measured_nothing_never_passes(
    seeds: list[tuple[int, int, bool]],
) -> None:
    rows = [
        {
            "seed": k,
            "load": 0.1,
            "sent": sent,
            "received": received,
            "measured_messages": 0,
            "deadlocked": stuck,
            "livelocked": 0,
            "stopped": "done",
        }
        for k, (sent, received, stuck) in enumerate(seeds)
    ]
    verdict = judge_runs(rows)
    assert not verdict.passed
    sent, received = (sum(row[name] for row in rows) for name in ("sent", "received"))
    assert (verdict.outcome == "fails") is (
        sent != received or (sent > 0 and any(row["deadlocked"] for row in rows))
    )


@pytest.mark.parametrize(
    "document", [{"messages": []}, {"transfers": []}, {"frames": []}, {"frames": [[], []]}]
)
def test_a_traffic_file_without_a_message_is_bad_input(document: dict[str, Any]) -> None:
    plan = testbed.simulation_plan("mesh:3x3", traffic=document)
    with pytest.raises(InputError, match="it has no message"):
        testbed.run(plan, "simulator")


def test_one_load_of_which_no_message_was_measured_is_enough_not_to_tell() -> None:
    plan = testbed.simulation_plan("mesh:3x3", load=0.1, duration_s=0.001)
    (row,) = measured(plan)
    assert judge_runs([row]).passed
    verdict = judge_runs(
        [row, row | {"load": 0.2, "sent": 3, "received": 3, "measured_messages": 0}]
    )
    assert {check.key: check.outcome for check in verdict.checks}["conservation"] == "cannot-tell"
    assert verdict.exit_code == 5
    assert judge_runs([row | {"packets_conserved": False}]).exit_code == 1, (
        "a message in two places, or in none"
    )
    late = {"mean_latency_s": row["mean_latency_s"] * 1000}
    assert judge_runs([row | late]).exit_code == 1, "longer under way than the run lasted"
