"""The thesis' own bottleneck hunting loop, layer by layer: how fast suspects fall away (Figure 58); and ten layers of a
route with their bottlenecks, drawn over a network (Figure 47).

The document's networks are 200 independent samples of 300 nodes with 2,555.7 links on average. So the number of links
varies, as it does where a common range decides who is a neighbour: they are read as frames of a random walk (its
section 4.1), 300 nodes of 8.519 neighbours on average, each direction of a cable a link. It does not say which nodes
are the ends. Two readings are run: a random pair, and the topmost node to the bottommost, as the document draws its
small networks. Both ends have two separate paths between them. Nor does it say which shape its "rectangular area" has:
each reading is run on a square and on rectangles that are up to three times as wide as high.
"""

import math
import statistics

from experiments.capillary import capillary_drawing
from experiments.capillary.mobile_pairs import joined, outermost_pair
from testbed.campaigns.rows import drawn_pair
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    parted,
    spread,
    sum_of,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import Figure, draw_lines
from testbed.routing import capillary_route
from testbed.routing.capillary.thesis_loop import hunt_layers
from topologies import Network, load_network

LAYERS = 10
NODES, DEGREE = 300, 8.519
"""Nodes, and links over nodes: 2555.7 / 300."""
ITERATIONS, BOTTLENECKS = (14, 23), (5.9, 9.9)
"""What the document counts: iterations of the loop, mean bottlenecks of a layer (page 72)."""
KINDS = {
    "random ends": "random ends",
    "top to bottom": "topmost node to bottommost",
    "interior": "interior-point solver, random ends",
}
VERTICES = ("random ends", "top to bottom")
RECTANGLES = {
    f"{ends}, {aspect:g} to 1": (ends, aspect) for aspect in (1.5, 2.0, 3.0) for ends in VERTICES
}
"""Kind -> ends, width over height."""


def points(quick: bool, seed: int) -> Points:
    """Each network once for every reading of the ends; a few more solved by an interior-point method; Figure 47."""
    every, interior = (6, 2) if quick else (200, 24)
    counts = (
        dict.fromkeys(VERTICES, every) | {"interior": interior} | dict.fromkeys(RECTANGLES, every)
    )
    hunted: Points = [
        {"kind": kind, "seed": seed + k} for kind, count in counts.items() for k in range(count)
    ]
    return hunted + capillary_drawing.points(quick, seed)


def measure(point: Row) -> Results:
    """Suspects at the start and after each iteration, a list a layer; is every layer the recursion's? Or what Figure 47
    shows."""
    if point["kind"] in capillary_drawing.KINDS:
        return capillary_drawing.measure(point)
    ends, aspect = RECTANGLES.get(point["kind"], (point["kind"], 1.0))
    network = load_network(
        f"manet:nodes={NODES},degree={DEGREE},seed={point['seed']},frame=0,aspect={aspect}"
    )
    outermost = ends == "top to bottom"
    drawn = (
        outermost_pair(network)
        if outermost
        else drawn_pair(network, point["seed"], 0, minimum_paths=2)
    )
    pair = joined(network, drawn)
    hunted = hunt_layers(network, *pair, layers=LAYERS, interior=point["kind"] == "interior")
    if hunted.failure is not None:
        return _row(network, pair) | {"unsolved": hunted.failure}
    exact = capillary_route(network, *pair)
    same = [
        {network.links[i].id for i in layer.bottlenecks} == set(true.bottlenecks)
        and math.isclose(layer.factor, float(true.factor), rel_tol=1e-6)
        for layer, true in zip(hunted.layers, exact.layers, strict=False)
    ]
    suspects = [list(layer.suspects) for layer in hunted.layers]
    return _row(network, pair) | {"suspects": suspects, "same": sum(same), "layers": len(same)}


def judge(rows: Rows) -> Verdict:
    """The loop ends at the true bottlenecks, as few as the document counts and after as many iterations; an
    interior-point method has nothing to hunt. The drawn layers are those of the certified full route."""
    rows, drawn = parted(rows, "suspects")
    checks = []
    for kind in VERTICES:
        checks += _loop_checks(kind, [row for row in where(rows, kind=kind) if row["suspects"]])
    for kind in RECTANGLES:
        if own := [row for row in where(rows, kind=kind) if row["suspects"]]:
            checks += _loop_checks(kind, own)
    unsolved = sum("unsolved" in row for row in rows)
    note = f"routes that the solver gave up, left out: {unsolved} of {len(rows)}"
    checks += [
        _interior_check(where(rows, kind="interior")),
        *capillary_drawing.drawing_checks(drawn),
    ]
    return Verdict.of(checks, (note,))


def _loop_checks(kind: str, own: Rows) -> list[Check]:
    same, layers = sum_of(own, "same"), sum_of(own, "layers")
    means, longest = _mean_bottlenecks(own), _longest_hunts(own)
    inside = sum(
        mean + width >= BOTTLENECKS[0] and mean - width <= BOTTLENECKS[1] for mean, width in means
    )
    each = [statistics.fmean(hunt[-1] for hunt in row["suspects"]) for row in own]
    unhunted = statistics.fmean(hunt[0] for row in own for hunt in row["suspects"])
    return [
        Claim(f"{kind}: layers whose bottlenecks and factor are those of the exact recursion")
        .equal(layers, same)
        .against(
            _unhunted(own),
            "layers of which the full links of the first solution are the bottlenecks: no hunt",
        ),
        Claim(f"{kind}: bottlenecks of a layer, mean of the ten layers")
        .equal(statistics.fmean(BOTTLENECKS), spread(each), (BOTTLENECKS[1] - BOTTLENECKS[0]) / 2)
        .cites("5.9 to 9.9 (page 72)")
        .against(unhunted, "suspects without the hunt"),
        Claim(
            f"{kind}: layers of which the mean number of bottlenecks lies in 5.9 to 9.9 within its 95 % interval"
        )
        .equal(LAYERS, inside)
        .cites("all ten (page 72)")
        .against(0.0, "none: suspects without the hunt"),
        Claim(f"{kind}: layers of which the longest hunt takes 14 to 23 iterations")
        .equal(LAYERS, sum(ITERATIONS[0] <= count <= ITERATIONS[1] for count in longest))
        .cites("all ten (page 72)")
        .against(0.0, "none: an interior-point solver's hunts"),
    ]


def _interior_check(rows: Rows) -> Check:
    share = _unhunted(rows) / sum(len(row["suspects"]) for row in rows)
    check = Claim("interior: share of layers with nothing to hunt").equal(1.0, share, 0.1)
    return check.against(0.0, "as with vertices").noting("so the document's solver gave vertices")


def _unhunted(rows: Rows) -> int:
    """Layers of which the suspects before the hunt are those after it."""
    return sum(hunt[0] == hunt[-1] for row in rows for hunt in row["suspects"])


def _mean_bottlenecks(rows: Rows) -> list[tuple[float, float]]:
    """(mean, half width of its interval), a layer each."""
    ends = [
        [row["suspects"][k][-1] for row in rows if len(row["suspects"]) > k] for k in range(LAYERS)
    ]
    return [spread(values) for values in ends if values]


def _longest_hunts(rows: Rows) -> list[int]:
    """Iterations, a layer each: all networks are hunted side by side, until the last of them has nothing to remove."""
    return [
        max((len(row["suspects"][k]) - 1 for row in rows if len(row["suspects"]) > k), default=0)
        for k in range(LAYERS)
    ]


def figures(rows: Rows) -> Figures:
    """Mean number of suspected links against the iteration, a curve a layer, a figure a reading; Figure 47."""
    hunts = {
        f"figure-58-{kind.replace(' ', '-')}": _figure(where(rows, kind=kind), KINDS[kind])
        for kind in KINDS
    }
    return {**hunts, **capillary_drawing.figures(rows)}


def _figure(rows: Rows, title: str) -> Figure:
    samples = {}
    for k in range(LAYERS):
        hunts = [row["suspects"][k] for row in rows if len(row["suspects"]) > k]
        for step in range(max(map(len, hunts), default=0)):
            samples[f"layer {k + 1}", step] = [
                float(hunt[min(step, len(hunt) - 1)]) for hunt in hunts
            ]
    x, claim = (
        "iterations of the bottleneck hunting loop",
        (BOTTLENECKS[1], "the document's end: 5.9 to 9.9"),
    )
    title = f"{title}: {len(rows)} networks of {NODES} nodes"
    figure = draw_lines(
        title, samples, x=x, y="suspected links, mean over the networks", claim=claim
    )
    figure.axes[0].set_yscale("log")
    return figure


def _row(network: Network, pair: tuple[str, str]) -> Results:
    """That of a pair before any hunt."""
    links = len(network.links) - 2 * NODES
    return {
        "source": pair[0],
        "sink": pair[1],
        "links": links,
        "suspects": [],
        "same": 0,
        "layers": 0,
    }


STUDY = Study.of_module(
    __name__,
    title="The bottleneck hunting loop, and ten layers of a capillary route over 180 nodes",
    answers="Gabrielyan 2007, Figure 58: "
    "the loop finds the true bottlenecks, 5.9 to 9.9 a layer, in 14 to 23 iterations; "
    "Figure 47: layer 10 of capillary routing",
    deviations=(
        "The document's networks are not given: frames of a random walk with as many nodes and, on average, links.",
        "The ends are not said: a random pair, and the topmost node to the bottommost.",
        "The solver is HiGHS; the document does not name its own.",
        "Figure 47: networks of as many nodes and links as the document's, with ends of our own choice.",
    ),
)
