"""Link loads of several streams on switches: the published rows are judged as they were, and spoilt as each check's
rival says they fail."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from experiments.demands import demand_loads
from testbed.commands.studies.study_runner import drawn
from tests.helpers.study_rows import Rows, failed, published

LOADED = published("demand_loads")
UNTOLD = "optical-cloud, least-ror:1.2: load of the fullest link at rest, packets/s"


def runs_of(rows: Rows, predicted: str, installed: str | None = None) -> Iterator[dict[str, Any]]:
    """Rows of NSFNET's optical cloud."""
    for row in rows:
        if row["network"] == "optical-cloud" and (row["predicted"], row["installed"]) == (
            predicted,
            installed or predicted,
        ):
            yield row


def test_the_published_rows_hold_but_for_two_routings_whose_fullest_links_are_alike() -> None:
    assert failed(demand_loads.judge(LOADED)) == UNTOLD
    (check,) = (check for check in demand_loads.judge(LOADED).checks if check.name == UNTOLD)
    assert check.outcome == "cannot-tell"
    assert len(list(runs_of(LOADED, "capillary"))) == demand_loads.REPETITIONS


def test_points_are_each_different() -> None:
    points = demand_loads.points(False, 1)
    assert len({json.dumps(point) for point in points}) == len(points) == len(LOADED) == 18


def ecmp_where_capillary_is_predicted(rows: Rows) -> None:
    """What was counted while the switches split by ECMP, in place of what was counted for capillary routing."""
    (wrong,) = runs_of(rows, "capillary", "ecmp")
    for row in runs_of(rows, "capillary"):
        row["rest"]["measured"] = wrong["rest"]["measured"]


def capillary_where_another_is_predicted(rows: Rows) -> None:
    right, *_ = runs_of(rows, "capillary")
    for method in ("ecmp", "single", "smore:4", "optimum", "least-ror:1.2"):
        for row in runs_of(rows, method):
            row["rest"]["measured"] = right["rest"]["measured"]


def nobody_answers(rows: Rows) -> None:
    for method in demand_loads.CUT:
        for row in runs_of(rows, method):
            row["down"]["measured"] = row["rest"]["measured"]
            for pair in row["pairs"]:
                pair["ror_measured"] = 0.0


def one_run_of_three_answers_nothing(rows: Rows) -> None:
    row, *_ = runs_of(rows, "capillary")
    for pair in row["pairs"]:
        pair["ror_measured"] = 0.0


def a_control_that_is_not_found_out(rows: Rows) -> None:
    for row in runs_of(rows, "capillary", "ecmp"):
        row["rest"]["measured"] = row["rest"]["predicted"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (ecmp_where_capillary_is_predicted, "optical-cloud, capillary: load of the fullest link"),
        (ecmp_where_capillary_is_predicted, "optical-cloud, capillary: greatest deviation"),
        (capillary_where_another_is_predicted, "optical-cloud, ecmp: greatest deviation"),
        (capillary_where_another_is_predicted, "optical-cloud, single: load of the fullest link"),
        (capillary_where_another_is_predicted, "optical-cloud, smore:4: load of the fullest link"),
        (capillary_where_another_is_predicted, "optical-cloud, optimum: greatest deviation"),
        (capillary_where_another_is_predicted, "optical-cloud, least-ror:1.2: greatest deviation"),
        (nobody_answers, "optical-cloud, capillary, x6->x10 down: greatest deviation"),
        (nobody_answers, "optical-cloud, capillary: ROR of x1 to x14"),
        (nobody_answers, "optical-cloud, least-ror:1.2: ROR of"),
        (one_run_of_three_answers_nothing, "optical-cloud, capillary: ROR of x3 to x10"),
        (a_control_that_is_not_found_out, "ecmp installed"),
    ],
)
def test_loads_spoilt_as_the_rival_says_fail(spoil: Callable[[Rows], None], says: str) -> None:
    rows = copy.deepcopy(LOADED)
    spoil(rows)
    assert says in failed(demand_loads.judge(rows))


def test_ecmp_s_counts_are_far_from_capillary_s_prediction_and_capillary_s_are_near() -> None:
    (wrong,) = runs_of(LOADED, "capillary", "ecmp")
    assert all(demand_loads.deviation(row["rest"]) < 0.01 for row in runs_of(LOADED, "capillary"))
    assert demand_loads.deviation(wrong["rest"]) > 0.7


def test_figures_are_drawn_from_rows_alone() -> None:
    assert set(drawn(demand_loads.STUDY, LOADED)) == {"link-loads"}
