"""Overlapping failures, from measured rows: the true ones pass, spoilt as the rivals say they fail, too few cannot tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.stream.failures import overlapping_failures, overlaps_by_layer
from testbed.model.verdict import Check
from tests.helpers.study_rows import Rows, failed, spoilt

MEASURED: dict[str, Rows] = json.loads(Path(__file__).with_name("measured_rows.json").read_text())


def expectation(rows: Rows) -> Check:
    return next(check for check in overlapping_failures.judge(rows).checks if "mean redundancy" in check.name)


def test_a_true_run_is_that_of_equation_45_and_is_drawn() -> None:
    rows = MEASURED["overlapping_failures"]
    assert failed(overlapping_failures.judge(rows)) == ""
    assert "equation 45" in expectation(rows).name and rows[0]["overlapping_s"] > 60
    assert list(overlapping_failures.figures(rows)) == ["overlaps"]


def test_a_sender_that_answers_single_failures_only_fails() -> None:
    rows = spoilt(MEASURED["overlapping_failures"], None, lambda row: {"redundancy": row["expected"]["singles_only"]})
    assert not expectation(rows).passed
    assert expectation(4 * rows).outcome == "fails"  # four such streams leave chance half as much


def test_overlaps_that_cost_the_sum_of_their_failures_fail() -> None:
    rows = spoilt(
        MEASURED["overlapping_failures"],
        None,
        lambda row: {"redundancy": row["formula"] / row["rest_pps"] / row["duration_s"]},
    )
    assert "for the failures that came" in failed(overlapping_failures.judge(rows))


def test_too_short_a_run_cannot_tell_equation_45_from_single_failures() -> None:
    def shorter(row: dict[str, Any]) -> dict[str, Any]:
        return {"expected": row["expected"] | {"spread": 4 * row["expected"]["spread"]}}

    assert expectation(spoilt(MEASURED["overlapping_failures"], None, shorter)).outcome == "cannot-tell"


def test_beyond_its_regime_equation_45_is_the_rival() -> None:
    often = spoilt(MEASURED["overlapping_failures"], None, lambda _: {"in_force": 1.0})
    assert "all states" in expectation(often).name
    assert expectation(often).rival == often[0]["expected"]["equation_45"]


def test_the_saving_of_layers_and_where_it_ends() -> None:
    rows = MEASURED["overlaps_by_layer"]
    assert failed(overlaps_by_layer.judge(rows)) == ""
    assert all(turned and 0.001 < turned < 0.05 for turned in overlaps_by_layer.turns(rows).values())
    assert list(overlaps_by_layer.figures(rows)) == ["overlaps_by_layer"]


def test_no_saving_fails() -> None:
    first = {
        row["network"]: row["mean"] for row in MEASURED["overlaps_by_layer"] if row.get("layers") == 1 and "mean" in row
    }
    rows = [row | ({"mean": first[row["network"]]} if "mean" in row else {}) for row in MEASURED["overlaps_by_layer"]]
    assert "saving of the full route" in failed(overlaps_by_layer.judge(rows))


@pytest.mark.parametrize(("hours", "outcome"), [(80, "holds"), (2, "cannot-tell")])
def test_the_order_on_packets_is_told_from_no_difference_by_enough_hours(hours: int, outcome: str) -> None:
    packets = [row for row in MEASURED["overlaps_by_layer"] if row["kind"] == "packets"]
    true = [row | {"redundancy": row["expected"]["mean"]} for row in packets]
    (order,) = [
        check for check in overlaps_by_layer.judge(hours * true).checks if "less that of the first" in check.name
    ]
    assert order.outcome == outcome


def test_no_difference_between_the_layers_fails() -> None:
    packets = [row | {"redundancy": 0.7} for row in MEASURED["overlaps_by_layer"] if row["kind"] == "packets"]
    assert "less that of the first" in failed(overlaps_by_layer.judge(80 * packets))


def test_a_turn_is_found_between_two_rates_or_not_at_all() -> None:
    flat = [1.0] * len(overlaps_by_layer.UNAVAILABLE)
    assert overlaps_by_layer.turn(flat, [0.5] * len(flat)) is None
    assert overlaps_by_layer.turn(flat, [2.0] * len(flat)) == 0.0
