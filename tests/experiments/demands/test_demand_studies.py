"""The studies of demand matrices: rows of true runs pass, rows spoilt as each check's rival says fail, figures are
drawn from rows alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.demands import demand_routings
from testbed.commands.studies.study_runner import drawn
from tests.helpers.study_rows import failed

Rows = list[dict[str, Any]]


ROUTED: Rows = [json.loads(line) for line in (Path(__file__).parent / "routings.jsonl").read_text().splitlines()]
"""Abilene and nobel-germany with their own demands, as they were measured on 22 November 2026."""


def not_holding(rows: Rows) -> str:
    verdict = demand_routings.judge(rows)
    assert verdict.invalid is None
    return failed(verdict)


def test_true_rows_pass() -> None:
    assert not_holding(ROUTED) == ""


def test_a_row_measured_now_is_the_stored_one() -> None:
    point = {key: ROUTED[0][key] for key in ("network", "matrix", "seed")}
    small = demand_routings.SMALL
    demand_routings.SMALL = ()  # type: ignore[misc]  # no trade: that takes seconds
    try:
        row = demand_routings.measure(point)
    finally:
        demand_routings.SMALL = small  # type: ignore[misc]
    for method, one in row["methods"].items():
        assert one["over_optimum"] == pytest.approx(ROUTED[0]["methods"][method]["over_optimum"], rel=1e-5), method
    assert row["methods"]["capillary"]["ror"] == pytest.approx(ROUTED[0]["methods"]["capillary"]["ror"])


def lost_demand(row: dict[str, Any]) -> None:
    row["methods"]["ecmp"]["violations"] = ["a to b: node c sends out 1 more than it should"]


def ecmp_for_the_optimum(row: dict[str, Any]) -> None:
    row["utilisation"] *= row["methods"]["ecmp"]["over_optimum"]


def blind_rates(row: dict[str, Any]) -> None:
    row["methods"]["smore:4"] = row["methods"]["raecke"]


def single_path_for_capillary(row: dict[str, Any]) -> None:
    row["methods"]["capillary"] = row["methods"]["single"] | {"ror_large": row["methods"]["capillary"]["ror_large"]}


def no_better_than_capillary(row: dict[str, Any]) -> None:
    for one in row["trade"]:
        one["ror_large"] = row["methods"]["capillary"]["ror_large"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lost_demand, "violations"),
        (ecmp_for_the_optimum, "proved lower bound"),
        (blind_rates, "smore:4"),
        (single_path_for_capillary, "emptier than the single path's"),
        (single_path_for_capillary, "exposes"),
        (no_better_than_capillary, "total ROR"),
        (no_better_than_capillary, "least ROR found"),
    ],
)
def test_rows_spoilt_as_the_rival_says_fail(spoil: Callable[[dict[str, Any]], None], says: str) -> None:
    rows = copy.deepcopy(ROUTED)
    for row in rows:
        spoil(row)
    assert says in not_holding(rows)


def test_figures_are_drawn_from_rows_alone() -> None:
    assert set(drawn(demand_routings.STUDY, ROUTED)) == {"utilisation", "trade"}
