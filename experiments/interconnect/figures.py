"""Figures that several interconnect studies draw: time series and surface maps."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.interconnect.study_points import FIRST_SHOWN_SLOT, SLOT_S
from testbed.model.studies import Results, Row
from testbed.report.drawing.charts import COMPARED, HUES, RED, Figure, Mark, chart

# Labels of axes.
PERFORMANCE = "100 L0 / Lf (%)"
LATENCY = "mean latency (us)"
OFFERED = "offered load (fraction of a link, each node)"


def draw_time_series(
    title: str,
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    y: str,
    event: Mark,
) -> Figure:
    """Draw time series as steps, one per slot.

    Args:
        title: Title of the figure.
        series: The times (s) and values of each series, by name.
        y: Label of the y axis.
        event: Time (s) and name of an event, which is drawn as a vertical line.
    """
    figure, axes = chart(title, xlabel="simulated time (s)", ylabel=y)
    for (name, (times_s, values)), hue in zip(series.items(), HUES, strict=False):
        axes.plot(times_s, values, label=name, color=hue, linewidth=1.2, drawstyle="steps-post")
    event_s, event_name = event
    axes.axvline(event_s, color=RED, linestyle=":", linewidth=1.2, label=event_name)
    axes.legend(**COMPARED)
    return figure


def draw_surfaces(
    title: str, maps: Mapping[str, Sequence[Sequence[float]]], *, columns: int = 2
) -> Figure:
    """Draw packets of nodes as surface maps side by side. All maps have the same scale.

    Args:
        title: Title of the figure.
        maps: The maps by name. ``maps[name][x][y]`` is the value of the node at (x, y).
        columns: Largest number of maps in a row.
    """
    from matplotlib.figure import Figure as Drawn

    heights_by_name = {name: np.asarray(values, dtype=float) for name, values in maps.items()}
    highest = max((heights.max() for heights in heights_by_name.values()), default=1.0)
    # An axis from 0 to 0 cannot be drawn.
    top = highest or 1.0
    columns = min(len(maps), columns)
    rows = -(-len(maps) // columns)
    figure = Drawn(figsize=(4.6 * columns, 3.9 * rows))
    for position, (name, heights) in enumerate(heights_by_name.items(), 1):
        axes: Any = figure.add_subplot(rows, columns, position, projection="3d")
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
    """Return the surface maps of the slots around the burst, by their times."""
    maps = {}
    for slot, values in enumerate(row["maps"], FIRST_SHOWN_SLOT):
        start_s = SLOT_S * slot
        maps[f"{start_s:.2f} to {start_s + SLOT_S:.2f} s"] = values
    return maps


def file_name_of(network: str) -> str:
    """Return the network's specification in a form that may be a part of a file's name."""
    return re.sub("[:,]", "-", network)
