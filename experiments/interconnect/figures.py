"""Figures that several interconnect studies draw: performance over failures, bars by pattern, time series, surface maps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from testbed.model.samples import whiskers

Series = Mapping[str, Mapping[float, tuple[float, float]]]
"""Name of a line -> x -> (mean, half width of its 95 % interval)."""

_MARKS = "osD^vP*X"
_DASHES, _HATCHES = ("-", "--", ":"), ("", "////", "....")
"""Of the first eight series, of the next, and of those after: hues come again."""
_HUES = ("#0b62a8", "#a3470a", "#16693f", "#6a3d9a", "#b3261e", "#855a00", "#25768c", "#5c6670")


def draw_lines(
    title: str, series: Series, *, x_label: str, y_label: str, claim: float | None = None, claim_says: str = "",
    upright: float | None = None, upright_says: str = "", most: float = math.inf,
) -> Any:  # fmt: skip
    """One line a series with its confidence intervals, which never reach below 0 where the mean does not, nor above ``most`` (1 of
    shares); the claim's threshold dashed, what happens at an x (saturation) as a dotted upright."""
    figure, axes = _axes(title, x_label, y_label)
    for k, (name, points) in enumerate(series.items()):
        xs = sorted(points)
        axes.errorbar(
            xs,
            [points[x][0] for x in xs],
            yerr=_whiskers([points[x] for x in xs], most),
            label=name,
            marker=_MARKS[k % len(_MARKS)],
            color=_HUES[k % len(_HUES)],
            linestyle=_DASHES[k // len(_HUES) % len(_DASHES)],
            markersize=5,
            capsize=2,
            linewidth=1.4,
        )
    if upright is not None:
        axes.axvline(upright, color="#b3261e", linestyle=":", linewidth=1.2, label=upright_says)
    _finish(axes, claim, claim_says)
    return figure


def draw_bars(
    title: str, series: Mapping[str, Mapping[str, tuple[float, float]]], *, y_label: str, low: float | None = None,
    claim: float | None = None, claim_says: str = "",
) -> Any:  # fmt: skip
    """Groups of bars: series -> group -> (mean, half width). ``low``: where the axis begins (0 where None)."""
    figure, axes = _axes(title, "", y_label)
    groups = list(dict.fromkeys(group for bars in series.values() for group in bars))
    width = 0.8 / max(len(series), 1)
    for k, (name, bars) in enumerate(series.items()):
        places = [i + (k - (len(series) - 1) / 2) * width for i, group in enumerate(groups) if group in bars]
        shown = [bars[group] for group in groups if group in bars]
        axes.bar(
            places, [s[0] for s in shown], width * 0.92, yerr=_whiskers(shown), capsize=2, label=name,
            color=_HUES[k % len(_HUES)], hatch=_HATCHES[k // len(_HUES) % len(_HATCHES)],
        )  # fmt: skip
    axes.set_xticks(
        range(len(groups)), groups, rotation=20 if len(groups) > 4 else 0, ha="right" if len(groups) > 4 else "center"
    )
    if low is not None:
        axes.set_ylim(bottom=low)
    _finish(axes, claim, claim_says)
    return figure


def draw_time_series(
    title: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, y_label: str, event_s: float | None = None,
    event_says: str = "",
) -> Any:  # fmt: skip
    """Name -> (seconds, values), as steps of a slot each; the event as a vertical line."""
    figure, axes = _axes(title, "simulated time (s)", y_label)
    for k, (name, (times, values)) in enumerate(series.items()):
        axes.plot(times, values, label=name, color=_HUES[k % len(_HUES)], linewidth=1.2, drawstyle="steps-post")
    if event_s is not None:
        axes.axvline(event_s, color="#b3261e", linestyle=":", linewidth=1.2, label=event_says)
    _finish(axes, None, "")
    return figure


def draw_surfaces(title: str, maps: Mapping[str, Sequence[Sequence[float]]], *, z_label: str, columns: int = 2) -> Any:
    """Surface maps side by side, one scale for all: ``maps[name][x][y]`` is the value of the node at (x, y)."""
    import matplotlib.pyplot as plt

    top = max((max(max(row) for row in values) for values in maps.values()), default=1) or 1
    columns = min(len(maps), columns)
    rows = -(-len(maps) // columns)
    figure = plt.figure(figsize=(4.6 * columns, 3.9 * rows))
    for k, (name, values) in enumerate(maps.items()):
        axes: Any = figure.add_subplot(rows, columns, k + 1, projection="3d")
        heights = np.asarray(values, dtype=float)
        x, y = np.meshgrid(range(heights.shape[0]), range(heights.shape[1]), indexing="ij")
        axes.plot_surface(
            x, y, heights, cmap="viridis", vmin=0, vmax=top, rstride=1, cstride=1, edgecolor="#555d66", linewidth=0.3
        )
        axes.set_zlim(0, top)
        axes.set_xlabel("x")
        axes.set_ylabel("y")
        axes.set_zlabel(z_label, fontsize=8, labelpad=6)
        axes.view_init(elev=32, azim=-125)
        axes.set_box_aspect(None, zoom=0.84)
        axes.set_title(name, fontsize=10)
    figure.suptitle(title, fontsize=11)
    figure.subplots_adjust(left=0.02, right=0.94, wspace=0.12, hspace=0.18)
    return figure


def named(network: str) -> str:
    """The network's specification as part of a figure's name, which is a file's."""
    return re.sub("[:,]", "-", network)


def _whiskers(points: Sequence[tuple[float, float]], most: float = math.inf) -> tuple[list[float], list[float]]:
    reach = [whiskers(mean, half, most) for mean, half in points]
    return [below for below, _ in reach], [above for _, above in reach]


def _axes(title: str, x_label: str, y_label: str) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.6, 4.4))
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(True, color="#d9dde2", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _finish(axes: Any, claim: float | None, claim_says: str) -> None:
    if claim is not None:
        axes.axhline(claim, color="#16191d", linestyle="--", linewidth=1.1, label=claim_says)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
