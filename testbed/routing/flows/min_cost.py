"""Flows over the fewest links, in exact integers: what capillary layers leave over, and disjoint paths.

Source: the "min-cost solution of the remaining flow" of Gabrielyan 2007, section 4.2.1 (Figure 47); every link costs
one where nothing else is said.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from testbed.routing.flows.flow_steps import integer_residual, push_all


def fewest_links_flow(
    tail: Sequence[int],
    head: Sequence[int],
    capacity: Sequence[int],
    demand: Sequence[int],
    cost: Sequence[int] | None = None,
) -> tuple[list[int], list[int]]:
    """(flow a link, demand left unmet a node): as much as the capacities bear, over as few links in sum as that takes.

    Positive demands send, negative ones receive. ``cost``: of each link, 1 where not given; no cycle may cost nothing.
    Successive shortest paths, all paths of one length together (primal-dual); equally short ones are tried breadth
    first in the order of the links: the tie-break, so the result is deterministic. At most one round a path
    length, O(nodes * links) each in practice.

    >>> fewest_links_flow([0, 1, 0], [1, 2, 2], [2, 2, 1], [3, 0, -3])
    ([2, 2, 1], [0, 0, 0])
    """
    state = _Flow(tail, head, capacity, cost or [1] * len(tail), [0] * len(tail), list(demand))
    while True:
        distance = _distances(state)
        if not any(
            state.need[node] < 0 and distance[node] is not None for node in range(len(demand))
        ):
            return state.flow, state.need
        _push_shortest(state, distance)


class _Flow(NamedTuple):
    """Links with their capacity and flow, and what each node still has to send (positive) or to receive (negative)."""

    tail: Sequence[int]
    head: Sequence[int]
    capacity: Sequence[int]
    cost: Sequence[int]
    flow: list[int]
    need: list[int]


def _distances(state: _Flow) -> list[int | None]:
    """Least cost (that of a link taken back counts below 0) from any node that still sends; None where out of reach."""
    tail, head, capacity, costs, flow, need = state
    nodes = len(need)
    paths: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for link, (a, b) in enumerate(zip(tail, head, strict=True)):
        if flow[link] < capacity[link]:
            paths[a].append((b, costs[link]))
        if flow[link] > 0:
            paths[b].append((a, -costs[link]))
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
    tail, head, capacity, costs, flow, need = state
    nodes, tight = len(need), []
    for link, (a, b) in enumerate(zip(tail, head, strict=True)):
        near, far = distance[a], distance[b]
        if near is not None and far is not None and near + costs[link] == far:
            tight.append(link)
    nearest = min(
        (d for node, d in enumerate(distance) if d is not None and need[node] < 0), default=0
    )
    graph = integer_residual(
        nodes, [tail[i] for i in tight], [head[i] for i in tight], [capacity[i] for i in tight]
    )
    graph.flow[:] = [flow[link] for link in tight]
    for node in range(nodes):
        # a sender that a shorter way reaches (distance below 0) waits: a path from itself would not be a shortest one
        if (need[node] > 0 and distance[node] == 0) or (
            need[node] < 0 and distance[node] == nearest
        ):
            graph.need[node] = need[node]
            need[node] = 0
    push_all(graph)
    for at, link in enumerate(tight):
        flow[link] = graph.flow[at]
    for node in range(nodes):
        need[node] += graph.need[node]
