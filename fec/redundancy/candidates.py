"""The cables and nodes that may fail, as bit sets over elementary intervals of labels."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError
from fec.redundancy.block_size import Interval
from fec.redundancy.labels import LABELS, merge_intervals


@dataclass(frozen=True, kw_only=True)
class FailureCandidate:
    """A cable or node that may fail.

    Attributes:
        name: Its name.
        intervals: The label intervals that are lost while it is down.
        cables: Number of cables that are down with it. Explanations with fewer cables are
            preferred.
    """

    name: str
    intervals: tuple[Interval, ...]
    cables: int = 1


class CandidateTable:
    """Maps labels to the candidates that lose them, as bit sets over elementary intervals.

    An elementary interval contains labels that no candidate distinguishes. Bit i of a set stands
    for the i-th elementary interval.

    Attributes:
        candidates: The candidates.
        masks: For each candidate the bit set of the labels that it loses.

    >>> links = (("a-b", (0, 100)), ("b-c", (50, 100)))
    >>> table = CandidateTable(
    ...     [FailureCandidate(name=name, intervals=(interval,)) for name, interval in links]
    ... )
    >>> table.bit_of(70) == table.masks[0] & table.masks[1], table.labels_in(table.masks[1])
    (True, 50)
    """

    def __init__(self, candidates: Sequence[FailureCandidate]) -> None:
        """Compute the elementary intervals and the bit sets.

        Raises:
            FecError: There is no candidate, or an interval exceeds the label space.
        """
        if not candidates:
            raise FecError("no suspects: give one for each cable that carries labels")
        self.candidates = tuple(candidates)
        edges = {0, LABELS}
        for candidate in candidates:
            for interval in candidate.intervals:
                edges.update(interval)
        self._edges = np.array(sorted(edges), dtype=np.int64)
        if self._edges[0] != 0 or self._edges[-1] != LABELS:
            raise FecError(
                f"suspects: label intervals reach from {self._edges[0]} to {self._edges[-1]};"
                f" give 0 to {LABELS}"
            )
        numbers = np.arange(len(edges) - 1, dtype=np.int32)
        self._interval_of = np.repeat(numbers, np.diff(self._edges))
        self.masks = tuple(self._mask(candidate.intervals) for candidate in candidates)
        self._holding: dict[int, tuple[int, ...]] = {}
        self._labels_in: dict[int, int] = {}
        self._intervals_in: dict[int, tuple[Interval, ...]] = {}

    def bit_of(self, label: int) -> int:
        """Return the bit of the elementary interval that contains the label."""
        return 1 << int(self._interval_of[label])

    def holding(self, bit: int) -> tuple[int, ...]:
        """Return the indices of the candidates that lose an elementary interval, given as a bit."""
        if bit not in self._holding:
            self._holding[bit] = tuple(i for i, mask in enumerate(self.masks) if mask & bit)
        return self._holding[bit]

    def intervals_in(self, mask: int) -> tuple[Interval, ...]:
        """Return the label intervals of a bit set, adjacent ones merged."""
        if mask not in self._intervals_in:
            elementary = enumerate(itertools.pairwise(self._edges.tolist()))
            self._intervals_in[mask] = merge_intervals(
                interval for number, interval in elementary if mask >> number & 1
            )
        return self._intervals_in[mask]

    def labels_in(self, mask: int) -> int:
        """Return the number of labels in a bit set."""
        if mask not in self._labels_in:
            self._labels_in[mask] = sum(stop - start for start, stop in self.intervals_in(mask))
        return self._labels_in[mask]

    def _mask(self, intervals: Sequence[Interval]) -> int:
        inside: NDArray[np.bool_] = np.zeros(len(self._edges) - 1, dtype=np.bool_)
        for start, stop in intervals:
            first, last = np.searchsorted(self._edges, (start, stop))
            inside[first:last] = True
        return sum(1 << int(number) for number in np.flatnonzero(inside))
