"""The steps that solve one piece of the capillary recursion, on its residual graph.

The steps are: levels (breadth-first search), augmentation (a blocking flow, Dinic 1970), a minimum
cut, and strongly connected components (Tarjan 1972).

The same functions serve two kinds of arithmetic. In plain Python the fields of the residual graph
are lists of integers, and the result is exact. Compiled by numba they are arrays of floats, and the
functions apply tolerances. Compiled code cannot afford calls and temporary objects, so some of the
functions are long.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

# Results of ``spread_levels``.
MET = 0
UNMET = 1
PUSHABLE = 2

# A list of integers or, in compiled code, an array.
Numbers = Any


class Residual(NamedTuple):
    """The residual graph of a network, shared by all pieces of a wave.

    The nodes of one piece are ``order[low]`` to ``order[high - 1]``. Node n has the arcs
    ``first[n]`` to ``last[n] - 1``. Each link is two arcs: one along it, one against it.

    Attributes:
        order: The nodes, those of one piece next to each other.
        first: Index of the first arc of each node.
        last: Index after the last arc of each node.
        arc_link: Link of each arc.
        arc_node: Node to which each arc leads.
        arc_out: 1 if the arc leads along its link, 0 if it leads against it.
        weight: Capacity of each link; 0 once the load of the link is final.
        capacity: ``weight`` times the load that is being tried.
        flow: Flow on each link.
        demand: Amount that each node sends (positive) or receives (negative).
        need: Amount that each node must still send (positive) or receive (negative).
        component: Number of each node's component.
        level: Distance of each node to a receiver; the visiting order in Tarjan's algorithm.
        lowest: Lowest visiting order that is reachable from each node (Tarjan's low link).
        cursor: Arc of each node that is tried next.
        queue: Queue of the breadth-first search, and stack of Tarjan's algorithm.
        path_arc: Arcs of the current path.
        path_node: Nodes of the current path.
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
    """Return a residual graph in which all fields are zeros.

    Args:
        nodes: Number of nodes.
        links: Number of links.
        number: Returns the given number of integer zeros.
        amount: Returns the given number of zeros of the type of the flow.
        index: Returns the given number of zeros for fields that are indices and never negative;
            ``number`` by default.
    """
    index = index or number
    return Residual(
        order=index(nodes),
        first=index(nodes),
        last=index(nodes),
        arc_link=index(2 * links),
        arc_node=index(2 * links),
        arc_out=number(2 * links),
        weight=amount(links),
        capacity=amount(links),
        flow=amount(links),
        demand=amount(nodes),
        need=amount(nodes),
        component=number(nodes),
        level=number(nodes),
        lowest=number(nodes),
        cursor=index(nodes),
        queue=index(nodes),
        path_arc=index(nodes),
        path_node=index(nodes + 1),
    )


def integer_residual(nodes: int, tail: Numbers, head: Numbers, capacity: Numbers) -> Residual:
    """Return the residual graph of links without flow, in Python integers.

    Args:
        nodes: Number of nodes.
        tail: Node from which each link leads.
        head: Node to which each link leads.
        capacity: Capacity of each link.
    """
    graph = build_residual(nodes, len(tail), integer_zeros, integer_zeros)
    graph.order[:] = range(nodes)
    graph.capacity[:] = capacity
    index_arcs(graph, tail, head)
    return graph


def integer_zeros(count: int) -> list[int]:
    """Return zeros as Python integers, which never overflow."""
    return [0] * count


def index_arcs(graph: Residual, tail: Numbers, head: Numbers) -> None:
    """Fill in the arcs of all nodes; each node has its arcs in the order of the links.

    Args:
        graph: A residual graph whose ``first``, ``last`` and ``cursor`` are zeros.
        tail: Node from which each link leads.
        head: Node to which each link leads.
    """
    for link in range(len(tail)):
        graph.cursor[tail[link]] += 1
        graph.cursor[head[link]] += 1
    position = 0
    for node in range(len(graph.first)):
        graph.first[node] = position
        graph.last[node] = position
        position += graph.cursor[node]
    for link in range(len(tail)):
        add_arc(graph, tail[link], head[link], link, 1)
        add_arc(graph, head[link], tail[link], link, 0)


def add_arc(graph: Residual, node: int, other: int, link: int, outward: int) -> None:
    """Append an arc to a node.

    Args:
        graph: The residual graph.
        node: Node from which the arc leads.
        other: Node to which the arc leads.
        link: Link of the arc.
        outward: 1 if the arc leads along the link, 0 if it leads against it.
    """
    position = graph.last[node]
    graph.arc_link[position] = link
    graph.arc_node[position] = other
    graph.arc_out[position] = outward
    graph.last[node] = position + 1


def drop_final_arcs(graph: Residual, low: int, high: int) -> None:
    """Remove the arcs of links whose load is final; the other arcs keep their order."""
    for node in graph.order[low:high]:
        end = graph.first[node]
        for arc in range(graph.first[node], graph.last[node]):
            link = graph.arc_link[arc]
            if graph.weight[link] > 0:
                graph.arc_link[end] = link
                graph.arc_node[end] = graph.arc_node[arc]
                graph.arc_out[end] = graph.arc_out[arc]
                end += 1
        graph.last[node] = end


def is_open(capacity: float, flow: float, along: bool, tolerance: float) -> bool:
    """Return whether more flow can be sent along a link, or returned against it.

    The parameters are numbers instead of the graph and an arc, because a compiled call with the
    graph would pass all of its arrays.

    Args:
        capacity: Capacity of the link.
        flow: Flow on the link.
        along: Whether flow is sent along the link; otherwise it is returned.
        tolerance: Fraction of the capacity that does not count as room.
    """
    return (capacity - flow if along else flow) > tolerance * capacity


def first_share(graph: Residual, low: int, high: int) -> tuple[Any, Any]:
    """Return the demand and the total weight of the node whose links must be loaded most.

    Demand over weight is a lower bound of the piece's load, where Dinkelbach's iteration begins.
    """
    best_demand = 0 * graph.demand[graph.order[low]]
    best_weight = best_demand + 1
    for node in graph.order[low:high]:
        demand = abs(graph.demand[node])
        if demand == 0:
            continue
        outward = graph.demand[node] > 0
        weight = 0 * demand
        for arc in range(graph.first[node], graph.last[node]):
            if (graph.arc_out[arc] == 1) == outward:
                weight += graph.weight[graph.arc_link[arc]]
        # demand / weight > best_demand / best_weight, without a division.
        if demand * best_weight > best_demand * weight:
            best_demand = demand
            best_weight = weight
    return best_demand, best_weight


def cut_share(graph: Residual, low: int, high: int) -> tuple[Any, Any]:
    """Return the demand behind the minimum cut, and the weight of the links that cross it.

    The cut is around the nodes that ``spread_levels`` did not reach. Demand over weight is a lower
    bound of the piece's load.
    """
    demand = 0 * graph.demand[graph.order[low]]
    weight = 0 * graph.demand[graph.order[low]]
    for node in graph.order[low:high]:
        if graph.level[node] >= 0:
            continue
        demand += graph.demand[node]
        for arc in range(graph.first[node], graph.last[node]):
            if graph.arc_out[arc] and graph.level[graph.arc_node[arc]] >= 0:
                weight += graph.weight[graph.arc_link[arc]]
    return demand, weight


def spread_levels(graph: Residual, low: int, high: int, tolerance: float, negligible: float) -> int:
    """Set the level of each node: its distance over open arcs to the nearest receiver.

    Nodes that cannot reach a receiver get level -1. The search ends as soon as it has reached all
    senders.

    Args:
        graph: The residual graph.
        low: Start of the piece's nodes in ``order``.
        high: End of the piece's nodes in ``order``.
        tolerance: Fraction of a capacity that does not count as room.
        negligible: Needs up to this value count as met.

    Returns:
        MET if no node has anything left to send, PUSHABLE if a sender can reach a receiver, and
        UNMET otherwise.
    """
    queued = 0
    visited = 0
    senders = 0
    senders_reached = 0
    for node in graph.order[low:high]:
        graph.level[node] = -1
        if graph.need[node] > negligible:
            senders += 1
        elif graph.need[node] < -negligible:
            graph.level[node] = 0
            graph.queue[low + queued] = node
            queued += 1
    if senders == 0:
        return MET
    while visited < queued and senders_reached < senders:
        node = graph.queue[low + visited]
        visited += 1
        for arc in range(graph.first[node], graph.last[node]):
            other = graph.arc_node[arc]
            link = graph.arc_link[arc]
            # The search runs against the direction of the flow.
            if graph.level[other] < 0 and is_open(
                graph.capacity[link], graph.flow[link], graph.arc_out[arc] == 0, tolerance
            ):
                graph.level[other] = graph.level[node] + 1
                graph.queue[low + queued] = other
                queued += 1
                if graph.need[other] > negligible:
                    senders_reached += 1
    return PUSHABLE if senders_reached > 0 else UNMET


def push_path(graph: Residual, root: int, end: int, depth: int, low: int) -> int:
    """Send as much as possible over the current path.

    Args:
        graph: The residual graph, whose ``path_arc`` has the path from index ``low`` on.
        root: The sender, where the path begins.
        end: The receiver, where the path ends.
        depth: Number of arcs of the path.
        low: Start of the piece's nodes in ``order``.

    Returns:
        Number of arcs before the first one that is now full, so that the search can continue
        there; 0 if no arc is full.
    """
    amount = min(graph.need[root], -graph.need[end])
    for step in range(depth):
        arc = graph.path_arc[low + step]
        link = graph.arc_link[arc]
        if graph.arc_out[arc]:
            room = graph.capacity[link] - graph.flow[link]
        else:
            room = graph.flow[link]
        amount = min(amount, room)
    open_depth = depth
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
            open_depth = step
    graph.need[root] -= amount
    graph.need[end] += amount
    return open_depth if open_depth < depth else 0


def raised_level(graph: Residual, node: int, tolerance: float, limit: int) -> int:
    """Return one more than the lowest level that an open arc of the node leads to.

    The result is at most ``limit + 1``, which takes the node out of the search.
    """
    lowest = limit + 1
    for arc in range(graph.first[node], graph.last[node]):
        level = graph.level[graph.arc_node[arc]]
        link = graph.arc_link[arc]
        if 0 <= level < lowest and is_open(
            graph.capacity[link], graph.flow[link], graph.arc_out[arc] == 1, tolerance
        ):
            lowest = level
    return min(lowest + 1, limit + 1)


def drain_node(
    graph: Residual, root: int, low: int, tolerance: float, negligible: float, limit: int
) -> None:
    """Send what a node still has, until nothing is left or no path leads to a receiver.

    The search is depth first along falling levels. A node from which no path continues is not
    abandoned: its level is raised, up to the limit. Levels remain lower bounds of the distance, so
    the flow still takes shortest paths, and fewer breadth-first searches are needed.

    Args:
        graph: The residual graph.
        root: The node that sends.
        low: Start of the piece's nodes in ``order``.
        tolerance: Fraction of a capacity that does not count as room.
        negligible: Needs up to this value count as met.
        limit: Highest level that a node may have.
    """
    depth = 0
    graph.path_node[low] = root
    while graph.need[root] > negligible:
        node = graph.path_node[low + depth]
        if graph.need[node] < -negligible:
            depth = push_path(graph, root, node, depth, low)
            continue
        arc = graph.cursor[node]
        next_level = graph.level[node] - 1
        while arc < graph.last[node]:
            link = graph.arc_link[arc]
            if (
                graph.level[graph.arc_node[arc]] == next_level
                and next_level >= 0
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
        graph.level[node] = raised_level(graph, node, tolerance, limit)
        graph.cursor[node] = graph.first[node]
        if depth > 0:
            depth -= 1
        elif graph.level[node] > limit:
            return


def push_flow(graph: Residual, low: int, high: int, tolerance: float, negligible: float) -> None:
    """Add a blocking flow over the levels: one phase of Dinic's algorithm.

    Levels may rise to the highest level of any sender.

    Args:
        graph: The residual graph, after ``spread_levels``.
        low: Start of the piece's nodes in ``order``.
        high: End of the piece's nodes in ``order``.
        tolerance: Fraction of a capacity that does not count as room.
        negligible: Needs up to this value count as met.
    """
    limit = 0
    for node in graph.order[low:high]:
        graph.cursor[node] = graph.first[node]
        if graph.need[node] > negligible:
            limit = max(limit, graph.level[node])
    for node in graph.order[low:high]:
        if graph.level[node] > 0 and graph.need[node] > negligible:
            drain_node(graph, node, low, tolerance, negligible, limit)


def label_components(graph: Residual, low: int, high: int, tolerance: float) -> int:
    """Find the strongly connected components of the residual graph, and return their number.

    This is Tarjan's algorithm with an explicit stack instead of recursion. Components are numbered
    from 0 in the order in which they are closed, so open arcs between components always lead to the
    lower number.
    """
    forget_visits(graph, low, high)
    visits = 0
    stack_height = 0
    components = 0
    for root in graph.order[low:high]:
        if graph.level[root] > 0:
            continue
        depth = 0
        graph.path_node[low] = root
        while depth >= 0:
            node = graph.path_node[low + depth]
            if graph.level[node] == 0:
                visits += 1
                graph.level[node] = visits
                graph.lowest[node] = visits
                graph.queue[low + stack_height] = node
                stack_height += 1
            arc = graph.cursor[node]
            if arc < graph.last[node]:
                graph.cursor[node] = arc + 1
                other = graph.arc_node[arc]
                link = graph.arc_link[arc]
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
                stack_height = close_component(graph, node, low, stack_height, components)
                components += 1
            depth -= 1
            if depth >= 0:
                parent = graph.path_node[low + depth]
                graph.lowest[parent] = min(graph.lowest[parent], graph.lowest[node])
    return components


def forget_visits(graph: Residual, low: int, high: int) -> None:
    """Reset the components, visiting orders and cursors of a piece's nodes."""
    for node in graph.order[low:high]:
        graph.component[node] = -1
        graph.level[node] = 0
        graph.cursor[node] = graph.first[node]


def close_component(graph: Residual, node: int, low: int, stack_height: int, label: int) -> int:
    """Remove the component of a node from Tarjan's stack, and return the new height."""
    while True:
        stack_height -= 1
        other = graph.queue[low + stack_height]
        graph.component[other] = label
        if other == node:
            return stack_height


def list_crossing(
    graph: Residual, low: int, high: int, crossing: Numbers, full: Numbers, count: int
) -> int:
    """Append the links between components, whose load is now final.

    Args:
        graph: The residual graph, after ``label_components``.
        low: Start of the piece's nodes in ``order``.
        high: End of the piece's nodes in ``order``.
        crossing: Receives the links from index ``count`` on.
        full: Receives 1 for each link that is saturated, 0 for each that is empty.
        count: Number of links that are in ``crossing`` already.

    Returns:
        The new number of links.
    """
    for node in graph.order[low:high]:
        for arc in range(graph.first[node], graph.last[node]):
            if graph.arc_out[arc] and graph.component[node] != graph.component[graph.arc_node[arc]]:
                link = graph.arc_link[arc]
                crossing[count] = link
                # The flow is 0 or the capacity, but for rounding.
                full[count] = 1 if 2 * graph.flow[link] > graph.capacity[link] else 0
                count += 1
    return count


def push_all(graph: Residual) -> None:
    """Send a maximum flow in integers from the senders to the receivers of the whole graph."""
    nodes = len(graph.order)
    while spread_levels(graph, 0, nodes, 0, 0) == PUSHABLE:
        push_flow(graph, 0, nodes, 0, 0)
