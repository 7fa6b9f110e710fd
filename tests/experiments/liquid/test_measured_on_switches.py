"""The studies of chapter 3 that are measured on switches: verdicts on published rows, and on the same rows spoilt as a
rival would have them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from experiments.liquid import bulk_swiss_t1
from experiments.liquid.bulk_swiss_t1 import METHODS, by_pattern
from experiments.liquid.switching import latency
from tests.helpers.study_rows import Change, Rows, failed, published, spoilt

NAMES = {bulk_swiss_t1: "bulk_swiss_t1", latency: "switching_latency"}
AGAINST_THE_DOCUMENT: dict[Any, tuple[str, ...]] = {
    bulk_swiss_t1: ("with a gain of 1.5 to 2", "throughput of random order"),
}
"""Claims that what was measured contradicts."""


@cache
def measured(study: Any) -> Rows:
    return published(NAMES[study])


def like(method: str, other: str) -> Change:
    """What ``method`` carried is what ``other`` did, prediction and all but the names."""
    return lambda row: {f"{method}_ratio": row[f"{other}_ratio"]} if f"{other}_ratio" in row else {}


@pytest.mark.parametrize("study", NAMES)
def test_verdict_holds_except_where_measurements_contradict_the_document(
    study: Any,
) -> None:
    verdict = study.judge(measured(study))
    contradicted = AGAINST_THE_DOCUMENT.get(study, ())
    assert verdict.invalid is None
    assert [
        c.name
        for c in verdict.checks
        if not c.passed and not any(words in c.name for words in contradicted)
    ] == []
    for words in contradicted:
        assert [c.outcome for c in verdict.checks if words in c.name] == ["fails"]


@pytest.mark.parametrize(
    ("study", "at", "change", "words"),
    [
        (
            bulk_swiss_t1,
            None,
            like("liquid", "round_robin"),
            "liquid schedules over the liquid throughput",
        ),
        (bulk_swiss_t1, None, like("liquid", "round_robin"), "median gain of liquid schedules"),
        (
            bulk_swiss_t1,
            None,
            like("round_robin", "liquid"),
            "round robin over the liquid throughput",
        ),
        (bulk_swiss_t1, None, like("fifo", "liquid"), "throughput of FIFO order"),
        (bulk_swiss_t1, None, like("random", "liquid"), "throughput of random order"),
        (
            bulk_swiss_t1,
            None,
            like("round_robin", "fifo"),
            "round robin, measured over its own run",
        ),
        (
            bulk_swiss_t1,
            None,
            like("random", "round_robin_phases"),
            "random order, measured over its own run",
        ),
        (
            bulk_swiss_t1,
            None,
            like("fifo", "liquid"),
            "FIFO order (the same for all), measured over its own run",
        ),
        (
            bulk_swiss_t1,
            None,
            like("round_robin_phases", "liquid"),
            "phase by phase, measured over its own run",
        ),
        (bulk_swiss_t1, 0, lambda row: {"fifo_messages_verified": 0}, "messages not verified"),
        (latency, None, lambda row: {"stored_s": row["streamed_s"]}, "stored at every stop"),
        (
            latency,
            None,
            lambda row: {"streamed_s": row["stored_s"]},
            "streamed through all switches",
        ),
        (latency, 0, lambda row: {"stored_verified": 0}, "messages not verified"),
    ],
)
def test_verdict_fails_where_the_claim_does(
    study: Any, at: int | None, change: Change, words: str
) -> None:
    every_order = [
        row for row in measured(study) if "orders" not in row
    ]  # what one order did is given to another
    assert words in failed(study.judge(spoilt(every_order, at, change)))


@pytest.mark.parametrize("study", NAMES)
def test_a_machine_that_did_not_keep_up_makes_the_run_invalid(study: Any) -> None:
    late = dict.fromkeys(("invalid", *(f"{method}_invalid" for method in METHODS)), "too late")
    assert study.judge(spoilt(measured(study), None, lambda row: late)).invalid is not None


def test_medians_are_taken_over_the_repetitions_of_a_pattern() -> None:
    first, *others = measured(bulk_swiss_t1)
    (pattern,) = by_pattern(
        [first, {**first, "repetition": 2, "random_ratio": first["random_ratio"] + 0.2}]
    )
    assert pattern["random_ratio"] == pytest.approx(first["random_ratio"] + 0.1)
    whole = {
        row["pattern"]
        for row in [first, *others]
        if not any(key.endswith("_invalid") for key in row)
    }
    assert len(by_pattern([first, *others])) == len(whole) > 300
    lost = {key: value for key, value in first.items() if not key.startswith("fifo_")}
    assert by_pattern([lost]) == []


def test_patterns_of_three_orders_count_for_what_is_said_of_these() -> None:
    rows = measured(bulk_swiss_t1)
    least = {
        "orders",
        *(key for key in rows[0] if not key.startswith(("fifo_", "round_robin_phases_"))),
    }
    fewer = [
        row if at < 12 else {k: v for k, v in (row | {"orders": 3}).items() if k in least}
        for at, row in enumerate(rows)
    ]
    every, some = bulk_swiss_t1.judge(rows), bulk_swiss_t1.judge(fewer)
    assert [check.name for check in some.checks] == [check.name for check in every.checks]
    differ = {
        a.name for a, b in zip(every.checks, some.checks, strict=True) if a.measured != b.measured
    }
    assert differ and all(
        any(words in name for words in ("FIFO", "phase by phase")) for name in differ
    )
    assert "FIFO order, and round robin phase by phase, on 12 of these patterns" in some.notes
    assert set(bulk_swiss_t1.figures(fewer)) == {"42-round-robin", "43-liquid-schedules", "orders"}
    late = {key: value for key, value in fewer[-1].items() if not key.startswith("random_")}
    assert len(by_pattern([*fewer[:-1], late])) == len(rows) - 1


def test_all_orders_are_measured_on_the_first_patterns_only() -> None:
    chosen = bulk_swiss_t1.points(
        False, 1, bulk_swiss_t1.Options(patterns=6, repetitions=1, all_orders=2)
    )
    assert [len(list(bulk_swiss_t1.methods_of(point))) for point in chosen] == [5, 5, 3, 3, 3, 3]
    usual = bulk_swiss_t1.points(False, 1, bulk_swiss_t1.Options(patterns=2, repetitions=1))
    assert usual == chosen[:2]


@pytest.mark.parametrize(
    ("study", "names"),
    [
        (bulk_swiss_t1, {"42-round-robin", "43-liquid-schedules", "orders"}),
        (latency, {"latency"}),
    ],
)
def test_figures_come_from_rows_alone_and_name_their_axes(study: Any, names: set[str]) -> None:
    drawn = study.figures(json.loads(json.dumps(measured(study))))
    assert set(drawn) == names
    for figure in drawn.values():
        assert all(
            axes.get_xlabel() and axes.get_ylabel() and axes.get_legend() for axes in figure.axes
        )
