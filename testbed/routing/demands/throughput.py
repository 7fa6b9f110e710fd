"""Max-min-fair rates of pairs over a given routing: all grow together until a link is full, then the others grow on."""

import numpy as np
from numpy.typing import NDArray

from testbed.routing.demands.routed_demands import RoutedDemands

Floats = NDArray[np.float64]


def fair_rates(routed: RoutedDemands) -> Floats:
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
