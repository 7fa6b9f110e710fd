"""Figures of ``testbed simulate``, drawn from its rows alone.

They show latency and throughput over load, the packets in buffers over time, a deadlock as a cycle
of links, and the packets that deadlock avoidance by non-blocking adaptive cycles (NAC) moved.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from testbed.model.studies import grouped
from testbed.report.drawing.charts import HUES, Figure, draw_lines, panels
from topologies import Json

# A confidence interval is drawn if there are at least this many values.
ENOUGH_SEEDS = 3

# A load is saturated if its mean latency exceeds that of the lowest load by this factor. In a
# longer run the latency would be higher still.
SATURATED = 3.0

THROUGHPUT = "delivered by every sender, share of a host's link"
INTERVAL = ", whiskers: 95 % interval"

_LINK_COLOUR = "#3b6ea5"
_DEADLOCK_COLOUR = "#c98b2b"


def simulation_figures(rows: Sequence[Json]) -> dict[str, Figure]:
    """Return the matplotlib figures of the rows of one run (one per load and seed), by name."""
    figures: dict[str, Figure] = {}
    if any(row["mean_latency_s"] is not None and not row["deadlocked"] for row in rows):
        label = "mean latency, µs, source queue included"
        figures["latency-over-load"] = _over_load(rows, label, _latency_us)
        figures["throughput-over-load"] = _over_load(rows, THROUGHPUT, _throughput)
    figures["packets-over-time"] = _over_time(
        rows,
        "packets_in_network",
        "packets in the network's buffers",
        "Packets in the network's buffers over simulated time, one line a load (first seed).",
    )
    if any(sum(row["over_time"]["nac_moves"]) for row in rows):
        figures["nac-moves"] = _over_time(
            rows,
            "nac_moves",
            "packets that NAC moved, in each interval",
            "Packets that NAC moved to avoidance buffers, in each interval of time, one line a "
            "load (first seed).",
            drawstyle="steps-pre",
        )
    deadlocked = [row for row in rows if row["deadlock_cycle"]]
    if deadlocked:
        figures["deadlock"] = _cycle(deadlocked[0])
    return figures


def _latency_us(row: Json) -> float | None:
    return None if row["mean_latency_s"] is None else 1e6 * float(row["mean_latency_s"])


def _throughput(row: Json) -> float | None:
    """Return the delivered load, as a share of a host's link."""
    return float(row["load"] * row["throughput"])


def _over_load(rows: Sequence[Json], label: str, value: Callable[[Json], float | None]) -> Figure:
    """Draw the mean of a value by load, with its 95 % interval if there are enough seeds.

    Args:
        rows: The rows. Those of deadlocked runs are left out.
        label: Label of the vertical axis.
        value: Returns the value of a row.
    """
    seeds = len(grouped(rows, "seed"))
    saturated_from = saturation_load(rows)
    condition = f"latency above {SATURATED:g} times the lowest load's"
    upright = None
    if saturated_from is not None:
        upright = (saturated_from, f"saturated from {saturated_from:.3g} on: {condition}")
    figure = draw_lines(
        "",
        _samples_by_load(rows, label, value),
        x="load of every sender, as a share of a host's link",
        y=label,
        upright=upright,
    )
    (axes,) = figure.axes
    deadlocked_loads = sorted({row["load"] for row in rows if row["deadlocked"]})
    for number, load in enumerate(deadlocked_loads):
        # The legend explains the lines once.
        line_label = "a run deadlocked (left out of the mean)" if number == 0 else None
        axes.axvline(load, color=_DEADLOCK_COLOUR, linestyle=":", label=line_label)
    axes.set(ylim=(0, None))
    axes.legend(fontsize="small")
    caption = f"{label[:1].upper()}{label[1:]}, against the load that every sender offers; mean of "
    caption += f"{seeds} seed{'s' if seeds > 1 else ''}"
    if seeds >= ENOUGH_SEEDS:
        caption += INTERVAL
    caption += "."
    if saturated_from is not None:
        caption += f" Dotted: from where on the network is saturated, {condition}."
    figure.set_label(caption)
    return figure


def _samples_by_load(
    rows: Sequence[Json], label: str, value: Callable[[Json], float | None]
) -> dict[tuple[str, float], list[float] | tuple[float, float]]:
    """Return the values to be drawn, by (name of the line, load).

    These are all values if there are at least ``ENOUGH_SEEDS``, and otherwise (mean, 0).
    """
    measured = [row for row in rows if not row["deadlocked"] and value(row) is not None]
    values_by_load = grouped(measured, "load", value)
    samples: dict[tuple[str, float], list[float] | tuple[float, float]] = {}
    for load, values in values_by_load.items():
        samples["measured", load] = (
            values if len(values) >= ENOUGH_SEEDS else (statistics.fmean(values), 0.0)
        )
    if label == THROUGHPUT:
        for load in sorted(grouped(rows, "load")):
            samples["all that is offered", load] = (load, 0.0)
    return samples


def saturation_load(rows: Sequence[Json]) -> float | None:
    """Return the lowest load whose mean latency exceeds SATURATED times that of the lowest load.

    None if there is no such load. Deadlocked runs are left out.
    """
    measured = [row for row in rows if row["mean_latency_s"] is not None and not row["deadlocked"]]
    latencies_by_load = grouped(measured, "load", "mean_latency_s")
    if not latencies_by_load:
        return None
    loads: list[float] = sorted(latencies_by_load)
    limit_s = SATURATED * statistics.fmean(latencies_by_load[loads[0]])
    for load in loads:
        if statistics.fmean(latencies_by_load[load]) > limit_s:
            return load
    return None


def _over_time(
    rows: Sequence[Json],
    name: str,
    label: str,
    caption: str,
    drawstyle: Literal["default", "steps-pre"] = "default",
) -> Figure:
    """Draw a curve of ``over_time`` of the first seed of each load.

    Args:
        rows: The rows.
        name: Key of the curve.
        label: Label of the vertical axis.
        caption: Caption of the figure.
        drawstyle: How matplotlib connects the points.
    """
    figure, (axes,) = panels(7, 4)
    first_seed = {row["load"]: row for row in reversed(rows)}
    for number, load in enumerate(sorted(first_seed)):
        over_time = first_seed[load]["over_time"]
        axes.plot(
            [1e3 * t for t in over_time["time_s"]],
            over_time[name],
            color=HUES[number % len(HUES)],
            label=f"load {load:g}",
            drawstyle=drawstyle,
        )
    axes.set(xlabel="time, ms", ylabel=label, ylim=(0, None))
    figure.set_label(caption)
    axes.legend(fontsize="small", ncols=2)
    return figure


def _cycle(row: Json) -> Figure:
    """Draw a deadlock: routers on a ring, and arrows for links whose packets wait for the next."""
    links = row["deadlock_cycle"]
    figure, (axes,) = panels(6, 6)
    positions = []
    for k in range(len(links)):
        angle = math.pi / 2 - 2 * math.pi * k / len(links)
        positions.append((math.cos(angle), math.sin(angle)))
    arrow = {
        "arrowstyle": "-|>",
        "color": _LINK_COLOUR,
        "shrinkA": 18,
        "shrinkB": 18,
        "connectionstyle": "arc3,rad=-0.12",
        "lw": 1.8,
    }
    circle = {"boxstyle": "circle", "fc": "white", "ec": _DEADLOCK_COLOUR}
    for k, (source, _) in enumerate(links):
        next_position = positions[(k + 1) % len(links)]
        axes.annotate("", xy=next_position, xytext=positions[k], arrowprops=arrow)
        axes.annotate(source, positions[k], ha="center", va="center", bbox=circle)
    since = ""
    if row["deadlocked_at_s"] is not None:
        since = f" since {1e3 * row['deadlocked_at_s']:.3f} ms"
    axes.set_title(
        f"Deadlock at load {row['load']:g}, seed {row['seed']}: {len(links)} links wait for each "
        f"other{since}"
    )
    figure.set_label(
        f"The cycle of a deadlock at load {row['load']:g}: packets on each of these {len(links)} "
        "links, drawn as arrows between routers, wait for the next link, so that none can ever go "
        "on."
    )
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    axes.axis("off")
    return figure
