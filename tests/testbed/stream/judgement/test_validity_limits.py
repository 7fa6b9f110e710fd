"""Where a run ceases to count: runs spoilt in one respect a little less and a little more than the figure that
docs/explanation/stream_verdict.md states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.faults.fault import Fault, fault_not_in_force
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import LossReportLog, StreamClocks, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import uncounted
from tests.testbed.stream.judgement.test_independent_judge import (
    finished,
    impaired,
    kept,
    with_logs,
)

PLAYBACK_S, GUARD_S, LATE_S, CUT_SHORT = 0.4, 0.02, 0.005, 0.75
"""Usual buffer; around a fault; at a relay, or in switches; of a fault's planned time."""


def why_invalid(plan: StreamPlan, run: StreamMeasurements) -> str | None:
    return judge(Analysis(plan, run)).invalid


def ends_between(
    plan: StreamPlan,
    spoilt: Callable[[float], StreamMeasurements],
    says: str,
    counts: float,
    fails: float,
) -> bool:
    """Unspoilt the run counts; spoilt by the first amount it is not called invalid for this, by the second it is."""
    assert why_invalid(plan, spoilt(0.0)) is None
    return says not in str(why_invalid(plan, spoilt(counts))) and says in str(
        why_invalid(plan, spoilt(fails))
    )


def base() -> tuple[StreamPlan, StreamMeasurements]:
    plan, run = finished(("down", "blackhole"), "one after the other", "stratified", "")
    return plan, replace(run, fabric="emulation")


def with_counters(run: StreamMeasurements, **more: Any) -> StreamMeasurements:
    return replace(run, counters={**run.counters, **more})


def relayed(run: StreamMeasurements, **report: float) -> StreamMeasurements:
    return with_counters(run, impaired_links={"a->b x": {"late_s": 0.0, "latest_s": 0.0, **report}})


SPOILT: dict[str, tuple[Callable[[StreamMeasurements, float], StreamMeasurements], str, float]] = {
    "a sender behind its schedule": (
        lambda run, s: replace(run, health=replace(run.health, sender_lag_s=s)), "the sender lagged", PLAYBACK_S / 4),
    "a receiver that takes packets late": (
        lambda run, s: with_counters(run, worst_receive_lag_s=s), "lay", PLAYBACK_S / 4),
    "clocks of faults and sender apart": (
        lambda run, s: replace(run, clocks=StreamClocks(sender_s=s / 2, faults_s=s / 2)), "of each other", GUARD_S),
    "clocks of sender and receiver apart": (
        lambda run, s: replace(run, clocks=StreamClocks(sender_s=GUARD_S / 2, receiver_s=s)), "playback buffer",
        PLAYBACK_S / 4 - GUARD_S / 2),
    "a relay that is late": (lambda run, s: relayed(run, late_s=s), "sent on", LATE_S),
    "a relay that is late for a short delay": (lambda run, s: relayed(run, late_s=s, delay_s=0.001), "sent on", 0.002),
    "a relay that is late for a delay": (lambda run, s: relayed(run, late_s=s, delay_s=0.012), "sent on", 0.003),
    "a relay that is late for a long delay": (lambda run, s: relayed(run, late_s=s, delay_s=1.0), "sent on", LATE_S),
    "packets that lie in switches": (
        lambda run, s: replace(run, received=replace(run.received, time_s=run.received.time_s + s * _one(run))),
        "switches", PLAYBACK_S / 4),
}  # fmt: skip


def _one(run: StreamMeasurements) -> Any:
    """The packet over the longest way that came last: later it overtakes nobody."""
    longest = np.argmax(run.deliveries.transit_s[~np.isnan(run.deliveries.transit_s)])
    return np.arange(len(run.received.time_s)) == max(int(longest), len(run.received.time_s) - 1)


@pytest.mark.parametrize("name", SPOILT)
def test_a_run_counts_up_to_the_limit_that_is_stated(name: str) -> None:
    plan, run = base()
    spoil, says, stated = SPOILT[name]
    slack = (
        0.004 if "switches" in name else 1e-5
    )  # that packet's own way is a part of the longest one
    assert ends_between(plan, lambda s: spoil(run, s), says, stated - slack, stated + slack)


@pytest.mark.parametrize("number", [0, 1])
def test_a_fault_counts_that_was_in_force_for_three_quarters_of_its_time(number: int) -> None:
    plan, run = base()

    def shorter(by: float) -> StreamMeasurements:
        times = run.faults[number]
        stop_s = times.stop_s - by * (times.fault.stop_s - times.fault.start_s)
        return replace(
            run, faults=tuple(replace(t, stop_s=stop_s) if t is times else t for t in run.faults)
        )

    assert ends_between(plan, shorter, "was active for", 1 - CUT_SHORT - 1e-4, 1 - CUT_SHORT + 1e-4)
    assert "did not happen" in str(why_invalid(plan, replace(run, faults=run.faults[:1])))


@pytest.mark.parametrize("by_s", [-3.0, -0.6, 0.6, 3.0])
def test_a_fault_that_came_half_a_second_off_its_time_says_nothing(by_s: float) -> None:
    plan, run = base()

    def moved(by: float) -> str | None:
        times = tuple(replace(t, start_s=t.start_s + by, stop_s=t.stop_s + by) for t in run.faults)
        return fault_not_in_force(plan.faults, times, plan.duration_s)

    assert moved(0.4) is None and "was active for" in str(moved(by_s))


def test_a_loss_report_may_be_as_old_as_an_answer_can_wait_for() -> None:
    plan, run = base()
    told = np.array([0.5, 0.9, 1.3])
    nothing = np.empty(0)

    def older(age_s: float) -> StreamMeasurements:
        none = nothing.astype(np.int64)
        news = LossReportLog(
            told_s=told,
            newest_s=told - [0.01, age_s, 0.02],
            block=none,
            symbol=none,
            lost_s=nothing,
            came_s=nothing,
        )
        return replace(run, news=news)

    longest_s = max(
        sum(plan.network.links[i].delay_s for i in path.links) for path in plan.forward.paths
    )
    answer_s = 0.45 - plan.stream.report_interval_s - plan.stream.block_s
    limit_s = 2 * longest_s + answer_s
    assert ends_between(
        plan, older, "told the sender of packets sent", limit_s - 0.2, limit_s + 2e-3
    )


def test_packets_that_the_machine_dropped_are_a_ten_thousandth_at_most() -> None:
    plan, run = base()
    allowed = int(1e-4 * len(run.sent.time_s))
    assert (
        why_invalid(plan, replace(run, health=replace(run.health, unplanned_drops=allowed))) is None
    )
    said = why_invalid(plan, replace(run, health=replace(run.health, unplanned_drops=allowed + 1)))
    assert f"{allowed + 1} packets were dropped" in str(said)


@pytest.mark.parametrize(("overlapping", "share"), [(False, 1e-4), (True, 1e-3)])
def test_packets_lost_in_no_fault_are_a_ten_thousandth_at_most(
    overlapping: bool, share: float
) -> None:
    spans = "overlapping" if overlapping else "one after the other"
    plan, run = finished(("down", "down"), spans, "fixed N", "")
    calm = np.flatnonzero(run.received.time_s < 0.4)
    allowed = int(share * len(run.sent.time_s))

    def losing(count: int) -> str | None:
        kept = np.delete(np.arange(len(run.received.time_s)), calm[:count])
        received = replace(
            run.received,
            **{n: getattr(run.received, n)[kept] for n in ("time_s", "block", "symbol")},
        )
        return why_invalid(plan, replace(uncounted(run), received=received))

    assert losing(allowed) is None and f"{allowed + 1} of {len(run.sent.time_s)}" in str(
        losing(allowed + 1)
    )


def test_times_of_unimpaired_packets_count_against_the_machine() -> None:
    """99 of 100 of them, and only where something is claimed of times."""
    for words, timed in (("delay:0.02,jitter=0.01", True), ("loss:0.2", False)):
        plan, run = impaired(words, "alone")
        emulated = replace(run, fabric="emulation")
        calm = run.received.time_s < 0.15

        def slower(
            s: float, of: StreamMeasurements = emulated, which: Any = calm
        ) -> StreamMeasurements:
            return replace(of, received=replace(of.received, time_s=of.received.time_s + s * which))

        if timed:
            late = why_invalid(plan, slower(0.1))
            assert "packets that met no impairment" in str(late) and "limit 5 ms" in str(late)
        else:
            assert "met no impairment" not in str(why_invalid(plan, slower(0.1)))
        assert why_invalid(plan, slower(0.0)) is None


@pytest.mark.parametrize("fabric", ["simulator", "emulation"])
@pytest.mark.parametrize("spans", ["one after the other", "to the end", "overlapping"])
def test_a_run_in_which_a_planned_fault_never_came_says_nothing(spans: str, fabric: str) -> None:
    plan, _ = finished(("down", "blackhole"), spans, "stratified", "")
    calm = replace(SimulatedStreamFabric().run(replace(plan, faults=())), fabric=fabric)
    assert any(
        words in str(why_invalid(plan, calm)) for words in ("did not happen", "was active for 0.00")
    )
    lasting = replace(plan, faults=(Fault(link=plan.faults[0].link, start_s=1.0),))
    assert "a->b down did not happen" in str(why_invalid(lasting, calm))


def test_early_packets_and_missing_blocks_make_the_run_invalid() -> None:
    """Times in another unit, clocks that disagree by a report interval, every other block."""
    plan, run = base()
    for times_s in (
        run.received.time_s / 1000,
        run.received.time_s - plan.stream.report_interval_s,
    ):
        early = with_logs(plan, run, received=replace(run.received, time_s=times_s))
        assert "before they were sent" in str(why_invalid(plan, early))
    halved = with_logs(plan, run, sent=kept(run.sent, run.sent.block % 2 == 0))
    assert "blocks were sent" in str(why_invalid(plan, halved))


def test_duplicates_make_the_run_invalid_if_no_link_copies() -> None:
    plan, run = base()
    names = ("time_s", "block", "symbol")
    twice = {name: np.repeat(getattr(run.received, name), 2) for name in names}
    unsent = {
        name: np.append(getattr(run.received, name), getattr(run.received, name)) for name in names
    }
    unsent["block"][len(run.received.block) :] += 10_000
    for received in (twice, unsent):
        said = why_invalid(plan, replace(run, received=replace(run.received, **received)))
        assert f"{len(run.received.block)} packets were sent or arrived twice" in str(said)
