"""A network as numpy arrays, with shortest paths that do not lead through silent hosts.

A silent host does not forward: a path may begin or end at it, but may not lead through it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from testbed.arrays import BoolArray, FloatArray
from topologies import Network, NoPathError

Ints = NDArray[np.int64]


def link_capacities(network: Network) -> FloatArray:
    """Return the capacity of each link in bits per second, shape (links,)."""
    return np.array([link.capacity_bps for link in network.links], dtype=np.float64)


class ShortestPaths(NamedTuple):
    """Shortest paths between all pairs of nodes.

    Attributes:
        distance: Distance from each node (rows) to each node (columns), infinite if no path leads.
        before: ``before[a, b]`` is the node before b on the path from a to b.
        link: ``link[a, b]`` is the lightest link from a to b, the first of equals, or -1.
    """

    distance: FloatArray
    before: Ints
    link: Ints

    def way(self, start: int, end: int) -> list[int]:
        """Return the links of the path from ``start`` to ``end``."""
        links = []
        node = end
        while node != start:
            previous = int(self.before[start, node])
            links.append(int(self.link[previous, node]))
            node = previous
        return links[::-1]


class LinkGraph:
    """The links and nodes of a network as arrays.

    Attributes:
        network: The network.
        nodes: Number of nodes.
        tail: Position of the node from which each link leads, shape (links,).
        head: Position of the node to which each link leads, shape (links,).
        capacity: Capacity of each link in bits per second, shape (links,).
        silent: Mask of the nodes that do not forward, shape (nodes,).
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.nodes = len(network.nodes)
        self.tail: Ints = np.zeros(len(network.links), dtype=np.int64)
        self.head: Ints = np.zeros(len(network.links), dtype=np.int64)
        for i, link in enumerate(network.links):
            self.tail[i] = network.node_index[link.source]
            self.head[i] = network.node_index[link.target]
        self.capacity = link_capacities(network)
        self.silent = np.array([not node.forwards for node in network.nodes], dtype=bool)

    def usable_from(self, source: int) -> BoolArray:
        """Return a mask of the links that a flow from ``source`` may use, shape (links,).

        Links that leave another silent host, and links that lead back to the source, are excluded.
        """
        forwards = ~self.silent[self.tail] | (self.tail == source)
        return np.asarray(forwards & (self.head != source))

    def usable(self, source: int, sink: int) -> BoolArray:
        """Return a mask of the links that a flow from ``source`` to ``sink`` may use."""
        accepts = ~self.silent[self.head] | (self.head == sink)
        return np.asarray(self.usable_from(source) & accepts & (self.tail != sink))

    def shortest_paths(self, weights: FloatArray) -> ShortestPaths:
        """Return the shortest paths between all pairs of nodes.

        Args:
            weights: Length of each link, above 0. Of parallel links the lightest counts.
        """
        # Imported here, because callers that need the arrays only should not wait for scipy.
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        # A link out of a silent host costs so much that no shortest path leads through the host.
        # A path that begins there pays it once, and the cost is subtracted again below.
        barrier = 1e3 * float(weights.sum()) + 1.0
        cost = weights + barrier * self.silent[self.tail]
        # The lightest of parallel links comes last, so that it overwrites the others.
        order = np.argsort(cost, kind="stable")[::-1]
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
        """Return the number of links on the shortest path between each two nodes.

        Args:
            pairs: Pairs of node ids between which a path must exist.

        Returns:
            Shape (nodes, nodes), infinite if no path leads.

        Raises:
            NoPathError: There is no path for one of ``pairs``.
        """
        distance = self.shortest_paths(np.ones(len(self.tail))).distance
        index = self.network.node_index
        for source, sink in pairs:
            if not np.isfinite(distance[index[source], index[sink]]):
                raise NoPathError(
                    f"network {self.network.name!r}: no path leads from {source!r} to {sink!r}; "
                    "leave the pair out"
                )
        return distance

    def positions(self, nodes: Sequence[str]) -> Ints:
        """Return the positions of nodes that are given by their ids."""
        return np.array([self.network.node_index[node] for node in nodes], dtype=np.int64)
