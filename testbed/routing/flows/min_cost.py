"""Flows over the fewest links, in exact integers: what capillary layers leave over, and disjoint paths.

Source: the "min-cost solution of the remaining flow" of Gabrielyan 2007, section 4.2.1 (Figure 47); every link costs
one.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from testbed.routing.flows.flow_steps import build_residual, index_arcs, integer_zeros, push_all


def fewest_links_flow(
    nodes: int, tail: Sequence[int], head: Sequence[int], capacity: Sequence[int], demand: Sequence[int]
) -> tuple[list[int], list[int]]:
    """(flow a link, demand left unmet a node): as much as the capacities bear, over as few links in sum as that takes.

    Positive demands send, negative ones receive. Successive shortest paths, all paths of one length together (primal-
    dual); equally short ones are tried breadth first in the order of the links: the tie-break, so the result is
    deterministic. At most one round a path length, O(nodes * links) each in practice.

    >>> fewest_links_flow(3, [0, 1, 0], [1, 2, 2], [2, 2, 1], [3, 0, -3])
    ([2, 2, 1], [0, 0, 0])
    """
    state = _Flow(tail, head, capacity, [0] * len(tail), list(demand))
    while True:
        distance = _distances(state)
        if not any(state.need[node] < 0 and distance[node] is not None for node in range(nodes)):
            return state.flow, state.need
        _push_shortest(state, distance)


class _Flow(NamedTuple):
    """Links with their capacity and flow, and what each node still has to send (positive) or to receive (negative)."""

    tail: Sequence[int]
    head: Sequence[int]
    capacity: Sequence[int]
    flow: list[int]
    need: list[int]


def _distances(state: _Flow) -> list[int | None]:
    """Fewest links (a link taken back counts -1) from any node that still sends; None where out of reach."""
    tail, head, capacity, flow, need = state
    nodes = len(need)
    paths: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for link, (a, b) in enumerate(zip(tail, head, strict=True)):
        if flow[link] < capacity[link]:
            paths[a].append((b, 1))
        if flow[link] > 0:
            paths[b].append((a, -1))
    found: list[int | None] = [0 if need[node] > 0 else None for node in range(nodes)]
    queue = deque(node for node in range(nodes) if need[node] > 0)
    queued = [need[node] > 0 for node in range(nodes)]
    while queue:
        node = queue.popleft()
        queued[node] = False
        here = found[node] or 0
        for other, cost in paths[node]:
            known = found[other]
            if known is None or here + cost < known:
                found[other] = here + cost
                if not queued[other]:
                    queued[other] = True
                    queue.append(other)
    return found


def _push_shortest(state: _Flow, distance: list[int | None]) -> None:
    """A greatest flow over the links of shortest paths only, from every sender to the receivers nearest to it."""
    tail, head, capacity, flow, need = state
    nodes, tight = len(need), []
    for link, (a, b) in enumerate(zip(tail, head, strict=True)):
        near, far = distance[a], distance[b]
        if near is not None and far is not None and near + 1 == far:
            tight.append(link)
    nearest = min((d for node, d in enumerate(distance) if d is not None and need[node] < 0), default=0)
    graph = build_residual(nodes, len(tight), integer_zeros, integer_zeros)
    graph.order[:] = range(nodes)
    graph.capacity[:] = [capacity[link] for link in tight]
    graph.flow[:] = [flow[link] for link in tight]
    index_arcs(graph, [tail[link] for link in tight], [head[link] for link in tight])
    for node in range(nodes):
        # a sender that a shorter way reaches (distance below 0) waits: a path from itself would not be a shortest one
        if (need[node] > 0 and distance[node] == 0) or (need[node] < 0 and distance[node] == nearest):
            graph.need[node] = need[node]
            need[node] = 0
    push_all(graph)
    for at, link in enumerate(tight):
        flow[link] = graph.flow[at]
    for node in range(nodes):
        need[node] += graph.need[node]
