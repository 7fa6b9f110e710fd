"""The order in which a sender gives its packets the 65,536 labels that switches split traffic by.

Stratified: every run of labels covers the label space evenly, so a link's share of each block is exact to a packet
or two. Random: independent labels, so that what a broken link takes of a block is binomial, as the thesis assumes.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError

LABELS = 65536
"""Size of the label space: the UDP source port's 16 bits."""

WEYL_MULTIPLIER = 40503
"""65536 over the golden ratio, rounded to odd. Worst windows for M = 20 over 60 random placements a cell, one interval
/ eight intervals of total share p (smaller is better):

    p                  0.05     0.1      0.2      0.25     1/3      0.5
    bit-reversed       23/26    24/29    28/33    28/34    32/42    41/52
    this multiplier    22/25    24/28    26/31    28/34    32/40    42/51

The two are near; this one is chosen because all positions of an interval are equivalent (a shift of the interval is
a shift of the index), so that one pass gives the exact bound over every position."""


LabelRule = int | tuple[int, ...]
"""What a stratified order is made by: an odd multiplier, or the order of equal slots of the label space."""

_MARGIN = 2
"""Labels that are left out at either end of a slot: loads are rounded to whole labels, and a link that fits its slots
but for rounding must not count among those next to them."""


def joined_intervals(parts: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Label intervals in their order, those that touch made one.

    >>> joined_intervals([(0, 5), (5, 9), (12, 20)])
    ((0, 9), (12, 20))
    """
    found: list[tuple[int, int]] = []
    for start, stop in parts:
        joined = bool(found) and found[-1][1] == start
        found.append((found.pop()[0] if joined else start, stop))
    return tuple(found)


class LabelOrder(Protocol):
    """Packet index -> label, the same for the same index always."""

    def label(self, index: int) -> int:
        """Label of packet ``index`` (any integer from 0), in 0..65535."""
        ...

    def labels(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels of many packets."""
        ...


class StratifiedLabels:
    """label(i) = multiplier i mod 65536 for an odd multiplier: a permutation that repeats after 65,536 packets.

    The usual multiplier, the golden ratio's, is good for intervals of any width in any place. For the intervals of one
    given route another may be better (``fec.redundancy.label_layout``).

    >>> order = StratifiedLabels()
    >>> [order.label(index) for index in range(4)]
    [0, 40503, 15470, 55973]
    """

    def __init__(self, multiplier: int = WEYL_MULTIPLIER) -> None:
        if not 0 < multiplier < LABELS or multiplier % 2 == 0:
            raise FecError(
                f"label multiplier {multiplier}: give an odd number from 1 to {LABELS - 1}"
            )
        self._multiplier = multiplier

    def label(self, index: int) -> int:
        return (index * self._multiplier) % LABELS

    def labels(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return indices * self._multiplier % LABELS

    @property
    def table(self) -> NDArray[np.int64]:
        """One period."""
        return np.arange(LABELS, dtype=np.int64) * self._multiplier % LABELS


class SlottedLabels:
    """The label space in T equal slots that follow each other in a given order, over and over, each time with another
    label of the slot.

    The order repeats after T * floor(65536 / T) packets; by then a link's labels were taken as often as its share says,
    to within a few in 100,000. FecError unless ``slots`` has each of 0 .. T-1 once, 2 <= T <= 4096.

    >>> SlottedLabels((0, 2, 1, 3)).table[:8].tolist()
    [2, 32770, 16386, 49154, 10127, 42895, 26511, 59279]
    """

    def __init__(self, slots: tuple[int, ...]) -> None:
        if not 2 <= len(slots) <= 4096 or sorted(slots) != list(range(len(slots))):
            raise FecError(
                f"{len(slots)} slots of labels: give each of 0, 1, ... once, 2 to 4096 of them"
            )
        count, rounds = len(slots), LABELS // len(slots)
        step = next(
            k
            for k in range(round(rounds * WEYL_MULTIPLIER / LABELS), 2 * rounds + 2)
            if math.gcd(k, rounds) == 1
        )
        turns = (2 * (np.arange(rounds, dtype=np.int64) * step % rounds) + 1) * (
            LABELS - 2 * _MARGIN * count
        )
        within = _MARGIN * count + turns // (2 * rounds)
        self.table = (
            (np.array(slots, dtype=np.int64) * LABELS + within[:, None]) // count
        ).reshape(-1)

    def label(self, index: int) -> int:
        return int(self.table[index % len(self.table)])

    def labels(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.table[indices % len(self.table)]


def slot_edges(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The smallest and the greatest label that is ever sent of each of ``count`` slots, int64 of shape (count,)
    both."""
    slots = np.arange(count, dtype=np.int64) * LABELS
    return slots // count + _MARGIN, (slots + LABELS) // count - _MARGIN


def stratified_labels(rule: LabelRule) -> StratifiedLabels | SlottedLabels:
    """The order that a rule makes. FecError for a rule that makes none."""
    return StratifiedLabels(rule) if isinstance(rule, int) else SlottedLabels(rule)


@lru_cache(maxsize=128)
def label_table(rule: LabelRule) -> NDArray[np.int64]:
    """The labels of one period of an order, int64 of shape (period,); not to be written to."""
    return stratified_labels(rule).table


class RandomLabels:
    """Independent uniform labels, a pure function of seed and index (SplitMix64's output function over a counter)."""

    def __init__(self, seed: int) -> None:
        self._key = _mixed(seed & _MASK)

    def label(self, index: int) -> int:
        return _mixed((self._key + index * _STEP) & _MASK) >> 48

    def labels(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        # Products of unsigned words of 64 bits are taken modulo 2^64, as ``label`` masks them.
        state = np.uint64(self._key) + indices.astype(np.uint64) * np.uint64(_STEP)
        for shift, factor in _ROUNDS:
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        return ((state ^ (state >> np.uint64(31))) >> np.uint64(48)).astype(np.int64)


_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def _mixed(state: int) -> int:
    for shift, factor in _ROUNDS:
        state = ((state ^ (state >> shift)) * factor) & _MASK
    return state ^ (state >> 31)
