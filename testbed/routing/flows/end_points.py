"""What every routing asks first: are the two ends sound, which links may carry the flow, what are they worth in
integers.

A flow leaves its source, enters its sink and passes through switches and hosts that forward; other hosts pass nothing
on.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from testbed.errors import InputError, require_type
from testbed.model.naming.names import no_node
from testbed.model.routes import Layer, SplitRoute
from topologies.errors import NoPathError
from topologies.network import Network


@dataclass(frozen=True, kw_only=True)
class FlowProblem:
    """The network as numbers. ``links[i]`` is the network's index of the i-th usable link; ``tail`` and ``head`` are
    its ends as positions in ``network.nodes``, ``weight`` its capacity as an integer in a unit common to all links;
    ``largest_weight`` is the largest of the whole network's."""

    network: Network
    source: int
    sink: int
    links: tuple[int, ...]
    tail: tuple[int, ...]
    head: tuple[int, ...]
    weight: tuple[int, ...]
    largest_weight: int

    @property
    def nodes(self) -> int:
        return len(self.network.nodes)

    def no_path(self) -> NoPathError:
        """The error to raise where the sink cannot be reached."""
        source, sink = (self.network.nodes[i].id for i in (self.source, self.sink))
        return NoPathError(
            f"network {self.network.name!r}: no path leads from {source!r} to {sink!r} "
            "(hosts do not forward unless they say forwarding: true); choose other end points or add links"
        )

    def route(
        self, method: str, shares: list[Fraction], layers: tuple[Layer, ...] = (), link_layers: tuple[int, ...] = ()
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
        require_type(node_id, str, "node", "the id of a node of the network")
        if node_id not in index:
            raise InputError(no_node(node_id, network))
    if source == sink:
        raise InputError(f"source and sink are both {source!r}; choose two different nodes")
    silent = network.silent_hosts - {source, sink}
    usable = [
        i
        for i, link in enumerate(network.links)
        if link.source not in silent and link.target not in silent and link.source != sink and link.target != source
    ]
    weights = integer_capacities(network)
    return FlowProblem(
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
    exact = {capacity: Fraction(capacity) for capacity in {link.capacity_bps for link in network.links}}
    if not exact:
        return []
    scale = math.lcm(*(value.denominator for value in exact.values()))
    whole = {capacity: int(value * scale) for capacity, value in exact.items()}
    unit = math.gcd(*whole.values())
    return [whole[link.capacity_bps] // unit for link in network.links]
