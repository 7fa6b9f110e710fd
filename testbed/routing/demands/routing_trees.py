"""Oblivious routing over random trees (Räcke 2008): paths for every pair that do well whatever the demands turn out to
be.

Theory of operation. A tree over the nodes is drawn at random by cutting the network into clusters of ever smaller
radius around centres (Fakcharoenphol, Rao and Talwar 2004, FRT); the flow of a pair goes up from the source, centre by
centre, to the smallest cluster that has both ends, and down again, each step over a shortest path. Were all links of
the network sending at full rate, what leaves a cluster would go up from its centre: that is the tree's use of the
links. Trees are drawn one after another, and a link that the trees so far use much is made long for the next
(multiplicative weights). A tree of relative use u takes the share 1/u of every flow, until the shares reach 1. On
undirected networks the greatest utilisation is within O(log n) of the optimum's for every demand matrix; where the two
ways of a cable differ the construction still works, without that promise.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.routing.demands.link_graph import LinkGraph, ShortestPaths
from testbed.routing.demands.matrix import DemandMatrix
from testbed.routing.demands.path_sets import Path, PathSet
from topologies.network import reverse_of

EAGERNESS = 0.1
"""How fast a used link grows long: epsilon of the multiplicative weights, as in Kumar et al. 2018."""
MAX_TREES = 500


@dataclass(frozen=True)
class _Cluster:
    centre: int
    members: tuple[int, ...]
    parts: "tuple[_Cluster, ...]"


def tree_path_set(matrix: DemandMatrix, seed: int = 1) -> PathSet:
    """The paths of every pair over Raecke's trees; weights are the trees' shares, of equal paths added up. The same for
    a seed.

    Raises NoPathError where no path joins a pair, InputError where the nodes that send or receive cannot all reach one
    another.
    """
    graph = LinkGraph(matrix.network)
    found: list[dict[Path, float]] = [{} for _ in matrix.pairs]
    index = matrix.network.node_index
    ends = [(index[source], index[sink]) for source, sink in matrix.pairs]
    for share, way in _drawn_trees(graph, _members(graph, matrix), random.Random(seed)):
        for pair, (source, sink) in enumerate(ends):
            path = way.path(source, sink)
            found[pair][path] = found[pair].get(path, 0.0) + share
    return PathSet(
        matrix=matrix,
        paths=tuple(tuple(own) for own in found),
        weights=tuple(tuple(weight / sum(own.values()) for weight in own.values()) for own in found),
    )


def _members(graph: LinkGraph, matrix: DemandMatrix) -> list[int]:
    """Every node that forwards and every host with a demand, all of which must reach one another: of islands that only
    hosts join the largest one."""
    requested = {matrix.network.node_index[end] for pair in matrix.pairs for end in pair}
    reach = np.isfinite(graph.hops(matrix.pairs))
    both = reach & reach.T
    joined = both & ~graph.silent[:, None]
    joined[:, [node for node in range(graph.nodes) if graph.silent[node] and node not in requested]] = False
    whole = joined[:, sorted(requested)].all(axis=1)
    centre = int((joined.sum(axis=1) * whole).argmax()) if whole.any() else min(requested)
    members = [
        node for node in range(graph.nodes) if both[centre, node] and (node in requested or not graph.silent[node])
    ]
    if not whole.any() and not both[np.ix_(members, members)].all():
        members = [node for node in sorted(requested) if both[sorted(requested), node].all()]
    missing = sorted(requested - set(members))
    if missing:
        names = [matrix.network.nodes[node].id for node in (min(requested), missing[0])]
        raise InputError(
            f"network {matrix.network.name!r}: routing trees need nodes that all reach one another; {names[0]!r} and "
            f"{names[1]!r} do not"
        )
    return members


def _drawn_trees(graph: LinkGraph, members: Sequence[int], rng: random.Random) -> "list[tuple[float, _TreePaths]]":
    """Trees and the share that each takes of every flow, of sum 1."""
    links = len(graph.tail)
    twin = [graph.network.link_index.get(reverse_of(link.id), at) for at, link in enumerate(graph.network.links)]
    used = np.zeros(links)
    found: list[tuple[float, _TreePaths]] = []
    left = 1.0
    while left > 0 and len(found) < MAX_TREES:
        weights = np.exp(EAGERNESS * (used - used.max()))
        paths = _TreePaths(graph, members, weights, rng)
        use = paths.relative_use(twin)
        share = min(left, 1 / use.max()) if use.max() > 0 else left
        used += use / max(use.max(), 1e-300)
        found.append((share, paths))
        left -= share
    total = sum(share for share, _ in found)
    return [(share / total, paths) for share, paths in found]


class _TreePaths:
    """One random tree, its use of the links, and the way over it from any member to any other."""

    def __init__(self, graph: LinkGraph, members: Sequence[int], weights: FloatArray, rng: random.Random) -> None:
        self._graph = graph
        self._shortest: ShortestPaths = graph.shortest_paths(weights)
        distance = self._shortest.distance
        self._metric = (distance + distance.T) / 2
        self._hubs = [node for node in members if not graph.silent[node]] or list(members)
        rng.shuffle(self._hubs)
        top = float(self._metric[np.ix_(members, members)].max())
        self._root = self._cut(self._hubs[0], tuple(members), top / 2 * 2 ** rng.random())
        self._above: dict[int, tuple[_Cluster, ...]] = {}
        self._climb(self._root, ())
        self.path = cache(self._path)

    def _cut(self, centre: int, members: tuple[int, ...], radius: float) -> _Cluster:
        """Each member goes to the first hub, in the order drawn, that is within the radius; one that has none stands
        alone."""
        if len(members) == 1:
            return _Cluster(members[0], members, ())
        near = self._metric[np.ix_(members, self._hubs)] <= radius
        first = np.where(near.any(axis=1), near.argmax(axis=1), -1)
        parts: dict[int, list[int]] = {}
        for member, at in zip(members, first.tolist(), strict=True):
            parts.setdefault(self._hubs[at] if at >= 0 else member, []).append(member)
        return _Cluster(centre, members, tuple(self._cut(hub, tuple(part), radius / 2) for hub, part in parts.items()))

    def _climb(self, cluster: _Cluster, above: tuple[_Cluster, ...]) -> None:
        """Note for each member the clusters that have it, from the largest down."""
        above = (*above, cluster)
        if not cluster.parts:
            self._above[cluster.centre] = above
        for part in cluster.parts:
            self._climb(part, above)

    def relative_use(self, twin: Sequence[int]) -> FloatArray:
        """Of each link over its capacity, both ways of a cable alike, were all that leaves each cluster to go over its
        centre."""
        graph, load = self._graph, np.zeros(len(self._graph.tail))
        stack = [self._root]
        while stack:
            cluster = stack.pop()
            stack += cluster.parts
            for part in cluster.parts:
                inside = np.zeros(graph.nodes, dtype=bool)
                inside[list(part.members)] = True
                leaving = float(graph.capacity[inside[graph.tail] & ~inside[graph.head]].sum())
                for link in self._shortest.way(part.centre, cluster.centre):
                    for each in {link, twin[link]}:
                        load[each] += leaving
        return np.asarray(load / graph.capacity)

    def _path(self, source: int, sink: int) -> Path:
        """Up to the smallest common cluster and down again, without the loops that this makes."""
        up, down = self._above[source], self._above[sink]
        common = sum(a is b for a, b in zip(up, down, strict=False))
        stops = [*(cluster.centre for cluster in reversed(up[common - 1 :])), *(c.centre for c in down[common:])]
        links: list[int] = []
        for here, there in pairwise(stops):
            links += self._shortest.way(here, there)
        return _without_loops(self._graph, source, links)


def _without_loops(graph: LinkGraph, source: int, links: Sequence[int]) -> Path:
    """A walk as a path: what is between two visits of a node is left out."""
    retained: list[int] = []
    place = {source: 0}
    for link in links:
        node = int(graph.head[link])
        retained.append(link)
        if node in place:
            del retained[place[node] :]
            place = {seen: at for seen, at in place.items() if at <= place[node]}
        else:
            place[node] = len(retained)
    return tuple(retained)
