"""A label split: which of the 65,536 packet labels each link carries.

Made from a split route by ``testbed.routing.label_split.spraying``; the one table that switches' rules, the simulated
fabric and predictions of single and double failures are all read from.
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

LABELS = 65536
"""Size of the label space: the UDP source port's 16 bits."""

Interval = tuple[int, int]
"""Half-open range [start, stop) of labels, 0 <= start < stop <= 65536."""


@dataclass(frozen=True, kw_only=True)
class LabelPath:
    """Labels [start, stop) follow the links (indices into the network's) in order from source to sink."""

    start: int
    stop: int
    links: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LabelSplit:
    """Paths in label order that partition the label space: label -> the one path that its packets take."""

    network: Network
    source: str
    sink: str
    paths: tuple[LabelPath, ...]

    def __post_init__(self) -> None:
        at = 0
        for path in self.paths:
            if path.start != at or path.stop <= path.start:
                raise InputError(
                    f"label split: path at [{path.start}, {path.stop}) leaves labels from {at} without one path"
                )
            at = path.stop
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
        if at != LABELS:
            raise InputError(f"label split: labels from {at} have no path")

    def intervals(self, link: int) -> tuple[Interval, ...]:
        """Label intervals on the link (index), ascending, adjacent ones merged; empty where it carries none."""
        return self._by_link.get(link, ())

    def load(self, link: int) -> Fraction:
        """Exact share of the labels that the link carries (within 2/65536 of the split route's load)."""
        return Fraction(sum(stop - start for start, stop in self.intervals(link)), LABELS)

    @property
    def loaded(self) -> tuple[int, ...]:
        """Indices of links that carry any label, ascending."""
        return tuple(sorted(self._by_link))

    def path_of(self, label: int) -> LabelPath:
        """The path of one label."""
        return self.paths[bisect.bisect_right([p.start for p in self.paths], label) - 1]

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
        found: dict[int, list[Interval]] = {}
        for path in self.paths:
            for i in path.links:
                have = found.setdefault(i, [])
                if have and have[-1][1] == path.start:
                    have[-1] = (have[-1][0], path.stop)
                else:
                    have.append((path.start, path.stop))
        return {i: tuple(v) for i, v in found.items()}
