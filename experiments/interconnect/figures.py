"""Figures that several interconnect studies draw: time series, surface maps, latency and performance as samples by
label."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.interconnect.study_points import FIRST_SHOWN_SLOT, SLOT_S
from testbed.model.studies import Results, Row
from testbed.report.drawing.charts import COMPARED, HUES, RED, Figure, chart

PERFORMANCE = "100 L0 / Lf (%)"
LATENCY = "mean latency (us)"
OFFERED = "offered load (fraction of a link, each node)"


def draw_time_series(
    title: str,
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    y: str,
    event: tuple[float, str],
) -> Figure:
    """Name -> (seconds, values), as steps of a slot each; the event as a vertical line."""
    figure, axes = chart(title, xlabel="simulated time (s)", ylabel=y)
    for (name, (times, values)), hue in zip(series.items(), HUES, strict=False):
        axes.plot(times, values, label=name, color=hue, linewidth=1.2, drawstyle="steps-post")
    axes.axvline(event[0], color=RED, linestyle=":", linewidth=1.2, label=event[1])
    axes.legend(**COMPARED)
    return figure


def draw_surfaces(
    title: str, maps: Mapping[str, Sequence[Sequence[float]]], *, columns: int = 2
) -> Figure:
    """Packets as surface maps side by side, one scale for all: ``maps[name][x][y]`` is the value of the node at (x,
    y)."""
    from matplotlib.figure import Figure as Drawn

    top = max((max(max(row) for row in values) for values in maps.values()), default=1) or 1
    columns = min(len(maps), columns)
    rows = -(-len(maps) // columns)
    figure = Drawn(figsize=(4.6 * columns, 3.9 * rows))
    for k, (name, values) in enumerate(maps.items()):
        axes: Any = figure.add_subplot(rows, columns, k + 1, projection="3d")
        heights = np.asarray(values, dtype=float)
        x, y = np.meshgrid(range(heights.shape[0]), range(heights.shape[1]), indexing="ij")
        axes.plot_surface(
            x,
            y,
            heights,
            cmap="viridis",
            vmin=0,
            vmax=top,
            rstride=1,
            cstride=1,
            edgecolor="#555d66",
            linewidth=0.3,
        )
        axes.set(title=name, xlabel="x", ylabel="y", zlim=(0, top))
        axes.set_zlabel("packets", fontsize=8, labelpad=6)
        axes.view_init(elev=32, azim=-125)
        axes.set_box_aspect(None, zoom=0.84)
    figure.suptitle(title)
    figure.subplots_adjust(left=0.02, right=0.94, wspace=0.12, hspace=0.18)
    return figure


def maps_around_burst(row: Row) -> Results:
    """The surface maps of the four slots round the burst, by their times."""
    times = (SLOT_S * (FIRST_SHOWN_SLOT + k) for k in range(len(row["maps"])))
    return {
        f"{at:.2f} to {at + SLOT_S:.2f} s": values
        for at, values in zip(times, row["maps"], strict=True)
    }


def named(network: str) -> str:
    """The network's specification as part of a figure's name, which is a file's."""
    return re.sub("[:,]", "-", network)
