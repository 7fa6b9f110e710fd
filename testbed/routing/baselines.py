"""The routings that capillary routing is compared with: one path, equal-cost paths, disjoint paths, maximum flow.

Each sends one unit, is deterministic and exact; ties are broken by the network's order of links.
"""

from collections import deque
from fractions import Fraction

from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.flows.end_points import FlowProblem, flow_problem
from testbed.routing.flows.exact_flow import drop_circulations
from testbed.routing.flows.flow_steps import integer_residual, push_all
from testbed.routing.flows.min_cost import fewest_links_flow
from topologies.errors import NoPathError
from topologies.network import Network


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
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"disjoint paths: k {k!r} must be a whole number of at least 1")
    problem = flow_problem(network, source, sink)
    demand = [0] * problem.nodes
    demand[problem.source], demand[problem.sink] = k, -k
    flow, unmet = fewest_links_flow(problem.tail, problem.head, [1] * len(problem.links), demand)
    paths = k - unmet[problem.source]
    if paths == 0:
        raise problem.no_path()
    return problem.route(f"disjoint:{paths}", [Fraction(amount, paths) for amount in flow])


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
    flow = _greatest_flow(problem)
    drop_circulations(problem.nodes, problem.tail, problem.head, flow)
    total = sum(amount for amount, tail in zip(flow, problem.tail, strict=True) if tail == problem.source)
    if total == 0:
        raise problem.no_path()
    return problem.route("max-flow", [Fraction(amount, total) for amount in flow])


def cheapest_max_flow(network: Network, source: str, sink: str) -> SplitRoute:
    """The maximum flow that takes the fewest links in sum ("min-cost"), scaled to one unit.

    Over equal capacities: an equal split over as many disjoint paths as there are, of the least total length. Ties are
    those of ``disjoint_paths``. Greatest utilisation as that of the first capillary layer.
    """
    problem = flow_problem(network, source, sink)
    demand = [0] * problem.nodes
    demand[problem.source], demand[problem.sink] = sum(problem.weight), -sum(problem.weight)
    flow, unmet = fewest_links_flow(problem.tail, problem.head, problem.weight, demand)
    total = sum(problem.weight) - unmet[problem.source]
    if total == 0:
        raise problem.no_path()
    return problem.route("min-cost", [Fraction(amount, total) for amount in flow])


def all_disjoint_paths(network: Network, source: str, sink: str) -> SplitRoute:
    """Equal split over as many link-disjoint paths as there are (``disjoint:k`` with the greatest k that exists)."""
    return disjoint_paths(network, source, sink, max(1, len(network.links)))


def _shortest_paths(problem: FlowProblem) -> list[list[int]]:
    """For each node its usable links that lead one step nearer to the sink, in the network's order."""
    entering: list[list[int]] = [[] for _ in range(problem.nodes)]
    for link, head in enumerate(problem.head):
        entering[head].append(link)
    distance: list[int | None] = [None] * problem.nodes
    distance[problem.sink] = 0
    paths: list[list[int]] = [[] for _ in range(problem.nodes)]
    queue = deque([problem.sink])
    while queue:
        node = queue.popleft()
        here = distance[node] or 0
        for link in entering[node]:
            tail = problem.tail[link]
            if distance[tail] is None:
                distance[tail] = here + 1
                queue.append(tail)
            if distance[tail] == here + 1:
                paths[tail].append(link)
    if distance[problem.source] is None:
        raise problem.no_path()
    return [sorted(links) for links in paths]


def _greatest_flow(problem: FlowProblem) -> list[int]:
    graph = integer_residual(problem.nodes, problem.tail, problem.head, problem.weight)
    graph.need[problem.source] = sum(problem.weight)
    graph.need[problem.sink] = -graph.need[problem.source]
    push_all(graph)
    return [int(amount) for amount in graph.flow]
