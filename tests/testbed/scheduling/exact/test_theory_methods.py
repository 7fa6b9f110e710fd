"""The exact search and the baselines as methods: their schedules pass the checker and claim what they have shown."""

from __future__ import annotations

import pytest

from testbed.model.traffic import Traffic
from testbed.scheduling import theory_methods
from testbed.scheduling.checker import check_schedule

FIGURE_30 = Traffic.from_transfers(
    [
        [f"t{i}", *(["ab"] if i <= 3 < j else ["ba"] if j <= 3 < i else []), f"r{j}"]
        for i in range(1, 6)
        for j in range(1, 6)
    ]
)
FIGURE_37 = Traffic.from_transfers(
    [["t1", "ab", "bc", "r1"], ["t2", "bc", "ca", "r2"], ["t3", "ca", "ab", "r3"]]
)


@pytest.mark.parametrize(
    ("name", "length", "optimal"),
    [
        ("exact", 6, True),
        ("milp", 6, True),
        ("round_robin", 7, None),
        ("random_order", None, None),
        ("identical_order", None, None),
        ("dsatur", None, None),
    ],
)
def test_methods_schedule_the_traffic_of_figure_30(
    name: str, length: int | None, optimal: bool | None
) -> None:
    schedule = getattr(theory_methods, name)(FIGURE_30, seed=1, time_limit_s=20.0)
    check_schedule(FIGURE_30, schedule)
    assert schedule.length >= 6 and (length is None or schedule.length == length)
    assert schedule.optimal is optimal or schedule.length == 6


@pytest.mark.parametrize("name", ["exact", "milp"])
def test_exact_methods_prove_that_figure_37_has_no_liquid_schedule(name: str) -> None:
    schedule = getattr(theory_methods, name)(FIGURE_37, time_limit_s=20.0)
    check_schedule(FIGURE_37, schedule)
    assert (schedule.length, schedule.proved, schedule.optimal) == (3, "no-liquid-schedule", True)


def test_without_time_nothing_is_claimed() -> None:
    ticks = iter(range(1000))
    crowd = Traffic.from_transfers([FIGURE_30.transfer(i) for i in range(25)] * 16)
    for schedule in (
        theory_methods.exact(crowd, time_limit_s=0.5, now=lambda: float(next(ticks))),
        theory_methods.exact(crowd, time_limit_s=0.001),
        theory_methods.milp(crowd, time_limit_s=0.0),
    ):
        check_schedule(crowd, schedule)
        assert schedule.proved in ("unknown", "liquid")
        assert "time ran out" in schedule.detail
