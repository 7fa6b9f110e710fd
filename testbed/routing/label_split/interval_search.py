"""A search for label intervals: which labels take which link, in as few intervals as possible.

The search is over the orders of each node's outgoing links. It is deterministic: its random
generator has a fixed seed, floats are added in a fixed order, and effort is counted, not timed.
"""

import heapq
import random
from collections.abc import Callable, Mapping, Sequence

from testbed.model.label_split import LABELS, Interval

# The label intervals of each link, in ascending order, by the link's index.
Cuts = dict[int, list[Interval]]

# Number of drawings of the flow from which initial orders are taken, and number of iterations by
# which each drawing is computed.
_DIRECTIONS = 3
_SWEEPS = 150

# The drawings are made orthogonal to each other once in this number of iterations.
_ORTHOGONAL_EVERY = 5


class IntervalSearch:
    """The label intervals of an acyclic flow, and the orders in which nodes distribute labels.

    Each node distributes the labels that reach it, in ascending order, over its outgoing links, one
    link after another. Intervals are not divided if links that meet again later are neighbours.
    Therefore the order of each node's outgoing links decides the number of intervals. A change of
    one node's order affects labels downstream of that node only.

    Args:
        flow: Each loaded link with its number of labels, its source and its target.
        source: Source of the flow.
        order: The nodes of the flow in topological order.

    Attributes:
        cuts: The label intervals of each link.
    """

    def __init__(
        self, flow: Sequence[tuple[int, int, str, str]], source: str, order: Sequence[str]
    ) -> None:
        self._source = source
        self._nodes = order
        self._position = {node: k for k, node in enumerate(order)}
        # Number of labels, and ends, of each link.
        self._units: dict[int, int] = {}
        self._ends: dict[int, tuple[str, str]] = {}
        self._incoming: dict[str, list[int]] = {node: [] for node in order}
        # The lists are in the order in which labels are distributed.
        self._outgoing: dict[str, list[int]] = {node: [] for node in order}
        for link, units, tail, head in flow:
            self._units[link] = units
            self._ends[link] = (tail, head)
            self._outgoing[tail].append(link)
            self._incoming[head].append(link)
        self.cuts: Cuts = {}
        self._distribute_all()

    @property
    def intervals(self) -> int:
        """Total number of intervals of all links."""
        return sum(len(intervals) for intervals in self.cuts.values())

    def settle(self, budget: int) -> None:
        """Search for orders with few intervals.

        The search starts from the best of a few orders. It then changes the order of one node at a
        time, and undoes changes that increase the number of intervals.

        Args:
            budget: Number of changes.
        """
        branching = [node for node in self._nodes if len(self._outgoing[node]) > 1]
        if not branching or self.intervals == len(self._units):
            return
        initial_orders = [dict(self._outgoing)]
        for coordinates in self._drawings():
            initial_orders.append(self._order_by(coordinates))
        self._outgoing = min(initial_orders, key=self._intervals_with)
        self._distribute_all()
        self._improve(branching, budget)

    def _order_by(self, coordinates: Mapping[str, float]) -> dict[str, list[int]]:
        """Return each node's outgoing links, sorted by the coordinates of their targets."""
        orders = {}
        for node, links in self._outgoing.items():
            orders[node] = sorted(links, key=self._offset_from(node, coordinates))
        return orders

    def _offset_from(self, node: str, coordinates: Mapping[str, float]) -> Callable[[int], float]:
        """Return a function from a link to the coordinate of its target relative to the node."""

        def offset(link: int) -> float:
            target = self._ends[link][1]
            return coordinates[target] - coordinates[node]

        return offset

    def _improve(self, branching: Sequence[str], budget: int) -> None:
        """Try random changes of one node's order, and keep those that add no interval.

        Args:
            branching: The nodes with more than one outgoing link.
            budget: Number of changes.
        """
        rng = random.Random(1)
        intervals = self.intervals
        for _ in range(budget):
            if intervals == len(self._units):
                return
            node = branching[rng.randrange(len(branching))]
            previous_order = self._outgoing[node]
            i, j = rng.sample(range(len(previous_order)), 2)
            order = previous_order.copy()
            if rng.random() < 0.5:
                order[i] = previous_order[j]
                order[j] = previous_order[i]
            else:
                order.insert(j, order.pop(i))
            self._outgoing[node] = order
            previous_cuts = self._distribute_from(node)
            change = 0
            for link, previous in previous_cuts.items():
                change += len(self.cuts[link]) - len(previous)
            if change <= 0:
                intervals += change
            else:
                self._outgoing[node] = previous_order
                self.cuts.update(previous_cuts)

    def _intervals_with(self, outgoing: dict[str, list[int]]) -> int:
        """Return the number of intervals with these orders, which become the current ones."""
        self._outgoing = outgoing
        self._distribute_all()
        return self.intervals

    def _distribute_all(self) -> None:
        for node in self._nodes:
            self.cuts.update(self._distribute(node))

    def _distribute_from(self, first: str) -> Cuts:
        """Distribute again at a node, and downstream of it wherever labels change.

        Returns:
            The previous intervals of the links that have changed.
        """
        previous_cuts: Cuts = {}
        queued = {first}
        queue = [self._position[first]]
        while queue:
            node = self._nodes[heapq.heappop(queue)]
            for link, intervals in self._distribute(node).items():
                if intervals == self.cuts[link]:
                    continue
                previous_cuts[link] = self.cuts[link]
                self.cuts[link] = intervals
                target = self._ends[link][1]
                if target not in queued:
                    queued.add(target)
                    heapq.heappush(queue, self._position[target])
        return previous_cuts

    def _distribute(self, node: str) -> Cuts:
        """Return the intervals of the node's outgoing links: its labels in ascending order."""
        links = self._outgoing[node]
        if not links:
            return {}
        labels = self._labels_at(node)
        if len(links) == 1:
            return {links[0]: labels}
        cuts = Cuts()
        remaining = iter(labels)
        start, stop = next(remaining)
        for link in links:
            missing = self._units[link]
            intervals = list[Interval]()
            while missing:
                if start == stop:
                    start, stop = next(remaining)
                end = min(stop, start + missing)
                intervals.append((start, end))
                missing -= end - start
                start = end
            cuts[link] = intervals
        return cuts

    def _labels_at(self, node: str) -> list[Interval]:
        """Return the labels that reach the node."""
        if node == self._source:
            return [(0, LABELS)]
        intervals = []
        for link in self._incoming[node]:
            intervals += self.cuts[link]
        return _merged(intervals)

    def _drawings(self) -> list[dict[str, float]]:
        """Return coordinates of the nodes across the flow, with source and sink at zero.

        Each drawing is a slow mode of the flow's graph, in the manner of Tutte's and Fiedler's
        drawings. Nodes that are next to each other in the flow get similar coordinates, so links
        that are sorted by them rarely cross.
        """
        nodes = self._nodes
        drawings = list[dict[str, float]]()
        weight = {}
        for node in nodes:
            links = self._incoming[node] + self._outgoing[node]
            weight[node] = float(sum(self._units[link] for link in links))
        fixed = {self._source, nodes[-1]}
        for k in range(_DIRECTIONS):
            # Any start will do that is not orthogonal to the mode and the same in every run.
            x = dict.fromkeys(nodes, 0.0)
            for j, node in enumerate(nodes):
                if node not in fixed:
                    x[node] = float((j * (2 * k + 1)) % 7 - 3) + j / 97
            for sweep in range(_SWEEPS):
                if sweep % _ORTHOGONAL_EVERY == 0:
                    _make_orthogonal(x, drawings, weight)
                x = self._averaged(x, weight, fixed)
            _make_orthogonal(x, drawings, weight)
            drawings.append(x)
        return drawings

    def _averaged(
        self, x: Mapping[str, float], weight: Mapping[str, float], fixed: set[str]
    ) -> dict[str, float]:
        """Move every node halfway to the weighted mean of its neighbours.

        Args:
            x: Coordinate of each node.
            weight: Number of labels on all links of each node.
            fixed: Nodes whose coordinate is 0.
        """
        neighbours = dict.fromkeys(self._nodes, 0.0)
        for link, (tail, head) in self._ends.items():
            neighbours[tail] += self._units[link] * x[head]
            neighbours[head] += self._units[link] * x[tail]
        averaged = dict.fromkeys(self._nodes, 0.0)
        for node in self._nodes:
            if node not in fixed:
                averaged[node] = 0.5 * (x[node] + neighbours[node] / weight[node])
        return averaged


def _make_orthogonal(
    x: dict[str, float], drawings: Sequence[Mapping[str, float]], weight: Mapping[str, float]
) -> None:
    """Make ``x`` orthogonal to the other drawings and scale it to length 1, in place.

    Args:
        x: Coordinate of each node.
        drawings: The other drawings.
        weight: Weight of each node in the scalar product.
    """
    for drawing in drawings:
        share = sum(weight[n] * x[n] * drawing[n] for n in x)
        for n in x:
            x[n] -= share * drawing[n]
    length = sum(weight[n] * x[n] * x[n] for n in x) ** 0.5
    if length > 0:
        for n in x:
            x[n] /= length


def _merged(intervals: list[Interval]) -> list[Interval]:
    """Return the intervals in ascending order, with adjacent ones merged; sorts the argument."""
    intervals.sort()
    merged: list[Interval] = []
    for start, stop in intervals:
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged
