"""A run of a stream that is spoilt in one figure is not believed: what its ends counted and what its sender took to be
broken are held against the logs of packets, and what cannot be of its plan is refused in a line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.model.verdict import Verdict
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.judgement.end_counters import miscounted
from testbed.stream.judgement.streams import judge_stream
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import DIAGNOSES
from testbed.stream.simulated import SimulatedStreamFabric
from tests.testbed.stream.judgement.test_independent_judge import finished, impaired, with_logs

PLANS: dict[str, Callable[[], tuple[StreamPlan, StreamMeasurements]]] = {
    "one by one": lambda: finished(("down", "blackhole"), "one after the other", "stratified", ""),
    "campaign": lambda: finished(("down", "down"), "overlapping", "stratified", ""),
    "beyond reach": lambda: finished(("down", "all lost"), "overlapping", "tight cap", ""),
    "copies": lambda: impaired("duplicate:0.2", "alone"),
}
COUNTED = (
    "sent_source", "sent_parity", "sent_late_parity", "accepted", "duplicate", "decoded_blocks", "delivered", "reports",
    "recovered", "unused_parity", "unused_sources", "undecodable_blocks", "lost_sources",
)  # fmt: skip
AT_MOST = (
    "sent_reports",
    "sent_repeated_reports",
    "urgent_reports",
    "sent_late_parity_blocks",
    "late",
)


def verdict_of(plan: StreamPlan, run: StreamMeasurements, **counted: Any) -> Verdict:
    return judge_stream(plan, replace(run, counters={**run.counters, **counted})).verdict


@pytest.mark.parametrize("name", PLANS)
def test_counters_that_the_logs_contradict_say_nothing(name: str) -> None:
    plan, run = PLANS[name]()
    counts = run.counters
    assert (
        judge_stream(plan, run).verdict.invalid is None and miscounted(RunFacts(plan, run)) is None
    )
    tried = [
        (one, int(counts[one] * factor))
        for one in COUNTED
        if counts.get(one)
        for factor in (1000, 0.5, -1)
    ]
    tried += [(one, 1000 * max(1, counts.get(one, 0))) for one in AT_MOST if name != "copies"]
    assert len(tried) > 18
    for counter, number in tried:
        said = str(miscounted(RunFacts(plan, replace(run, counters={**counts, counter: number}))))
        assert "and what was logged makes" in said or "is below 0" in said, (counter, number)
    assert "and what was logged makes" in str(verdict_of(plan, run, accepted=1).invalid)


def test_every_counter_that_there_may_be_is_tried_in_some_run() -> None:
    assert set().union(*(PLANS[name]()[1].counters for name in PLANS)) >= set(COUNTED) - {
        "unused_sources"
    }


def test_paths_of_which_reports_told_more_than_came_fail() -> None:
    plan, run = PLANS["one by one"]()
    reports = run.counters["path_reports"]
    path, (lost, came) = next(reversed(reports.items()))
    for told in ((lost, 1000 * came), (1000 * (lost + 1), came), (lost, -came), (-1, came)):
        checks = verdict_of(plan, run, path_reports={**reports, path: told}).checks
        assert [c.key for c in checks if not c.passed] == ["path-losses"]


@cache
def two_cuts() -> tuple[StreamPlan, StreamMeasurements]:
    return PLANS["campaign"]()


def saying(run: StreamMeasurements, number: int, **said: Any) -> StreamMeasurements:
    events = list(run.counters[DIAGNOSES])
    events[number] = {**events[number], **said}
    return replace(run, counters={**run.counters, DIAGNOSES: events})


def test_unbroken_suspected_cable_fails_the_campaign_of_a_certain_sender() -> None:
    plan, run = two_cuts()
    certain = [k for k, e in enumerate(run.counters[DIAGNOSES]) if e["certain"] and e["names"]]
    assert len(certain) >= 2 and not RunFacts(plan, run).mistaken_beliefs
    for number in certain:
        for names in (("d-e",), (*run.counters[DIAGNOSES][number]["names"], "d-e"), ("nowhere",)):
            failed = [
                c.key
                for c in judge_stream(plan, saying(run, number, names=names)).verdict.checks
                if not c.passed
            ]
            assert failed == ["redundancy"], (number, names)
    for at_s in (0.0, 1000.0):
        assert "in the order of time" in str(
            judge_stream(plan, saying(run, certain[-1], at_s=at_s)).verdict.invalid
        )


def test_belief_is_mistaken_once_reports_show_packets_that_arrived() -> None:
    """As of a cable that carries as many labels as the failed one: the names and the share agree."""
    plan, run = finished(("down", "down"), "one after the other", "stratified", "")
    events = run.counters[DIAGNOSES]
    first = next(k for k, e in enumerate(events) if e["certain"] and e["names"])
    path = plan.forward.paths[-1]
    other = {"names": ("d-e",), "lost_fraction": (path.stop - path.start) / 65536}
    told = [*events[: first + 1], *(e for e in events[first + 1 :] if e["at_s"] > 1.6)]
    stood = replace(run, counters={**run.counters, DIAGNOSES: told})
    failed = [
        c for c in judge_stream(plan, saying(stood, first, **other)).verdict.checks if not c.passed
    ]
    assert [(c.key, c.about) for c in failed] == [("block-size", "fault:0"), ("redundancy", "")]
    moment = {**events[first], **other, "at_s": events[first]["at_s"] - 0.01}
    shortly = replace(
        run, counters={**run.counters, DIAGNOSES: [*events[:first], moment, *events[first:]]}
    )
    assert judge_stream(
        plan, shortly
    ).verdict.passed  # as where packets lay in a switch for a moment


def test_a_sender_that_no_report_reaches_is_not_mistaken() -> None:
    plan, run = two_cuts()
    silent = tuple(
        Fault(link=link, start_s=0.5, stop_s=2.9)
        for link in (("b", "d", 0), ("c", "d", 0), ("d", "e", 0))
    )
    plan = replace(plan, faults=silent)
    run = SimulatedStreamFabric().run(plan)
    assert (
        not RunFacts(plan, run).mistaken_beliefs and judge_stream(plan, run).verdict.invalid is None
    )


@pytest.mark.parametrize(
    ("log", "column"),
    [("sent", "label"), ("sent", "block"), ("sent", "symbol"), ("received", "block")],
)
def test_packets_beyond_the_plan_are_refused_in_a_line_or_say_nothing(
    log: str, column: str
) -> None:
    plan, run = two_cuts()
    for factor in (1000, -1):
        columns = {column: getattr(getattr(run, log), column) * factor}
        spoilt = replace(run, **{log: replace(getattr(run, log), **columns)})
        try:
            assert not judge_stream(plan, spoilt).verdict.passed
        except InputError as error:
            assert str(error).startswith("the stream's measurements cannot be those of its plan: ")
    labels = np.where(run.sent.block == 3, 70_000, run.sent.label)
    with pytest.raises(
        InputError, match="cannot be those of its plan: index 70000 is out of bounds"
    ):
        judge_stream(plan, replace(run, sent=replace(run.sent, label=labels)))


def test_outcomes_of_blocks_are_those_of_the_logs() -> None:
    plan, run = two_cuts()
    for name in ("complete_s", "arrived", "late_source_packets"):
        spoilt = replace(run, blocks=replace(run.blocks, **{name: getattr(run.blocks, name) + 1}))
        assert not judge_stream(plan, spoilt).verdict.passed, name
    assert judge_stream(plan, with_logs(plan, run)).verdict.passed


@pytest.mark.parametrize("at_s", [400.0, 0.2, -0.5])
def test_a_switch_that_told_of_a_fault_at_another_time_says_nothing(at_s: float) -> None:
    plan, run = PLANS["one by one"]()
    first, *others = run.faults
    told = replace(run, faults=(replace(first, port_status_s=first.start_s + 0.003), *others))
    assert judge_stream(plan, told).verdict.passed
    spoilt = replace(run, faults=(replace(first, port_status_s=at_s), *others))
    assert "a switch reported it at" in str(judge_stream(plan, spoilt).verdict.invalid)
