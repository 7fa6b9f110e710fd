"""The figure of a trial, from its row alone: how voice sounds, and the picture looks, over each rival while links
fail."""

import base64
import io
from collections.abc import Mapping, Sequence

from testbed.report.drawing.charts import COMPARED, Figure, chart, panels
from topologies import Json

_COLOURS = {"direct": "#8c8c8c", "none": "#a3241b", "static": "#3f7fbf", "adaptive": "#1b7837"}


def trial_figures(rows: Sequence[Json]) -> dict[str, Figure]:
    """Name -> matplotlib figure; none of what did not go."""
    (row,) = rows
    drawn = {
        "voice": ("opinions", "mean opinion score", (0.9, 4.6), "How voice sounds (ITU-T G.107)"),
        "picture": (
            "pictures",
            "PSNR, dB (100: identical)",
            (0, 105),
            "How the moving picture looks (PSNR)",
        ),
    }
    found = {name: _over_time(row, *what) for name, what in drawn.items() if row.get(what[0])}
    return found | (
        {"moments": _side_by_side(row["moments"])} if any(row.get("moments", {}).values()) else {}
    )


def _side_by_side(moments: Mapping[str, Sequence[tuple[float, str]]]) -> Figure:
    """What each rival shows in the middle of each failure, below one another."""
    from matplotlib.image import imread

    times = sorted({at_s for seen in moments.values() for at_s, _ in seen})
    figure, every = panels(2.2 * len(times), 1.6 * len(moments), len(moments), len(times))
    for place, axes in enumerate(every):
        rival, at_s = list(moments)[place // len(times)], times[place % len(times)]
        axes.set(title=f"{rival}, {at_s:.1f} s", xticks=[], yticks=[])
        for still in (still for seen_s, still in moments[rival] if seen_s == at_s):
            axes.imshow(imread(io.BytesIO(base64.b64decode(still)), format="jpg"))
    figure.set_label("The picture as it is seen in the middle of each failure.")
    return figure


def _over_time(row: Json, curves: str, y: str, ylim: tuple[float, float], what: str) -> Figure:
    x = "time since the first packet, s"
    figure, axes = chart(size=(9, 3.4), xlabel=x, ylabel=y, xlim=(0, row["duration_s"]), ylim=ylim)
    for rival, curve in row[curves].items():
        axes.plot(*zip(*curve, strict=True), ".-", color=_COLOURS[rival], label=rival)
    for number, fault in enumerate(row["faults"]):
        stop_s = min(row["duration_s"], fault["stop_s"] or row["duration_s"])
        label = None if number else "a link is broken"
        axes.axvspan(fault["start_s"], stop_s, color="#f2dfae", alpha=0.6, zorder=0, label=label)
    axes.legend(**COMPARED)
    broken = ", ".join(f"{fault['link']} {fault['kind']}" for fault in row["faults"]) or "nothing"
    between = " and ".join(row["between"])
    figure.set_label(
        f"{what} between {between} over each rival, second by second; shaded: {broken}."
    )
    return figure
