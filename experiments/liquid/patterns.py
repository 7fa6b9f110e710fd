"""The 362 traffic patterns of Swiss-T1: liquid throughput (Figures 40, 41), skeletons (33) and congestion graphs (63)."""

from __future__ import annotations

from typing import Any

from experiments.liquid.swiss_t1_traffic import (
    INK,
    LIQUID,
    OTHER,
    figure_of,
    node_axis,
    pattern_points,
    traffic_of,
)
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study
from testbed.model.verdict import Check, Claim, Verdict

FULL_MACHINE_LOAD = 48
FULL_MACHINE_EDGES = 48_704
PATTERNS = 362
MEAN_SKELETON = 0.315


def points(quick: bool, seed: int) -> Points:
    """One a pattern."""
    return pattern_points(quick)


def measure(point: Row) -> Results:
    """What follows from the traffic alone."""
    traffic = traffic_of(point["allocation"])
    return {
        "transfers": len(traffic),
        "bottleneck_load": traffic.bottleneck_load,
        "liquid_throughput": traffic.liquid_throughput,
        "skeleton": len(traffic.skeleton),
        "edges": len(traffic.congestion_graph()),
    }


def judge(rows: Rows) -> Verdict:
    """The whole machine's figures exactly; the skeletons' mean where all patterns were taken."""
    whole = rows[-1]
    mean = sum(row["skeleton"] / row["transfers"] for row in rows) / len(rows)
    different = len({(row["nodes"], row["bottleneck_load"]) for row in rows})
    everything = len(rows) == PATTERNS
    checks = [
        _exact("patterns of different nodes or liquid throughput", PATTERNS if everything else len(rows), different),
        _exact("bottleneck load of all 32 nodes", FULL_MACHINE_LOAD, whole["bottleneck_load"]),
        _exact("edges of the congestion graph of all 32 nodes", FULL_MACHINE_EDGES, whole["edges"]),
    ]
    if everything:
        checks.append(
            Claim("mean share of transfers in the skeleton")
            .equal(MEAN_SKELETON, mean, 0.02)
            .cites("31.5 %, Figure 33")
            .against(1.0, "no skeleton smaller than its traffic")
            .noting("which of the allocations with the same nodes and throughput stands for them moves it")
        )
    notes = () if everything else (f"{len(rows)} patterns: mean share of transfers in the skeleton {mean:.3f}",)
    return Verdict(checks=tuple(checks), notes=notes)


def _exact(name: str, predicted: int, measured: int) -> Check:
    return Claim(name).equal(predicted, measured).against(None, "none: an exact count")


def figures(rows: Rows) -> Figures:
    """Figures 33, 40, 41 and 63 of the thesis."""
    return {
        "skeletons": _skeletons(rows),
        "throughput-by-nodes": _by_nodes(rows),
        "throughput-in-order": _in_order(rows),
        "congestion-graphs": _edges(rows),
    }


def _skeletons(rows: Rows) -> Any:
    figure, axes = figure_of()
    shares = [100 * row["skeleton"] / row["transfers"] for row in rows]
    mean = sum(shares) / len(shares)
    axes.plot(range(len(rows)), shares, "o", markersize=2.6, color=LIQUID, label="one pattern")
    axes.axhline(mean, color=LIQUID, linewidth=1.2, label=f"mean: {mean:.1f} %")
    axes.axhline(100 * MEAN_SKELETON, color=OTHER, linestyle="--", linewidth=1.2, label="mean in the thesis: 31.5 %")
    axes.set_ylim(0, 104)
    axes.set_ylabel("transfers in the skeleton (%)")
    axes.set_title("Skeletons of the traffic patterns (Figure 33)")
    axes.legend()
    node_axis(axes, rows)
    return figure


def _by_nodes(rows: Rows) -> Any:
    figure, axes = figure_of()
    nodes = [row["nodes"] for row in rows]
    axes.plot([0, 32], [0, 32], color=INK, linewidth=0.8, linestyle="--", label="as many links as nodes: no congestion")
    axes.plot(nodes, [row["liquid_throughput"] for row in rows], "o", markersize=3, color=LIQUID, label="one pattern")
    axes.axhline(1024 / 48, color=OTHER, linewidth=0.8, linestyle=":", label="all 32 nodes: 21.33 links")
    axes.set_xlabel("nodes taking part")
    axes.set_ylabel("liquid throughput (links)")
    axes.set_title("Liquid throughput of every allocation of Swiss-T1 (Figure 40)")
    axes.set_xlim(0, 33)
    axes.set_ylim(0, 33)
    axes.legend()
    return figure


def _in_order(rows: Rows) -> Any:
    figure, axes = figure_of()
    axes.step(
        range(len(rows)),
        [row["liquid_throughput"] for row in rows],
        where="mid",
        color=LIQUID,
        label="liquid throughput",
    )
    axes.step(
        range(len(rows)),
        [row["nodes"] for row in rows],
        where="mid",
        color=INK,
        linewidth=0.8,
        linestyle="--",
        label="nodes",
    )
    axes.set_ylabel("liquid throughput (links)")
    axes.set_ylim(0, 33)
    axes.set_title("The traffic patterns along one axis (Figure 41)")
    axes.legend()
    node_axis(axes, rows)
    return figure


def _edges(rows: Rows) -> Any:
    figure, axes = figure_of()
    axes.plot(
        range(len(rows)),
        [max(row["edges"], 0.5) for row in rows],
        "o",
        markersize=2.6,
        color=LIQUID,
        label="congestion graph",
    )
    complete = [max(row["transfers"] * (row["transfers"] - 1) / 2, 0.5) for row in rows]
    axes.plot(range(len(rows)), complete, color=INK, linewidth=0.8, linestyle="--", label="complete graph")
    axes.axhline(FULL_MACHINE_EDGES, color=OTHER, linewidth=0.8, linestyle=":", label="all 32 nodes: 48,704 edges")
    axes.set_yscale("log")
    axes.set_ylabel("edges")
    axes.set_title("Congestion graphs of the traffic patterns (Figure 63); none is drawn as one half")
    axes.legend()
    node_axis(axes, rows)
    return figure


STUDY = Study.of_module(
    __name__,
    name="liquid_patterns",
    does="compute the liquid throughput, skeleton and congestion graph of the traffic patterns of Swiss-T1",
    title="The traffic patterns of Swiss-T1: throughput, skeletons, congestion graphs",
    answers="Gabrielyan 2007, Figures 33, 40, 41 and 63: 362 patterns, skeletons of 31.5 %, 48,704 edges",
)
