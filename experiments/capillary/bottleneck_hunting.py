"""The thesis' own bottleneck hunting loop, layer by layer: how fast suspects fall away (Figure 58)."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.capillary.panels import panels
from testbed.commands.studies.study import Study
from testbed.model.verdict import Check, Verdict
from testbed.routing import capillary_route
from testbed.routing.capillary.thesis_loop import hunt_layers
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

Row = Mapping[str, Any]
LAYERS = 10


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Random geometric networks: 300 nodes and 2556 links, as in the thesis."""
    nodes, links, count = (115, 700, 4) if quick else (300, 2556, 24)
    return [{"nodes": nodes, "links": links, "seed": seed + k} for k in range(count)]


def geometric_network(nodes: int, links: int, seed: int) -> Network:
    """Points in the unit square, the ``links / 2`` nearest pairs joined in both directions; drawn anew until the last node
    can be reached from the first."""
    generator = random.Random(f"hunting/{seed}")
    while True:
        places = [(generator.random(), generator.random()) for _ in range(nodes)]
        pairs = sorted((math.dist(places[i], places[j]), i, j) for i in range(nodes) for j in range(i))[: links // 2]
        network = Network(
            name=f"geometric-{nodes}-{seed}",
            nodes=tuple(Node(id=str(i), kind="switch", position=place) for i, place in enumerate(places)),
            links=tuple(Link(source=str(a), target=str(b)) for _, i, j in pairs for a, b in ((i, j), (j, i))),
        )
        try:
            capillary_route(network, "0", str(nodes - 1), layers=1)
        except NoPathError:
            continue
        return network


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """Suspects at the start and after each iteration, a list a layer; is every layer the recursion's?"""
    network = geometric_network(point["nodes"], point["links"], point["seed"])
    sink = str(point["nodes"] - 1)
    hunted = hunt_layers(network, "0", sink, layers=LAYERS)
    exact = capillary_route(network, "0", sink)
    same = [
        {network.links[i].id for i in layer.bottlenecks} == set(true.bottlenecks)
        and math.isclose(layer.factor, float(true.factor), rel_tol=1e-6)
        for layer, true in zip(hunted.layers, exact.layers, strict=False)
    ]
    return {"suspects": [list(layer.suspects) for layer in hunted.layers], "same": sum(same), "layers": len(same)}


def judge(rows: Sequence[Row]) -> Verdict:
    """The loop ends at the true bottlenecks, the few that the thesis counts."""
    same, layers = sum(row["same"] for row in rows), sum(row["layers"] for row in rows)
    checks = [
        Check.equal("layers whose bottlenecks and factor are those of the exact recursion", float(layers), float(same))
    ]
    means = _mean_bottlenecks(rows)
    checks.append(
        Check.equal(
            "mean number of bottlenecks of a layer (least of the ten), against 5.9 to 9.9",
            5.9,
            min(means),
            tolerance=3.0,
            detail="the thesis does not give its networks",
        )
    )
    iterations = [max(len(row["suspects"][k]) - 1 for row in rows if len(row["suspects"]) > k) for k in range(LAYERS)]
    first = statistics.fmean(layer[0] for row in rows for layer in row["suspects"])
    last = statistics.fmean(layer[-1] for row in rows for layer in row["suspects"])
    notes = (
        f"iterations of the longest hunt of each layer: {min(iterations)} to {max(iterations)} (thesis: 14 to 23)",
        f"mean bottlenecks of a layer: {min(means):.1f} to {max(means):.1f} (thesis: 5.9 to 9.9)",
        f"suspects before the hunt {first:.0f} on average, after it {last:.1f}",
    )
    return Verdict(checks=tuple(checks), notes=notes)


def _mean_bottlenecks(rows: Sequence[Row]) -> list[float]:
    return [
        statistics.fmean(row["suspects"][k][-1] for row in rows if len(row["suspects"]) > k)
        for k in range(LAYERS)
        if any(len(row["suspects"]) > k for row in rows)
    ]


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Mean number of suspected links against the iteration, a curve a layer."""
    from matplotlib import colormaps

    figure, (axes,) = panels(8.6, 5.2)
    colours = colormaps["viridis"]
    for k in range(LAYERS):
        hunts = [row["suspects"][k] for row in rows if len(row["suspects"]) > k]
        if not hunts:
            continue
        longest = max(map(len, hunts))
        means = [statistics.fmean(hunt[min(step, len(hunt) - 1)] for hunt in hunts) for step in range(longest)]
        axes.plot(range(longest), means, marker=".", color=colours(k / LAYERS), label=f"layer {k + 1}")
    axes.axhspan(5.9, 9.9, color="#d55e00", alpha=0.15, label="bottlenecks at the end, in the thesis")
    axes.set_yscale("log")
    axes.set_xlabel("iterations of the bottleneck hunting loop")
    axes.set_ylabel("suspected links, mean over the networks")
    axes.set_title(f"{len(rows)} networks of {rows[0]['nodes']} nodes and {rows[0]['links']} links")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8, ncol=2)
    return {"figure-58": figure}


STUDY = Study.of_module(
    __name__,
    name="bottleneck_hunting",
    does="suspected bottlenecks per iteration of the thesis' hunting loop, layers 1 to 10, on random geometric networks",
    answers="Gabrielyan 2007, Figure 58: the loop finds the true bottlenecks in a few iterations",
)
