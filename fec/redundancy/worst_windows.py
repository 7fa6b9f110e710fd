"""Computes the worst-window block sizes of many sets of label intervals at once, by compiled code.

The results equal those of ``fec.redundancy.block_size.stratified_block_size``. For a route of a
hundred links they take a hundredth of the time, so that a search over orders of labels is possible.

Theory: if k losses are so close that fewer than M packets arrive between them, they fit a block of
N = M - 1 + k packets, which then cannot be decoded; N = M + k is sufficient. N is therefore M plus
the largest number of such losses. One walk over the packets of a period keeps, for every set, the
losses of the current window.

Import this module only where it is used: numba takes half a second to load.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.jit import compiled_entry
from fec.redundancy.block_size import UNBOUNDED, Interval, block_size_of_order
from fec.redundancy.labels import LABELS, LabelRule, label_table

Numbers = NDArray[np.integer[Any]]
# The number of links and the largest N of each set; N in steady state; and the maximum number of
# packets beyond that which all links together may require. The walk stops when one is exceeded.
Limits = tuple[Numbers, Numbers, int, int]

# A set with a larger share of the labels is computed separately, because its windows are too long.
_HEAVY = 0.9
# Smallest number of lost packets per set for which there is room; a power of two.
_MIN_ROOM = 256


class WorstWindows:
    """Computes N of every set of label intervals, for any order of labels.

    >>> WorstWindows([[(0, 32768)], [(0, 3277)]], 20).sizes(40503).tolist()
    [42, 22]
    """

    def __init__(self, sets: Sequence[Sequence[Interval]], source_packets: int) -> None:
        """Divide the label space into elementary intervals.

        Args:
            sets: The sets of label intervals, none of which contains every label.
            source_packets: M, the source packets of a block.
        """
        shares = [_label_count(intervals) / LABELS for intervals in sets]
        # Sets that are computed separately, by their index.
        self._heavy: dict[int, Sequence[Interval]] = {}
        light_sets: list[Sequence[Interval]] = []
        edges = {0, LABELS}
        for number, intervals in enumerate(sets):
            if shares[number] > _HEAVY:
                self._heavy[number] = intervals
                light_sets.append(())
                continue
            light_sets.append(intervals)
            for interval in intervals:
                edges.update(interval)
        sorted_edges = np.array(sorted(edges))
        # The sets that contain each elementary interval.
        sets_of: list[list[int]] = [[] for _ in range(len(edges) - 1)]
        for number, intervals in enumerate(light_sets):
            for start, stop in intervals:
                for index in range(*np.searchsorted(sorted_edges, (start, stop))):
                    sets_of[index].append(number)
        # The elementary interval of each label.
        numbers = np.arange(len(edges) - 1, dtype=np.int32)
        self._interval_of = np.repeat(numbers, np.diff(sorted_edges))
        # The sets of all elementary intervals, one after the other, and where each interval begins.
        self._members = np.array([*itertools.chain.from_iterable(sets_of)], dtype=np.int32)
        self._first = np.cumsum([0, *map(len, sets_of)])
        self._count = len(sets)
        self._m = source_packets
        largest_share = max((share for share in shares if share <= _HEAVY), default=0.0)
        # The longest window holds M / (1 - share) packets on average; four times as many suffice.
        max_losses = 4 * source_packets / (1 - largest_share)
        self._room = max(_MIN_ROOM, 1 << int(max_losses).bit_length())

    def sizes(self, rule: LabelRule, limits: Limits | None = None) -> NDArray[np.int64]:
        """Return for each set the smallest N that can always be decoded.

        Args:
            rule: The rule of the order of labels.
            limits: Limits beyond which the result is not needed.

        Returns:
            int64 of shape (sets,): N such that M packets arrive in every window of N labels of the
            order. It is UNBOUNDED if the order has no label outside a set. The shape is (0,) if the
            result exceeds the limits.
        """
        if limits is None:
            ones = np.ones(self._count, dtype=np.int64)
            limits = ones, ones * UNBOUNDED, 0, UNBOUNDED
        ring = np.zeros((self._count, self._room), dtype=np.int32)
        order = label_table(rule), self._interval_of
        losses = np.zeros(self._count, dtype=np.int64)
        if not _most_lost(order, self._first, self._members, self._m, ring, limits, losses):
            return np.zeros(0, dtype=np.int64)
        sizes = losses + self._m
        for number, intervals in self._heavy.items():
            sizes[number] = block_size_of_order(intervals, self._m, rule) or UNBOUNDED
        return sizes

    def shares(self, rule: LabelRule) -> NDArray[np.float64]:
        """Return for each set its share of the packets of a period, float64 of shape (sets,).

        For a set with more than 0.9 of the labels it is the share of the labels.
        """
        intervals_of_order = self._interval_of[label_table(rule)]
        counts = np.bincount(intervals_of_order, minlength=len(self._first) - 1)
        weights = np.repeat(counts, np.diff(self._first))
        losses = np.bincount(self._members, weights=weights, minlength=self._count)
        lost = losses / counts.sum()
        for number, intervals in self._heavy.items():
            lost[number] = _label_count(intervals) / LABELS
        return np.asarray(lost, dtype=np.float64)


def _label_count(intervals: Sequence[Interval]) -> int:
    return sum(stop - start for start, stop in intervals)


def _walk(
    order: tuple[Numbers, Numbers],
    first: Numbers,
    members: Numbers,
    m: int,
    retained: Numbers,
    limits: tuple[Numbers, Numbers, int, int],
    max_losses: Numbers,
) -> bool:
    """Find for every set the largest number of losses between which fewer than M packets arrive.

    Args:
        order: The labels of a period, and the elementary interval of each label.
        first: The position in ``members`` at which the sets of each interval begin.
        members: The sets of each interval.
        m: M, the number of source packets of a block.
        retained: A ring buffer for the losses of each set.
        limits: The weight and the largest block size of each set; then a block size, and the
            maximum sum of weights by which sets may exceed it.
        max_losses: Zeros; the result for each set is written here.

    Returns:
        True if the result is within the limits. If not, the search has ended early.
    """
    labels, interval_of = order
    counts, max_sizes, usual_size, packets = limits
    count, room = retained.shape
    head = np.zeros(count, dtype=np.int64)
    tail = np.zeros(count, dtype=np.int64)
    for index in range(len(labels) + room + m):  # Windows may cross the end of the period.
        interval = interval_of[labels[index if index < len(labels) else index % len(labels)]]
        for at in range(first[interval], first[interval + 1]):
            number = members[at]
            arrived = index - tail[number]  # Before this loss, apart from a constant.
            retained[number, tail[number] & (room - 1)] = arrived
            tail[number] += 1
            while arrived - retained[number, head[number] & (room - 1)] >= m:
                head[number] += 1
            if tail[number] - head[number] > max_losses[number]:
                max_losses[number] += 1
                if max_losses[number] + m > usual_size:
                    packets -= counts[number]
                if packets < 0 or max_losses[number] + m > max_sizes[number]:
                    return False
    return True


_most_lost = compiled_entry(_walk)
