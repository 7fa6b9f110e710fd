"""What the figures of striped files have in common: lines of throughput, and the mark of a point that says nothing."""

from collections.abc import Mapping

from testbed.model.studies.study import Row, Rows, where
from testbed.report.drawing.charts import BELOW, RED, Axes

TOGETHER = "throughput of all together, Mbit/s"
RING = {"markersize": 12, "markerfacecolor": "none", "zorder": 4}
"""The style of points that are seen round those of another series at the same place."""


def plot_throughput(axes: Axes, rows: Rows, key: str, name: str, colour: str, **style: object) -> None:
    """A line of throughput in Mbit/s over what the rows have under ``key``; none where there are no rows."""
    if chosen := sorted((row[key], row["throughput_bps"] / 1e6) for row in rows):
        axes.plot(*zip(*chosen, strict=True), color=colour, label=name, **{"marker": "o", **style})


def lines_by_nodes(
    axes: Axes, rows: Rows, series: Mapping[str, tuple[str, str, str]], styles: Mapping[str, Row]
) -> None:
    """Throughput over the number of nodes, a line a series: its (name, colour, marker), and its style where it has
    one."""
    for key, (name, colour, marker) in series.items():
        plot_throughput(axes, where(rows, series=key), "nodes", name, colour, marker=marker, **styles.get(key, {}))


def finish(axes: Axes, rows: Rows, key: str) -> None:
    """A cross over every point of which the machine did not keep up, a tick at each ``key``, the legend."""
    if places := [(row[key], row["throughput_bps"] / 1e6) for row in rows if row.get("invalid")]:
        label = "the machine did not keep up: says nothing"
        axes.scatter(*zip(*places, strict=True), marker="x", s=60, color=RED, zorder=5, label=label)
    axes.set(xticks=sorted({row[key] for row in rows}), ylim=(0, None))
    axes.legend(**BELOW)
