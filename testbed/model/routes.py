"""Split routes: the fraction of a flow from a source to a sink that each directed link carries.

Routing computes a split route. Spraying converts it to label intervals, and verdicts compare it
with measurements.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from testbed.errors import InputError
from testbed.model.naming.names import Pair, known_link
from topologies.network import LinkId, Network
from topologies.text.shown import Shown


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer of a capillary route.

    Attributes:
        load: Load of the layer's bottleneck links for one unit of flow, relative to capacity.
        factor: The factor F between this layer and the previous one (Gabrielyan 2007, eq. 19).
            The factor of the first layer is 1/load.
        bottlenecks: Ids of the bottleneck links.
    """

    load: Fraction
    factor: Fraction
    bottlenecks: tuple[LinkId, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class SplitRoute(Shown):
    """The route of one flow that may be split over several paths.

    Attributes:
        network: The network of the route.
        source: Id of the node that sends the flow.
        sink: Id of the node that receives the flow.
        method: Name of the routing method.
        loads: The exact fraction of the flow on each link, in the order of the network's links.
        layers: The layers of a capillary route, else empty.
        link_layers: For each link the number of the layer, from 1, in which it is a bottleneck, or
            0 if it is none. Empty if the route is not capillary.

    Raises:
        InputError: The flow is not conserved at a node, a load is outside [0, 1], or the number of
            loads is wrong.
    """

    network: Network
    source: str
    sink: str
    method: str
    loads: tuple[Fraction, ...]
    layers: tuple[Layer, ...] = ()
    link_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.loads) != len(self.network.links):
            raise InputError(
                f"split route: {len(self.loads)} loads for {len(self.network.links)} links; "
                "give one a link"
            )
        if self.source == self.sink:
            raise InputError(
                f"split route: source and sink are both {self.source!r}; choose two nodes"
            )
        scale, scaled_loads = self._scaled_loads()
        balance: dict[str, int] = {}
        for link, load in zip(self.network.links, scaled_loads, strict=True):
            if not 0 <= load <= scale:
                raise InputError(
                    f"split route: load {Fraction(load, scale)} of {link.label} is outside [0, 1]"
                )
            if load:
                balance[link.source] = balance.get(link.source, 0) + load
                balance[link.target] = balance.get(link.target, 0) - load
        for node, excess in balance.items():
            expected = {self.source: 1, self.sink: -1}.get(node, 0)
            if excess != expected * scale:
                raise InputError(
                    f"split route: node {node!r} sends out {Fraction(excess, scale)} "
                    f"more than it takes in; it should be {expected}"
                )

    def _scaled_loads(self) -> tuple[int, list[int]]:
        """Return a common denominator of the loads, and the loads multiplied by it.

        Adding integers is much faster than adding fractions.
        """
        # Equal loads are mostly one object, and hashing fractions is slow: identify them by id.
        distinct = {id(load): load for load in self.loads}
        scale = math.lcm(*(load.denominator for load in distinct.values()))
        scaled = {
            key: load.numerator * (scale // load.denominator) for key, load in distinct.items()
        }
        return scale, [scaled[id(load)] for load in self.loads]

    def __repr__(self) -> str:
        flow = f"{self.source!r} to {self.sink!r} of {self.network.name}, {self.method}"
        return f"SplitRoute({flow}: {len(self.loaded)} links, load at most {max(self.loads)})"

    def load(self, link: str | LinkId | Pair) -> Fraction:
        """Return the fraction of the flow on a link.

        Args:
            link: A name such as ``a->b``, a pair of nodes, or the link's id.
        """
        return self.loads[self.network.link_index[known_link(link, self.network)]]

    @property
    def loaded(self) -> tuple[int, ...]:
        """Indices of the links that carry any flow, in the network's order."""
        return tuple(i for i, load in enumerate(self.loads) if load)

    @property
    def utilisations(self) -> tuple[float, ...]:
        """Load of each link divided by its capacity, relative to the largest capacity."""
        largest = max(link.capacity_bps for link in self.network.links)
        return tuple(
            float(load) * largest / link.capacity_bps
            for load, link in zip(self.loads, self.network.links, strict=True)
        )

    def in_flow_order(self, links: Iterable[int]) -> list[tuple[str, list[int]]]:
        """Sort the nodes of these links so that each node follows all nodes that send to it.

        Args:
            links: Indices of loaded links.

        Returns:
            Each node with the indices of those of the links that leave it. The source and the sink
            are included even if no link touches them.

        Raises:
            InputError: The links form a directed cycle. Those of the built-in methods never do.
        """
        outgoing: dict[str, list[int]] = {self.source: [], self.sink: []}
        unsorted_inputs = {self.source: 0, self.sink: 0}
        for i in links:
            link = self.network.links[i]
            outgoing.setdefault(link.source, []).append(i)
            outgoing.setdefault(link.target, [])
            unsorted_inputs[link.target] = unsorted_inputs.get(link.target, 0) + 1
            unsorted_inputs.setdefault(link.source, 0)
        ready = [node for node in outgoing if not unsorted_inputs[node]]
        ready.sort(key=self.network.node_index.__getitem__)
        order = []
        # The list grows during the loop, by the nodes whose inputs have all been sorted.
        for node in ready:
            order.append((node, outgoing[node]))
            for i in outgoing[node]:
                target = self.network.links[i].target
                unsorted_inputs[target] -= 1
                if not unsorted_inputs[target]:
                    ready.append(target)
        for node, node_links in outgoing.items():
            if unsorted_inputs[node] and node_links:
                raise InputError(
                    f"split route {self.source!r} -> {self.sink!r}: its flow runs in a cycle near "
                    f"{self.network.links[node_links[0]].label}; take the cycle out first"
                )
        return order
