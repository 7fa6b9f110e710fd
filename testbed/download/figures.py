"""The figure of a download, drawn from its stored row: the load of its last mile over time."""

import math
from collections.abc import Sequence

from testbed.report.drawing.charts import AMBER, BLUE, INK, RED, Figure, panels
from topologies import Json

# Number of equal intervals of the download for which arrival rates are stored.
BINS = 120


def arrival_rates(arrivals_s: Sequence[float], seconds: float) -> list[float]:
    """Return the packets per second in each of BINS equal intervals from 0 to ``seconds``.

    >>> rates = arrival_rates([0.1, 0.2, 5.9], 6.0)
    >>> len(rates), round(sum(rates) * 6.0 / BINS)
    (120, 3)
    """
    counts = [0] * BINS
    for at_s in arrivals_s:
        counts[min(BINS - 1, max(0, int(at_s / seconds * BINS)))] += 1
    return [count * BINS / seconds for count in counts]


def download_figures(rows: Sequence[Json]) -> dict[str, Figure]:
    """Return matplotlib figures by name, for one download; empty if no packet arrived."""
    (row,) = rows
    if not row["arrivals_pps"]:
        return {}
    return {"last-kilometre": _last_mile_figure(row)}


def _last_mile_figure(row: Json) -> Figure:
    """Draw the arrival rate, the rate that fills the last mile, and the faults."""
    figure, (axes,) = panels(9, 3.4)
    arrivals_pps = row["arrivals_pps"]
    drawn_s = row["drawn_s"]
    interval_s = drawn_s / len(arrivals_pps)
    edges_s = [k * interval_s for k in range(len(arrivals_pps) + 1)]
    axes.stairs(
        arrivals_pps, edges_s, fill=True, color=BLUE, alpha=0.4, label="packets that arrived"
    )
    axes.axhline(
        row["last_kilometre_pps"],
        color=INK,
        linewidth=1,
        linestyle=":",
        label="the last mile, full",
    )
    label: str | None = "a link is broken"
    for fault in row["faults"]:
        stop_s = drawn_s
        if fault["stop_s"] is not None:
            stop_s = min(fault["stop_s"], drawn_s)
        axes.axvspan(fault["start_s"], stop_s, color=AMBER, alpha=0.2, zorder=0, label=label)
        # The legend names the shading once.
        label = None
    for name, style in (("predicted", "--"), ("measured", "-")):
        at_s = row["duration_s"][name]
        if at_s is not None and math.isfinite(at_s):
            label = f"the file is there, {name}: {at_s:.2f} s"
            axes.axvline(at_s, color=RED, linewidth=1.2, linestyle=style, label=label)
    axes.set(xlabel="time since the first packet, s", ylabel="packets a second")
    axes.set(xlim=(0, 1.02 * drawn_s), ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=3)
    caption = (
        f"Packets that arrived over the last mile of {row['last_mile_rate_bps'] / 1e6:g} Mbit/s "
        f"in a download of {row['file_bytes'] / 1e6:g} MB ({row['method']} route, {row['code']}), "
        "beside the rate that fills it (dotted)"
    )
    if row["faults"]:
        shaded = ", ".join(f"{fault['link']} {fault['kind']}" for fault in row["faults"])
        caption += f"; shaded: {shaded}"
    figure.set_label(f"{caption}.")
    return figure
