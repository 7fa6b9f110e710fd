"""The routings that capillary routing is compared with.

They are the single path, equal-cost paths, disjoint paths and the maximum flow. Each sends one
unit, is deterministic and computes exactly. Ties are broken by the network's order of links.
"""

from collections.abc import Sequence
from fractions import Fraction

from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.flows.end_points import FlowProblem, drop_circulations, flow_problem
from testbed.routing.flows.flow_steps import integer_residual, push_all
from testbed.routing.flows.min_cost import fewest_links_flow
from topologies import Network, NoPathError
from topologies.errors import python_number
from topologies.routing_tables import distances_to


def single_path(network: Network, source: str, sink: str) -> SplitRoute:
    """Return a path with the fewest links.

    Of equally short paths, it takes the one with the earliest link at each node.

    Raises:
        InputError: A node is unknown, or source and sink are the same node. All routings of this
            module raise this.
        NoPathError: The sink cannot be reached. All routings of this module raise this.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> [int(load) for load in single_path(square, "a", "d").loads]
    [1, 0, 1, 0]
    """
    problem = flow_problem(network, source, sink)
    next_links = _next_links(problem)
    shares = [Fraction(0)] * len(problem.links)
    node = problem.source
    while node != problem.sink:
        link = next_links[node][0]
        shares[link] = Fraction(1)
        node = problem.head[link]
    return problem.route("single", shares)


def ecmp(network: Network, source: str, sink: str) -> SplitRoute:
    """Return the equal-cost multi-path route.

    Every node splits its flow equally over its links on shortest paths (by number of links).
    """
    problem = flow_problem(network, source, sink)
    next_links = _next_links(problem)
    shares = [Fraction(0)] * len(problem.links)
    # Amounts that arrive at the nodes at one distance from the sink.
    arriving = {problem.source: Fraction(1)}
    while arriving.keys() != {problem.sink}:
        arriving_next: dict[int, Fraction] = {}
        for node, amount in arriving.items():
            for link in next_links[node]:
                shares[link] = amount / len(next_links[node])
                head = problem.head[link]
                arriving_next[head] = arriving_next.get(head, Fraction(0)) + shares[link]
        arriving = arriving_next
    return problem.route("ecmp", shares)


def disjoint_paths(network: Network, source: str, sink: str, k: int) -> SplitRoute:
    """Return an equal split over paths without a common link, with the fewest links in total.

    Parallel links count as different links.

    Args:
        network: The network.
        source: Id of the source.
        sink: Id of the sink.
        k: Number of paths. If fewer exist, the route uses all of them, and its ``method`` has
            their number, such as "disjoint:3".

    Raises:
        InputError: ``k`` is below 1, or as for ``single_path``.
        NoPathError: The sink cannot be reached.
    """
    k = python_number(k)
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"disjoint paths: k {k!r} must be a whole number of at least 1")
    problem = flow_problem(network, source, sink)
    return _fewest_links(problem, "disjoint:{}", [1] * len(problem.links), k)


def are_disjoint(network: Network, source: str, sink: str, k: int) -> bool:
    """Return whether ``k`` paths without a common link lead from source to sink."""
    try:
        return disjoint_paths(network, source, sink, k).method == f"disjoint:{k}"
    except NoPathError:
        return False


def max_flow(network: Network, source: str, sink: str) -> SplitRoute:
    """Return the maximum flow within the capacities, scaled to one unit, without circulations.

    Its greatest utilisation equals the load of the first capillary layer. A network has many
    maximum flows; Dinic's algorithm and the order of the links decide which one this is. It does
    not use the fewest links.
    """
    problem = flow_problem(network, source, sink)
    graph = integer_residual(problem.nodes, problem.tail, problem.head, problem.weight)
    graph.need[:] = problem.demand(sum(problem.weight))
    push_all(graph)
    drop_circulations(problem.nodes, problem.tail, problem.head, graph.flow)
    return _scaled_to_one_unit(problem, "max-flow", graph.flow)


def cheapest_max_flow(network: Network, source: str, sink: str) -> SplitRoute:
    """Return the maximum flow with the fewest links in total ("min-cost"), scaled to one unit.

    If all capacities are equal, this is an equal split over as many disjoint paths as exist, with
    the smallest total length. Ties are broken as in ``disjoint_paths``. Its greatest utilisation
    equals the load of the first capillary layer.
    """
    problem = flow_problem(network, source, sink)
    return _fewest_links(problem, "min-cost", problem.weight, sum(problem.weight))


def all_disjoint_paths(network: Network, source: str, sink: str) -> SplitRoute:
    """Return an equal split over as many link-disjoint paths as exist."""
    return disjoint_paths(network, source, sink, max(1, len(network.links)))


def _fewest_links(
    problem: FlowProblem, method: str, capacity: Sequence[int], limit: int
) -> SplitRoute:
    """Return a maximum flow over as few links as possible, scaled to one unit.

    Args:
        problem: The flow problem.
        method: Name of the method; ``{}`` in it becomes the amount of the flow.
        capacity: Capacity of each usable link.
        limit: Largest amount that is sent.
    """
    flow, _ = fewest_links_flow(problem.tail, problem.head, capacity, problem.demand(limit))
    return _scaled_to_one_unit(problem, method, flow)


def _scaled_to_one_unit(problem: FlowProblem, method: str, flow: Sequence[int]) -> SplitRoute:
    """Return the route of a flow, scaled to one unit.

    Args:
        problem: The flow problem.
        method: Name of the method; ``{}`` in it becomes the amount of the flow.
        flow: Flow on each usable link.

    Raises:
        NoPathError: The flow is zero.
    """
    total = 0
    for amount, tail in zip(flow, problem.tail, strict=True):
        if tail == problem.source:
            total += amount
    if total == 0:
        raise problem.no_path()
    return problem.route(method.format(total), [Fraction(amount, total) for amount in flow])


def _next_links(problem: FlowProblem) -> dict[int, list[int]]:
    """Return for each node its usable links that lead one step nearer to the sink.

    Raises:
        NoPathError: The sink cannot be reached.
    """
    nodes = problem.network.nodes
    distance = distances_to(problem.network, nodes[problem.sink].id)
    if nodes[problem.source].id not in distance:
        raise problem.no_path()
    next_links: dict[int, list[int]] = {}
    for link, (tail, head) in enumerate(zip(problem.tail, problem.head, strict=True)):
        head_distance = distance.get(nodes[head].id)
        if head_distance is None:
            continue
        if distance.get(nodes[tail].id) == head_distance + 1:
            next_links.setdefault(tail, []).append(link)
    return next_links
