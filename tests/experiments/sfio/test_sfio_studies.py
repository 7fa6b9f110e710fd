"""Studies of striped files: points that differ, verdicts that can fail, figures from rows alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.sfio import crossbar as sfio_crossbar
from experiments.sfio import granularity as sfio_granularity
from experiments.sfio import multi_block as sfio_multi_block
from experiments.sfio import schedules as sfio_schedules
from experiments.sfio import swiss_t1 as sfio_swiss_t1
from testbed.striping.placement import place
from topologies import load_network

STUDIES = (sfio_crossbar, sfio_granularity, sfio_multi_block, sfio_schedules, sfio_swiss_t1)


def ideal(study: Any, point: dict[str, Any]) -> dict[str, Any]:
    """What a point would measure if the papers' claims held to the letter."""
    row = {**point, "verified": True, "liquid_links": 1.0, "liquid_bps": 1e6, "throughput_bps": 1e6}
    if study is sfio_crossbar:
        row["throughput_bps"] = 0.95 * point["nodes"] * study.LINK_RATE_BPS
    elif study is sfio_granularity:
        row["throughput_bps"] = 19.5e6 if point["optimised"] else min(10e6, 4e3 * point["stripe_unit"])
    elif study is sfio_multi_block:
        row["throughput_bps"] = 19e6 if point["multi_block"] else min(2e6, 4e3 * point["block_bytes"])
    elif study is sfio_schedules:
        row["throughput_bps"] = 1e7 if point["schedule"] == "liquid" else 6e6
    elif "placement" in point:
        links = min(point["nodes"], 12.0) + 0.01 * point["placement"]
        row |= {"liquid_links": links, "liquid_bps": links * 5e6, "predicted_bps": links * 3e6}
        row["throughput_bps"] = links * (4.8e6 if point["series"] == "placed-liquid" else 3.1e6)
    else:
        links = {2: 4.0, 4: 8.0, 6: 12.0, 8: 18.0}[2 * -(-point["nodes"] // 8)]
        row |= {"liquid_links": links, "liquid_bps": links * 5e6}
        row["throughput_bps"] = links * 5e6 * (0.95 if point["series"] == "striped-liquid" else 0.6)
    return row


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
@pytest.mark.parametrize("quick", [True, False])
def test_points_differ_and_are_json(study: Any, quick: bool) -> None:
    keys = [json.dumps(point, sort_keys=True) for point in study.points(quick, 1)]
    assert len(set(keys)) == len(keys) > 5


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
@pytest.mark.parametrize("quick", [True, False])
def test_verdicts_pass_on_what_the_papers_claim_and_fail_on_unverified_content(study: Any, quick: bool) -> None:
    rows = [ideal(study, point) for point in study.points(quick, 1)]
    verdict = study.judge(rows)
    assert verdict.passed, [check.name for check in verdict.checks if not check.passed]
    assert not study.judge([{**rows[0], "verified": False}, *rows[1:]]).passed


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
def test_verdicts_fail_where_all_points_are_alike(study: Any) -> None:
    rows = [{**ideal(study, point), "throughput_bps": 1e6} for point in study.points(True, 1)]
    assert not study.judge(rows).passed


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
def test_figures_have_labelled_axes_and_a_legend(study: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    for figure in study.figures([ideal(study, point) for point in study.points(True, 1)]).values():
        (axes,) = figure.axes
        assert axes.get_xlabel() and axes.get_ylabel() and axes.get_legend() is not None
        plt.close(figure)


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
def test_a_point_on_a_machine_that_did_not_keep_up_makes_the_study_invalid(study: Any) -> None:
    rows = [ideal(study, point) for point in study.points(True, 1)]
    verdict = study.judge([*rows[:-1], {**rows[-1], "invalid": "threads were late"}])
    assert verdict.exit_code == 4 and f"1 of {len(rows)} points: threads were late" in str(verdict.invalid)


def placed_rows(**measured: float) -> list[dict[str, Any]]:
    rows = [ideal(sfio_swiss_t1, point) for point in sfio_swiss_t1.points(True, 1)]
    return [{**row, "throughput_bps": measured.get(row["series"], row["throughput_bps"])} for row in rows]


@pytest.mark.parametrize(
    ("measured", "named"),
    [
        ({"placed": 9e6}, "measured over predicted throughput, median"),
        ({"placed-liquid": 9e6}, "measured over liquid throughput, worst placement"),
    ],
)
def test_placements_that_are_not_as_predicted_fail_the_study(measured: dict[str, float], named: str) -> None:
    failed = [check.name for check in sfio_swiss_t1.judge(placed_rows(**measured)).checks if not check.passed]
    assert failed and all(named in name for name in failed)


def test_placements_without_a_crowded_network_fail_the_study() -> None:
    rows = [{**row, "liquid_links": row["nodes"]} if "placement" in row else row for row in placed_rows()]
    failed = [check.name for check in sfio_swiss_t1.judge(rows).checks if not check.passed]
    assert failed == ["random placements: liquid throughput of a node, 24 over 12 nodes, medians"]


def test_the_steps_of_ordered_allocations_may_fail() -> None:
    rows = [{**row, "throughput_bps": 3e7} if row["series"] == "striped-liquid" else row for row in placed_rows()]
    failed = [check.name for check in sfio_swiss_t1.judge(rows).checks if not check.passed]
    steps = [
        f"scheduled striped file: throughput at {after} over {before} nodes" for before, after in sfio_swiss_t1.STEPS
    ]
    assert set(steps) <= set(failed)


def test_every_number_of_nodes_has_53_placements_of_its_nodes_that_the_seed_repeats() -> None:
    points = [point for point in sfio_swiss_t1.points(False, 1) if point["series"] == "placed-predicted"]
    assert len(points) == 53 * 16
    for point in points:
        counts = [int(count) for count in point["allocation"].split("-")]
        assert sum(counts) == point["nodes"] and len(counts) == 8 and max(counts) <= 4
    assert len({point["allocation"] for point in points if point["nodes"] == 16}) > 40
    assert sfio_swiss_t1.points(False, 1) == sfio_swiss_t1.points(False, 1) != sfio_swiss_t1.points(False, 2)


def test_prediction_of_a_placement_needs_no_switch() -> None:
    point = next(p for p in sfio_swiss_t1.points(True, 1) if p["series"] == "placed-predicted" and p["nodes"] == 8)
    found = sfio_swiss_t1.measure(point)
    assert 0 < found["predicted_bps"] <= found["liquid_bps"] and 1 < found["liquid_links"] <= 8


def test_pairs_of_processes_share_a_node_where_they_are_placed_at_random() -> None:
    placed = place(load_network("swiss-t1"), 12, 12, order="random", seed=5)
    assert [name[1:] for name in placed.compute] == [name[1:] for name in placed.io]
    assert len(set(placed.compute)) == 12 and list(placed.compute) != sorted(placed.compute)
    other = place(load_network("swiss-t1"), 12, 12, order="random", seed=6)
    assert set(other.compute) != set(placed.compute)


def test_nodes_of_swiss_t1_are_spread_over_switches_two_at_a_time() -> None:
    assert sfio_swiss_t1.allocation(8) == "4-4-0-0-0-0-0-0"
    assert sfio_swiss_t1.allocation(16) == "4-4-4-4-0-0-0-0"
    assert sfio_swiss_t1.allocation(18) == "3-3-3-3-3-3-0-0"
    assert sfio_swiss_t1.allocation(26) == "4-4-3-3-3-3-3-3"
