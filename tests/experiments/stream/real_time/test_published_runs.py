"""The committed runs are judged as they were when they were made, and spoilt as a check's rival they no longer pass
it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.commands.studies.study_runner import drawn
from testbed.model.studies.study import Study
from testbed.model.verdict import Verdict
from testbed.results.study_store import load_study
from tests.helpers.study_rows import published_run

Row = dict[str, Any]
Spoil = Callable[[Row], Row]


def study(name: str) -> Study:
    found: Study = importlib.import_module(f"experiments.stream.real_time.{name}").STUDY
    return found


def published(name: str) -> tuple[list[Row], dict[str, Any]]:
    """Rows and verdict of the run that speaks for the study: that of full size."""
    run = published_run(name)
    assert run is not None and run.verdict is not None
    return load_study(Path(run.directory))[2], dict(run.verdict.to_json())


def not_held(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.passed]


def lost_nothing(row: Row) -> Row:
    return {**row, "lost": 0.0}


def lost_as_alone(row: Row) -> Row:
    return {**row, "lost": 200.0 * row["outage_s"]}


def lost_on_the_way(row: Row) -> Row:
    return {**row, "lost": row["uncoded"]}


def as_slow_as_the_rival(row: Row) -> Row:
    return {**row, "seconds": row["seconds"] + 0.56, "verdict": "failed"}


def as_in_one_queue(row: Row) -> Row:
    return {**row, "not_in_time": 0.947, "p99_s": 0.24, "tcp_bps": 956e3}


def without_a_code(row: Row) -> Row:
    pps = {"voip": 50.0, "video": 250.0}[row["profile"]]
    return {**row, "lost": row["load"] * pps * row["failure_s"]}


SPOILT: list[tuple[str, str, Any, Spoil, str]] = [
    (
        "static_code_baseline",
        "sender",
        "RS(30,23), two paths",
        lost_on_the_way,
        "two paths: longest failure",
    ),
    (
        "static_code_baseline",
        "sender",
        "RS(30,23), two paths",
        lost_nothing,
        "down for a second, share",
    ),
    (
        "static_code_baseline",
        "sender",
        "RS(30,23), capillary",
        lost_on_the_way,
        "labels and schedule predict",
    ),
    (
        "static_code_baseline",
        "sender",
        "adaptive, capillary",
        lambda row: {**row, "lost": 2.0 * row["packets"]},
        "adaptive, capillary",
    ),
    (
        "download_rates",
        "download",
        "raises its rate",
        as_slow_as_the_rival,
        "raised rate over constant rate",
    ),
    (
        "download_rates",
        "download",
        "raises its rate",
        as_slow_as_the_rival,
        "verdict of the download that raises",
    ),
    (
        "download_rates",
        "download",
        "never raises it",
        lambda row: {**row, "verdict": "passed"},
        "never raises it",
    ),
    (
        "last_mile_priority",
        "case",
        "priority",
        as_in_one_queue,
        "priority: source packets lost or later",
    ),
    ("last_mile_priority", "case", "priority", as_in_one_queue, "priority: delay"),
    ("last_mile_priority", "case", "priority", as_in_one_queue, "priority: what TCP carries"),
    (
        "last_mile_priority",
        "case",
        "one queue",
        lambda row: {**row, "median_s": 0.003},
        "one queue: median delay",
    ),
    (
        "last_mile_priority",
        "case",
        "priority, code, outage",
        lambda row: {**row, "unplayed": 0.067},
        "could not be played",
    ),
    ("real_time_profiles", "sender", "capillary", without_a_code, "voip, capillary"),
    ("real_time_profiles", "sender", "capillary", without_a_code, "video, capillary"),
    (
        "real_time_profiles",
        "sender",
        "single path, retransmission",
        lost_nothing,
        "video, single path",
    ),
    (
        "real_time_profiles",
        "sender",
        "RS(30,23), two paths",
        lost_nothing,
        "RS(30,23) over two paths",
    ),
    ("real_time_profiles", "profile", "voip", lost_nothing, "voip: packets lost in all runs"),
]
"""Study, which rows (a key and its value), what is done to them, and a part of the name of a check that then does not
hold."""
STUDIES = list(dict.fromkeys(name for name, *_ in SPOILT))


@pytest.mark.parametrize("name", STUDIES)
def test_published_rows_are_judged_as_published(name: str) -> None:
    rows, verdict = published(name)
    again = study(name).judge(rows).to_json()
    assert [(c["name"], c["outcome"]) for c in again["checks"]] == [
        (c["name"], c["outcome"]) for c in verdict["checks"]
    ]
    assert all(c["rival"] is not None for c in again["checks"]), "every check names its rival"


@pytest.mark.parametrize(("name", "key", "value", "spoil", "says"), SPOILT)
def test_a_run_spoilt_as_the_rival_does_not_pass(
    name: str, key: str, value: Any, spoil: Spoil, says: str
) -> None:
    rows, _ = published(name)
    assert any(row[key] == value for row in rows)
    spoilt = [spoil(row) if row[key] == value else row for row in rows]
    before = not_held(study(name).judge(rows))
    assert any(says in check for check in set(not_held(study(name).judge(spoilt))) - set(before))


@pytest.mark.parametrize("name", STUDIES)
def test_figures_are_drawn(name: str) -> None:
    rows: Sequence[Row] = published(name)[0]
    assert all("<svg" in figure for figure in drawn(study(name), list(rows)).values())


@pytest.mark.parametrize(("name", "key"), [
    ("last_mile_priority", "p99_s"), ("last_mile_priority", "median_s"), ("download_rates", "sent"),
    ("real_time_profiles", "sent_per_source"),
])  # fmt: skip
def test_figures_below_nought_say_nothing(name: str, key: str) -> None:
    rows, _ = published(name)
    assert study(name).judged(rows).invalid is None
    spoilt = [
        {**row, key: -row[key]} if number == len(rows) // 2 else row
        for number, row in enumerate(rows)
    ]
    spoilt = spoilt if spoilt != rows else [{**row, key: -1.0} for row in rows]
    assert f"{key} is " in str(study(name).judged(spoilt).invalid)
