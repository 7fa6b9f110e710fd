"""A trial's plan, what is predicted of it, and what its judge makes of runs that went well and of runs that did not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import testbed
from testbed.errors import InputError, TestbedError
from testbed.faults.fault import FaultTimes
from testbed.tunnel.figures import trial_figures
from testbed.tunnel.judgement import judge_trial
from testbed.tunnel.plan import FRAME_HEADERS_BYTES
from testbed.tunnel.prediction import OVERHEAD_BYTES, predict_rival
from testbed.tunnel.trial import RivalRun, TrialMeasurements, TrialPlan
from topologies import load_network

PACKETS = [
    ("flow", "u1"),
    ("number", "u4"),
    ("at_s", "f8"),
    ("bytes", "u2"),
    ("came_s", "f8"),
    ("recovered", "?"),
]


@pytest.fixture(scope="module")
def plan() -> TrialPlan:
    return testbed.tunnel_plan("torus:3x3", ("s0_0", "s1_1"), duration_s=10.0, workload="voip,ping")


def log(times: np.ndarray, keep: slice = slice(None)) -> Any:
    found = np.zeros(len(times), dtype=PACKETS)
    found["number"], found["at_s"], found["bytes"] = np.arange(len(times)), times, 100
    return found[keep]


def under_faults(plan: TrialPlan) -> Any:
    """Numbers of the packets that are sent while something is broken."""
    at_s = np.arange(500) * 0.02
    return np.flatnonzero(
        np.any([(at_s >= f.start_s) & (at_s < f.ends_s) for f in plan.faults], axis=0)
    )


def run_of(
    plan: TrialPlan,
    rival: str,
    *,
    lost: int = 0,
    mos_delay_s: float = 0.01,
    same_frames: int = 250,
    ssim: float = 1.0,
) -> RivalRun:
    """A run as it is predicted, but for so many packets lost after the code, and voice that late."""
    faults = tuple(FaultTimes(fault=f, start_s=f.start_s, stop_s=f.stop_s) for f in plan.faults)
    voice = {"sent_s": [0.02 * k for k in range(500)], "delay_s": [mos_delay_s] * 500}
    prediction = predict_rival(plan, rival)
    missed = round(500 * prediction.original_loss)
    if rival == "direct":
        voice["delay_s"][:missed] = [float("inf")] * missed
        return RivalRun(rival=rival, programs={"voip": voice}, faults=faults)
    offered = log(np.arange(500) * 0.02)
    delivered = np.delete(log(np.arange(500) * 0.02 + 0.001), under_faults(plan)[:lost])
    delivered["came_s"] = delivered["at_s"]
    counters = {"wire_bytes": prediction.wire_bytes(plan, offered), "processor_share": 0.1}
    came = {"wire_bytes": 30_000, "recovered": max(0, missed - lost), "report_bytes": 0}
    video = {"frames": 250, "identical": same_frames, "ssim": ssim}
    programs = {"voip": voice, "ping": {"sent": 500, "lost": lost}, "video": video}
    source = {"counters": counters, "offered": offered, "delivered": offered[:100]}
    sink = {"counters": came, "offered": offered[:100], "delivered": delivered}
    return RivalRun(rival=rival, source=source, sink=sink, programs=programs, faults=faults)


def measured(plan: TrialPlan, **adaptive: Any) -> TrialMeasurements:
    lost = {rival: round(500 * predict_rival(plan, rival).most_loss) for rival in plan.rivals}
    runs = [run_of(plan, rival, lost=lost[rival]) for rival in plan.rivals[:-1]]
    worse = {
        "voip": {"sent_s": [0.0], "delay_s": [1.0]},
        "video": {"frames": 250, "identical": 90, "ssim": 0.8},
    }
    runs[1] = replace(runs[1], programs={**runs[1].programs, **worse})
    return TrialMeasurements(runs=(*runs, run_of(plan, "adaptive", **adaptive)))


@pytest.mark.parametrize(
    ("between", "more", "says"),
    [
        (("s0", "s1", "s2"), {}, "give the two ends"),
        (("s0",), {}, "give the two ends"),
        ("s0", {}, "give the two ends"),
        (("s0", "s2"), {"command": "ls -l"}, "command: got the text 'ls -l'; give a list of texts"),
    ],
)
def test_ends_that_are_not_two_and_a_command_in_one_text_are_refused(
    between: Any, more: dict[str, Any], says: str
) -> None:
    """A text stood for its letters."""
    with pytest.raises(TestbedError, match=says):
        testbed.tunnel_plan("ring:4", between, **more)


def test_a_run_as_predicted_passes_and_tells_every_rival(plan: TrialPlan) -> None:
    judged = judge_trial(plan, measured(plan))
    assert judged.verdict.passed, judged.verdict
    assert [mode["mode"] for mode in judged.document["modes"]] == [
        "direct",
        "none",
        "static",
        "adaptive",
    ]
    assert judged.rows[3]["lost"] == 0 < judged.rows[1]["lost"]
    direct, none, _, adaptive = judged.document["modes"]
    assert adaptive["packets"] == 600 and none["lost"] == judged.rows[1]["lost"] and set(adaptive["workloads"]) == {
        "voip", "ping", "video"
    }  # fmt: skip
    assert adaptive["wire_ratio"] == pytest.approx(
        (adaptive["wire_ratio_predicted"] * 60_000) / 60_000, rel=0.5
    )
    assert direct["packets"] == 500 and direct["originals_lost_fraction"] == pytest.approx(0.3)
    assert all(
        adaptive["delay_s"][name] == pytest.approx(0.001) for name in ("median", "p95", "p99")
    )


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"lost": 3}, "lost"),
        ({"lost": 3}, "ping-lost"),
        ({"mos_delay_s": 0.5}, "mos"),
        ({"same_frames": 249}, "frames"),
        ({"ssim": 0.99}, "ssim"),
    ],
)
def test_errors_below_the_code_fail_their_check(
    plan: TrialPlan, wrong: dict[str, Any], key: str
) -> None:
    verdict = judge_trial(plan, measured(plan, **wrong)).verdict
    assert not verdict.passed and key in {
        check.key for check in verdict.checks if check.outcome == "fails"
    }


def test_faults_that_did_not_come_and_bytes_that_nobody_predicted_fail(plan: TrialPlan) -> None:
    good = run_of(plan, "adaptive")
    counters = good.source["counters"]
    twice = {**counters, "wire_bytes": 2 * counters["wire_bytes"]}
    dear = replace(good, source={**good.source, "counters": twice}, faults=())
    verdict = judge_trial(plan, TrialMeasurements(runs=(dear,))).verdict
    assert {"faults-came", "wire-bytes"} <= {
        check.key for check in verdict.checks if check.outcome == "fails"
    }
    late = judge_trial(plan, TrialMeasurements(runs=(replace(good, lag_s=1.0),))).verdict
    assert late.invalid is not None and late.exit_code == 4


def spoilt(plan: TrialPlan, run: RivalRun, as_rival: str) -> RivalRun:
    """What a run sent and lost, as the other rival would have."""
    other = predict_rival(plan, as_rival)
    counters = {
        **run.source["counters"],
        "wire_bytes": other.wire_bytes(plan, run.source["offered"]),
    }
    missed = round(500 * other.original_loss)
    log = (
        run.sink["delivered"]
        if as_rival == "static"
        else np.delete(run.sink["delivered"], under_faults(plan)[:missed])
    )
    source, sink = {**run.source, "counters": counters}, {**run.sink, "delivered": log}
    return replace(
        run, source=source, sink={**sink, "counters": {**run.sink["counters"], "recovered": 0}}
    )


@pytest.mark.parametrize(
    ("rival", "as_rival", "keys"),
    [
        ("static", "none", {"wire-bytes", "lost"}),
        ("adaptive", "none", {"wire-bytes", "lost"}),
        ("none", "static", {"wire-bytes"}),
    ],
)
def test_a_run_as_of_its_rival_fails(
    plan: TrialPlan, rival: str, as_rival: str, keys: set[str]
) -> None:
    lost = round(500 * predict_rival(plan, rival).most_loss)
    good = run_of(plan, rival, lost=lost)
    checks = judge_trial(plan, TrialMeasurements(runs=(good,))).verdict.checks
    assert not keys & {check.key for check in checks if check.outcome == "fails"}
    assert all(check.rival is not None for check in checks if check.key in keys)
    checks = judge_trial(
        plan, TrialMeasurements(runs=(spoilt(plan, good, as_rival),))
    ).verdict.checks
    assert keys <= {check.key for check in checks if check.outcome == "fails"}


def test_a_machine_that_dropped_or_held_packets_leaves_nothing_to_judge(plan: TrialPlan) -> None:
    plan = replace(plan, rivals=("adaptive",))
    good = run_of(plan, "adaptive")
    log = good.sink["delivered"]
    held, gone = log.copy(), np.delete(log, 20)
    held["came_s"][100] += 0.2
    lost = {**good.sink["counters"], "recovered": good.sink["counters"]["recovered"] - 1}
    cases = {
        "": good,
        "3 packets were dropped by a switch": replace(good, machine_drops=3),
        "7 packets were dropped at a full queue": replace(good, queue_drops=7),
        "packets lay 201 ms in the switches": replace(good, sink={**good.sink, "delivered": held}),
        "1 packets were dropped in no planned fault": replace(
            good, sink={**good.sink, "delivered": gone, "counters": lost}
        ),
    }
    for words, run in cases.items():
        verdict = judge_trial(plan, TrialMeasurements(runs=(run,))).verdict
        assert (words in (verdict.invalid or "")) and (verdict.exit_code == 4) == bool(words), (
            verdict.invalid
        )
    for drops, exit_code in ((12, 0), (13, 4)):
        busy = judge_trial(
            plan, TrialMeasurements(runs=(replace(good, packets=120_000, machine_drops=drops),))
        ).verdict
        assert busy.exit_code == exit_code, busy.invalid
    own = replace(plan, command=("iperf3",))
    assert judge_trial(
        own, TrialMeasurements(runs=(cases["7 packets were dropped at a full queue"],))
    ).verdict.passed
    assert (
        judge_trial(
            own, TrialMeasurements(runs=(replace(good, machine_drops=3),))
        ).verdict.exit_code
        == 4
    )


@pytest.mark.parametrize(("before_s", "excused"), [(0.15, True), (0.6, False)])
def test_fault_affects_packets_in_transit_over_long_paths(before_s: float, excused: bool) -> None:
    """A packet that a cut took was counted as lost in no fault, from 100 ms before it on."""
    network = load_network("torus:3x3")
    links = tuple(replace(link, delay_s=0.03) for link in network.links)
    plan = testbed.tunnel_plan(
        replace(network, links=links), ("s0_0", "s1_1"), duration_s=10.0, workload="voip"
    )
    plan = replace(plan, rivals=("adaptive",))
    run = run_of(plan, "adaptive")
    number = int((plan.faults[0].start_s - before_s) / 0.02)
    delivered = np.delete(run.sink["delivered"], number)
    counters = run.sink["counters"]
    counters = {**counters, "recovered": counters["recovered"] - 1}
    lost = replace(run, sink={**run.sink, "delivered": delivered, "counters": counters})
    invalid = judge_trial(plan, TrialMeasurements(runs=(lost,))).verdict.invalid
    assert ("no planned fault" not in (invalid or "")) == excused, invalid


def test_tcp_alone_is_judged_by_its_rate_in_failures(
    plan: TrialPlan,
) -> None:
    alone = replace(plan, workloads=("tcp",), rivals=("direct", "adaptive"))

    def run(rival: str, bps: int) -> RivalRun:
        tcp = {
            "goodput_bps": 10_000_000,
            "failures": [{"start_s": 7.0, "lasts_s": 1.5, "bps": bps}],
        }
        tcp["wget"] = {"bytes": bps, "of_bytes": 9_000_000, "identical": bps == 9_000_000}
        return replace(
            run_of(plan, rival), queue_drops=0 if rival == "direct" else 9, programs={"tcp": tcp}
        )

    runs = (run("direct", 0), run("adaptive", 9_000_000))
    assert judge_trial(alone, TrialMeasurements(runs=runs)).verdict.passed
    stalled = judge_trial(
        alone, TrialMeasurements(runs=(runs[0], run("adaptive", 1_000_000)))
    ).verdict
    assert [check.key for check in stalled.checks if check.outcome == "fails"] == ["wget", "tcp"]
    assert [check.rival for check in stalled.checks[-2:]] == [0, 0] and stalled.invalid is None
    failed = replace(runs[0], programs={"tcp": {"error": "no route", "bbr": {"error": "no route"}}})
    alone_with_it = judge_trial(alone, TrialMeasurements(runs=(failed, runs[1]))).verdict
    assert alone_with_it.passed and alone_with_it.checks[-1].rival is None


def test_a_missing_program_leaves_its_check_open_and_says_what_to_install(plan: TrialPlan) -> None:
    run = replace(measured(plan), missing={"tcp": "iperf3"})
    verdict = judge_trial(plan, run).verdict
    assert (verdict.exit_code, verdict.lacking) == (3, "install iperf3")
    failed = replace(verdict.checks[0], passed=False, unsure=False, key="other")
    assert replace(verdict, checks=(*verdict.checks, failed)).exit_code == 1
    assert "apt install iperf3" in next(
        check.detail for check in verdict.checks if check.outcome == "cannot-tell"
    )


def test_a_run_without_events_passes_no_check(plan: TrialPlan) -> None:
    nothing = {
        "voip": {"sent_s": [], "delay_s": []},
        "ping": {"sent": 0, "lost": 0},
        "video": {"frames": 0, "identical": 0},
    }
    counters, empty = (
        {"wire_bytes": 0, "recovered": 0, "report_bytes": 0, "processor_share": 0.0},
        log(np.array([])),
    )
    end = {"counters": counters, "offered": empty, "delivered": empty}
    runs = [
        RivalRun(rival=rival, source=end, sink=end, programs=nothing)
        for rival in ("none", "static", "adaptive")
    ]
    runs.append(RivalRun(rival="direct", programs=nothing))
    judged = judge_trial(plan, TrialMeasurements(runs=tuple(runs), missing={"tcp": "iperf3"}))
    checks = judged.verdict.checks
    assert (
        checks
        and not [check.name for check in checks if check.passed]
        and all(check.key for check in checks)
    )
    assert trial_figures(judged.stored) == {}


def test_the_figure_tells_each_rival_and_what_was_broken(plan: TrialPlan) -> None:
    (figure,) = trial_figures(judge_trial(plan, measured(plan)).stored).values()
    assert [line.get_label() for line in figure.axes[0].lines] == [
        "direct",
        "none",
        "static",
        "adaptive",
    ]
    assert "s0_0->s" in figure.get_label()


def test_without_code_the_wire_bears_packets_and_headers_alone(plan: TrialPlan) -> None:
    offered = log(np.array([0.0, 0.001, 0.5]))
    assert predict_rival(plan, "none").wire_bytes(plan, offered) == 3 * (100 + OVERHEAD_BYTES)
    assert OVERHEAD_BYTES > FRAME_HEADERS_BYTES
    coded = predict_rival(plan, "static").wire_bytes(plan, offered)
    assert coded > 4 * (100 + OVERHEAD_BYTES)


def test_cable_that_loses_half_is_answered() -> None:
    """Of 2.5 s with "loss 0.5" on Swiss-T1, real runs sent 11 % more than the whole cable's N without a hold; of two
    such cables at once 7 % less."""
    whole, half = (
        predict_rival(
            testbed.tunnel_plan("swiss-t1", ("s1", "s6"), faults=[f"s1->s6@1.5-4 {manner}"]),
            "adaptive",
        )
        for manner in ("down", "loss 0.5")
    )
    rest = whole.block_size(0.0)
    assert [whole.block_size(at_s) for at_s in (3.9, 4.1)] == [27, rest]
    sizes = [half.block_size(at_s) for at_s in (1.4, 1.6, 3.9, 5.9, 6.1)]
    assert rest < sizes[1] < 27 and sizes == [rest, *[sizes[1]] * 3, rest]
    static = predict_rival(
        testbed.tunnel_plan("swiss-t1", ("s1", "s6"), faults=["s1->s6@1.5-4 loss 0.5"]), "static"
    )
    assert len({static.block_size(at_s) for at_s in (0.0, 2.0, 5.0, 7.0)}) == 1


def test_default_failures_cut_the_direct_path_another_and_both(plan: TrialPlan) -> None:
    losses = [epoch.loss for epoch in plan.epochs()]
    assert len(plan.faults) == 4 and max(losses) < 1 and losses.count(0.0) == 4
    assert predict_rival(plan, "direct").original_loss == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workload": "ping,fax"}, "fax"),
        ({"workload": ""}, "give some of"),
        ({"duration_s": 0.5}, "at least 2 s"),
        ({"faults": ["s0_0->s0_1@30-31"]}, "lasts 20 s"),
        ({"flush_s": 0.2}, "flush"),
    ],
)
def test_a_trial_that_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        testbed.tunnel_plan("torus:3x3", ("s0_0", "s1_1"), **options)


def test_rivals_workloads_and_faults_that_were_not_there_do_not_pass(plan: TrialPlan) -> None:
    good = measured(plan)
    own = good.runs[-1]
    assert judge_trial(plan, good).verdict.passed

    def verdict(run: RivalRun) -> Any:
        return judge_trial(plan, replace(good, runs=(*good.runs[:-1], run))).verdict

    assert judge_trial(plan, replace(good, runs=good.runs[:1])).verdict.exit_code == 5
    assert verdict(replace(own, programs={})).exit_code == 5
    assert verdict(replace(own, faults=own.faults[:1] * len(own.faults))).exit_code == 1
    early = own.sink["delivered"].copy()
    early["came_s"] -= 1.0
    assert verdict(replace(own, sink={**own.sink, "delivered": early})).exit_code == 4
