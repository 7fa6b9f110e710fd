"""Studies of striped files: points that differ, verdicts on rows that were measured on switches, figures from rows alone."""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.sfio import crossbar, granularity, multi_block, schedules, swiss_t1
from testbed.model.verdict import Verdict
from testbed.striping.placement import place
from topologies import load_network

STUDIES = (crossbar, granularity, multi_block, schedules, swiss_t1)
EACH_STUDY = pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
Rows = list[dict[str, Any]]


@functools.cache
def _document() -> dict[str, Any]:
    return dict(json.loads((Path(__file__).parent / "measured_rows.json").read_text()))


def measured(study: Any) -> Rows:
    """The rows of one quick run on switches, as they came, on a machine that did not keep up with all of them."""
    return [dict(row) for row in _document()[study.STUDY.name]]


def usable(study: Any) -> Rows:
    """The same, what the machine lacked set aside: what is tested is what a verdict makes of the figures."""
    return [{**row, "invalid": None} for row in measured(study)]


def changed(rows: Rows, factor: float, chosen: Callable[[dict[str, Any]], bool], key: str = "throughput_bps") -> Rows:
    """The rows, where ``chosen`` so many times as fast."""
    return [{**row, key: row[key] * factor} if chosen(row) else row for row in rows]


def failed(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.passed]


def fast(rows: Rows, **wanted: Any) -> float:
    (row,) = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    return float(row["throughput_bps"])


@EACH_STUDY
@pytest.mark.parametrize("quick", [True, False])
def test_points_differ_and_are_json(study: Any, quick: bool) -> None:
    keys = [json.dumps(point, sort_keys=True) for point in study.points(quick, 1)]
    assert len(set(keys)) == len(keys) > 5


@EACH_STUDY
def test_a_verdict_holds_what_was_measured_and_fails_on_unverified_content(study: Any) -> None:
    rows = usable(study)
    assert failed(study.judge(rows)) in ([], [AS_THEY_COME]), (
        "two placements are few: that one lies beyond its tolerance"
    )
    broken = study.judge([{**rows[0], "verified": False}, *rows[1:]])
    assert failed(broken)[0] == "runs whose content was verified" and broken.checks[0].measured == len(rows) - 1


AS_THEY_COME = "random placements, circuits as they come: measured over predicted throughput, median"
SPEEDS: list[tuple[Any, str, Callable[[Rows], float]]] = [
    (
        granularity,
        "optimised write over link rate, slowest stripe unit from 75 bytes",
        lambda rows: min(r["throughput_bps"] for r in rows if r["optimised"] and r["stripe_unit"] >= 75) / 20e6,
    ),
    (
        granularity,
        "optimised over non-optimised write at 75 bytes",
        lambda rows: fast(rows, stripe_unit=75, optimised=True) / fast(rows, stripe_unit=75, optimised=False),
    ),
    (
        multi_block,
        "multi-block over single-block write at 64 bytes",
        lambda rows: fast(rows, block_bytes=64, multi_block=True) / fast(rows, block_bytes=64, multi_block=False),
    ),
    (
        multi_block,
        "single-block writes of large blocks: slowest over fastest",
        lambda rows: (
            min(large := [fast(rows, block_bytes=b, multi_block=False) for b in (4096, 32_768, 262_144)]) / max(large)
        ),
    ),
    (
        crossbar,
        "striped file in turns over all links together, worst number of nodes",
        lambda rows: min(fast(rows, nodes=n, series="striped-in-turns") / (5e6 * n) for n in (2, 4, 8, 16)),
    ),
    (
        schedules,
        "write: scheduled over unscheduled throughput, worst from 16 nodes on",
        lambda rows: min(
            fast(rows, nodes=n, operation="write", schedule="liquid")
            / fast(rows, nodes=n, operation="write", schedule="none")
            for n in (16, 24)
        ),
    ),
    (
        swiss_t1,
        "scheduled striped file: throughput at 10 over 8 nodes",
        lambda rows: fast(rows, nodes=10, series="striped-liquid") / fast(rows, nodes=8, series="striped-liquid"),
    ),
    (
        swiss_t1,
        AS_THEY_COME,
        lambda rows: statistics.median(
            r["throughput_bps"] / r["predicted_bps"] for r in rows if r["series"] == "placed"
        ),
    ),
]


@pytest.mark.parametrize(("study", "name", "worked_out"), SPEEDS, ids=lambda value: getattr(value, "__name__", value))
def test_a_check_compares_the_rows_that_it_names(study: Any, name: str, worked_out: Callable[[Rows], float]) -> None:
    rows = usable(study)
    (check,) = [check for check in study.judge(rows).checks if check.name == name]
    assert check.measured == pytest.approx(worked_out(rows), rel=1e-12)


@pytest.mark.parametrize(
    ("study", "slower", "names"),
    [
        (granularity, lambda r: r["optimised"] and r["stripe_unit"] == 5000, ["slowest stripe unit from 75 bytes"]),
        (granularity, lambda r: not r["optimised"] and r["stripe_unit"] == 1005, ["become faster with the stripe unit"]),
        (granularity, lambda r: r["optimised"] and r["stripe_unit"] == 25, []),
        (multi_block, lambda r: not r["multi_block"] and r["block_bytes"] == 32_768, ["slowest over fastest"]),
        (crossbar, lambda r: r["series"] == "striped-in-turns" and r["nodes"] == 8, ["striped file in turns over"]),
        (crossbar, lambda r: r["series"] == "network" and r["nodes"] == 2, ["plain messages over"]),
        (crossbar, lambda r: r["series"] == "striped", []),
        (schedules, lambda r: (r["operation"], r["nodes"], r["schedule"]) == ("read", 24, "liquid"), ["read: scheduled"]),
        (schedules, lambda r: r["nodes"] == 8 and r["schedule"] == "liquid", []),
        (swiss_t1, lambda r: r["series"] == "placed-liquid" and r["nodes"] == 16, ["worst placement", "circuits as they"]),
        (swiss_t1, lambda r: r["series"] == "striped", ["circuits as they"]),
    ],
)  # fmt: skip
def test_slow_points_fail_the_checks_that_they_are_about_and_no_others(
    study: Any, slower: Any, names: list[str]
) -> None:
    found = failed(study.judge(changed(usable(study), 0.3, slower)))
    assert len(found) == len(names) and all(any(name in one for one in found) for name in names), found


@EACH_STUDY
def test_verdicts_fail_where_all_points_are_alike(study: Any) -> None:
    rows = [{**row, "throughput_bps": 1e6} for row in usable(study)]
    assert len(failed(study.judge(rows))) >= 2


@EACH_STUDY
def test_figures_have_labelled_axes_and_show_every_measured_point(study: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = measured(study)
    drawn = set[float]()
    for figure in study.figures(rows).values():
        (axes,) = figure.axes
        assert axes.get_xlabel() and axes.get_ylabel() and axes.get_legend() is not None
        drawn |= {float(y) for line in axes.get_lines() for y in line.get_ydata()}
        drawn |= {float(y) for points in axes.collections for _, y in points.get_offsets()}
        plt.close(figure)
    assert {row["throughput_bps"] / 1e6 for row in rows if "throughput_bps" in row} <= drawn


@EACH_STUDY
def test_points_on_a_machine_that_did_not_keep_up_make_the_study_invalid(study: Any) -> None:
    rows = measured(study)
    lagging = [row["invalid"] for row in rows if row.get("invalid")]
    verdict = study.judge(rows)
    if lagging:
        assert verdict.exit_code == 4
        assert str(verdict.invalid).startswith(f"{len(lagging)} of {len(rows)} points: the machine could not keep up")
    else:
        assert verdict.exit_code in (0, 1)
        verdict = study.judge([*rows[:-1], {**rows[-1], "invalid": "threads were late"}])
        assert verdict.exit_code == 4 and verdict.invalid == f"1 of {len(rows)} points: threads were late"


def test_placements_without_a_crowded_network_fail_the_study() -> None:
    rows = [{**r, "liquid_links": r["nodes"]} if "placement" in r else r for r in usable(swiss_t1)]
    assert "random placements: liquid throughput of a node, 24 over 12 nodes, medians" in failed(swiss_t1.judge(rows))


def test_the_steps_of_ordered_allocations_may_fail() -> None:
    rows = [{**row, "throughput_bps": 3e7} if row["series"] == "striped-liquid" else row for row in usable(swiss_t1)]
    steps = [f"scheduled striped file: throughput at {after} over {before} nodes" for before, after in swiss_t1.STEPS]
    assert set(steps) <= set(failed(swiss_t1.judge(rows)))


def test_every_number_of_nodes_has_53_placements_of_its_nodes_that_the_seed_repeats() -> None:
    points = [point for point in swiss_t1.points(False, 1) if point["series"] == "placed-predicted"]
    assert len(points) == 53 * 16
    for point in points:
        counts = [int(count) for count in point["allocation"].split("-")]
        assert sum(counts) == point["nodes"] and len(counts) == 8 and max(counts) <= 4
    assert len({point["allocation"] for point in points if point["nodes"] == 16}) > 40
    assert swiss_t1.points(False, 1) == swiss_t1.points(False, 1) != swiss_t1.points(False, 2)


def test_prediction_of_a_placement_needs_no_switch() -> None:
    point = next(p for p in swiss_t1.points(True, 1) if p["series"] == "placed-predicted" and p["nodes"] == 8)
    found = swiss_t1.measure(point)
    assert 0 < found["predicted_bps"] <= found["liquid_bps"] and 1 < found["liquid_links"] <= 8


def test_pairs_of_processes_share_a_node_where_they_are_placed_at_random() -> None:
    placed = place(load_network("swiss-t1"), 12, 12, order="random", seed=5)
    assert [name[1:] for name in placed.compute] == [name[1:] for name in placed.io]
    assert len(set(placed.compute)) == 12 and list(placed.compute) != sorted(placed.compute)
    other = place(load_network("swiss-t1"), 12, 12, order="random", seed=6)
    assert set(other.compute) != set(placed.compute)


def test_nodes_of_swiss_t1_are_spread_over_switches_two_at_a_time() -> None:
    assert swiss_t1.allocation(8) == "4-4-0-0-0-0-0-0"
    assert swiss_t1.allocation(16) == "4-4-4-4-0-0-0-0"
    assert swiss_t1.allocation(18) == "3-3-3-3-3-3-0-0"
    assert swiss_t1.allocation(26) == "4-4-3-3-3-3-3-3"
