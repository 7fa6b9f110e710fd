"""What a few independent samples say of their mean; rows of a study by what they have in common."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from topologies import Json, lists_by_key

Row = Json
"""A point of a study with what was measured there, as JSON has it."""
Reader = Callable[[Row], Any] | str | tuple[str, ...]
"""What is read from a row: a function of it, a field by its name, or several fields as a tuple."""


def reader(what: Reader) -> Callable[[Row], Any]:
    """The function that reads it."""
    return (
        what if callable(what) else itemgetter(what) if isinstance(what, str) else itemgetter(*what)
    )


def grouped(
    rows: Iterable[Row], label: Reader, value: Reader | None = None
) -> dict[Any, list[Any]]:
    """The value of each row (the row itself where None) under its label; labels and values in the order of the rows.

    >>> grouped([{"load": 0.1, "us": 4}, {"load": 0.2, "us": 5}, {"load": 0.1, "us": 6}], "load", "us")
    {0.1: [4, 6], 0.2: [5]}
    """
    label, value = reader(label), (lambda row: row) if value is None else reader(value)
    return lists_by_key((label(row), value(row)) for row in rows)


def sum_of(rows: Iterable[Row], field: str) -> float:
    """Sum of one field over rows."""
    total: float = sum(row[field] for row in rows)
    return total


def mean_of(rows: Iterable[Row], field: str) -> float:
    """Mean of one field over rows (NaN of none)."""
    return spread([row[field] for row in rows])[0]


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean (NaN of none), and ``half_width``."""
    return (statistics.fmean(values) if values else math.nan), half_width(values)


def whiskers(mean: float, half: float, most: float = math.inf) -> tuple[float, float]:
    """How far the interval of a mean is drawn below and above it: of what is not negative, not below 0; of shares, not
    above ``most``.

    >>> whiskers(1.0, 3.0), whiskers(0.75, 0.5, most=1.0), whiskers(1.0, 0.5, most=1.0)
    ((1.0, 3.0), (0.5, 0.25), (0.5, 0.0))
    """
    return (min(half, mean) if mean >= 0 else half), max(0.0, min(half, most - mean))


def half_width(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the mean (Student's t); 0 for fewer than two values.

    >>> round(half_width([1.0, 2.0, 3.0]), 3)
    2.484
    """
    if len(values) < 2:
        return 0.0
    return t_quantile(len(values)) * statistics.stdev(values) / math.sqrt(len(values))


def t_quantile(count: int) -> float:
    """Of Student's t for the 95 % interval of a mean of ``count`` values."""
    from scipy.special import (
        stdtrit,
    )  # scipy.stats, whose quantile calls it, takes half a second to import

    return float(stdtrit(count - 1, 0.975))


def interval(values: Sequence[float]) -> float | None:
    """``half_width``; None of a single value, which has none."""
    return half_width(values) if len(values) > 1 else None


def crossing(line: Mapping[float, float], value: float) -> float:
    """Where a line (y by x) first reaches a value, between two of its places straight on; its first place where it
    begins there, its last where it never does.

    >>> crossing({1.0: 0.0, 3.0: 4.0}, 1.0)
    1.5
    """
    places = sorted(line.items())
    for (low, before), (high, after) in pairwise([places[0], *places]):
        if after >= value:
            return low + (high - low) * (value - before) / (after - before) if high > low else low
    return places[-1][0]
