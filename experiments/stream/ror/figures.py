"""Figures of the studies of ROR on packets: mean curves by layer, the fall network by network, and methods beside
capillary routing."""

import math
import statistics
from collections.abc import Sequence

from experiments.stream.ror.layer_checks import FULL, layer_means, layer_name, whole_networks
from experiments.stream.ror.measured_routes import LABELS, allowed, route_ror
from experiments.stream.ror.method_checks import MEASURE, METHODS, pairs
from testbed.model.studies.study import Results, Rows, where
from testbed.report.drawing.charts import BLUE, INK, ORANGE, Axes, panels

PREDICTED, MEASURED, RIVAL = INK, BLUE, ORANGE
_OF_ROR = ("predicted", "measured", "uncertainty")
SHOWN = {"fmt": "o", "color": MEASURED, "capsize": 3}


def layer_figures(rows: Rows) -> Results:
    """``mean_ror_by_layer`` and ``fall_of_each_network``, a panel for each order of labels."""
    means, above = panels(10, 4.4, columns=2)
    falls, below = panels(10, 4.6, columns=2)
    for labels, upper, lower in zip(LABELS, above, below, strict=True):
        _draw_means(upper, rows, labels)
        _draw_falls(lower, rows, labels)
    return {"mean_ror_by_layer": means, "fall_of_each_network": falls}


def _draw_means(axes: Axes, rows: Rows, labels: str) -> None:
    found = layer_means(rows, labels)
    count, at = len(whole_networks(rows, labels)), list(range(len(found)))
    values = list(found.values())
    title = f"{labels} labels, {count} networks"
    axes.set(title=title, xlabel="capillary layers", ylabel="mean ROR", xticks=at)
    axes.set_xticklabels([layer_name(k) for k in found])
    predicted, measured, bars = ([getattr(one, name) for one in values] for name in _OF_ROR)
    if values:
        axes.axhline(predicted[0], color=RIVAL, linestyle=":", label="rival: no fall")
    low, high = ([ror + sign * allowed(labels, ror) for ror in predicted] for sign in (-1, 1))
    axes.fill_between(at, low, high, color="0.85", label="tolerance")
    axes.plot(at, predicted, "--", color=PREDICTED, label="predicted (equation 23)")
    axes.errorbar(at, measured, yerr=bars, label="measured, 95 % interval", **SHOWN)
    if values:
        axes.set_ylim(0.8 * min(low), 1.04 * max(high))
    axes.legend(loc="lower left")


def _draw_falls(axes: Axes, rows: Rows, labels: str) -> None:
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
    axes.errorbar(x, y, yerr=bars, label="a network, 95 % interval", **SHOWN)
    axes.set(xlabel="predicted fall of ROR, layer 1 to full", ylabel="measured fall", title=f"{labels} labels")
    axes.legend(loc="upper left")


def method_figures(rows: Rows) -> Results:
    """``methods_beside_capillary`` and ``order_of_pairs``, a panel for each order of labels that was measured."""
    orders = [labels for labels in LABELS if where(rows, labels=labels)]
    comparison, above = panels(5.2 * len(orders), 4.6, columns=len(orders))
    order, below = panels(5.2 * len(orders), 4.8, columns=len(orders))
    for labels, upper, lower in zip(orders, above, below, strict=True):
        _draw_side_by_side(upper, rows, labels)
        _draw_pairs(lower, rows, labels)
    return {"methods_beside_capillary": comparison, "order_of_pairs": order}


def _draw_side_by_side(axes: Axes, rows: Rows, labels: str) -> None:
    """Mean difference to capillary routing over the networks where both are finite; the bar is what networks differ
    by."""
    own = where(rows, labels=labels)
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
    axes.legend(title="mean; bar: 95 %, networks", title_fontsize="small")


def _draw_mean(axes: Axes, at: float, values: Sequence[float], marker: str, colour: str) -> None:
    spread = 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    style = {"fillstyle": "none" if marker == "s" else "full", "color": colour, "capsize": 3}
    axes.errorbar([at], [statistics.fmean(values)], yerr=[spread], fmt=marker, **style)


def _draw_pairs(axes: Axes, rows: Rows, labels: str) -> None:
    """Two methods on one network, a point: measured difference over predicted one, those infinite left out."""
    found = [pair for pair in pairs(rows, labels) if math.isfinite(pair.predicted) and math.isfinite(pair.measured)]
    # each pair once, the way round in which a difference above zero is predicted
    dots = [(abs(pair.predicted), math.copysign(1, pair.predicted) * pair.measured, pair) for pair in found]
    span = [0.0, max([*(x for x, _, _ in dots), 0.1])]
    axes.axhspan(-0.12 * span[1], 0, color=RIVAL, alpha=0.12, label="rival: the order swapped")
    axes.plot(span, span, "--", color=PREDICTED, label="as predicted")
    for judged, colour, words in ((True, MEASURED, "judged"), (False, "0.6", "too near to be judged")):
        chosen = [(x, y, pair.uncertainty) for x, y, pair in dots if pair.judged == judged]
        x, y, bars = ([one[k] for one in chosen] for k in range(3))
        label = f"{words}: {len(chosen)}"
        axes.errorbar(x, y, yerr=bars, fmt="o", markersize=4, color=colour, label=label)
    axes.set(xlabel="predicted difference of ROR", ylabel="measured difference", title=f"{labels} labels, finite pairs")
    axes.legend(loc="upper left")
