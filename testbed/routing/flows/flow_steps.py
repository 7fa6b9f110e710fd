"""The steps of one piece of the capillary recursion: levels, augmentation, cut, components of the residual graph.

One text for two arithmetics: plain Python (lists of integers, exact) and compiled (arrays of floats, with tolerances).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

UNMET, PUSHABLE, MET = 1, 2, 0
Numbers = Any
"""A list of whole numbers, or in compiled code an array."""


class Residual(NamedTuple):
    """All pieces of a wave over one network; the nodes of a piece are ``order[low] .. order[high - 1]``.

    Node n's arcs are ``first[n] .. last[n] - 1``; arc a runs along link ``arc_link[a]`` to node ``arc_node[a]``, with
    the link where ``arc_out[a]``, against it otherwise. ``weight`` is a link's capacity (0 once its load is final),
    ``capacity`` that times the load tried. ``need`` is what a node still has to send (positive) or to receive
    (negative). The fields are lists or arrays; one entry a link: weight, capacity, flow; one a node: the others.
    """

    order: Numbers
    first: Numbers
    last: Numbers
    arc_link: Numbers
    arc_node: Numbers
    arc_out: Numbers
    weight: Numbers
    capacity: Numbers
    flow: Numbers
    demand: Numbers
    need: Numbers
    component: Numbers
    level: Numbers
    lowest: Numbers
    cursor: Numbers
    queue: Numbers
    path_arc: Numbers
    path_node: Numbers


def build_residual(
    nodes: int,
    links: int,
    number: Callable[[int], Numbers],
    amount: Callable[[int], Numbers],
    index: Callable[[int], Numbers] | None = None,
) -> Residual:
    """An empty one: ``number(n)`` gives n integer zeros, ``amount(n)`` n zeros of the flow's arithmetic.

    ``index(n)`` gives zeros for what is never negative, since it only says where to look (default: ``number``).
    """
    index = index or number
    fields = {
        name: index(nodes) for name in ("order", "first", "last", "cursor", "queue", "path_arc")
    }
    fields |= {name: number(nodes) for name in ("component", "level", "lowest")}
    fields |= {name: amount(nodes) for name in ("demand", "need")}
    fields |= {name: amount(links) for name in ("weight", "capacity", "flow")}
    fields |= {name: index(2 * links) for name in ("arc_link", "arc_node")}
    return Residual(**fields, arc_out=number(2 * links), path_node=index(nodes + 1))


def integer_residual(nodes: int, tail: Numbers, head: Numbers, capacity: Numbers) -> Residual:
    """No flow over links of these capacities, in Python's integers."""
    graph = build_residual(nodes, len(tail), integer_zeros, integer_zeros)
    graph.order[:] = range(nodes)
    graph.capacity[:] = capacity
    index_arcs(graph, tail, head)
    return graph


def integer_zeros(count: int) -> list[int]:
    """Zeros of plain Python, which never overflow."""
    return [0] * count


def index_arcs(graph: Residual, tail: Numbers, head: Numbers) -> None:
    """Fill ``first``, ``last`` (zeros before) and the arcs, each node's in the order of the links."""
    for link in range(len(tail)):
        graph.cursor[tail[link]] += 1
        graph.cursor[head[link]] += 1
    at = 0
    for node in range(len(graph.first)):
        graph.first[node] = graph.last[node] = at
        at += graph.cursor[node]
    for link in range(len(tail)):
        add_arc(graph, tail[link], head[link], link, 1)
        add_arc(graph, head[link], tail[link], link, 0)


def add_arc(graph: Residual, node: int, other: int, link: int, outward: int) -> None:
    """One more arc at the node."""
    at = graph.last[node]
    graph.arc_link[at], graph.arc_node[at], graph.arc_out[at] = link, other, outward
    graph.last[node] = at + 1


def drop_final_arcs(graph: Residual, low: int, high: int) -> None:
    """Forget the arcs of links whose load is final (weight 0); the others keep their order."""
    for node in graph.order[low:high]:
        retained = graph.first[node]
        for arc in range(graph.first[node], graph.last[node]):
            link = graph.arc_link[arc]
            if graph.weight[link] > 0:
                graph.arc_link[retained], graph.arc_node[retained] = link, graph.arc_node[arc]
                graph.arc_out[retained] = graph.arc_out[arc]
                retained += 1
        graph.last[node] = retained


def is_open(capacity: float, flow: float, along: bool, tolerance: float) -> bool:
    """Can more be sent along the link (or against it), beyond that fraction of its capacity?"""
    # Numbers, not the graph: compiled code would hand on its eighteen arrays at every call.
    return (capacity - flow if along else flow) > tolerance * capacity


def first_share(graph: Residual, low: int, high: int) -> tuple[Any, Any]:
    """(demand, weight) of the node whose links must be loaded most: a first lower bound demand / weight of the load."""
    best, best_weight = 0 * graph.demand[graph.order[low]], 0 * graph.demand[graph.order[low]] + 1
    for node in graph.order[low:high]:
        requested = abs(graph.demand[node])
        if requested == 0:
            continue
        outward = graph.demand[node] > 0
        weight = 0 * requested
        for arc in range(graph.first[node], graph.last[node]):
            if (graph.arc_out[arc] == 1) == outward:
                weight += graph.weight[graph.arc_link[arc]]
        if requested * best_weight > best * weight:
            best, best_weight = requested, weight
    return best, best_weight


def cut_share(graph: Residual, low: int, high: int) -> tuple[Any, Any]:
    """(demand, weight) of the cut around the nodes that ``spread_levels`` left out: a lower bound demand / weight."""
    demand, weight = 0 * graph.demand[graph.order[low]], 0 * graph.demand[graph.order[low]]
    for node in graph.order[low:high]:
        if graph.level[node] >= 0:
            continue
        demand += graph.demand[node]
        for arc in range(graph.first[node], graph.last[node]):
            if graph.arc_out[arc] and graph.level[graph.arc_node[arc]] >= 0:
                weight += graph.weight[graph.arc_link[arc]]
    return demand, weight


def spread_levels(graph: Residual, low: int, high: int, tolerance: float, least: float) -> int:
    """Levels: the distance over open arcs to the nearest node that still receives, -1 where there is no way to one.

    MET where no node has anything left to send, PUSHABLE where one that has is within reach of a receiver, else UNMET.
    """
    count, taken, senders, within = 0, 0, 0, 0
    for node in graph.order[low:high]:
        graph.level[node] = -1
        if graph.need[node] > least:
            senders += 1
        elif graph.need[node] < -least:
            graph.level[node] = 0
            graph.queue[low + count] = node
            count += 1
    if senders == 0:
        return MET
    while taken < count and within < senders:
        node = graph.queue[low + taken]
        taken += 1
        for arc in range(graph.first[node], graph.last[node]):
            other, link = graph.arc_node[arc], graph.arc_link[arc]
            if graph.level[other] < 0 and is_open(
                graph.capacity[link], graph.flow[link], graph.arc_out[arc] == 0, tolerance
            ):
                graph.level[other] = graph.level[node] + 1
                graph.queue[low + count] = other
                count += 1
                if graph.need[other] > least:
                    within += 1
    return PUSHABLE if within > 0 else UNMET


def push_path(graph: Residual, root: int, end: int, depth: int, low: int) -> int:
    """Send what the path of ``depth`` arcs bears from ``root`` to ``end``; the depth of the first link it fills."""
    amount = min(graph.need[root], -graph.need[end])
    for step in range(depth):
        arc = graph.path_arc[low + step]
        link = graph.arc_link[arc]
        rest = graph.capacity[link] - graph.flow[link] if graph.arc_out[arc] else graph.flow[link]
        amount = min(amount, rest)
    keep = depth
    for step in range(depth - 1, -1, -1):
        arc = graph.path_arc[low + step]
        link = graph.arc_link[arc]
        if graph.arc_out[arc]:
            graph.flow[link] = min(graph.flow[link] + amount, graph.capacity[link])
            full = graph.flow[link] >= graph.capacity[link]
        else:
            graph.flow[link] -= amount
            full = graph.flow[link] <= 0
        if full:
            keep = step
    graph.need[root] -= amount
    graph.need[end] += amount
    return keep if keep < depth else 0


def raised_level(graph: Residual, node: int, tolerance: float, limit: int) -> int:
    """One more than the lowest level behind an open arc of the node; ``limit + 1``, out of use, where that is too
    high."""
    lowest = limit + 1
    for arc in range(graph.first[node], graph.last[node]):
        level, link = graph.level[graph.arc_node[arc]], graph.arc_link[arc]
        if 0 <= level < lowest and is_open(
            graph.capacity[link], graph.flow[link], graph.arc_out[arc] == 1, tolerance
        ):
            lowest = level
    return min(lowest + 1, limit + 1)


def drain_node(
    graph: Residual, root: int, low: int, tolerance: float, least: float, limit: int
) -> None:
    """Depth-first along falling levels: send what ``root`` still has until it has none or no way is left.

    A node without a way on is not given up: its level is raised, up to ``limit``. Levels stay lower bounds of the
    distance, so what is sent goes shortest ways still; fewer searches are needed.
    """
    depth = 0
    graph.path_node[low] = root
    while graph.need[root] > least:
        node = graph.path_node[low + depth]
        if graph.need[node] < -least:
            depth = push_path(graph, root, node, depth, low)
            continue
        arc, below = graph.cursor[node], graph.level[node] - 1
        while arc < graph.last[node]:
            link = graph.arc_link[arc]
            if (
                graph.level[graph.arc_node[arc]] == below
                and below >= 0
                and is_open(
                    graph.capacity[link], graph.flow[link], graph.arc_out[arc] == 1, tolerance
                )
            ):
                break
            arc += 1
        graph.cursor[node] = arc
        if arc < graph.last[node]:
            graph.path_arc[low + depth] = arc
            depth += 1
            graph.path_node[low + depth] = graph.arc_node[arc]
            continue
        graph.level[node], graph.cursor[node] = (
            raised_level(graph, node, tolerance, limit),
            graph.first[node],
        )
        if depth > 0:
            depth -= 1
        elif graph.level[node] > limit:
            return


def push_flow(graph: Residual, low: int, high: int, tolerance: float, least: float) -> None:
    """A blocking flow over the levels (one phase of Dinic's algorithm), which may rise as far as the highest that a
    sender has."""
    limit = 0
    for node in graph.order[low:high]:
        graph.cursor[node] = graph.first[node]
        if graph.need[node] > least:
            limit = max(limit, graph.level[node])
    for node in graph.order[low:high]:
        if graph.level[node] > 0 and graph.need[node] > least:
            drain_node(graph, node, low, tolerance, least, limit)


def label_components(graph: Residual, low: int, high: int, tolerance: float) -> int:
    """Strongly connected components of the residual graph (Tarjan, without recursion); how many there are.

    ``component`` counts from 0 in the order they are closed: open arcs lead from higher to lower numbers only.
    """
    forget_visits(graph, low, high)
    seen, excess, labels = 0, 0, 0
    for root in graph.order[low:high]:
        if graph.level[root] > 0:
            continue
        depth = 0
        graph.path_node[low] = root
        while depth >= 0:
            node = graph.path_node[low + depth]
            if graph.level[node] == 0:
                seen += 1
                graph.level[node] = graph.lowest[node] = seen
                graph.queue[low + excess] = node
                excess += 1
            arc = graph.cursor[node]
            if arc < graph.last[node]:
                graph.cursor[node] = arc + 1
                other, link = graph.arc_node[arc], graph.arc_link[arc]
                if graph.component[other] < 0 and is_open(
                    graph.capacity[link], graph.flow[link], graph.arc_out[arc] == 1, tolerance
                ):
                    if graph.level[other] == 0:
                        depth += 1
                        graph.path_node[low + depth] = other
                    else:
                        graph.lowest[node] = min(graph.lowest[node], graph.level[other])
                continue
            if graph.lowest[node] == graph.level[node]:
                excess = close_component(graph, node, low, excess, labels)
                labels += 1
            depth -= 1
            if depth >= 0:
                parent = graph.path_node[low + depth]
                graph.lowest[parent] = min(graph.lowest[parent], graph.lowest[node])
    return labels


def forget_visits(graph: Residual, low: int, high: int) -> None:
    """No node has a component or a number, every node's arcs are still to be looked at."""
    for node in graph.order[low:high]:
        graph.component[node], graph.level[node], graph.cursor[node] = -1, 0, graph.first[node]


def close_component(graph: Residual, node: int, low: int, excess: int, label: int) -> int:
    """Take the component of ``node`` off Tarjan's stack; the height left."""
    while True:
        excess -= 1
        other = graph.queue[low + excess]
        graph.component[other] = label
        if other == node:
            return excess


def list_crossing(
    graph: Residual, low: int, high: int, crossing: Numbers, full: Numbers, count: int
) -> int:
    """Append the links between components, whose load is final, saturated (``full`` 1) or empty; the new count."""
    for node in graph.order[low:high]:
        for arc in range(graph.first[node], graph.last[node]):
            if graph.arc_out[arc] and graph.component[node] != graph.component[graph.arc_node[arc]]:
                link = graph.arc_link[arc]
                crossing[count] = link
                full[count] = 1 if 2 * graph.flow[link] > graph.capacity[link] else 0
                count += 1
    return count


def push_all(graph: Residual) -> None:
    """The greatest flow in whole numbers from nodes in need to those below it, over the whole graph."""
    nodes = len(graph.order)
    while spread_levels(graph, 0, nodes, 0, 0) == PUSHABLE:
        push_flow(graph, 0, nodes, 0, 0)
