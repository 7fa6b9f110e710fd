"""Where the verdict of a plain stream has its limits, both sides of each, and what analysis counts, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.faults.fault import Fault, FaultTimes
from testbed.metapath.analysis import (
    MessageDeliveries,
    MetapathFacts,
    episode_of,
    fault_timeline,
    latency_of,
    path_shares,
)
from testbed.metapath.cable_states import CableStates
from testbed.metapath.judgement import ft_drb_checks, judge_metapaths, lost_share
from testbed.metapath.plan import (
    SLACK_S,
    MetapathPlan,
    MetapathRun,
    ReceivedDatagrams,
    SentDatagrams,
)
from testbed.metapath.source import SourceEvent
from testbed.model.verdict import Check
from testbed.model.wiring import wire
from testbed.stream.measurements import RunHealth
from tests.testbed.metapath.test_metapath_verdict import CABLE, LINK, NETWORK, OTHER, _plan, _run


def _invalid(plan: MetapathPlan, run: MetapathRun) -> str:
    return str(judge_metapaths(plan, run).verdict.invalid or "")


def _check(plan: MetapathPlan, run: MetapathRun, key: str) -> Check:
    return next(check for check in judge_metapaths(plan, run).verdict.checks if check.key == key)


def _received(run: MetapathRun, which: Any) -> ReceivedDatagrams:
    fields = {
        name: getattr(run.received, name)[which] for name in ("time_s", "number", "dead_link")
    }
    return ReceivedDatagrams(**fields)


def test_sender_may_lag_100_ms_and_packets_may_seem_5_ms_early() -> None:
    plan, run = _plan(), _run(_plan())
    for lag_s, says in ((0.099, False), (0.101, True)):
        lagged = replace(run, health=RunHealth(sender_lag_s=lag_s, unplanned_drops=0))
        assert ("lagged" in _invalid(plan, lagged)) == says
    for early_s, says in ((0.0059, False), (0.0061, True)):  # 1 ms of latency
        early = replace(run, received=replace(run.received, time_s=run.received.time_s - early_s))
        assert ("before they were sent" in _invalid(plan, early)) == says


def test_nine_tenths_of_the_planned_packets_must_be_sent() -> None:
    plan, run = _plan(), _run(_plan())

    def first(count: int) -> MetapathRun:
        sent = {
            name: getattr(run.sent, name)[:count] for name in ("time_s", "message", "path", "copy")
        }
        return replace(
            run, sent=SentDatagrams(**sent), received=_received(run, run.received.number < count)
        )

    assert not _invalid(plan, first(2700))
    assert _invalid(plan, first(2699)) == "2699 of 3000 packets were sent"
    assert (
        _invalid(plan, replace(first(0), received=_received(run, slice(0, 0))))
        == "no packet was sent"
    )


def test_packets_may_arrive_a_second_after_the_end_and_none_twice() -> None:
    plan, run = _plan(), _run(_plan())
    for at_s, says in ((3.99, False), (4.01, True)):
        times = run.received.time_s.copy()
        times[-1] = at_s
        late = _invalid(plan, replace(run, received=replace(run.received, time_s=times)))
        assert ("1 packets arrived twice, were not sent, or arrived after the end" in late) == says
    number = run.received.number.copy()
    number[-1] = number[-2]
    assert "1 packets arrived twice" in _invalid(
        plan, replace(run, received=replace(run.received, number=number))
    )


@pytest.mark.parametrize(("kind", "limit_s"), [("down", 0.05), ("blackhole", None)])
def test_link_failure_may_cost_50_ms_and_silence_its_timeout_and_slack(
    kind: str, limit_s: float | None
) -> None:
    plan = _plan(kind=kind)
    run = _run(plan)
    outcome = replace(MetapathFacts(plan, run).faults[0], escaped=5, probes=0)
    limit_s = limit_s or plan.found_s("blackhole") + SLACK_S
    for factor, passed in ((0.999, True), (1.001, False)):
        changed = (
            {"lost_s": factor * limit_s} if kind == "down" else {"reconfigured_s": factor * limit_s}
        )
        check = ft_drb_checks(plan, replace(outcome, **changed), run.faults[0])[0]  # type: ignore[arg-type]
        assert (check.passed, check.tolerance) == (passed, pytest.approx(limit_s)), factor
    never = ft_drb_checks(plan, replace(outcome, reconfigured_s=None, lost_s=0.0), run.faults[0])
    assert [check.key for check in never if not check.passed] == (["lost-later"] if kind == "down" else [
        "silence-found", "lost-later",
    ])  # fmt: skip


def test_packets_over_the_dead_cable_are_probes_and_two_more() -> None:
    plan, run = _plan(), _run(_plan())
    outcome = MetapathFacts(plan, run).faults[0]
    every = plan.options.probe_every
    assert outcome.reconfigured_s == pytest.approx(0.02)
    most = 0.98 * plan.rate_pps / every + 2
    for probes, passed in ((int(most), True), (int(most) + 1, False)):
        checks = {
            c.key: c for c in ft_drb_checks(plan, replace(outcome, probes=probes), run.faults[0])
        }
        assert checks["kept-off"].passed == passed
        assert checks["kept-off"].tolerance == pytest.approx(most)
    returned = plan.return_s + SLACK_S
    for factor, passed in ((0.999, True), (1.001, False)):
        late = replace(outcome, returned_s=factor * returned)
        checks = {c.key: c for c in ft_drb_checks(plan, late, run.faults[0])}
        assert checks["returned"].passed == passed
    assert not {
        c.key: c for c in ft_drb_checks(plan, replace(outcome, returned_s=None), run.faults[0])
    }["returned"].passed


def test_nothing_is_lost_off_the_path_and_permanent_faults_do_not_return() -> None:
    plan, run = _plan(), _run(_plan())
    outcome = MetapathFacts(plan, run).faults[0]
    off = FaultTimes(
        fault=Fault(link=("s3_3", "s3_2", 0), start_s=1.0, stop_s=2.0), start_s=1.0, stop_s=2.0
    )
    for lost, passed in ((0, True), (1, False)):
        (check,) = ft_drb_checks(plan, replace(outcome, lost=lost), off)
        assert (check.key, check.passed) == ("lost", passed) and check.name.endswith("off the path")
    for_good = FaultTimes(fault=Fault(link=LINK, start_s=1.0), start_s=1.0, stop_s=3.0)
    assert [c.key for c in ft_drb_checks(plan, outcome, for_good)] == [
        "lost",
        "lost-later",
        "kept-off",
    ]
    assert [c.key for c in ft_drb_checks(plan, outcome, run.faults[0])] == [
        "lost",
        "lost-later",
        "kept-off",
        "returned",
    ]


def test_one_path_loses_its_share_of_labels_give_or_take_what_is_under_way() -> None:
    """A second of all packets, of 1000 a second; 25 of them under way at either end, and three."""
    plan = _plan("single")
    for lost, passed in ((1000 - 28, True), (1000 - 29, False), (1028, True), (1029, False)):
        start_s = 1.0 if lost <= 1000 else 1.0 - (lost - 1000) / 1000
        run = replace(_run(plan, lost=(start_s - 5e-4, start_s + lost / 1000 - 5e-4)), events=())
        check = _check(plan, run, "lost")
        assert (check.measured, check.predicted, check.tolerance) == (lost, 1000, 28)
        assert (
            check.passed == passed
            and "100.0 % of the labels cross the link for 1.000 s" in check.detail
        )


def test_a_share_is_of_the_cable_whichever_way_the_fault_names_it() -> None:
    plan = _plan("single")
    back = (LINK[1], LINK[0], 0)
    assert lost_share(plan, back) == lost_share(plan, LINK) == 1
    assert lost_share(plan, ("s3_3", "s3_2", 0)) == 0
    again = _plan("recomputed")
    assert lost_share(again, back) == lost_share(again, LINK) > 0


def test_reports_of_cables_that_were_cut_or_of_silence_are_no_false_ones() -> None:
    plan, run = _plan(), _run(_plan())
    for cause, cable, wrong in (
        ("controller", OTHER, 1),
        ("silence", OTHER, 0),
        ("controller", CABLE, 0),
    ):
        mark = SourceEvent(at_s=1.5, kind="marked", cause=cause, cable=cable)
        check = _check(plan, replace(run, events=(*run.events, mark)), "wrongly-reported")
        assert (check.measured, check.passed) == (wrong, not wrong), cause
    named = np.where(run.received.number == 7, OTHER, np.where(run.received.number == 8, 0, -1))
    expected = len({OTHER, 0} - {CABLE})
    assert _check(
        plan, replace(run, received=replace(run.received, dead_link=named)), "wrongly-reported"
    ).measured == (expected)


def test_faults_that_touch_do_not_overlap() -> None:
    def times(start_s: float, stop_s: float) -> FaultTimes:
        return FaultTimes(
            fault=Fault(link=LINK, start_s=start_s, stop_s=stop_s), start_s=start_s, stop_s=stop_s
        )

    one, two, three, four = times(1, 5), times(2, 3), times(4, 6), times(6, 7)
    faults = (four, three, two, one)
    assert (
        episode_of(one, faults)
        == episode_of(two, faults)
        == episode_of(three, faults)
        == (one, two, three)
    )
    assert episode_of(four, faults) == (four,)


def test_figures_of_a_fault_by_hand() -> None:
    """Ten packets a second, of which each is 100 ms on its way, 300 ms during the fault of a second, 200 ms after."""
    plan = replace(_plan(), rate_pps=1000.0)
    run = _run(plan)
    latency_s = np.where(run.sent.time_s < 1.0, 0.1, np.where(run.sent.time_s < 2.05, 0.3, 0.2))
    there = ~((run.sent.time_s >= 1.0) & (run.sent.time_s < 1.004))
    received = replace(run.received, time_s=(run.sent.time_s + latency_s)[there])
    (found,) = MetapathFacts(plan, replace(run, received=received)).faults
    assert found.latency_before_ms == (100.0, 100.0)
    assert found.latency_escaped_ms == found.latency_during_ms == (300.0, 300.0)
    assert found.latency_after_ms == (200.0, 200.0)
    assert (found.sent, found.lost, found.lost_s) == (1000, 4, pytest.approx(0.004))
    assert (found.start_s, found.stop_s, found.probes) == (1.0, 2.0, 0)
    late = replace(
        run, faults=(replace(run.faults[0], start_s=1.25, stop_s=2.25, port_status_s=None),)
    )
    assert MetapathFacts(plan, late).faults[0].port_status_s is None
    outside = MetapathFacts(plan, run)
    assert (outside.messages, outside.sent_outside, outside.lost_outside) == (3000, 3000 - 1100, 0)
    before = MetapathFacts(plan, _run(plan, lost=(0.9, 0.96)))
    assert before.lost_outside == 50, "those sent 50 ms before it may have met it"


def test_latencies_are_a_median_and_a_high_percentile_of_what_arrived() -> None:
    assert latency_of(np.array([np.nan, 1.0, 2.0, 3.0004])) == (2.0, 2.9)
    assert latency_of(np.array([np.nan])) is None and latency_of(np.array([])) is None


def test_timeline_counts_in_bins_of_20_ms_from_before_the_fault() -> None:
    sent_s = np.array([0.69, 0.70, 0.719, 0.72, 1.0, 1.01, 1.039, 1.04])
    deliveries = MessageDeliveries(
        sent_s=sent_s,
        arrived_s=np.array([1.0, 0.71, np.nan, 0.73, 1.002, 1.014, np.nan, 1.05]),
        path=np.array([0, 0, 0, 0, 1, 2, 0, 0]),
        escaped=np.array([0, 0, 0, 0, 1, 0, 0, 0], dtype=bool),
    )
    found = fault_timeline(deliveries, 1.0, 1.04)
    assert (len(found["t_s"]), found["t_s"][0], found["t_s"][15], found["t_s"][-1]) == (
        17,
        -0.3,
        0.0,
        0.02,
    )
    assert (found["sent"][:2], found["sent"][15:]) == ([2, 1], [2, 1]) and sum(found["sent"]) == 6  # type: ignore[arg-type]
    assert (found["lost"][0], found["lost"][16]) == (1, 1) and sum(found["lost"]) == 2  # type: ignore[arg-type]
    assert (found["escaped"][15], found["diverted"][15]) == (1, 2)
    assert (found["latency_ms"][0], found["latency_ms"][15], found["latency_ms"][16]) == (
        10.0,
        3.0,
        None,
    )
    assert found["slow_ms"][15] == pytest.approx(3.9)


def test_shares_of_paths_are_of_what_was_sent_from_then_on() -> None:
    run = _run(_plan())
    shares = path_shares(run, 2.0)
    assert [(one["path"], one["share"]) for one in shares] == [(0, 0.95), (1, 0.05)]
    assert [one["latency_ms"] for one in shares] == pytest.approx([1.0, 1.0])
    assert [one["predicted_share"] for one in shares] == pytest.approx([0.5, 0.5])
    assert path_shares(replace(run, received=_received(run, slice(0, 0))), 2.0) == []


def test_cable_changes_once_for_both_ports_and_repeated_reports() -> None:
    wiring = wire(NETWORK, ["s0_0", "s2_0"])
    states = CableStates(wiring)
    names = {switch.name for switch in wiring.switches}
    places: dict[Any, list[tuple[int, int]]] = {}
    for place, cable in wiring.cables_by_port().items():
        if {cable.a, cable.b} <= names:
            places.setdefault(cable.links, []).append(place)
    links, (one, two) = next((links, ends) for links, ends in places.items() if len(ends) == 2)
    said = [
        states.on_port(*place, up)
        for place, up in ((one, True), (one, False), (one, False), (two, False))
    ]
    assert [change and change.up for change in said] == [None, False, None, None]
    assert states.down == frozenset(links)
    said = [
        states.on_port(*place, up)
        for place, up in ((one, True), (one, True), (two, True), (two, True))
    ]
    assert [change and (change.links, change.up) for change in said] == [
        None,
        None,
        (links, True),
        None,
    ]
    assert states.down == frozenset() and states.on_port(10**6, 1, False) is None
