"""How ROR falls from layer to layer of capillary routing on mobile networks, for short and for large blocks (Figures 60, 61)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.capillary.mobile_pairs import TOLERANCES, mobile_pair
from experiments.capillary.panels import panels
from testbed.commands.studies.study import Study
from testbed.model.verdict import Check, Verdict
from testbed.routing.methods import route_by_name
from testbed.routing.redundancy.ror_study import ror_by_tolerance

Row = Mapping[str, Any]
LAYERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
FULL = "full"
MIN_FALL = 0.25
EQUATIONS = {"short": "blocks of M = 20 (eq. 23)", "large": "large blocks (eq. 29)"}


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """One network a point: 36 of 115 nodes, 10 of 120."""
    frames = {115: 6, 120: 3} if quick else {115: 36, 120: 10}
    return [{"nodes": nodes, "seed": seed + k} for nodes, count in frames.items() for k in range(count)]


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """ROR by layer (1 to 10, then all) and tolerance, for both equations."""
    network, source, sink = mobile_pair(point["nodes"], point["seed"])
    names = [*(f"capillary:{k}" for k in LAYERS), "capillary"]
    routes = [route_by_name(network, source, sink, name) for name in names]
    found: dict[str, Any] = {
        "source": source,
        "sink": sink,
        "links": len(network.links),
        "layers": len(routes[-1].layers),
    }
    for name, large in (("short", False), ("large", True)):
        found[name] = [ror_by_tolerance(route, TOLERANCES, 20, 1e-5, large_blocks=large) for route in routes]
    return found


def mean_ror(rows: Sequence[Row], nodes: int, equation: str) -> list[list[float]]:
    """Mean over the networks of that size: one list a layer, one value a tolerance."""
    own = [row[equation] for row in rows if row["nodes"] == nodes]
    return [
        [statistics.fmean(each[layer][t] for each in own) for t in range(len(TOLERANCES))]
        for layer in range(len(LAYERS) + 1)
    ]


def judge(rows: Sequence[Row]) -> Verdict:
    """The thesis' claims: ROR falls with the layers, large blocks need half, tolerance makes the gain stronger."""
    checks, notes = [], []
    for nodes in sorted({row["nodes"] for row in rows}):
        means = {equation: mean_ror(rows, nodes, equation) for equation in EQUATIONS}
        for equation, title in EQUATIONS.items():
            first, last = statistics.fmean(means[equation][0]), statistics.fmean(means[equation][-1])
            checks.append(
                Check.at_least(
                    f"{nodes} nodes, {title}: fall of the mean ROR from layer 1 to full",
                    MIN_FALL,
                    1 - last / first,
                    detail="a quarter or more",
                )
            )
            series = [statistics.fmean(layer) for layer in means[equation]]
            shown = ", ".join(f"{series[k - 1]:.1f}" for k in (1, 2, 3, 5, 10)) + f", {series[-1]:.1f}"
            notes.append(f"{nodes} nodes, {title}: mean ROR at layers 1, 2, 3, 5, 10, full: {shown}")
        ratio = statistics.fmean(means["short"][9]) / statistics.fmean(means["large"][9])
        checks.append(
            Check.equal(
                f"{nodes} nodes: ROR of short blocks over that of large ones at layer 10",
                2.0,
                ratio,
                tolerance=0.6,
                detail="about twice",
            )
        )
        gain = [means["short"][-1][t] / means["short"][0][t] for t in (0, len(TOLERANCES) - 1)]
        checks.append(
            Check(
                name=f"{nodes} nodes: full over layer 1 at the greatest tolerance, against the smallest",
                predicted=gain[0],
                measured=gain[1],
                tolerance=None,
                passed=gain[1] < gain[0],
                detail="a greater tolerance makes the gain stronger",
            )
        )
    return Verdict(checks=tuple(checks), notes=tuple(notes))


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Figure 60 (115 nodes, short blocks) and Figure 61 (120 nodes, both): mean ROR by layer, one curve a tolerance."""
    found = {}
    for number, nodes, equations in ((60, 115, ("short",)), (61, 120, ("short", "large"))):
        if any(row["nodes"] == nodes for row in rows):
            found[f"figure-{number}"] = _figure(rows, nodes, equations)
    return found


def _figure(rows: Sequence[Row], nodes: int, equations: Sequence[str]) -> Any:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    figure, (axes,) = panels(9, 5.6)
    shade = Normalize(TOLERANCES[0] * 100, TOLERANCES[-1] * 100)
    colours = colormaps["viridis"]
    places = list(range(len(LAYERS) + 1))
    for equation, line in zip(equations, ("-", "--"), strict=False):
        means = mean_ror(rows, nodes, equation)
        for t, tolerance in enumerate(TOLERANCES):
            series = [layer[t] for layer in means]
            axes.plot(places, series, line, color=colours(shade(tolerance * 100)), linewidth=1.3)
        overall = [statistics.fmean(layer) for layer in means]
        axes.plot(places, overall, line, color="black", linewidth=2.2, label=f"mean, {EQUATIONS[equation]}")
        limit = overall[0] * (1 - MIN_FALL)
        words = f"{MIN_FALL:.0%} below each mean's layer 1" if equation == equations[0] else None
        axes.plot([places[0], places[-1]], [limit, limit], ":", color="#d55e00", linewidth=1.8, label=words, zorder=4)
    axes.set_xticks(places, [*(str(k) for k in LAYERS), FULL])
    axes.set_xlabel("capillary layers (the rest of the flow over the fewest links)")
    axes.set_ylabel("ROR, mean over the networks (no unit)")
    axes.set_ylim(0, 1.12 * axes.get_ylim()[1])
    axes.legend(fontsize=9, loc="upper right")
    count = sum(row["nodes"] == nodes for row in rows)
    axes.set_title(
        f"ROR by layer: {count} mobile networks of {nodes} nodes, DER 1e-5 (one curve a tolerance; same FEC_t, same curve)",
        fontsize=10,
    )
    figure.colorbar(ScalarMappable(shade, colours), ax=axes, label="static tolerance t (%)")
    return figure


STUDY = Study.of_module(
    __name__,
    name="ror_layers",
    does="ROR of capillary layers 1 to 10 and full, 15 tolerances, short and large blocks, on 46 mobile networks",
    answers="Gabrielyan 2007, Figures 60 and 61: path diversity lowers the redundancy requirement",
)
