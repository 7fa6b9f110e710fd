"""Demand matrices, and their routings.

A demand matrix says how many bits per second each ordered pair of nodes sends. It may be uniform,
follow a gravity model, or be given. A routing has the share of each pair's flow on each link; the
loads and fair rates follow from it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.model.naming.names import no_node
from testbed.routing.demands.checker import DemandCheck, check_demands, check_promise
from testbed.routing.flows.link_graph import LinkGraph, link_capacities
from topologies import Network

Pair = tuple[str, str]

# Mean demand of a pair in uniform and gravity matrices, in bits per second.
USUAL_BPS = 1e6


@dataclass(frozen=True, kw_only=True)
class DemandMatrix:
    """The demands of a network.

    Attributes:
        network: The network.
        name: Name of the matrix, for messages.
        pairs: Source and sink of each demand. Pairs that send nothing are not listed.
        rates_bps: Bits per second of each pair, above 0.
        left_out: Number of pairs that were requested but are not connected.

    Raises:
        InputError: There is no pair, a node is unknown, a pair is listed twice or has one node
            only, or a rate is not a finite number above 0.
    """

    network: Network
    name: str
    pairs: tuple[Pair, ...]
    rates_bps: tuple[float, ...]
    left_out: int = 0

    def __post_init__(self) -> None:
        if not self.pairs or len(self.pairs) != len(self.rates_bps):
            raise InputError(
                f"demand matrix {self.name!r}: give at least one pair of nodes, and a rate for each"
            )
        checked_pairs: set[Pair] = set()
        for pair, rate in zip(self.pairs, self.rates_bps, strict=True):
            for node in pair:
                if node not in self.network.node_index:
                    raise InputError(f"demand matrix {self.name!r}: {no_node(node, self.network)}")
            where = f"demand matrix {self.name!r}: {pair[0]} to {pair[1]}"
            if pair[0] == pair[1]:
                raise InputError(f"{where}: source and sink are one node; leave the pair out")
            if pair in checked_pairs:
                raise InputError(f"{where} is there twice; keep one")
            if not (math.isfinite(rate) and rate > 0):
                raise InputError(
                    f"{where}: rate {rate!r} must be a finite number above 0; leave out pairs that "
                    "send nothing"
                )
            checked_pairs.add(pair)

    @property
    def total_bps(self) -> float:
        """Sum of all demands in bits per second."""
        return math.fsum(self.rates_bps)

    @property
    def demands(self) -> list[tuple[str, str, float]]:
        """Source, sink and bits per second of each pair, as the checkers take them."""
        return [(*pair, rate) for pair, rate in zip(self.pairs, self.rates_bps, strict=True)]

    @property
    def rates(self) -> NDArray[np.float64]:
        """Bits per second of each pair, shape (pairs,)."""
        return np.array(self.rates_bps)

    def scaled_to(self, total_bps: float) -> "DemandMatrix":
        """Return the matrix scaled to another total.

        Args:
            total_bps: The new sum of all demands in bits per second.

        Raises:
            InputError: The total is not a finite number above 0.
        """
        if not (math.isfinite(total_bps) and total_bps > 0):
            raise InputError(
                f"demand matrix {self.name!r}: total {total_bps!r} bits a second; give one above 0"
            )
        factor = total_bps / self.total_bps
        return replace(self, rates_bps=tuple(rate * factor for rate in self.rates_bps))


def uniform_matrix(network: Network, ends: Sequence[str]) -> DemandMatrix:
    """Return a demand of 1 Mbit/s from each of the nodes to each other one that it can reach.

    >>> from topologies import load_network
    >>> uniform_matrix(load_network("ring:4"), ["s0", "s1", "s2"]).total_bps
    6000000.0
    """
    equal_weights = dict.fromkeys(ends, 1.0)
    return _weighted_matrix(network, "uniform", ends, equal_weights, equal_weights)


def gravity_matrix(network: Network, ends: Sequence[str]) -> DemandMatrix:
    """Return demands by the gravity model.

    A pair's demand is proportional to the capacity out of its source times the capacity into its
    sink, with a mean of 1 Mbit/s (Roughan et al. 2003, with capacities in place of measured
    totals).
    """
    capacity = [link.capacity_bps for link in network.links]
    output = {}
    inputs = {}
    for end in ends:
        output[end] = math.fsum(capacity[i] for i in network.out_links(end))
        inputs[end] = math.fsum(capacity[i] for i in network.in_links(end))
    return _weighted_matrix(network, "gravity", ends, output, inputs)


def given_matrix(network: Network, name: str, rates: Mapping[Pair, float]) -> DemandMatrix:
    """Return the matrix of given rates.

    Args:
        network: The network.
        name: Name of the matrix, for messages.
        rates: Bits per second of each pair; pairs with rate 0 are omitted.

    Raises:
        InputError: As ``DemandMatrix``.
    """
    positive_rates = {pair: float(rate) for pair, rate in rates.items() if rate != 0}
    return DemandMatrix(
        network=network,
        name=name,
        pairs=tuple(positive_rates),
        rates_bps=tuple(positive_rates.values()),
    )


def _weighted_matrix(
    network: Network,
    name: str,
    ends: Sequence[str],
    source_weights: Mapping[str, float],
    sink_weights: Mapping[str, float],
) -> DemandMatrix:
    """Return demands in proportion to the weights of source and sink, with a mean of USUAL_BPS."""
    hops = LinkGraph(network).hops()
    index = network.node_index
    requested = 0
    weights = {}
    for source in ends:
        for sink in ends:
            if source == sink:
                continue
            requested += 1
            if math.isfinite(hops[index[source], index[sink]]):
                weights[source, sink] = source_weights[source] * sink_weights[sink]
    if not weights:
        raise InputError(
            f"network {network.name!r}: no two of its {len(ends)} end points can reach each other; "
            "choose other end points"
        )
    unit = USUAL_BPS * len(weights) / math.fsum(weights.values())
    return DemandMatrix(
        network=network,
        name=name,
        pairs=tuple(weights),
        rates_bps=tuple(weight * unit for weight in weights.values()),
        left_out=requested - len(weights),
    )


@dataclass(frozen=True, kw_only=True)
class RoutedDemands:
    """A routing of a demand matrix.

    Attributes:
        matrix: The demands.
        method: Name of the routing method.
        shares: ``shares[i, l]`` is the fraction of the flow of pair i on link l; a sparse array of
            shape (pairs, links).
        prices: Price of each link, shape (links,), if the method proves a lower bound of the
            maximum link utilisation.
        limit: Maximum link utilisation that the method promises, or None.
    """

    matrix: DemandMatrix
    method: str
    shares: csr_array = field(repr=False)
    prices: FloatArray | None = field(default=None, repr=False)
    limit: float | None = None

    @property
    def loads_bps(self) -> FloatArray:
        """Bits per second on each link, shape (links,)."""
        return np.asarray(self.shares.T @ self.matrix.rates)

    @property
    def utilisations(self) -> FloatArray:
        """Load over capacity of each link, shape (links,)."""
        return np.asarray(self.loads_bps / link_capacities(self.matrix.network))

    @property
    def greatest_utilisation(self) -> float:
        """Maximum link utilisation; above 1 the demands do not fit into the network."""
        return float(self.utilisations.max())

    def pair_shares(self, pair: int) -> FloatArray:
        """Return the shares of one pair, shape (links,)."""
        return np.asarray(self.shares[[pair], :].toarray()[0])


def checked(routed: RoutedDemands) -> DemandCheck:
    """Check a routing with the independent checker."""
    matrix = routed.matrix
    shares = routed.shares
    share_of_link = []
    for start, stop in zip(shares.indptr[:-1], shares.indptr[1:], strict=True):
        links = shares.indices[start:stop].tolist()
        values = shares.data[start:stop].tolist()
        share_of_link.append(dict(zip(links, values, strict=True)))
    check = check_demands(
        matrix.network,
        matrix.demands,
        share_of_link,
        routed.loads_bps.tolist(),
        None if routed.prices is None else routed.prices.tolist(),
    )
    return check if routed.limit is None else check_promise(check, routed.limit)


def sparse_shares(rows: list[FloatArray], negligible: float = 1e-12) -> csr_array:
    """Return rows of shares as one sparse array.

    Args:
        rows: The shares of each pair, shape (links,).
        negligible: Shares up to this value become zero.
    """
    bounds = [0]
    columns = []
    values = []
    for row in rows:
        links = np.flatnonzero(row > negligible)
        columns.append(links)
        values.append(row[links])
        bounds.append(bounds[-1] + len(links))
    shape = (len(rows), len(rows[0]))
    return csr_array((np.concatenate(values), np.concatenate(columns), bounds), shape=shape)


def fair_rates(routed: RoutedDemands) -> FloatArray:
    """Return the max-min-fair rates over a routing, by progressive filling.

    Source: Bertsekas and Gallager 1992, section 6.5.2. Every pair's rate grows in proportion to its
    demand, and may exceed it; the split of its flow does not change. A pair stops when a link that
    it uses is full. The smallest ratio of rate to demand is the inverse of the maximum link
    utilisation. The cost is one pass over the shares for each link that becomes full.

    Returns:
        Bits per second of each pair, shape (pairs,).
    """
    demand = routed.matrix.rates
    room = link_capacities(routed.matrix.network)
    # A link with less room than this is full.
    rounding = 1e-9 * room
    growing = np.ones(len(demand), dtype=bool)
    rates = np.zeros(len(demand))
    shares = routed.shares.tocsr()
    by_link = routed.shares.tocsc()
    while growing.any():
        # Bits per second that each link gains while all growing pairs gain their demand.
        gain = np.asarray(shares.T @ (demand * growing))
        loaded = gain > 0
        step = float(np.min(room[loaded] / gain[loaded]))
        rates[growing] += step * demand[growing]
        room = room - step * gain
        for link in np.flatnonzero(loaded & (room <= rounding)):
            pairs = by_link.indices[by_link.indptr[link] : by_link.indptr[link + 1]]
            growing[pairs] = False
        room = np.maximum(room, 0.0)
    return rates
