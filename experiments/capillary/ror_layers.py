"""How ROR falls from layer to layer of capillary routing while nodes move, for short and for large blocks (Figures 60,
61).

As the document has it: one random walk a figure, 300 consecutive frames of 115 nodes in seven nearly equal sets, 150 of
120 nodes in four; fifteen tolerances. It does not say between which nodes. Two readings are run: a pair drawn at a
set's first frame and held while the nodes move (as a communication would be), and a new pair in every frame. Each pair
has two separate paths when it is drawn.

A held pair may come to are attached to a critical link, which every route loads fully. The layer that consists of such
links alone (load 1) is not counted as a layer: after it the rest of the flow would take one path, and by the document
(page 74) none of its routings passes everything through a link that is not critical. Equation 23 leaves the critical
links themselves out.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial

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
from testbed.report.drawing.charts import INK, Figure, panels
from testbed.routing import capillary_route
from testbed.routing.redundancy.route_ror import ror_by_tolerance
from topologies import Network, NoPathError, load_network

LAYERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
FULL = "full"
SETS = {115: (300, 7), 120: (150, 4)}
"""Nodes -> frames, and sets that they are divided into (page 77)."""
KINDS = {"held": "one pair a set", "fresh": "a new pair each frame"}
EQUATIONS = {"short": "blocks of M = 20 (eq. 23)", "large": "large blocks (eq. 29)"}
MIN_FALL = 0.25
MOST_CASES = 0.75
"""Share of the frames that counts as "most cases" (page 79)."""


def points(quick: bool, seed: int) -> Points:
    """One set of consecutive frames a point; ``quick``: the first four frames of each set, a held pair only."""
    found = []
    for kind in ("held",) if quick else KINDS:
        for nodes, (frames, sets) in SETS.items():
            bounds = [round(frames * k / sets) for k in range(sets + 1)]
            for k in range(sets):
                count = 4 if quick else bounds[k + 1] - bounds[k]
                found.append(
                    {
                        "kind": kind,
                        "nodes": nodes,
                        "seed": seed,
                        "set": k + 1,
                        "first": bounds[k],
                        "frames": count,
                    }
                )
    return found


def measure(point: Row) -> Results:
    """Mean ROR over the set's frames by layer (1 to 10, then all) and tolerance, for both equations; each frame's mean
    over the tolerances; how many frames had no path (left out)."""
    each: dict[str, list[list[list[float]]]] = {equation: [] for equation in EQUATIONS}
    without_path = 0
    for network, pair in _frames(point):
        try:
            routes = layered_routes(network, *pair)
        except NoPathError:
            without_path += 1
            continue
        for equation, large in (("short", False), ("large", True)):
            each[equation].append(
                [
                    ror_by_tolerance(route, TOLERANCES, 20, 1e-5, large_blocks=large)
                    for route in routes
                ]
            )
    found: Results = {"without_path": without_path}
    for equation, frames in each.items():
        found[equation] = np.mean(frames, axis=0).round(6).tolist()
        found[f"{equation}_frames"] = np.mean(frames, axis=2).round(4).tolist()
    return found


def layered_routes(network: Network, source: str, sink: str) -> list[SplitRoute]:
    """The routes of layers 1 to 10 and the full one; a layer of critical links is no layer. Raises NoPathError."""
    full = capillary_route(network, source, sink)
    first = 1 + (full.layers[0].load == 1)
    return [*(capillary_route(network, source, sink, layers=k + first - 1) for k in LAYERS), full]


def _frames(point: Row) -> Iterator[tuple[Network, tuple[str, str]]]:
    """Each frame of the set, with its pair of ends."""
    pair = None
    for frame in range(point["first"], point["first"] + point["frames"]):
        network = load_network(f"manet:nodes={point['nodes']},seed={point['seed']},frame={frame}")
        if pair is None or point["kind"] == "fresh":
            pair = joined(network, drawn_pair(network, point["seed"], 0, minimum_paths=2))
        yield network, pair


def mean_ror(rows: Rows, equation: str) -> list[list[float]]:
    """Mean over the sets' frames: one list a layer, one value a tolerance."""
    counts = [row["frames"] - row["without_path"] for row in rows]
    means: list[list[float]] = np.average(
        [row[equation] for row in rows], axis=0, weights=counts
    ).tolist()
    return means


def judge(rows: Rows) -> Verdict:
    """The thesis' claims: ROR falls with the layers, in most cases, large blocks need half, tolerance makes the gain
    stronger."""
    checks = []
    for kind in KINDS:
        for nodes in SETS:
            own = where(rows, kind=kind, nodes=nodes)
            if own:
                checks += _checks(f"{nodes} nodes, {KINDS[kind]}", own)
    return Verdict.of(checks)


def _checks(name: str, rows: Rows) -> list[Check]:
    def of_sets(figure: Callable[[Rows], float]) -> Measured:
        """A figure of all frames together; its uncertainty is that of the sets' own figures."""
        return figure(rows), half_width([figure([row]) for row in rows])

    return [
        *(
            Claim(f"{name}, {title}: fall of the mean ROR from layer 1 to full")
            .at_least(MIN_FALL, of_sets(partial(fall, equation=equation)))
            .cites("decreases substantially (page 80)")
            .against(0.0, "no fall")
            for equation, title in EQUATIONS.items()
        ),
        Claim(f"{name}: share of frames whose ROR (eq. 23) is less at layer 10 than at layer 1")
        .at_least(MOST_CASES, of_sets(falling_share))
        .cites("in most cases (page 79)")
        .against(0.5, "as often as not"),
        Claim(f"{name}: ROR of short blocks over that of large ones at layer 10")
        .equal(
            2.0,
            of_sets(lambda part: _at_layer(part, "short", 9) / _at_layer(part, "large", 9)),
            0.6,
        )
        .cites("twice as low (page 78)")
        .against(1.0, "large blocks save nothing"),
        Claim(
            f"{name}: ROR of the full route over layer 1's (eq. 23), at 7.8 % over the same at 3.6 %"
        )
        .at_most(0.95, of_sets(_gain_of_tolerance))
        .cites("tolerance emphasises the gain (page 79)")
        .against(1.0, "the same gain at every tolerance"),
    ]


def fall(rows: Rows, equation: str) -> float:
    """By how much the mean over frames and tolerances is less on the full route than at layer 1: a share of it."""
    return 1 - _at_layer(rows, equation, -1) / _at_layer(rows, equation, 0)


def _at_layer(rows: Rows, equation: str, layer: int) -> float:
    return statistics.fmean(frame[layer] for row in rows for frame in row[f"{equation}_frames"])


def falling_share(rows: Rows) -> float:
    """Share of the frames whose mean ROR over the tolerances, by eq. 23, is less at layer 10 than at layer 1."""
    return statistics.fmean(frame[9] < frame[0] for row in rows for frame in row["short_frames"])


def _gain_of_tolerance(rows: Rows) -> float:
    means = mean_ror(rows, "short")
    least, greatest = (means[-1][t] / means[0][t] for t in (0, -1))
    return greatest / least


def figures(rows: Rows) -> Figures:
    """Figure 60 (115 nodes, short blocks) and Figure 61 (120 nodes, both): mean ROR by layer, a panel a set, one curve
    a tolerance."""
    found = {}
    for number, nodes, equations in ((60, 115, ("short",)), (61, 120, ("short", "large"))):
        for kind in KINDS:
            own = where(rows, kind=kind, nodes=nodes)
            if own:
                found[f"figure-{number}-{kind}"] = _figure(own, equations)
    return found


def _figure(rows: Rows, equations: Sequence[str]) -> Figure:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    columns = (len(rows) + 2) // 2
    figure, all_axes = panels(
        3.1 * columns + 1, 7, rows=2, columns=columns, sharex=True, sharey=True
    )
    shade = Normalize(TOLERANCES[0] * 100, TOLERANCES[-1] * 100)
    colours = colormaps["viridis"]
    places = list(range(len(LAYERS) + 1))
    panes = [
        (f"set {row['set']}: frames {row['first']} to {row['first'] + row['frames'] - 1}", [row])
        for row in rows
    ]
    for axes, (title, part) in zip(all_axes, [*panes, ("all sets", list(rows))], strict=False):
        for equation, line in zip(equations, ("-", "--"), strict=False):
            means = mean_ror(part, equation)
            axes.set_prop_cycle(color=[colours(shade(tolerance * 100)) for tolerance in TOLERANCES])
            axes.plot(places, means, line, linewidth=1.1)
            overall = [statistics.fmean(layer) for layer in means]
            axes.plot(
                places,
                overall,
                line,
                color=INK,
                linewidth=2.2,
                label=f"mean, {EQUATIONS[equation]}",
            )
        axes.set_title(title, fontsize=9)
        axes.set_xticks(places, [*(str(k) for k in LAYERS), FULL], fontsize=8)
    all_axes[0].set_ylim(bottom=0)  # the panels share it: once all is drawn
    for axes in all_axes[len(panes) + 1 :]:
        axes.axis("off")
    all_axes[len(panes)].legend(loc="lower left")
    for axes in all_axes[columns:]:
        axes.set_xlabel("capillary layers")
    for axes in all_axes[::columns]:
        axes.set_ylabel("mean ROR (no unit)")
    count = sum_of(rows, "frames")
    figure.suptitle(
        "ROR by layer: "
        f"{count} consecutive frames of {rows[0]['nodes']} moving nodes, {KINDS[rows[0]['kind']]}, M = 20, "
        "DER 1e-5 (one curve a tolerance; same FEC_t, same curve)",
        fontsize=10,
    )
    figure.colorbar(ScalarMappable(shade, colours), ax=all_axes, label="static tolerance t (%)")
    return figure


STUDY = Study.of_module(
    __name__,
    title="Redundancy against the layers of capillary routing, while nodes move",
    ror_code=SHORT_AND_LARGE,
    answers="Gabrielyan 2007, Figures 60 and 61: path diversity lowers the redundancy requirement",
    deviations=(
        "Range, step and ends are ours: 6.1 neighbours on average, steps of 0.02 sides of the square, our pairs.",
        "The area is a square; the document has a rectangle.",
        "A layer that consists of critical links alone is not counted as a layer.",
    ),
)
