"""The study of comparers: published rows pass, rows spoilt as each check's rival says fail, figures are drawn from
rows alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from experiments.published import routings
from testbed.commands.studies.study_runner import drawn
from tests.helpers.study_rows import failed, published

ROUTED = published("comparers_routing")


def test_a_row_of_routings_measured_now_is_the_published_one() -> None:
    row = next(row for row in ROUTED if (row["network"], row["matrix"]) == ("swiss-t1", "uniform"))
    now = routings.measure({key: row[key] for key in ("network", "matrix", "seed")})
    for method, one in now["methods"].items():
        assert one["over_optimum"] == pytest.approx(
            row["methods"][method]["over_optimum"], rel=1e-5
        ), method
    assert now["again"]["optimum"] == pytest.approx(now["utilisation"], rel=1e-6)
    assert now["flow"]["ecmp_off"] == pytest.approx(row["flow"]["ecmp_off"])


def lost_demand(row: dict[str, Any]) -> None:
    row["methods"]["smore:4"]["violations"] = ["a to b: node c sends out 1 more than it should"]


def ecmp_for_the_optimum(row: dict[str, Any]) -> None:
    row["methods"]["optimum"]["bound"] /= 1.5


def blind_rates(row: dict[str, Any]) -> None:
    row["methods"]["smore:4"] = row["methods"]["raecke"]


def rates_of_the_optimum(row: dict[str, Any]) -> None:
    row["filling"]["wrong"] = row["filling"]["wrong_of_optimum"]


def ecmp_for_max_min(row: dict[str, Any]) -> None:
    row["methods"]["max-min"] = row["methods"]["ecmp"]


def ecmp_for_capillary(row: dict[str, Any]) -> None:
    row["flow"]["fair_off"] = row["flow"]["ecmp_off"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lost_demand, "violations"),
        (ecmp_for_the_optimum, "proved bound"),
        (blind_rates, "by GLOP"),
        (blind_rates, "MLU of smore:4"),
        (rates_of_the_optimum, "certificates"),
        (ecmp_for_max_min, "least rate of max-min"),
        (ecmp_for_capillary, "exact capillary route"),
    ],
)
def test_routings_spoilt_as_the_rival_says_fail(
    spoil: Callable[[dict[str, Any]], None], says: str
) -> None:
    rows = copy.deepcopy(ROUTED)
    for row in rows:
        spoil(row)
    assert failed(routings.judge(ROUTED)) == ""
    assert says in failed(routings.judge(rows))


def test_figures_of_routings_are_drawn_from_rows_alone() -> None:
    assert set(drawn(routings.STUDY, ROUTED)) == {"routings", "seconds"}
