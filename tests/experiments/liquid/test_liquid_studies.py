"""The studies of liquid scheduling: what their verdicts take for a failure, and figures from rows alone."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from experiments.liquid import bulk_swiss_t1
from experiments.liquid import dsatur as liquid_dsatur
from experiments.liquid import gain as liquid_gain
from experiments.liquid import large_networks as liquid_large_networks
from experiments.liquid import milp_time as liquid_milp_time
from experiments.liquid import patterns as liquid_patterns
from experiments.liquid import restrictions as liquid_restrictions
from experiments.liquid import search_space as liquid_search_space
from experiments.liquid.swiss_t1_traffic import patterns, traffic_of
from experiments.liquid.switching import disciplines
from tests.helpers.study_rows import Change, Rows, failed, published, spoilt

PUBLISHED = {
    liquid_dsatur: "liquid_dsatur",
    liquid_gain: "liquid_gain",
    liquid_search_space: "liquid_search_space",
    liquid_patterns: "liquid_patterns",
    liquid_milp_time: "liquid_milp_time",
    liquid_restrictions: "liquid_restrictions",
    liquid_large_networks: "liquid_large_networks",
    disciplines: "switching_disciplines",
}

WHOLE, TWO, THREE, FIBRE = -4, -3, -2, -1
"""Rows of ``liquid_patterns``: all 32 nodes, and the worked examples."""


@cache
def measured(study: Any) -> Rows:
    """The full study as it was published."""
    return published(PUBLISHED[study])


STUDIES = tuple(PUBLISHED)


AGAINST_THE_THESIS: dict[Any, dict[str, str]] = {
    liquid_dsatur: {"largest loss": "23.1 % where the thesis has 19"},
    liquid_gain: {
        "with a gain of 1.5 to 2": "most gain more",
        "random order over that of round robin,": "a random order is better, where senders go on freely",
    },
    liquid_search_space: {
        "in processor time": "3.3 times faster, not 9.4: categories do not cost the same"
    },
    liquid_milp_time: {
        "that of the thesis' search": "52 times: in Python, against a solver of today",
        "that of fast method": "2700 times, a lower bound",
    },
    liquid_restrictions: {
        "time by equation 11 over": "nothing on most patterns, everything on a third of them",
        "time by equation 12 over": "the first team found is full already",
        "solved by equation 13": "the same patterns",
    },
    liquid_large_networks: {
        "longest processor time of the thesis' search": "in Python it takes seconds on a hundred nodes",
        "schedule by the thesis' search": "none on torus and fat tree in its time",
    },
    disciplines: {"wormhole in 16 blocks": "worms block each other however short they are"},
}
"""Claims that our full runs contradict."""


def without_a_bold_edge(row: dict[str, Any]) -> dict[str, Any]:
    lost = next(edge for edge in row["edges"] if "s_b->s_a" in edge[2])
    return {"edges": [edge for edge in row["edges"] if edge is not lost]}


def flat_blocks(row: dict[str, Any]) -> dict[str, Any]:
    """Blocks gain nothing over whole messages."""
    whole = row["cut-through-blocks"]
    return {"cut-through-blocks": whole and [whole[0]] * len(whole)}


@pytest.mark.parametrize("study", STUDIES)
def test_verdict_holds_except_where_measurements_contradict_the_thesis(study: Any) -> None:
    verdict = study.judge(measured(study))
    contradicted = AGAINST_THE_THESIS.get(study, {})
    assert [
        c.name
        for c in verdict.checks
        if not c.passed and not any(words in c.name for words in contradicted)
    ] == []
    for words in contradicted:
        assert [c.outcome for c in verdict.checks if words in c.name].count("fails") == 1


@pytest.mark.parametrize(
    ("study", "at", "change", "words"),
    [
        (liquid_dsatur, 1, lambda row: {"liquid": row["liquid"] + 1}, "with a liquid schedule"),
        (
            liquid_dsatur,
            None,
            lambda row: {"dsatur": row["liquid"]},
            "share of patterns on which DSATUR loses",
        ),
        (
            liquid_gain,
            3,
            lambda row: {"liquid": row["liquid"] * 0.99},
            "throughput of liquid schedules",
        ),
        (liquid_gain, 3, lambda row: {"deadlocks": 1}, "deadlocks"),
        (liquid_dsatur, None, lambda row: {"dsatur": row["liquid"] + 1}, "lose 9 % or less"),
        (liquid_gain, None, lambda row: {"round-robin": row["liquid"]}, "median gain"),
        (
            liquid_gain,
            None,
            lambda row: {"liquid": row["round-robin"]},
            "throughput of liquid schedules",
        ),
        (
            liquid_gain,
            None,
            lambda row: {"round-robin-blocks": row["liquid"]},
            "whose messages go a quarter a turn",
        ),
        (
            liquid_gain,
            None,
            lambda row: {"identical": row["liquid"]},
            "the same order for all over that of round robin",
        ),
        (
            liquid_gain,
            None,
            lambda row: {"random-phases": row["liquid"]},
            "random order, phase by phase over",
        ),
        (
            liquid_gain,
            None,
            lambda row: {"identical-phases": row["liquid"]},
            "the same order for all, phase by phase over",
        ),
        (liquid_milp_time, 0, lambda row: {"liquid_liquid": False}, "with a liquid schedule"),
        (
            liquid_milp_time,
            None,
            lambda row: {"exact_s": row["milp_s"]},
            "within 0.1 s, the thesis' search",
        ),
        (
            liquid_milp_time,
            None,
            lambda row: {"liquid_s": row["milp_s"]},
            "within 0.1 s, fast method",
        ),
        (
            liquid_milp_time,
            None,
            lambda row: {"liquid_s": row["milp_s"] / 50},
            "that of fast method",
        ),
        (
            liquid_patterns,
            WHOLE,
            lambda row: {"edges": row["edges"] - 1},
            "edges of the congestion graph",
        ),
        (
            liquid_patterns,
            WHOLE,
            lambda row: {"bottleneck_load": row["bottleneck_load"] + 1},
            "bottleneck load of all 32",
        ),
        (
            liquid_patterns,
            5,
            lambda row: {"nodes": 32, "bottleneck_load": 48},
            "patterns of different nodes",
        ),
        (
            liquid_patterns,
            None,
            lambda row: {"skeleton": row["transfers"]},
            "mean share of transfers in the skeleton",
        ),
        (
            liquid_restrictions,
            None,
            lambda row: {"eq12_liquid": row["eq11_liquid"]},
            "equation 12 and not by equation 11",
        ),
        (
            liquid_restrictions,
            None,
            lambda row: {"eq13_s": row["eq12_s"]},
            "time by equation 12 over",
        ),
        (
            liquid_large_networks,
            2,
            lambda row: {"liquid_s": 5.0},
            "longest processor time of fast method",
        ),
        (liquid_large_networks, 2, lambda row: {"liquid_liquid": False}, "schedule by fast method"),
        (liquid_patterns, TWO, lambda row: {"round_robin_frames": 6}, "throughput by round robin"),
        (liquid_patterns, TWO, lambda row: {"bottleneck_load": 7}, "liquid throughput, MB/s"),
        (liquid_patterns, TWO, without_a_bold_edge, "edges of the congestion graph by s_b->s_a"),
        (
            liquid_patterns,
            THREE,
            lambda row: {"proved": "unknown"},
            "proved that there is no liquid schedule",
        ),
        (liquid_patterns, THREE, lambda row: {"shortest": 2}, "frames of the shortest schedule"),
        (liquid_patterns, FIBRE, lambda row: {"rounds": [1, 1]}, "rounds with one wavelength"),
        (disciplines, 3, lambda row: {"liquid": 0.99}, "liquid schedule, share"),
        (disciplines, None, lambda row: {"cut-through": row["wormhole"]}, "store blocked messages"),
        (
            disciplines,
            None,
            lambda row: {"cut-through": 1.0},
            "share of the liquid throughput, median",
        ),
        (disciplines, None, lambda row: {"virtual-2": row["wormhole"]}, "2 virtual links"),
        (disciplines, None, lambda row: {"virtual-4": row["wormhole"]}, "4 virtual links"),
        (disciplines, None, flat_blocks, "virtual cut-through in 16 blocks"),
        (disciplines, None, flat_blocks, "best number of blocks"),
        (liquid_search_space, 0, lambda row: {"same_teams": False}, "as many full teams"),
        (liquid_search_space, None, lambda row: {"blank": row["naive"]}, "without blank ones"),
        (liquid_search_space, None, lambda row: {"idle": row["blank"]}, "without idle ones"),
        (liquid_search_space, None, lambda row: {"skeleton": row["idle"]}, "the skeleton first"),
    ],
)
def test_verdict_fails_where_the_claim_does(
    study: Any, at: int | None, change: Change, words: str
) -> None:
    assert words in failed(study.judge(spoilt(measured(study), at, change)))


def test_whole_machine_measurements_match_the_papers() -> None:
    whole = measured(liquid_patterns)[WHOLE]
    assert (whole["transfers"], whole["bottleneck_load"], whole["edges"]) == (1024, 48, 48_704)
    assert measured(liquid_gain)[-1]["liquid"] == pytest.approx(1024 / 48)
    for row in measured(liquid_milp_time)[::60]:
        assert row["liquid_liquid"] and row["exact_liquid"]
        assert row["bottleneck_load"] == traffic_of(row["allocation"]).bottleneck_load


@pytest.mark.parametrize(
    ("study", "names"),
    [
        (liquid_dsatur, {"dsatur-loss"}),
        (liquid_gain, {"throughput"}),
        (liquid_milp_time, {"computing-time"}),
        (liquid_restrictions, {"restrictions"}),
        (liquid_large_networks, {"large-networks"}),
        (disciplines, {"disciplines", "blocks"}),
        (
            liquid_patterns,
            {
                "skeletons",
                "throughput-by-nodes",
                "throughput-in-order",
                "congestion-graphs",
                "62-congestion-graph",
            },
        ),
        (liquid_search_space, {"search-space"}),
    ],
)
def test_figures_come_from_rows_alone_and_name_their_axes(study: Any, names: set[str]) -> None:
    drawn = study.figures(json.loads(json.dumps(measured(study))))
    assert set(drawn) == names
    for figure in drawn.values():
        for axes in figure.axes:
            assert axes.get_legend() is not None
            assert not axes.axison or (
                axes.get_ylabel() and (axes.get_xlabel() or axes.get_xticklabels())
            )


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
    counted = {name: value for name, value in first.items() if not name.endswith("_s")}
    assert counted == {
        "naive": 67,
        "blank": 31,
        "idle": 21,
        "skeleton": 27,
        "teams": 6,
        "same_teams": True,
    }


def test_times_that_ran_out_count_as_lower_bounds() -> None:
    """Integer programming's own are what the factor is made of; where the search itself ran out, nothing is claimed."""
    row = {"milp_s": 60.0, "milp_liquid": False, "exact_s": 0.01, "exact_liquid": True}
    assert liquid_milp_time.factor(row, "exact") == pytest.approx(6000)
    assert liquid_milp_time.factor(row | {"exact_liquid": False}, "exact") == 0.0


def test_every_beginning_of_the_measured_patterns_is_spread_over_all() -> None:
    order = bulk_swiss_t1.spread(362)
    assert sorted(order) == list(range(362)) and order[0] == 361
    for count in (4, 8, 40):
        first = sorted(order[:count])
        widest = max(b - a for a, b in zip([-1, *first], first, strict=False))
        assert widest <= 2 * 362 / count + 1


@pytest.mark.parametrize("study", [liquid_dsatur, liquid_gain, liquid_patterns])
def test_points_are_measured_and_the_same_twice(study: Any) -> None:
    point = study.points(True, 1)[1]
    assert study.measure(point) == study.measure(point)
