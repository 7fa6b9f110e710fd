"""Figures of ``testbed simulate``, drawn from its rows alone: latency and throughput over load, what is in buffers over
time, NAC's moves, and a deadlock as the cycle that it is.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from testbed.model.studies import grouped
from testbed.report.drawing.charts import HUES, Figure, draw_lines, panels
from topologies import Json

ENOUGH_SEEDS = 3
"""So many values have an interval that is worth drawing."""
SATURATED = 3.0
"""Mean latency over that of the lowest load, from which on a load counts as saturated (in a longer run it would be
higher still)."""
THROUGHPUT, INTERVAL = (
    "delivered by every sender, share of a host's link",
    ", whiskers: 95 % interval",
)
_COLOUR, _OTHER = "#3b6ea5", "#c98b2b"


def simulation_figures(rows: Sequence[Json]) -> dict[str, Figure]:
    """Figure name -> matplotlib figure, for the rows of one run (one a rate and seed)."""
    drawn: dict[str, Figure] = {}
    if any(row["mean_latency_s"] is not None and not row["deadlocked"] for row in rows):
        drawn["latency-over-load"] = _over_load(
            rows, "mean latency, µs, source queue included", _latency_us
        )
        drawn["throughput-over-load"] = _over_load(
            rows, THROUGHPUT, lambda row: row["load"] * row["throughput"]
        )
    drawn["packets-over-time"] = _over_time(
        rows,
        "packets_in_network",
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
    stuck = next((row for row in rows if row["deadlock_cycle"]), None)
    if stuck is not None:
        drawn["deadlock"] = _cycle(stuck)
    return drawn


def _latency_us(row: Json) -> float | None:
    return None if row["mean_latency_s"] is None else 1e6 * float(row["mean_latency_s"])


def _over_load(rows: Sequence[Json], words: str, value: Callable[[Json], float | None]) -> Figure:
    """Its mean by load, of runs without a deadlock, with its 95 % interval where there are values enough."""
    done = [row for row in rows if not row["deadlocked"] and value(row) is not None]
    means = grouped(done, lambda row: ("measured", row["load"]), value)
    samples: dict[tuple[str, float], list[float] | tuple[float, float]] = {
        place: values if len(values) >= ENOUGH_SEEDS else (statistics.fmean(values), 0.0)
        for place, values in means.items()
    }
    if words == THROUGHPUT:
        samples |= {
            ("all that is offered", load): (load, 0.0)
            for load in sorted({row["load"] for row in rows})
        }
    saturated, seeds = saturation_load(rows), len({row["seed"] for row in rows})
    above = f"latency above {SATURATED:g} times the lowest load's"
    upright = (
        None if saturated is None else (saturated, f"saturated from {saturated:.3g} on: {above}")
    )
    mean = (
        f"Mean of {seeds} seed{'s' if seeds > 1 else ''}{INTERVAL if seeds >= ENOUGH_SEEDS else ''}"
    )
    figure = draw_lines(
        "", samples, x="load of every sender, as a share of a host's link", y=words, upright=upright
    )
    (axes,) = figure.axes
    for number, load in enumerate(sorted({row["load"] for row in rows if row["deadlocked"]})):
        said = "a run deadlocked (left out of the mean)" if number == 0 else None
        axes.axvline(load, color=_OTHER, linestyle=":", label=said)
    axes.set(ylim=(0, None))
    axes.legend(fontsize="small")
    figure.set_label(
        f"{words[:1].upper()}{words[1:]}, against the load that every sender offers; {mean[:1].lower()}{mean[1:]}."
        + (
            f" Dotted: from where on the network is saturated, {above}."
            if saturated is not None
            else ""
        )
    )
    return figure


def saturation_load(rows: Sequence[Json]) -> float | None:
    """The least load at which mean latency is above three times that of the lowest load; None where no load is that
    high."""
    done = [row for row in rows if row["mean_latency_s"] is not None and not row["deadlocked"]]
    means = {
        load: statistics.fmean(of)
        for load, of in sorted(grouped(done, "load", "mean_latency_s").items())
    }
    lowest = next(iter(means.values()), 0.0)
    return next((load for load, mean in means.items() if mean > SATURATED * lowest), None)


def _over_time(
    rows: Sequence[Json],
    name: str,
    words: str,
    about: str,
    drawstyle: Literal["default", "steps-pre"] = "default",
) -> Figure:
    figure, (axes,) = panels(7, 4)
    first = {row["load"]: row for row in reversed(rows)}  # of the seeds of each load
    for number, load in enumerate(sorted(first)):
        over, colour = first[load]["over_time"], HUES[number % len(HUES)]
        axes.plot(
            [1e3 * t for t in over["time_s"]],
            over[name],
            color=colour,
            label=f"load {load:g}",
            drawstyle=drawstyle,
        )
    axes.set(xlabel="time, ms", ylabel=words, ylim=(0, None))
    figure.set_label(about)
    axes.legend(fontsize="small", ncols=2)
    return figure


def _cycle(row: Json) -> Figure:
    """Routers on a ring; an arrow is a link on which packets wait for the next arrow's."""
    links = row["deadlock_cycle"]
    figure, (axes,) = panels(6, 6)
    angles = [math.pi / 2 - 2 * math.pi * k / len(links) for k in range(len(links))]
    places = [(math.cos(a), math.sin(a)) for a in angles]
    arrow = {
        "arrowstyle": "-|>",
        "color": _COLOUR,
        "shrinkA": 18,
        "shrinkB": 18,
        "connectionstyle": "arc3,rad=-0.12",
    }
    for k, (source, _) in enumerate(links):
        axes.annotate(
            "", xy=places[(k + 1) % len(links)], xytext=places[k], arrowprops=arrow | {"lw": 1.8}
        )
        axes.annotate(
            source,
            places[k],
            ha="center",
            va="center",
            bbox={"boxstyle": "circle", "fc": "white", "ec": _OTHER},
        )
    at = "" if row["deadlocked_at_s"] is None else f" since {1e3 * row['deadlocked_at_s']:.3f} ms"
    axes.set_title(
        f"Deadlock at load {row['load']:g}, seed {row['seed']}: {len(links)} links wait for each other{at}"
    )
    figure.set_label(
        f"The cycle of a deadlock at load {row['load']:g}: packets on each of these {len(links)} links, drawn as "
        "arrows between routers, wait for the next link, so that none can ever go on."
    )
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    axes.axis("off")
    return figure
