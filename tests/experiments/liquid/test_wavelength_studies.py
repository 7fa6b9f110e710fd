"""The studies of wavelengths: what their verdicts take for a failure, and that their figures come from rows alone."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.liquid import wavelength_bursts, wavelength_rounds
from testbed.model.verdict import Verdict


def burst_rows(**changes: dict[str, float]) -> list[dict[str, Any]]:
    """Rows in which every claim holds, but for ``changes``: strategy (dashes as underlines) -> fields."""
    good = {
        "liquid": {"throughput": 1.0, "loss": 0.0, "mean_delay_slots": 9.0},
        "liquid-rolling": {"throughput": 1.0, "loss": 0.0, "mean_delay_slots": 3.0},
        "greedy-defer": {"throughput": 1.0, "loss": 0.0, "mean_delay_slots": 3.2},
        "greedy-drop": {"throughput": 0.8, "loss": 0.2, "mean_delay_slots": 2.5},
    }
    return [
        {**point, "p99_delay_slots": 5.0, "waiting": 10.0, **good[name], **changes.get(name.replace("-", "_"), {})}
        for point in wavelength_bursts.points(True, 1)
        for name in [point["strategy"]]
    ]


def failed(verdict: Verdict) -> list[str]:
    return list(verdict.to_json()["failed"])


def test_burst_verdict_fails_where_liquid_schedules_lose_carry_less_or_wait_longer() -> None:
    assert wavelength_bursts.judge(burst_rows()).passed
    assert "lost" in failed(wavelength_bursts.judge(burst_rows(liquid={"loss": 0.001})))[0]
    less = failed(wavelength_bursts.judge(burst_rows(liquid={"throughput": 0.97})))
    assert len(less) == 1 and "first fit, waits" in less[0]
    assert len(failed(wavelength_bursts.judge(burst_rows(liquid={"throughput": 0.85})))) == 2
    slow = failed(wavelength_bursts.judge(burst_rows(liquid_rolling={"mean_delay_slots": 3.3})))
    assert len(slow) == 2 and all("mean delay" in name for name in slow)


def test_a_point_is_measured_and_the_same_twice() -> None:
    point = {**wavelength_bursts.points(True, 1)[1], "slots": 60}
    first = wavelength_bursts.measure(point)
    assert first == wavelength_bursts.measure(point)
    assert first["offered"] > 0
    assert first["mean_delay_slots"] >= 2.5


def round_rows(**changes: Any) -> list[dict[str, Any]]:
    rows = []
    for point in wavelength_rounds.points(True, 1):
        rounds = -(-15 // point["wavelengths"])
        counts = {"sent": 40, "delivered": 40, "strays": 0, "injected": 8, "dropped": 8, "conversions": 0}
        lit = [[link, 0] for link in range(4)]
        row = {**point, **counts, "rounds": rounds, "bottleneck_load": 15, "passed": True, "failed": [], "lit": lit}
        rows.append({**row, **changes})
    return rows


def test_round_verdict_fails_where_a_run_does_or_a_liquid_plan_is_too_long() -> None:
    assert wavelength_rounds.judge(round_rows()).passed
    lost = wavelength_rounds.judge(round_rows(passed=False, failed=["packets that went astray"]))
    assert any("packets that went astray" in check.detail for check in lost.checks if not check.passed)
    assert all("bound" in name for name in failed(wavelength_rounds.judge(round_rows(rounds=5))))
    assert failed(wavelength_rounds.judge(round_rows(rounds=5)))


@pytest.mark.parametrize(
    ("study", "rows", "names"),
    [
        (wavelength_bursts, burst_rows(), {"bursts-wsxc"}),
        (wavelength_rounds, round_rows(), {"rounds", "colours"}),
    ],
    ids=["bursts", "rounds"],
)
def test_figures_are_drawn_from_rows_and_their_axes_are_named(study: Any, rows: Any, names: set[str]) -> None:
    drawn = study.figures(rows)
    assert set(drawn) == names
    for figure in drawn.values():
        assert all(axes.get_xlabel() for axes in figure.axes)
        assert figure.axes[0].get_ylabel()
