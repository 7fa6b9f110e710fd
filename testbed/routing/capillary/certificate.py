"""A certificate that loads are the capillary route: flow conservation, and no bottleneck that could be relieved.

It shares no code with the algorithm that it judges; it works for loads of any origin.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from testbed.arrays import IntArray
from testbed.errors import InputError
from topologies import Network


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """``valid`` where ``violations`` is empty; each violation is one line that names a node or a link.

    ``levels``: the distinct loads over capacity (relative to the largest capacity), highest first.
    """

    levels: tuple[Fraction, ...]
    violations: tuple[str, ...]

    @property
    def valid(self) -> bool:
        return not self.violations


def check_certificate(
    network: Network, source: str, sink: str, loads: Sequence[Fraction]
) -> Certificate:
    """Are the ``loads`` (one a link) the capillary route of one unit from ``source`` to ``sink``?

    They are if, and only if, flow is conserved and, for every level v of load over capacity, no link at level v has
    both ends in one strongly connected component of the graph of what can be changed: links below level v forward,
    links with any load backward. (Inside a component, flow could be led around the link without loading another one to
    v.) Levels are taken one a component and all components at once: as many rounds as components nest. Hosts other than
    the two ends do not forward. Raises InputError for a wrong number of loads and for nodes that are not in the
    network.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> check_certificate(square, "a", "d", [Fraction(1, 2)] * 4).valid
    True
    >>> check_certificate(square, "a", "d", [Fraction(1, 3), Fraction(2, 3)] * 2).violations
    ('link a->c: its load 2/3 can be lowered', 'link c->d: its load 2/3 can be lowered')
    """
    _check_question(network, source, sink, loads)
    violations = _unsound_loads(network, source, sink, loads) + _unbalanced_nodes(
        network, source, sink, loads
    )
    levels, ranks = _rank_levels(network, loads)
    if not violations:
        violations = [
            f"link {network.links[i].label}: its load {loads[i]} can be lowered"
            for i in _relievable(network, source, sink, ranks)
        ]
    return Certificate(levels=levels, violations=tuple(violations))


def _rank_levels(
    network: Network, loads: Sequence[Fraction]
) -> tuple[tuple[Fraction, ...], list[int]]:
    """The levels, highest first, and each link's place among them from the lowest, 1; 0 for no load."""
    reference = Fraction(max((link.capacity_bps for link in network.links), default=1))
    # Equal loads are mostly one object: one division and one comparison for each, not for each link.
    keys = [(id(load), link.capacity_bps) for load, link in zip(loads, network.links, strict=True)]
    ratio = {
        key: load * reference / Fraction(key[1])
        for key, load in dict(zip(keys, loads, strict=True)).items()
        if load > 0
    }
    levels = sorted(set(ratio.values()))
    place = {level: at for at, level in enumerate(levels, 1)}
    rank = {key: place[level] for key, level in ratio.items()}
    return tuple(reversed(levels)), [rank.get(key, 0) for key in keys]


def _check_question(network: Network, source: str, sink: str, loads: Sequence[Fraction]) -> None:
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
    """Which links leave or enter a host that is neither end? Such a host would have to forward."""
    silent = network.silent_hosts - {source, sink}
    return [link.source in silent or link.target in silent for link in network.links]


def _unsound_loads(
    network: Network, source: str, sink: str, loads: Sequence[Fraction]
) -> list[str]:
    found = []
    for link, load, barred in zip(
        network.links, loads, _barred_links(network, source, sink), strict=True
    ):
        if load.numerator < 0:
            found.append(f"link {link.label}: negative load {load}")
        elif barred and load.numerator > 0:
            found.append(f"link {link.label}: load {load} through a host, which does not forward")
    return found


def _unbalanced_nodes(
    network: Network, source: str, sink: str, loads: Sequence[Fraction]
) -> list[str]:
    scale = math.lcm(*{load.denominator for load in loads})
    balance = {node.id: 0 for node in network.nodes}  # in units of 1 / scale
    for link, load in zip(network.links, loads, strict=True):
        if load:
            amount = load.numerator * (scale // load.denominator)
            balance[link.source] += amount
            balance[link.target] -= amount
    required = {source: 1, sink: -1}
    return [
        f"node {node}: sends out {Fraction(net, scale)} more than it takes in instead of {required.get(node, 0)}"
        for node, net in balance.items()
        if net != required.get(node, 0) * scale
    ]


def _relievable(network: Network, source: str, sink: str, ranks: Sequence[int]) -> list[int]:
    """Links whose level can be lowered; ``ranks[i]`` orders the levels, 0 for no load. Int arrays of length links."""
    index, count = network.node_index, len(network.nodes)
    tail = np.array([index[link.source] for link in network.links], dtype=np.int64)
    head = np.array([index[link.target] for link in network.links], dtype=np.int64)
    rank = np.array(ranks, dtype=np.int64)
    alive = ~np.array(_barred_links(network, source, sink), dtype=bool)
    component: IntArray = np.zeros(count, dtype=np.int64)
    found: list[int] = []
    while bool(np.any(rank[alive])):
        top = np.zeros(count, dtype=np.int64)  # one a component: the highest level inside it
        np.maximum.at(top, component[tail[alive]], rank[alive])
        limit = top[component[tail]]
        forward, backward = (
            alive & (rank < limit),
            alive & (rank > 0),
        )  # can take more; can give back
        rows = np.concatenate([tail[forward], head[backward]])
        columns = np.concatenate([head[forward], tail[backward]])
        changeable = csr_array(
            (np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(count, count)
        )
        component = np.asarray(
            connected_components(changeable, directed=True, connection="strong")[1]
        )
        inside = component[tail] == component[head]
        highest = alive & (
            rank == limit
        )  # where nothing has load, no two nodes are of one component
        found += np.flatnonzero(highest & inside).tolist()
        alive &= inside & ~highest
    return sorted(found)
