"""A fault is judged by the checks about it, by nothing else: two faults of one link, and one that no check is about."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from testbed.faults.fault import Fault
from testbed.model.run_records import FaultRecord, group_sessions, record_from_json
from testbed.model.verdict import Claim, Verdict
from testbed.report.sections import stream_section
from testbed.report.tables import closing_table
from testbed.report.wording import fault_mark
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.packet_logs import block_outcomes
from testbed.stream.judgement.streams import fault_record, judge_stream, judgement_of
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import EachLink
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned, uncounted
from topologies import load_network

LINK = ("s0", "s1", 0)


@pytest.fixture(scope="module")
def twice() -> tuple[StreamPlan, StreamMeasurements]:
    """One link fails from 2 to 4 s, and again from 6 to 8 s."""
    faults = tuple(Fault(link=LINK, start_s=start_s, stop_s=start_s + 2) for start_s in (2.0, 6.0))
    stream = StreamParameters(rate_pps=400.0, hold_s=0.3)
    plan = planned(load_network("ring:4"), "s0", "s2", stream=stream, faults=faults)
    return plan, SimulatedStreamFabric().run(plan)


def records(
    plan: StreamPlan, run: StreamMeasurements, verdict: Verdict | None = None
) -> list[FaultRecord]:
    analysis = Analysis(plan, run)
    found = judge(analysis) if verdict is None else verdict
    return [fault_record(0, fault, found) for fault in analysis.faults]


def without_arrivals(run: StreamMeasurements, start_s: float, stop_s: float) -> StreamMeasurements:
    """As if nothing had come that was received in that time."""
    got = run.received
    kept = (got.time_s < start_s) | (got.time_s >= stop_s)
    return replace(
        uncounted(run),
        received=type(got)(**{name: values[kept] for name, values in vars(got).items()}),
    )


def test_of_two_faults_on_one_link_only_the_spoilt_one_fails(
    twice: tuple[StreamPlan, StreamMeasurements],
) -> None:
    plan, run = twice
    assert [record.passed for record in records(plan, run)] == [True, True]
    spoilt = without_arrivals(run, 6.0, 8.0)
    assert [(record.start_s, record.passed) for record in records(plan, spoilt)] == [
        (2.0, True),
        (6.0, False),
    ]
    document = judge_stream(plan, spoilt).document
    assert [fault["passed"] for fault in document["per_fault"]] == [True, False]


def test_a_fault_that_no_check_is_about_is_not_judged(
    twice: tuple[StreamPlan, StreamMeasurements],
) -> None:
    plan, run = twice
    others = Verdict(checks=(Claim("corrupted packets", "corrupted-packets").equal(0, 0),))
    found = records(plan, run, others)
    assert [(record.passed, fault_mark(record)) for record in found] == [(None, "–")] * 2


def test_a_check_that_cannot_tell_leaves_its_fault_unjudged() -> None:
    check = Claim("loss", "loss", "fault:0").equal(1, 1)
    verdict = Verdict(checks=(check.of(0), replace(check, key="block-size")))
    assert (verdict.passed_about("fault:0"), verdict.passed_about("fault:1")) == (None, None)


def test_page_and_terminal_show_a_dash_for_it(twice: tuple[StreamPlan, StreamMeasurements]) -> None:
    plan, run = twice
    analysis = Analysis(plan, run)
    (part,) = group_sessions(judgement_of(analysis, Verdict(checks=())).records(0, "ring"))
    assert 'aria-label="not judged"' in str(
        stream_section(part)
    ) and 'aria-label="agrees"' not in str(stream_section(part))
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(closing_table(part, width=100))
    rows = [
        line.rstrip() for line in console.export_text().splitlines() if line.startswith("s0->s1")
    ]
    assert len(rows) == 2 and all(row.endswith("–") for row in rows)


def single() -> tuple[StreamPlan, StreamMeasurements]:
    plan = planned(
        load_network("ring:4"),
        "s0",
        "s2",
        method="single",
        stream=StreamParameters(rate_pps=400.0),
        faults=EachLink(most=1),
    )
    return plan, SimulatedStreamFabric().run(plan)


def test_a_cut_of_the_only_path_is_an_outage_as_predicted() -> None:
    plan, run = single()
    judged = judge_stream(plan, run)
    assert judged.verdict.passed and "ror" not in [check.key for check in judged.verdict.checks]
    (record,) = records(plan, run)
    assert fault_mark(record) == "outage, as predicted"


def test_nothing_is_asked_outside_a_fault_that_lasts_as_long_as_the_stream() -> None:
    """Its own checks have every block: none outside is no "cannot tell"."""
    faults = (Fault(link=LINK, start_s=0.0, stop_s=99.0),)
    plan = planned(
        load_network("ring:4"),
        "s0",
        "s2",
        stream=StreamParameters(rate_pps=400.0),
        faults=faults,
        duration_s=6.0,
    )
    verdict = judge_stream(plan, SimulatedStreamFabric().run(plan)).verdict
    asked = [
        (check.about, check.outcome)
        for check in verdict.checks
        if check.key == "undecodable-blocks"
    ]
    assert asked == [("fault:0", "holds")] and verdict.exit_code == 0


def test_a_cut_tells_nothing_of_a_stream_of_which_nothing_comes_anyway() -> None:
    plan, run = single()
    dead = without_arrivals(run, 0.0, np.inf)
    verdict = judge(Analysis(plan, dead))
    assert next(check.outcome for check in verdict.checks if check.key == "loss") == "cannot-tell"
    assert [record.passed for record in records(plan, dead)] == [None]


@pytest.mark.parametrize("passed", [True, False, None])
def test_stored_faults_stay_readable(passed: bool | None) -> None:
    stored = {
        "record": "fault",
        "session": 0,
        "link": "a->b",
        "kind": "down",
        "predicted_loss": 0.5,
        "passed": passed,
    }
    record = record_from_json(stored, "here")
    assert isinstance(record, FaultRecord) and record.passed is passed


def silent(**health: float) -> Verdict:
    """Of a run on switches of which nothing arrived."""
    stream = StreamParameters(rate_pps=400.0)
    plan = planned(load_network("ring:4"), "s0", "s2", stream=stream, faults=EachLink(most=2))
    run = without_arrivals(SimulatedStreamFabric().run(plan), 0.0, np.inf)
    blocks = block_outcomes(run.sent, run.received, stream.source_packets, stream.playback_s)
    run = replace(run, fabric="emulation", blocks=blocks, health=replace(run.health, **health))
    return judge(Analysis(plan, run))


def test_stream_without_arrivals_fails_if_the_machine_kept_up() -> None:
    verdict = silent()
    assert (verdict.invalid, verdict.exit_code, verdict.outcome) == (None, 1, "fails")
    assert "undecodable-blocks" in [
        check.key for check in verdict.checks if check.outcome == "fails"
    ]


@pytest.mark.parametrize("health", [{"sender_lag_s": 1.0}, {"unplanned_drops": 3}])
def test_it_stays_invalid_where_the_machine_did_not(health: dict[str, float]) -> None:
    verdict = silent(**health)
    assert verdict.invalid is not None and verdict.exit_code == 4
