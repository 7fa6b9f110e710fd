"""What every routing asks first: are the two ends sound, which links may carry the flow, what are they worth in
integers.

A flow leaves its source, enters its sink and passes through switches and hosts that forward; other hosts pass nothing
on. Floats that nearly conserve a flow, as a solver finds them, become an exact one (``exact_route``): each node hands
on exactly what it takes in, in the proportions of the floats, after circulations are taken out.
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


@dataclass(frozen=True, kw_only=True)
class LinkArrays:
    """A network as numbers: ends of each link, and its capacity as an integer in a unit common to all."""

    nodes: int
    tail: Sequence[int]
    head: Sequence[int]
    weight: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class FlowProblem(LinkArrays):
    """The usable links of a network: ``links[i]`` is the network's index of the i-th, ``tail`` and ``head`` are its
    ends as positions in ``network.nodes``; ``largest_weight`` is the largest of the whole network's."""

    network: Network
    source: int
    sink: int
    links: tuple[int, ...]
    largest_weight: int

    def demand(self, amount: int = 1) -> list[int]:
        """What each node sends (positive) or receives of so much from the source to the sink."""
        found = [0] * self.nodes
        found[self.source], found[self.sink] = amount, -amount
        return found

    def no_path(self) -> NoPathError:
        """The error to raise where the sink cannot be reached."""
        source, sink = (self.network.nodes[i].id for i in (self.source, self.sink))
        return NoPathError(
            f"network {self.network.name!r}: no path leads from {source!r} to {sink!r} "
            "(hosts do not forward unless they say forwarding: true); choose other end points or add links"
        )

    def route(
        self,
        method: str,
        shares: list[Fraction],
        layers: tuple[Layer, ...] = (),
        link_layers: tuple[int, ...] = (),
    ) -> SplitRoute:
        """The split route in which the i-th usable link carries ``shares[i]``."""
        loads = [Fraction(0)] * len(self.network.links)
        for link, share in zip(self.links, shares, strict=True):
            loads[link] = share
        source, sink = (self.network.nodes[i].id for i in (self.source, self.sink))
        return SplitRoute(
            network=self.network,
            source=source,
            sink=sink,
            method=method,
            loads=tuple(loads),
            layers=layers,
            link_layers=link_layers,
        )


def flow_problem(network: Network, source: str, sink: str) -> FlowProblem:
    """The problem of sending one unit from ``source`` to ``sink``.

    Raises InputError for a node that is not in the network and for a source that is the sink, UsageError for what is no
    network or no id.
    """
    require_type(network, Network, "network", "a Network; load_network makes one of a name")
    index = network.node_index
    for node_id in (source, sink):
        require_type(node_id, str, "node", "the id of a node, which is text")
        if node_id not in index:
            raise InputError(no_node(node_id, network))
    if source == sink:
        raise InputError(f"source and sink are both {source!r}; choose two different nodes")
    silent = network.silent_hosts - {source, sink}
    usable = [
        i
        for i, link in enumerate(network.links)
        if link.source not in silent
        and link.target not in silent
        and link.source != sink
        and link.target != source
    ]
    weights = integer_capacities(network)
    return FlowProblem(
        nodes=len(network.nodes),
        network=network,
        source=index[source],
        sink=index[sink],
        links=tuple(usable),
        tail=tuple(index[network.links[i].source] for i in usable),
        head=tuple(index[network.links[i].target] for i in usable),
        weight=tuple(weights[i] for i in usable),
        largest_weight=max(weights, default=1),
    )


def integer_capacities(network: Network) -> list[int]:
    """The links' capacities as exact integers without a common factor: all 1 where they are equal."""
    exact = {
        capacity: Fraction(capacity) for capacity in {link.capacity_bps for link in network.links}
    }
    if not exact:
        return []
    scale = math.lcm(*(value.denominator for value in exact.values()))
    whole = {capacity: int(value * scale) for capacity, value in exact.items()}
    unit = math.gcd(*whole.values())
    return [whole[link.capacity_bps] // unit for link in network.links]


N = TypeVar("N", int, float, Fraction)


def drop_circulations(nodes: int, tail: Sequence[int], head: Sequence[int], flow: list[N]) -> None:
    """Take circulations out of the flow (numbers of any kind, one a link; changed in place), link by link.

    Walk along loaded links; where the walk meets itself, take the least load off that circle and start again."""
    leaving: list[list[int]] = [[] for _ in range(nodes)]
    for link, node in enumerate(tail):
        leaving[node].append(link)
    clear: set[int] = set()  # nodes from which no circle can be reached
    for start in range(nodes):
        walk: list[int] = []
        place = {start: 0}
        node = start
        while node not in clear:
            onward = [i for i in leaving[node] if flow[i] and head[i] not in clear]
            if not onward:
                clear.add(node)
                del place[node]
                node = tail[walk.pop()] if walk else node
                continue
            walk.append(onward[0])
            node = head[onward[0]]
            if node in place:
                circle = walk[place[node] :]
                least = min(flow[i] for i in circle)
                for i in circle:
                    flow[i] -= least
                walk, place, node = [], {start: 0}, start
            else:
                place[node] = len(walk)


SCALE = 1 << 120
"""Loads are whole multiples of 1/SCALE: smaller shares than any solver tells apart."""


def exact_route(
    problem: FlowProblem, method: str, flow: Sequence[float], least: float = 1e-12
) -> SplitRoute:
    """The split route near ``flow`` (one number a usable link, of one unit); loads below ``least`` count as none.

    Circulations are taken out. Cost: linear in the links. Raises NoPathError where the flow leads nowhere, and
    InputError where it ends at a node from which nothing goes on (it was no flow).
    """
    amounts = [float(x) if x > least else 0.0 for x in flow]
    drop_circulations(problem.nodes, problem.tail, problem.head, amounts)
    leaving: list[list[int]] = [[] for _ in range(problem.nodes)]
    waiting = [0] * problem.nodes
    for link, amount in enumerate(amounts):
        if amount > 0:
            leaving[problem.tail[link]].append(link)
            waiting[problem.head[link]] += 1
    if not leaving[problem.source]:
        raise problem.no_path()
    excess = [0] * problem.nodes
    excess[problem.source] = SCALE
    whole = [0] * len(amounts)
    ready = [node for node in range(problem.nodes) if not waiting[node]]
    while ready:
        node = ready.pop()
        if excess[node] and node != problem.sink:
            _hand_on(problem, node, excess, whole, [(i, amounts[i]) for i in leaving[node]])
        for link in leaving[node]:
            head = problem.head[link]
            waiting[head] -= 1
            if not waiting[head]:
                ready.append(head)
    return problem.route(method, [Fraction(amount, SCALE) for amount in whole])


def _hand_on(
    problem: FlowProblem,
    node: int,
    excess: list[int],
    whole: list[int],
    shares: Sequence[tuple[int, float]],
) -> None:
    if not shares:
        name = problem.network.nodes[node].id
        raise InputError(
            f"network {problem.network.name!r}: the flow found ends at {name!r}; this is a solver's error"
        )
    weights = [amount.as_integer_ratio() for _, amount in shares]
    common = max(denominator for _, denominator in weights)  # powers of two
    numerators = [n * (common // d) for n, d in weights]
    total, rest = sum(numerators), excess[node]
    for (link, _), numerator in zip(shares[1:], numerators[1:], strict=True):
        whole[link] = excess[node] * numerator // total
        rest -= whole[link]
    whole[shares[0][0]] = rest
    for link, _ in shares:
        excess[problem.head[link]] += whole[link]
