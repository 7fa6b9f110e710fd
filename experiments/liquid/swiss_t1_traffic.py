"""The 362 traffic patterns of Swiss-T1 as transfers over links, for the studies of liquid scheduling.

Source: Gabrielyan 2007, subsection 3.8.1, Figure 41.
"""

import math
from collections.abc import Mapping, Sequence

from testbed.model.studies import Check, Claim, Points, Rows
from testbed.model.traffic import Traffic
from testbed.report.drawing.charts import GREY, HUES, INK, MARKS, Figure, Mark, chart
from testbed.scheduling.traffic.allocation import RatedAllocation, distinct_allocations
from testbed.scheduling.traffic.patterns import all_to_all
from topologies.swiss_t1 import swiss_t1

QUICK_PATTERNS = 20
SIZE = (10, 4.6)
"""Of a figure with a place for each pattern, in inches."""


LARGE = 16


LEAST_GAIN, USUAL_GAIN = 1.5, (1.5, 2.0)
"""Of liquid schedules over round robin, on patterns of so many nodes and more."""


def patterns(quick: bool) -> tuple[RatedAllocation, ...]:
    """All 362 in the order of Figure 41, or 20 evenly spread over them, the whole machine last."""
    every = distinct_allocations()
    if not quick:
        return every
    last = len(every) - 1
    return tuple(
        every[last - last * k // QUICK_PATTERNS] for k in range(QUICK_PATTERNS - 1, -1, -1)
    )


def pattern_points(quick: bool, **others: object) -> Points:
    """One point a pattern: its name, nodes and place on the axis of Figure 41."""
    return [
        {"allocation": a.name, "nodes": a.nodes, "place": at, **others}
        for at, a in enumerate(patterns(quick))
    ]


def traffic_of(allocation: str) -> Traffic:
    """Every sending processor to every receiving one, over the links in the order in which they are crossed."""
    return all_to_all(swiss_t1(allocation=tuple(map(int, allocation.split("-")))))


def draw_patterns(
    rows: Rows, title: str, series: Mapping[str, Sequence[float]], *marks: Mark, **named: object
) -> Figure:
    """Values of patterns that stand side by side, a mark a series: ticks where the number of nodes changes; ``marks``
    as dashed lines; ``named`` as of ``Axes.set``."""
    starts = [at for at, row in enumerate(rows) if at == 0 or row["nodes"] != rows[at - 1]["nodes"]]
    while len(starts) > 14:
        starts = starts[::2]
    figure, axes = chart(title, size=SIZE)
    axes.set_xticks(starts, [str(rows[at]["nodes"]) for at in starts], fontsize=8)
    words = "traffic patterns, by nodes taking part and then by liquid throughput (first of so many nodes)"
    for (label, values), sign, hue in zip(series.items(), MARKS, HUES, strict=False):
        axes.plot(values, sign, markersize=3, color=hue, label=label)
    for (value, label), hue in zip(marks, (INK, GREY), strict=False):
        axes.axhline(value, color=hue, linewidth=0.8, linestyle="--", label=label)
    axes.set(xlabel=words, xlim=(-1, len(rows)), **named)
    axes.legend()
    return figure


def draw_times(rows: Rows, title: str, names: Mapping[str, str], *marks: Mark) -> Figure:
    """Processor times (rows' ``name_s``, s) against pattern; apart where ``name_liquid`` is False."""
    series = {
        label + ("" if solved else ": not solved in time"): [
            row[f"{name}_s"] if row[f"{name}_liquid"] is solved else math.nan for row in rows
        ]
        for name, label in names.items()
        for solved in (True, False)
    }
    y = "processor time to a liquid schedule (s)"
    return draw_patterns(rows, title, series, *marks, yscale="log", ylabel=y)


def points(quick: bool, seed: int) -> Points:
    """One a pattern, of the studies whose points say nothing else."""
    return pattern_points(quick, seed=seed)


def usual_gain_check(gains: Sequence[float], sent: str = "") -> Check:
    """Most of the large patterns gain what the document says; ``sent``: how messages were, of round robin."""
    low, high = USUAL_GAIN
    return (
        Claim(
            f"share of the patterns of {LARGE} nodes and more with a gain of {low:g} to {high:g}{sent}"
        )
        .at_least(0.5, sum(low <= gain <= high for gain in gains) / len(gains))
        .cites("most sub-topologies, section 3.9")
        .against(0.0, "gains of another size")
    )
