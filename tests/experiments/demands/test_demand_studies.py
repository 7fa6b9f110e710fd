"""The studies of demand matrices: rows of true runs pass, rows spoilt as each check's rival says fail, figures are drawn from rows alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.demands import demand_loads, demand_routings
from testbed.commands.studies.study import drawn
from tests.helpers.study_rows import failed

Rows = list[dict[str, Any]]
HERE = Path(__file__).parent


def stored(name: str) -> Rows:
    """Rows as they were measured on 22 November 2026."""
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text().splitlines()]


ROUTED, LOADED = stored("routings"), stored("loads")


def not_holding(rows: Rows, module: Any) -> str:
    verdict = module.judge(rows)
    assert verdict.invalid is None
    return failed(verdict)


def test_true_rows_pass() -> None:
    assert not_holding(ROUTED, demand_routings) == ""
    assert not_holding(LOADED, demand_loads) == ""


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
    assert says in not_holding(rows, demand_routings)


def ecmp_on_the_switches(rows: Rows) -> None:
    """What was counted while the switches split by ECMP, in place of what was counted for capillary routing."""
    rows[0]["rest"]["measured"] = rows[1]["rest"]["measured"]


def nobody_answers(rows: Rows) -> None:
    rows[0]["down"]["measured"] = rows[0]["rest"]["measured"]
    for pair in rows[0]["pairs"]:
        pair["ror_measured"] = 0.0


def a_control_that_is_not_found_out(rows: Rows) -> None:
    rows[1]["rest"]["measured"] = rows[1]["rest"]["predicted"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (ecmp_on_the_switches, "capillary: greatest deviation of a link's load at rest"),
        (nobody_answers, "down: greatest deviation"),
        (nobody_answers, "ROR of"),
        (a_control_that_is_not_found_out, "ecmp installed"),
    ],
)
def test_loads_spoilt_as_the_rival_says_fail(spoil: Callable[[Rows], None], says: str) -> None:
    rows = copy.deepcopy(LOADED)
    spoil(rows)
    assert says in not_holding(rows, demand_loads)


def test_figures_are_drawn_from_rows_alone() -> None:
    assert set(drawn(demand_routings.STUDY, ROUTED)) == {"utilisation", "trade"}
    assert set(drawn(demand_loads.STUDY, LOADED)) == {"link-loads"}
