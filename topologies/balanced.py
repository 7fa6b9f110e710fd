"""Balanced routing: static paths that load the fullest link as little as can be found, when all send to all.

On tori and rings dimension order, its ties split over the two ways round by the place where the tie is met
(``routing_tables``). Elsewhere one tree a destination, so that the next link depends on node and destination alone:
first along links whose price grows exponentially with their load over their capacity (trees by turns), then by moves of
a fullest link's users, a node and all that comes over it to another next link. So a path may be longer than the
shortest where those are full. A message may be sent in equal parts: then each part has trees of its own.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from topologies.errors import NoPathError
from topologies.network import LinkId, Network

STEEPNESS = 6.0
"""Of the price: a link at the greatest load is e^6 times as dear as an empty one."""
SWEEPS, MOVES, WORK = 6, 8_000, 20_000_000
"""Turns of all trees; moves tried; and links looked at in both, roughly, whichever is the least."""
POWER = 12
"""Moves lessen the sum of this power of the loads, over the greatest."""
TOLERANCE = 0.5
"""What a move may add to that sum, at most, at first; less and less as the search goes on."""
Tree = dict[str, int]
"""Node -> number of the link that it takes."""


@dataclass
class BalancedTrees:
    """Trees for the destinations of one kind: from hosts to hosts, or from switches to switches. Made at the first
    path."""

    network: Network
    parts: int
    kind: str
    _trees: Mapping[tuple[int, str], Tree] = field(default_factory=dict, init=False, repr=False)

    def path(self, source: str, sink: str, part: int = 0) -> tuple[LinkId, ...]:
        """The path of that part; NoPathError where none leads."""
        if not self._trees:
            self._trees = _Search(self.network, self.parts, self.kind).run()
        tree, at, path = self._trees.get((part, sink), {}), source, list[LinkId]()
        while at != sink:
            if at not in tree:
                raise NoPathError(
                    f"no path from {source!r} to {sink!r} in network {self.network.name!r}; join them by links"
                )
            link = self.network.links[tree[at]]
            path.append(link.id)
            at = link.target
        return tuple(path)


class _Search:
    """``load``: of each link between switches over its capacity, in transfers over links of the mean capacity (a host's
    have no choice); ``through``: of each tree, how many sources' ways lead over a node."""

    def __init__(self, network: Network, parts: int, kind: str) -> None:
        ends = network.hosts if kind == "host" else network.switches
        self._sources = [n.id for n in ends if n.attributes.get("role") != "receiver"]
        sinks = [n.id for n in ends if n.attributes.get("role") != "sender"]
        self._network, self._random = network, random.Random(len(network.links))
        self._trees: dict[tuple[int, str], Tree] = {(part, sink): {} for part in range(parts) for sink in sinks}
        self._through: dict[tuple[int, str], Counter[str]] = {}
        self._order = [n.id for n in network.switches]
        self._switches = set(self._order)
        mean = math.fsum(link.capacity_bps for link in network.links) / len(network.links)
        between = [{link.source, link.target} <= self._switches for link in network.links]
        self._share = [mean / x.capacity_bps if own else 0.0 for x, own in zip(network.links, between, strict=True)]
        self._load = [0.0] * len(network.links)
        slowest = min((x.capacity_bps for x, own in zip(network.links, between, strict=True) if not own), default=1.0)
        self._enough = parts * (len(self._sources) - 1) * mean / slowest if kind == "host" else 0.0

    def run(self) -> Mapping[tuple[int, str], Tree]:
        """The best trees met: until no link between switches is fuller than a host's, or the work is done."""
        for _ in range(max(1, min(SWEEPS, WORK // (10 * len(self._trees) * len(self._load))))):
            for key in self._trees:
                self._carry(key, -1)
                self._trees[key] = self._tree(key[1])
                self._carry(key, 1)
        best, least = {key: dict(tree) for key, tree in self._trees.items()}, max(self._load)
        moves = min(MOVES, WORK // (len(self._trees) + len(self._load)))
        for number in range(moves):
            if least <= self._enough:
                break
            self._move(TOLERANCE * (1 - number / moves))
            if max(self._load) < least - 1e-9:
                best, least = {key: dict(tree) for key, tree in self._trees.items()}, max(self._load)
        return best

    def _carry(self, key: tuple[int, str], sign: int) -> None:
        """Add a tree's loads, or take them away."""
        tree, through = self._trees[key], Counter[str]()
        for source in self._sources if tree else ():
            for number in self._path(tree, source):
                self._load[number] += sign * self._share[number]
                through[self._network.links[number].source] += 1
        self._through[key] = through

    def _path(self, tree: Tree, at: str) -> list[int]:
        found = []
        while at in tree:
            found.append(tree[at])
            at = self._network.links[tree[at]].target
        return found

    def _tree(self, sink: str) -> Tree:
        """Dijkstra backwards over the prices; hosts forward nothing."""
        network, scale = self._network, STEEPNESS / (max(self._load) or 1.0)
        prices = [math.exp(scale * own) for own in self._load]
        tree: Tree = {}
        queue, seen = [(0.0, 0, sink, -1)], set[str]()
        while queue:
            price, hops, node, taken = heapq.heappop(queue)
            if node in seen:
                continue
            seen.add(node)
            if taken >= 0:
                tree[node] = taken
            if node == sink or node in self._switches:
                for number in network.in_links(node):
                    if network.links[number].source not in seen:
                        heapq.heappush(queue, (price + prices[number], hops + 1, network.links[number].source, number))
        return tree

    def _move(self, tolerance: float) -> None:
        """A node whose way leads over a fullest link, of a tree drawn at random, takes the best other link, if that
        lessens the sum of powers (or hardly adds to it)."""
        links, fullest = self._network.links, max(self._load)
        full = self._random.choice([i for i, own in enumerate(self._load) if own > fullest - 1e-9])
        key = self._random.choice([key for key, tree in self._trees.items() if tree.get(links[full].source) == full])
        tree, sink = self._trees[key], key[1]
        node = links[full].source
        if self._random.random() < 0.5:
            node = self._random.choice([n for n in self._order if full in self._path(tree, n)])
        carried, old = self._through[key][node], self._path(tree, node)
        best: list[int] = []
        cost = math.inf
        for number in self._network.out_links(node):
            target = links[number].target
            new = [number, *self._path(tree, target)]
            if old[0] in new or not (target == sink or (target in self._switches and target in tree)):
                continue
            own = self._cost(set(new) - set(old), carried, fullest) + self._cost(set(old) - set(new), -carried, fullest)
            if own < cost:
                best, cost = new, own
        if best and cost < tolerance * self._random.random():
            tree[node] = best[0]
            for path, sign in ((old, -1), (best, 1)):
                for number in path:
                    self._load[number] += sign * carried * self._share[number]
                    if links[number].source != node:
                        self._through[key][links[number].source] += sign * carried

    def _cost(self, numbers: set[int], carried: int, fullest: float) -> float:
        return sum(
            ((self._load[i] + carried * self._share[i]) / fullest) ** POWER - (self._load[i] / fullest) ** POWER
            for i in numbers
        )
