"""Minimum-cost flows in exact integers.

They route what capillary layers leave over, and they find disjoint paths. The source is the
"min-cost solution of the remaining flow" of Gabrielyan 2007, section 4.2.1 (Figure 47).
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
    """Return a maximum flow of minimum cost; by default the cost is the number of links used.

    The algorithm is successive shortest paths (primal-dual): each round augments along all shortest
    paths at once. Paths of equal length are tried breadth first in the order of the links, so the
    result is deterministic. There is at most one round for each path length, and a round takes
    O(nodes * links) in practice.

    Args:
        tail: Node from which each link leads.
        head: Node to which each link leads.
        capacity: Capacity of each link.
        demand: Amount that each node sends (positive) or receives (negative).
        cost: Cost of a unit of flow on each link, 1 by default. No cycle may have cost 0.

    Returns:
        The flow on each link, and the demand of each node that remains unmet.

    >>> fewest_links_flow([0, 1, 0], [1, 2, 2], [2, 2, 1], [3, 0, -3])
    ([2, 2, 1], [0, 0, 0])
    """
    state = _Flow(tail, head, capacity, cost or [1] * len(tail), [0] * len(tail), list(demand))
    while True:
        distance = _distances(state)
        nearest = _nearest_receiver(state, distance)
        if nearest is None:
            return state.flow, state.need
        _push_shortest(state, distance, nearest)


class _Flow(NamedTuple):
    """The links, their flow, and what each node must still send.

    Attributes:
        tail: Node from which each link leads.
        head: Node to which each link leads.
        capacity: Capacity of each link.
        cost: Cost of a unit of flow on each link.
        flow: Flow on each link; changed in place.
        need: Amount that each node must still send (positive) or receive (negative); changed in
            place.
    """

    tail: Sequence[int]
    head: Sequence[int]
    capacity: Sequence[int]
    cost: Sequence[int]
    flow: list[int]
    need: list[int]


def _distances(state: _Flow) -> list[int | None]:
    """Return the minimum cost of reaching each node from any node that still sends.

    Returning flow of a link has the negative of its cost. None marks unreachable nodes.
    """
    nodes = len(state.need)
    arcs = _residual_arcs(state)
    distance: list[int | None] = [None] * nodes
    queued = [False] * nodes
    queue: deque[int] = deque()
    for node, need in enumerate(state.need):
        if need > 0:
            distance[node] = 0
            queued[node] = True
            queue.append(node)
    # Bellman-Ford with a queue, because costs of returned flow are negative.
    while queue:
        node = queue.popleft()
        queued[node] = False
        node_distance = distance[node] or 0
        for neighbour, cost in arcs[node]:
            previous = distance[neighbour]
            if previous is not None and previous <= node_distance + cost:
                continue
            distance[neighbour] = node_distance + cost
            if not queued[neighbour]:
                queued[neighbour] = True
                queue.append(neighbour)
    return distance


def _residual_arcs(state: _Flow) -> list[list[tuple[int, int]]]:
    """Return the residual arcs that leave each node, each as the next node and the cost."""
    arcs: list[list[tuple[int, int]]] = [[] for _ in state.need]
    for link, (tail, head) in enumerate(zip(state.tail, state.head, strict=True)):
        if state.flow[link] < state.capacity[link]:
            arcs[tail].append((head, state.cost[link]))
        if state.flow[link] > 0:
            arcs[head].append((tail, -state.cost[link]))
    return arcs


def _nearest_receiver(state: _Flow, distance: list[int | None]) -> int | None:
    """Return the distance of the nearest node that still receives, or None if none is reachable."""
    nearest = None
    for node_distance, need in zip(distance, state.need, strict=True):
        if node_distance is None or need >= 0:
            continue
        if nearest is None or node_distance < nearest:
            nearest = node_distance
    return nearest


def _push_shortest(state: _Flow, distance: list[int | None], nearest: int) -> None:
    """Augment by a maximum flow that uses links of shortest paths only.

    The flow leads from every sender to the receivers that are nearest to any sender.

    Args:
        state: The flow.
        distance: Distance of each node from any sender, or None.
        nearest: Smallest distance of a receiver.
    """
    need = state.need
    tight = _links_of_shortest_paths(state, distance)
    tails = []
    heads = []
    capacities = []
    for link in tight:
        tails.append(state.tail[link])
        heads.append(state.head[link])
        capacities.append(state.capacity[link])
    graph = integer_residual(len(need), tails, heads, capacities)
    graph.flow[:] = [state.flow[link] for link in tight]
    for node, node_need in enumerate(need):
        # A sender with a negative distance must wait: a path that begins there is not a shortest
        # one, because a cheaper path leads to the sender itself.
        sends_now = node_need > 0 and distance[node] == 0
        receives_now = node_need < 0 and distance[node] == nearest
        if sends_now or receives_now:
            graph.need[node] = node_need
            need[node] = 0
    push_all(graph)
    for position, link in enumerate(tight):
        state.flow[link] = graph.flow[position]
    for node in range(len(need)):
        need[node] += graph.need[node]


def _links_of_shortest_paths(state: _Flow, distance: list[int | None]) -> list[int]:
    """Return the links whose cost equals the difference of the distances of their ends."""
    links = []
    for link, (tail, head) in enumerate(zip(state.tail, state.head, strict=True)):
        tail_distance = distance[tail]
        head_distance = distance[head]
        if tail_distance is None or head_distance is None:
            continue
        if tail_distance + state.cost[link] == head_distance:
            links.append(link)
    return links
