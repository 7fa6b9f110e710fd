"""What failures cost, from measured rows: the true ones pass, those of senders that the formula's rivals describe
fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.stream.failures import failing_streams, failure_cost
from testbed.stream.endpoints import build_sender
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.study_rows import Rows, failed
from tests.helpers.wrong_senders import sender_of_one_size

MEASURED = Path(__file__).with_name("measured_rows.json")


@pytest.fixture
def rows() -> Rows:
    """What ``testbed experiment run failure_cost --quick`` measured."""
    found: Rows = json.loads(MEASURED.read_text())["failure_cost"]
    return found


def measured_with(size: int | None) -> Rows:
    """A minute and a half of failures, with a sender that takes one block size whatever happens (None: with ours)."""
    point = failure_cost.points(True, 3)[1] | {"duration_s": 90.0, "failures_an_hour": 300}
    plan, _ = failing_streams.failing_plan(point)
    sender = build_sender if size is None else sender_of_one_size(size)
    run = SimulatedStreamFabric(sender).run(plan)
    return [point | failing_streams.cost_figures(plan, run) | {"worst_block": 29.0}]


def test_a_true_run_passes_and_is_drawn(rows: Rows) -> None:
    assert failed(failure_cost.judge(rows)) == ""
    assert sum(row["failures"] for row in rows) > 8
    assert list(failure_cost.figures(rows)) == ["failure_cost", "law"]


def test_our_sender_passes_where_the_wrong_ones_fail() -> None:
    (row,) = measured_with(None)
    assert (
        row["redundancy"] == pytest.approx(row["redundancy_states"], rel=0.02)
        and row["failures"] > 1
    )
    assert all(cable["measured"] == cable["predicted"] for cable in row["by_cable"])


def test_a_sender_that_never_raises_n_fails(rows: Rows) -> None:
    wrong = failed(failure_cost.judge([rows[0], *measured_with(22)]))
    assert (
        "that a failure of 8 s costs" in wrong
        and "the worst cable" in wrong
        and "undecodable" in wrong
    )


def test_constant_redundancy_fails(rows: Rows) -> None:
    wrong = failed(failure_cost.judge([rows[0], *measured_with(29)]))
    assert "while nothing is broken" in wrong and "the worst cable" in wrong


def test_a_cost_that_does_not_depend_on_the_duration_fails(rows: Rows) -> None:
    short, long = rows
    each = short["settled"] / short["failures"]
    same = {
        "settled": each * long["failures"],
        "total": short["total"] / short["failures"] * long["failures"],
    }
    wrong = failed(failure_cost.judge([short, long | same]))
    assert (
        "that a failure of 8 s costs" in wrong and "per packet that D x P x ROR asks for" in wrong
    )


def test_the_same_cost_for_every_cable_fails(rows: Rows) -> None:
    def alike(row: dict[str, Any]) -> dict[str, Any]:
        mean = sum(cable["predicted"] for cable in row["by_cable"]) / len(row["by_cable"])
        return row | {"by_cable": [cable | {"measured": mean} for cable in row["by_cable"]]}

    assert "the worst cable" in failed(failure_cost.judge([alike(row) for row in rows]))


def test_a_route_whose_cables_cost_alike_cannot_tell(rows: Rows) -> None:
    even = [
        row
        | {"by_cable": [cable | {"predicted": 3.0, "measured": 3.0} for cable in row["by_cable"]]}
        for row in rows
    ]
    check = next(
        check for check in failure_cost.judge(even).checks if "the worst cable" in check.name
    )
    assert check.outcome == "cannot-tell"


def law_rows(low: float = 0.2, exponent: float = 1.0, spread: float = 0.003) -> Rows:
    """As if the law were that much low per link down, and the cost grew with such a power of each quantity."""
    rows = []
    for point in failure_cost.law_points(True, 1):
        factor = point.get("factor", 1)
        ror = 3.0 / (1 + point["layers"])
        predicted = 100.0 * factor * ror
        cost = predicted * (1 + low * point["down"]) * (factor * ror) ** (exponent - 1)
        found = {
            "ror": ror,
            "cost": cost,
            "predicted": predicted,
            "spread": spread * predicted,
            "constant": 30 * cost,
        }
        found["by_ror"] = 0.7 * predicted
        rows.append(point | found | {"beyond": 0.01, "capped": 0.02})
    return rows


def test_the_law_passes_where_it_holds_and_its_end_is_found(rows: Rows) -> None:
    verdict = failure_cost.judge([*rows, *law_rows()])
    assert (
        verdict.outcome == "holds"
        and sum("exponent" in check.name for check in verdict.checks) == 5
    )
    end = next(check for check in verdict.checks if "one link down" in check.name)
    assert end.measured == pytest.approx(1.2) and "within 5% up to 0.2 links" in end.detail


def test_costs_by_another_law_fail_and_few_failures_cannot_tell(rows: Rows) -> None:
    assert "off D x P x ROR" in failed(failure_cost.judge([*rows, *law_rows(low=5.0)]))
    assert "one link down" in failed(failure_cost.judge([*rows, *law_rows(low=0.0)]))
    assert failed(failure_cost.judge([*rows, *law_rows(exponent=1.1)])).count("exponent") == 5
    assert failure_cost.judge([*rows, *law_rows(spread=0.1)]).outcome == "cannot-tell"


def test_states_last_and_cost_as_the_law_predicts() -> None:
    point = failure_cost.law_points(True, 1)[0] | {"failures": 4000}
    lasts_s, broken = failure_cost.draw_states(point, *failure_cost.failing_units(point, 5))
    assert float((lasts_s[:, None] * broken).sum()) == pytest.approx(4000 * 10, rel=0.05)
    row = failure_cost.cost_of_states(point)
    assert abs(row["cost"] - row["predicted"]) < 4 * row["spread"] < 0.2 * row["predicted"]


@pytest.mark.parametrize("law", failure_cost.BEYOND)
def test_cables_of_unequal_rates_and_pairs_cost_their_sum(law: str, rows: Rows) -> None:
    (point,) = (point for point in failure_cost.law_points(True, 1) if point["law"] == law)
    row = point | failure_cost.cost_of_states(point)
    others = [one for one in law_rows() if one["law"] != law]
    assert failure_cost.judge([*rows, *others, row]).outcome == "holds"
    units, often = failure_cost.failing_units(point, 7)
    assert sorted(units.sum(axis=1).tolist()) == ([2, 2, 2] if law == "groups" else [1] * 7)
    assert often.sum() == pytest.approx(1) and units.sum(axis=0).max() == 1
    # the same states, told as what every cable as often as the mean would cost
    wrong = row | {"cost": row["by_ror"]}
    assert failure_cost.BEYOND[law] in failed(failure_cost.judge([*rows, *others, wrong]))
