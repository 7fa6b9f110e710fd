"""Figures of the studies of ROR on packets: mean curves by layer, the fall network by network, and methods beside capillary routing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from experiments.stream.ror.layer_checks import FULL, layer_means, layer_name, whole_networks
from experiments.stream.ror.measured_routes import LABELS, Row, allowed, route_ror
from experiments.stream.ror.method_checks import MEASURE, METHODS, pairs

PREDICTED, MEASURED, RIVAL = "#000000", "#0072b2", "#d55e00"


def layer_figures(rows: Sequence[Row]) -> dict[str, Any]:
    """``mean_ror_by_layer`` and ``fall_of_each_network``, a panel for each order of labels."""
    from matplotlib.figure import Figure

    means = Figure(figsize=(10, 4.4), layout="constrained")
    falls = Figure(figsize=(10, 4.6), layout="constrained")
    for number, labels in enumerate(LABELS, start=1):
        _draw_means(means.add_subplot(1, 2, number), rows, labels)
        _draw_falls(falls.add_subplot(1, 2, number), rows, labels)
    return {"mean_ror_by_layer": means, "fall_of_each_network": falls}


def _draw_means(axes: Any, rows: Sequence[Row], labels: str) -> None:
    found = layer_means(rows, labels)
    count, at = len(whole_networks(rows, labels)), list(range(len(found)))
    values = list(found.values())
    axes.set_title(f"{labels} labels, {count} networks")
    if values:
        axes.axhline(values[0].predicted, color=RIVAL, linestyle=":", label="rival: no fall")
    low = [one.predicted - allowed(labels, one.predicted) for one in values]
    high = [one.predicted + allowed(labels, one.predicted) for one in values]
    axes.fill_between(at, low, high, color="0.85", label="tolerance")
    axes.plot(at, [one.predicted for one in values], "--", color=PREDICTED, label="predicted (equation 23)")
    bars = [one.uncertainty for one in values]
    measured = [one.measured for one in values]
    axes.errorbar(at, measured, yerr=bars, fmt="o", color=MEASURED, capsize=4, label="measured, 95 % interval")
    axes.set_xticks(at, [layer_name(k) for k in found])
    if values:
        axes.set_ylim(0.8 * min(low), 1.04 * max(high))
    axes.set(xlabel="capillary layers", ylabel="mean ROR")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower left")


def _draw_falls(axes: Any, rows: Sequence[Row], labels: str) -> None:
    """From layer 1 to the full route: measured over predicted, a point a network."""
    ends = [
        (route_ror(one[1]), route_ror(one[FULL])) for one in whole_networks(rows, labels) if {1, FULL} <= one.keys()
    ]
    x = [first.predicted - last.predicted for first, last in ends]
    y = [first.measured - last.measured for first, last in ends]
    span = [min([*x, 0.0]), max([*x, 0.1])]
    axes.plot(span, span, "--", color=PREDICTED, label="as predicted")
    axes.axhline(0, color=RIVAL, linestyle=":", label="rival: no fall")
    bars = [math.hypot(first.uncertainty, last.uncertainty) for first, last in ends]
    axes.errorbar(x, y, yerr=bars, fmt="o", color=MEASURED, capsize=3, label="a network, 95 % interval")
    axes.set(xlabel="predicted fall of ROR, layer 1 to full", ylabel="measured fall", title=f"{labels} labels")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper left")


def method_figures(rows: Sequence[Row]) -> dict[str, Any]:
    """``methods_beside_capillary`` and ``order_of_pairs``, a panel for each order of labels that was measured."""
    from matplotlib.figure import Figure

    orders = [labels for labels in LABELS if any(row["labels"] == labels for row in rows)]
    beside = Figure(figsize=(5.2 * len(orders), 4.6), layout="constrained")
    order = Figure(figsize=(5.2 * len(orders), 4.8), layout="constrained")
    for number, labels in enumerate(orders, start=1):
        _draw_beside(beside.add_subplot(1, len(orders), number), rows, labels)
        _draw_pairs(order.add_subplot(1, len(orders), number), rows, labels)
    return {"methods_beside_capillary": beside, "order_of_pairs": order}


def _draw_beside(axes: Any, rows: Sequence[Row], labels: str) -> None:
    """Mean difference to capillary routing over the networks where both are finite; the bar is what networks differ by."""
    own = [row for row in rows if row["labels"] == labels]
    networks = {row["network"] for row in own}
    finite = {(row["network"], row["method"]): route_ror(row) for row in own if not row["forced"]}
    names = [method for method in METHODS if method != MEASURE]
    ticks = []
    for place, method in enumerate(names):
        both = [
            (finite[n, method], finite[n, MEASURE]) for n in networks if {(n, method), (n, MEASURE)} <= finite.keys()
        ]
        ticks.append(f"{method}\n{f'{len(both)} of {len(networks)}' if both else 'infinite'}")
        if both:
            _draw_mean(axes, place - 0.1, [a.predicted - b.predicted for a, b in both], "s", PREDICTED)
            _draw_mean(axes, place + 0.1, [a.measured - b.measured for a, b in both], "o", MEASURED)
    axes.axhline(0, color="0.5", linewidth=1)
    axes.plot([], [], "s", color=PREDICTED, fillstyle="none", label="predicted")
    axes.plot([], [], "o", color=MEASURED, label="measured")
    axes.set_xticks(range(len(names)), ticks, fontsize="small")
    axes.set(xlim=(-0.5, len(names) - 0.5), title=f"{labels} labels", ylabel="ROR less that of capillary routing")
    axes.grid(alpha=0.3, axis="y")
    axes.legend(fontsize="small", title="mean; bar: 95 %, networks", title_fontsize="small")


def _draw_mean(axes: Any, at: float, values: Sequence[float], marker: str, colour: str) -> None:
    spread = 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    style = {"fillstyle": "none" if marker == "s" else "full", "color": colour, "capsize": 3}
    axes.errorbar([at], [statistics.fmean(values)], yerr=[spread], fmt=marker, **style)


def _draw_pairs(axes: Any, rows: Sequence[Row], labels: str) -> None:
    """Two methods on one network, a point: measured difference over predicted one, those infinite left out."""
    found = [pair for pair in pairs(rows, labels) if math.isfinite(pair.predicted) and math.isfinite(pair.measured)]
    # each pair once, the way round in which a difference above zero is predicted
    signs = [1 if pair.predicted >= 0 else -1 for pair in found]
    x = [sign * pair.predicted for sign, pair in zip(signs, found, strict=True)]
    y = [sign * pair.measured for sign, pair in zip(signs, found, strict=True)]
    span = [0.0, max([*x, 0.1])]
    axes.axhspan(-0.12 * span[1], 0, color=RIVAL, alpha=0.12, label="rival: the order swapped")
    axes.plot(span, span, "--", color=PREDICTED, label="as predicted")
    for judged, colour, words in ((True, MEASURED, "judged"), (False, "0.6", "too near to be judged")):
        chosen = [k for k, pair in enumerate(found) if pair.judged == judged]
        bars = [found[k].uncertainty for k in chosen]
        axes.errorbar(
            [x[k] for k in chosen],
            [y[k] for k in chosen],
            yerr=bars,
            fmt="o",
            markersize=4,
            color=colour,
            label=f"{words}: {len(chosen)}",
        )
    axes.set(xlabel="predicted difference of ROR", ylabel="measured difference", title=f"{labels} labels, finite pairs")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper left")
