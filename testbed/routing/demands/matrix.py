"""A demand matrix: how many bits a second each ordered pair of nodes sends; uniform, by gravity, or given. And what a
routing of one is: the share of each pair's flow on each link, and the loads and fair rates that follow."""

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
from testbed.routing.flows.link_graph import LinkGraph
from topologies import Network

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
            raise InputError(
                f"demand matrix {self.name!r}: give at least one pair of nodes, and a rate for each"
            )
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
    def demands(self) -> list[tuple[str, str, float]]:
        """Source, sink, bits a second, as checkers take them."""
        return [(*pair, rate) for pair, rate in zip(self.pairs, self.rates_bps, strict=True)]

    @property
    def rates(self) -> NDArray[np.float64]:
        """Bits a second, shape (pairs,)."""
        return np.array(self.rates_bps)

    def scaled_to(self, total_bps: float) -> "DemandMatrix":
        """The same shares of another total."""
        if not (math.isfinite(total_bps) and total_bps > 0):
            raise InputError(
                f"demand matrix {self.name!r}: total {total_bps!r} bits a second; give one above 0"
            )
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
    return DemandMatrix(
        network=network, name=name, pairs=tuple(retained), rates_bps=tuple(retained.values())
    )


def _weighted(
    network: Network,
    name: str,
    ends: Sequence[str],
    out: Mapping[str, float],
    into: Mapping[str, float],
) -> DemandMatrix:
    hops, index = LinkGraph(network).hops(), network.node_index
    requested = [(a, b) for a in ends for b in ends if a != b]
    weights = {
        (a, b): out[a] * into[b] for a, b in requested if math.isfinite(hops[index[a], index[b]])
    }
    if not weights:
        raise InputError(
            f"network {network.name!r}: no two of its {len(ends)} end points can reach each other"
        )
    unit = USUAL_BPS * len(weights) / math.fsum(weights.values())
    return DemandMatrix(
        network=network,
        name=name,
        pairs=tuple(weights),
        rates_bps=tuple(weight * unit for weight in weights.values()),
        left_out=len(requested) - len(weights),
    )


@dataclass(frozen=True, kw_only=True)
class RoutedDemands:
    """``shares[i, l]``: the fraction of the flow of pair i on link l, a sparse array of shape (pairs, links).

    ``prices``: of the links, shape (links,), where the routing came with a proof of how little the fullest link can
    carry. ``limit``: the greatest utilisation that the method promises, if it promises one.
    """

    matrix: DemandMatrix
    method: str
    shares: csr_array = field(repr=False)
    prices: FloatArray | None = field(default=None, repr=False)
    limit: float | None = None

    @property
    def loads_bps(self) -> FloatArray:
        """Bits a second on each link, shape (links,)."""
        return np.asarray(self.shares.T @ self.matrix.rates)

    @property
    def utilisations(self) -> FloatArray:
        """Load over capacity, shape (links,)."""
        return np.asarray(
            self.loads_bps / np.array([link.capacity_bps for link in self.matrix.network.links])
        )

    @property
    def greatest_utilisation(self) -> float:
        """The MLU: above 1 the matrix does not fit."""
        return float(self.utilisations.max())

    def pair_shares(self, pair: int) -> FloatArray:
        """Of one pair, shape (links,)."""
        return np.asarray(self.shares[[pair], :].toarray()[0])


def checked(routed: RoutedDemands) -> DemandCheck:
    """The independent checker's answer about a routing."""
    matrix, shares = routed.matrix, routed.shares
    rows = [slice(a, b) for a, b in zip(shares.indptr[:-1], shares.indptr[1:], strict=True)]
    check = check_demands(
        matrix.network,
        matrix.demands,
        [
            dict(zip(shares.indices[own].tolist(), shares.data[own].tolist(), strict=True))
            for own in rows
        ],
        routed.loads_bps.tolist(),
        None if routed.prices is None else routed.prices.tolist(),
    )
    return check if routed.limit is None else check_promise(check, routed.limit)


def sparse_shares(rows: list[FloatArray], least: float = 1e-12) -> csr_array:
    """Rows of shape (links,) as one sparse array; what is below ``least`` is left out."""
    bounds, columns, values = [0], [], []
    for row in rows:
        retained = np.flatnonzero(row > least)
        columns.append(retained)
        values.append(row[retained])
        bounds.append(bounds[-1] + len(retained))
    return csr_array(
        (np.concatenate(values), np.concatenate(columns), bounds), shape=(len(rows), len(rows[0]))
    )


def fair_rates(routed: RoutedDemands) -> FloatArray:
    """Bits a second of each pair, shape (pairs,), by progressive filling (Bertsekas and Gallager 1992, section 6.5.2).

    Every pair's rate grows in proportion to its demand, unbounded by it, over its split as it is; a pair stops when a
    link that it loads is full. The smallest rate over demand is the inverse of the greatest utilisation. Cost: a pass
    over the shares for each link that fills.
    """
    demand = routed.matrix.rates
    room = np.array([link.capacity_bps for link in routed.matrix.network.links])
    tiny = 1e-9 * room
    growing, rates = np.ones(len(demand), dtype=bool), np.zeros(len(demand))
    shares, by_link = routed.shares.tocsr(), routed.shares.tocsc()
    while growing.any():
        pull = np.asarray(
            shares.T @ (demand * growing)
        )  # bits a second that each link gains when all grow by their demand
        loaded = pull > 0
        step = float(np.min(room[loaded] / pull[loaded]))
        rates[growing] += step * demand[growing]
        room = room - step * pull
        for link in np.flatnonzero(loaded & (room <= tiny)):
            growing[by_link.indices[by_link.indptr[link] : by_link.indptr[link + 1]]] = False
        room = np.maximum(room, 0.0)
    return rates
