"""A network as arrays and as a graph of least weights, in which hosts are ends unless they forward: what routings in
floats search in."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from testbed.arrays import BoolArray, FloatArray
from topologies import Network, NoPathError

Ints = NDArray[np.int64]


class ShortestPaths(NamedTuple):
    """``distance`` (nodes, nodes), infinite where no path leads; ``before[a, b]``: the node before b on the way from
    a; ``link[a, b]``: the lightest of the links from a to b, the first of equals."""

    distance: FloatArray
    before: Ints
    link: Ints

    def way(self, start: int, end: int) -> list[int]:
        """The links of the path."""
        links, node = [], end
        while node != start:
            earlier = int(self.before[start, node])
            links.append(int(self.link[earlier, node]))
            node = earlier
        return links[::-1]


class LinkGraph:
    """``tail``, ``head`` (positions of nodes), ``capacity`` in bits a second and ``silent``, shape (links,) or
    (nodes,)."""

    def __init__(self, network: Network) -> None:
        index = network.node_index
        self.network = network
        self.nodes = len(network.nodes)
        self.tail: Ints = np.array([index[link.source] for link in network.links], dtype=np.int64)
        self.head: Ints = np.array([index[link.target] for link in network.links], dtype=np.int64)
        self.capacity: FloatArray = np.array(
            [link.capacity_bps for link in network.links], dtype=np.float64
        )
        self.silent = np.array([not node.forwards for node in network.nodes], dtype=bool)

    def usable_from(self, source: int) -> BoolArray:
        """Links that a flow from ``source`` may take, shape (links,): none out of another host that does not
        forward, none back into the source."""
        forwards = ~self.silent[self.tail] | (self.tail == source)
        return np.asarray(forwards & (self.head != source))

    def usable(self, source: int, sink: int) -> BoolArray:
        """Links that a flow from ``source`` to ``sink`` may take, shape (links,)."""
        ends_there = ~self.silent[self.head] | (self.head == sink)
        return np.asarray(self.usable_from(source) & ends_there & (self.tail != sink))

    def shortest_paths(self, weights: FloatArray) -> ShortestPaths:
        """From every node to every other; ``weights`` above 0, one a link. Of parallel links the lightest counts.

        A way out of a host that does not forward costs so much that no path leads through one: only its own, which is
        then taken off again.
        """
        from scipy.sparse import csr_array  # what needs the arrays alone does not wait for scipy
        from scipy.sparse.csgraph import dijkstra

        barrier = 1e3 * float(weights.sum()) + 1.0
        cost = weights + barrier * self.silent[self.tail]
        order = np.argsort(cost, kind="stable")[
            ::-1
        ]  # of parallel links the lightest is written last
        link = np.full((self.nodes, self.nodes), -1, dtype=np.int64)
        link[self.tail[order], self.head[order]] = order
        tail, head = np.nonzero(link >= 0)
        graph = csr_array((cost[link[tail, head]], (tail, head)), shape=(self.nodes, self.nodes))
        distance, before = dijkstra(graph, return_predecessors=True)
        distance -= np.where(self.silent, barrier, 0.0)[:, None]
        np.fill_diagonal(distance, 0.0)
        distance[distance >= barrier / 2] = np.inf
        return ShortestPaths(distance, before, link)

    def hops(self, pairs: Iterable[tuple[str, str]] = ()) -> FloatArray:
        """Links on the shortest path, shape (nodes, nodes), infinite where there is none; NoPathError where one of
        ``pairs`` has none."""
        found = self.shortest_paths(np.ones(len(self.tail))).distance
        for source, sink in pairs:
            if not np.isfinite(
                found[self.network.node_index[source], self.network.node_index[sink]]
            ):
                raise NoPathError(
                    f"network {self.network.name!r}: no path leads from {source!r} to {sink!r}; leave the pair out"
                )
        return found

    def positions(self, nodes: Sequence[str]) -> Ints:
        """Positions of nodes by their ids."""
        return np.array([self.network.node_index[node] for node in nodes], dtype=np.int64)
