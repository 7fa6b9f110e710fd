"""Figures of bulk runs, drawn from their stored rows: throughput, time frames and links."""

from collections.abc import Sequence

import numpy as np

from testbed.report.drawing.charts import BLUE, INK, ORANGE, Figure, panels
from topologies import Json

Row = Json
# Number of bottlenecks that fit into a figure.
_MAX_LINKS = 40
# Share of the liquid throughput that a run must reach.
_MIN_RATIO = 0.95


def bulk_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Return matplotlib figures by name, for the rows of one run (one row per switching)."""
    figures = {"throughput": throughput_figure(rows), "time-frames": timeline_figure(rows)}
    first = rows[0]
    if first["frame_times_s"]:
        figures["bottlenecks-in-every-frame"] = busy_figure(first)
    if any(load[2] for load in first["link_loads"]):
        figures["bytes-of-links"] = bytes_figure(first)
    return figures


def throughput_figure(rows: Sequence[Row]) -> Figure:
    """Draw the measured throughput of each switching, and the predicted liquid throughput."""
    figure, (axes,) = panels(7, 1.8 + 0.6 * len(rows))
    names = [f"{row['switching']}\n{row['method']}" for row in rows]
    values = [row["throughput_bps"] / 1e6 for row in rows]
    bars = axes.barh(names, values, color=[BLUE, ORANGE][: len(rows)], height=0.6)
    labels = []
    for value, row in zip(values, rows, strict=True):
        labels.append(f"{value:.0f}  ({row['ratio']:.2f} of liquid)")
    for text in axes.bar_label(bars, labels, padding=4, zorder=3):
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    liquid = rows[0]["liquid_throughput_bps"] / 1e6
    axes.axvline(
        liquid, color=INK, linewidth=1.2, label=f"predicted liquid throughput, {liquid:.0f} Mbit/s"
    )
    axes.axvline(
        _MIN_RATIO * liquid, color=INK, linewidth=1, linestyle=":", label=f"{_MIN_RATIO} of it"
    )
    axes.set(xlim=(0, 1.6 * max(liquid, *values)), xlabel="payload delivered, Mbit/s")
    figure.set_label(
        f"Throughput of {rows[0]['transfers']} messages of {rows[0]['message_bytes'] / 1e6:g} MB "
        f"over {rows[0]['network']}, by switching, beside what a liquid schedule would reach "
        "(solid) and the share of it that a run must reach (dotted)."
    )
    axes.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def timeline_figure(rows: Sequence[Row]) -> Figure:
    """Draw the time frames of each run; the colour shows how busy the bottlenecks were."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable

    figure, (axes,) = panels(9, 1.4 + 0.7 * len(rows))
    colours = colormaps["viridis"]
    for position, row in enumerate(rows):
        if not row["frame_times_s"]:
            continue
        busy = np.mean(row["bottleneck_busy"], axis=0)
        for number, (begin_s, end_s) in enumerate(row["frame_times_s"]):
            # Successive frames are shifted, so that overlaps are visible.
            shift = -0.08
            if number % 2:
                shift = 0.08
            low = position + shift - 0.3
            style = {"color": colours(busy[number]), "edgecolor": "white", "linewidth": 0.4}
            axes.broken_barh([(begin_s, end_s - begin_s)], (low, 0.6), **style)
    planned_bits = rows[0]["transfers"] * rows[0]["message_bytes"] * 8
    ideal_s = planned_bits / rows[0]["liquid_throughput_bps"]
    label = f"predicted end of a liquid schedule, {ideal_s:.1f} s"
    axes.axvline(ideal_s, color=INK, linestyle=":", label=label)
    names = [f"{row['switching']}, {row['frames']} frames" for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, None), xlabel="time since the start, s")
    figure.set_label(
        "Time frames of each run from their begin to their end; the colour says for which fraction "
        "of a frame the bottlenecks carried data. Dotted: when a liquid schedule would end."
    )
    figure.legend(loc="outside lower center")
    figure.colorbar(
        ScalarMappable(cmap=colours), ax=axes, label="bottlenecks busy,\nfraction of the frame"
    )
    return figure


def busy_figure(row: Row) -> Figure:
    """Draw the fraction of each time frame in which each bottleneck carried data."""
    names = row["bottlenecks"][:_MAX_LINKS]
    shares = np.array(row["bottleneck_busy"][:_MAX_LINKS])
    figure, (axes,) = panels(9, 1.5 + 0.22 * len(names))
    axes.grid(False)
    image = axes.imshow(
        shares, aspect="auto", vmin=0, vmax=1, cmap="viridis", interpolation="nearest"
    )
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("time frame")
    left_out = len(row["bottlenecks"]) - len(names)
    more = ""
    if left_out:
        more = f" ({left_out} more bottlenecks not shown)"
    axes.set_title(
        f"{row['method']}, {row['switching']} switching: on average {shares.mean():.1%} busy{more}"
    )
    figure.colorbar(image, ax=axes, label="busy, fraction of the frame")
    figure.set_label(
        "Bottleneck links, one a row, against time frames: the fraction of each frame in which the "
        "link carried data. In a liquid schedule over links of one rate every bottleneck is busy "
        f"in every frame; here {shares.mean():.1%} on average{more}."
    )
    return figure


def bytes_figure(row: Row) -> Figure:
    """Draw the bytes that every link carried, by the interfaces' counters, and those planned."""
    loads = sorted(row["link_loads"], key=lambda entry: (-entry[1], entry[0]))
    figure, (axes,) = panels(9, 3.4)
    positions = range(len(loads))
    planned = [load * row["message_bytes"] / 1e6 for _, load, _ in loads]
    axes.step(positions, planned, where="mid", color=INK, label="schedule: messages x size")
    counted = [octets / 1e6 for *_, octets in loads]
    label = "counted, headers and acknowledgements included"
    axes.plot(positions, counted, ".", color=BLUE, label=label)
    axes.set(ylim=(0, None), xlabel="links that carry messages, by load", ylabel="MB")
    figure.set_label(
        "Bytes that each link carried, by its switches' counters (dots, headers included), beside "
        "what the schedule puts on it (line); links in the order of their load."
    )
    axes.legend()
    return figure
