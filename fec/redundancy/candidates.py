"""What a stream's labels can tell apart: the cables and nodes that may break, as bit sets over elementary intervals of
labels."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError
from fec.redundancy.block_size import Interval
from fec.redundancy.labels import LABELS, joined_intervals


@dataclass(frozen=True, kw_only=True)
class FailureCandidate:
    """Something that may break, and the label intervals that are lost while it is broken. ``cables``: how many cables
    that takes down; explanations by fewer are preferred."""

    name: str
    intervals: tuple[Interval, ...]
    cables: int = 1


class CandidateTable:
    """Label -> suspects, as bit sets over the elementary intervals of labels (all that no suspect tells apart).
    FecError for none.

    >>> suspects = (("a-b", (0, 100)), ("b-c", (50, 100)))
    >>> table = CandidateTable([FailureCandidate(name=name, intervals=(interval,)) for name, interval in suspects])
    >>> table.bit_of(70) in (table.masks[0] & table.masks[1], 0), table.labels_in(table.masks[1])
    (True, 50)
    """

    def __init__(self, candidates: Sequence[FailureCandidate]) -> None:
        if not candidates:
            raise FecError("no suspects: give one for each cable that carries labels")
        self.candidates = tuple(candidates)
        edges = {0, LABELS} | {
            edge for one in candidates for interval in one.intervals for edge in interval
        }
        self._edges = np.array(sorted(edges), dtype=np.int64)
        if self._edges[0] != 0 or self._edges[-1] != LABELS:
            raise FecError(
                f"suspects: label intervals reach from {self._edges[0]} to {self._edges[-1]}; give 0 to {LABELS}"
            )
        self._interval_of = np.repeat(
            np.arange(len(edges) - 1, dtype=np.int32), np.diff(self._edges)
        )
        self.masks = tuple(self._mask(one.intervals) for one in candidates)
        self._holding: dict[int, tuple[int, ...]] = {}
        self._labels_in: dict[int, int] = {}
        self._intervals_in: dict[int, tuple[Interval, ...]] = {}

    def bit_of(self, label: int) -> int:
        """The elementary interval of a label, as a bit set of one."""
        return 1 << int(self._interval_of[label])

    def holding(self, bit: int) -> tuple[int, ...]:
        """Indices of the suspects that lose that elementary interval."""
        if bit not in self._holding:
            self._holding[bit] = tuple(i for i, mask in enumerate(self.masks) if mask & bit)
        return self._holding[bit]

    def intervals_in(self, mask: int) -> tuple[Interval, ...]:
        """A bit set as label intervals, adjacent ones merged."""
        if mask not in self._intervals_in:
            elementary = enumerate(itertools.pairwise(self._edges.tolist()))
            self._intervals_in[mask] = joined_intervals(
                part for number, part in elementary if mask >> number & 1
            )
        return self._intervals_in[mask]

    def labels_in(self, mask: int) -> int:
        """How many labels a bit set stands for."""
        if mask not in self._labels_in:
            self._labels_in[mask] = sum(stop - start for start, stop in self.intervals_in(mask))
        return self._labels_in[mask]

    def _mask(self, intervals: Sequence[Interval]) -> int:
        inside: NDArray[np.bool_] = np.zeros(len(self._edges) - 1, dtype=np.bool_)
        for start, stop in intervals:
            first, last = np.searchsorted(self._edges, (start, stop))
            inside[first:last] = True
        return sum(1 << int(number) for number in np.flatnonzero(inside))
