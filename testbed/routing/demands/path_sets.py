"""Sets of paths for each pair that are chosen without knowing the demands.

The paths are the k shortest ones, or those of random trees. Weights say how much of a pair's flow
each path carries. Semi-oblivious routing (Kumar et al. 2018) keeps the paths and computes the
weights that are best for the demands.

Oblivious routing over random trees (Räcke 2008) performs well for any demands. A tree over the
nodes is drawn at random: the network is divided into clusters of ever smaller radius around centres
(Fakcharoenphol, Rao and Talwar 2004, FRT). The flow of a pair goes up from the source, centre by
centre, to the smallest cluster that contains both ends, and down again; each step is a shortest
path.

The tree's use of a link is the load of the link if all links of the network send at full rate, and
everything that leaves a cluster goes up from its centre. Trees are drawn one after another, and
links that the previous trees use much are long for the next tree (multiplicative weights). A tree
of relative use u carries the share 1/u of every flow, until the shares reach 1. In undirected
networks, the maximum link utilisation is within O(log n) of the optimum for every demand matrix.
If the two directions of a cable differ, the construction still works, but without this guarantee.
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

from testbed.arrays import BoolArray, FloatArray
from testbed.errors import InputError, UndecidedError
from testbed.model.routes import SplitRoute
from testbed.routing.baselines import single_path
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands, given_matrix
from testbed.routing.flows.end_points import exact_route, flow_problem
from testbed.routing.flows.linear_programs import emptiest, is_wide, solving
from testbed.routing.flows.link_graph import LinkGraph, ShortestPaths, link_capacities
from topologies import Network, NoPathError, reverse_of

# Relative gap between rates and their bound below which they count as proved.
PROVED = 1e-5

# How fast used links become long: epsilon of the multiplicative weights, as in Kumar et al. 2018.
EAGERNESS = 0.1

# The construction ends at this number of trees, even if their shares do not sum to 1.
MAX_TREES = 500

# Seed of the trees of ``smore_route``, which has no seed parameter.
SEED = 1

# Share of a flow below which it is the solver's rounding.
NOTHING = 1e-6

# Indices of links, from source to sink.
Path = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PathSet:
    """Paths for each pair of a demand matrix.

    Attributes:
        matrix: The demands.
        paths: The distinct paths of each pair.
        weights: The share of the pair's flow on each path; the sum is 1 for each pair.
    """

    matrix: DemandMatrix
    paths: tuple[tuple[Path, ...], ...]
    weights: tuple[tuple[float, ...], ...]

    def routed(self, method: str, weights: FloatArray | None = None) -> RoutedDemands:
        """Return the routing over these paths.

        Args:
            method: Name of the routing method.
            weights: Weight of each path, shape (paths,), with sum 1 for each pair; the weights of
                this object by default.
        """
        if weights is None:
            weights = np.concatenate([np.array(pair_weights) for pair_weights in self.weights])
        shares = csr_array(self.by_pair(weights) @ self.on_links())
        return RoutedDemands(matrix=self.matrix, method=method, shares=shares)

    def by_pair(self, values: FloatArray) -> csr_array:
        """Return an array of shape (pairs, paths) that has each path's value in its pair's row."""
        return csr_array(
            (values, (self.pair_of_path, np.arange(len(values)))),
            shape=(len(self.paths), len(values)),
        )

    def heaviest(self, limit: int) -> "PathSet":
        """Return the paths with the largest weights, with weights in the same proportions.

        Args:
            limit: Largest number of paths per pair. Of equal weights, the first paths are chosen.
        """
        paths = []
        weights = []
        for pair_paths, pair_weights in zip(self.paths, self.weights, strict=True):
            # A reverse sort keeps the order of equal weights.
            by_weight = sorted(range(len(pair_paths)), key=pair_weights.__getitem__, reverse=True)
            selected = by_weight[:limit]
            selected_weights = [pair_weights[k] for k in selected]
            total = sum(selected_weights)
            paths.append(tuple(pair_paths[k] for k in selected))
            weights.append(tuple(weight / total for weight in selected_weights))
        return PathSet(matrix=self.matrix, paths=tuple(paths), weights=tuple(weights))

    @property
    def pair_of_path(self) -> NDArray[np.int64]:
        """Index of the pair of each path, shape (paths,)."""
        return np.repeat(np.arange(len(self.paths)), list(map(len, self.paths)))

    def least_by_pair(self, values: FloatArray) -> FloatArray:
        """Return the smallest value of each pair's paths.

        Args:
            values: One value for each path, shape (paths,).
        """
        starts = np.cumsum([0, *map(len, self.paths)])[:-1]
        return np.asarray(np.minimum.reduceat(values, starts))

    def widest_utilisation(self) -> float:
        """Return the maximum link utilisation if each pair uses its widest path alone."""
        capacity = link_capacities(self.matrix.network)
        loads = np.zeros(len(capacity))
        for paths, rate in zip(self.paths, self.matrix.rates_bps, strict=True):
            widths = [capacity[list(path)].min() for path in paths]
            widest = paths[int(np.argmax(widths))]
            loads[list(widest)] += rate
        return float((loads / capacity).max())

    def on_links(self) -> csr_array:
        """Return an array of shape (paths, links) with 1 for each link of a path."""
        columns: list[int] = []
        bounds = [0]
        for paths in self.paths:
            for path in paths:
                columns += path
                bounds.append(len(columns))
        shape = (len(bounds) - 1, len(self.matrix.network.links))
        indices = np.array(columns, dtype=np.int64)
        return csr_array((np.ones(len(columns)), indices, np.array(bounds)), shape=shape)


def shortest_path_set(matrix: DemandMatrix, k: int) -> PathSet:
    """Return the ``k`` shortest paths of each pair, with equal weights (Yen 1971, by scipy).

    The length is the number of links. Parallel links make separate paths, and no path leads through
    a host. If fewer paths exist, the set has all of them. The cost is some milliseconds per pair.

    Raises:
        InputError: ``k`` is below 1.
        NoPathError: A sink cannot be reached.
    """
    if k < 1:
        raise InputError(f"k shortest paths: k {k!r} must be a whole number of at least 1")
    graph = LinkGraph(matrix.network)
    arcs, link_of_arc = _simple_graph(graph)
    index = matrix.network.node_index
    paths: list[tuple[Path, ...]] = []
    for source, sink in matrix.pairs:
        all_paths = _shortest_paths(arcs, link_of_arc, index[source], index[sink], k)
        pair_paths = [path for path in all_paths if not _leads_through_host(graph, path)]
        if not pair_paths:
            raise NoPathError(
                f"network {matrix.network.name!r}: no path leads from {source!r} to {sink!r}; "
                "leave the pair out"
            )
        paths.append(tuple(pair_paths))
    weights = [(1 / len(pair_paths),) * len(pair_paths) for pair_paths in paths]
    return PathSet(matrix=matrix, paths=tuple(paths), weights=tuple(weights))


def _shortest_paths(
    arcs: csr_array, link_of_arc: dict[tuple[int, int], int], start: int, end: int, k: int
) -> list[Path]:
    """Return the ``k`` shortest paths between two nodes of a graph from ``_simple_graph``."""
    _, predecessors = yen(arcs, start, end, k, return_predecessors=True)
    return [_links_of(row, start, end, link_of_arc) for row in predecessors]


def _leads_through_host(graph: LinkGraph, path: Path) -> bool:
    return bool(graph.silent[graph.tail[list(path[1:])]].any())


def _simple_graph(graph: LinkGraph) -> tuple[csr_array, dict[tuple[int, int], int]]:
    """Return the network as a graph without parallel arcs.

    Every link is an arc of weight 1. Of parallel links, each after the first leads through an
    additional node. Arcs out of hosts cost more than any path, so that paths through hosts come
    last.

    Returns:
        The weights of the arcs, and the link of each arc. The second half of a parallel link has no
        link.
    """
    barrier = 4.0 * (len(graph.tail) + 1)
    arcs: dict[tuple[int, int], float] = {}
    link_of_arc: dict[tuple[int, int], int] = {}
    nodes = graph.nodes
    for link, (tail, head) in enumerate(zip(graph.tail.tolist(), graph.head.tolist(), strict=True)):
        cost = 1.0 + barrier if graph.silent[tail] else 1.0
        if (tail, head) in arcs:
            arcs[tail, nodes] = cost / 2
            arcs[nodes, head] = cost / 2
            link_of_arc[tail, nodes] = link
            nodes += 1
        else:
            arcs[tail, head] = cost
            link_of_arc[tail, head] = link
    # yen accepts indices of 32 bits only.
    ends = np.array(list(arcs), dtype=np.int32)
    weights = csr_array((list(arcs.values()), (ends[:, 0], ends[:, 1])), shape=(nodes, nodes))
    return weights, link_of_arc


def _links_of(
    predecessors: Sequence[int], start: int, end: int, link_of_arc: dict[tuple[int, int], int]
) -> Path:
    """Return the links of a path.

    Args:
        predecessors: The node before each node of the path.
        start: First node.
        end: Last node.
        link_of_arc: Link of each arc; the second half of a parallel link has none.
    """
    links = []
    node = end
    while node != start:
        previous = int(predecessors[node])
        link = link_of_arc.get((previous, node))
        if link is not None:
            links.append(link)
        node = previous
    return tuple(reversed(links))


def best_rates(paths: PathSet, method: str) -> RoutedDemands:
    """Return the routing over these paths with the smallest maximum link utilisation.

    The weights are the result of one linear programme (HiGHS). The utilisation is never larger than
    with the weights of the path set, and never smaller than the multicommodity optimum.

    Args:
        paths: The paths.
        method: Name of the routing method.

    Raises:
        UndecidedError: The solver fails, or its result cannot be proved.
    """
    matrix = paths.matrix
    unit = matrix.total_bps / len(matrix.pairs)
    rates = matrix.rates / unit
    capacity = link_capacities(matrix.network)
    loads = csr_array((paths.on_links() * rates[paths.pair_of_path][:, None]).T)
    equal = (paths.by_pair(np.ones(len(paths.pair_of_path))), np.ones(len(paths.paths)))
    estimate = None
    scaled_capacity = capacity / capacity.max()
    if is_wide(capacity, matrix.rates):
        scaled_capacity = capacity / unit
        estimate = paths.widest_utilisation()
    with solving(f"network {matrix.network.name!r}: no rates found for the paths of {method}"):
        x, _, prices = emptiest(loads, scaled_capacity, equal, estimate=estimate)
    weights = np.maximum(x, 0.0)
    weights /= np.bincount(paths.pair_of_path, weights=weights)[paths.pair_of_path]
    routed = paths.routed(method, weights)
    if estimate is not None:
        # With numbers far apart, the solver's tolerances do not guarantee an optimum.
        paid = rates * paths.least_by_pair(paths.on_links() @ prices)
        _require_proof(routed, bound=float(paid.sum() / (scaled_capacity @ prices)))
    return routed


def _require_proof(routed: RoutedDemands, bound: float) -> None:
    """Raise UndecidedError if the maximum link utilisation is above its bound."""
    if routed.greatest_utilisation > bound * (1 + PROVED):
        raise UndecidedError(
            f"network {routed.matrix.network.name!r}, {routed.method}: cannot tell, the solver's "
            f"rates have utilisation {routed.greatest_utilisation:g}, the bound is {bound:g}"
        )


@dataclass(frozen=True)
class _Cluster:
    """A cluster of a random tree.

    Attributes:
        centre: Position of its central node.
        members: Positions of its nodes.
        parts: The smaller clusters into which it is divided; empty for a single node.
    """

    centre: int
    members: tuple[int, ...]
    parts: "tuple[_Cluster, ...]"


def tree_path_set(matrix: DemandMatrix, seed: int = 1) -> PathSet:
    """Return the paths of every pair over Raecke's trees.

    The weight of a path is the sum of the shares of the trees that use it. The same seed gives the
    same paths.

    Raises:
        NoPathError: A sink cannot be reached.
        InputError: The nodes that send or receive cannot all reach each other.
    """
    graph = LinkGraph(matrix.network)
    weights: list[dict[Path, float]] = [{} for _ in matrix.pairs]
    index = matrix.network.node_index
    for share, tree in _drawn_trees(graph, _members(graph, matrix), random.Random(seed)):
        for pair_weights, (source, sink) in zip(weights, matrix.pairs, strict=True):
            path = tree.path(index[source], index[sink])
            pair_weights[path] = pair_weights.get(path, 0.0) + share
    scaled_weights = []
    for pair_weights in weights:
        total = sum(pair_weights.values())
        scaled_weights.append(tuple(weight / total for weight in pair_weights.values()))
    return PathSet(
        matrix=matrix,
        paths=tuple(tuple(pair_weights) for pair_weights in weights),
        weights=tuple(scaled_weights),
    )


def _members(graph: LinkGraph, matrix: DemandMatrix) -> list[int]:
    """Return the nodes of the trees: every node that forwards, and every host with a demand.

    All members must reach each other. If the network has islands of forwarding nodes that only
    hosts connect, the members are those of the largest island.

    Raises:
        InputError: The nodes that send or receive cannot all reach each other.
    """
    index = matrix.network.node_index
    requested: set[int] = set()
    for source, sink in matrix.pairs:
        requested |= {index[source], index[sink]}
    reach = np.isfinite(graph.hops(matrix.pairs))
    mutual = reach & reach.T
    candidates = ~graph.silent
    candidates[sorted(requested)] = True
    centre = _best_centre(graph, mutual, candidates, requested)
    if centre is None:
        # No node that forwards reaches all end points in both directions.
        centre = min(requested)
        members = np.flatnonzero(mutual[centre] & candidates).tolist()
        if not mutual[np.ix_(members, members)].all():
            ends = sorted(requested)
            members = [node for node in ends if mutual[ends, node].all()]
    else:
        members = np.flatnonzero(mutual[centre] & candidates).tolist()
    missing = sorted(requested - set(members))
    if missing:
        first = matrix.network.nodes[min(requested)].id
        second = matrix.network.nodes[missing[0]].id
        raise InputError(
            f"network {matrix.network.name!r}: routing trees need nodes that all reach one "
            f"another; {first!r} and {second!r} do not; give other methods by --routing"
        )
    return members


def _best_centre(
    graph: LinkGraph, mutual: BoolArray, candidates: BoolArray, requested: set[int]
) -> int | None:
    """Return the forwarding node that reaches all end points and the most candidates, or None.

    Args:
        graph: The network.
        mutual: Which nodes reach each other in both directions, shape (nodes, nodes).
        candidates: Mask of the nodes that may be members.
        requested: Positions of all end points.
    """
    from_forwarding = mutual & ~graph.silent[:, None]
    reaches_all_ends = from_forwarding[:, sorted(requested)].all(axis=1)
    if not reaches_all_ends.any():
        return None
    reached = from_forwarding[:, candidates].sum(axis=1)
    return int((reached * reaches_all_ends).argmax())


def _drawn_trees(
    graph: LinkGraph, members: Sequence[int], rng: random.Random
) -> "list[tuple[float, _TreePaths]]":
    """Draw trees, and return them with the share of every flow that each carries.

    The shares add up to 1.
    """
    opposite = [
        graph.network.link_index.get(reverse_of(link.id), i)
        for i, link in enumerate(graph.network.links)
    ]
    used = np.zeros(len(graph.tail))
    trees: list[tuple[float, _TreePaths]] = []
    remaining = 1.0
    while remaining > 0 and len(trees) < MAX_TREES:
        weights = np.exp(EAGERNESS * (used - used.max()))
        tree = _TreePaths(graph, members, weights, rng)
        use = tree.relative_use(opposite)
        share = min(remaining, 1 / use.max()) if use.max() > 0 else remaining
        used += use / max(use.max(), 1e-300)
        trees.append((share, tree))
        remaining -= share
    total = sum(share for share, _ in trees)
    return [(share / total, tree) for share, tree in trees]


class _TreePaths:
    """One random tree, with the paths over it and its use of the links.

    Attributes:
        path: Function that returns the path from one member to another, with a cache.
    """

    def __init__(
        self, graph: LinkGraph, members: Sequence[int], weights: FloatArray, rng: random.Random
    ) -> None:
        self._graph = graph
        self._shortest: ShortestPaths = graph.shortest_paths(weights)
        distance = self._shortest.distance
        self._metric = (distance + distance.T) / 2
        # The possible centres, in random order.
        self._hubs = [node for node in members if not graph.silent[node]] or list(members)
        rng.shuffle(self._hubs)
        diameter = float(self._metric[np.ix_(members, members)].max())
        radius = diameter / 2 * 2 ** rng.random()
        self._root = self._divide(self._hubs[0], tuple(members), radius)
        # The clusters that contain each member, from the largest down.
        self._clusters_of: dict[int, tuple[_Cluster, ...]] = {}
        self._index_clusters(self._root, ())
        self.path = cache(self._path)

    def _divide(self, centre: int, members: tuple[int, ...], radius: float) -> _Cluster:
        """Return a cluster, recursively divided into smaller ones.

        Each member joins the first hub, in random order, within the radius. A member without such a
        hub is a cluster of its own.

        Args:
            centre: Centre of the cluster.
            members: Nodes of the cluster.
            radius: Radius of the next smaller clusters.
        """
        if len(members) == 1:
            return _Cluster(members[0], members, ())
        near = self._metric[np.ix_(members, self._hubs)] <= radius
        first_hub = np.where(near.any(axis=1), near.argmax(axis=1), -1)
        members_of_hub: dict[int, list[int]] = {}
        for member, position in zip(members, first_hub.tolist(), strict=True):
            hub = self._hubs[position] if position >= 0 else member
            members_of_hub.setdefault(hub, []).append(member)
        parts = []
        for hub, hub_members in members_of_hub.items():
            parts.append(self._divide(hub, tuple(hub_members), radius / 2))
        return _Cluster(centre, members, tuple(parts))

    def _index_clusters(self, cluster: _Cluster, larger: tuple[_Cluster, ...]) -> None:
        """Record for each member the clusters that contain it, from the largest down."""
        clusters = (*larger, cluster)
        if not cluster.parts:
            self._clusters_of[cluster.centre] = clusters
        for part in cluster.parts:
            self._index_clusters(part, clusters)

    def relative_use(self, opposite: Sequence[int]) -> FloatArray:
        """Return the tree's use of each link, relative to the link's capacity.

        All links send at full rate, and everything that leaves a cluster passes its centre. Both
        directions of a cable are used alike.

        Args:
            opposite: Index of each link's opposite link, or of the link itself if it has none.
        """
        graph = self._graph
        load = np.zeros(len(graph.tail))
        clusters = [self._root]
        while clusters:
            cluster = clusters.pop()
            clusters += cluster.parts
            for part in cluster.parts:
                inside = np.zeros(graph.nodes, dtype=bool)
                inside[list(part.members)] = True
                leaving = float(graph.capacity[inside[graph.tail] & ~inside[graph.head]].sum())
                for link in self._shortest.way(part.centre, cluster.centre):
                    for direction in {link, opposite[link]}:
                        load[direction] += leaving
        return np.asarray(load / graph.capacity)

    def _path(self, source: int, sink: int) -> Path:
        """Return the path up to the smallest common cluster and down again, without loops."""
        source_clusters = self._clusters_of[source]
        sink_clusters = self._clusters_of[sink]
        common = 0
        for source_cluster, sink_cluster in zip(source_clusters, sink_clusters, strict=False):
            if source_cluster is sink_cluster:
                common += 1
        up = reversed(source_clusters[common - 1 :])
        down = sink_clusters[common:]
        stops = [cluster.centre for cluster in (*up, *down)]
        links: list[int] = []
        for start, end in pairwise(stops):
            links += self._shortest.way(start, end)
        return _without_loops(self._graph, source, links)


def _without_loops(graph: LinkGraph, source: int, links: Sequence[int]) -> Path:
    """Return a walk without the links between two visits of a node.

    Args:
        graph: The network.
        source: Node where the walk begins.
        links: The links of the walk.
    """
    path: list[int] = []
    # Number of links of the path before each of its nodes.
    steps_before = {source: 0}
    for link in links:
        node = int(graph.head[link])
        path.append(link)
        if node not in steps_before:
            steps_before[node] = len(path)
            continue
        length = steps_before[node]
        del path[length:]
        steps_before = {
            visited: steps for visited, steps in steps_before.items() if steps <= length
        }
    return tuple(path)


def smore_route(network: Network, source: str, sink: str, paths: int) -> SplitRoute:
    """Route one flow over the tree paths with the largest weights (method "smore:K").

    The split makes the fullest link as empty as these paths allow. A host with a single cable is
    represented by its switch, so that ends which only send or only receive can be routed. If the
    ends cannot reach each other in both directions, there are no trees, and the paths are the
    shortest ones.

    Args:
        network: The network.
        source: Id of the source.
        sink: Id of the sink.
        paths: Largest number of paths.

    Raises:
        InputError: An end point is invalid.
        NoPathError: The sink cannot be reached.
    """
    problem = flow_problem(network, source, sink)
    method = f"smore:{paths}"
    # Raises NoPathError if the sink cannot be reached.
    single = single_path(network, source, sink)
    first_switch, first_link = _switch_of(network, source, outward=True)
    last_switch, last_link = _switch_of(network, sink, outward=False)
    if first_switch in (last_switch, sink) or last_switch == source:
        return SplitRoute(
            network=network, source=source, sink=sink, method=method, loads=single.loads
        )
    path_set = _paths(network, first_switch, last_switch, paths)
    shares = best_rates(path_set, "smore").pair_shares(0)
    shares[[*first_link, *last_link]] = 1.0
    flow = shares[list(problem.links)].tolist()
    return exact_route(problem, method, flow, negligible=NOTHING)


def _paths(network: Network, source: str, sink: str, limit: int) -> PathSet:
    """Return the paths of one flow over trees, or the shortest ones if there are no trees."""
    matrix = given_matrix(network, "one flow", {(source, sink): 1.0})
    index = network.node_index
    if not np.isfinite(LinkGraph(network).hops()[index[sink], index[source]]):
        return shortest_path_set(matrix, limit)
    return tree_path_set(matrix, SEED).heaviest(limit)


def _switch_of(network: Network, node: str, *, outward: bool) -> tuple[str, tuple[int, ...]]:
    """Return the switch of a host with a single cable, and the link between them.

    Args:
        network: The network.
        node: Id of the node.
        outward: Whether the link leads from the host to the switch.

    Returns:
        The node itself and no link, if it is not such a host.
    """
    links = tuple(network.out_links(node) if outward else network.in_links(node))
    if network.node(node).kind != "host" or len(links) != 1:
        return node, ()
    link = network.links[links[0]]
    return (link.target if outward else link.source), links
