"""Figures of the studies of ROR on packets: mean curves by layer, the fall network by network, and methods beside
capillary routing."""

import math
import statistics
from collections.abc import Sequence

from experiments.stream.ror.layer_checks import layer_means, layer_name, whole_networks
from experiments.stream.ror.measured_routes import LABELS, allowed, route_ror
from experiments.stream.ror.method_checks import MEASURE, METHODS
from testbed.model.studies.study import Results, Rows, where
from testbed.report.drawing.charts import BLUE, INK, ORANGE, Axes, panels

PREDICTED, MEASURED, RIVAL = INK, BLUE, ORANGE
_OF_ROR = ("predicted", "measured", "uncertainty")
SHOWN = {"fmt": "o", "color": MEASURED, "capsize": 3}


def layer_figures(rows: Rows) -> Results:
    """``mean_ror_by_layer``, a panel for each order of labels."""
    figure, every = panels(10, 4.4, columns=2)
    for labels, axes in zip(LABELS, every, strict=True):
        _draw_means(axes, rows, labels)
    return {"mean_ror_by_layer": figure}


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


def method_figures(rows: Rows) -> Results:
    """``methods_beside_capillary``, a panel for each order of labels that was measured."""
    orders = [labels for labels in LABELS if where(rows, labels=labels)]
    figure, every = panels(5.2 * len(orders), 4.6, columns=len(orders))
    for labels, axes in zip(orders, every, strict=True):
        _draw_side_by_side(axes, rows, labels)
    return {"methods_beside_capillary": figure}


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
