"""Two paths that share as little as possible: a flow of two units of least cost, second use of anything dear."""

from __future__ import annotations

import heapq

from topologies.errors import NoPathError
from topologies.network import Network

_NODE_AGAIN, _CABLE_AGAIN = 10_000, 1_000_000


def two_paths(network: Network, source: str, sink: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two paths (link indices), the shorter first; the same twice where there is only one.

    Hops are counted first by shared cables, then shared nodes, then length. The second path is the best detour from a
    shortest first one after exchange of their common parts (one augmentation of a least-cost flow). Cost: two shortest-path
    searches. Raises NoPathError.
    """
    first = _shortest(network, source, sink, {}, set())
    if first is None:
        raise NoPathError(f"network {network.name!r}: no path from {source!r} to {sink!r}; add links between them")
    best: tuple[tuple[int, int, int], tuple[int, ...]] | None = None
    for avoid in (first, *_alternatives(network, source, sink, first)):
        cables = {_cable(network, i) for i in avoid}
        nodes = {network.links[i].target for i in avoid} - {sink}
        second = _shortest(network, source, sink, cables, nodes)
        if second is None:
            continue
        shared = len(cables & {_cable(network, i) for i in second})
        meet = len(nodes & ({network.links[i].target for i in second} - {sink}))
        score = (shared, meet, len(second) + len(avoid))
        if best is None or score < best[0]:
            best, first = (score, second), avoid
    assert best is not None  # the first path itself is always found again
    return tuple(sorted((first, best[1]), key=lambda p: (len(p), p)))  # type: ignore[return-value]


def _alternatives(network: Network, source: str, sink: str, path: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Shortest paths that avoid one cable of the given path each: they undo a first path that blocks every second."""
    found = []
    for link in path:
        other = _shortest(network, source, sink, {_cable(network, link)}, set())
        if other is not None and other != path and other not in found:
            found.append(other)
    return found


def _cable(network: Network, link: int) -> frozenset[tuple[str, int]]:
    it = network.links[link]
    return frozenset(((it.source, it.key), (it.target, it.key)))


def _shortest(network: Network, source: str, sink: str, cables: object, nodes: set[str]) -> tuple[int, ...] | None:
    """Dijkstra by (used cables, used nodes, hops), ties by node order; hosts other than the ends do not forward."""
    dear = cables if isinstance(cables, (set, dict)) else set()
    queue: list[tuple[int, int, str]] = [(0, network.node_index[source], source)]
    cost, came = {source: 0}, dict[str, int]()
    while queue:
        at, _, node = heapq.heappop(queue)
        if node == sink:
            break
        if at > cost[node] or (node != source and network.node(node).kind == "host"):
            continue
        for i in network.out_links(node):
            target = network.links[i].target
            new = at + 1 + (_CABLE_AGAIN if _cable(network, i) in dear else 0) + (_NODE_AGAIN if target in nodes else 0)
            if new < cost.get(target, new + 1):
                cost[target], came[target] = new, i
                heapq.heappush(queue, (new, network.node_index[target], target))
    if sink not in cost:
        return None
    path: list[int] = []
    while sink != source:
        path.append(came[sink])
        sink = network.links[came[sink]].source
    return tuple(reversed(path))
