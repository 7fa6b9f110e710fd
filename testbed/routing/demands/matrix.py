"""A demand matrix: how many bits a second each ordered pair of nodes sends; uniform, by gravity, or given."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from testbed.errors import InputError
from testbed.model.naming.names import no_node
from testbed.routing.demands.link_graph import LinkGraph
from topologies.network import Network

Pair = tuple[str, str]
USUAL_BPS = 1e6
"""Mean demand of a pair where nothing else is asked."""


@dataclass(frozen=True, kw_only=True)
class DemandMatrix:
    """``rates_bps[i]`` is what ``pairs[i]`` (source, sink) sends, above 0; pairs that send nothing are not listed.

    ``left_out``: pairs that were requested and that no path joins. Raises InputError for an unknown node, a pair of one
    node, a pair given twice, a rate that is no finite number above 0, and where there is no pair.
    """

    network: Network
    name: str
    pairs: tuple[Pair, ...]
    rates_bps: tuple[float, ...]
    left_out: int = 0

    def __post_init__(self) -> None:
        if not self.pairs or len(self.pairs) != len(self.rates_bps):
            raise InputError(f"demand matrix {self.name!r}: give at least one pair of nodes, and a rate for each")
        seen: set[Pair] = set()
        for pair, rate in zip(self.pairs, self.rates_bps, strict=True):
            for node in pair:
                if node not in self.network.node_index:
                    raise InputError(f"demand matrix {self.name!r}: {no_node(node, self.network)}")
            where = f"demand matrix {self.name!r}: {pair[0]} to {pair[1]}"
            if pair[0] == pair[1]:
                raise InputError(f"{where}: source and sink are one node; leave the pair out")
            if pair in seen:
                raise InputError(f"{where} is there twice; keep one")
            if not (math.isfinite(rate) and rate > 0):
                raise InputError(
                    f"{where}: rate {rate!r} must be a finite number above 0; leave out pairs that send nothing"
                )
            seen.add(pair)

    @property
    def total_bps(self) -> float:
        return math.fsum(self.rates_bps)

    @property
    def rates(self) -> NDArray[np.float64]:
        """Bits a second, shape (pairs,)."""
        return np.array(self.rates_bps)

    def scaled_to(self, total_bps: float) -> "DemandMatrix":
        """The same shares of another total."""
        if not (math.isfinite(total_bps) and total_bps > 0):
            raise InputError(f"demand matrix {self.name!r}: total {total_bps!r} bits a second; give one above 0")
        factor = total_bps / self.total_bps
        return replace(self, rates_bps=tuple(rate * factor for rate in self.rates_bps))


def uniform_matrix(network: Network, ends: Sequence[str]) -> DemandMatrix:
    """1 Mbit/s from each of the ``ends`` to each other that it can reach.

    >>> from topologies import load_network
    >>> uniform_matrix(load_network("ring:4"), ["s0", "s1", "s2"]).total_bps
    6000000.0
    """
    return _weighted(network, "uniform", ends, dict.fromkeys(ends, 1.0), dict.fromkeys(ends, 1.0))


def gravity_matrix(network: Network, ends: Sequence[str]) -> DemandMatrix:
    """The gravity model: a pair sends in proportion to the capacity out of its source times the capacity into its sink;
    1 Mbit/s on average (Roughan et al. 2003, with capacities in place of measured totals)."""
    capacity = [link.capacity_bps for link in network.links]
    out = {end: math.fsum(capacity[i] for i in network.out_links(end)) for end in ends}
    into = {end: math.fsum(capacity[i] for i in network.in_links(end)) for end in ends}
    return _weighted(network, "gravity", ends, out, into)


def given_matrix(network: Network, name: str, rates: Mapping[Pair, float]) -> DemandMatrix:
    """The matrix of these rates, bits a second; pairs of rate 0 are left out. Raises InputError as DemandMatrix
    does."""
    retained = {pair: float(rate) for pair, rate in rates.items() if rate != 0}
    return DemandMatrix(network=network, name=name, pairs=tuple(retained), rates_bps=tuple(retained.values()))


def _weighted(
    network: Network, name: str, ends: Sequence[str], out: Mapping[str, float], into: Mapping[str, float]
) -> DemandMatrix:
    hops, index = LinkGraph(network).hops(), network.node_index
    requested = [(a, b) for a in ends for b in ends if a != b]
    weights = {(a, b): out[a] * into[b] for a, b in requested if math.isfinite(hops[index[a], index[b]])}
    if not weights:
        raise InputError(f"network {network.name!r}: no two of its {len(ends)} end points can reach each other")
    unit = USUAL_BPS * len(weights) / math.fsum(weights.values())
    return DemandMatrix(
        network=network,
        name=name,
        pairs=tuple(weights),
        rates_bps=tuple(weight * unit for weight in weights.values()),
        left_out=len(requested) - len(weights),
    )
