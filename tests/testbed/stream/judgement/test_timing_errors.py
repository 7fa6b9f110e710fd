"""Load is told from failure: what the machine was late by is held against what the checks bear, and excuses nothing
else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from testbed.faults.fault import Fault, FaultTimes
from testbed.model.machine.load import TimingError, as_figures, first_exceeded
from testbed.stream.facts.spurious_losses import spurious_loss_blocks, spurious_loss_intervals
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.packet_logs import LossReportRecorder, block_outcomes
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import (
    LossReportLog,
    ReceivedPackets,
    RunHealth,
    SentPackets,
    StreamMeasurements,
)
from testbed.stream.plan import StreamPlan
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned, uncounted
from topologies import load_network

RECORDED = Path(__file__).with_name("loaded_run.npz")
"""A run on switches whose processors eight busy loops wanted too: s1 to s6 of swiss-t1, s1->s2 cut from 1 to 2.5 s."""


def plan_of_the_recorded() -> StreamPlan:
    fault = Fault(link=("s1", "s2", 0), kind="down", start_s=1.0, stop_s=2.5)
    return planned(load_network("swiss-t1"), "s1", "s6", faults=(fault,), duration_s=4.0)


def recorded(plan: StreamPlan) -> StreamMeasurements:
    """Times are stored in whole microseconds; one that never came is -1."""
    with np.load(RECORDED) as stored:
        columns = {name: stored[name].astype(np.int64) for name in stored.files}

    def logged(kind, *names):
        fields = {n: columns[f"{kind}_{n}"] for n in names}
        return {
            n: np.where(v < 0, np.inf, v / 1e6) if n.endswith("_s") else v
            for n, v in fields.items()
        }

    sent = SentPackets(**logged("sent", "time_s", "block", "symbol", "label", "block_size"))
    received = ReceivedPackets(**logged("received", "time_s", "block", "symbol"))
    start, stop, lag, waited = columns["run"] / 1e6
    return StreamMeasurements(
        fabric="emulation",
        sent=sent,
        received=received,
        blocks=block_outcomes(sent, received, plan.stream.source_packets, plan.stream.playback_s),
        faults=(FaultTimes(fault=plan.faults[0], start_s=start, stop_s=stop),),
        news=LossReportLog(
            **logged("news", "told_s", "newest_s", "block", "symbol", "lost_s", "came_s")
        ),
        health=RunHealth(sender_lag_s=lag, unplanned_drops=0, cpu_fraction=1.0),
        counters={"worst_receive_lag_s": waited},
    )


@pytest.fixture(scope="module")
def plan() -> StreamPlan:
    return plan_of_the_recorded()


@pytest.fixture(scope="module")
def loaded(plan) -> tuple[StreamPlan, StreamMeasurements]:
    return plan, recorded(plan)


@pytest.fixture(scope="module")
def quiet(plan) -> tuple[StreamPlan, StreamMeasurements]:
    """The same plan in virtual time, taken for a run on switches that hold nothing."""
    return plan, replace(uncounted(SimulatedStreamFabric().run(plan)), fabric="emulation")


def test_run_on_a_loaded_machine_passes_without_spurious_losses(loaded):
    """The blocks that were begun upon true news are as theory says; the others are left out."""
    plan, run = loaded
    analysis = Analysis(plan, run)
    assert analysis.spurious.any() and abs(analysis.ror.spurious) > 0.015
    assert abs(analysis.ror.measured - analysis.ror.predicted) <= 0.01
    verdict = judge(analysis)
    assert verdict.passed, [check for check in verdict.checks if not check.passed]


def test_run_on_a_loaded_machine_fails_without_its_news(loaded):
    """Nothing but the recorded lateness excuses it: a sender that errs by itself is not told from one that was misled
    without that record."""
    plan, run = loaded
    bare = replace(run, news=LossReportRecorder().log())
    verdict = judge(Analysis(plan, bare))
    failed = {check.key for check in verdict.checks if not check.passed}
    assert verdict.exit_code == 1
    assert failed == {"redundancy", "late-parity-once-answered"}


def taken_for_lost(run: StreamMeasurements, place: int, lasts_s: float) -> StreamMeasurements:
    """As if the sender had taken a packet for lost that came, for so long."""
    at = run.sent.time_s[place]
    log = LossReportRecorder()
    block, symbol = int(run.sent.block[place]), int(run.sent.symbol[place])
    log.record_decision(block, symbol, True, at + 0.01)
    log.record_decision(block, symbol, False, at + 0.01 + lasts_s)
    for told in np.arange(0.05, 4, 0.05):
        log.report(told, told - 0.005)
    return replace(run, news=log.log())


def with_packets_of(run: StreamMeasurements, blocks: np.ndarray, more: int) -> StreamMeasurements:
    """As if each of these blocks had been begun with ``more`` packets more, all of which came."""
    sent, received = run.sent, run.received
    first = np.unique(sent.block, return_index=True)[1]
    chosen = np.repeat([k for k in first if sent.block[k] in blocks], more)
    extra = {
        "time_s": sent.time_s[chosen] + 0.02,
        "block": sent.block[chosen],
        "label": sent.label[chosen],
    }
    extra |= {
        "symbol": 100 + np.tile(np.arange(more), len(chosen) // more),
        "block_size": sent.block_size[chosen] + more,
    }
    sizes = np.where(np.isin(sent.block, blocks), sent.block_size + more, sent.block_size)
    columns = {
        n: np.concatenate([sizes if n == "block_size" else v, extra[n]])
        for n, v in vars(sent).items()
    }
    order = np.argsort(columns["time_s"], kind="stable")
    came = {n: np.concatenate([v, extra[n]]) for n, v in vars(received).items()}
    return replace(
        run,
        sent=SentPackets(**{n: v[order] for n, v in columns.items()}),
        received=ReceivedPackets(**came),
    )


def test_blocks_of_a_misled_sender_are_left_out_and_many_are_inconclusive(quiet):
    plan, run = quiet
    calm = Analysis(plan, run)
    place = int(np.searchsorted(run.sent.time_s, 1.8))
    for lasts_s, invalid in ((0.05, False), (0.5, True)):
        misled = taken_for_lost(run, place, lasts_s)
        blocks = misled.blocks.block[spurious_loss_blocks(misled, plan.stream)]
        assert len(blocks) >= lasts_s * 50
        disturbed = with_packets_of(misled, blocks, 9)
        found = Analysis(plan, disturbed)
        assert found.ror.measured == pytest.approx(calm.ror.measured, abs=0.002)
        assert (
            found.ror.spurious > 0.002 and found.faults[0].spurious_loss_blocks >= len(blocks) - 2
        )
        verdict = judge(found)
        assert (verdict.invalid is not None) is invalid, verdict.invalid
        assert all(check.passed for check in verdict.checks if check.name.startswith("ROR"))


def test_packets_taken_for_lost_that_were_lost_mislead_nobody(quiet):
    plan, run = quiet
    key = run.sent.block * 256 + run.sent.symbol
    place = int(np.flatnonzero(~np.isin(key, run.received.block * 256 + run.received.symbol))[0])
    misled = taken_for_lost(run, place, 0.5)
    assert len(spurious_loss_intervals(misled, plan.stream)) == 0
    assert not spurious_loss_blocks(misled, plan.stream).any()


@pytest.mark.parametrize(("held_s", "invalid"), [(0.09, False), (0.12, True)])
def test_packet_delayed_in_a_switch_makes_the_run_invalid(quiet, held_s, invalid):
    plan, run = quiet
    times = run.received.time_s.copy()
    times[200] += held_s
    late = replace(run, received=replace(run.received, time_s=times))
    verdict = judge(Analysis(plan, late))
    assert (verdict.exit_code == 4) is invalid
    assert (
        f"packets lay {held_s * 1000:.0f} ms in the switches" in (verdict.invalid or "")
        or not invalid
    )


def test_old_news_makes_a_run_invalid(quiet):
    plan, run = quiet
    log = LossReportRecorder()
    log.report(1.2, 0.85)
    verdict = judge(Analysis(plan, replace(run, news=log.log())))
    assert (
        verdict.exit_code == 4
        and "packets sent 350 ms before, where the checks bear 300 ms" in (verdict.invalid or "")
    )


def test_too_little_redundancy_fails_on_a_quiet_machine_and_on_a_late_one(quiet):
    """A sender that never raises N: whatever the machine was late by within what the checks bear, it fails."""
    plan, run = quiet
    kept = run.sent.symbol < 22
    sent = SentPackets(**{n: v[kept] for n, v in vars(run.sent).items()})
    deaf = replace(run, sent=replace(sent, block_size=np.full_like(sent.block_size, 22)))
    came = run.received.symbol < 22
    received = ReceivedPackets(**{n: v[came] for n, v in vars(run.received).items()})
    times = received.time_s.copy()
    times[::50] += 0.03
    for one in (
        replace(deaf, received=received),
        replace(deaf, received=replace(received, time_s=times)),
    ):
        verdict = judge(Analysis(plan, taken_for_lost(one, 300, 0.02)))
        assert verdict.invalid is None and verdict.exit_code == 1
        assert {"ROR over the failed links", "block size, s1->s2 down"} <= {
            c.name for c in verdict.checks if not c.passed
        }


def test_validity_rule_names_the_first_excess_and_has_no_infinite_figure():
    ones = [
        TimingError(name=n, description="it was {was} late", measured=w, limit=0.1)
        for n, w in (("a", 0.1), ("b", np.inf))
    ]
    assert first_exceeded(ones[:1], "wait") is None
    assert "inf ms late, where the checks bear 100 ms; wait" in (first_exceeded(ones, "wait") or "")
    assert as_figures(ones) == {"a": {"was": 0.1, "bears": 0.1}, "b": {"was": None, "bears": 0.1}}
