"""The studies of liquid scheduling: what their verdicts take for a failure, and figures from rows alone."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from experiments.liquid import dsatur as liquid_dsatur
from experiments.liquid import gain as liquid_gain
from experiments.liquid import milp_time as liquid_milp_time
from experiments.liquid import patterns as liquid_patterns
from experiments.liquid import search_space as liquid_search_space
from experiments.liquid.swiss_t1_traffic import patterns, traffic_of
from tests.helpers.study_rows import Change, Rows, failed, published, spoilt

PUBLISHED = {
    liquid_dsatur: "liquid_dsatur",
    liquid_gain: "liquid_gain",
    liquid_search_space: "liquid_search_space",
    liquid_patterns: "liquid_patterns",
}


@cache
def measured(study: Any) -> Rows:
    """The full study as it was published; of the times, some of the quick points, measured now."""
    if study in PUBLISHED:
        return published(PUBLISHED[study])
    return [{**point, **study.measure(point)} for point in study.points(True, 1)[1:5]]


STUDIES = (liquid_dsatur, liquid_gain, liquid_milp_time, liquid_patterns, liquid_search_space)


AGAINST_THE_THESIS = {
    liquid_dsatur: {"largest loss": "23.1 % where the thesis has 19"},
    liquid_gain: {
        "with a gain of 1.5 to 2": "most gain more",
        "random order over that of round robin,": "a random order is better, where senders go on freely",
    },
}
"""Claims that our full runs contradict."""


@pytest.mark.parametrize("study", STUDIES)
def test_verdict_holds_on_what_is_measured_but_for_what_contradicts_the_thesis(study: Any) -> None:
    verdict = study.judge(measured(study))
    contradicted = AGAINST_THE_THESIS.get(study, {})
    assert [c.name for c in verdict.checks if not c.passed and not any(words in c.name for words in contradicted)] == []
    for words in contradicted:
        (check,) = [c for c in verdict.checks if words in c.name]
        assert check.outcome == "fails"


@pytest.mark.parametrize(
    ("study", "at", "change", "words"),
    [
        (liquid_dsatur, 1, lambda row: {"liquid": row["liquid"] + 1}, "with a liquid schedule"),
        (liquid_dsatur, None, lambda row: {"dsatur": row["liquid"]}, "share of patterns on which DSATUR loses"),
        (liquid_gain, 3, lambda row: {"liquid": row["liquid"] * 0.99}, "throughput of liquid schedules"),
        (liquid_gain, 3, lambda row: {"deadlocks": 1}, "deadlocks"),
        (liquid_dsatur, None, lambda row: {"dsatur": row["liquid"] + 1}, "lose 9 % or less"),
        (liquid_gain, None, lambda row: {"round-robin": row["liquid"]}, "median gain"),
        (liquid_gain, None, lambda row: {"liquid": row["round-robin"]}, "throughput of liquid schedules"),
        (
            liquid_gain,
            None,
            lambda row: {"identical": row["liquid"]},
            "the same order for all over that of round robin",
        ),
        (liquid_gain, None, lambda row: {"random-phases": row["liquid"]}, "random order, phase by phase over"),
        (
            liquid_gain,
            None,
            lambda row: {"identical-phases": row["liquid"]},
            "the same order for all, phase by phase over",
        ),
        (liquid_milp_time, 0, lambda row: {"liquid_liquid": False}, "with a liquid schedule"),
        (liquid_milp_time, None, lambda row: {"liquid_s": row["milp_s"] / 50}, "fast method"),
        (liquid_patterns, -1, lambda row: {"edges": row["edges"] - 1}, "edges of the congestion graph"),
        (liquid_search_space, 0, lambda row: {"same_teams": False}, "as many full teams"),
        (liquid_search_space, None, lambda row: {"blank": row["naive"]}, "without blank ones"),
        (liquid_search_space, None, lambda row: {"idle": row["blank"]}, "without idle ones"),
        (liquid_search_space, None, lambda row: {"skeleton": row["idle"]}, "the skeleton first"),
    ],
)
def test_verdict_fails_where_the_claim_does(study: Any, at: int | None, change: Change, words: str) -> None:
    assert words in failed(study.judge(spoilt(measured(study), at, change)))


def test_what_is_measured_of_the_whole_machine_is_what_the_papers_count() -> None:
    whole = measured(liquid_patterns)[-1]
    assert (whole["transfers"], whole["bottleneck_load"], whole["edges"]) == (1024, 48, 48_704)
    assert measured(liquid_gain)[-1]["liquid"] == pytest.approx(1024 / 48)
    for row in measured(liquid_milp_time):
        assert row["liquid_liquid"] and row["exact_liquid"] and row["milp_liquid"]
        assert row["bottleneck_load"] == traffic_of(row["allocation"]).bottleneck_load


@pytest.mark.parametrize(
    ("study", "names"),
    [
        (liquid_dsatur, {"dsatur-loss"}),
        (liquid_gain, {"throughput", "shares"}),
        (liquid_milp_time, {"computing-time"}),
        (liquid_patterns, {"skeletons", "throughput-by-nodes", "throughput-in-order", "congestion-graphs"}),
        (liquid_search_space, {"search-space"}),
    ],
)
def test_figures_come_from_rows_alone_and_name_their_axes(study: Any, names: set[str]) -> None:
    drawn = study.figures(json.loads(json.dumps(measured(study))))
    assert set(drawn) == names
    for figure in drawn.values():
        for axes in figure.axes:
            assert axes.get_ylabel() and axes.get_legend() is not None
            assert axes.get_xlabel() or axes.get_xticklabels()


def test_patterns_are_362_or_20_of_them_and_the_whole_machine_is_the_last() -> None:
    assert len(patterns(False)) == 362
    quick = patterns(True)
    assert len({a.name for a in quick}) == 20
    assert quick[-1] == patterns(False)[-1]
    traffic = traffic_of(quick[-1].name)
    assert (len(traffic), traffic.bottleneck_load) == (1024, 48)


def test_search_space_takes_the_23_patterns_of_3_to_8_nodes() -> None:
    assert len(liquid_search_space.points(False, 1)) == 23
    assert {point["nodes"] for point in liquid_search_space.points(False, 1)} == set(range(3, 9))
    first = liquid_search_space.measure(liquid_search_space.points(True, 1)[0])
    assert first == {"naive": 67, "blank": 31, "idle": 21, "skeleton": 27, "teams": 6, "same_teams": True}


@pytest.mark.parametrize("study", [liquid_dsatur, liquid_gain, liquid_patterns])
def test_points_are_measured_and_the_same_twice(study: Any) -> None:
    point = study.points(True, 1)[1]
    assert study.measure(point) == study.measure(point)
