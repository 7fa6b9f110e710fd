"""Figures of plain streams under failures, drawn from the rows alone: what was lost and how long packets took, around
each fault."""

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
MAX_LOST_S = 0.05


def metapath_figures(rows: Sequence[Json]) -> dict[str, Figure]:
    """Name -> matplotlib figure: one a fault."""
    return {
        f"{row['link']}-{row['kind']}": fault_figure([row], [NAMES[row["routing"]]]) for row in rows
    }


def fault_figure(rows: Sequence[Json], names: Sequence[str], title: str | None = None) -> Figure:
    """Packets lost (sum since the fault) and, below, the 95th percentile of latency in each 20 ms."""
    figure, (above, below) = panels(8, 5.6, 2, 1, sharex=True)
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        _draw(above, below, row, name, COLOURS.get(name, f"C{5 + number}"))
    sent, lasts_s = rows[0]["timeline"]["sent"], rows[0]["stop_s"] - rows[0]["start_s"]
    limit = MAX_LOST_S * sum(sent) / (0.02 * len(sent))
    above.axhline(limit, color="k", linestyle="--", linewidth=1, label="50 ms of packets")
    above.plot([], [], "o", color="grey", label="reconfigured")
    for axes in (above, below):
        axes.axvspan(0, lasts_s, color="0.92", zorder=0)
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
    line = row["timeline"]
    above.step(
        [t + 0.02 for t in line["t_s"]],
        np.cumsum(line["lost"]),
        where="post",
        color=colour,
        label=name,
    )
    latency = [float("nan") if value is None else value for value in line["slow_ms"]]
    below.plot([t + 0.01 for t in line["t_s"]], latency, color=colour, linewidth=1)
    at_s = row.get("reconfigured_s")
    if at_s is not None:
        above.plot([at_s], [_reached(line, at_s)], "o", color=colour)


def _reached(line: Mapping[str, Sequence[float]], at_s: float) -> float:
    return sum(lost for t, lost in zip(line["t_s"], line["lost"], strict=True) if t <= at_s)
