"""What a routing of a demand matrix is: the share of each pair's flow on each link, and the loads and fair
rates that follow."""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from testbed.arrays import FloatArray
from testbed.routing.demands.checker import DemandCheck, check_demands
from testbed.routing.demands.matrix import DemandMatrix


@dataclass(frozen=True, kw_only=True)
class RoutedDemands:
    """``shares[i, l]``: the fraction of the flow of pair i on link l, a sparse array of shape (pairs, links).

    ``prices``: of the links, shape (links,), where the routing came with a proof of how little the fullest link can
    carry.
    """

    matrix: DemandMatrix
    method: str
    shares: csr_array = field(repr=False)
    prices: FloatArray | None = field(default=None, repr=False)

    @property
    def loads_bps(self) -> FloatArray:
        """Bits a second on each link, shape (links,)."""
        return np.asarray(self.shares.T @ self.matrix.rates)

    @property
    def utilisations(self) -> FloatArray:
        """Load over capacity, shape (links,)."""
        return np.asarray(self.loads_bps / np.array([link.capacity_bps for link in self.matrix.network.links]))

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
    return check_demands(
        matrix.network,
        [(*pair, rate) for pair, rate in zip(matrix.pairs, matrix.rates_bps, strict=True)],
        [dict(zip(shares.indices[own].tolist(), shares.data[own].tolist(), strict=True)) for own in rows],
        routed.loads_bps.tolist(),
        None if routed.prices is None else routed.prices.tolist(),
    )


def sparse_shares(rows: list[FloatArray], least: float = 1e-12) -> csr_array:
    """Rows of shape (links,) as one sparse array; what is below ``least`` is left out."""
    bounds, columns, values = [0], [], []
    for row in rows:
        retained = np.flatnonzero(row > least)
        columns.append(retained)
        values.append(row[retained])
        bounds.append(bounds[-1] + len(retained))
    return csr_array((np.concatenate(values), np.concatenate(columns), bounds), shape=(len(rows), len(rows[0])))


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
