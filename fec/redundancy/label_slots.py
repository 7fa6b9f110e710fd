"""Orders of labels made for one route: the label space in equal slots, sent in the order that spreads the route's links
best.

Theory of operation. A multiplier (``fec.redundancy.labels.StratifiedLabels``) spreads every interval well and none
perfectly. A link that carries 1/3 of the labels needs N = 30 for M = 20 only if every third packet goes over it without
fail; one of load 1/12 needs no more than N at rest only if no 22 packets in a row have three of its own. Orders that do
this for all links of a route at once are found by annealing: T slots of 1/T of the label space each follow each other
in some order, over and over, each time with another label of the slot. Two slots change places, and the change is kept
if fewer windows of any link hold more losses than the link's bound ceil(M / (1 - r)) allows, or if it costs no more
than a threshold that falls to nearly nothing.

First the slots are few (``_COARSE``): the loads of the first capillary layers are multiples of a small fraction, and
fit whole slots. Then each is divided into ``_FINER`` and the search goes on, mostly among parts of one slot, which
leaves the coarse pattern whole. A slot counts for every link that has a label in it, so that what fits here fits all
the more when it is reckoned exactly (``fec.redundancy.label_layout``).

Deterministic: a generator of its own, no clock, and no function but roots, which every machine rounds alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.jit import compiled_entry
from fec.redundancy.block_size import Interval
from fec.redundancy.labels import LABELS, slot_edges

Numbers = NDArray[np.number[Any]]

_COARSE = (24, 20, 28, 30, 36, 40)
_FINER = 10
_REFINED = 2
"""So many of the coarse orders are divided further."""
_COARSE_MOVES, _FINE_MOVES = 30_000, 100_000
_COARSE_WAY = (1.0, 1.0, 0.1)
_FINE_PATHS = ((0.05, 0.6, 0.1), (0.15, 0.3, 0.05))
"""Of a search: the share of moves between any two places, not parts of one slot only; thresholds at the beginning and
at the end, in links times roots of windows. Which of the two is better differs from route to route; both are tried."""
_HEAVY = 0.9
"""Links of more load take no part in the search: their windows are too long."""


Slots = NDArray[np.int64]
"""Slot by place: an order."""


Way = tuple[float, float, float]


class SlotSearch:
    """Looks for orders for the links of one route. ``sets``: label intervals of its links; ``counts``: how many links
    carry just these; ``least``: N at rest, which every link may use up. Cost: some tenths of a second for a hundred
    links."""

    def __init__(
        self,
        sets: Sequence[Sequence[Interval]],
        counts: Sequence[int],
        source_packets: int,
        least: int,
    ) -> None:
        labels = [sum(stop - start for start, stop in intervals) for intervals in sets]
        chosen = [k for k, count in enumerate(labels) if count <= _HEAVY * LABELS]
        self._sets = [sets[k] for k in chosen]
        self._counts = np.array([counts[k] for k in chosen], dtype=np.float64)
        self._labels = np.array([labels[k] for k in chosen], dtype=np.int64)
        self._m, self._least = source_packets, least

    def orders(
        self, cost_of: Callable[[tuple[int, ...]], tuple[int, ...]], least: tuple[int, ...]
    ) -> list[tuple[int, ...]]:
        """Orders worth a trial, coarse ones and divided ones. ``cost_of``: of a whole order, exactly; the cheapest
        coarse ones are divided. ``least``: what no order costs less than; one that costs it is enough."""
        coarse: list[Slots] = []
        for count in _COARSE if self._sets else ():
            coarse.append(self._coarse(count))
            if cost_of(tuple(coarse[-1].tolist())) <= least:
                return [tuple(coarse[-1].tolist())]
        ranked = sorted(coarse, key=lambda slots: cost_of(tuple(slots.tolist())))
        divided = [self._divided(slots, way) for slots in ranked[:_REFINED] for way in _FINE_PATHS]
        return [tuple(slots.tolist()) for slots in (*coarse, *divided)]

    def _coarse(self, count: int) -> Slots:
        """From the best multiple, places exchanged at will."""
        inside = self._inside(count)
        turns = [
            np.arange(count) * step % count
            for step in range(1, count)
            if math.gcd(step, count) == 1
        ]
        windows = self._windows(inside)
        start = min(
            turns,
            key=lambda slots: float(
                _cost_of(slots, inside, windows, windows - self._m, self._counts)
            ),
        )
        return self._annealed(
            start, inside, np.zeros(count, dtype=np.int64), _COARSE_MOVES, _COARSE_WAY
        )

    def _divided(self, coarse: Slots, way: Way) -> Slots:
        """Every slot in parts, one a round; the parts of a slot spread evenly over the rounds."""
        count = len(coarse)
        part = np.argsort(np.argsort(np.arange(_FINER) * ((math.sqrt(5) - 1) / 2) % 1))
        turn = np.arange(count)
        slots = np.concatenate([coarse * _FINER + part[(turn + k) % _FINER] for k in range(_FINER)])
        classes = np.tile(turn, _FINER)
        return self._annealed(slots, self._inside(count * _FINER), classes, _FINE_MOVES, way)

    def _annealed(
        self,
        slots: Slots,
        inside: NDArray[np.bool_],
        classes: NDArray[np.int64],
        moves: int,
        way: Way,
    ) -> Slots:
        first = np.concatenate(([0], np.cumsum(inside.sum(axis=1))))
        members = np.nonzero(inside)[1].astype(np.int32)
        by_class = np.argsort(classes, kind="stable")
        starts = np.searchsorted(classes[by_class], np.arange(classes.max() + 2))
        windows = self._windows(inside)
        order = slots.astype(np.int64)
        best = order.copy()
        _anneal(
            order,
            best,
            inside,
            first,
            members,
            windows,
            windows - self._m,
            self._counts,
            (classes, by_class, starts),
            (moves, *way),
        )
        return best

    def _windows(self, inside: NDArray[np.bool_]) -> Slots:
        """Shape (links,): the bound ceil(M / (1 - r)), r by labels or, where rounding to labels has made that more, by
        slots."""
        share = np.minimum(self._labels / LABELS, inside.mean(axis=0))
        return np.asarray(
            np.maximum(self._least, np.ceil(self._m / (1 - share) - 1e-9)), dtype=np.int64
        )

    def _inside(self, count: int) -> NDArray[np.bool_]:
        """Shape (slots, links): whether the slot has a label of the link's that is ever sent."""
        low, high = slot_edges(count)
        inside: NDArray[np.bool_] = np.zeros((count, len(self._sets)), dtype=np.bool_)
        for number, intervals in enumerate(self._sets):
            for start, stop in intervals:
                inside[:, number] |= (low < stop) & (high >= start)
        return inside


def _excess(
    order: Numbers, inside: Numbers, windows: Numbers, most: Numbers, in_use: Numbers
) -> Numbers:
    """Per link, by how many losses all its windows together hold too many; ``held``: filled with each window's
    losses."""
    places, links = len(order), inside.shape[1]
    excess = np.zeros(links, dtype=np.int64)
    for link in range(links):
        for place in range(places):
            if inside[order[place], link]:
                for back in range(windows[link]):
                    in_use[link, (place - back) % places] += 1
        for place in range(places):
            excess[link] += max(0, in_use[link, place] - most[link])
    return excess


def _reckon(
    order: Numbers, inside: Numbers, windows: Numbers, most: Numbers, counts: Numbers
) -> float:
    excess = _excess(
        order, inside, windows, most, np.zeros((inside.shape[1], len(order)), dtype=np.int32)
    )
    cost = 0.0
    for link in range(len(excess)):
        cost += counts[link] * math.sqrt(excess[link])
    return cost


_cost_of = compiled_entry(_reckon)


def _parted(out: int, into: int, count: int, places: int) -> tuple[int, int, int]:
    """Of the windows of ``count`` places that hold a loss moved from one place to another, those that change: the last
    places of those that lose it and of those that gain it, and how many there are of each; windows that hold both
    places keep their losses."""
    while count >= places:  # whole rounds hold every place
        count -= places
    ahead = (into - out) % places
    steps = min(count, ahead, places - ahead, places - count)
    if steps == places - count:
        out, into = into + steps, out + steps
    elif steps == ahead:
        out = out - count + steps
    elif steps < count:
        into = into - count + steps
    return out % places, into % places, steps


def _grow(link: int, out: int, into: int, windows: Numbers, most: Numbers, in_use: Numbers) -> int:
    """By how much a link's excess would grow if one loss of its own were moved from a place to another."""
    places, limit, change = in_use.shape[1], most[link], 0
    out, into, steps = _parted(out, into, windows[link], places)
    for _ in range(steps):  # no remainders in here: a division would take longer than the rest
        change += int(in_use[link, into] >= limit) - int(in_use[link, out] > limit)
        out = out - 1 if out else places - 1
        into = into - 1 if into else places - 1
    return change


def _shift(link: int, out: int, into: int, windows: Numbers, in_use: Numbers) -> None:
    """Move one loss of a link from a place to another."""
    places = in_use.shape[1]
    out, into, steps = _parted(out, into, windows[link], places)
    for _ in range(steps):
        in_use[link, out] -= 1
        in_use[link, into] += 1
        out = out - 1 if out else places - 1
        into = into - 1 if into else places - 1


def _draw(state: Numbers, draws: Numbers) -> None:
    """Numbers in [0, 1) by xorshift64."""
    bits = state[0]
    for k in range(len(draws)):
        bits ^= bits << np.uint64(13)
        bits ^= bits >> np.uint64(7)
        bits ^= bits << np.uint64(17)
        draws[k] = float(bits >> np.uint64(11)) / 9007199254740992.0
    state[0] = bits


def _search(
    order: Numbers,
    best: Numbers,
    inside: Numbers,
    first: Numbers,
    members: Numbers,
    windows: Numbers,
    most: Numbers,
    counts: Numbers,
    exchange: tuple[Numbers, Numbers, Numbers],
    way: tuple[int, float, float, float],
) -> None:
    """Write the cheapest order that a search by threshold accepting meets into ``best``.

    Args:
        order: The order to start from; it is changed.
        best: A copy of it.
        inside: Whether a slot has a label of a link, by slot and link.
        first: Per slot, where its part of ``members`` begins.
        members: The links of each slot.
        windows: Per link, the number of slots of a window.
        most: Per link, the largest number of losses in a window.
        counts: Per link, its weight in the cost.
        exchange: Class of each position, positions by class, and where each class starts.
        way: Number of moves, share of those between any two positions, first and last threshold.
    """
    classes, by_class, starts = exchange
    moves, anywhere, hot, cold = way
    places, links = len(order), inside.shape[1]
    in_use = np.zeros((links, places), dtype=np.int32)
    excess = _excess(order, inside, windows, most, in_use)
    cost = 0.0
    for link in range(links):
        cost += counts[link] * math.sqrt(excess[link])
    least = cost
    touched, grown = np.empty(links, dtype=np.int64), np.empty(links, dtype=np.int64)
    state, draws = np.array([88172645463325252], dtype=np.uint64), np.empty(4)
    for move in range(moves):
        if least < 1e-9:
            break
        _draw(state, draws)
        a = int(draws[0] * places)
        if draws[1] < anywhere:
            b = int(draws[2] * places)
        else:
            begin, end = starts[classes[a]], starts[classes[a] + 1]
            b = by_class[begin + int(draws[2] * (end - begin))]
        x, y = order[a], order[b]
        if x == y:
            continue
        count, change = 0, 0.0
        for mine, other, out, into in ((x, y, a, b), (y, x, b, a)):
            for at in range(first[mine], first[mine + 1]):
                link = members[at]
                if not inside[other, link]:
                    grown[count] = _grow(link, out, into, windows, most, in_use)
                    change += counts[link] * (
                        math.sqrt(excess[link] + grown[count]) - math.sqrt(excess[link])
                    )
                    touched[count] = link
                    count += 1
        if change <= 2 * draws[3] * (hot + (cold - hot) * move / moves):
            order[a], order[b] = y, x
            cost += change
            for k in range(count):
                excess[touched[k]] += grown[k]
                if inside[x, touched[k]]:
                    _shift(touched[k], a, b, windows, in_use)
                else:
                    _shift(touched[k], b, a, windows, in_use)
            if cost < least - 1e-9:
                least = cost
                best[:] = order


_anneal = compiled_entry(_search)
