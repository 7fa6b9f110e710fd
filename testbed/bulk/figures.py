"""Figures of bulk runs, drawn from their rows alone: time frames on a line, bottlenecks busy or idle, bytes against the
schedule."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Row = Mapping[str, Any]
_MAX_LINKS = 40
_ENOUGH = 0.95


def bulk_figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Figure name -> matplotlib figure, for the rows of one ``testbed bulk`` run (one a switching)."""
    drawn = {"throughput": throughput_figure(rows), "time-frames": timeline_figure(rows)}
    first = rows[0]
    if first["frame_times_s"]:
        drawn["bottlenecks-in-every-frame"] = busy_figure(first)
    if any(load[2] for load in first["link_loads"]):
        drawn["bytes-of-links"] = bytes_figure(first)
    return drawn


def throughput_figure(rows: Sequence[Row]) -> Any:
    """Measured throughput of each switching next to the predicted liquid throughput."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 1.2 + 0.6 * len(rows)))
    names = [f"{row['switching']}\n{row['method']}" for row in rows]
    values = [row["throughput_bps"] / 1e6 for row in rows]
    bars = axes.barh(names, values, color=["#3b6ea5", "#c98b2b"][: len(rows)], height=0.6)
    labels = [f"{v:.0f}  ({row['ratio']:.2f} of liquid)" for v, row in zip(values, rows, strict=True)]
    for text in axes.bar_label(bars, labels, padding=4, zorder=3):
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    liquid = rows[0]["liquid_throughput_bps"] / 1e6
    axes.axvline(liquid, color="black", linewidth=1.2, label=f"predicted liquid throughput, {liquid:.0f} Mbit/s")
    axes.axvline(_ENOUGH * liquid, color="black", linewidth=1, linestyle=":", label=f"{_ENOUGH} of it")
    axes.set_xlim(0, 1.6 * max(liquid, *values))
    axes.set_xlabel("payload delivered, Mbit/s")
    axes.spines[["top", "right"]].set_visible(False)
    figure.set_label(
        f"Throughput of {rows[0]['transfers']} messages of {rows[0]['message_bytes'] / 1e6:g} MB over"
        f" {rows[0]['network']}, by switching, beside what a liquid schedule would reach (solid) and the"
        " share of it that a run must reach (dotted)."
    )
    axes.invert_yaxis()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.35 if len(rows) > 1 else -0.5), ncols=2, frameon=False)
    return figure


def timeline_figure(rows: Sequence[Row]) -> Any:
    """Every time frame of each run from its begin to its end; the colour says how busy its bottlenecks were."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 1.4 + 0.7 * len(rows)), layout="constrained")
    colours, scale = plt.get_cmap("viridis"), plt.Normalize(0, 1)
    for place, row in enumerate(rows):
        busy = np.mean(row["bottleneck_busy"], axis=0) if row["frame_times_s"] else []
        for number, (begin, end) in enumerate(row["frame_times_s"]):
            axes.broken_barh(
                [(begin, end - begin)],
                (place + (0.08 if number % 2 else -0.08) - 0.3, 0.6),
                color=colours(scale(busy[number])),
                edgecolor="white",
                linewidth=0.4,
            )
    ideal = rows[0]["bottleneck_load"] * rows[0]["message_bytes"] * 8 / rows[0]["goodput_bps"]
    axes.axvline(ideal, color="black", linestyle=":", label=f"predicted end of a liquid schedule, {ideal:.1f} s")
    axes.set_yticks(range(len(rows)), [f"{row['switching']}, {row['frames']} frames" for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, None)
    axes.set_xlabel("time since the start, s")
    figure.set_label(
        "Time frames of each run from their begin to their end; the colour says for which fraction of a frame the"
        " bottlenecks carried data. Dotted: when a liquid schedule would end."
    )
    axes.legend(loc="upper left", bbox_to_anchor=(0, 1.25), frameon=False)
    figure.colorbar(
        plt.cm.ScalarMappable(norm=scale, cmap=colours), ax=axes, label="bottlenecks busy,\nfraction of the frame"
    )
    return figure


def busy_figure(row: Row) -> Any:
    """Bottlenecks against time frames: the fraction of each frame in which each bottleneck carried data."""
    from matplotlib import pyplot as plt

    names, shares = row["bottlenecks"][:_MAX_LINKS], np.array(row["bottleneck_busy"][:_MAX_LINKS])
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.22 * len(names)), layout="constrained")
    image = axes.imshow(shares, aspect="auto", vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("time frame")
    left_out = len(row["bottlenecks"]) - len(names)
    more = f" ({left_out} more bottlenecks not shown)" if left_out else ""
    axes.set_title(
        f"{row['method']}, {row['switching']} switching: on average {shares.mean():.1%} busy{more}", fontsize=10
    )
    figure.colorbar(image, ax=axes, label="busy, fraction of the frame")
    figure.set_label(
        "Bottleneck links, one a row, against time frames: the fraction of each frame in which the link carried data."
        f" In a liquid schedule every bottleneck is busy in every frame; here {shares.mean():.1%} on average{more}."
    )
    return figure


def bytes_figure(row: Row) -> Any:
    """Bytes that every link carried by the interfaces' counters, next to what the schedule puts on it."""
    from matplotlib import pyplot as plt

    loads = sorted(row["link_loads"], key=lambda entry: (-entry[1], entry[0]))
    figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
    places = np.arange(len(loads))
    message = row["message_bytes"] / 1e6
    axes.step(
        places, [load * message for _, load, _ in loads], where="mid", color="black", label="schedule: messages x size"
    )
    axes.plot(
        places,
        [octets / 1e6 for *_, octets in loads],
        ".",
        color="#3b6ea5",
        label="counted, headers and acknowledgements included",
    )
    axes.set_ylim(0, None)
    axes.set_xlabel("links that carry messages, by load")
    axes.set_ylabel("MB")
    figure.set_label(
        "Bytes that each link carried, by its switches' counters (dots, headers included), beside what the schedule"
        " puts on it (line); links in the order of their load."
    )
    axes.legend(frameon=False)
    return figure
