"""Finds counts that are impossible, given the other measurements."""

from collections.abc import Mapping
from typing import NamedTuple

from topologies import Json


class ImpossibleCount(NamedTuple):
    """A count outside its limits."""

    name: str
    value: float
    least: float
    most: float


def first_impossible(
    counts: Json, limits: Mapping[str, tuple[float, float]]
) -> ImpossibleCount | None:
    """Return the first count that is outside its limits, or None.

    A count that is missing or None is not compared.

    Args:
        counts: The counts by name.
        limits: The smallest and the largest possible value, by name, in the order of comparison.

    >>> first_impossible({"sent": 3, "lost": 4}, {"sent": (0, 9), "lost": (0, 3)}).name
    'lost'
    """
    for name, (least, most) in limits.items():
        count = counts.get(name)
        if count is not None and not least <= count <= most:
            return ImpossibleCount(name, count, least, most)
    return None


def negative_count(counts: Json) -> str | None:
    """Return a reason if a number, or a number of a list, is below 0; else None.

    >>> negative_count({"sent": 3, "late_s": [0.1, -0.2]})
    'late_s is below 0'
    """
    for name, value in counts.items():
        numbers = value if isinstance(value, list | tuple) else (value,)
        if any(isinstance(number, int | float) and number < 0 for number in numbers):
            return f"{name} is below 0"
    return None
