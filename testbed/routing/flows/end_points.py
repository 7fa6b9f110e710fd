"""The flow problem of one source and one sink, and exact flows from a solver's floats.

A flow leaves its source and enters its sink. In between it passes through switches, and through
hosts that forward; all other hosts are end points only. ``flow_problem`` checks the two ends,
selects the links that the flow may use, and turns the capacities into integers.

``exact_route`` turns floats that nearly conserve a flow, such as the result of a solver, into exact
fractions: after circulations are removed, each node forwards exactly what it receives, in the
proportions of the floats.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from testbed.errors import InputError, require_type
from testbed.model.naming.names import no_node
from testbed.model.routes import Layer, SplitRoute
from topologies import Network, NoPathError

N = TypeVar("N", int, float, Fraction)

# The loads of ``exact_route`` are multiples of 1 / SCALE. No solver can distinguish smaller shares.
SCALE = 1 << 120


@dataclass(frozen=True, kw_only=True)
class LinkArrays:
    """A directed graph as arrays of integers.

    Attributes:
        nodes: Number of nodes; nodes are numbered from 0.
        tail: Node from which each link leads.
        head: Node to which each link leads.
        weight: Capacity of each link as an integer, in a unit common to all links.
    """

    nodes: int
    tail: Sequence[int]
    head: Sequence[int]
    weight: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class FlowProblem(LinkArrays):
    """The links of a network that a flow from one node to another may use.

    The arrays ``tail``, ``head`` and ``weight`` list the usable links only. Nodes are positions in
    ``network.nodes``.

    Attributes:
        network: The network.
        source: Position of the source.
        sink: Position of the sink.
        links: Index in ``network.links`` of each usable link.
        largest_weight: Largest weight of all links of the network, usable or not.
    """

    network: Network
    source: int
    sink: int
    links: tuple[int, ...]
    largest_weight: int

    def demand(self, amount: int = 1) -> list[int]:
        """Return what each node sends (positive) or receives (negative) of the flow's amount."""
        demand = [0] * self.nodes
        demand[self.source] = amount
        demand[self.sink] = -amount
        return demand

    def no_path(self) -> NoPathError:
        """Return the error to raise if the sink cannot be reached."""
        source = self.network.nodes[self.source].id
        sink = self.network.nodes[self.sink].id
        return NoPathError(
            f"network {self.network.name!r}: no path leads from {source!r} to {sink!r} "
            "(hosts do not forward unless they say forwarding: true); choose other end points or "
            "add links"
        )

    def route(
        self,
        method: str,
        shares: list[Fraction],
        layers: tuple[Layer, ...] = (),
        link_layers: tuple[int, ...] = (),
    ) -> SplitRoute:
        """Return the split route that gives each usable link its share of the flow.

        Args:
            method: Name of the routing method.
            shares: Share of each usable link, 0 to 1. All other links carry nothing.
            layers: The layers of a capillary route.
            link_layers: Number of the layer of each link of the network, 0 for no layer.
        """
        loads = [Fraction(0)] * len(self.network.links)
        for link, share in zip(self.links, shares, strict=True):
            loads[link] = share
        return SplitRoute(
            network=self.network,
            source=self.network.nodes[self.source].id,
            sink=self.network.nodes[self.sink].id,
            method=method,
            loads=tuple(loads),
            layers=layers,
            link_layers=link_layers,
        )


def flow_problem(network: Network, source: str, sink: str) -> FlowProblem:
    """Return the problem of sending one unit from ``source`` to ``sink``.

    Raises:
        InputError: A node is not in the network, or source and sink are the same node.
        UsageError: An argument is not a network or not a node id.
    """
    require_type(network, Network, "network", "a Network; load_network makes one of a name")
    index = network.node_index
    for node_id in (source, sink):
        require_type(node_id, str, "node", "the id of a node, which is text")
        if node_id not in index:
            raise InputError(no_node(node_id, network))
    if source == sink:
        raise InputError(f"source and sink are both {source!r}; choose two different nodes")
    usable = _usable_links(network, source, sink)
    all_weights = integer_capacities(network)
    tails = []
    heads = []
    weights = []
    for i in usable:
        tails.append(index[network.links[i].source])
        heads.append(index[network.links[i].target])
        weights.append(all_weights[i])
    return FlowProblem(
        nodes=len(network.nodes),
        network=network,
        source=index[source],
        sink=index[sink],
        links=tuple(usable),
        tail=tuple(tails),
        head=tuple(heads),
        weight=tuple(weights),
        largest_weight=max(all_weights, default=1),
    )


def _usable_links(network: Network, source: str, sink: str) -> list[int]:
    """Return the indices of the links that a flow from ``source`` to ``sink`` may use."""
    silent = network.silent_hosts - {source, sink}
    usable = []
    for i, link in enumerate(network.links):
        through_silent_host = link.source in silent or link.target in silent
        leads_back = link.source == sink or link.target == source
        if not through_silent_host and not leads_back:
            usable.append(i)
    return usable


def integer_capacities(network: Network) -> list[int]:
    """Return the capacity of each link as an exact integer.

    The integers have no common factor, so equal capacities are all 1.
    """
    if not network.links:
        return []
    # Few distinct capacities occur, so each is converted once.
    exact: dict[float, Fraction] = {}
    for link in network.links:
        if link.capacity_bps not in exact:
            exact[link.capacity_bps] = Fraction(link.capacity_bps)
    scale = math.lcm(*(value.denominator for value in exact.values()))
    integers = {capacity: int(value * scale) for capacity, value in exact.items()}
    unit = math.gcd(*integers.values())
    return [integers[link.capacity_bps] // unit for link in network.links]


def drop_circulations(nodes: int, tail: Sequence[int], head: Sequence[int], flow: list[N]) -> None:
    """Remove all circulations from a flow, in place.

    A walk follows loaded links. When it meets itself, the smallest load of that cycle is subtracted
    from all links of the cycle, and the walk starts again.

    Args:
        nodes: Number of nodes.
        tail: Node from which each link leads.
        head: Node to which each link leads.
        flow: Flow on each link, in any kind of number; changed in place.
    """
    outgoing: list[list[int]] = [[] for _ in range(nodes)]
    for link, node in enumerate(tail):
        outgoing[node].append(link)
    # Nodes from which no cycle can be reached.
    acyclic: set[int] = set()
    for start in range(nodes):
        walk: list[int] = []
        # Number of links walked before each node of the walk.
        steps_before = {start: 0}
        node = start
        while node not in acyclic:
            next_link = _loaded_link(outgoing[node], head, flow, acyclic)
            if next_link is None:
                acyclic.add(node)
                del steps_before[node]
                if walk:
                    node = tail[walk.pop()]
                continue
            walk.append(next_link)
            node = head[next_link]
            if node not in steps_before:
                steps_before[node] = len(walk)
                continue
            cycle = walk[steps_before[node] :]
            smallest = min(flow[i] for i in cycle)
            for i in cycle:
                flow[i] -= smallest
            walk = []
            steps_before = {start: 0}
            node = start


def _loaded_link(
    links: Sequence[int], head: Sequence[int], flow: Sequence[N], acyclic: set[int]
) -> int | None:
    """Return the first of these links that carries flow to a node that may be on a cycle."""
    for i in links:
        if flow[i] and head[i] not in acyclic:
            return i
    return None


def exact_route(
    problem: FlowProblem, method: str, flow: Sequence[float], negligible: float = 1e-12
) -> SplitRoute:
    """Return the split route nearest to a flow in floats, with the flow conserved exactly.

    Circulations are removed. The cost is linear in the number of links.

    Args:
        problem: The flow problem.
        method: Name of the routing method.
        flow: Flow of one unit on each usable link.
        negligible: Loads up to this value count as zero.

    Raises:
        NoPathError: No flow leaves the source.
        InputError: The flow ends at a node other than the sink, so it was not a flow.
    """
    amounts = [float(amount) if amount > negligible else 0.0 for amount in flow]
    drop_circulations(problem.nodes, problem.tail, problem.head, amounts)
    outgoing: list[list[int]] = [[] for _ in range(problem.nodes)]
    # Number of loaded links into each node whose exact load is not known yet.
    unknown_inputs = [0] * problem.nodes
    for link, amount in enumerate(amounts):
        if amount > 0:
            outgoing[problem.tail[link]].append(link)
            unknown_inputs[problem.head[link]] += 1
    if not outgoing[problem.source]:
        raise problem.no_path()

    # Visit the nodes in topological order, so that a node is complete before it forwards.
    received = [0] * problem.nodes
    received[problem.source] = SCALE
    exact = [0] * len(amounts)
    ready = [node for node in range(problem.nodes) if not unknown_inputs[node]]
    while ready:
        node = ready.pop()
        if received[node] and node != problem.sink:
            shares = [(i, amounts[i]) for i in outgoing[node]]
            _forward(problem, node, received, exact, shares)
        for link in outgoing[node]:
            head = problem.head[link]
            unknown_inputs[head] -= 1
            if not unknown_inputs[head]:
                ready.append(head)
    return problem.route(method, [Fraction(amount, SCALE) for amount in exact])


def _forward(
    problem: FlowProblem,
    node: int,
    received: list[int],
    exact: list[int],
    shares: Sequence[tuple[int, float]],
) -> None:
    """Distribute what a node has received over its outgoing links.

    Args:
        problem: The flow problem.
        node: The node.
        received: Amount that each node has received, in units of 1 / SCALE; updated.
        exact: Load of each link, in units of 1 / SCALE; updated.
        shares: The loaded outgoing links, each with its amount in floats.
    """
    if not shares:
        name = problem.network.nodes[node].id
        raise InputError(
            f"network {problem.network.name!r}: the solver's flow ends at {name!r} instead of the "
            "sink; this is an error of the solver"
        )
    ratios = [amount.as_integer_ratio() for _, amount in shares]
    # The denominators of floats are powers of two, so the largest is a common one.
    common = max(denominator for _, denominator in ratios)
    numerators = [numerator * (common // denominator) for numerator, denominator in ratios]
    total = sum(numerators)
    remainder = received[node]
    for (link, _), numerator in zip(shares[1:], numerators[1:], strict=True):
        exact[link] = received[node] * numerator // total
        remainder -= exact[link]
    # The first link takes the remainder of the integer divisions.
    first_link = shares[0][0]
    exact[first_link] = remainder
    for link, _ in shares:
        received[problem.head[link]] += exact[link]
