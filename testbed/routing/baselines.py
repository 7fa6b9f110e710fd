"""The routings that capillary routing is compared with: one path, equal-cost paths, disjoint paths, maximum flow.

Each sends one unit, is deterministic and exact; ties are broken by the network's order of links.
"""

from collections.abc import Sequence
from fractions import Fraction

from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.flows.end_points import FlowProblem, drop_circulations, flow_problem
from testbed.routing.flows.flow_steps import integer_residual, push_all
from testbed.routing.flows.min_cost import fewest_links_flow
from topologies import Network, NoPathError, lists_by_key
from topologies.errors import python_number
from topologies.routing_tables import distances_to


def single_path(network: Network, source: str, sink: str) -> SplitRoute:
    """One path of the fewest links; of equally short ones the one that takes the earliest link at each node.

    Raises InputError (unknown node, source equal to sink) and NoPathError, as all routings of this module do.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> [int(load) for load in single_path(square, "a", "d").loads]
    [1, 0, 1, 0]
    """
    problem = flow_problem(network, source, sink)
    paths = _shortest_paths(problem)
    shares = [Fraction(0)] * len(problem.links)
    node = problem.source
    while node != problem.sink:
        shares[paths[node][0]] = Fraction(1)
        node = problem.head[paths[node][0]]
    return problem.route("single", shares)


def ecmp(network: Network, source: str, sink: str) -> SplitRoute:
    """Equal-cost multi-path: every node splits equally over its links on shortest paths (by number of links)."""
    problem = flow_problem(network, source, sink)
    paths = _shortest_paths(problem)
    shares = [Fraction(0)] * len(problem.links)
    arriving = {problem.source: Fraction(1)}
    while arriving.keys() != {problem.sink}:  # a wave of nodes equally far from the sink
        following: dict[int, Fraction] = {}
        for node, amount in arriving.items():
            for link in paths[node]:
                shares[link] = amount / len(paths[node])
                head = problem.head[link]
                following[head] = following.get(head, Fraction(0)) + shares[link]
        arriving = following
    return problem.route("ecmp", shares)


def disjoint_paths(network: Network, source: str, sink: str, k: int) -> SplitRoute:
    """Equal split over ``k`` paths without a common link that have the fewest links in sum.

    Where fewer exist, over as many as there are: ``method`` says how many, "disjoint:3". Parallel links are links of
    their own. Raises InputError for k below 1.
    """
    k = python_number(k)
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"disjoint paths: k {k!r} must be a whole number of at least 1")
    problem = flow_problem(network, source, sink)
    return _fewest_links(problem, "disjoint:{}", [1] * len(problem.links), k)


def are_disjoint(network: Network, source: str, sink: str, k: int) -> bool:
    """Whether ``k`` paths without a common link join the two."""
    try:
        return disjoint_paths(network, source, sink, k).method == f"disjoint:{k}"
    except NoPathError:
        return False


def max_flow(network: Network, source: str, sink: str) -> SplitRoute:
    """The maximum flow within the links' capacities, scaled to one unit; circulations are taken out.

    Its greatest utilisation is that of the first capillary layer; which of the many maximum flows it is depends on the
    order of the links (Dinic's algorithm, not the fewest links).
    """
    problem = flow_problem(network, source, sink)
    graph = integer_residual(problem.nodes, problem.tail, problem.head, problem.weight)
    graph.need[:] = problem.demand(sum(problem.weight))
    push_all(graph)
    drop_circulations(problem.nodes, problem.tail, problem.head, graph.flow)
    return _of_one_unit(problem, "max-flow", graph.flow)


def cheapest_max_flow(network: Network, source: str, sink: str) -> SplitRoute:
    """The maximum flow that takes the fewest links in sum ("min-cost"), scaled to one unit.

    Over equal capacities: an equal split over as many disjoint paths as there are, of the least total length. Ties are
    those of ``disjoint_paths``. Greatest utilisation as that of the first capillary layer.
    """
    problem = flow_problem(network, source, sink)
    return _fewest_links(problem, "min-cost", problem.weight, sum(problem.weight))


def all_disjoint_paths(network: Network, source: str, sink: str) -> SplitRoute:
    """Equal split over as many link-disjoint paths as there are (``disjoint:k`` with the greatest k that exists)."""
    return disjoint_paths(network, source, sink, max(1, len(network.links)))


def _fewest_links(
    problem: FlowProblem, method: str, capacity: Sequence[int], most: int
) -> SplitRoute:
    """As much as the capacities bear of so much, over as few links in sum as that takes, scaled to one unit."""
    flow, _ = fewest_links_flow(problem.tail, problem.head, capacity, problem.demand(most))
    return _of_one_unit(problem, method, flow)


def _of_one_unit(problem: FlowProblem, method: str, flow: Sequence[int]) -> SplitRoute:
    """A flow scaled to one unit; ``method`` may say how much it was. NoPathError where it is nothing."""
    total = sum(
        amount for amount, tail in zip(flow, problem.tail, strict=True) if tail == problem.source
    )
    if total == 0:
        raise problem.no_path()
    return problem.route(method.format(total), [Fraction(amount, total) for amount in flow])


def _shortest_paths(problem: FlowProblem) -> dict[int, list[int]]:
    """For each node its usable links that lead one step nearer to the sink, in the network's order."""
    nodes = problem.network.nodes
    left = distances_to(problem.network, nodes[problem.sink].id)
    if nodes[problem.source].id not in left:
        raise problem.no_path()
    return lists_by_key(
        (tail, link)
        for link, (tail, head) in enumerate(zip(problem.tail, problem.head, strict=True))
        if nodes[head].id in left and left.get(nodes[tail].id) == left[nodes[head].id] + 1
    )
