"""What a routing of a demand matrix is: the share of each pair's flow on each link, and the loads that follow."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from testbed.routing.demands.checker import DemandCheck, check_demands
from testbed.routing.demands.matrix import DemandMatrix

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RoutedDemands:
    """``shares[i, l]``: the fraction of the flow of pair i on link l, a sparse array of shape (pairs, links).

    ``prices``: of the links, shape (links,), where the routing came with a proof of how little the fullest link can
    carry.
    """

    matrix: DemandMatrix
    method: str
    shares: csr_array = field(repr=False)
    prices: Floats | None = field(default=None, repr=False)

    @property
    def loads_bps(self) -> Floats:
        """Bits a second on each link, shape (links,)."""
        return np.asarray(self.shares.T @ self.matrix.rates)

    @property
    def utilisations(self) -> Floats:
        """Load over capacity, shape (links,)."""
        return np.asarray(self.loads_bps / np.array([link.capacity_bps for link in self.matrix.network.links]))

    @property
    def greatest_utilisation(self) -> float:
        """The MLU: above 1 the matrix does not fit."""
        return float(self.utilisations.max())

    def pair_shares(self, pair: int) -> Floats:
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


def sparse_shares(rows: list[Floats], least: float = 1e-12) -> csr_array:
    """Rows of shape (links,) as one sparse array; what is below ``least`` is left out."""
    bounds, columns, values = [0], [], []
    for row in rows:
        retained = np.flatnonzero(row > least)
        columns.append(retained)
        values.append(row[retained])
        bounds.append(bounds[-1] + len(retained))
    return csr_array((np.concatenate(values), np.concatenate(columns), bounds), shape=(len(rows), len(rows[0])))
