"""Runs the document's bottleneck hunting loop (Figure 58), and draws ten layers (Figure 47).

The loop begins with suspected links, and removes those that are no bottlenecks, layer by layer. The
figure shows how fast the number of suspects falls.

The document's networks are 200 independent samples of 300 nodes with 2,555.7 links on average. The
number of links varies, as it does if a common radio range decides who is a neighbour. So each
network is a frame of a random walk (its section 4.1) of 300 nodes with 8.519 neighbours on average.
Each direction of a cable is a link.

The document leaves two things open, and several readings are run:

- The end points: a random pair, or the topmost and the bottommost node, as in the document's
  drawings of small networks. Both ends always have two separate paths between them.
- The shape of its "rectangular area": a square, or a rectangle of up to three times its height.
"""

import math
import statistics

from experiments.capillary import capillary_drawing
from experiments.capillary.mobile_pairs import joined, outermost_pair
from testbed.campaigns.rows import drawn_pair
from testbed.model.routes import SplitRoute
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
from testbed.routing.capillary.thesis_loop import HuntedRoute, hunt_layers
from topologies import Network, load_network

LAYERS = 10
NODES = 300

# Links over nodes: 2555.7 / 300.
DEGREE = 8.519

# Ranges of the document (page 72): iterations of the loop, and mean bottlenecks of a layer.
MIN_ITERATIONS = 14
MAX_ITERATIONS = 23
MIN_BOTTLENECKS = 5.9
MAX_BOTTLENECKS = 9.9

# Kinds of points with a figure, and the title of the figure.
KINDS = {
    "random ends": "random ends",
    "top to bottom": "topmost node to bottommost",
    "interior": "interior-point solver, random ends",
}

# Kinds of points for which the solver returns vertices of the polytope.
VERTICES = ("random ends", "top to bottom")

# Kinds of points on rectangles: the end points, and width over height.
RECTANGLES = {
    "random ends, 1.5 to 1": ("random ends", 1.5),
    "top to bottom, 1.5 to 1": ("top to bottom", 1.5),
    "random ends, 2 to 1": ("random ends", 2.0),
    "top to bottom, 2 to 1": ("top to bottom", 2.0),
    "random ends, 3 to 1": ("random ends", 3.0),
    "top to bottom, 3 to 1": ("top to bottom", 3.0),
}


def points(quick: bool, seed: int) -> Points:
    """Return every network for each reading, some for the interior-point solver, and Figure 47."""
    network_count = 6 if quick else 200
    counts = dict.fromkeys(VERTICES, network_count)
    counts["interior"] = 2 if quick else 24
    counts.update(dict.fromkeys(RECTANGLES, network_count))
    result: Points = []
    for kind, count in counts.items():
        for k in range(count):
            result.append({"kind": kind, "seed": seed + k})
    return result + capillary_drawing.points(quick, seed)


def measure(point: Row) -> Results:
    """Hunt for the bottlenecks of ten layers, or measure what Figure 47 shows.

    Returns:
        The end points; the number of links between switches; for each layer the number of suspects
        at the start and after each iteration (``suspects``); the number of layers, and of those
        whose bottlenecks are the exact ones (``same``). ``unsolved`` says why the solver gave up.
    """
    kind = point["kind"]
    if kind in capillary_drawing.KINDS:
        return capillary_drawing.measure(point)
    ends, aspect = RECTANGLES.get(kind, (kind, 1.0))
    network = load_network(
        f"manet:nodes={NODES},degree={DEGREE},seed={point['seed']},frame=0,aspect={aspect}"
    )
    source, sink = _end_points(network, ends, point["seed"])
    row: Results = {
        "source": source,
        "sink": sink,
        # The two links between each node and its host are not counted.
        "links": len(network.links) - 2 * NODES,
        "suspects": [],
        "same": 0,
        "layers": 0,
    }
    hunted = hunt_layers(network, source, sink, layers=LAYERS, interior=kind == "interior")
    if hunted.failure is not None:
        return {**row, "unsolved": hunted.failure}
    same = _compare_layers(network, hunted, capillary_route(network, source, sink))
    row["suspects"] = [list(layer.suspects) for layer in hunted.layers]
    row["same"] = sum(same)
    row["layers"] = len(same)
    return row


def _end_points(network: Network, ends: str, seed: int) -> tuple[str, str]:
    if ends == "top to bottom":
        return joined(network, outermost_pair(network))
    return joined(network, drawn_pair(network, seed, 0, minimum_paths=2))


def _compare_layers(network: Network, hunted: HuntedRoute, exact: SplitRoute) -> list[bool]:
    """Return for each layer whether its bottlenecks and its factor are the exact ones."""
    same = []
    for layer, exact_layer in zip(hunted.layers, exact.layers, strict=False):
        bottlenecks = {network.links[link].id for link in layer.bottlenecks}
        same_links = bottlenecks == set(exact_layer.bottlenecks)
        same.append(
            same_links and math.isclose(layer.factor, float(exact_layer.factor), rel_tol=1e-6)
        )
    return same


def judge(rows: Rows) -> Verdict:
    """Check the loop against the exact route and against the counts of the document.

    An interior-point solver leaves nothing to hunt. The drawn layers (Figure 47) must be those of
    the certified full route.
    """
    hunted, drawn = parted(rows, "suspects")
    checks = []
    for kind in (*VERTICES, *RECTANGLES):
        solved = [row for row in where(hunted, kind=kind) if row["suspects"]]
        if solved or kind in VERTICES:
            checks += _loop_checks(kind, solved)
    checks.append(_interior_check(where(hunted, kind="interior")))
    checks += capillary_drawing.drawing_checks(drawn)
    unsolved, _ = parted(hunted, "unsolved")
    note = f"routes that the solver gave up, left out: {len(unsolved)} of {len(hunted)}"
    return Verdict.of(checks, (note,))


def _loop_checks(kind: str, rows: Rows) -> list[Check]:
    """Return the checks of one kind of points."""
    return [
        Claim(f"{kind}: layers whose bottlenecks and factor are those of the exact recursion")
        .equal(sum_of(rows, "layers"), sum_of(rows, "same"))
        .against(
            _count_unhunted(rows),
            "layers of which the full links of the first solution are the bottlenecks: no hunt",
        ),
        _check_mean_bottlenecks(kind, rows),
        _check_bottlenecks_of_layers(kind, rows),
        _check_iterations(kind, rows),
    ]


def _check_mean_bottlenecks(kind: str, rows: Rows) -> Check:
    """Check the mean number of bottlenecks per layer against the middle of the document's range."""
    bottlenecks = []
    for row in rows:
        bottlenecks.append(statistics.fmean(hunt[-1] for hunt in row["suspects"]))
    unhunted = statistics.fmean(hunt[0] for hunt in _all_hunts(rows))
    middle = statistics.fmean((MIN_BOTTLENECKS, MAX_BOTTLENECKS))
    return (
        Claim(f"{kind}: bottlenecks of a layer, mean of the ten layers")
        .equal(middle, spread(bottlenecks), (MAX_BOTTLENECKS - MIN_BOTTLENECKS) / 2)
        .cites("5.9 to 9.9 (page 72)")
        .against(unhunted, "suspects without the hunt")
    )


def _check_bottlenecks_of_layers(kind: str, rows: Rows) -> Check:
    """Check that each layer's mean number of bottlenecks may be in the document's range."""
    inside = 0
    for mean, half_width in _mean_bottlenecks(rows):
        if mean + half_width >= MIN_BOTTLENECKS and mean - half_width <= MAX_BOTTLENECKS:
            inside += 1
    return (
        Claim(
            f"{kind}: layers of which the mean number of bottlenecks "
            "lies in 5.9 to 9.9 within its 95 % interval"
        )
        .equal(LAYERS, inside)
        .cites("all ten (page 72)")
        .against(0.0, "none: suspects without the hunt")
    )


def _check_iterations(kind: str, rows: Rows) -> Check:
    inside = 0
    for iterations in _longest_hunts(rows):
        if MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            inside += 1
    return (
        Claim(f"{kind}: layers of which the longest hunt takes 14 to 23 iterations")
        .equal(LAYERS, inside)
        .cites("all ten (page 72)")
        .against(0.0, "none: an interior-point solver's hunts")
    )


def _interior_check(rows: Rows) -> Check:
    share = _count_unhunted(rows) / len(_all_hunts(rows))
    return (
        Claim("interior: share of layers with nothing to hunt")
        .equal(1.0, share, 0.1)
        .against(0.0, "as with vertices")
        .noting("so the document's solver gave vertices")
    )


def _count_unhunted(rows: Rows) -> int:
    """Return the number of layers in which the hunt removed no suspect."""
    count = 0
    for hunt in _all_hunts(rows):
        if hunt[0] == hunt[-1]:
            count += 1
    return count


def _all_hunts(rows: Rows) -> list[list[int]]:
    """Return the numbers of suspects of every layer of every network."""
    hunts = []
    for row in rows:
        hunts += row["suspects"]
    return hunts


def _hunts(rows: Rows, layer: int) -> list[list[int]]:
    """Return the numbers of suspects of one layer, for each network that has the layer."""
    return [row["suspects"][layer] for row in rows if len(row["suspects"]) > layer]


def _mean_bottlenecks(rows: Rows) -> list[tuple[float, float]]:
    """Return the mean number of bottlenecks of each layer, and half its interval's width."""
    means = []
    for layer in range(LAYERS):
        bottlenecks = [hunt[-1] for hunt in _hunts(rows, layer)]
        if bottlenecks:
            means.append(spread(bottlenecks))
    return means


def _longest_hunts(rows: Rows) -> list[int]:
    """Return the number of iterations of each layer.

    All networks are hunted at the same time, until the last of them has nothing to remove.
    """
    longest = []
    for layer in range(LAYERS):
        lengths = map(len, _hunts(rows, layer))
        longest.append(max(lengths, default=1) - 1)
    return longest


def figures(rows: Rows) -> Figures:
    """Draw the number of suspects for each reading of the end points, and Figure 47."""
    drawings = {}
    for kind, title in KINDS.items():
        name = f"figure-58-{kind.replace(' ', '-')}"
        drawings[name] = _draw_suspects(where(rows, kind=kind), title)
    return {**drawings, **capillary_drawing.figures(rows)}


def _draw_suspects(rows: Rows, title: str) -> Figure:
    """Draw the mean number of suspected links by iteration, a curve per layer."""
    samples = {}
    for layer in range(LAYERS):
        hunts = _hunts(rows, layer)
        for iteration in range(max(map(len, hunts), default=0)):
            # A hunt that has ended keeps its last number of suspects.
            suspects = [float(hunt[min(iteration, len(hunt) - 1)]) for hunt in hunts]
            samples[f"layer {layer + 1}", iteration] = suspects
    figure = draw_lines(
        f"{title}: {len(rows)} networks of {NODES} nodes",
        samples,
        x="iterations of the bottleneck hunting loop",
        y="suspected links, mean over the networks",
        claim=(MAX_BOTTLENECKS, "the document's end: 5.9 to 9.9"),
    )
    figure.axes[0].set_yscale("log")
    return figure


STUDY = Study.of_module(
    __name__,
    title="The bottleneck hunting loop, and ten layers of a capillary route over 180 nodes",
    answers="Gabrielyan 2007, Figure 58: "
    "the loop finds the true bottlenecks, 5.9 to 9.9 per layer, in 14 to 23 iterations; "
    "Figure 47: layer 10 of capillary routing",
    deviations=(
        "The document does not give its networks: "
        "ours are frames of a random walk with as many nodes and, on average, as many links.",
        "The document does not name the end points: "
        "a random pair, and the topmost and the bottommost node.",
        "The solver is HiGHS; the document does not name its own.",
        "Figure 47: networks of as many nodes and links as the document's, "
        "with end points of our choice.",
    ),
)
