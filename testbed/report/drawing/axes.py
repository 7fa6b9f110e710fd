"""Scales and ticks of the figures, and how numbers are written in figures and tables; pure."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maps [low, high] linearly onto [start, stop] pixels (either way round)."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return self.start + (value - self.low) / span * (self.stop - self.start)


def ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    """Round values in [low, high], at most ``most`` (2 and up), steps of 1, 2 or 5 times a power of ten; deterministic.

    >>> ticks(0, 0.43, 5)
    (0.0, 0.1, 0.2, 0.3, 0.4)
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return (low,)
    step = 10.0 ** math.floor(math.log10(span / max(1, most)))
    for factor in (1, 2, 5, 10, 20, 50):
        if math.floor(span / (step * factor) + 1e-9) < most:
            step *= factor
            break
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(round(k * step, 12) for k in range(first, last + 1))


def nice_top(value: float, most: int = 5) -> float:
    """The smallest end of a scale from 0 that is a tick of its own and not below the value."""
    if not value > 0:
        return 1.0
    top = value
    for _ in range(3):  # a rounder end may call for a coarser step, which may call for a rounder end
        marks = ticks(0.0, top, most)
        step = marks[1] - marks[0] if len(marks) > 1 else top
        rounded = round(math.ceil(top / step - 1e-9) * step, 12)
        if rounded == top:
            break
        top = rounded
    return top
