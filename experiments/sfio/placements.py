"""Pairs of a compute and an I/O process put on nodes of Swiss-T1 at random, 53 times each (Gabrielyan 2007, figure 21).

What the network lets through is computed for all of them; some, or all, are written on switches.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from experiments.sfio.figures import BLUE, GREY, OCHRE, finish_by_nodes
from experiments.sfio.runs import accessed, at_least
from testbed.model.verdict import Check

Row = Mapping[str, Any]
PLACEMENTS = 53
"""Measurements of each number of nodes in Figure 21."""
NODES_OF_SWITCHES = tuple(switch for switch in range(8) for _ in range(4))
PREDICTED = "placed-predicted"
MEASURED = {
    "placed-liquid": ("liquid schedule", BLUE, "liquid", -0.28),
    "placed": ("circuits as they come", OCHRE, "none", 0.28),
}
ORDER_TOLERANCE, MIN_LIQUID = 0.2, 0.85
FREE_NODES, CROWDED_NODES, MAX_CROWDED = 12, 24, 0.8
"""From half of the machine on the network is a major bottleneck: what a node gets at 24 nodes over what it gets at 12."""


def random_allocation(nodes: int, placement: int, seed: int) -> str:
    """Nodes of each switch when any ``nodes`` of the 32 are taken, each as likely.

    >>> random_allocation(32, 0, 1)
    '4-4-4-4-4-4-4-4'
    """
    taken = random.Random(f"{seed}/{nodes}/{placement}").sample(NODES_OF_SWITCHES, nodes)
    return "-".join(str(taken.count(switch)) for switch in range(8))


def placed_points(
    predicted_nodes: Sequence[int], measured_nodes: Sequence[int], measured: int, pair_bytes: int, seed: int
) -> list[dict[str, Any]]:
    """All placements predicted; of the first ``measured`` both orders on switches, one placement of all sizes after another."""

    def point(nodes: int, placement: int, series: str) -> dict[str, Any]:
        allocation = random_allocation(nodes, placement, seed)
        common = {"nodes": nodes, "allocation": allocation, "series": series, "pair_bytes": pair_bytes}
        return {**common, "placement": placement, "seed": seed}

    predicted = [point(nodes, k, PREDICTED) for nodes in predicted_nodes for k in range(PLACEMENTS)]
    return predicted + [
        point(nodes, k, series) for k in range(measured) for nodes in measured_nodes for series in MEASURED
    ]


def measure_placed(point: Row, *, stripe_unit: int, link_rate_bps: float) -> dict[str, Any]:
    """One collective write of the placement, or what is predicted of it."""
    network = f"swiss-t1:allocation={point['allocation']}"
    options: dict[str, Any] = {
        "compute_nodes": point["nodes"],
        "io_nodes": point["nodes"],
        "stripe_unit": stripe_unit,
        "file_bytes": point["nodes"] ** 2 * point["pair_bytes"],
        "schedule": "none" if point["series"] == PREDICTED else MEASURED[point["series"]][2],
        "switching": "circuit",
        "link_rate_bps": link_rate_bps,
        "order": "random",
        "seed": point["seed"] * 1000 + point["placement"],
    }
    return _predicted(network, options) if point["series"] == PREDICTED else accessed(network, **options)


def _predicted(network: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of circuits asked for as they come, in virtual time; and the liquid throughput, which no order exceeds."""
    from testbed.striping.plan import StripingOptions
    from testbed.striping.prediction import predict
    from testbed.striping.session import MTU_BYTES, plan_session

    prediction = predict(plan := plan_session(network, StripingOptions(**options), now=time.monotonic), MTU_BYTES)
    assert prediction is not None
    return {
        "predicted_bps": prediction.throughput_bps,
        "liquid_bps": prediction.liquid_throughput_bps,
        "liquid_links": plan.liquid_links,
        "verified": True,
    }


def placed_checks(rows: Sequence[Row]) -> tuple[list[Check], list[str]]:
    """How measured placements agree with what was predicted of them, and what the medians over all placements say."""
    found = {series: [row for row in rows if row["series"] == series] for series in (PREDICTED, *MEASURED)}
    medians = median_liquid_links(rows)
    crowded = medians[CROWDED_NODES] / CROWDED_NODES / (medians[FREE_NODES] / FREE_NODES)
    checks = [
        Check.at_most(
            f"random placements: liquid throughput of a node, {CROWDED_NODES} over {FREE_NODES} nodes, medians",
            MAX_CROWDED,
            crowded,
            detail=f"at most {MAX_CROWDED}: beyond half of the machine the network is the bottleneck",
        )
    ]
    if found["placed"]:
        ratios = sorted(row["throughput_bps"] / row["predicted_bps"] for row in found["placed"])
        typical = statistics.median(ratios)
        checks.append(
            Check(
                name="random placements, circuits as they come: measured over predicted throughput, median",
                predicted=1.0,
                measured=typical,
                tolerance=ORDER_TOLERANCE,
                passed=abs(typical - 1) <= ORDER_TOLERANCE,
                detail=f"{len(ratios)} runs, {ratios[0]:.2f} to {ratios[-1]:.2f}",
            )
        )
    if found["placed-liquid"]:
        least = min(row["throughput_bps"] / row["liquid_bps"] for row in found["placed-liquid"])
        name = "random placements, liquid schedule: measured over liquid throughput, worst placement"
        checks.append(at_least(name, least, MIN_LIQUID))
    return checks, [_growth_note(medians)]


def median_liquid_links(rows: Sequence[Row]) -> dict[int, float]:
    """Nodes -> median liquid throughput of the placements, in links."""
    links: dict[int, list[float]] = {}
    for row in rows:
        if row["series"] == PREDICTED:
            links.setdefault(row["nodes"], []).append(row["liquid_links"])
    return {nodes: statistics.median(values) for nodes, values in sorted(links.items())}


def _growth_note(medians: Mapping[int, float]) -> str:
    growth = [f"{b / a:.2f} from {m} to {n}" for (m, a), (n, b) in pairwise(medians.items()) if n == m + 2]
    return f"random placements, median liquid throughput: x {', x '.join(growth)} nodes"


def placement_figure(rows: Sequence[Row], *, title: str) -> Any:
    """Every placement a point, medians as lines: liquid throughput of all, and what was written on switches."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.8, 5))
    _spread(axes, [r for r in rows if r["series"] == PREDICTED], "liquid_bps", "liquid throughput", "black", 0.0)
    _spread(
        axes,
        [r for r in rows if r["series"] == PREDICTED],
        "predicted_bps",
        "circuits as they come, virtual time",
        GREY,
        0.14,
    )
    for series, (name, colour, _, aside) in MEASURED.items():
        chosen = [r for r in rows if r["series"] == series]
        if chosen:
            _spread(axes, chosen, "throughput_bps", f"{name}, measured", colour, aside)
    axes.axvline(16, color=GREY, linestyle="--", linewidth=1, label="half of the machine")
    finish_by_nodes(axes, rows, x="nodes, each of which computes and keeps a subfile", title=title)
    return figure


def _spread(axes: Any, rows: Sequence[Row], key: str, name: str, colour: str, aside: float) -> None:
    """Every placement a point, ``aside`` from its number of nodes, and a line through the medians; diamonds where measured."""
    marker = "D" if key == "throughput_bps" else "."
    values: dict[int, list[float]] = {}
    for row in rows:
        values.setdefault(row["nodes"], []).append(row[key] / 1e6)
    count = max(map(len, values.values()))
    at = [nodes + aside for nodes, found in values.items() for _ in found]
    flat = [value for found in values.values() for value in found]
    size = 14 if marker == "." else 18
    axes.scatter(at, flat, s=size, marker=marker, color=colour, alpha=0.5, linewidths=0)
    middle = sorted((nodes + aside, statistics.median(found)) for nodes, found in values.items())
    label = f"{name}: median and {count} placement{'s' if count > 1 else ''}"
    axes.plot(*zip(*middle, strict=True), color=colour, marker=marker, markersize=5, linewidth=1.3, label=label)
