"""Figures of bulk runs, drawn from their rows alone: time frames on a line, bottlenecks busy or idle, bytes against the
schedule."""

from collections.abc import Sequence

import numpy as np

from testbed.report.drawing.charts import BLUE, INK, ORANGE, Figure, panels
from topologies import Json

Row = Json
_MAX_LINKS = 40
_ENOUGH = 0.95


def bulk_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Figure name -> matplotlib figure, for the rows of one ``testbed bulk`` run (one a switching)."""
    drawn = {"throughput": throughput_figure(rows), "time-frames": timeline_figure(rows)}
    first = rows[0]
    if first["frame_times_s"]:
        drawn["bottlenecks-in-every-frame"] = busy_figure(first)
    if any(load[2] for load in first["link_loads"]):
        drawn["bytes-of-links"] = bytes_figure(first)
    return drawn


def throughput_figure(rows: Sequence[Row]) -> Figure:
    """Measured throughput of each switching next to the predicted liquid throughput."""
    figure, (axes,) = panels(7, 1.8 + 0.6 * len(rows))
    names = [f"{row['switching']}\n{row['method']}" for row in rows]
    values = [row["throughput_bps"] / 1e6 for row in rows]
    bars = axes.barh(names, values, color=[BLUE, ORANGE][: len(rows)], height=0.6)
    labels = [
        f"{v:.0f}  ({row['ratio']:.2f} of liquid)" for v, row in zip(values, rows, strict=True)
    ]
    for text in axes.bar_label(bars, labels, padding=4, zorder=3):
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    liquid = rows[0]["liquid_throughput_bps"] / 1e6
    axes.axvline(
        liquid, color=INK, linewidth=1.2, label=f"predicted liquid throughput, {liquid:.0f} Mbit/s"
    )
    axes.axvline(_ENOUGH * liquid, color=INK, linewidth=1, linestyle=":", label=f"{_ENOUGH} of it")
    axes.set(xlim=(0, 1.6 * max(liquid, *values)), xlabel="payload delivered, Mbit/s")
    figure.set_label(
        f"Throughput of {rows[0]['transfers']} messages of {rows[0]['message_bytes'] / 1e6:g} MB over"
        f" {rows[0]['network']}, by switching, beside what a liquid schedule would reach (solid) and the"
        " share of it that a run must reach (dotted)."
    )
    axes.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def timeline_figure(rows: Sequence[Row]) -> Figure:
    """Every time frame of each run from its begin to its end; the colour says how busy its bottlenecks were."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable

    figure, (axes,) = panels(9, 1.4 + 0.7 * len(rows))
    colours = colormaps["viridis"]
    for place, row in enumerate(rows):
        busy = np.mean(row["bottleneck_busy"], axis=0) if row["frame_times_s"] else []
        for number, (begin, end) in enumerate(row["frame_times_s"]):
            low = place + (0.08 if number % 2 else -0.08) - 0.3
            style = {"color": colours(busy[number]), "edgecolor": "white", "linewidth": 0.4}
            axes.broken_barh([(begin, end - begin)], (low, 0.6), **style)
    planned_bits = rows[0]["transfers"] * rows[0]["message_bytes"] * 8
    ideal = planned_bits / rows[0]["liquid_throughput_bps"]
    axes.axvline(
        ideal, color=INK, linestyle=":", label=f"predicted end of a liquid schedule, {ideal:.1f} s"
    )
    axes.set_yticks(
        range(len(rows)), [f"{row['switching']}, {row['frames']} frames" for row in rows]
    )
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, None), xlabel="time since the start, s")
    figure.set_label(
        "Time frames of each run from their begin to their end; the colour says for which fraction of a frame the"
        " bottlenecks carried data. Dotted: when a liquid schedule would end."
    )
    figure.legend(loc="outside lower center")
    figure.colorbar(
        ScalarMappable(cmap=colours), ax=axes, label="bottlenecks busy,\nfraction of the frame"
    )
    return figure


def busy_figure(row: Row) -> Figure:
    """Bottlenecks against time frames: the fraction of each frame in which each bottleneck carried data."""
    names, shares = row["bottlenecks"][:_MAX_LINKS], np.array(row["bottleneck_busy"][:_MAX_LINKS])
    figure, (axes,) = panels(9, 1.5 + 0.22 * len(names))
    axes.grid(False)
    image = axes.imshow(
        shares, aspect="auto", vmin=0, vmax=1, cmap="viridis", interpolation="nearest"
    )
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("time frame")
    left_out = len(row["bottlenecks"]) - len(names)
    more = f" ({left_out} more bottlenecks not shown)" if left_out else ""
    axes.set_title(
        f"{row['method']}, {row['switching']} switching: on average {shares.mean():.1%} busy{more}"
    )
    figure.colorbar(image, ax=axes, label="busy, fraction of the frame")
    figure.set_label(
        "Bottleneck links, one a row, against time frames: the fraction of each frame in which the link carried data."
        " In a liquid schedule over links of one rate every bottleneck is busy in every frame;"
        f" here {shares.mean():.1%} on average{more}."
    )
    return figure


def bytes_figure(row: Row) -> Figure:
    """Bytes that every link carried by the interfaces' counters, next to what the schedule puts on it."""
    loads = sorted(row["link_loads"], key=lambda entry: (-entry[1], entry[0]))
    figure, (axes,) = panels(9, 3.4)
    places = range(len(loads))
    planned = [load * row["message_bytes"] / 1e6 for _, load, _ in loads]
    axes.step(places, planned, where="mid", color=INK, label="schedule: messages x size")
    counted, label = (
        [octets / 1e6 for *_, octets in loads],
        "counted, headers and acknowledgements included",
    )
    axes.plot(places, counted, ".", color=BLUE, label=label)
    axes.set(ylim=(0, None), xlabel="links that carry messages, by load", ylabel="MB")
    figure.set_label(
        "Bytes that each link carried, by its switches' counters (dots, headers included), beside what the schedule"
        " puts on it (line); links in the order of their load."
    )
    axes.legend()
    return figure
