"""The studies of liquid scheduling: what their verdicts take for a failure, and figures from rows alone."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.liquid import dsatur as liquid_dsatur
from experiments.liquid import gain as liquid_gain
from experiments.liquid import milp_time as liquid_milp_time
from experiments.liquid import patterns as liquid_patterns
from experiments.liquid import search_space as liquid_search_space
from experiments.liquid.swiss_t1_traffic import patterns, traffic_of
from testbed.model.verdict import Verdict

Rows = list[dict[str, Any]]


def failed(verdict: Verdict) -> str:
    return "; ".join(check.name for check in verdict.checks if not check.passed)


def rows_of(study: Any, **fields: Any) -> Rows:
    return [{**point, **fields} for point in study.points(True, 1)]


def changed(rows: Rows, at: int, **fields: Any) -> Rows:
    return [{**row, **fields} if k == at % len(rows) else row for k, row in enumerate(rows)]


DSATUR = [
    {**row, "dsatur": 22 if k % 4 == 0 else 20}
    for k, row in enumerate(rows_of(liquid_dsatur, bottleneck_load=20, liquid=20, networkx=20))
]
GAIN = rows_of(
    liquid_gain,
    predicted=10.0,
    liquid=10.0,
    deadlocks=0,
    **{"liquid-free": 7.0, "round-robin": 5.0, "random": 6.0, "identical": 4.0},
)
TIMES = rows_of(
    liquid_milp_time,
    bottleneck_load=9,
    liquid_s=1e-4,
    exact_s=1e-3,
    milp_s=0.1,
    liquid_liquid=True,
    exact_liquid=True,
    milp_liquid=True,
)
PATTERNS = [
    {**row, "bottleneck_load": 48 if row["nodes"] == 32 else k + 50}
    for k, row in enumerate(rows_of(liquid_patterns, transfers=100, liquid_throughput=9.0, skeleton=32, edges=48704))
]
SPACE = rows_of(liquid_search_space, naive=1000, blank=280, idle=200, skeleton=106, teams=9, same_teams=True)


@pytest.mark.parametrize(
    ("study", "good", "bad", "words"),
    [
        (liquid_dsatur, DSATUR, changed(DSATUR, 1, liquid=21), "with a liquid schedule"),
        (liquid_dsatur, DSATUR, [{**row, "dsatur": 20} for row in DSATUR], "share of patterns on which DSATUR loses"),
        (liquid_gain, GAIN, changed(GAIN, 3, liquid=9.9), "throughput of liquid schedules"),
        (liquid_gain, GAIN, changed(GAIN, 3, deadlocks=1), "deadlocks"),
        (liquid_gain, GAIN, [{**row, "round-robin": 9.0} for row in GAIN], "median gain"),
        (liquid_milp_time, TIMES, changed(TIMES, 0, liquid_liquid=False), "with a liquid schedule"),
        (liquid_milp_time, TIMES, [{**row, "liquid_s": 0.01} for row in TIMES], "fast method"),
        (liquid_patterns, PATTERNS, changed(PATTERNS, -1, edges=48703), "edges of the congestion graph"),
        (liquid_search_space, SPACE, changed(SPACE, 0, same_teams=False), "as many full teams"),
        (liquid_search_space, SPACE, [{**row, "blank": 500} for row in SPACE], "without blank ones"),
    ],
)
def test_verdict_fails_where_the_claim_does(study: Any, good: Rows, bad: Rows, words: str) -> None:
    assert study.judge(good).passed
    assert words in failed(study.judge(bad))


@pytest.mark.parametrize(
    ("study", "rows", "names"),
    [
        (liquid_dsatur, DSATUR, {"dsatur-loss"}),
        (liquid_gain, GAIN, {"throughput", "shares"}),
        (liquid_milp_time, TIMES, {"computing-time"}),
        (liquid_patterns, PATTERNS, {"skeletons", "throughput-by-nodes", "throughput-in-order", "congestion-graphs"}),
        (liquid_search_space, SPACE, {"search-space"}),
    ],
)
def test_figures_come_from_rows_alone_and_name_their_axes(study: Any, rows: Rows, names: set[str]) -> None:
    drawn = study.figures(rows)
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
