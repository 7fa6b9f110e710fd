"""Proves that rates are max-min fair over all routings there are, from prices of links alone; shares no code with any
routing.

Theory. At one level some pairs F still rise, the others keep their rates r. Whatever prices y >= 0 the links have, a
flow pays at least its distance in prices, so that for any routing: sum over F of rate times distance <= sum of capacity
times y - sum over the others of r times distance. Let all of F have at least t times their demand d, and let the right
side be t times the sum over F of d times distance: then every pair of F that is at a distance above 0 has exactly t
times its demand in every such allocation. These are final; the rest go on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.arrays import FloatArray
from testbed.routing.demands.checker import Demand, price_distances
from topologies.network import Network


@dataclass(frozen=True, kw_only=True, eq=False)
class FillingLevel:
    """``height``: rate over demand at which ``pairs`` (indices) stop; ``prices`` of the links, shape (links,), prove
    that they must."""

    height: float
    pairs: tuple[int, ...]
    prices: FloatArray


def check_fair_rates(
    network: Network, demands: Sequence[Demand], levels: Sequence[FillingLevel], tolerance: float = 1e-4
) -> list[str]:
    """What is wrong with the claim that the levels' heights times the demands are the max-min-fair rates; empty where
    it is proved.

    ``tolerance``: of heights, and of what a pair must pay of the level's whole to count as stopped by it. That the
    rates can be sent at all is not said here: ``check_demands`` says it of their routing.
    """
    wrong: list[str] = []
    rates: dict[int, float] = {}
    for number, level in enumerate(levels):
        prices = [max(0.0, float(price)) for price in level.prices]
        paid = [demands[i][2] * distance for i, distance in enumerate(_paid_distances(network, demands, prices))]
        rising = [i for i in range(len(demands)) if i not in rates]
        worth = math.fsum(link.capacity_bps * price for link, price in zip(network.links, prices, strict=True))
        left = worth - math.fsum(rates[i] * paid[i] for i in rates)
        whole = math.fsum(paid[i] for i in rising)
        if not whole > 0:
            return [*wrong, f"level {number}: its prices stop no pair"]
        if level.height < left / whole * (1 - tolerance):
            wrong.append(
                f"level {number}: height {level.height:.6g}; the prices let the pairs rise to {left / whole:.6g}"
            )
        loose = [i for i in level.pairs if i in rates or paid[i] < 1e-9 * whole]
        wrong += [f"level {number}: pair {i} is not stopped by its prices, or stands twice" for i in loose]
        rates |= dict.fromkeys(level.pairs, level.height)
    missing = [i for i in range(len(demands)) if i not in rates]
    return wrong + [f"pair {i} has no level" for i in missing]


def _paid_distances(network: Network, demands: Sequence[Demand], prices: Sequence[float]) -> list[float]:
    from_source = {source: price_distances(network, source, prices) for source in {demand[0] for demand in demands}}
    return [from_source[source].get(sink, math.inf) for source, sink, _ in demands]
