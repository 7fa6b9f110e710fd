"""Worst-window block sizes of many sets of label intervals at once, compiled: what makes a search over orders of labels
affordable.

The same numbers as ``fec.redundancy.block_size.stratified_block_size``, a hundred times as fast for a route of a
hundred links. Theory: k lost packets have to fit a block of N = M - 1 + k or be answered by N = M + k, so N is M plus
the most losses between which fewer than M packets arrive. One walk over the packets of a period keeps, for every set,
the losses of that window.

Imported when first used: numba takes half a second to load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.jit import compiled_entry
from fec.redundancy.block_size import UNBOUNDED, Interval, block_size_of_order
from fec.redundancy.labels import LABELS, LabelRule, label_table

Numbers = NDArray[np.integer[Any]]
Limits = tuple[Numbers, Numbers, int, int]
"""How many links lose each set, the most that each N may be, N at rest, and the most packets beyond it that all links
together may ask for: an order that goes beyond is of no use, and is walked no further."""

_HEAVY = 0.9
"""A set of more of the labels is reckoned by itself: its windows are too long to be kept."""
_LIGHTEST_ROOM = 256
"""Lost packets of one window that are kept, at least; a power of two."""


class WorstWindows:
    """N of every set of label intervals, by the rule of the order of labels. ``source_packets``: M. No set has every
    label.

    >>> WorstWindows([[(0, 32768)], [(0, 3277)]], 20).sizes(40503).tolist()
    [42, 22]
    """

    def __init__(self, sets: Sequence[Sequence[Interval]], source_packets: int) -> None:
        shares = [sum(stop - start for start, stop in intervals) / LABELS for intervals in sets]
        self._heavy = {
            number: sets[number] for number, share in enumerate(shares) if share > _HEAVY
        }
        sets = [
            intervals if number not in self._heavy else () for number, intervals in enumerate(sets)
        ]
        edges = np.unique(
            [
                0,
                LABELS,
                *(edge for intervals in sets for interval in intervals for edge in interval),
            ]
        )
        inside: list[list[int]] = [[] for _ in range(len(edges) - 1)]
        for number, intervals in enumerate(sets):
            for start, stop in intervals:
                for place in range(*np.searchsorted(edges, (start, stop))):
                    inside[place].append(number)
        self._place_of = np.repeat(np.arange(len(edges) - 1, dtype=np.int32), np.diff(edges))
        self._first = np.cumsum([0, *map(len, inside)])
        self._members = np.array(
            [number for members in inside for number in members], dtype=np.int32
        )
        self._count, self._m = len(sets), source_packets
        most = (
            4
            * source_packets
            / (1 - max((share for share in shares if share <= _HEAVY), default=0.0))
        )
        self._room = max(_LIGHTEST_ROOM, 1 << int(most).bit_length())

    def sizes(self, rule: LabelRule, limits: Limits | None = None) -> NDArray[np.int64]:
        """Shape (sets,): the smallest N of which M packets arrive in every window of N labels of the order; shape (0,)
        where that is beyond the limits. UNBOUNDED of a heavy set outside of which the order has no label."""
        if limits is None:
            ones = np.ones(self._count, dtype=np.int64)
            limits = ones, ones * UNBOUNDED, 0, UNBOUNDED
        retained = np.zeros((self._count, self._room), dtype=np.int32)
        order = label_table(rule), self._place_of
        most = np.zeros(self._count, dtype=np.int64)
        if not _most_lost(order, self._first, self._members, self._m, retained, limits, most):
            return np.zeros(0, dtype=np.int64)
        sizes = most + self._m
        for number, intervals in self._heavy.items():
            sizes[number] = block_size_of_order(intervals, self._m, rule) or UNBOUNDED
        return sizes

    def shares(self, rule: LabelRule) -> NDArray[np.float64]:
        """Shape (sets,): the part of a period's packets that each set loses. Heavy ones (above 0.9): their labels'
        share."""
        counts = np.bincount(self._place_of[label_table(rule)], minlength=len(self._first) - 1)
        members = np.repeat(counts, np.diff(self._first))
        lost = np.bincount(self._members, weights=members, minlength=self._count) / counts.sum()
        for number, intervals in self._heavy.items():
            lost[number] = sum(stop - start for start, stop in intervals) / LABELS
        return np.asarray(lost, dtype=np.float64)


def _walk(
    order: tuple[Numbers, Numbers],
    first: Numbers,
    members: Numbers,
    m: int,
    retained: Numbers,
    limits: tuple[Numbers, Numbers, int, int],
    most: Numbers,
) -> bool:
    """Find the most losses of every set between which fewer than M packets arrive.

    Args:
        order: The labels of a period, and the elementary interval of each label.
        first: Per interval, where its part of ``members`` begins.
        members: The sets of each interval.
        m: Source packets of a block.
        retained: Per set, a ring for the losses.
        limits: Per set its weight and its largest block size; then a block size, and the largest
            sum of weights by which sets may grow beyond it.
        most: Per set, zero; the result is written here.

    Returns:
        Whether the result is within the limits. If not, the search has ended early.
    """
    labels, place_of = order
    counts, largest, least, packets = limits
    count, room = retained.shape
    head = np.zeros(count, dtype=np.int64)
    tail = np.zeros(count, dtype=np.int64)
    for index in range(len(labels) + room + m):  # windows across the end of the period included
        place = place_of[labels[index if index < len(labels) else index % len(labels)]]
        for at in range(first[place], first[place + 1]):
            number = members[at]
            arrived = index - tail[number]  # before this loss, up to a constant
            retained[number, tail[number] & (room - 1)] = arrived
            tail[number] += 1
            while arrived - retained[number, head[number] & (room - 1)] >= m:
                head[number] += 1
            if tail[number] - head[number] > most[number]:
                most[number] += 1
                if most[number] + m > least:
                    packets -= counts[number]
                if packets < 0 or most[number] + m > largest[number]:
                    return False
    return True


_most_lost = compiled_entry(_walk)
