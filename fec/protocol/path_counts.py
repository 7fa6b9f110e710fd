"""Counts the packets of each path at both ends of a stream.

The sender numbers the packets of a path, the receiver finds the gaps, and the sender sums up what
loss reports say. A path has a number from 1 to 255; 0 is for packets whose path is not numbered.
Packet numbers are modulo 65,536.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError
from fec.protocol.loss_report import MAX_LOST, MAX_PATH, MAX_PATHS
from fec.redundancy.labels import LABELS

# Packet numbers are modulo this.
_NUMBERS = 1 << 16

_WORD = (1 << 32) - 1

# (path, lost, arrived) in a loss report.
Entry = tuple[int, int, int]

# The counts of a path: the first and the highest packet number, and the number of packets that
# arrived.
FIRST, HIGHEST, ARRIVED = range(3)

Column = NDArray[np.int64]


class PathNumbers:
    """Numbers the packets of each path at the sender.

    Args:
        path_of_label: 65,536 bytes with the path of each label; 0 if the path is not numbered.

    Attributes:
        path_of: ``path_of_label``.

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
        """Return the path and the number of the next packet with this label."""
        path = self.path_of[label]
        if not path:
            return 0, 0
        number = self._sent[path]
        self._sent[path] = number + 1
        return path, number % _NUMBERS

    def next_many(self, labels: Column) -> tuple[Column, Column]:
        """Return the paths and the numbers of the next packets with these labels."""
        paths = np.frombuffer(self.path_of, np.uint8)[labels].astype(np.int64)
        numbers = np.zeros(len(paths), np.int64)
        for path in np.flatnonzero(np.bincount(paths)).tolist():
            if path:
                (positions,) = np.nonzero(paths == path)
                numbers[positions] = self._sent[path] + np.arange(len(positions))
                self._sent[path] += len(positions)
        return paths, numbers % _NUMBERS


def count(counts: Any, number: int) -> None:
    """Count a packet that arrived.

    Args:
        counts: FIRST, HIGHEST and ARRIVED of the packet's path.
        number: Number of the packet, modulo 65,536.
    """
    if not counts[ARRIVED]:
        counts[FIRST] = number
        counts[HIGHEST] = number
    counts[ARRIVED] += 1
    ahead = (number - counts[HIGHEST]) % _NUMBERS
    if ahead < _NUMBERS // 2:
        counts[HIGHEST] += ahead
    else:
        counts[FIRST] = min(counts[FIRST], counts[HIGHEST] + ahead - _NUMBERS)


class PathArrivals:
    """Counts the packets that arrived and that are missing on each path, at the receiver.

    Numbers from the lowest to the highest one that arrived can be missing. The losses of a silent
    path, and more than 32,767 losses in a row, cannot be found from the numbers. Duplicates may not
    be counted.

    Attributes:
        table: FIRST, HIGHEST and ARRIVED of each path.

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
        """Count a packet that arrived; packets of path 0 are ignored.

        Args:
            path: Path of the packet.
            number: Number of the packet on the path.
        """
        if path:
            count(self.table[path], number)

    def entries(self, limit: int = MAX_PATHS) -> tuple[Entry, ...]:
        """Return the entries of the next report, in the order of the paths.

        If there are more than ``limit`` paths, successive reports contain different ones in turn.
        """
        table = self.table if isinstance(self.table, list) else self.table.tolist()
        paths = [path for path, counts in enumerate(table) if counts[ARRIVED]]
        if len(paths) > limit:
            turn = self._turn % len(paths)
            self._turn = (self._turn + limit) % len(paths)
            paths = sorted((paths[turn:] + paths[:turn])[:limit])
        entries = []
        for path in paths:
            first, highest, arrived = table[path]
            lost = min(MAX_LOST, max(0, highest - first + 1 - arrived))
            entries.append((path, lost, arrived & _WORD))
        return tuple(entries)


class PathReports:
    """Sums up what loss reports say about each path, at the sender.

    The sums continue if a receiver restarts.

    >>> reports = PathReports()
    >>> for lost, arrived in ((1, 9), (2, 18), (0, 5)):  # The receiver restarts before the third.
    ...     reports.add([(1, lost, arrived)])
    >>> reports.totals
    {1: (2, 23)}
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._totals: dict[int, tuple[int, int]] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """Add the entries of a report, which must be newer than all earlier ones."""
        for path, lost, arrived in entries:
            old_lost, old_arrived = self._last.get(path, (0, 0))
            restarted = arrived < old_arrived and old_arrived - arrived < _WORD // 2
            if restarted:
                old_lost = 0
                old_arrived = 0
            total_lost, total_arrived = self._totals.get(path, (0, 0))
            self._totals[path] = (
                total_lost + lost - old_lost,
                total_arrived + (arrived - old_arrived & _WORD),
            )
            self._last[path] = (lost, arrived)

    @property
    def totals(self) -> dict[int, tuple[int, int]]:
        """Packets (lost, arrived) by path."""
        return dict(sorted(self._totals.items()))
