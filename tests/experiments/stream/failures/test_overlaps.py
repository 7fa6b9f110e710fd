"""Redundancy by layer where failures overlap, from measured rows: the true ones pass, spoilt as the rivals say they
fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.stream.failures import failure_overlaps, overlaps_by_layer
from fec.redundancy.block_size import fec_block_size
from tests.helpers.study_rows import Rows, failed

MEASURED: dict[str, Rows] = json.loads(Path(__file__).with_name("measured_rows.json").read_text())
CHANCE = [
    {**point, **failure_overlaps.measure(point)} for point in failure_overlaps.points(True, 1)
]
ROWS = MEASURED["overlaps_by_layer"] + CHANCE


def turns_at_most(rows: Rows) -> dict[str, float | None]:
    """``turns`` where states beyond reach cost what a block can hold at most, and not nothing."""
    full, stream = overlaps_by_layer.FULL, overlaps_by_layer.STREAM
    most = (
        255 / fec_block_size(stream.source_packets, stream.tolerance, stream.decoding_error_rate)
        - 1
    )
    return {
        name: overlaps_by_layer.turn(
            *(
                [m + most * b for m, b in zip(own[k]["mean"], own[k]["beyond"], strict=True)]
                for k in (1, full)
            )
        )
        for name, own in overlaps_by_layer.completely_measured_networks(rows).items()
    }


def test_the_saving_of_layers_and_where_it_ends() -> None:
    rows = ROWS
    assert failed(overlaps_by_layer.judge(rows)) == ""
    counted, free = turns_at_most(rows), overlaps_by_layer.turns(rows)
    assert all(
        turned and 0.001 < turned <= (counted[name] or 1) < 0.05 for name, turned in free.items()
    )
    assert list(overlaps_by_layer.figures(rows)) == [
        "overlaps_by_layer",
        "packets",
        "figure-67",
        "k1",
    ]


def test_no_saving_fails() -> None:
    first = {
        row["network"]: row["mean"] for row in ROWS if row.get("layers") == 1 and "mean" in row
    }
    rows = [row | ({"mean": first[row["network"]]} if "mean" in row else {}) for row in ROWS]
    assert "saving of the full route" in failed(overlaps_by_layer.judge(rows))


def test_no_difference_between_the_layers_on_packets_fails() -> None:
    def same(row: dict[str, Any]) -> dict[str, Any]:
        return row | ({"redundancy": 0.7} if row["kind"] == "packets" else {})

    wrong = failed(overlaps_by_layer.judge([same(row) for row in ROWS]))
    assert "less that of the first" in wrong and "for the failures that came" in wrong


def test_routes_that_call_for_the_same_cannot_tell() -> None:
    packets = [row for row in ROWS if row["kind"] == "packets"]
    alike = [
        row | {"expected": packets[0]["expected"], "redundancy": 0.7, "redundancy_states": 0.7}
        for row in packets
    ]
    outcomes = {
        check.outcome
        for check in overlaps_by_layer.judge(alike + CHANCE).checks
        if "on packets" in check.name
    }
    assert outcomes == {"cannot-tell"}


def test_a_turn_is_found_between_two_rates_or_not_at_all() -> None:
    flat = [1.0] * len(overlaps_by_layer.UNAVAILABLE)
    assert overlaps_by_layer.turn(flat, [0.5] * len(flat)) is None
    assert overlaps_by_layer.turn(flat, [2.0] * len(flat)) == 0.0
