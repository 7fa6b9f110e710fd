"""The label split of a route: which of the 65,536 packet labels each link carries.

``testbed.routing.label_split.spraying`` computes it from a split route. Switch rules, the simulated
fabric and the predictions of link failures all read this one table.
"""

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

from testbed.errors import InputError
from topologies.network import Network

T = TypeVar("T")

# Number of labels. A label is the 16-bit UDP source port of a packet.
LABELS = 65536

# Half-open range [start, stop) of labels, 0 <= start < stop <= 65536.
Interval = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class LabelPath:
    """The path of the packets with labels in [start, stop).

    Attributes:
        start: The first label.
        stop: The label after the last one.
        links: Indices of the network's links, in order from source to sink.
    """

    start: int
    stop: int
    links: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LabelSplit:
    """A partition of all labels into paths from a source to a sink.

    Attributes:
        network: The network of the paths.
        source: Id of the node where all paths begin.
        sink: Id of the node where all paths end.
        paths: The paths in the order of their labels. Every label has exactly one path.

    Raises:
        InputError: A label has no path or several, or a path does not lead from source to sink.
    """

    network: Network
    source: str
    sink: str
    paths: tuple[LabelPath, ...]

    def __post_init__(self) -> None:
        next_label = 0
        for path in self.paths:
            if path.start != next_label or path.stop <= path.start:
                raise InputError(
                    f"label split: path at [{path.start}, {path.stop}) "
                    f"leaves labels from {next_label} without one path"
                )
            next_label = path.stop
            self._check_connected(path)
        if next_label != LABELS:
            raise InputError(f"label split: labels from {next_label} have no path")

    def _check_connected(self, path: LabelPath) -> None:
        """Raise InputError unless the path's links lead from the source to the sink."""
        node = self.source
        for i in path.links:
            link = self.network.links[i]
            if link.source != node:
                raise InputError(
                    f"label split: path at {path.start} jumps from {node!r} to {link.label}"
                )
            node = link.target
        if node != self.sink:
            raise InputError(
                f"label split: path at {path.start} ends at {node!r}, not at the sink {self.sink!r}"
            )

    def intervals(self, link: int) -> tuple[Interval, ...]:
        """Return the label intervals that a link carries, ascending and with adjacent ones merged.

        Args:
            link: Index of the link in the network.
        """
        return self._by_link.get(link, ())

    def load(self, link: int) -> Fraction:
        """Return the exact fraction of all labels that a link carries.

        It differs from the load of the split route by at most 2/65536.

        Args:
            link: Index of the link in the network.
        """
        return Fraction(sum(stop - start for start, stop in self.intervals(link)), LABELS)

    @property
    def loaded(self) -> tuple[int, ...]:
        """Indices of the links that carry any label, ascending."""
        return tuple(sorted(self._by_link))

    def path_of(self, label: int) -> LabelPath:
        """Return the path of the packets with this label."""
        starts = [path.start for path in self.paths]
        return self.paths[bisect.bisect_right(starts, label) - 1]

    def per_label(self, path_values: Iterable[T]) -> list[T]:
        """Return the value of each label's path, for all labels in order.

        Args:
            path_values: One value for each path, in the order of ``paths``.
        """
        values: list[T] = []
        for path, value in zip(self.paths, path_values, strict=True):
            # A list is repeated by one call for all labels of the path.
            values += [value] * (path.stop - path.start)
        return values

    @cached_property
    def _by_link(self) -> Mapping[int, tuple[Interval, ...]]:
        """Label intervals by the index of their link."""
        intervals_by_link: dict[int, list[Interval]] = {}
        for path in self.paths:
            for i in path.links:
                intervals = intervals_by_link.setdefault(i, [])
                if intervals and intervals[-1][1] == path.start:
                    intervals[-1] = (intervals[-1][0], path.stop)
                else:
                    intervals.append((path.start, path.stop))
        return {i: tuple(intervals) for i, intervals in intervals_by_link.items()}
