"""Link loads of several streams on switches: rows of a true run, and the same spoilt as each check's rival says, which fail."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.demands import demand_loads
from testbed.commands.studies.study import drawn

Rows = list[dict[str, Any]]
LOADED: Rows = [json.loads(line) for line in (Path(__file__).parent / "loads.jsonl").read_text().splitlines()]
"""NSFNET's optical cloud as counted on 22 November 2026: capillary routing, the control (ECMP installed), ECMP, single path."""


def not_holding(rows: Rows) -> set[str]:
    verdict = demand_loads.judge(rows)
    assert verdict.invalid is None
    return {check.name for check in verdict.checks if not check.passed}


TRUE_FAILURES = not_holding(LOADED)


def test_the_true_rows_fail_where_the_published_run_failed_and_nowhere_else() -> None:
    assert {
        "optical-cloud, capillary: greatest deviation of a link's load at rest, over the greatest load",
        "optical-cloud, capillary: ROR of x5 to x9 for x6->x10",
    } == TRUE_FAILURES


def ecmp_where_capillary_is_predicted(rows: Rows) -> None:
    """What was counted while the switches split by ECMP, in place of what was counted for capillary routing."""
    rows[0]["rest"]["measured"] = rows[1]["rest"]["measured"]


def capillary_where_ecmp_is_predicted(rows: Rows) -> None:
    rows[2]["rest"]["measured"] = rows[0]["rest"]["measured"]


def nobody_answers(rows: Rows) -> None:
    rows[0]["down"]["measured"] = rows[0]["rest"]["measured"]
    for pair in rows[0]["pairs"]:
        pair["ror_measured"] = 0.0


def a_control_that_is_not_found_out(rows: Rows) -> None:
    rows[1]["rest"]["measured"] = rows[1]["rest"]["predicted"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (ecmp_where_capillary_is_predicted, "optical-cloud, capillary: load of the fullest link"),
        (capillary_where_ecmp_is_predicted, "optical-cloud, ecmp: greatest deviation"),
        (capillary_where_ecmp_is_predicted, "optical-cloud, ecmp: load of the fullest link"),
        (nobody_answers, "optical-cloud, capillary, x6->x10 down: greatest deviation"),
        (nobody_answers, "ROR of x1 to x14"),
        (a_control_that_is_not_found_out, "ecmp installed"),
    ],
)
def test_loads_spoilt_as_the_rival_says_fail(spoil: Callable[[Rows], None], says: str) -> None:
    rows = copy.deepcopy(LOADED)
    spoil(rows)
    assert any(says in name for name in not_holding(rows) - TRUE_FAILURES)


def test_ecmp_s_counts_are_far_from_capillary_s_prediction_and_capillary_s_are_near() -> None:
    right, wrong = LOADED[0]["rest"], LOADED[1]["rest"]
    assert demand_loads.deviation(right) < 0.05
    assert demand_loads.deviation(wrong) > 0.7


def test_figures_are_drawn_from_rows_alone() -> None:
    assert set(drawn(demand_loads.STUDY, LOADED)) == {"link-loads"}
