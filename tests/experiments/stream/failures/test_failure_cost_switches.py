"""What failures cost on switches: the published rows are judged as they were, and spoilt as the rivals say they
fail."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.stream.failures import failure_cost_switches
from experiments.stream.failures.failure_cost import judge
from tests.helpers.study_rows import Rows, failed, published, spoilt

DURATION, SLOPE, CABLE = (
    "packets beyond rest that a failure of",
    "per packet that D x P x ROR asks for",
    "the worst cable",
)


@pytest.fixture
def rows() -> Rows:
    return published("failure_cost_switches")


def test_the_published_rows_hold_and_are_those_of_the_study(rows: Rows) -> None:
    assert failed(judge(rows)) == ""
    points = failure_cost_switches.points(False, 1)
    assert [{key: row[key] for key in point} for row, point in zip(rows, points, strict=True)] == points
    assert max(row["duration_s"] for row in rows) == 580


def test_a_sender_that_never_raises_n_fails(rows: Rows) -> None:
    def never(row: dict[str, Any]) -> dict[str, Any]:
        cables = [cable | {"measured": 0.0} for cable in row["by_cable"]]
        return {"settled": 0.0, "total": 0.0, "by_cable": cables}

    wrong = failed(judge(spoilt(rows, None, never)))
    assert all(f"{DURATION} {lasts_s} s" in wrong for lasts_s in (2, 4, 8)) and SLOPE in wrong and CABLE in wrong


def test_a_cost_that_does_not_depend_on_the_duration_fails(rows: Rows) -> None:
    """Each failure costs what one of four seconds did, cable by cable: a second of it as much more, or less."""

    def same(row: dict[str, Any]) -> dict[str, Any]:
        each = 4.0 / row["lasts_s"]
        return {"settled": row["settled"] * each, "total": row["total"] * each}

    wrong = failed(judge(spoilt(rows, None, same)))
    assert f"{DURATION} 2 s" in wrong and f"{DURATION} 8 s" in wrong and SLOPE in wrong


def test_the_same_cost_for_every_cable_fails(rows: Rows) -> None:
    def alike(row: dict[str, Any]) -> dict[str, Any]:
        mean = sum(cable["predicted"] for cable in row["by_cable"]) / len(row["by_cable"])
        return {"by_cable": [cable | {"measured": mean} for cable in row["by_cable"]]}

    assert CABLE in failed(judge(spoilt(rows, None, alike)))


def test_one_cable_that_costs_as_if_a_second_one_were_broken_fails(rows: Rows) -> None:
    """As s1-s6 did for 27 of 75 blocks once: N = 32, which it asks for together with a cable of a twelfth of the
    labels, not 28."""

    def wrong_belief(row: dict[str, Any]) -> dict[str, Any]:
        own = [cable for cable in row["by_cable"] if cable["name"] == "s1-s6"]
        more = sum(27 / 75 * 4 * cable["blocks"] for cable in own)
        cables = [cable | {"measured": cable["measured"] + 27 / 75 * 4 * (cable in own)} for cable in row["by_cable"]]
        return {"by_cable": cables, "settled": row["settled"] + more, "total": row["total"] + more}

    assert CABLE in failed(judge(spoilt(rows, None, wrong_belief)))
