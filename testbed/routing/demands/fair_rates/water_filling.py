"""Water filling: all rates rise in proportion to their demands over whatever routes are best, until some pairs can rise
no more.

One linear programme a level (HiGHS): the greatest common height t of the pairs that still rise, while the others keep
theirs. Prices of the full links say who is stopped: every pair that pays for its way. They are kept as the certificate
(Nace and Pioro 2008 for the method).
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, hstack

from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.routing.demands.checker import price_distances
from testbed.routing.demands.fair_rates.certificate import FillingLevel
from testbed.routing.demands.matrix import DemandMatrix
from testbed.routing.demands.optimum import DemandProgramme
from testbed.routing.demands.routed_demands import RoutedDemands
from testbed.routing.flows.linear_programs import UnsolvedError, solve_lp, solving

SLACK = 1e-7
"""Of a stopped pair's rate: given up, so that what the solver's tolerance took is not missing at the next level."""
SLACKS = (SLACK, 10 * SLACK, 100 * SLACK)
PAYS = 1e-6
"""Of what all rising pairs pay together: a pair that pays more than this is stopped."""


@dataclass(frozen=True, kw_only=True)
class FairRates:
    """``rates_bps`` of the pairs, shape (pairs,), which no link is too small for under ``routed``; ``levels`` prove
    them max-min fair."""

    routed: RoutedDemands
    rates_bps: FloatArray
    levels: tuple[FillingLevel, ...]


def water_filling(matrix: DemandMatrix) -> FairRates:
    """Max-min-fair rates over demands, unbounded by them, and a routing that carries them.

    The first level is the inverse of the multicommodity optimum's greatest utilisation. Cost: a programme of sources *
    links variables a level, and up to as many levels as pairs: for some 20 nodes. Raises NoPathError.
    """
    programme = _Filling(matrix)
    height = np.full(len(matrix.pairs), np.nan)
    levels: list[FillingLevel] = []
    while np.isnan(height).any():
        flow, reached, prices = programme.rise(height)
        paid = matrix.rates * _distances(matrix, prices)
        rising = np.isnan(height)
        stopped = rising & (paid > PAYS * paid[rising].sum())
        if not stopped.any():
            raise InputError(f"network {matrix.network.name!r}: the solver's prices stop no pair at {reached:g}")
        height[stopped] = reached
        levels.append(FillingLevel(height=reached, pairs=tuple(int(i) for i in np.flatnonzero(stopped)), prices=prices))
    routed = RoutedDemands(
        matrix=matrix, method="max-min", shares=programme.shares(flow), prices=programme.scaled(levels[0].prices)
    )
    return FairRates(routed=routed, rates_bps=height * (1 - SLACK) * matrix.rates, levels=tuple(levels))


def _distances(matrix: DemandMatrix, prices: FloatArray) -> FloatArray:
    """In prices, of each pair."""
    known = [max(0.0, float(price)) for price in prices]
    sources = {source for source, _ in matrix.pairs}
    of = {source: price_distances(matrix.network, source, known) for source in sources}
    return np.array([of[source][sink] for source, sink in matrix.pairs])


class _Filling(DemandProgramme):
    """The conservation of the multicommodity programme, with heights in place of given demands."""

    def rise(self, height: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """(flow, height, prices): how far the pairs without a height (nan) rise together, the others kept to theirs."""
        rising = np.isnan(height)
        column, required = np.zeros(len(self.required)), np.zeros(len(self.required))
        nodes = self.graph.nodes
        for at, one in enumerate(self.commodities):
            for pair, sink, amount in zip(one.pairs, one.sinks, one.amounts, strict=True):
                target, size = (column, amount) if rising[pair] else (required, amount * height[pair])
                target[at * nodes + one.source] += size
                target[at * nodes + sink] -= size
        equal = hstack([self.balance, csr_array(-column[:, None])], format="csr")
        loads = hstack([self.loads, csr_array((len(self.capacity), 1))], format="csr")
        cost = np.zeros(self.columns + 1)
        cost[-1] = -1.0
        unit = self.capacity_unit / self.rate_unit
        upper = np.full(self.columns + 1, np.inf)
        with solving(f"network {self.matrix.network.name!r}: no fair rates found"):
            for slack in SLACKS:  # small rates lie below what the solver takes for nought: the next step helps
                try:
                    x, least, prices = solve_lp(
                        cost, (equal, required * (1 - slack) / unit), upper, (loads, self.capacity)
                    )
                    break
                except UnsolvedError:
                    if slack == SLACKS[-1]:
                        raise
        return x[:-1] * unit, -least * unit, prices
