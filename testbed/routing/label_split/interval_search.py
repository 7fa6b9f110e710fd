"""Which labels go over which link so that links carry few separate intervals: a search over orders of outgoing links.

Pure and deterministic: the generator has a fixed seed, floats are added in a fixed order, effort is counted, not timed.
"""

import heapq
import random
from collections.abc import Callable, Mapping, Sequence

from testbed.model.label_split import LABELS, Interval

Cuts = dict[int, list[Interval]]
"""Link index -> its label intervals, ascending."""
_SWEEPS = 150
_DIRECTIONS = 3


class IntervalSearch:
    """Label intervals of an acyclic flow, dealt out node by node, and the orders in which they are dealt.

    Each node holds the labels that come in and deals them, ascending, to its outgoing links one after another;
    intervals stay whole where links that meet again are neighbours. So the order of each node's outgoing links decides,
    and a change of one node's order changes the flow's labels only downstream of it.
    """

    def __init__(
        self, flow: Sequence[tuple[int, int, str, str]], source: str, order: Sequence[str]
    ) -> None:
        """``flow``: each loaded link, its units, and its ends; ``order``: the nodes of the flow so that every loaded
        link points forwards."""
        self._source, self._units, self._nodes = (
            source,
            {i: units for i, units, _, _ in flow},
            order,
        )
        self._place = {node: k for k, node in enumerate(order)}
        self._ends = {i: (a, b) for i, _, a, b in flow}
        self._in: dict[str, list[int]] = {node: [] for node in order}
        self._out: dict[str, list[int]] = {node: [] for node in order}
        for i, (a, b) in self._ends.items():
            self._out[a].append(i)
            self._in[b].append(i)
        self.cuts: Cuts = {}
        self._deal_all()

    @property
    def intervals(self) -> int:
        """Separate intervals, summed over the links."""
        return sum(len(cut) for cut in self.cuts.values())

    def settle(self, budget: int) -> None:
        """Start from the best of a few orders, then change one node's order at a time, ``budget`` times, keeping what
        is not worse."""
        branching = [node for node in self._nodes if len(self._out[node]) > 1]
        if not branching or self.intervals == len(self._units):
            return
        starts = [dict(self._out)]
        for direction in self._directions():
            starts.append(
                {
                    node: sorted(out, key=self._along(direction, node))
                    for node, out in self._out.items()
                }
            )
        self._out = min(starts, key=self._count_with)
        self._deal_all()
        self._climb(branching, budget)

    def _climb(self, branching: Sequence[str], budget: int) -> None:
        chance, least = random.Random(1), self.intervals
        for _ in range(budget):
            if least == len(self._units):
                return
            node = branching[chance.randrange(len(branching))]
            before = self._out[node]
            taken, put = chance.sample(range(len(before)), 2)
            self._out[node] = before.copy()
            if chance.random() < 0.5:
                self._out[node][taken], self._out[node][put] = before[put], before[taken]
            else:
                self._out[node].insert(put, self._out[node].pop(taken))
            old = self._deal_from(node)
            change = sum(len(self.cuts[i]) - len(cut) for i, cut in old.items())
            if change <= 0:
                least += change
            else:
                self._out[node] = before
                self.cuts.update(old)

    def _count_with(self, out: dict[str, list[int]]) -> int:
        self._out = out
        self._deal_all()
        return self.intervals

    def _deal_all(self) -> None:
        for node in self._nodes:
            self.cuts.update(self._deal(node))

    def _deal_from(self, first: str) -> Cuts:
        """Deal again at the node and wherever that changes something; returns the intervals that were there before."""
        old: Cuts = {}
        waiting, queue = {first}, [self._place[first]]
        while queue:
            node = self._nodes[heapq.heappop(queue)]
            for i, cut in self._deal(node).items():
                if cut != self.cuts[i]:
                    old[i], self.cuts[i] = self.cuts[i], cut
                    target = self._ends[i][1]
                    if target not in waiting:
                        waiting.add(target)
                        heapq.heappush(queue, self._place[target])
        return old

    def _deal(self, node: str) -> Cuts:
        """The node's labels in ascending order over its outgoing links in theirs."""
        out = self._out[node]
        if not out:
            return {}
        pieces = (
            [(0, LABELS)]
            if node == self._source
            else _merged([p for i in self._in[node] for p in self.cuts[i]])
        )
        if len(out) == 1:
            return {out[0]: pieces}
        cuts, ahead = Cuts(), iter(pieces)
        start, stop = next(ahead)
        for i in out:
            need, mine = self._units[i], list[Interval]()
            while need:
                if start == stop:
                    start, stop = next(ahead)
                upto = min(stop, start + need)
                mine.append((start, upto))
                need -= upto - start
                start = upto
            cuts[i] = mine
        return cuts

    def _directions(self) -> list[dict[str, float]]:
        """Coordinates of the nodes across the flow: slow modes of it, source and sink fast at zero.

        What lies side by side in the flow gets near places; links sorted by them cross little (Tutte's and Fiedler's
        drawings).
        """
        nodes, found = self._nodes, list[dict[str, float]]()
        weight = {
            node: float(sum(self._units[i] for i in self._in[node] + self._out[node]))
            for node in nodes
        }
        fixed = {self._source, nodes[-1]}
        for k in range(_DIRECTIONS):
            x = {
                n: 0.0 if n in fixed else float((j * (2 * k + 1)) % 7 - 3) + j / 97
                for j, n in enumerate(nodes)
            }
            for sweep in range(_SWEEPS):
                if sweep % 5 == 0:
                    _make_orthogonal(x, found, weight)
                new = dict.fromkeys(nodes, 0.0)
                for i, (a, b) in self._ends.items():
                    new[a] += self._units[i] * x[b]
                    new[b] += self._units[i] * x[a]
                x = {n: 0.0 if n in fixed else 0.5 * (x[n] + new[n] / weight[n]) for n in nodes}
            _make_orthogonal(x, found, weight)
            found.append(x)
        return found

    def _along(self, place: Mapping[str, float], node: str) -> Callable[[int], float]:
        return lambda i: place[self._ends[i][1]] - place[node]


def _make_orthogonal(
    x: dict[str, float], others: Sequence[Mapping[str, float]], weight: Mapping[str, float]
) -> None:
    """Take the other directions out of ``x`` and scale it to length 1, in place."""
    for other in others:
        share = sum(weight[n] * x[n] * other[n] for n in x)
        for n in x:
            x[n] -= share * other[n]
    length = sum(weight[n] * x[n] * x[n] for n in x) ** 0.5
    if length > 0:
        for n in x:
            x[n] /= length


def _merged(pieces: list[Interval]) -> list[Interval]:
    """The intervals in ascending order, those that touch made one."""
    pieces.sort()
    merged: list[Interval] = []
    for start, stop in pieces:
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged
