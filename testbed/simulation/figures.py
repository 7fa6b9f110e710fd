"""Figures of ``testbed simulate``, drawn from its rows alone: latency and throughput over load, what is in buffers over
time, NAC's moves, and a deadlock as the cycle that it is.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.model.studies.samples import half_width, whiskers
from testbed.report.drawing.charts import Axes, Figure, panels

Row = Mapping[str, Any]
ENOUGH_SEEDS = 3
"""So many values have an interval that is worth drawing."""
SATURATED = 3.0
"""Mean latency over that of the lowest load, from which on a load counts as saturated (in a longer run it would be
higher still)."""
_COLOUR, _OTHER = "#3b6ea5", "#c98b2b"


def simulation_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Figure name -> matplotlib figure, for the rows of one run (one a rate and seed)."""
    drawn: dict[str, Figure] = {}
    if any(row["mean_latency_s"] is not None and not row["deadlocked"] for row in rows):
        drawn["latency-over-load"] = _over_load(rows, "mean_latency_s", 1e6, "mean latency, µs, source queue included")
        drawn["throughput-over-load"] = _over_load(
            rows, "accepted", 1.0, "delivered, as a share of a link of every sender"
        )
    drawn["packets-over-time"] = _over_time(
        rows,
        "in_network",
        "packets in the network's buffers",
        "Packets in the network's buffers over simulated time, one line a load (first seed).",
    )
    if any(sum(row["over_time"]["nac_moves"]) for row in rows):
        drawn["nac-moves"] = _over_time(
            rows,
            "nac_moves",
            "packets that NAC moved, in each interval",
            "Packets that NAC moved to avoidance buffers, in each interval of time, one line a load (first seed).",
            drawstyle="steps-pre",
        )
    stuck = next((row for row in rows if row["circle"]), None)
    if stuck is not None:
        drawn["deadlock"] = _cycle(stuck)
    return drawn


def whiskers_of(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean, and how far its whiskers reach below and above it: of three or more values the 95 % interval of the mean,
    not below 0 for what cannot be negative; of two, where that interval says nothing, the two themselves.

    >>> [round(x, 2) for x in whiskers_of([1.0, 1.0, 10.0])]
    [4.0, 4.0, 12.91]
    >>> whiskers_of([1.0, 3.0])
    (2.0, 1.0, 1.0)
    """
    mean = statistics.fmean(values)
    if len(values) < ENOUGH_SEEDS:
        return mean, mean - min(values), max(values) - mean
    return mean, *whiskers(mean, half_width(values))


def _over_load(rows: Sequence[Row], name: str, factor: float, words: str) -> Figure:
    figure, (axes,) = panels(7, 4)
    points = []
    for load in sorted({row["load"] for row in rows}):
        own = [row for row in rows if row["load"] == load and not row["deadlocked"]]
        found = [load * row["throughput"] if name == "accepted" else row[name] for row in own]
        values = [factor * value for value in found if value is not None]
        if values:
            points.append((load, *whiskers_of(values)))
    if points:
        loads, means, below, above = zip(*points, strict=True)
        axes.errorbar(loads, means, yerr=(below, above), marker="o", capsize=3, color=_COLOUR)
    _mark_saturation(axes, rows, ideal=name == "accepted")
    stuck = sorted({row["load"] for row in rows if row["deadlocked"]})
    for number, load in enumerate(stuck):
        axes.axvline(
            load, color=_OTHER, linestyle=":", label="a run deadlocked (left out of the mean)" if number == 0 else None
        )
    axes.set(xlabel="load of every sender, as a share of a link", ylabel=words, ylim=(0, None))
    seeds = len({row["seed"] for row in rows})
    whiskers = ", whiskers: 95 % interval" if seeds >= ENOUGH_SEEDS else ", whiskers: both" if seeds > 1 else ""
    axes.set_title(f"Mean of {seeds} seed{'s' if seeds > 1 else ''}{whiskers}")
    figure.set_label(
        f"{words[:1].upper()}{words[1:]}, against the load that every sender offers; mean of {seeds} "
        f"seed{'s' if seeds > 1 else ''}{whiskers}. Shaded: loads at which the network is saturated, latency being "
        f"above {SATURATED:g} times that of the lowest load."
    )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")
    return figure


def saturation_load(rows: Sequence[Row]) -> float | None:
    """The least load at which mean latency is above three times that of the lowest load; None where no load is that
    high."""
    latency: dict[float, list[float]] = {}
    for row in rows:
        if row["mean_latency_s"] is not None and not row["deadlocked"]:
            latency.setdefault(row["load"], []).append(row["mean_latency_s"])
    means = {load: statistics.fmean(latency[load]) for load in sorted(latency)}
    lowest = next(iter(means.values()), 0.0)
    return next((load for load, mean in means.items() if mean > SATURATED * lowest), None)


def _mark_saturation(axes: Axes, rows: Sequence[Row], *, ideal: bool) -> None:
    """An upright where latency says so; ``ideal``: also the line on which everything that is offered is delivered."""
    loads = sorted({row["load"] for row in rows})
    if ideal and len(loads) > 1:
        ends = (loads[0], loads[-1])
        axes.plot(ends, ends, color="grey", linestyle="--", linewidth=1, label="all that is offered")
    saturated = saturation_load(rows)
    if saturated is not None:
        words = f"saturated from {saturated:.3g} on: latency above {SATURATED:g} times the lowest load's"
        axes.axvspan(saturated, loads[-1], color=_OTHER, alpha=0.12, label=words)


def _over_time(rows: Sequence[Row], name: str, words: str, about: str, **style: str) -> Figure:
    from matplotlib import colormaps

    figure, (axes,) = panels(7, 4)
    first = {row["load"]: row for row in reversed(rows)}  # of the seeds of each load
    for number, load in enumerate(sorted(first)):
        over, colour = first[load]["over_time"], colormaps["viridis"](number / max(1, len(first) - 1) * 0.9)
        axes.plot([1e3 * t for t in over["time_s"]], over[name], color=colour, label=f"load {load:g}", **style)
    axes.set(xlabel="time, ms", ylabel=words, ylim=(0, None))
    figure.set_label(about)
    axes.legend(fontsize="small", ncols=2)
    return figure


def _cycle(row: Row) -> Figure:
    """Routers on a ring; an arrow is a link on which packets wait for the next arrow's."""
    links = row["circle"]
    figure, (axes,) = panels(6, 6)
    angles = [math.pi / 2 - 2 * math.pi * k / len(links) for k in range(len(links))]
    places = [(math.cos(a), math.sin(a)) for a in angles]
    arrow = {"arrowstyle": "-|>", "color": _COLOUR, "shrinkA": 18, "shrinkB": 18, "connectionstyle": "arc3,rad=-0.12"}
    for k, (source, _) in enumerate(links):
        axes.annotate("", xy=places[(k + 1) % len(links)], xytext=places[k], arrowprops=arrow | {"lw": 1.8})
        axes.annotate(
            source, places[k], ha="center", va="center", bbox={"boxstyle": "circle", "fc": "white", "ec": _OTHER}
        )
    at = "" if row["deadlocked_at_s"] is None else f" since {1e3 * row['deadlocked_at_s']:.3f} ms"
    axes.set_title(f"Deadlock at load {row['load']:g}, seed {row['seed']}: {len(links)} links wait for each other{at}")
    figure.set_label(
        f"The cycle of a deadlock at load {row['load']:g}: packets on each of these {len(links)} links, drawn as "
        "arrows between routers, wait for the next link, so that none can ever go on."
    )
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    axes.axis("off")
    return figure
