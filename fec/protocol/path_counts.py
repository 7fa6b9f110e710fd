"""Packets counted by path at both ends: numbers given where they leave, gaps found where they arrive, totals kept at
the sender.

A path is 1 to 255; 0 stands for packets whose path is not numbered. Numbers repeat after 65,536.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError
from fec.protocol.loss_report import MAX_LOST, MAX_PATH, MAX_PATHS
from fec.redundancy.labels import LABELS

_NUMBERS = 1 << 16
_WORD = (1 << 32) - 1
Entry = tuple[int, int, int]
"""(path, lost, came) as a loss report lists it."""
FIRST, HIGHEST, ARRIVED = 0, 1, 2
Column = NDArray[np.int64]


class PathNumbers:
    """At the sender: which path a label takes, and the next number on it.

    ``path_of_label``: 65,536 bytes, one a label; 0 where the path is not numbered.

    >>> numbers = PathNumbers(bytes([1]) * 32768 + bytes([2]) * 32768)
    >>> [numbers.next(label) for label in (0, 40000, 7)]
    [(1, 0), (2, 0), (1, 1)]
    """

    def __init__(self, path_of_label: bytes) -> None:
        if len(path_of_label) != LABELS:
            raise FecError(
                f"paths of {len(path_of_label)} labels; give one for each of the {LABELS}"
            )
        self.path_of = path_of_label
        self._sent = [0] * (MAX_PATH + 1)

    def next(self, label: int) -> tuple[int, int]:
        """(path, number on it modulo 2^16) of a packet that leaves now."""
        path = self.path_of[label]
        if not path:
            return 0, 0
        number = self._sent[path]
        self._sent[path] = number + 1
        return path, number % _NUMBERS

    def next_many(self, labels: Column) -> tuple[Column, Column]:
        """Return (paths, numbers) of packets that leave one after the other."""
        paths = np.frombuffer(self.path_of, np.uint8)[labels].astype(np.int64)
        numbers = np.zeros(len(paths), np.int64)
        for path in np.flatnonzero(np.bincount(paths)).tolist():
            if path:
                (places,) = np.nonzero(paths == path)
                numbers[places] = self._sent[path] + np.arange(len(places))
                self._sent[path] += len(places)
        return paths, numbers % _NUMBERS


def count(own: Any, number: int) -> None:
    """A packet of that number came on a path, of which ``own`` has the first and the highest number and how many
    came."""
    if not own[ARRIVED]:
        own[FIRST] = own[HIGHEST] = number
    own[ARRIVED] += 1
    ahead = (number - own[HIGHEST]) % _NUMBERS
    if ahead < _NUMBERS // 2:
        own[HIGHEST] += ahead
    else:
        own[FIRST] = min(own[FIRST], own[HIGHEST] + ahead - _NUMBERS)


class PathArrivals:
    """At the receiver: packets that came on each path and the numbers missing between them.

    Missing are the numbers from the lowest to the highest that came; a silent path, or one that loses more than 32,767
    packets on end, cannot be notified by numbers alone. Hand in no duplicates. ``table``: of each path its first and
    its highest number and how many packets came.

    >>> arrivals = PathArrivals()
    >>> for number in (0, 1, 4):
    ...     arrivals.add(1, number)
    >>> arrivals.entries()
    ((1, 2, 3),)
    """

    def __init__(self) -> None:
        self.table: Any = [[0, 0, 0] for _ in range(MAX_PATH + 1)]
        self._turn = 0

    def add(self, path: int, number: int) -> None:
        """A packet that came, by the two fields of its header; path 0 is left out."""
        if path:
            count(self.table[path], number)

    def entries(self, most: int = MAX_PATHS) -> tuple[Entry, ...]:
        """For the next report: every path, or ``most`` of them by turns, in the order of their numbers."""
        table = self.table if isinstance(self.table, list) else self.table.tolist()
        paths = [path for path, own in enumerate(table) if own[ARRIVED]]
        if len(paths) > most:
            turned = paths[self._turn % len(paths) :] + paths[: self._turn % len(paths)]
            self._turn = (self._turn + most) % len(paths)
            paths = sorted(turned[:most])
        return tuple((path, *_counted(*table[path])) for path in paths)


def _counted(first: int, highest: int, came: int) -> tuple[int, int]:
    """Lost and came, as a report tells them."""
    return min(MAX_LOST, max(0, highest - first + 1 - came)), came & _WORD


class PathReports:
    """At the sender: what reports told of each path, summed over receivers that were started again.

    >>> reports = PathReports()
    >>> for lost, came in ((1, 9), (2, 18), (0, 5)):  # a receiver of its own from the third report on
    ...     reports.add([(1, lost, came)])
    >>> reports.totals
    {1: (2, 23)}
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._totals: dict[int, tuple[int, int]] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """The entries of a report newer than all before it."""
        for path, lost, arrived in entries:
            old_lost, old_arrived = self._last.get(path, (0, 0))
            if arrived < old_arrived and old_arrived - arrived < _WORD // 2:
                old_lost = old_arrived = 0  # a receiver of its own counts again
            sums = self._totals.get(path, (0, 0))
            self._totals[path] = (
                sums[0] + lost - old_lost,
                sums[1] + (arrived - old_arrived & _WORD),
            )
            self._last[path] = lost, arrived

    @property
    def totals(self) -> dict[int, tuple[int, int]]:
        """Path -> (lost, came)."""
        return dict(sorted(self._totals.items()))
