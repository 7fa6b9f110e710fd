"""A split route: what fraction of one unit of flow each directed link carries from a source to a sink.

The value that routing computes, spraying turns into label intervals and verdicts compare with measurements.
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
    """One capillary layer: its load (of one unit, relative to capacity), the factor F to it from the layer before
    (Gabrielyan 2007, eq. 19; the first layer's is 1/load) and the ids of its bottleneck links."""

    load: Fraction
    factor: Fraction
    bottlenecks: tuple[LinkId, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class SplitRoute(Shown):
    """``loads[i]`` is the exact fraction of the flow on ``network.links[i]``; flow is conserved at every node.

    ``link_layers[i]`` is the 1-based layer whose bottleneck link i is, 0 where none (not loaded, or not capillary).
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
                f"split route: {len(self.loads)} loads for {len(self.network.links)} links; give one a link"
            )
        if self.source == self.sink:
            raise InputError(
                f"split route: source and sink are both {self.source!r}; choose two nodes"
            )
        scale, whole = self._whole_loads()
        balance: dict[str, int] = {}
        for link, load in zip(self.network.links, whole, strict=True):
            if not 0 <= load <= scale:
                raise InputError(
                    f"split route: load {Fraction(load, scale)} of {link.label} is outside [0, 1]"
                )
            if load:
                balance[link.source] = balance.get(link.source, 0) + load
                balance[link.target] = balance.get(link.target, 0) - load
        for node, net in balance.items():
            want = {self.source: 1, self.sink: -1}.get(node, 0)
            if net != want * scale:
                raise InputError(
                    f"split route: node {node!r} sends out {Fraction(net, scale)} more than it takes in; "
                    f"it should be {want}"
                )

    def _whole_loads(self) -> tuple[int, list[int]]:
        """A common denominator and the loads as multiples of its inverse: adding integers is much faster."""
        distinct = {
            id(load): load for load in self.loads
        }  # equal loads are mostly one object; hashing them is slow
        scale = math.lcm(*(load.denominator for load in distinct.values()))
        whole = {
            key: load.numerator * (scale // load.denominator) for key, load in distinct.items()
        }
        return scale, [whole[id(load)] for load in self.loads]

    def __repr__(self) -> str:
        way = f"{self.source!r} to {self.sink!r} of {self.network.name}, {self.method}"
        return f"SplitRoute({way}: {len(self.loaded)} links, load at most {max(self.loads)})"

    def load(self, link: str | LinkId | Pair) -> Fraction:
        """Return the share of the flow on a link: ``a->b``, a pair of nodes, or the link's id."""
        return self.loads[self.network.link_index[known_link(link, self.network)]]

    @property
    def loaded(self) -> tuple[int, ...]:
        """Indices of the links that carry any flow, in the network's order."""
        return tuple(i for i, load in enumerate(self.loads) if load)

    @property
    def utilisations(self) -> tuple[float, ...]:
        """Load over capacity relative to the largest capacity, one a link."""
        largest = max(link.capacity_bps for link in self.network.links)
        return tuple(
            float(r) * largest / link.capacity_bps
            for r, link in zip(self.loads, self.network.links, strict=True)
        )

    def in_flow_order(self, links: Iterable[int]) -> list[tuple[str, list[int]]]:
        """Source, sink and the nodes that the ``links`` touch, each with those that leave it, after all that send to
        it.

        Raises InputError where the links, which are to be loaded ones, make a directed cycle (no routing method's do).
        """
        out: dict[str, list[int]] = {self.source: [], self.sink: []}
        waiting = {self.source: 0, self.sink: 0}
        for i in links:
            link = self.network.links[i]
            out.setdefault(link.source, []).append(i)
            out.setdefault(link.target, [])
            waiting[link.target] = waiting.get(link.target, 0) + 1
            waiting.setdefault(link.source, 0)
        ready = sorted(
            (node for node in out if not waiting[node]),
            key=lambda node: self.network.node_index[node],
        )
        order = []
        for node in ready:  # which grows meanwhile
            order.append((node, out[node]))
            for i in out[node]:
                target = self.network.links[i].target
                waiting[target] -= 1
                if not waiting[target]:
                    ready.append(target)
        if len(order) < len(out):
            stuck = next(i for node, own in out.items() if waiting[node] for i in own)
            raise InputError(
                f"split route {self.source!r} -> {self.sink!r}: its flow runs in a cycle near "
                f"{self.network.links[stuck].label}; take the cycle out first"
            )
        return order
