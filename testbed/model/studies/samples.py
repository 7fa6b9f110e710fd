"""Statistics of a few independent samples, and groups of a study's rows."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from topologies import Json, lists_by_key

# The parameters and results of a point of a study, JSON-ready.
Row = Json
# What is read from a row: a function of it, the name of a field, or several names for a tuple.
Reader = Callable[[Row], Any] | str | tuple[str, ...]


def reader(what: Reader) -> Callable[[Row], Any]:
    """Return the function that reads a value from a row."""
    if callable(what):
        return what
    return itemgetter(what) if isinstance(what, str) else itemgetter(*what)


def grouped(
    rows: Iterable[Row], label: Reader, value: Reader | None = None
) -> dict[Any, list[Any]]:
    """Group the values of rows by a label. Labels and values are in the order of the rows.

    Args:
        rows: The rows.
        label: What is read from a row as its label.
        value: What is read from a row as its value. None: the row itself.

    >>> rows = [{"load": 0.1, "us": 4}, {"load": 0.2, "us": 5}, {"load": 0.1, "us": 6}]
    >>> grouped(rows, "load", "us")
    {0.1: [4, 6], 0.2: [5]}
    """
    read_label = reader(label)
    if value is None:
        return lists_by_key((read_label(row), row) for row in rows)
    read_value = reader(value)
    return lists_by_key((read_label(row), read_value(row)) for row in rows)


def sum_of(rows: Iterable[Row], field: str) -> float:
    """Return the sum of a field over rows."""
    total: float = sum(row[field] for row in rows)
    return total


def mean_of(rows: Iterable[Row], field: str) -> float:
    """Return the mean of a field over rows, or NaN if there is no row."""
    return spread([row[field] for row in rows])[0]


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of values, or NaN if there is none, and ``half_width``."""
    mean = statistics.fmean(values) if values else math.nan
    return mean, half_width(values)


def whiskers(mean: float, half: float, limit: float = math.inf) -> tuple[float, float]:
    """Return how far the confidence interval of a mean is drawn below and above it.

    Args:
        mean: The mean. If it is not negative, the interval is not drawn below 0.
        half: Half the width of the interval.
        limit: The interval is not drawn above this value, such as 1 for fractions.

    >>> whiskers(1.0, 3.0), whiskers(0.75, 0.5, limit=1.0), whiskers(1.0, 0.5, limit=1.0)
    ((1.0, 3.0), (0.5, 0.25), (0.5, 0.0))
    """
    below = half
    if mean >= 0:
        below = min(half, mean)
    above = max(0.0, min(half, limit - mean))
    return below, above


def half_width(values: Sequence[float]) -> float:
    """Return half the width of the 95 % confidence interval of the mean (Student's t).

    It is 0 for fewer than two values.

    >>> round(half_width([1.0, 2.0, 3.0]), 3)
    2.484
    """
    if len(values) < 2:
        return 0.0
    return t_quantile(len(values)) * statistics.stdev(values) / math.sqrt(len(values))


def t_quantile(count: int) -> float:
    """Return the quantile of Student's t for the 95 % interval of a mean of ``count`` values."""
    # scipy.stats has a quantile too, which calls this function, but takes half a second to import.
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 0.975))


def interval(values: Sequence[float]) -> float | None:
    """Return ``half_width``, or None for fewer than two values."""
    return half_width(values) if len(values) > 1 else None


def crossing(line: Mapping[float, float], value: float) -> float:
    """Return the x at which a line first reaches a value.

    Between two points the line is straight. If it begins above the value, the result is its first
    x, and if it never reaches the value, its last one.

    Args:
        line: The points of the line, y by x.
        value: The value of y.

    >>> crossing({1.0: 0.0, 3.0: 4.0}, 1.0)
    1.5
    """
    points = sorted(line.items())
    first_x, first_y = points[0]
    if first_y >= value:
        return first_x
    for (x, y), (next_x, next_y) in pairwise(points):
        if next_y >= value:
            return x + (next_x - x) * (value - y) / (next_y - y)
    last_x, _ = points[-1]
    return last_x
