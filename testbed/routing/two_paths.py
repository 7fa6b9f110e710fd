"""Two paths that share as little as possible: a flow of two units of least cost, second use of anything dear."""

from testbed.routing.flows.min_cost import fewest_links_flow
from topologies.errors import NoPathError
from topologies.network import Network


def two_paths(network: Network, source: str, sink: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two paths (link indices) that share the fewest cables, of those the fewest nodes, of those the fewest links in
    sum.

    The shorter one first; the same twice where there is only one. A cable is a link and the one against it (both fail
    together); hosts other than the ends pass nothing on unless they forward. A least-cost flow of two units in which
    the first use of a cable or node is cheap and the second dear (Suurballe's problem with reuse); no optimum uses a
    cable both ways, since exchanging the paths' ends there would save it. O(nodes * links) each in practice. Raises
    NoPathError.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]
    >>> net = Network(name="trap", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...               links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> two_paths(net, "a", "d")
    ((0, 1), (2, 3))
    """
    index, count = network.node_index, len(network.nodes)
    node_again = 2 * count + 1  # more than all links of two paths
    cable_again = node_again * (count + 1)
    arcs = [
        (index[node.id], count + index[node.id], (0, node_again), -1)
        for node in network.nodes
        if node.id not in (source, sink) and node.forwards
    ]
    arcs += [
        (count + index[link.source], index[link.target], (1, 1 + cable_again), i)
        for i, link in enumerate(network.links)
        if link.target != source and link.source != sink
    ]
    uses = [(tail, head, cost, link) for tail, head, costs, link in arcs for cost in costs]
    demand = [0] * (2 * count)
    demand[count + index[source]], demand[index[sink]] = 2, -2
    tail, head, cost = ([use[k] for use in uses] for k in range(3))
    flow, unmet = fewest_links_flow(tail, head, [1] * len(uses), demand, cost)
    if any(unmet):
        raise NoPathError(f"network {network.name!r}: no path from {source!r} to {sink!r}; add links between them")
    used = [use[3] for use, amount in zip(uses, flow, strict=True) if amount and use[3] >= 0]
    first, second = sorted((_take_path(network, used, source, sink) for _ in range(2)), key=lambda p: (len(p), p))
    return first, second


def _take_path(network: Network, used: list[int], source: str, sink: str) -> tuple[int, ...]:
    """One path along the used links, which it takes out of the list."""
    path = []
    while source != sink:
        link = next(i for i in used if network.links[i].source == source)
        used.remove(link)
        path.append(link)
        source = network.links[link].target
    return tuple(path)
