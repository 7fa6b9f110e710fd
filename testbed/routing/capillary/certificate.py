"""A certificate that loads are the capillary route.

The certificate consists of flow conservation, and of the absence of a bottleneck that could be
relieved. The module shares no code with the algorithms that it judges.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from testbed.arrays import BoolArray, IntArray
from testbed.errors import InputError
from topologies import Network


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The result of a check.

    Attributes:
        levels: The distinct values of load over capacity (relative to the largest capacity), in
            descending order.
        violations: One line for each fault, which names a node or a link; empty if there is none.
    """

    levels: tuple[Fraction, ...]
    violations: tuple[str, ...]

    @property
    def valid(self) -> bool:
        """True if there is no violation."""
        return not self.violations


def check_certificate(
    network: Network, source: str, sink: str, loads: Sequence[Fraction]
) -> Certificate:
    """Check whether loads are the capillary route of one unit of flow.

    They are if, and only if, flow is conserved and, for every level v of load over capacity, no
    link at level v has both ends in one strongly connected component of the graph of possible
    changes. That graph has all links below level v in their direction, which can take more, and
    all links with any load in the opposite direction, which can give back. Inside a component, flow
    could be led around the link without raising another link to v.

    All components take their highest level at the same time, so the check needs as many rounds as
    components are nested. Hosts other than the two ends do not forward.

    Args:
        network: The network.
        source: Id of the source.
        sink: Id of the sink.
        loads: Load of each link of the network, as a share of the flow.

    Raises:
        InputError: The number of loads is wrong, or a node is not in the network.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> check_certificate(square, "a", "d", [Fraction(1, 2)] * 4).valid
    True
    >>> check_certificate(square, "a", "d", [Fraction(1, 3), Fraction(2, 3)] * 2).violations
    ('link a->c: its load 2/3 can be lowered', 'link c->d: its load 2/3 can be lowered')
    """
    _check_arguments(network, source, sink, loads)
    violations = _invalid_loads(network, source, sink, loads)
    violations += _unbalanced_nodes(network, source, sink, loads)
    levels, ranks = _rank_levels(network, loads)
    if not violations:
        violations = [
            f"link {network.links[i].label}: its load {loads[i]} can be lowered"
            for i in _relievable_links(network, source, sink, ranks)
        ]
    return Certificate(levels=levels, violations=tuple(violations))


def _check_arguments(network: Network, source: str, sink: str, loads: Sequence[Fraction]) -> None:
    """Raise InputError if the arguments do not fit together."""
    if len(loads) != len(network.links):
        raise InputError(
            f"certificate: {len(loads)} loads for {len(network.links)} links; give one a link"
        )
    for node in (source, sink):
        if node not in network.node_index:
            raise InputError(
                f"certificate: network {network.name!r} has no node {node!r}; name one that it has"
            )
    if source == sink:
        raise InputError(f"certificate: source and sink are both {source!r}; name two nodes")


def _barred_links(network: Network, source: str, sink: str) -> list[bool]:
    """Return for each link whether using it would require a host to forward."""
    silent = network.silent_hosts - {source, sink}
    return [link.source in silent or link.target in silent for link in network.links]


def _invalid_loads(
    network: Network, source: str, sink: str, loads: Sequence[Fraction]
) -> list[str]:
    """Return one line for each load that is negative or that a host would have to forward."""
    violations = []
    barred_links = _barred_links(network, source, sink)
    for link, load, barred in zip(network.links, loads, barred_links, strict=True):
        if load.numerator < 0:
            violations.append(f"link {link.label}: negative load {load}")
        elif barred and load.numerator > 0:
            violations.append(
                f"link {link.label}: load {load} through a host, which does not forward"
            )
    return violations


def _unbalanced_nodes(
    network: Network, source: str, sink: str, loads: Sequence[Fraction]
) -> list[str]:
    """Return one line for each node that does not conserve the flow."""
    scale = math.lcm(*{load.denominator for load in loads})
    # What each node sends out minus what it receives, as an integer in units of 1 / scale.
    net_output = {node.id: 0 for node in network.nodes}
    for link, load in zip(network.links, loads, strict=True):
        if load:
            amount = load.numerator * (scale // load.denominator)
            net_output[link.source] += amount
            net_output[link.target] -= amount
    required = {source: 1, sink: -1}
    violations = []
    for node, net in net_output.items():
        expected = required.get(node, 0)
        if net != expected * scale:
            violations.append(
                f"node {node}: sends out {Fraction(net, scale)} more than it takes in instead of "
                f"{expected}"
            )
    return violations


def _rank_levels(
    network: Network, loads: Sequence[Fraction]
) -> tuple[tuple[Fraction, ...], list[int]]:
    """Sort the levels of load over capacity.

    Returns:
        The levels in descending order, and for each link the rank of its level: 1 for the lowest
        level, 0 for a link without load.
    """
    reference = Fraction(max((link.capacity_bps for link in network.links), default=1))
    # Most equal loads are the same object. Dividing and comparing once for each object instead of
    # once for each link saves most of the time.
    keys = [(id(load), link.capacity_bps) for load, link in zip(loads, network.links, strict=True)]
    level_of_key = {}
    for key, load in zip(keys, loads, strict=True):
        if load > 0 and key not in level_of_key:
            level_of_key[key] = load * reference / Fraction(key[1])
    levels = sorted(set(level_of_key.values()))
    rank_of_level = {level: rank for rank, level in enumerate(levels, 1)}
    rank_of_key = {key: rank_of_level[level] for key, level in level_of_key.items()}
    return tuple(reversed(levels)), [rank_of_key.get(key, 0) for key in keys]


def _relievable_links(network: Network, source: str, sink: str, ranks: Sequence[int]) -> list[int]:
    """Return the indices of the links whose level can be lowered.

    Args:
        network: The network.
        source: Id of the source.
        sink: Id of the sink.
        ranks: Rank of each link's level, 0 for no load.
    """
    nodes = len(network.nodes)
    tail = np.zeros(len(network.links), dtype=np.int64)
    head = np.zeros(len(network.links), dtype=np.int64)
    for i, link in enumerate(network.links):
        tail[i] = network.node_index[link.source]
        head[i] = network.node_index[link.target]
    rank = np.array(ranks, dtype=np.int64)
    # Links that are inside a component and not yet decided. At first all nodes are one component.
    undecided = ~np.array(_barred_links(network, source, sink), dtype=bool)
    component: IntArray = np.zeros(nodes, dtype=np.int64)
    relievable: list[int] = []
    while bool(np.any(rank[undecided])):
        # Highest level inside each component.
        highest_rank = np.zeros(nodes, dtype=np.int64)
        np.maximum.at(highest_rank, component[tail[undecided]], rank[undecided])
        limit = highest_rank[component[tail]]
        can_take_more = undecided & (rank < limit)
        can_give_back = undecided & (rank > 0)
        component = _strong_components(nodes, tail, head, can_take_more, can_give_back)
        inside = component[tail] == component[head]
        at_limit = undecided & (rank == limit)
        # In a component without any load no arcs exist, so no two nodes of it are connected, and no
        # link of it counts as relievable.
        relievable += np.flatnonzero(at_limit & inside).tolist()
        undecided &= inside & ~at_limit
    return sorted(relievable)


def _strong_components(
    nodes: int, tail: IntArray, head: IntArray, forward: BoolArray, backward: BoolArray
) -> IntArray:
    """Return the number of each node's strongly connected component.

    Args:
        nodes: Number of nodes.
        tail: Node from which each link leads.
        head: Node to which each link leads.
        forward: Mask of the links that are arcs in their direction.
        backward: Mask of the links that are arcs in the opposite direction.
    """
    rows = np.concatenate([tail[forward], head[backward]])
    columns = np.concatenate([head[forward], tail[backward]])
    arcs = csr_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(nodes, nodes))
    _, component = connected_components(arcs, directed=True, connection="strong")
    return np.asarray(component)
