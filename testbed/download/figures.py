"""The figure of a download, drawn from its row alone: how full the last mile was kept while links failed."""

import math
from collections.abc import Sequence

from testbed.report.drawing.charts import AMBER, BLUE, INK, RED, Figure, panels
from topologies import Json

BINS = 120
"""Of the arrivals: packets are told as a rate over so many equal parts of the download."""


def arrival_rates(arrivals_s: Sequence[float], seconds: float) -> list[float]:
    """Packets a second in each of BINS equal parts of the time from 0 to ``seconds``.

    >>> rates = arrival_rates([0.1, 0.2, 5.9], 6.0)
    >>> len(rates), round(sum(rates) * 6.0 / BINS)
    (120, 3)
    """
    counts = [0] * BINS
    for at_s in arrivals_s:
        counts[min(BINS - 1, max(0, int(at_s / seconds * BINS)))] += 1
    return [count * BINS / seconds for count in counts]


def download_figures(rows: Sequence[Json]) -> dict[str, Figure]:
    """Name -> matplotlib figure, for the row of one download; none where nothing arrived."""
    (row,) = rows
    if not row["arrivals_pps"]:
        return {}
    return {"last-kilometre": _last_kilometre(row)}


def _last_kilometre(row: Json) -> Figure:
    figure, (axes,) = panels(9, 3.4)
    width_s = row["drawn_s"] / len(row["arrivals_pps"])
    edges = [k * width_s for k in range(len(row["arrivals_pps"]) + 1)]
    axes.stairs(
        row["arrivals_pps"], edges, fill=True, color=BLUE, alpha=0.4, label="packets that arrived"
    )
    axes.axhline(
        row["last_kilometre_pps"],
        color=INK,
        linewidth=1,
        linestyle=":",
        label="the last mile, full",
    )
    for number, fault in enumerate(row["faults"]):
        stop_s = min(fault["stop_s"] if fault["stop_s"] is not None else math.inf, row["drawn_s"])
        broken = None if number else "a link is broken"
        axes.axvspan(fault["start_s"], stop_s, color=AMBER, alpha=0.2, zorder=0, label=broken)
    for name, style in (("predicted", "--"), ("measured", "-")):
        at_s = row["duration_s"][name]
        if at_s is not None and math.isfinite(at_s):
            label = f"the file is there, {name}: {at_s:.2f} s"
            axes.axvline(at_s, color=RED, linewidth=1.2, linestyle=style, label=label)
    axes.set(xlabel="time since the first packet, s", ylabel="packets a second")
    axes.set(xlim=(0, 1.02 * row["drawn_s"]), ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=3)
    broken = ", ".join(f"{fault['link']} {fault['kind']}" for fault in row["faults"])
    figure.set_label(
        f"Packets that arrived over the last mile of {row['last_mile_rate_bps'] / 1e6:g} Mbit/s in a download of "
        f"{row['file_bytes'] / 1e6:g} MB ({row['method']} route, {row['code']}), beside the rate that fills it (dotted)"
        + (f"; shaded: {broken}." if broken else ".")
    )
    return figure
