"""What the figures of striped files have in common: lines of throughput, and the mark of a point that says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.model.studies.study import Rows, where
from testbed.report.drawing.charts import AMBER, BELOW, BLUE, GREY, RED, chart, ticks

TOGETHER = "throughput of all together, Mbit/s"
RING = {"markersize": 12, "markerfacecolor": "none", "zorder": 4}
"""The style of points that are seen round those of another series at the same place."""


def plot_throughput(axes: Any, rows: Rows, key: str, name: str, colour: str, **style: Any) -> None:
    """A line of throughput in Mbit/s over what the rows have under ``key``; none where there are no rows."""
    if chosen := sorted((row[key], row["throughput_bps"] / 1e6) for row in rows):
        axes.plot(*zip(*chosen, strict=True), color=colour, label=name, **{"marker": "o", **style})


def lines_by_size(
    rows: Rows, size: str, way: str, names: tuple[str, str], share: float, link_rate_bps: float, **named: Any
) -> tuple[Any, Any]:
    """(figure, axes): throughput over the size in bytes that rows have under the key ``size``, a line for the rows whose flag
    ``way`` is true and one for the others, ``names`` in that order; and ``share`` of the compute node's link, which is claimed."""
    figure, axes = chart(size=(7, 4.4), ylabel="throughput of the file, Mbit/s", **named)
    for chosen, name, colour, marker in ((True, names[0], BLUE, "o"), (False, names[1], AMBER, "s")):
        plot_throughput(axes, where(rows, **{way: chosen}), size, name, colour, marker=marker)
    axes.axhline(share * link_rate_bps / 1e6, color=GREY, linestyle=":", label=f"{share} of the compute node's link")
    ticks(axes, (row[size] for row in rows))
    return figure, axes


def lines_by_nodes(
    axes: Any,
    rows: Rows,
    series: Mapping[str, tuple[str, str, str]],
    styles: Mapping[str, Mapping[str, Any]],
) -> None:
    """Throughput over the number of nodes, a line a series: its (name, colour, marker), and its style where it has one."""
    for key, (name, colour, marker) in series.items():
        plot_throughput(axes, where(rows, series=key), "nodes", name, colour, marker=marker, **styles.get(key, {}))


def finish(axes: Any, rows: Rows, key: str) -> None:
    """A cross over every point of which the machine did not keep up, a tick at each ``key``, the legend."""
    if places := [(row[key], row["throughput_bps"] / 1e6) for row in rows if row.get("invalid")]:
        label = "the machine did not keep up: says nothing"
        axes.scatter(*zip(*places, strict=True), marker="x", s=60, color=RED, zorder=5, label=label)
    axes.set(xticks=sorted({row[key] for row in rows}), ylim=(0, None))
    axes.legend(**BELOW)
