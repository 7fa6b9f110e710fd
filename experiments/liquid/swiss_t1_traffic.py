"""The 362 traffic patterns of Swiss-T1 as transfers over links, for the studies of this folder.

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

# Size in inches of a figure whose x axis has a position for each pattern.
SIZE = (10, 4.6)
MAX_TICKS = 14

# Patterns of at least this many nodes are large.
LARGE = 16

# The gain of liquid schedules over round robin on large patterns: the least median, and the range
# in which most gains are.
MIN_GAIN = 1.5
USUAL_GAIN = (1.5, 2.0)


def patterns(quick: bool) -> tuple[RatedAllocation, ...]:
    """Return all 362 patterns in the order of Figure 41, or 20 that are spread evenly over them.

    The last pattern is always that of all 32 nodes.
    """
    allocations = distinct_allocations()
    if not quick:
        return allocations
    last = len(allocations) - 1
    chosen = []
    for step in reversed(range(QUICK_PATTERNS)):
        chosen.append(allocations[last - last * step // QUICK_PATTERNS])
    return tuple(chosen)


def pattern_points(quick: bool, **fields: object) -> Points:
    """Return one point per pattern: its name, its nodes and its position on the axis of Figure 41.

    Args:
        quick: Whether only some patterns are measured.
        **fields: Further fields, the same in all points.
    """
    return [
        {"allocation": allocation.name, "nodes": allocation.nodes, "place": position, **fields}
        for position, allocation in enumerate(patterns(quick))
    ]


def points(quick: bool, seed: int) -> Points:
    """Return one point per pattern, for studies whose points have no other fields."""
    return pattern_points(quick, seed=seed)


def traffic_of(allocation: str) -> Traffic:
    """Return the traffic from every sending processor to every receiving one.

    Args:
        allocation: Number of nodes of each switch, such as "4-4-0-0-0-0-0-0".
    """
    counts = tuple(map(int, allocation.split("-")))
    return all_to_all(swiss_t1(allocation=counts))


def draw_patterns(
    rows: Rows, title: str, series: Mapping[str, Sequence[float]], *marks: Mark, **named: object
) -> Figure:
    """Draw values by pattern, side by side, with one kind of mark per series.

    The x axis has a tick where the number of nodes changes.

    Args:
        rows: One row per pattern.
        title: Title of the figure.
        series: The values of each series, one per pattern.
        *marks: Values that are drawn as dashed lines.
        **named: Properties of the axes, as for matplotlib's ``Axes.set``.
    """
    first_positions = []
    for position, row in enumerate(rows):
        if position == 0 or row["nodes"] != rows[position - 1]["nodes"]:
            first_positions.append(position)
    while len(first_positions) > MAX_TICKS:
        first_positions = first_positions[::2]
    labels = [str(rows[position]["nodes"]) for position in first_positions]
    figure, axes = chart(title, size=SIZE)
    axes.set_xticks(first_positions, labels, fontsize=8)
    for (label, values), sign, hue in zip(series.items(), MARKS, HUES, strict=False):
        axes.plot(values, sign, markersize=3, color=hue, label=label)
    for (value, label), hue in zip(marks, (INK, GREY), strict=False):
        axes.axhline(value, color=hue, linewidth=0.8, linestyle="--", label=label)
    x_label = (
        "traffic patterns, by nodes taking part and then by liquid throughput "
        "(first of so many nodes)"
    )
    axes.set(xlabel=x_label, xlim=(-1, len(rows)), **named)
    axes.legend()
    return figure


def draw_times(rows: Rows, title: str, names: Mapping[str, str], *marks: Mark) -> Figure:
    """Draw the processor times of several methods by pattern.

    Times without a schedule have a series of their own.

    Args:
        rows: One row per pattern, with ``METHOD_s`` and ``METHOD_liquid`` for each method.
        title: Title of the figure.
        names: Label of each method.
        *marks: Values that are drawn as dashed lines.
    """
    series = {}
    for method, label in names.items():
        solved_times_s = []
        unsolved_times_s = []
        for row in rows:
            time_s = row[f"{method}_s"]
            solved = row[f"{method}_liquid"]
            solved_times_s.append(time_s if solved else math.nan)
            unsolved_times_s.append(math.nan if solved else time_s)
        series[label] = solved_times_s
        series[f"{label}: not solved in time"] = unsolved_times_s
    y_label = "processor time to a liquid schedule (s)"
    return draw_patterns(rows, title, series, *marks, yscale="log", ylabel=y_label)


def usual_gain_check(gains: Sequence[float], condition: str = "") -> Check:
    """Check that most large patterns have a gain in the range that the document states.

    Args:
        gains: Gains of the large patterns over round robin.
        condition: How round robin sends its messages, to end the name of the check.
    """
    low, high = USUAL_GAIN
    usual_gains = [gain for gain in gains if low <= gain <= high]
    name = (
        f"share of the patterns of {LARGE} nodes and more with a gain of {low:g} to "
        f"{high:g}{condition}"
    )
    return (
        Claim(name)
        .at_least(0.5, len(usual_gains) / len(gains))
        .cites("most sub-topologies, section 3.9")
        .against(0.0, "gains of another size")
    )
