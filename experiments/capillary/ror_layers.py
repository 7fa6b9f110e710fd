"""Computes how ROR falls with the layers of capillary routing while nodes move (Figures 60, 61).

Both short and large blocks are computed. As in the document, each figure belongs to one random
walk: 300 consecutive frames of 115 nodes in seven nearly equal sets, and 150 frames of 120 nodes in
four. There are fifteen tolerances.

The document does not name the end points. Two readings are run: a pair that is drawn at the first
frame of a set and stays while the nodes move, as in a communication ("held"), and a new pair in
every frame ("fresh"). Each pair has two separate paths when it is drawn.

A link is critical if every route sends the complete flow over it. While nodes move, a held pair may
get critical links. They are layer 1 then, with load 1. This layer is not counted, because a route
of this layer alone is a single path. By the document (page 74) its routings send the complete flow
over critical links only. Equation 23 does not include critical links.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.capillary.mobile_pairs import TOLERANCES, joined
from testbed.campaigns.rows import drawn_pair
from testbed.model.code_description import SHORT_AND_LARGE
from testbed.model.routes import SplitRoute
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    half_width,
    sum_of,
    where,
)
from testbed.model.verdict import Check, Claim, Measured, Verdict
from testbed.report.drawing.charts import INK, Axes, Figure, panels
from testbed.routing import capillary_route
from testbed.routing.redundancy.route_ror import ror_by_tolerance
from topologies import Network, NoPathError, load_network

LAYERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
FULL = "full"

# Indices of layers 1 and 10 and of the full route in lists by layer.
LAYER_1 = 0
LAYER_10 = 9
FULL_ROUTE = -1

# Frames, and the sets that they are divided into, by the number of nodes (page 77).
SETS = {115: (300, 7), 120: (150, 4)}
KINDS = {"held": "one pair a set", "fresh": "a new pair each frame"}
EQUATIONS = {"short": "blocks of M = 20 (eq. 23)", "large": "large blocks (eq. 29)"}

# Smallest fall of mean ROR that counts as "substantial" (page 80).
MIN_FALL = 0.25

# Fraction of the frames that counts as "most cases" (page 79).
MAX_CASES = 0.75


def points(quick: bool, seed: int) -> Points:
    """Return one point per set of consecutive frames.

    ``quick``: the first four frames of each set, with a held pair only.
    """
    kinds = ("held",) if quick else tuple(KINDS)
    result: Points = []
    for kind in kinds:
        for nodes, (frames, sets) in SETS.items():
            bounds = [round(frames * k / sets) for k in range(sets + 1)]
            for k in range(sets):
                point = {
                    "kind": kind,
                    "nodes": nodes,
                    "seed": seed,
                    "set": k + 1,
                    "first": bounds[k],
                    "frames": 4 if quick else bounds[k + 1] - bounds[k],
                }
                result.append(point)
    return result


def measure(point: Row) -> Results:
    """Compute ROR of a set of frames, for short blocks (eq. 23) and for large ones (eq. 29).

    Returns:
        For both equations the mean over the frames, a list per layer (1 to 10, then the full route)
        with a value per tolerance (``short``, ``large``), and each frame's mean over the tolerances
        (``short_frames``, ``large_frames``); and the number of frames without a path, which are
        left out (``without_path``).
    """
    ror_by_equation: dict[str, list[list[list[float]]]] = {"short": [], "large": []}
    without_path = 0
    for network, (source, sink) in _frames(point):
        try:
            routes = layered_routes(network, source, sink)
        except NoPathError:
            without_path += 1
            continue
        ror_by_equation["short"].append(_ror_by_layer(routes, large_blocks=False))
        ror_by_equation["large"].append(_ror_by_layer(routes, large_blocks=True))
    row: Results = {"without_path": without_path}
    for equation, frames in ror_by_equation.items():
        row[equation] = np.mean(frames, axis=0).round(6).tolist()
        row[f"{equation}_frames"] = np.mean(frames, axis=2).round(4).tolist()
    return row


def _ror_by_layer(routes: Sequence[SplitRoute], *, large_blocks: bool) -> list[list[float]]:
    """Return ROR of each route for each tolerance."""
    ror = []
    for route in routes:
        ror.append(ror_by_tolerance(route, TOLERANCES, 20, 1e-5, large_blocks=large_blocks))
    return ror


def layered_routes(network: Network, source: str, sink: str) -> list[SplitRoute]:
    """Return the routes of layers 1 to 10, and the full route.

    A layer of critical links is not counted.

    Raises:
        NoPathError: The sink cannot be reached.
    """
    full = capillary_route(network, source, sink)
    skipped = 1 if full.layers[0].load == 1 else 0
    routes: list[SplitRoute] = []
    for layers in LAYERS:
        routes.append(capillary_route(network, source, sink, layers=layers + skipped))
    return [*routes, full]


def _frames(point: Row) -> Iterator[tuple[Network, tuple[str, str]]]:
    """Yield each frame of the set, with its source and sink."""
    pair = None
    for frame in range(point["first"], point["first"] + point["frames"]):
        network = load_network(f"manet:nodes={point['nodes']},seed={point['seed']},frame={frame}")
        if pair is None or point["kind"] == "fresh":
            pair = joined(network, drawn_pair(network, point["seed"], 0, minimum_paths=2))
        yield network, pair


def mean_ror(rows: Rows, equation: str) -> list[list[float]]:
    """Return the mean ROR over all frames of sets, a list per layer with a value per tolerance."""
    counts = [row["frames"] - row["without_path"] for row in rows]
    set_means = [row[equation] for row in rows]
    means: list[list[float]] = np.average(set_means, axis=0, weights=counts).tolist()
    return means


def judge(rows: Rows) -> Verdict:
    """Check what the thesis says of ROR, layers, large blocks and tolerance.

    ROR falls with the layers, in most cases. Large blocks need half as much. A larger tolerance
    makes the gain of layers larger.
    """
    checks = []
    for kind, title in KINDS.items():
        for nodes in SETS:
            sets = where(rows, kind=kind, nodes=nodes)
            if sets:
                checks += _checks(f"{nodes} nodes, {title}", sets)
    return Verdict.of(checks)


def _checks(name: str, rows: Rows) -> list[Check]:
    return [
        _check_fall(name, "short", _over_sets(rows, _fall_of_short)),
        _check_fall(name, "large", _over_sets(rows, _fall_of_large)),
        Claim(f"{name}: share of frames whose ROR (eq. 23) is less at layer 10 than at layer 1")
        .at_least(MAX_CASES, _over_sets(rows, falling_share))
        .cites("in most cases (page 79)")
        .against(0.5, "as often as not"),
        Claim(f"{name}: ROR of short blocks over that of large ones at layer 10")
        .equal(2.0, _over_sets(rows, _short_over_large), 0.6)
        .cites("twice as low (page 78)")
        .against(1.0, "large blocks save nothing"),
        Claim(
            f"{name}: ROR of the full route over layer 1's (eq. 23), "
            "at 7.8 % over the same at 3.6 %"
        )
        .at_most(0.95, _over_sets(rows, _gain_of_tolerance))
        .cites("tolerance emphasises the gain (page 79)")
        .against(1.0, "the same gain at every tolerance"),
    ]


def _check_fall(name: str, equation: str, measured: Measured) -> Check:
    return (
        Claim(f"{name}, {EQUATIONS[equation]}: fall of the mean ROR from layer 1 to full")
        .at_least(MIN_FALL, measured)
        .cites("decreases substantially (page 80)")
        .against(0.0, "no fall")
    )


def _over_sets(rows: Rows, figure: Callable[[Rows], float]) -> Measured:
    """Return a statistic of all rows, with half the width of its confidence interval.

    The interval is computed from the statistic of each set.
    """
    return figure(rows), half_width([figure([row]) for row in rows])


def fall(rows: Rows, equation: str) -> float:
    """Return by which fraction the mean ROR of the full route is below that of layer 1."""
    return 1 - _mean_at_layer(rows, equation, FULL_ROUTE) / _mean_at_layer(rows, equation, LAYER_1)


def _fall_of_short(rows: Rows) -> float:
    return fall(rows, "short")


def _fall_of_large(rows: Rows) -> float:
    return fall(rows, "large")


def _short_over_large(rows: Rows) -> float:
    return _mean_at_layer(rows, "short", LAYER_10) / _mean_at_layer(rows, "large", LAYER_10)


def _mean_at_layer(rows: Rows, equation: str, layer: int) -> float:
    """Return the mean over frames and tolerances at one layer, an index as LAYER_10."""
    ror = []
    for row in rows:
        ror += [frame[layer] for frame in row[f"{equation}_frames"]]
    return statistics.fmean(ror)


def falling_share(rows: Rows) -> float:
    """Return the fraction of the frames whose mean ROR (eq. 23) is lower at layer 10 than at 1."""
    falls = []
    for row in rows:
        falls += [frame[LAYER_10] < frame[LAYER_1] for frame in row["short_frames"]]
    return statistics.fmean(falls)


def _gain_of_tolerance(rows: Rows) -> float:
    """Return how the relative ROR of the full route changes from smallest to largest tolerance.

    The relative ROR is the mean ROR of the full route over that of layer 1. The result is its value
    at the largest tolerance over its value at the smallest.
    """
    means = mean_ror(rows, "short")
    full = means[FULL_ROUTE]
    layer_1 = means[LAYER_1]
    ratio_at_smallest = full[0] / layer_1[0]
    ratio_at_largest = full[-1] / layer_1[-1]
    return ratio_at_largest / ratio_at_smallest


def figures(rows: Rows) -> Figures:
    """Draw Figure 60 (115 nodes, short blocks) and Figure 61 (120 nodes, both equations)."""
    drawings = {}
    for kind in KINDS:
        sets = where(rows, kind=kind, nodes=115)
        if sets:
            drawings[f"figure-60-{kind}"] = _draw_sets(sets, ("short",))
    for kind in KINDS:
        sets = where(rows, kind=kind, nodes=120)
        if sets:
            drawings[f"figure-61-{kind}"] = _draw_sets(sets, ("short", "large"))
    return drawings


@dataclass(frozen=True)
class _Panel:
    """A panel of a figure.

    Attributes:
        title: Its title.
        rows: The rows whose mean is drawn.
    """

    title: str
    rows: Rows


def _draw_sets(rows: Rows, equations: Sequence[str]) -> Figure:
    """Draw the mean ROR by layer: a panel per set and one of all sets, a curve per tolerance."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    columns = (len(rows) + 2) // 2
    figure, all_axes = panels(
        3.1 * columns + 1, 7, rows=2, columns=columns, sharex=True, sharey=True
    )
    shade = Normalize(TOLERANCES[0] * 100, TOLERANCES[-1] * 100)
    colours = colormaps["viridis"]
    curve_colours = [colours(shade(tolerance * 100)) for tolerance in TOLERANCES]
    set_panels = _panels_of(rows)
    for axes, panel in zip(all_axes, set_panels, strict=False):
        _draw_panel(axes, panel, equations, curve_colours)
    # The panels share their y axis, so its limit is set after all curves are drawn.
    all_axes[0].set_ylim(bottom=0)
    for axes in all_axes[len(set_panels) :]:
        axes.axis("off")
    all_axes[len(set_panels) - 1].legend(loc="lower left")
    for axes in all_axes[columns:]:
        axes.set_xlabel("capillary layers")
    for axes in all_axes[::columns]:
        axes.set_ylabel("mean ROR (no unit)")
    figure.suptitle(
        f"ROR by layer: {sum_of(rows, 'frames')} consecutive frames of {rows[0]['nodes']} "
        f"moving nodes, {KINDS[rows[0]['kind']]}, M = 20, DER 1e-5 "
        "(one curve a tolerance; same FEC_t, same curve)",
        fontsize=10,
    )
    figure.colorbar(ScalarMappable(shade, colours), ax=all_axes, label="static tolerance t (%)")
    return figure


def _panels_of(rows: Rows) -> list[_Panel]:
    result = []
    for row in rows:
        last = row["first"] + row["frames"] - 1
        result.append(_Panel(f"set {row['set']}: frames {row['first']} to {last}", [row]))
    return [*result, _Panel("all sets", list(rows))]


def _draw_panel(
    axes: Axes, panel: _Panel, equations: Sequence[str], curve_colours: Sequence[object]
) -> None:
    """Draw the curves of the tolerances, and their mean in a thicker line.

    Args:
        axes: The axes of the panel.
        panel: What is drawn.
        equations: The equations; the second one is dashed.
        curve_colours: The colour of each tolerance.
    """
    layers = list(range(len(LAYERS) + 1))
    for equation, line_style in zip(equations, ("-", "--"), strict=False):
        means = mean_ror(panel.rows, equation)
        axes.set_prop_cycle(color=curve_colours)
        axes.plot(layers, means, line_style, linewidth=1.1)
        axes.plot(
            layers,
            list(map(statistics.fmean, means)),
            line_style,
            color=INK,
            linewidth=2.2,
            label=f"mean, {EQUATIONS[equation]}",
        )
    axes.set_title(panel.title, fontsize=9)
    axes.set_xticks(layers, [*map(str, LAYERS), FULL], fontsize=8)


STUDY = Study.of_module(
    __name__,
    title="Redundancy by the layers of capillary routing while nodes move",
    ror_code=SHORT_AND_LARGE,
    answers="Gabrielyan 2007, Figures 60 and 61: path diversity lowers the redundancy requirement",
    deviations=(
        "Radio range, step and end points are ours: "
        "6.1 neighbours on average, and steps of 0.02 sides of the square.",
        "The area is a square; the document has a rectangle.",
        "A layer that consists of critical links alone is not counted as a layer.",
    ),
)
