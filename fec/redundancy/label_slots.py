"""Finds orders of labels for one route: equal slots of the label space, ordered to suit its links.

Theory of operation. A multiplier (``fec.redundancy.labels.StratifiedLabels``) spreads every
interval well and none perfectly. A link that carries 1/3 of the labels needs N = 30 for M = 20 only
if exactly every third packet takes it. A link of load 1/12 needs no more than N in steady state
only if no 22 consecutive packets have three on this link.

Orders that achieve this for all links of a route are found by a search. The label space is divided
into T slots of equal width. The slots follow each other in some order, which is repeated, each time
with another label of each slot. The search exchanges two slots. It accepts the exchange if fewer
windows of any link hold more losses than the link's bound ceil(M / (1 - r)) allows, or if the
exchange costs no more than a threshold, which falls to nearly nothing.

The search begins with few slots (``_COARSE``): the loads of the first capillary layers are
multiples of a small fraction and fit complete slots. Then each slot is divided into ``_FINER``
parts, and the search continues, mostly among parts of one slot, which preserves the coarse pattern.
A slot counts for every link that has a label in it. An order that fits here also fits when it is
computed exactly (``fec.redundancy.label_layout``).

The result is deterministic: the search has its own random generator and no clock. Its only function
is the square root, which every machine rounds in the same way.
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

# Numbers of slots of the coarse orders, and of parts into which a slot is divided.
_COARSE = (24, 20, 28, 30, 36, 40)
_FINER = 10

# The slots of this number of coarse orders are divided, those of the best ones.
_REFINED = 2

# Number of exchanges that a search tries.
_COARSE_MOVES = 30_000
_FINE_MOVES = 100_000

# Links with a larger load are ignored, because their windows are too long.
_HEAVY = 0.9

# The slot at each position of an order.
Slots = NDArray[np.int64]

# Parameters of a search: the share of exchanges between any two positions (the others are between
# parts of one slot), and the first and the last threshold, in links times roots of windows.
SearchParameters = tuple[float, float, float]
_COARSE_SEARCH: SearchParameters = (1.0, 1.0, 0.1)

# The better of the two differs from route to route, so both are tried.
_FINE_SEARCHES: tuple[SearchParameters, ...] = ((0.05, 0.6, 0.1), (0.15, 0.3, 0.05))


class SlotSearch:
    """Searches for orders of slots for the links of one route.

    A search takes some tenths of a second for a hundred links.
    """

    def __init__(
        self,
        sets: Sequence[Sequence[Interval]],
        counts: Sequence[int],
        source_packets: int,
        base_size: int,
    ) -> None:
        """Prepare the search.

        Args:
            sets: The different sets of label intervals of links.
            counts: The number of links with each set.
            source_packets: M, the source packets of a block.
            base_size: N in steady state, which every link may use.
        """
        labels = [_label_count(intervals) for intervals in sets]
        chosen = [k for k, count in enumerate(labels) if count <= _HEAVY * LABELS]
        self._sets = [sets[k] for k in chosen]
        self._counts = np.array([counts[k] for k in chosen], dtype=np.float64)
        self._labels = np.array([labels[k] for k in chosen], dtype=np.int64)
        self._m = source_packets
        self._base_size = base_size

    def orders(
        self, cost_of: Callable[[tuple[int, ...]], tuple[int, ...]], min_cost: tuple[int, ...]
    ) -> list[tuple[int, ...]]:
        """Return orders that are worth a trial: the coarse ones and the divided ones.

        Args:
            cost_of: Returns the exact cost of an order. The cheapest coarse orders are divided.
            min_cost: Lower bound of all costs. An order with this cost ends the search.
        """
        if not self._sets:
            return []
        coarse: list[Slots] = []
        for count in _COARSE:
            slots = self._coarse(count)
            coarse.append(slots)
            if cost_of(tuple(slots.tolist())) <= min_cost:
                return [tuple(slots.tolist())]
        ranked = sorted(coarse, key=lambda slots: cost_of(tuple(slots.tolist())))
        divided: list[Slots] = []
        for slots in ranked[:_REFINED]:
            for parameters in _FINE_SEARCHES:
                divided.append(self._divided(slots, parameters))
        return [tuple(slots.tolist()) for slots in (*coarse, *divided)]

    def _coarse(self, count: int) -> Slots:
        """Return an order of ``count`` slots, from a search that begins with the best multiple."""
        inside = self._inside(count)
        windows = self._windows(inside)

        def cost_of(slots: Slots) -> float:
            return float(_cost_of(slots, inside, windows, windows - self._m, self._counts))

        steps = [step for step in range(1, count) if math.gcd(step, count) == 1]
        start = min((np.arange(count) * step % count for step in steps), key=cost_of)
        one_class = np.zeros(count, dtype=np.int64)
        return self._annealed(start, inside, one_class, _COARSE_MOVES, _COARSE_SEARCH)

    def _divided(self, coarse: Slots, parameters: SearchParameters) -> Slots:
        """Return an order of the parts of all slots; each round has one part of every slot."""
        count = len(coarse)
        # The parts of a slot are spread evenly over the rounds, by the golden ratio.
        golden = (math.sqrt(5) - 1) / 2
        part = np.argsort(np.argsort(np.arange(_FINER) * golden % 1))
        turn = np.arange(count)
        slots = np.concatenate([coarse * _FINER + part[(turn + k) % _FINER] for k in range(_FINER)])
        classes = np.tile(turn, _FINER)
        inside = self._inside(count * _FINER)
        return self._annealed(slots, inside, classes, _FINE_MOVES, parameters)

    def _annealed(
        self,
        slots: Slots,
        inside: NDArray[np.bool_],
        classes: NDArray[np.int64],
        moves: int,
        parameters: SearchParameters,
    ) -> Slots:
        """Return the best order that a search finds.

        Args:
            slots: The order to start from.
            inside: Whether each slot has a label of each link.
            classes: The class of each position; most exchanges are within a class.
            moves: Exchanges to try.
            parameters: Parameters of the search.
        """
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
            (moves, *parameters),
        )
        return best

    def _windows(self, inside: NDArray[np.bool_]) -> Slots:
        """Return the bound ceil(M / (1 - r)) of each link, int64 of shape (links,).

        The load r is the link's share of the labels or of the slots, whichever is smaller: loads
        are rounded to labels.
        """
        share = np.minimum(self._labels / LABELS, inside.mean(axis=0))
        bounds = np.ceil(self._m / (1 - share) - 1e-9)
        return np.asarray(np.maximum(self._base_size, bounds), dtype=np.int64)

    def _inside(self, count: int) -> NDArray[np.bool_]:
        """Return whether each slot has a label in use of each link, of shape (slots, links)."""
        low, high = slot_edges(count)
        inside: NDArray[np.bool_] = np.zeros((count, len(self._sets)), dtype=np.bool_)
        for number, intervals in enumerate(self._sets):
            for start, stop in intervals:
                inside[:, number] |= (low < stop) & (high >= start)
        return inside


def _label_count(intervals: Sequence[Interval]) -> int:
    return sum(stop - start for start, stop in intervals)


# A routine's digest includes the source of the steps below, so that a change of a comment there
# requires the routines to be built again.


def _excess(
    order: Numbers, inside: Numbers, windows: Numbers, max_losses: Numbers, in_use: Numbers
) -> Numbers:
    """Return for each link by how many losses its windows exceed the limit, in total.

    The losses of each window are written to ``in_use``.
    """
    positions = len(order)
    links = inside.shape[1]
    excess = np.zeros(links, dtype=np.int64)
    for link in range(links):
        for position in range(positions):
            if inside[order[position], link]:
                for back in range(windows[link]):
                    in_use[link, (position - back) % positions] += 1
        for position in range(positions):
            excess[link] += max(0, in_use[link, position] - max_losses[link])
    return excess


def _order_cost(
    order: Numbers, inside: Numbers, windows: Numbers, max_losses: Numbers, counts: Numbers
) -> float:
    excess = _excess(
        order, inside, windows, max_losses, np.zeros((inside.shape[1], len(order)), dtype=np.int32)
    )
    cost = 0.0
    for link in range(len(excess)):
        cost += counts[link] * math.sqrt(excess[link])
    return cost


_cost_of = compiled_entry(_order_cost)


def _changed_windows(out: int, into: int, count: int, positions: int) -> tuple[int, int, int]:
    """Return the windows whose number of losses changes if a loss moves to another position.

    Windows that contain both positions do not change.

    Args:
        out: The position of the loss.
        into: Its new position.
        count: Number of positions of a window.
        positions: Number of positions of the order.

    Returns:
        The last window that loses the loss, the last one that gains it, and the number of windows,
        up to each of these, that change in the same schedule. A window has the number of its first
        position.
    """
    while count >= positions:  # A complete round contains every position.
        count -= positions
    ahead = (into - out) % positions
    steps = min(count, ahead, positions - ahead, positions - count)
    if steps == positions - count:
        out, into = into + steps, out + steps
    elif steps == ahead:
        out = out - count + steps
    elif steps < count:
        into = into - count + steps
    return out % positions, into % positions, steps


def _growth(
    link: int, out: int, into: int, windows: Numbers, max_losses: Numbers, in_use: Numbers
) -> int:
    """Return the change of the link's excess if one of its losses moves to another position.

    Args:
        link: The link.
        out: The position of the loss.
        into: Its new position.
        windows: Number of positions of a window, for each link.
        max_losses: Maximum number of losses in a window, for each link.
        in_use: Number of losses of each window, for each link.
    """
    positions = in_use.shape[1]
    limit = max_losses[link]
    change = 0
    out, into, steps = _changed_windows(out, into, windows[link], positions)
    for _ in range(steps):  # A division here would take longer than all other operations.
        change += int(in_use[link, into] >= limit) - int(in_use[link, out] > limit)
        out = out - 1 if out else positions - 1
        into = into - 1 if into else positions - 1
    return change


def _shift(link: int, out: int, into: int, windows: Numbers, in_use: Numbers) -> None:
    """Move one loss of a link to another position (see ``_growth``)."""
    positions = in_use.shape[1]
    out, into, steps = _changed_windows(out, into, windows[link], positions)
    for _ in range(steps):
        in_use[link, out] -= 1
        in_use[link, into] += 1
        out = out - 1 if out else positions - 1
        into = into - 1 if into else positions - 1


def _draw(state: Numbers, draws: Numbers) -> None:
    """Fill ``draws`` with random numbers in [0, 1), by xorshift64 with this state."""
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
    max_losses: Numbers,
    counts: Numbers,
    exchange: tuple[Numbers, Numbers, Numbers],
    schedule: tuple[int, float, float, float],
) -> None:
    """Search by threshold accepting, and write the cheapest order into ``best``.

    The function is long because a compiled step may not call Python.

    Args:
        order: The order to start from; it is changed.
        best: A copy of it.
        inside: True if a slot has a label of a link, by slot and link.
        first: The position in ``members`` at which the links of each slot begin.
        members: The links of each slot.
        windows: Number of slots of a window, for each link.
        max_losses: Maximum number of losses in a window, for each link.
        counts: Weight in the cost, for each link.
        exchange: Class of each position, positions by class, and the start of each class.
        schedule: Number of moves, share of those between any two positions, first and last
            threshold.
    """
    classes, by_class, starts = exchange
    moves, anywhere, hot, cold = schedule
    positions = len(order)
    links = inside.shape[1]
    in_use = np.zeros((links, positions), dtype=np.int32)
    excess = _excess(order, inside, windows, max_losses, in_use)
    cost = 0.0
    for link in range(links):
        cost += counts[link] * math.sqrt(excess[link])
    best_cost = cost
    touched = np.empty(links, dtype=np.int64)
    growths = np.empty(links, dtype=np.int64)
    state = np.array([88172645463325252], dtype=np.uint64)
    draws = np.empty(4)
    for move in range(moves):
        if best_cost < 1e-9:
            break
        _draw(state, draws)
        a = int(draws[0] * positions)
        if draws[1] < anywhere:
            b = int(draws[2] * positions)
        else:
            begin = starts[classes[a]]
            end = starts[classes[a] + 1]
            b = by_class[begin + int(draws[2] * (end - begin))]
        x = order[a]
        y = order[b]
        if x == y:
            continue
        count = 0
        change = 0.0
        for mine, other, out, into in ((x, y, a, b), (y, x, b, a)):
            for at in range(first[mine], first[mine + 1]):
                link = members[at]
                if not inside[other, link]:
                    growths[count] = _growth(link, out, into, windows, max_losses, in_use)
                    change += counts[link] * (
                        math.sqrt(excess[link] + growths[count]) - math.sqrt(excess[link])
                    )
                    touched[count] = link
                    count += 1
        if change <= 2 * draws[3] * (hot + (cold - hot) * move / moves):
            order[a] = y
            order[b] = x
            cost += change
            for k in range(count):
                excess[touched[k]] += growths[k]
                if inside[x, touched[k]]:
                    _shift(touched[k], a, b, windows, in_use)
                else:
                    _shift(touched[k], b, a, windows, in_use)
            if cost < best_cost - 1e-9:
                best_cost = cost
                best[:] = order


_anneal = compiled_entry(_search)
