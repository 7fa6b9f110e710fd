"""The study of programs over a tunnel: its faults can be stood, and of a run on switches that is spoilt as a rival says
the claims fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.stream.real_time import real_programs
from testbed.faults.reading import read_faults
from testbed.tunnel.judgement import judge_trial
from testbed.tunnel.prediction import predict_rival
from testbed.tunnel.trial import RivalRun, TrialMeasurements
from tests.helpers.stored_trials import load_trial, trial_plan

RUN = Path(__file__).parents[3] / "testbed" / "tunnel" / "measured_trial.json"
Results = dict[str, Any]


def results(runs: TrialMeasurements) -> Results:
    return real_programs.results_of(judge_trial(trial_plan(), runs))


@pytest.fixture(scope="module")
def good() -> Results:
    return results(load_trial(RUN))


@pytest.fixture(scope="module")
def bare() -> Results:
    """The adaptive tunnel fares as the split without code does."""
    runs = {one.rival: one for one in load_trial(RUN).runs}
    log = runs["adaptive"].sink["delivered"]
    counts = {**runs["adaptive"].sink["counters"], "recovered": 0, "unused_sources": 0}
    sink = {**runs["adaptive"].sink, "delivered": log[~log["recovered"]], "counters": counts}
    wrong: RivalRun = replace(runs["adaptive"], sink=sink, programs=runs["none"].programs)
    return results(TrialMeasurements(runs=tuple((runs | {"adaptive": wrong}).values())))


def rows_with(found: Results) -> list[Results]:
    return [point | found for point in real_programs.points(False, 1) if point["workload"] != "tcp"]


def test_runs_as_they_should_be_pass_with_measured_rivals_and_are_drawn(good: Results) -> None:
    verdict = real_programs.STUDY.judged(rows_with(good))
    assert verdict.passed and len(verdict.checks) == 3 * 2 * len(good["checks"])
    keys = {check.key: check.rival for check in verdict.checks}
    assert {"lost", "original-loss", "wire-bytes", "mos", "frames", "ssim"} <= set(keys)
    assert all(rival is not None for rival in keys.values())
    assert set(real_programs.figures(rows_with(good))) == {"voice", "picture"}


@pytest.mark.parametrize("key", ["lost", "mos", "ping-lost", "frames", "ssim"])
def test_one_run_of_twenty_that_fares_as_its_rival_fails_the_claim(
    good: Results, bare: Results, key: str
) -> None:
    rows = rows_with(good)
    spoilt = [row | (bare if number == 17 else {}) for number, row in enumerate(rows)]
    failed = {check.key for check in real_programs.judge(spoilt).checks if check.outcome == "fails"}
    assert key in failed and not [
        c for c in real_programs.judge(rows).checks if c.outcome == "fails"
    ]


def test_runs_that_say_nothing_pass_nothing(good: Results) -> None:
    assert not real_programs.STUDY.judged(
        [row | {"invalid": "late"} for row in rows_with(good)]
    ).passed
    empty = real_programs.STUDY.judged([row | {"checks": []} for row in rows_with(good)])
    assert not empty.passed and not empty.checks


@pytest.mark.parametrize("kind", real_programs.KINDS)
@pytest.mark.parametrize("span", real_programs.SPANS)
def test_faults_are_on_the_direct_path_and_what_the_code_can_stand(kind: str, span: str) -> None:
    base = {"workload": "voip", "duration_s": 10.0, "kind": kind, "span": span}
    chosen = set()
    for network, source, sink in real_programs.NETWORKS[:2]:
        for seed in (1, 2):
            point = base | {"network": network, "source": source, "sink": sink, "seed": seed}
            faults = real_programs.broken_cables(point)
            plan = real_programs.planned(point, faults)
            told = {rival: predict_rival(plan, rival) for rival in ("direct", "none", "adaptive")}
            assert (
                told["adaptive"].most_loss
                == 0
                < min(told["direct"].original_loss, told["none"].original_loss)
            )
            first, second = read_faults(faults, plan.network)
            assert (first.ends_s > second.start_s) == (span == "overlapping")
            chosen.add(tuple(faults))
    assert len(chosen) > 2


def test_the_quick_size_is_two_runs() -> None:
    assert len(real_programs.points(True, 1)) == 2 and len(real_programs.points(False, 1)) == 123
