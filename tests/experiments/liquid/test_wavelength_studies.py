"""The studies of wavelengths: verdicts on rows that were measured, and on the same rows spoilt as a rival would have
them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from experiments.liquid import wavelength_bursts, wavelength_rounds
from testbed.model.wiring import Wiring
from testbed.openflow.rules import FlowRule
from testbed.wavelengths import emulated, simulated
from testbed.wavelengths.plan import WavelengthPlan
from tests.helpers.study_rows import Change, Rows, failed, published, spoilt

DROPS, WAITS = "over first fit, lost where none is free", "over first fit, waits"
LOAD, HIGHER_LOAD = 0.8, 0.95
Walked = Callable[[int], dict[str, Any]]


@cache
def bursts(load: float = LOAD, slots: int = 400, switching: str = "wsxc") -> Rows:
    """What the four strategies make of one load, really simulated; greedy-drop, the last, is the one without
    buffers."""
    points = [point for point in wavelength_bursts.points(True, 1) if point["load"] == load]
    points = [{**point, "slots": slots, "switching": switching} for point in points]
    return [{**point, **wavelength_bursts.measure(point)} for point in points]


def figure_of(strategy: str, name: str) -> Change:
    """The figure that another strategy gave at the same load."""
    (rival,) = [row for row in bursts() if row["strategy"] == strategy]
    return lambda row: {name: rival[name]}


def test_burst_verdict_holds_on_what_is_measured_in_whatever_order() -> None:
    assert not failed(wavelength_bursts.judge(bursts()))
    assert wavelength_bursts.judge(bursts()[::-1]) == wavelength_bursts.judge(bursts())


def test_burst_verdict_takes_the_worst_of_the_high_loads() -> None:
    """As docs/workloads/wavelengths_switches.md says: successive liquid schedules carry less than first fit that waits."""
    higher = bursts(HIGHER_LOAD, 100)
    for rows in (bursts() + higher, higher + bursts()):
        (check,) = [check for check in wavelength_bursts.judge(rows).checks if not check.passed]
        assert WAITS in check.name


@pytest.mark.parametrize(
    ("at", "rival", "figure", "words"),
    [
        (0, "greedy-drop", "loss", ["bursts lost by liquid schedules"]),
        (1, "greedy-drop", "loss", ["bursts lost by liquid schedules"]),
        (0, "greedy-drop", "throughput", [DROPS, WAITS]),
        (3, "greedy-defer", "throughput", [DROPS]),
        (1, "liquid", "mean_delay_slots", ["mean delay, liquid anew in every slot"]),
        (2, "greedy-drop", "mean_delay_slots", ["mean delay, liquid anew in every slot"]),
        (2, "greedy-drop", "loss", []),
        (
            0,
            "greedy-drop",
            "mean_delay_slots",
            ["mean delay, liquid anew in every slot"],
        ),  # its rival does as well
    ],
)
def test_burst_verdict_fails_where_the_gain_is_gone(
    at: int, rival: str, figure: str, words: list[str]
) -> None:
    verdict = wavelength_bursts.judge(spoilt(bursts(), at, figure_of(rival, figure)))
    assert sum(not check.passed for check in verdict.checks) == len(words)
    assert all(word in failed(verdict) for word in words)


def test_burst_verdict_fails_where_figures_are_shuffled_among_strategies() -> None:
    names = [row["strategy"] for row in bursts()]
    for turn in (1, 2, 3):
        shuffled = [{**row, "strategy": names[k - turn]} for k, row in enumerate(bursts())]
        assert failed(wavelength_bursts.judge(shuffled)), turn


def test_conversion_is_drawn_but_not_judged() -> None:
    converted = spoilt(
        bursts(LOAD, 100, "wixc"), None, lambda row: {"loss": 1.0, "throughput": 0.5}
    )
    alone, both = (wavelength_bursts.judge(rows) for rows in (bursts(), converted + bursts()))
    assert both.checks == alone.checks


def test_a_point_is_measured_and_the_same_twice() -> None:
    point = {**wavelength_bursts.points(True, 1)[1], "slots": 60}
    first = wavelength_bursts.measure(point)
    assert first == wavelength_bursts.measure(point)
    assert first["offered"] > 0
    assert first["mean_delay_slots"] >= 2.5


@cache
def horizons() -> Rows:
    """The published study, of which a part runs ever longer."""
    return published("wavelength_bursts")


def spoilt_horizons(change: Change) -> Rows:
    return [
        row | change(row) if "buffer_bursts" in row and row["strategy"] == "liquid" else row
        for row in horizons()
    ]


def test_horizon_verdict_tells_capacity_and_waiting_traffic() -> None:
    checks = wavelength_bursts.judge(horizons()).checks
    (unsure,) = [c.name for c in checks if c.outcome == "cannot-tell"]
    assert unsure.startswith("exponent of time") and unsure.endswith("load 0.95")
    assert [c.name for c in checks if c.outcome == "fails"] == [
        f"carried by liquid schedules, one after the other, {words}"
        for words in (
            "over first fit, waits (knows all reservations): least at loads of 0.8 and more",
            "over first fit, waits (knows all reservations): load 0.95, 2000 slots",
        )
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda row: {"backlog": row["slots"] * 4, "carried": row["offered"] - row["slots"] * 4},
            "load 0.95",
        ),
        (
            lambda row: {"backlog": row["slots"] * 4, "carried": row["offered"] - row["slots"] * 4},
            "load 1, buffers",
        ),
        (lambda row: {"backlog": row["backlog"] - 1}, "neither carried, nor lost"),
    ],
)
def test_horizon_verdict_fails_where_capacity_is_missing(change: Change, words: str) -> None:
    assert words in failed(wavelength_bursts.judge(spoilt_horizons(change)))


def rounds() -> Rows:
    """The rows of one quick run on switches."""
    document = json.loads((Path(__file__).parent / "measured_rows.json").read_text())
    return list(document["wavelength_rounds"])


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> Walked:
    """Measures a quick point, and walks its packets through the rules in the place of the switches."""
    monkeypatch.setattr(emulated, "run_wavelengths", simulated.simulate_plan)
    points = wavelength_rounds.points(True, 1)
    return lambda k: {**points[k], **wavelength_rounds.measure(points[k])}


def test_round_verdict_holds_on_what_was_measured() -> None:
    assert not failed(wavelength_rounds.judge(rounds()))
    assert [row["strays"] for row in rounds()] == [0] * 5 and all(
        row["dropped"] == 728 for row in rounds()
    )


@pytest.mark.parametrize("k", range(5))
def test_switches_did_what_the_rules_say(walked: Walked, k: int) -> None:
    row = walked(k)
    assert row == rounds()[k]


@pytest.mark.parametrize(
    ("at", "change", "names"),
    [
        (
            1,
            lambda row: {"rounds": rounds()[2]["rounds"]},
            ["liquid, wsxc, 8 wavelengths: rounds against the bound"],
        ),
        (3, lambda row: {"rounds": 1}, ["liquid, wixc, 8 wavelengths: rounds against the bound"]),
        (
            0,
            lambda row: {"wavelengths": 8},
            ["liquid, wsxc, 8 wavelengths: rounds against the bound"],
        ),
        (2, lambda row: {"rounds": row["rounds"] + 1}, []),
    ],
)
def test_round_verdict_fails_if_a_liquid_plan_exceeds_its_bottleneck(
    at: int, change: Change, names: list[str]
) -> None:
    assert failed(wavelength_rounds.judge(spoilt(rounds(), at, change))) == "; ".join(names)


RoundRules = Callable[[Wiring, WavelengthPlan, int], Sequence[FlowRule]]


def leave_the_round_before(rules: RoundRules) -> RoundRules:
    """Rules of a controller that does not put out the light of the round before: they apply where no later one does."""

    def left(wiring: Wiring, plan: WavelengthPlan, number: int) -> Sequence[FlowRule]:
        stale = rules(wiring, plan, number - 1) if number else ()
        return [
            *rules(wiring, plan, number),
            *(replace(rule, priority=rule.priority - 1) for rule in stale),
        ]

    return left


def light_another_round(rules: RoundRules) -> RoundRules:
    """Rules of a controller that takes the rounds in another order."""
    return lambda wiring, plan, number: rules(wiring, plan, number - 1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            leave_the_round_before,
            ["packets that went astray", "wrong wavelength, dropped and counted"],
        ),
        (
            light_another_round,
            ["lightpaths that delivered every packet", "arrived on their wavelength"],
        ),
    ],
)
def test_round_verdict_fails_on_wrong_wavelength_or_order(
    walked: Walked, monkeypatch: pytest.MonkeyPatch, spoil: Any, words: list[str]
) -> None:
    monkeypatch.setattr(simulated, "round_rules", spoil(simulated.round_rules))
    verdict = wavelength_rounds.judge([*rounds()[:1], walked(1), *rounds()[2:]])
    assert failed(verdict) == "liquid, wsxc, 8 wavelengths: packets delivered on their wavelength"
    (check,) = [check for check in verdict.checks if not check.passed]
    assert all(word in check.detail for word in words), check.detail


def test_figures_are_drawn_from_rows_and_their_axes_are_named() -> None:
    drawn = wavelength_rounds.figures(json.loads(json.dumps(rounds())))
    assert set(drawn) == {"rounds"}
    drawn |= wavelength_bursts.figures(json.loads(json.dumps(bursts())))
    measures = ("mean-delay-slots", "p99-delay-slots", "loss", "waiting")
    assert set(drawn) == {"rounds", *(f"bursts-wsxc-{measure}" for measure in measures)}
    for figure in drawn.values():
        assert all(axes.get_xlabel() for axes in figure.axes)
        assert figure.axes[0].get_ylabel()
