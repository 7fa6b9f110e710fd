"""Balanced routing: static paths that load the fullest link as little as can be found, when all send to all.

On tori and rings dimension order, its ties split over the two ways round by the place where the tie is met
(``routing_tables``). Elsewhere one tree a destination, so that the next link depends on node and destination alone:
first shortest paths over the emptier links, then moves of a fullest link's users, a node and all that comes over it to
another next link. So a path may be longer than the shortest where those are full. A message may be sent in equal parts:
then each part has trees of its own.
"""

import math
import random
from collections import Counter

from topologies.errors import NoPathError
from topologies.network import LinkId, Network

MOVES, WORK = 10_000, 20_000_000
"""Moves tried, and trees and links looked at in all of them, roughly, whichever is the less."""
POWER = 12
"""Moves lessen the sum of this power of the loads, over the greatest."""
TOLERANCE = 0.5
"""What a move may add to that sum, at most, at first; less and less as the search goes on."""
Key = tuple[int, str]
"""Part, destination."""
Tree = dict[str, int]
"""Node -> number of the link that it takes."""


class BalancedTrees:
    """Trees for the destinations of one kind: from hosts to hosts, or from switches to switches. Made at the first
    path.

    ``load``: of each link between switches over its capacity, in transfers over links of the mean capacity (a host's
    have no choice); ``through``: of each tree, how many sources' ways lead over a node.
    """

    def __init__(self, network: Network, parts: int, kind: str) -> None:
        self._network, self._random = network, random.Random(len(network.links))
        ends = network.hosts if kind == "host" else network.switches
        self._sources = [n.id for n in ends if n.attributes.get("role") != "receiver"]
        self._keys = [
            (p, n.id) for p in range(parts) for n in ends if n.attributes.get("role") != "sender"
        ]
        self._trees: dict[Key, Tree] = {}
        mean = math.fsum(link.capacity_bps for link in network.links) / len(network.links)
        self._share, self._load = [0.0] * len(network.links), [0.0] * len(network.links)
        for number in network.core:
            self._share[number] = mean / network.links[number].capacity_bps
        self._through: dict[Key, Counter[str]] = {}

    def path(self, source: str, sink: str, part: int = 0) -> tuple[LinkId, ...]:
        """The path of that part; NoPathError where none leads."""
        if not self._trees:
            self._search()
        if (
            part,
            sink,
        ) not in self._trees:  # a host that only sends: nobody's destination in the search
            self._trees[part, sink] = self._shortest(sink)
        found = self._path(self._trees[part, sink], source)
        if not found or self._network.links[found[-1]].target != sink:
            raise NoPathError(
                f"no path from {source!r} to {sink!r} in network {self._network.name!r}; join them by links"
            )
        return tuple(self._network.links[number].id for number in found)

    def _search(self) -> None:
        """Leaves the best trees that were met."""
        for key in self._keys:
            tree, through = self._trees.setdefault(key, self._shortest(key[1])), Counter[str]()
            for source in self._sources:
                path = self._path(tree, source)
                self._add(path, 1)
                through.update(self._network.links[number].source for number in path)
            self._through[key] = through
        best, least = {key: dict(tree) for key, tree in self._trees.items()}, max(self._load)
        moves = min(MOVES, WORK // (len(self._keys) + len(self._load))) if least else 0
        for number in range(moves):
            self._move(TOLERANCE * (1 - number / moves))
            if max(self._load) < least - 1e-9:
                best, least = (
                    {key: dict(tree) for key, tree in self._trees.items()},
                    max(self._load),
                )
        self._trees = best

    def _path(self, tree: Tree, at: str) -> list[int]:
        found = []
        while at in tree:
            found.append(tree[at])
            at = self._network.links[tree[at]].target
        return found

    def _add(self, path: list[int], transfers: int) -> None:
        for number in path:
            self._load[number] += transfers * self._share[number]

    def _shortest(self, sink: str) -> Tree:
        """Breadth first, backwards, the emptier links first; hosts forward nothing."""
        tree: Tree = {}
        reached = [sink]
        for node in reached:
            if node == sink or node in self._network.switch_ids:
                for number in sorted(self._network.in_links(node), key=self._load.__getitem__):
                    source = self._network.links[number].source
                    if source != sink and source not in tree:
                        tree[source] = number
                        reached.append(source)
        return tree

    def _move(self, tolerance: float) -> None:
        """A node whose way leads over a fullest link, of a tree drawn at random, takes the best other link, if that
        adds no more to the sum of powers than is tolerated."""
        links, fullest, chance = self._network.links, max(self._load), self._random
        full = chance.choice([i for i, own in enumerate(self._load) if own > fullest - 1e-9])
        node = links[full].source
        key = chance.choice([key for key, tree in self._trees.items() if tree.get(node) == full])
        tree = self._trees[key]
        if chance.random() < 0.5:
            node = chance.choice(
                [n for n in self._network.switch_ids if full in self._path(tree, n)]
            )
        carried, old = self._through[key][node], self._path(tree, node)
        found: list[tuple[float, list[int]]] = []
        for number in self._network.out_links(node):
            new, target = [number, *self._path(tree, links[number].target)], links[number].target
            if old[0] not in new and (
                target == key[1] or (target in self._network.switch_ids and target in tree)
            ):
                changed = (set(new) - set(old), carried), (set(old) - set(new), -carried)
                found.append(
                    (
                        sum(self._cost(i, by) / fullest**POWER for own, by in changed for i in own),
                        new,
                    )
                )
        cost, best = min(found, default=(math.inf, []))
        if cost < tolerance * chance.random():
            tree[node] = best[0]
            for path, by in ((old, -carried), (best, carried)):
                self._add(path, by)
                self._through[key].update({links[i].source: by for i in path[1:]})

    def _cost(self, number: int, transfers: int) -> float:
        return (self._load[number] + transfers * self._share[number]) ** POWER - self._load[
            number
        ] ** POWER
