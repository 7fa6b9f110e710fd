"""Figures of a trial, drawn from its stored row: voice and picture quality over time."""

import base64
import io
from collections.abc import Mapping, Sequence

from testbed.report.drawing.charts import COMPARED, Figure, chart, panels
from topologies import Json

_COLOURS = {"direct": "#8c8c8c", "none": "#a3241b", "static": "#3f7fbf", "adaptive": "#1b7837"}


def trial_figures(rows: Sequence[Json]) -> dict[str, Figure]:
    """Return matplotlib figures by name, only of the workloads that the trial ran."""
    (row,) = rows
    figures: dict[str, Figure] = {}
    if row.get("opinions"):
        figures["voice"] = _over_time(
            row,
            curves="opinions",
            ylabel="mean opinion score",
            ylim=(0.9, 4.6),
            title="How voice sounds (ITU-T G.107)",
        )
    if row.get("pictures"):
        figures["picture"] = _over_time(
            row,
            curves="pictures",
            ylabel="PSNR, dB (100: identical)",
            ylim=(0, 105),
            title="How the moving picture looks (PSNR)",
        )
    if any(row.get("moments", {}).values()):
        figures["moments"] = _side_by_side(row["moments"])
    return figures


def _side_by_side(moments: Mapping[str, Sequence[tuple[float, str]]]) -> Figure:
    """Draw the picture in the middle of each failure: one row per rival, one column per time.

    Args:
        moments: For each rival, the times (s) and the pictures as JPEG in base64.
    """
    from matplotlib.image import imread

    all_times: set[float] = set()
    for stills in moments.values():
        all_times.update(at_s for at_s, _ in stills)
    times = sorted(all_times)
    figure, grid = panels(2.2 * len(times), 1.6 * len(moments), len(moments), len(times))
    for index, axes in enumerate(grid):
        rival = list(moments)[index // len(times)]
        at_s = times[index % len(times)]
        axes.set(title=f"{rival}, {at_s:.1f} s", xticks=[], yticks=[])
        for still_at_s, still in moments[rival]:
            if still_at_s == at_s:
                axes.imshow(imread(io.BytesIO(base64.b64decode(still)), format="jpg"))
    figure.set_label("The picture as it is seen in the middle of each failure.")
    return figure


def _over_time(
    row: Json, *, curves: str, ylabel: str, ylim: tuple[float, float], title: str
) -> Figure:
    """Draw a curve per rival over time, and shade the times when links fail.

    Args:
        row: The stored row of the trial.
        curves: Key of the row that has the curves: (time in s, value) by rival.
        ylabel: Label of the vertical axis.
        ylim: Limits of the vertical axis.
        title: First words of the caption.
    """
    duration_s = row["duration_s"]
    figure, axes = chart(
        size=(9, 3.4),
        xlabel="time since the first packet, s",
        ylabel=ylabel,
        xlim=(0, duration_s),
        ylim=ylim,
    )
    for rival, curve in row[curves].items():
        axes.plot(*zip(*curve, strict=True), ".-", color=_COLOURS[rival], label=rival)
    label: str | None = "a link is broken"
    for fault in row["faults"]:
        stop_s = min(duration_s, fault["stop_s"] or duration_s)
        axes.axvspan(fault["start_s"], stop_s, color="#f2dfae", alpha=0.6, zorder=0, label=label)
        # The legend names the shading once.
        label = None
    axes.legend(**COMPARED)
    shaded = ", ".join(f"{fault['link']} {fault['kind']}" for fault in row["faults"]) or "nothing"
    between = " and ".join(row["between"])
    figure.set_label(
        f"{title} between {between} over each rival, second by second; shaded: {shaded}."
    )
    return figure
