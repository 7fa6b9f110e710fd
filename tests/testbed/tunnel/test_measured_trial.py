"""A trial that ran on switches passes, and fails each of its checks where it is spoilt as the check's rival says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.model.verdict import Verdict
from testbed.tunnel.judgement import judge_trial
from testbed.tunnel.trial import RivalRun, TrialMeasurements
from tests.helpers.stored_trials import load_trial, trial_plan

RUN = Path(__file__).with_name("measured_trial.json")
Spoil = Callable[[dict[str, RivalRun]], RivalRun]


@pytest.fixture(scope="module")
def runs() -> dict[str, RivalRun]:
    return {one.rival: one for one in load_trial(RUN).runs}


def verdict_of(runs: dict[str, RivalRun]) -> Verdict:
    return judge_trial(trial_plan(), TrialMeasurements(runs=tuple(runs.values()))).verdict


def counting(run: RivalRun, end: str, **counts: Any) -> RivalRun:
    own = getattr(run, end)
    return replace(run, **{end: {**own, "counters": {**own["counters"], **counts}}})


def with_programs_of(rival: str, *names: str) -> Spoil:
    """What programs made of the rival's run."""
    return lambda runs: replace(
        runs["adaptive"],
        programs={
            **runs["adaptive"].programs,
            **{name: runs[rival].programs[name] for name in names},
        },
    )


def without_what_was_recovered(runs: dict[str, RivalRun]) -> RivalRun:
    """What the code brought back is lost, as without a code."""
    run = runs["adaptive"]
    log = run.sink["delivered"]
    gone = replace(run, sink={**run.sink, "delivered": log[~log["recovered"]]})
    return counting(gone, "sink", recovered=0, unused_sources=0)


def as_if_nothing_failed(runs: dict[str, RivalRun]) -> RivalRun:
    """Every original came."""
    run = runs["adaptive"]
    return counting(run, "sink", unused_sources=run.sink["counters"]["recovered"])


def changed(run: RivalRun, workload: str, **figures: Any) -> RivalRun:
    """With other figures of one program."""
    programs = {**run.programs, workload: {**run.programs[workload], **figures}}
    return replace(run, programs=programs)


def one_voice_packet(run: RivalRun) -> RivalRun:
    return changed(
        run, "voip", **{key: run.programs["voip"][key][:1] for key in ("sent_s", "delay_s")}
    )


def without_bytes_of_parity(runs: dict[str, RivalRun]) -> RivalRun:
    row = {
        one["rival"]: one
        for one in judge_trial(trial_plan(), TrialMeasurements(runs=tuple(runs.values()))).rows
    }
    ours = row["adaptive"]
    counted = runs["adaptive"].source["counters"]["wire_bytes"]
    return counting(
        runs["adaptive"],
        "source",
        wire_bytes=counted * ours["rival_wire_ratio"] / ours["wire_ratio"],
    )


def test_the_run_as_it_was_passes_every_check_against_a_measured_rival(
    runs: dict[str, RivalRun],
) -> None:
    verdict = verdict_of(runs)
    assert verdict.passed and verdict.invalid is None, verdict
    ours = [check for check in verdict.checks if check.about == "rival:adaptive"]
    assert {"lost", "original-loss", "wire-bytes", "mos", "ping-lost", "frames", "ssim"} <= {
        one.key for one in ours
    }
    assert all(check.rival is not None for check in ours)


@pytest.mark.parametrize(
    ("spoil", "key"),
    [
        (without_what_was_recovered, "lost"),
        (as_if_nothing_failed, "original-loss"),
        (without_bytes_of_parity, "wire-bytes"),
        (with_programs_of("none", "voip"), "mos"),
        (with_programs_of("none", "ping"), "ping-lost"),
        (with_programs_of("none", "video"), "frames"),
        (with_programs_of("direct", "video"), "ssim"),
        (lambda runs: replace(runs["adaptive"], faults=()), "faults-came"),
    ],
)
def test_a_run_spoilt_as_its_rival_says_fails_that_check(
    runs: dict[str, RivalRun], spoil: Spoil, key: str
) -> None:
    checks = verdict_of(runs | {"adaptive": spoil(runs)}).checks
    assert key in {
        check.key
        for check in checks
        if check.outcome == "fails" and check.about == "rival:adaptive"
    }


def test_direct_voice_without_losses_fails_the_prediction(
    runs: dict[str, RivalRun],
) -> None:
    voice = runs["adaptive"].programs["voip"]
    spoilt = replace(runs["direct"], programs={**runs["direct"].programs, "voip": voice})
    checks = verdict_of(runs | {"direct": spoilt}).checks
    assert "original-loss" in {check.key for check in checks if check.outcome == "fails"}


@pytest.mark.parametrize("rival", ["direct", "none", "static", "adaptive"])
def test_machine_may_drop_one_packet_in_10000(runs: dict[str, RivalRun], rival: str) -> None:
    run = replace(runs[rival], packets=20_000)
    for drops, exit_code in ((2, 0), (3, 4)):
        verdict = verdict_of(runs | {rival: replace(run, machine_drops=drops)})
        assert verdict.exit_code == exit_code, verdict.invalid
    assert runs[rival].packets > 100


@pytest.mark.parametrize(
    ("waited_s", "exit_codes"), [(0.05, (0, 0)), (0.09, (4, 0)), (0.3, (4, 4))]
)
def test_run_that_waited_for_a_processor_is_invalid_and_pictures_sooner(
    runs: dict[str, RivalRun], waited_s: float, exit_codes: tuple[int, int]
) -> None:
    run = runs["none"]
    log = run.sink["delivered"].copy()
    log["came_s"][np.flatnonzero(~log["recovered"])[10]] += waited_s
    without_picture = {name: found for name, found in run.programs.items() if name != "video"}
    for programs, exit_code in zip((run.programs, without_picture), exit_codes, strict=True):
        switches = replace(run, sink={**run.sink, "delivered": log}, programs=programs)
        ends = replace(run, lag_s=waited_s, programs=programs)
        for spoilt in (switches, ends):
            verdict = verdict_of({"none": spoilt, "direct": runs["direct"]})
            assert (verdict.exit_code == 4) == (exit_code == 4), verdict.invalid


SPOILT: dict[str, tuple[Callable[[RivalRun], RivalRun], int]] = {
    "a single echo": (lambda run: changed(run, "ping", sent=1, lost=0), 5),
    "a single packet of voice": (one_voice_packet, 5),
    "a single frame": (lambda run: changed(run, "video", frames=1, identical=1), 5),
    "voice that came before it was sent": (
        lambda run: changed(run, "voip", delay_s=[-one for one in run.programs["voip"]["delay_s"]]),
        1,
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_tunnel_that_carried_next_to_nothing_does_not_pass(
    runs: dict[str, RivalRun], name: str
) -> None:
    spoil, exit_code = SPOILT[name]
    verdict = verdict_of(runs | {"adaptive": spoil(runs["adaptive"])})
    assert verdict.exit_code == exit_code, verdict


def test_packets_delivered_before_they_arrived_leave_nothing_to_judge(
    runs: dict[str, RivalRun],
) -> None:
    run = runs["adaptive"]
    log = run.sink["delivered"].copy()
    log["at_s"] -= 1.0
    assert (
        verdict_of(runs | {"adaptive": replace(run, sink={**run.sink, "delivered": log})}).exit_code
        == 4
    )


@pytest.mark.parametrize("rival", ["direct", "none", "adaptive"])
@pytest.mark.parametrize("by_s", [0.6, 3.0, 30.0])
def test_faults_that_came_at_another_time_leave_nothing_to_judge(
    runs: dict[str, RivalRun], rival: str, by_s: float
) -> None:
    later = tuple(
        replace(one, start_s=one.start_s + by_s, stop_s=one.stop_s + by_s)
        for one in runs[rival].faults
    )
    verdict = verdict_of(runs | {rival: replace(runs[rival], faults=later)})
    assert verdict.exit_code == 4 and "was active for" in str(verdict.invalid)


@pytest.mark.parametrize("times", [2, 10, 1000])
@pytest.mark.parametrize(
    ("end", "log"), [("source", "offered"), ("sink", "offered"), ("sink", "delivered")]
)
def test_packets_of_unexpected_sizes_leave_nothing_to_judge(
    runs: dict[str, RivalRun], end: str, log: str, times: int
) -> None:
    for rival in ("none", "static", "adaptive"):
        own = getattr(runs[rival], end)
        packets = own[log].copy()
        packets["bytes"] = packets["bytes"] * np.uint64(times) % 65536
        verdict = verdict_of(runs | {rival: replace(runs[rival], **{end: {**own, log: packets}})})
        assert verdict.exit_code == 4, (rival, verdict)


@pytest.mark.parametrize(("end", "name", "factor"), [
    ("sink", "wire_bytes", 0.5), ("sink", "wire_bytes", 2), ("source", "report_bytes", 1000), ("sink", "offered", 2),
    ("source", "wire_packets", 0.5), ("sink", "delivered", 0.5), ("sink", "recovered", 2), ("source", "sent_parity", 0),
    ("source", "processor_share", 1000),
])  # fmt: skip
@pytest.mark.parametrize("rival", ["static", "adaptive"])
def test_a_run_whose_ends_counted_what_they_did_not_log_is_invalid(
    runs: dict[str, RivalRun], rival: str, end: str, name: str, factor: float
) -> None:
    counted = getattr(runs[rival], end)["counters"][name]
    verdict = verdict_of(
        {**runs, rival: counting(runs[rival], end, **{name: int(factor * counted)})}
    )
    assert verdict.exit_code == 4 and name.removeprefix("sent_parity") in str(verdict.invalid)


@pytest.mark.parametrize(("workload", "figures"), [
    ("ping", {"sent": 400}), ("ping", {"lost": 900}), ("ping", {"mean_ms": 900.0}), ("ping", {"worst_ms": 2e5}),
    ("video", {"frames": 880}), ("video", {"identical": 89}), ("video", {"ssim": 1.9}), ("video", {"psnr_db": 230.0}),
])  # fmt: skip
@pytest.mark.parametrize("rival", ["direct", "none", "static"])
def test_a_run_whose_rivals_measured_more_than_there_was_is_invalid(
    runs: dict[str, RivalRun], rival: str, workload: str, figures: dict[str, float]
) -> None:
    verdict = verdict_of({**runs, rival: changed(runs[rival], workload, **figures)})
    assert verdict.exit_code == 4 and f"{workload}: {next(iter(figures))} is" in str(
        verdict.invalid
    )
