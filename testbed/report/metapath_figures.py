"""Figures of plain streams under failures, drawn from the rows alone: what was lost and how long packets took, around each fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

NAMES = {
    "ft-drb": "FT-DRB",
    "single": "one path",
    "recomputed": "capillary, recomputed",
    "capillary+fec": "capillary + FEC",
}
MOST_LOST_S = 0.05


def metapath_figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Name -> matplotlib figure: one a fault."""
    return {f"{row['link']}-{row['kind']}": fault_figure([row], [NAMES[row["routing"]]]) for row in rows}


def fault_figure(rows: Sequence[Mapping[str, Any]], names: Sequence[str], title: str | None = None) -> Any:
    """Packets lost (sum since the fault) over the time since the fault, and below it the median latency of each 20 ms."""
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7.5, 6.0))
    lasts_s = rows[0]["stop_s"] - rows[0]["start_s"]
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        line, colour = row["timeline"], f"C{number}"
        middle = [t + 0.01 for t in line["t_s"]]
        above.step(line["t_s"], _running(line["lost"]), where="post", color=colour, label=name)
        latency = [float("nan") if value is None else value for value in line["latency_ms"]]
        below.plot(middle, latency, color=colour, linewidth=1, label=name)
        if row.get("reconfigured_s") is not None:
            above.plot([row["reconfigured_s"]], [_reached(line, row["reconfigured_s"])], "o", color=colour)
    rate = sum(rows[0]["timeline"]["sent"]) / (0.02 * len(rows[0]["timeline"]["sent"]))
    above.axhline(MOST_LOST_S * rate, color="k", linestyle="--", linewidth=1, label="50 ms of packets")
    above.set_yscale("symlog", linthresh=10)
    above.set_ylim(bottom=0)
    above.set_ylabel("packets lost since the fault")
    above.plot([], [], "o", color="grey", label="reconfigured")
    below.set_ylabel("median latency of 20 ms, ms")
    below.set_xlabel("time since the fault, s")
    below.set_yscale("log")
    for axes in (above, below):
        _shade(axes, lasts_s)
    above.set_title(title or f"{rows[0]['link']} {rows[0]['kind']}")
    above.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def _shade(axes: Axes, lasts_s: float) -> None:
    axes.axvspan(0, lasts_s, color="0.92", zorder=0)
    axes.grid(alpha=0.3)


def _running(values: Sequence[int]) -> list[int]:
    total, found = 0, []
    for value in values:
        total += value
        found.append(total)
    return found


def _reached(line: Mapping[str, Sequence[Any]], at_s: float) -> int:
    return sum(lost for t, lost in zip(line["t_s"], line["lost"], strict=True) if t <= at_s)
