"""Figures of uncoded streams, drawn from stored rows: loss and latency around each fault."""

from collections.abc import Mapping, Sequence

import numpy as np

from testbed.report.drawing.charts import Axes, Figure, panels
from topologies import Json

NAMES = {
    "ft-drb": "FT-DRB",
    "single": "one path",
    "recomputed": "capillary, recomputed",
    "capillary+fec": "capillary + FEC",
}
COLOURS = {
    "FT-DRB": "C0",
    "FT-DRB, header flag alone": "C1",
    "capillary, recomputed": "C2",
    "capillary + FEC": "C3",
    "one path": "C4",
}
# The packets of this time are drawn as the limit of the loss.
MAX_LOST_S = 0.05
# Length of the bins of a timeline.
_BIN_S = 0.02


def metapath_figures(rows: Sequence[Json]) -> dict[str, Figure]:
    """Return matplotlib figures by name, one for each fault."""
    figures = {}
    for row in rows:
        figures[f"{row['link']}-{row['kind']}"] = fault_figure([row], [NAMES[row["routing"]]])
    return figures


def fault_figure(rows: Sequence[Json], names: Sequence[str], title: str | None = None) -> Figure:
    """Draw the packets lost since the fault and, below, the latency of each 20 ms.

    Args:
        rows: One stored row per curve.
        names: The names of the curves.
        title: The title; by default the link and the kind of the fault.
    """
    figure, (above, below) = panels(8, 5.6, 2, 1, sharex=True)
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        _draw(above, below, row, name, COLOURS.get(name, f"C{5 + number}"))
    sent = rows[0]["timeline"]["sent"]
    duration_s = rows[0]["stop_s"] - rows[0]["start_s"]
    limit = MAX_LOST_S * sum(sent) / (_BIN_S * len(sent))
    above.axhline(limit, color="k", linestyle="--", linewidth=1, label="50 ms of packets")
    above.plot([], [], "o", color="grey", label="reconfigured")
    for axes in (above, below):
        axes.axvspan(0, duration_s, color="0.92", zorder=0)
    above.set_yscale("symlog", linthresh=10)
    above.set(ylim=(0, None), ylabel="packets lost since the fault")
    below.set(
        yscale="log",
        xlabel="time since the fault, s",
        ylabel="latency, ms\n(95th percentile of 20 ms)",
    )
    below.yaxis.set_major_formatter("{x:g}")
    below.yaxis.set_minor_formatter("")
    figure.suptitle(title or f"Around a fault: {rows[0]['link']} {rows[0]['kind']}")
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _draw(above: Axes, below: Axes, row: Json, name: str, colour: str) -> None:
    """Draw one curve of the loss and one of the latency."""
    timeline = row["timeline"]
    bin_ends_s = [start_s + _BIN_S for start_s in timeline["t_s"]]
    bin_middles_s = [start_s + _BIN_S / 2 for start_s in timeline["t_s"]]
    above.step(bin_ends_s, np.cumsum(timeline["lost"]), where="post", color=colour, label=name)
    # As floats, None becomes nan, and is not drawn.
    latency_ms = np.array(timeline["slow_ms"], dtype=float)
    below.plot(bin_middles_s, latency_ms, color=colour, linewidth=1)
    reconfigured_s = row.get("reconfigured_s")
    if reconfigured_s is not None:
        lost = _lost_until(timeline, reconfigured_s)
        above.plot([reconfigured_s], [lost], "o", color=colour)


def _lost_until(timeline: Mapping[str, Sequence[float]], at_s: float) -> float:
    """Return the number of packets lost in the bins that begin by a time."""
    lost = 0.0
    for start_s, lost_in_bin in zip(timeline["t_s"], timeline["lost"], strict=True):
        if start_s <= at_s:
            lost += lost_in_bin
    return lost
