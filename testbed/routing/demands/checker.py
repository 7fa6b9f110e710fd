"""Independent checks: of a routing of demands, by flow conservation, loads, and a lower bound of the greatest
utilisation from prices; and of rates that are said to be max-min fair over all routings there are.

They share no code with any routing and take plain numbers of any origin; their shortest paths are their own.

Theory of the second. At one level some pairs F still rise, the others keep their rates r. Whatever prices y >= 0 the
links have, a flow pays at least its distance in prices, so that for any routing: sum over F of rate times distance <=
sum of capacity times y - sum over the others of r times distance. Let all of F have at least t times their demand d,
and let the right side be t times the sum over F of d times distance: then every pair of F that is at a distance above 0
has exactly t times its demand in every such allocation. These are final; the rest go on.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.arrays import FloatArray
from topologies import Network, lists_by_key

# Relative excess over a promised utilisation that counts as rounding.
PROMISED = 1e-5
Demand = tuple[str, str, float]
"""Source, sink, bits a second."""


@dataclass(frozen=True, kw_only=True)
class DemandCheck:
    """``violations``: one line each, empty where all holds. ``utilisation``: of the fullest link, recomputed.
    ``bound``: no routing of these demands has a smaller one (0 without prices). ``unmet_bps``: demand that does not
    reach its sink."""

    utilisation: float
    bound: float
    unmet_bps: float
    violations: tuple[str, ...]

    @property
    def valid(self) -> bool:
        return not self.violations


def check_demands(
    network: Network,
    demands: Sequence[Demand],
    shares: Sequence[Mapping[int, float]],
    claimed_loads_bps: Sequence[float],
    prices: Sequence[float] | None = None,
    tolerance: float = 1e-6,
) -> DemandCheck:
    """Does each pair's flow leave its source once, arrive once, and nowhere begin, end or pass a host; are the loads
    what is claimed?

    ``shares[i]``: link index -> fraction of pair i's flow. ``claimed_loads_bps``: one a link. ``prices``: one a link, 0
    or more, in any unit; the bound is the sum of demand times distance in prices over the sum of capacity times price,
    true of any prices whatever. ``tolerance``: of a flow, and of loads relative to the largest.
    """
    violations: list[str] = []
    loads = [0.0] * len(network.links)
    unmet = 0.0
    for (source, sink, rate), own in zip(demands, shares, strict=True):
        found = _flow_violations(network, source, sink, own, tolerance)
        violations += found
        for at, share in own.items():
            loads[at] += rate * share
        arrived = sum(share for at, share in own.items() if network.links[at].target == sink)
        unmet += rate * max(0.0, 1 - arrived)
    utilisation = max(
        load / link.capacity_bps for link, load in zip(network.links, loads, strict=True)
    )
    for link, load, claimed in zip(network.links, loads, claimed_loads_bps, strict=True):
        if abs(load - claimed) > tolerance * utilisation * link.capacity_bps:
            violations.append(
                f"link {link.label}: {claimed:g} bit/s are claimed, the shares come to {load:g}"
            )
    bound = 0.0 if prices is None else price_bound(network, demands, prices)
    if bound > utilisation * (1 + tolerance):
        violations.append(
            f"the bound {bound:g} is above the utilisation {utilisation:g}: one of the two is wrong"
        )
    return DemandCheck(
        utilisation=utilisation, bound=bound, unmet_bps=unmet, violations=tuple(violations)
    )


def check_promise(check: DemandCheck, limit: float) -> DemandCheck:
    """Add a violation if the fullest link is fuller than the method of routing promises."""
    if check.utilisation <= limit * (1 + PROMISED):
        return check
    violation = (
        f"the fullest link has utilisation {check.utilisation:g}, "
        f"the method promises at most {limit:g}"
    )
    return replace(check, violations=(*check.violations, violation))


def price_bound(network: Network, demands: Sequence[Demand], prices: Sequence[float]) -> float:
    """A greatest utilisation that no routing of the demands goes below; prices below 0 count as 0. Hosts do not
    forward."""
    sound = [max(0.0, price) for price in prices]
    worth = math.fsum(
        link.capacity_bps * price for link, price in zip(network.links, sound, strict=True)
    )
    if worth == 0:
        return 0.0
    by_source = lists_by_key((source, (sink, rate)) for source, sink, rate in demands)
    paid = []
    for source, required in by_source.items():
        distance = price_distances(network, source, sound)
        paid += [rate * distance.get(sink, math.inf) for sink, rate in required]
    return math.fsum(paid) / worth


def price_distances(network: Network, source: str, prices: Sequence[float]) -> dict[str, float]:
    """Least sum of prices from ``source`` to each node (Dijkstra 1959)."""
    hosts = network.silent_hosts
    final: dict[str, float] = {}
    queue = [(0.0, source)]
    while queue:
        far, node = heapq.heappop(queue)
        if node in final:
            continue
        final[node] = far
        if node in hosts and node != source:
            continue
        for link in network.out_links(node):
            target = network.links[link].target
            if target not in final:
                heapq.heappush(queue, (far + prices[link], target))
    return final


def _flow_violations(
    network: Network, source: str, sink: str, own: Mapping[int, float], tolerance: float
) -> list[str]:
    found = []
    balance: dict[str, float] = {source: -1.0, sink: 1.0}
    hosts = network.silent_hosts - {source, sink}
    for at, share in own.items():
        link = network.links[at]
        if not -tolerance <= share <= 1 + tolerance:
            found.append(
                f"{source} to {sink}: share {share:g} of link {link.label} is outside 0 to 1"
            )
        if share > tolerance and (link.source in hosts or link.target in hosts):
            found.append(
                f"{source} to {sink}: {link.label} leads through a host, which does not forward"
            )
        balance[link.source] = balance.get(link.source, 0.0) + share
        balance[link.target] = balance.get(link.target, 0.0) - share
    found += [
        f"{source} to {sink}: node {node} sends out {net:g} more than it should"
        for node, net in balance.items()
        if abs(net) > tolerance
    ]
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class FillingLevel:
    """``height``: rate over demand at which ``pairs`` (indices) stop; ``prices`` of the links, shape (links,), prove
    that they must."""

    height: float
    pairs: tuple[int, ...]
    prices: FloatArray


def check_fair_rates(
    network: Network,
    demands: Sequence[Demand],
    levels: Sequence[FillingLevel],
    tolerance: float = 1e-4,
    *,
    both_directions: bool = False,
) -> list[str]:
    """What is wrong with the claim that the levels' heights times the demands are the max-min-fair rates; empty where
    it is proved.

    ``tolerance``: of heights, and of what a pair must pay of the level's whole to count as stopped by it. That the
    rates can be sent at all is not said here: ``check_demands`` says it of their routing. ``both_directions``: a height above
    what the prices allow is wrong too, which a routing's utilisation does not show if demands are far apart.
    """
    wrong: list[str] = []
    rates: dict[int, float] = {}
    for number, level in enumerate(levels):
        prices = [max(0.0, float(price)) for price in level.prices]
        paid = [
            demands[i][2] * distance
            for i, distance in enumerate(paid_distances(network, demands, prices))
        ]
        rising = [i for i in range(len(demands)) if i not in rates]
        worth = math.fsum(
            link.capacity_bps * price for link, price in zip(network.links, prices, strict=True)
        )
        left = worth - math.fsum(rates[i] * paid[i] for i in rates)
        whole = math.fsum(paid[i] for i in rising)
        if not whole > 0:
            return [*wrong, f"level {number}: its prices stop no pair"]
        if level.height < left / whole * (1 - tolerance):
            wrong.append(
                f"level {number}: height {level.height:.6g}; the prices let the pairs rise to {left / whole:.6g}"
            )
        elif both_directions and level.height > left / whole * (1 + tolerance):
            wrong.append(
                f"level {number}: height {level.height:.6g}; the prices allow {left / whole:.6g} at most"
            )
        loose = [i for i in level.pairs if i in rates or paid[i] < 1e-9 * whole]
        wrong += [
            f"level {number}: pair {i} is not stopped by its prices, or stands twice" for i in loose
        ]
        rates |= dict.fromkeys(level.pairs, level.height)
    missing = [i for i in range(len(demands)) if i not in rates]
    return wrong + [f"pair {i} has no level" for i in missing]


def paid_distances(
    network: Network, demands: Sequence[Demand], prices: Sequence[float]
) -> list[float]:
    """Of each demand, infinite where no path leads."""
    from_source = {
        source: price_distances(network, source, prices)
        for source in {demand[0] for demand in demands}
    }
    return [from_source[source].get(sink, math.inf) for source, sink, _ in demands]
