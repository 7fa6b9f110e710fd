"""The figure of a trial, from its row alone: how voice sounds over each rival while links fail."""

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.report.drawing.charts import COMPARED, chart

_COLOURS = {"direct": "#8c8c8c", "none": "#a3241b", "static": "#3f7fbf", "adaptive": "#1b7837"}


def trial_figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Name -> matplotlib figure; none where no voice went."""
    (row,) = rows
    return {"voice": _voice(row)} if row["opinions"] else {}


def _voice(row: Mapping[str, Any]) -> Any:
    x, y = "time since the first packet, s", "mean opinion score"
    figure, axes = chart(size=(9, 3.4), xlabel=x, ylabel=y, xlim=(0, row["duration_s"]), ylim=(0.9, 4.6))
    for rival, curve in row["opinions"].items():
        axes.plot(*zip(*curve, strict=True), ".-", color=_COLOURS[rival], label=rival)
    for number, fault in enumerate(row["faults"]):
        stop_s = min(row["duration_s"], fault["stop_s"] or row["duration_s"])
        label = None if number else "a link is broken"
        axes.axvspan(fault["start_s"], stop_s, color="#f2dfae", alpha=0.6, zorder=0, label=label)
    axes.legend(**COMPARED)
    broken = ", ".join(f"{fault['link']} {fault['kind']}" for fault in row["faults"]) or "nothing"
    between = " and ".join(row["between"])
    figure.set_label(
        f"How voice sounds (ITU-T G.107) between {between} over each rival, second by second; shaded: {broken}."
    )
    return figure
