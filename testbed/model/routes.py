"""A split route: what fraction of one unit of flow each directed link carries from a source to a sink.

The value that routing computes, spraying turns into label intervals and verdicts compare with measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from testbed.errors import InputError
from topologies.network import LinkId, Network


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One capillary layer: its load (of one unit, relative to capacity), the factor F to it from the layer before
    (Gabrielyan 2007, eq. 19; the first layer's is 1/load) and the ids of its bottleneck links."""

    load: Fraction
    factor: Fraction
    bottlenecks: tuple[LinkId, ...]


@dataclass(frozen=True, kw_only=True)
class SplitRoute:
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
            raise InputError(f"split route: source and sink are both {self.source!r}; choose two nodes")
        scale, whole = self._whole_loads()
        balance: dict[str, int] = {}
        for link, load in zip(self.network.links, whole, strict=True):
            if not 0 <= load <= scale:
                raise InputError(f"split route: load {Fraction(load, scale)} of {link.label} lies outside [0, 1]")
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
        distinct = {id(load): load for load in self.loads}  # equal loads are mostly one object; hashing them is slow
        scale = math.lcm(*(load.denominator for load in distinct.values()))
        whole = {key: load.numerator * (scale // load.denominator) for key, load in distinct.items()}
        return scale, [whole[id(load)] for load in self.loads]

    def load(self, link: LinkId) -> Fraction:
        return self.loads[self.network.link_index[link]]

    @property
    def loaded(self) -> tuple[int, ...]:
        """Indices of the links that carry any flow, in the network's order."""
        return tuple(i for i, load in enumerate(self.loads) if load)

    @property
    def utilisations(self) -> tuple[float, ...]:
        """Load over capacity relative to the largest capacity, one a link."""
        largest = max(link.capacity_bps for link in self.network.links)
        return tuple(
            float(r) * largest / link.capacity_bps for r, link in zip(self.loads, self.network.links, strict=True)
        )
