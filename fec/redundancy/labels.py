"""Orders in which a sender assigns labels to its packets; switches split traffic by these labels.

Stratified: every run of labels covers the label space evenly, so that a link's share of each block
is exact to a packet or two. Random: labels are independent, so that the number of packets that a
failed link takes from a block is binomial, as the thesis assumes.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError

# Size of the label space: the 16 bits of the UDP source port.
LABELS = 65536

# 65536 over the golden ratio, rounded to odd. Worst windows for M = 20 over 60 random placements
# per cell, for one interval / eight intervals with a total share of p (smaller is better):
#
#     p                  0.05     0.1      0.2      0.25     1/3      0.5
#     bit-reversed       23/26    24/29    28/33    28/34    32/42    41/52
#     this multiplier    22/25    24/28    26/31    28/34    32/40    42/51
#
# The two are similar. This one is chosen because all positions of an interval are equivalent (a
# shift of the interval is a shift of the index), so that one pass gives the exact bound over every
# position.
WEYL_MULTIPLIER = 40503

# The rule of a stratified order: an odd multiplier, or the order of equal slots of the label space.
LabelRule = int | tuple[int, ...]

# Labels that are not used at either end of a slot. Loads are rounded to whole labels, and a link
# whose load fits its slots except for rounding must not have labels in the neighbouring slots.
_MARGIN = 2


def merge_intervals(parts: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return label intervals, sorted by start, with adjacent ones merged.

    >>> merge_intervals([(0, 5), (5, 9), (12, 20)])
    ((0, 9), (12, 20))
    """
    joined: list[tuple[int, int]] = []
    for start, stop in parts:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)


class LabelOrder(Protocol):
    """Maps the index of a packet to its label; an index always has the same label."""

    def label(self, index: int) -> int:
        """Return the label, 0 to 65535, of a packet; indices begin with 0."""
        ...

    def labels(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the labels of many packets."""
        ...


class StratifiedLabels:
    """Multiples of an odd number modulo 65536: a permutation that repeats after 65,536 packets.

    The usual multiplier, which comes from the golden ratio, is good for intervals of any width at
    any position. For the intervals of a given route another one may be better
    (``fec.redundancy.label_layout``).

    >>> order = StratifiedLabels()
    >>> [order.label(index) for index in range(4)]
    [0, 40503, 15470, 55973]
    """

    def __init__(self, multiplier: int = WEYL_MULTIPLIER) -> None:
        """Create the order.

        Raises:
            FecError: The multiplier is even or outside the label space.
        """
        if not 0 < multiplier < LABELS or multiplier % 2 == 0:
            raise FecError(
                f"label multiplier {multiplier}: give an odd number from 1 to {LABELS - 1}"
            )
        self._multiplier = multiplier

    def label(self, index: int) -> int:
        """Return the label of a packet."""
        return (index * self._multiplier) % LABELS

    def labels(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the labels of many packets."""
        return indices * self._multiplier % LABELS

    @property
    def table(self) -> NDArray[np.int64]:
        """The labels of one period, int64 of shape (65536,)."""
        return np.arange(LABELS, dtype=np.int64) * self._multiplier % LABELS


class SlottedLabels:
    """Labels from T equal slots of the label space, which follow each other in a given order.

    The order of the slots is repeated, each time with another label of each slot. The labels repeat
    after T * floor(65536 / T) packets. By then a link's labels have been used as often as its share
    says, to within a few in 100,000.

    Attributes:
        table: The labels of one period, int64.

    >>> SlottedLabels((0, 2, 1, 3)).table[:8].tolist()
    [2, 32770, 16386, 49154, 10127, 42895, 26511, 59279]
    """

    def __init__(self, slots: tuple[int, ...]) -> None:
        """Create the order.

        Raises:
            FecError: ``slots`` is not a permutation of 0 .. T - 1 with 2 <= T <= 4096.
        """
        if not 2 <= len(slots) <= 4096 or sorted(slots) != list(range(len(slots))):
            raise FecError(
                f"{len(slots)} slots of labels: give each of 0, 1, ... once, 2 to 4096 of them"
            )
        count = len(slots)
        rounds = LABELS // count
        # Successive labels of a slot are as far apart as the golden ratio suggests. The step has to
        # be coprime to the number of rounds, so that every label of the slot is used.
        step = round(rounds * WEYL_MULTIPLIER / LABELS)
        while math.gcd(step, rounds) != 1:
            step += 1
        turns = np.arange(rounds, dtype=np.int64) * step % rounds
        # The position of each round's label within the slot, in units of 1 / count.
        used = LABELS - 2 * _MARGIN * count
        within = _MARGIN * count + (2 * turns + 1) * used // (2 * rounds)
        starts = np.array(slots, dtype=np.int64) * LABELS
        self.table = ((starts + within[:, None]) // count).reshape(-1)

    def label(self, index: int) -> int:
        """Return the label of a packet."""
        return int(self.table[index % len(self.table)])

    def labels(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the labels of many packets."""
        return self.table[indices % len(self.table)]


def slot_edges(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and the largest label in use of each slot, int64 of shape (count,)."""
    slots = np.arange(count, dtype=np.int64) * LABELS
    return slots // count + _MARGIN, (slots + LABELS) // count - _MARGIN


def stratified_labels(rule: LabelRule) -> StratifiedLabels | SlottedLabels:
    """Return the order of a rule.

    Raises:
        FecError: The rule is invalid.
    """
    return StratifiedLabels(rule) if isinstance(rule, int) else SlottedLabels(rule)


@lru_cache(maxsize=128)
def label_table(rule: LabelRule) -> NDArray[np.int64]:
    """Return the labels of one period of an order, int64 of shape (period,).

    The array is cached and must not be changed.
    """
    return stratified_labels(rule).table


class RandomLabels:
    """Independent uniform labels that depend on the seed and the index only.

    They are the output function of SplitMix64 over a counter.
    """

    def __init__(self, seed: int) -> None:
        self._key = _mixed(seed & _MASK)

    def label(self, index: int) -> int:
        """Return the label of a packet."""
        return _mixed((self._key + index * _STEP) & _MASK) >> 48

    def labels(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the labels of many packets."""
        # Products of unsigned 64-bit integers are modulo 2^64; ``label`` masks them instead.
        state = np.uint64(self._key) + indices.astype(np.uint64) * np.uint64(_STEP)
        for shift, factor in _ROUNDS:
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        return ((state ^ (state >> np.uint64(31))) >> np.uint64(48)).astype(np.int64)


# The increment and the multiplication rounds of SplitMix64.
_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def _mixed(state: int) -> int:
    for shift, factor in _ROUNDS:
        state = ((state ^ (state >> shift)) * factor) & _MASK
    return state ^ (state >> 31)
