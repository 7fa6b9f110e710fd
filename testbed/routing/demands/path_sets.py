"""Sets of paths for each pair, with weights, made without a look at the demands: the k shortest paths, and those of
random trees; from weights to shares, and the weights that are best for the demands (semi-oblivious routing, Kumar et
al. 2018).

Oblivious routing over random trees (Räcke 2008) does well whatever the demands turn out to be. A tree over the nodes is
drawn at random by cutting the network into clusters of ever smaller radius around centres (Fakcharoenphol, Rao and
Talwar 2004, FRT); the flow of a pair goes up from the source, centre by centre, to the smallest cluster that has both
ends, and down again, each step over a shortest path. Were all links of the network sending at full rate, what leaves a
cluster would go up from its centre: that is the tree's use of the links. Trees are drawn one after another, and a link
that the trees so far use much is made long for the next (multiplicative weights). A tree of relative use u takes the
share 1/u of every flow, until the shares reach 1. On undirected networks the greatest utilisation is within O(log n) of
the optimum's for every demand matrix; where the two ways of a cable differ the construction still works, without that
promise.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import yen

from testbed.arrays import FloatArray
from testbed.errors import InputError, UndecidedError
from testbed.model.routes import SplitRoute
from testbed.routing.baselines import single_path
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands, given_matrix
from testbed.routing.flows.end_points import exact_route, flow_problem
from testbed.routing.flows.linear_programs import emptiest, is_wide, solving
from testbed.routing.flows.link_graph import LinkGraph, ShortestPaths
from topologies import Network, NoPathError, lists_by_key, reverse_of

# Relative gap between rates and their bound below which they count as proved.
PROVED = 1e-5
Path = tuple[int, ...]
"""Indices of links, from source to sink."""


@dataclass(frozen=True, kw_only=True)
class PathSet:
    """``paths[i]`` are the paths of pair i, each once; ``weights[i]`` how much of its flow each takes, of sum 1."""

    matrix: DemandMatrix
    paths: tuple[tuple[Path, ...], ...]
    weights: tuple[tuple[float, ...], ...]

    def routed(self, method: str, weights: FloatArray | None = None) -> RoutedDemands:
        """The demands routed by the weights, or by others: shape (paths,), of sum 1 for every pair."""
        own = (
            np.array([weight for one in self.weights for weight in one])
            if weights is None
            else weights
        )
        return RoutedDemands(
            matrix=self.matrix, method=method, shares=csr_array(self.by_pair(own) @ self.on_links())
        )

    def by_pair(self, values: FloatArray) -> csr_array:
        """A value of each path at its pair: shape (pairs, paths)."""
        return csr_array(
            (values, (self.pair_of_path, np.arange(len(values)))),
            shape=(len(self.paths), len(values)),
        )

    def heaviest(self, most: int) -> "PathSet":
        """At most so many paths a pair, those of the greatest weight (the first of equals), with weights in the same
        proportions."""
        paths, weights = [], []
        for own, weight in zip(self.paths, self.weights, strict=True):
            retained = sorted(range(len(own)), key=lambda k: (-weight[k], k))[:most]
            total = sum(weight[k] for k in retained)
            paths.append(tuple(own[k] for k in retained))
            weights.append(tuple(weight[k] / total for k in retained))
        return PathSet(matrix=self.matrix, paths=tuple(paths), weights=tuple(weights))

    @property
    def pair_of_path(self) -> NDArray[np.int64]:
        """Which pair each path belongs to, paths in order: shape (paths,)."""
        return np.repeat(np.arange(len(self.paths)), [len(own) for own in self.paths])

    def least_by_pair(self, values: FloatArray) -> FloatArray:
        """Return the least value of each pair's paths; ``values`` has one for each path."""
        starts = np.cumsum([0, *(len(paths) for paths in self.paths)])[:-1]
        return np.asarray(np.minimum.reduceat(values, starts))

    def widest_utilisation(self) -> float:
        """Return the greatest utilisation if each pair takes its widest path alone."""
        capacity = np.array([link.capacity_bps for link in self.matrix.network.links])
        loads = np.zeros(len(capacity))
        for paths, rate in zip(self.paths, self.matrix.rates_bps, strict=True):
            widest = max(paths, key=lambda path: capacity[list(path)].min())
            loads[list(widest)] += rate
        return float((loads / capacity).max())

    def on_links(self) -> csr_array:
        """1 where a path takes a link: shape (paths, links)."""
        every = [path for own in self.paths for path in own]
        bounds = np.concatenate([[0], np.cumsum([len(path) for path in every])])
        columns = np.array([link for path in every for link in path], dtype=np.int64)
        shape = (len(every), len(self.matrix.network.links))
        return csr_array((np.ones(len(columns)), columns, bounds), shape=shape)


def shortest_path_set(matrix: DemandMatrix, k: int) -> PathSet:
    """The ``k`` paths of the fewest links of each pair, fewer where fewer exist, all of one weight (Yen 1971; scipy's).

    Parallel links make paths of their own; no path leads through a host. Cost: some milliseconds a pair. Raises
    InputError for k below 1 and NoPathError.
    """
    if k < 1:
        raise InputError(f"k shortest paths: k {k!r} must be a whole number of at least 1")
    graph = LinkGraph(matrix.network)
    search, link_at = _simple_graph(graph)
    index = matrix.network.node_index
    found: list[tuple[Path, ...]] = []
    for source, sink in matrix.pairs:
        start, end = index[source], index[sink]
        _, before = yen(search, start, end, k, return_predecessors=True)
        paths = [_links_of(row, start, end, link_at) for row in before]
        sound = tuple(path for path in paths if not graph.silent[graph.tail[list(path[1:])]].any())
        if not sound:
            raise NoPathError(
                f"network {matrix.network.name!r}: no path leads from {source!r} to {sink!r}; leave the pair out"
            )
        found.append(sound)
    return PathSet(
        matrix=matrix,
        paths=tuple(found),
        weights=tuple(tuple([1 / len(own)] * len(own)) for own in found),
    )


def _simple_graph(graph: LinkGraph) -> tuple[csr_array, dict[tuple[int, int], int]]:
    """Every link an arc of weight 1, parallel ones after the first through a node of their own; and the link of each
    arc.

    Ways out of hosts cost more than any path, so that paths through hosts come last.
    """
    barrier = 4.0 * (len(graph.tail) + 1)
    arcs: dict[tuple[int, int], float] = {}
    link_at: dict[tuple[int, int], int] = {}
    nodes = graph.nodes
    for link, (tail, head) in enumerate(zip(graph.tail.tolist(), graph.head.tolist(), strict=True)):
        cost = 1.0 + (barrier if graph.silent[tail] else 0.0)
        if (tail, head) in arcs:
            arcs[tail, nodes], arcs[nodes, head] = cost / 2, cost / 2
            link_at[tail, nodes] = link
            nodes += 1
        else:
            arcs[tail, head] = cost
            link_at[tail, head] = link
    ends = np.array(list(arcs), dtype=np.int32)  # yen takes no longer indices
    return csr_array((list(arcs.values()), (ends[:, 0], ends[:, 1])), shape=(nodes, nodes)), link_at


def _links_of(
    before: Sequence[int], start: int, end: int, link_at: dict[tuple[int, int], int]
) -> Path:
    """The links of one row of predecessors; the second half of a parallel link is no link."""
    links, node = [], end
    while node != start:
        earlier = int(before[node])
        link = link_at.get((earlier, node))
        if link is not None:
            links.append(link)
        node = earlier
    return tuple(reversed(links))


def best_rates(paths: PathSet, method: str) -> RoutedDemands:
    """The weights of the paths by which the fullest link is as empty as these paths allow: one linear programme
    (HiGHS).

    Never a greater utilisation than the path set's own weights give, nor a smaller one than the multicommodity optimum.
    """
    matrix = paths.matrix
    unit = matrix.total_bps / len(matrix.pairs)
    rates = matrix.rates / unit
    capacity = np.array([link.capacity_bps for link in matrix.network.links])
    loads = csr_array((paths.on_links() * rates[paths.pair_of_path][:, None]).T)
    equal = paths.by_pair(np.ones(len(paths.pair_of_path))), np.ones(len(paths.paths))
    estimate = None
    scaled = capacity / capacity.max()
    if is_wide(capacity, matrix.rates):
        scaled = capacity / unit
        estimate = paths.widest_utilisation()
    with solving(f"network {matrix.network.name!r}: no rates found for the paths of {method}"):
        x, _, prices = emptiest(loads, scaled, equal, estimate=estimate)
    weights = np.maximum(x, 0.0)
    weights /= np.bincount(paths.pair_of_path, weights=weights)[paths.pair_of_path]
    routed = paths.routed(method, weights)
    if estimate is not None:
        path_prices = paths.on_links() @ prices
        paid = rates * paths.least_by_pair(path_prices)
        bound = float(paid.sum() / (scaled @ prices))
        if routed.greatest_utilisation > bound * (1 + PROVED):
            raise UndecidedError(
                f"network {matrix.network.name!r}, {method}: cannot tell, the solver's rates have "
                f"utilisation {routed.greatest_utilisation:g}, the bound is {bound:g}"
            )
    return routed


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
        weights=tuple(
            tuple(weight / sum(own.values()) for weight in own.values()) for own in found
        ),
    )


def _members(graph: LinkGraph, matrix: DemandMatrix) -> list[int]:
    """Every node that forwards and every host with a demand, all of which must reach one another: of islands that only
    hosts join the largest one."""
    requested = {matrix.network.node_index[end] for pair in matrix.pairs for end in pair}
    reach = np.isfinite(graph.hops(matrix.pairs))
    both = reach & reach.T
    joined = both & ~graph.silent[:, None]
    joined[
        :, [node for node in range(graph.nodes) if graph.silent[node] and node not in requested]
    ] = False
    whole = joined[:, sorted(requested)].all(axis=1)
    centre = int((joined.sum(axis=1) * whole).argmax()) if whole.any() else min(requested)
    members = [
        node
        for node in range(graph.nodes)
        if both[centre, node] and (node in requested or not graph.silent[node])
    ]
    if not whole.any() and not both[np.ix_(members, members)].all():
        members = [node for node in sorted(requested) if both[sorted(requested), node].all()]
    missing = sorted(requested - set(members))
    if missing:
        names = [matrix.network.nodes[node].id for node in (min(requested), missing[0])]
        raise InputError(
            f"network {matrix.network.name!r}: routing trees need nodes that all reach one another; {names[0]!r} and "
            f"{names[1]!r} do not; give other methods by --routing"
        )
    return members


def _drawn_trees(
    graph: LinkGraph, members: Sequence[int], rng: random.Random
) -> "list[tuple[float, _TreePaths]]":
    """Trees and the share that each takes of every flow, of sum 1."""
    links = len(graph.tail)
    twin = [
        graph.network.link_index.get(reverse_of(link.id), at)
        for at, link in enumerate(graph.network.links)
    ]
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

    def __init__(
        self, graph: LinkGraph, members: Sequence[int], weights: FloatArray, rng: random.Random
    ) -> None:
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
        hubs = [
            self._hubs[at] if at >= 0 else member
            for member, at in zip(members, first.tolist(), strict=True)
        ]
        parts = lists_by_key(zip(hubs, members, strict=True))
        return _Cluster(
            centre,
            members,
            tuple(self._cut(hub, tuple(part), radius / 2) for hub, part in parts.items()),
        )

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
        stops = [
            *(cluster.centre for cluster in reversed(up[common - 1 :])),
            *(c.centre for c in down[common:]),
        ]
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


SEED = 1
"""Of the trees: a routing of one flow is given none."""
NOTHING = 1e-6
"""Of the flow: a share below it is the solver's rounding."""


def smore_route(network: Network, source: str, sink: str, paths: int) -> SplitRoute:
    """The flow over at most so many paths, those of the greatest weight over the trees, with the fullest link as empty
    as they allow.

    A host on a single cable goes by its switch, so that ends which only send or only receive can be routed. Where the
    ends cannot reach each other both ways there are no trees: the paths are then the shortest ones. Raises InputError
    and NoPathError.
    """
    problem = flow_problem(network, source, sink)
    single = single_path(network, source, sink)  # raises where no path leads
    start, first = _switch_of(network, source, outward=True)
    end, last = _switch_of(network, sink, outward=False)
    if start == end or sink in (start,) or source in (end,):
        return SplitRoute(
            network=network, source=source, sink=sink, method=f"smore:{paths}", loads=single.loads
        )
    shares = best_rates(_paths(network, start, end, paths), "smore").pair_shares(0)
    shares[[*first, *last]] = 1.0
    return exact_route(
        problem, f"smore:{paths}", shares[list(problem.links)].tolist(), least=NOTHING
    )


def _paths(network: Network, source: str, sink: str, most: int) -> PathSet:
    matrix = given_matrix(network, "one flow", {(source, sink): 1.0})
    index = network.node_index
    if not np.isfinite(LinkGraph(network).hops()[index[sink], index[source]]):
        return shortest_path_set(matrix, most)
    return tree_path_set(matrix, SEED).heaviest(most)


def _switch_of(network: Network, node: str, *, outward: bool) -> tuple[str, tuple[int, ...]]:
    """(switch, link) of a host on a single cable, going out or coming in; the node itself and no link for all
    others."""
    links = tuple(network.out_links(node) if outward else network.in_links(node))
    if network.node(node).kind != "host" or len(links) != 1:
        return node, ()
    link = network.links[links[0]]
    return (link.target if outward else link.source), links
