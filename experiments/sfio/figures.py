"""What the figures of striped files have in common: colours, lines by size and by nodes, the mark of a point that says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.model.studies.study import Row, Rows, where

BLUE, OCHRE, GREEN, GREY, RED = "#3b6ea5", "#c98b2b", "#4f8a4b", "#777777", "#b3362b"
RING = {"markersize": 12, "markerfacecolor": "none", "zorder": 4}
"""The style of points that are seen round those of another series at the same place."""


def lines_by_size(
    rows: Rows, size: str, way: str, names: tuple[str, str], share: float, link_rate_bps: float
) -> tuple[Any, Any]:
    """(figure, axes): throughput over the size in bytes that rows have under the key ``size``, a line for the rows whose flag
    ``way`` is true and one for the others, ``names`` in that order; and ``share`` of the compute node's link, which is claimed."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.4))
    for chosen_way, name, colour, marker in ((True, names[0], BLUE, "o"), (False, names[1], OCHRE, "s")):
        chosen = sorted((r[size], r["throughput_bps"] / 1e6) for r in rows if r[way] is chosen_way)
        axes.plot(*zip(*chosen, strict=True), marker=marker, color=colour, label=name)
    axes.axhline(share * link_rate_bps / 1e6, color=GREY, linestyle=":", label=f"{share} of the compute node's link")
    sizes = sorted({row[size] for row in rows})
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(0, None)
    return figure, axes


def lines_by_nodes(
    axes: Any,
    rows: Rows,
    series: Mapping[str, tuple[str, str, str]],
    styles: Mapping[str, Row],
) -> None:
    """Throughput over the number of nodes, a line a series: its (name, colour, marker), and its style where it has one."""
    for key, (name, colour, marker) in series.items():
        chosen = sorted((r["nodes"], r["throughput_bps"] / 1e6) for r in where(rows, series=key))
        axes.plot(*zip(*chosen, strict=True), marker=marker, color=colour, label=name, **styles.get(key, {}))


def finish_by_nodes(axes: Any, rows: Rows, *, x: str, title: str) -> None:
    """``finish`` for axes of throughput over the number of nodes: a tick each, and invalid points marked."""
    mark_invalid(axes, rows, "nodes")
    axes.set_xticks(sorted({row["nodes"] for row in rows}))
    axes.set_ylim(0, None)
    finish(axes, x=x, y="throughput of all together, Mbit/s", title=title)


def mark_invalid(axes: Any, rows: Rows, key: str) -> None:
    """A cross over every point (``key``, Mbit/s) of which the machine did not keep up."""
    places = [(row[key], row["throughput_bps"] / 1e6) for row in rows if row.get("invalid")]
    if places:
        label = "the machine did not keep up: says nothing"
        axes.scatter(*zip(*places, strict=True), marker="x", s=60, color=RED, zorder=5, label=label)


def finish(axes: Any, *, x: str, y: str, title: str) -> None:
    """Labels, title and legend as all figures of striped files have them."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
