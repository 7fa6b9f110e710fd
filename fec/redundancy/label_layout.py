"""Selects the stratified order of labels that suits the label intervals of a given route best.

Theory of operation. A link of load r loses N r of N packets on average, so that N is at least
M / (1 - r): no order of labels needs fewer than ceil(M / (1 - r)) packets. The usual order,
multiples of the golden ratio, spreads every single interval well. Most links of a route with many
paths carry several intervals, which may fall into one window. How often they do depends only on the
distances between the intervals and on the multiplier. Therefore the orders of ``CANDIDATES`` and
orders that are made for the route (``fec.redundancy.label_slots``) are tried on the route, and the
best is selected: first by N in steady state, which is paid all the time, then by the additional
packets that the failures of all links require, each once. The result is never worse than that of a
multiplier.

Switches treat all orders alike: only the sender numbers its labels differently. An order that was
selected for a route may be worse for sets of intervals that no link of it carries, and therefore
for several failures at once.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError
from fec.redundancy.block_size import UNBOUNDED, Interval, stratified_tolerance_block_size
from fec.redundancy.labels import LABELS, WEYL_MULTIPLIER, LabelRule

# Odd multipliers, the usual one first. Of two equally good ones, the earlier one is selected.
#
# Of 3,229 odd numbers drawn at random these were the best over ten routes of mobile networks (40 to
# 80 nodes; capillary layers 3, 5, 10 and all; M = 20, t = 0.05), together or for one of them. On
# thirteen other routes the packets over the bound, summed over all links, are 278, and 308 with the
# first nine alone. The best of all 3,229 is 20 % better than nine on the routes for which it was
# selected.
#
# Two conditions ensure that longer runs are spread evenly too, so that a loss is soon detected and
# measured. The first n labels leave no gap wider than 7/n of the label space, for n of 30 to 3840.
# (The usual multiplier has 5.3/n; a number that is nearly 5/69 of the space leaves gaps of 1 % for
# thousands of packets.) And N for the usual tolerance in one interval is the bound, 22. Worst
# windows for M = 20 and a share of 0.05, 0.1, ... 0.7:
#
#     usual    22 24 25 26 28 31 33 34 39 42 47 53 60 71
#     22743    22 23 25 26 28 29 33 36 40 43 46 52 58 72
#     31559    22 23 25 26 27 31 33 35 39 42 46 54 67 73
_OTHER_MULTIPLIERS = (
    "22743 31559 45569 37823 35121 14303 15775 44593 13647 22803 22693 31399 30027 "
    "22779 17105 22695 22701 19125 22715 19129 13629 30031 17635 13623 31515 17649 "
    "19109 17651 31395 19141 22781 22759 17013 19145 22763 20985 17657 22769 20993 "
    "20995 12597 12599 19093 18339 25635 19951 19085 18337 25639 10473 19961 19965 "
    "10471 13659 27731 25631 27733 18333 12595 31481 14257 13667 14259"
)
CANDIDATES = (WEYL_MULTIPLIER, *map(int, _OTHER_MULTIPLIERS.split()))

# Largest difference between an interval's share of an order of slots and its share of the labels.
_MAX_SHARE_ERROR = 16 / LABELS
_NO_LIMIT = LABELS**2

# Label intervals, and the number of links that carry exactly these.
Groups = tuple[tuple[tuple[Interval, ...], int], ...]


@dataclass(frozen=True, kw_only=True)
class LabelLayout:
    """The block sizes that one order of labels requires on one route.

    Attributes:
        multiplier: The order's multiplier, or 0 for an order of slots.
        slots: The order of slots, or empty for an order by a multiplier.
        bound: ceil(M / (1 - t)), the smallest possible N in steady state.
        base: N in steady state. It answers the failure of every link whose load is at most the
            tolerance t. With a multiplier it answers the loss of every interval of this width.
        packets: Packets beyond ``bound`` that the failures of all links require, each once.
        over_bound: The part of ``packets`` above ceil(M / (1 - r)) of each link, where r is the
            share of its labels in the order.
        links_over_bound: Number of links that need more than ceil(M / (1 - r)).
    """

    multiplier: int
    slots: tuple[int, ...] = ()
    bound: int
    base: int
    packets: int
    over_bound: int
    links_over_bound: int

    @property
    def cost(self) -> tuple[int, int]:
        """N in steady state, then the packets for failures; the smaller tuple is better."""
        return self.base, self.packets

    @property
    def rule(self) -> LabelRule:
        """The rule of the order (``fec.redundancy.labels.stratified_labels``)."""
        return self.slots or self.multiplier


def block_size_bound(share: float, source_packets: int) -> int:
    """Return ceil(M / (1 - share)): no order of labels answers this loss with fewer packets.

    Raises:
        FecError: The share is not from 0 to below 1.

    >>> block_size_bound(0.25, 20), block_size_bound(0.0, 20), block_size_bound(1 / 3, 20)
    (27, 20, 30)
    """
    if not 0 <= share < 1:
        raise FecError(f"share {share!r}: give a fraction of the labels, from 0 to below 1")
    # The share is converted to a number of labels, so that rounding errors have no effect.
    lost = math.floor(share * LABELS + 1e-6)
    return -(-source_packets * LABELS // (LABELS - lost))


def rest_block_size(tolerance: float | Fraction, source_packets: int, rule: LabelRule) -> int:
    """Return the N in steady state that a loss equal to the tolerance requires.

    For a multiplier, this is the loss of one interval wherever it lies. An order of slots is made
    for the links of a route, which ``LabelLayout.base`` takes into account; the result is then
    ceil(M / (1 - t)).

    Args:
        tolerance: The loss t, from 0 to below 1.
        source_packets: M, the source packets of a block.
        rule: The rule of the order.

    >>> rest_block_size(0.05, 20, 40503), rest_block_size(0.05, 20, (1, 0))
    (22, 22)
    """
    if isinstance(rule, int):
        return stratified_tolerance_block_size(tolerance, source_packets, rule)
    return block_size_bound(float(tolerance), source_packets)


def label_layout(
    groups: Groups, source_packets: int, tolerance: float, rule: LabelRule
) -> LabelLayout:
    """Return the block sizes that an order requires on a route.

    It takes a few milliseconds for a hundred groups.

    Args:
        groups: The label intervals of the route's links.
        source_packets: M, the source packets of a block.
        tolerance: The loss t that N in steady state tolerates.
        rule: The rule of the order.

    Raises:
        FecError: A group carries every label.
    """
    return _Layouts(groups, source_packets, tolerance).layout_of(rule)


def best_layout(groups: Groups, source_packets: int, tolerance: float) -> LabelLayout:
    """Return the layout of the best order for a route.

    It has the smallest N in steady state, then the fewest packets, of ``CANDIDATES`` and the orders
    that are made for the groups. The order of the groups has no effect. It takes 0.01 to 0.2 s. The
    result is cached, because many pairs of hosts of a regular network have the same groups.

    Args:
        groups: The label intervals of the route's links.
        source_packets: M, the source packets of a block.
        tolerance: The loss t that N in steady state tolerates.

    Raises:
        FecError: A group carries every label.

    >>> quarters = tuple((((k * 16384, (k + 1) * 16384),), 1) for k in range(4))
    >>> layout = best_layout(quarters, 20, 0.05)
    >>> layout.base, layout.packets, layout.over_bound
    (22, 20, 0)
    """
    return _best_layout(tuple(sorted(groups)), source_packets, tolerance)


@lru_cache(maxsize=1024)
def _best_layout(groups: Groups, source_packets: int, tolerance: float) -> LabelLayout:
    from fec.redundancy.label_slots import SlotSearch

    layouts = _Layouts(groups, source_packets, tolerance)
    search = SlotSearch(
        [intervals for intervals, _ in groups],
        [count for _, count in groups],
        source_packets,
        layouts.bound,
    )
    layout_of = cache(layouts.layout_of)
    orders = search.orders(lambda rule: layout_of(rule).cost, (layouts.bound, layouts.min_packets))
    best = min(map(layout_of, orders or CANDIDATES[:1]), key=lambda layout: layout.cost)
    for rule in CANDIDATES:
        best = layouts.better(rule, best)
    return best


class _Layouts:
    """Computes the layouts of rules for the links of one route.

    Attributes:
        bound: ceil(M / (1 - t)), the smallest possible N in steady state.
        min_packets: Packets beyond the bound that every order requires.
    """

    def __init__(self, groups: Groups, m: int, tolerance: float) -> None:
        from fec.redundancy.worst_windows import WorstWindows

        self.bound = block_size_bound(tolerance, m)
        self._m = m
        self._tolerance = tolerance
        self._counts = np.array([count for _, count in groups], dtype=np.int64)
        shares = [_label_count(intervals) / LABELS for intervals, _ in groups]
        if max(shares, default=0.0) >= 1:
            raise FecError(
                "a group of links carries every label:"
                " nothing arrives while one of them is down, no N suffices"
            )
        self._windows = WorstWindows([intervals for intervals, _ in groups], m)
        self._bounds = self._bounds_of(np.array(shares))
        # Links whose failure N answers in steady state.
        self._light = np.array(shares) <= tolerance
        min_shares = [
            share - _MAX_SHARE_ERROR * len(intervals)
            for share, (intervals, _) in zip(shares, groups, strict=True)
        ]
        min_sizes = self._bounds_of(np.maximum(min_shares, 0.0))
        self.min_packets = int(((min_sizes - self.bound) * self._counts).sum())

    def layout_of(self, rule: LabelRule) -> LabelLayout:
        """Return the layout of a rule."""
        return self._layout(rule, self._windows.sizes(rule))

    def better(self, rule: LabelRule, best: LabelLayout) -> LabelLayout:
        """Return the layout of a rule if it is better than ``best``, else ``best``.

        A multiplier is preferred to slots at the same cost. Most rules are rejected before all
        block sizes are known.
        """
        base = rest_block_size(self._tolerance, self._m, rule)
        if base > best.base:
            return best
        largest = np.where(self._light, best.base, _NO_LIMIT)
        packets = best.packets if base == best.base else _NO_LIMIT
        sizes = self._windows.sizes(rule, (self._counts, largest, self.bound, packets))
        if len(sizes) < len(self._counts):
            return best
        layout = self._layout(rule, sizes)
        rank = (layout.cost, layout.slots > ())
        return layout if rank < (best.cost, best.slots > ()) else best

    def _bounds_of(self, shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the smallest possible N for links with these loads, at least N in steady state."""
        bounds = [block_size_bound(float(share), self._m) for share in shares]
        return np.maximum(self.bound, np.array(bounds, dtype=np.int64))

    def _layout(self, rule: LabelRule, sizes: NDArray[np.int64]) -> LabelLayout:
        """Return the layout of a rule with these block sizes, one for each group of links."""
        sizes = np.maximum(self.bound, sizes)
        # If no packet of an order arrives after a failure, its N in steady state is unbounded, so
        # that the order is the worst.
        steady_sizes = sizes[self._light | (sizes >= UNBOUNDED)]
        base = rest_block_size(self._tolerance, self._m, rule)
        if isinstance(rule, int):
            multiplier = rule
            slots: tuple[int, ...] = ()
            # An order by a multiplier has every label once per period.
            bounds = self._bounds
        else:
            multiplier = 0
            slots = rule
            bounds = self._bounds_of(self._windows.shares(rule))
        excess = (sizes - bounds) * self._counts
        return LabelLayout(
            multiplier=multiplier,
            slots=slots,
            bound=self.bound,
            base=int(steady_sizes.max(initial=base)),
            packets=int(((sizes - self.bound) * self._counts).sum()),
            over_bound=int(excess.sum()),
            links_over_bound=int(self._counts[excess > 0].sum()),
        )


def _label_count(intervals: tuple[Interval, ...]) -> int:
    return sum(stop - start for start, stop in intervals)
