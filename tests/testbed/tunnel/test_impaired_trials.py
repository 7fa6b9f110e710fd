"""Trials over impaired links: what is predicted, what passes, and what a broken tunnel fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import testbed
from testbed.faults.fault import FaultTimes
from testbed.model.verdict import Check
from testbed.model.workload import Judgement
from testbed.tunnel.judgement import judge_trial
from testbed.tunnel.prediction import predict_rival
from testbed.tunnel.trial import RivalRun, TrialMeasurements, TrialPlan
from testbed.tunnel.virtual_time import VirtualTunnel, draw_direct_losses, is_impaired
from tests.helpers.stored_trials import PACKETS

INPUTS = Path(__file__).parents[2] / "user_inputs"
CASES = {
    "random loss": ("tunnel_random_loss.json", ("a", "b"), "none"),
    "two bad links": ("tunnel_two_bad_links.json", ("home", "office"), "none"),
    "two bad links that fail": ("tunnel_two_bad_links.json", ("home", "office"), None),
    "burst loss": ("tunnel_burst_loss.json", ("home", "office"), "none"),
    "mobile": ("tunnel_mobile.json", ("home", "office"), "none"),
    "parallel cables": ("tunnel_parallel_cables.json", ("home", "office"), "none"),
    "one direction": ("tunnel_one_direction.json", ("home", "office"), "none"),
}
#: The cases of `make test`; `make soak` has the others as well.
SHORT = ("random loss", "two bad links")
DURATION_S = 3.0
PACKETS_SENT = 150
SEED = 77


@cache
def plan_of(case: str) -> TrialPlan:
    file, between, faults = CASES[case]
    options: dict[str, Any] = {} if faults is None else {"faults": faults}
    return testbed.tunnel_plan(
        INPUTS / file, between, duration_s=DURATION_S, workload="voip,ping", **options
    )


def _records(rows: Sequence[tuple[Any, ...]]) -> Any:
    return np.array(sorted(rows, key=lambda row: row[2]), dtype=PACKETS)


def offered() -> tuple[Any, Any]:
    """Return what both ends are offered: voice and echo requests, and echo replies."""
    times = [0.02 * number for number in range(PACKETS_SENT)]
    voice = [(1, number, at_s, 200, 0.0, False) for number, at_s in enumerate(times)]
    echoes = [(2, number, at_s + 0.003, 84, 0.0, False) for number, at_s in enumerate(times)]
    replies = [(2, number, at_s + 0.05, 84, 0.0, False) for number, at_s in enumerate(times)]
    return _records(voice + echoes), _records(replies)


@cache
def run_of(case: str, rival: str) -> RivalRun:
    """Return a run in virtual time, with another seed than any draw of the prediction."""
    plan = plan_of(case)
    faults = tuple(FaultTimes(fault=f, start_s=f.start_s, stop_s=f.stop_s) for f in plan.faults)
    sent = offered()
    if rival == "direct":
        share = draw_direct_losses(plan, sent, 200)[-1]
        sent_s = [0.02 * number for number in range(PACKETS_SENT)]
        delay_s = [float("inf") if 0.618 * k % 1 < share else 0.03 for k in range(PACKETS_SENT)]
        voice = {"sent_s": sent_s, "delay_s": delay_s}
        return RivalRun(rival=rival, programs={"voip": voice}, faults=faults)
    tunnel = VirtualTunnel(plan, replace(plan.tunnel, mode=rival), sent, SEED)
    draws = tunnel.run()
    ends = []
    for end in (0, 1):
        rows = [
            (
                packet.flow,
                packet.number,
                packet.at_s - tunnel.zero_s,
                len(packet.payload),
                packet.came_s - tunnel.zero_s,
                packet.recovered,
            )
            for packet in tunnel.delivered[end]
        ]
        counters = {
            "report_bytes": 0,
            "processor_share": 0.1,
            **tunnel.receivers[end].counters,
            "recovered": tunnel.receivers[end].counters["recovered"],
            "wire_bytes": tunnel.wire_bytes[end],
        }
        del counters["reports"]
        log = np.array(rows, dtype=PACKETS)
        ends.append({"counters": counters, "offered": sent[end], "delivered": log})
    voice_packets = sent[0]["bytes"] == 200
    lost_echoes = (
        np.isinf(draws[0].delay_s[~voice_packets]).sum() + np.isinf(draws[1].delay_s).sum()
    )
    programs = {
        "voip": {
            "sent_s": sent[0]["at_s"][voice_packets].tolist(),
            "delay_s": draws[0].delay_s[voice_packets].tolist(),
        },
        "ping": {"sent": int((~voice_packets).sum()), "lost": int(lost_echoes)},
    }
    return RivalRun(rival=rival, source=ends[0], sink=ends[1], programs=programs, faults=faults)


def judged(case: str, runs: Mapping[str, RivalRun]) -> Judgement:
    plan = replace(plan_of(case), rivals=tuple(runs))
    return judge_trial(plan, TrialMeasurements(runs=tuple(runs.values())))


@cache
def good_runs(case: str) -> Mapping[str, RivalRun]:
    return {rival: run_of(case, rival) for rival in ("direct", "none", "static", "adaptive")}


@cache
def judged_good(case: str) -> Judgement:
    return judged(case, good_runs(case))


def _some(cases: Iterable[str]) -> list[object]:
    """Return the cases as parameters, those that are not short for `make soak` alone."""
    return [pytest.param(case, marks=[] if case in SHORT else [pytest.mark.long]) for case in cases]


def failed(judgement: Judgement, rival: str) -> set[str]:
    checks: Sequence[Check] = judgement.verdict.checks
    return {
        check.key
        for check in checks
        if check.outcome == "fails" and check.about == f"rival:{rival}"
    }


@pytest.mark.parametrize("case", _some(CASES))
def test_trial_over_impaired_links_does_not_fail(case: str) -> None:
    assert is_impaired(plan_of(case))
    judgement = judged_good(case)
    checks = judgement.verdict.checks
    assert judgement.verdict.invalid is None
    assert not [check for check in checks if check.outcome == "fails"], judgement.verdict
    told = {check.key for check in checks if check.outcome == "holds"}
    assert "wire-bytes" in told
    # Bursts need more packets than these few seconds have.
    assert "original-loss" in told or case != "random loss"
    modes = {mode["mode"]: mode for mode in judgement.document["modes"]}
    assert all(mode["originals_lost_predicted"] > 0 for mode in list(modes.values())[1:])
    assert modes["direct"]["originals_lost_predicted"] is not None
    summary = judgement.document["summary"]
    assert summary.startswith("Direct lost ")
    assert "the adaptive code" in summary
    assert "times the bytes; predicted " in summary


@pytest.mark.parametrize("case", _some(["two bad links", "two bad links that fail", "burst loss"]))
def test_broken_tunnel_over_impaired_links_fails(case: str) -> None:
    """A tunnel whose code repairs nothing, or that sends no parity, is told from one that works."""
    rivals = {"none": run_of(case, "none")}
    adaptive = run_of(case, "adaptive")
    uncoded = replace(run_of(case, "none"), rival="adaptive")
    assert {"lost", "wire-bytes"} <= failed(
        judged(case, {**rivals, "adaptive": uncoded}), "adaptive"
    )
    silent = {
        "sent_s": adaptive.programs["voip"]["sent_s"],
        "delay_s": [float("inf")] * PACKETS_SENT,
    }
    programs = {"voip": silent, "ping": {"sent": PACKETS_SENT, "lost": PACKETS_SENT - 50}}
    mute = replace(adaptive, programs=programs)
    judgement = judged(case, {**rivals, "adaptive": mute})
    assert "ping-lost" in failed(judgement, "adaptive")
    assert "mos" not in {check.key for check in judgement.verdict.checks if check.passed}


@pytest.mark.parametrize("rival", ["none", "static", "adaptive"])
def test_links_that_lose_nothing_are_noticed(rival: str) -> None:
    run = run_of("random loss", rival)
    log = run.sink["offered"]
    everything = {
        "source": {**run.source, "delivered": log},
        "sink": {**run.sink, "delivered": run.source["offered"]},
    }
    for end in everything.values():
        end["counters"] = {**end["counters"], "recovered": 0, "unused_sources": 0}
    assert "original-loss" in failed(
        judged("random loss", {rival: replace(run, **everything)}), rival
    )


def test_headline_and_check_count_the_same_packets() -> None:
    judgement = judged_good("two bad links")
    modes = {mode["mode"]: mode for mode in judgement.document["modes"]}
    for check in judgement.verdict.checks:
        mode = modes[check.about.removeprefix("rival:")]
        if check.key == "lost":
            assert check.measured == mode["lost"]
        if check.key == "wire-bytes":
            assert check.measured == mode["wire_ratio"]
        if check.key == "original-loss" and mode["mode"] != "direct":
            assert check.measured == mode["originals_lost_fraction"]
            assert check.predicted == mode["originals_lost_predicted"]


@pytest.mark.parametrize("rival", ["direct", "none", "static", "adaptive"])
def test_impairments_of_the_network_are_predicted(rival: str) -> None:
    assert predict_rival(plan_of("random loss"), rival).original_loss == pytest.approx(0.05)
    there = plan_of("one direction")
    assert predict_rival(there.reversed(), "none").original_loss == pytest.approx(0.04)


def test_summary_names_the_rival_that_ran() -> None:
    runs = good_runs("random loss")
    chosen = {name: runs[name] for name in ("none", "adaptive")}
    summary = judged("random loss", chosen).document["summary"]
    assert summary.startswith("The split without code lost ")
    alone = judged("random loss", {"adaptive": runs["adaptive"]}).document["summary"]
    assert alone.startswith("With the adaptive code ")
