"""Sets of paths for each pair, with weights, made without a look at the demands: the k shortest paths; from weights to
shares, and the weights that are best for the demands (semi-oblivious routing, Kumar et al. 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import yen

from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.routing.demands.link_graph import LinkGraph
from testbed.routing.demands.matrix import DemandMatrix
from testbed.routing.demands.routed_demands import RoutedDemands
from testbed.routing.flows.linear_programs import emptiest, solving
from topologies.errors import NoPathError

Path = tuple[int, ...]
"""Indices of links, from source to sink."""


@dataclass(frozen=True, kw_only=True)
class PathSet:
    """``paths[i]`` are the paths of pair i, each once; ``weights[i]`` how much of its flow each takes, of sum 1."""

    matrix: DemandMatrix
    paths: tuple[tuple[Path, ...], ...]
    weights: tuple[tuple[float, ...], ...]

    def routed(self, method: str) -> RoutedDemands:
        """The demands routed by the weights."""
        return routed_by_paths(self, method, np.array([weight for own in self.weights for weight in own]))

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

    def on_links(self) -> csr_array:
        """1 where a path takes a link: shape (paths, links)."""
        every = [path for own in self.paths for path in own]
        bounds = np.concatenate([[0], np.cumsum([len(path) for path in every])])
        columns = np.array([link for path in every for link in path], dtype=np.int64)
        shape = (len(every), len(self.matrix.network.links))
        return csr_array((np.ones(len(columns)), columns, bounds), shape=shape)


def routed_by_paths(paths: PathSet, method: str, weights: FloatArray) -> RoutedDemands:
    """Each pair's flow over its paths by ``weights``, shape (paths,), which sum to 1 for every pair."""
    count = len(weights)
    of_pair = csr_array((weights, (paths.pair_of_path, np.arange(count))), shape=(len(paths.paths), count))
    return RoutedDemands(matrix=paths.matrix, method=method, shares=csr_array(of_pair @ paths.on_links()))


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
    return PathSet(matrix=matrix, paths=tuple(found), weights=tuple(tuple([1 / len(own)] * len(own)) for own in found))


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


def _links_of(before: Sequence[int], start: int, end: int, link_at: dict[tuple[int, int], int]) -> Path:
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
    matrix, count = paths.matrix, len(paths.pair_of_path)
    rates = matrix.rates / (matrix.total_bps / len(matrix.pairs))
    capacity = np.array([link.capacity_bps for link in matrix.network.links])
    loads = csr_array((paths.on_links() * rates[paths.pair_of_path][:, None]).T)
    one = csr_array((np.ones(count), (paths.pair_of_path, np.arange(count))), shape=(len(paths.paths), count))
    with solving(f"network {matrix.network.name!r}: no rates found for the paths of {method}"):
        x, _, _ = emptiest(loads, capacity / capacity.max(), (one, np.ones(len(paths.paths))))
    weights = np.maximum(x, 0.0)
    weights /= np.bincount(paths.pair_of_path, weights=weights)[paths.pair_of_path]
    return routed_by_paths(paths, method, weights)
