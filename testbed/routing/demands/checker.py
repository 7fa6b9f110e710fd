"""Independent checks of routings of demands and of max-min-fair rates.

A routing is checked for flow conservation and for the loads that it claims, and its maximum link
utilisation is compared with a lower bound from prices of links. Rates are checked for being max-min
fair over all routings that exist.

The checks share no code with any routing. They take plain numbers of any origin, and compute their
own shortest paths.

The theory of fair rates: at one level, a set F of pairs still rises, and the other pairs keep their
rates r. Whatever prices y >= 0 the links have, a flow pays at least its distance in prices.
Therefore any routing satisfies

    sum over F of rate * distance <= sum of capacity * y - sum over the others of r * distance.

Let all of F have at least t times their demand d, and let the right side equal t times the sum over
F of d * distance. Then every pair of F with a distance above 0 has exactly t times its demand in
every such allocation. These pairs are final, and the others continue to rise.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.arrays import FloatArray
from topologies import Network, lists_by_key

# Relative excess over a promised utilisation that counts as rounding.
PROMISED = 1e-5

# A pair counts as stopped if it pays more than this share of the total of its level.
_MIN_PAID_SHARE = 1e-9

# Source, sink, and bits per second.
Demand = tuple[str, str, float]


@dataclass(frozen=True, kw_only=True)
class DemandCheck:
    """The result of checking a routing.

    Attributes:
        utilisation: Utilisation of the fullest link, recomputed.
        bound: No routing of these demands has a smaller one; 0 without prices.
        unmet_bps: Demand that does not reach its sink, in bits per second.
        violations: One line for each fault; empty if there is none.
    """

    utilisation: float
    bound: float
    unmet_bps: float
    violations: tuple[str, ...]

    @property
    def valid(self) -> bool:
        """True if there is no violation."""
        return not self.violations


def check_demands(
    network: Network,
    demands: Sequence[Demand],
    shares: Sequence[Mapping[int, float]],
    claimed_loads_bps: Sequence[float],
    prices: Sequence[float] | None = None,
    tolerance: float = 1e-6,
) -> DemandCheck:
    """Check a routing of demands.

    Each flow must leave its source once and arrive at its sink once. It must not begin or end
    elsewhere, nor pass through a host. The loads must be the claimed ones.

    Args:
        network: The network.
        demands: The demands.
        shares: For each demand, the share of its flow on each link, by the link's index.
        claimed_loads_bps: Claimed load of each link in bits per second.
        prices: Price of each link, 0 or more, in any unit. Any prices give a valid bound.
        tolerance: Accepted error of a share, and of a load relative to the largest one.
    """
    violations: list[str] = []
    loads = [0.0] * len(network.links)
    unmet_bps = 0.0
    for (source, sink, rate), pair_shares in zip(demands, shares, strict=True):
        violations += _flow_violations(network, source, sink, pair_shares, tolerance)
        arrived = 0.0
        for i, share in pair_shares.items():
            loads[i] += rate * share
            if network.links[i].target == sink:
                arrived += share
        unmet_bps += rate * max(0.0, 1 - arrived)
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
        utilisation=utilisation,
        bound=bound,
        unmet_bps=unmet_bps,
        violations=tuple(violations),
    )


def check_promise(check: DemandCheck, limit: float) -> DemandCheck:
    """Add a violation if the fullest link is fuller than the routing method promises.

    Args:
        check: The result of the other checks.
        limit: The promised utilisation.
    """
    if check.utilisation <= limit * (1 + PROMISED):
        return check
    violation = (
        f"the fullest link has utilisation {check.utilisation:g}, "
        f"the method promises at most {limit:g}"
    )
    return replace(check, violations=(*check.violations, violation))


def price_bound(network: Network, demands: Sequence[Demand], prices: Sequence[float]) -> float:
    """Return a lower bound of the maximum link utilisation of any routing.

    The bound is the sum of demand times distance in prices, over the sum of capacity times price.
    Hosts do not forward.

    Args:
        network: The network.
        demands: The demands.
        prices: Price of each link; prices below 0 count as 0.
    """
    valid_prices = [max(0.0, price) for price in prices]
    worth = _worth(network, valid_prices)
    if worth == 0:
        return 0.0
    by_source = lists_by_key((source, (sink, rate)) for source, sink, rate in demands)
    paid = []
    for source, sinks in by_source.items():
        distance = price_distances(network, source, valid_prices)
        paid += [rate * distance.get(sink, math.inf) for sink, rate in sinks]
    return math.fsum(paid) / worth


def _worth(network: Network, prices: Sequence[float]) -> float:
    """Return the sum of capacity times price over all links."""
    return math.fsum(
        link.capacity_bps * price for link, price in zip(network.links, prices, strict=True)
    )


def price_distances(network: Network, source: str, prices: Sequence[float]) -> dict[str, float]:
    """Return the smallest sum of prices from ``source`` to each node (Dijkstra 1959).

    Args:
        network: The network; hosts do not forward.
        source: Id of the source.
        prices: Price of each link, 0 or more.
    """
    hosts = network.silent_hosts
    distance: dict[str, float] = {}
    queue = [(0.0, source)]
    while queue:
        node_distance, node = heapq.heappop(queue)
        if node in distance:
            continue
        distance[node] = node_distance
        if node in hosts and node != source:
            continue
        for i in network.out_links(node):
            target = network.links[i].target
            if target not in distance:
                heapq.heappush(queue, (node_distance + prices[i], target))
    return distance


def _flow_violations(
    network: Network, source: str, sink: str, shares: Mapping[int, float], tolerance: float
) -> list[str]:
    """Return one line for each fault in the flow of one pair."""
    violations = []
    # What each node sends out beyond what it receives and should send.
    excess: dict[str, float] = {source: -1.0, sink: 1.0}
    hosts = network.silent_hosts - {source, sink}
    for i, share in shares.items():
        link = network.links[i]
        if not -tolerance <= share <= 1 + tolerance:
            violations.append(
                f"{source} to {sink}: share {share:g} of link {link.label} is outside 0 to 1"
            )
        if share > tolerance and (link.source in hosts or link.target in hosts):
            violations.append(
                f"{source} to {sink}: {link.label} leads through a host, which does not forward"
            )
        excess[link.source] = excess.get(link.source, 0.0) + share
        excess[link.target] = excess.get(link.target, 0.0) - share
    for node, amount in excess.items():
        if abs(amount) > tolerance:
            violations.append(
                f"{source} to {sink}: node {node} sends out {amount:g} more than it should"
            )
    return violations


@dataclass(frozen=True, kw_only=True, eq=False)
class FillingLevel:
    """One level of water filling.

    Attributes:
        height: Rate over demand at which the pairs of this level stop.
        pairs: Indices of these pairs.
        prices: Price of each link, shape (links,), which proves that the pairs must stop.
    """

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
    """Check a proof that heights times demands are the max-min-fair rates.

    This does not check that the rates can be sent at all; ``check_demands`` checks their routing.

    Args:
        network: The network.
        demands: The demands.
        levels: The levels in ascending order.
        tolerance: Accepted relative error of a height.
        both_directions: Also reject a height above the one that the prices allow. If demands are
            far apart, the utilisation of a routing does not show it.

    Returns:
        One line for each fault; empty if the rates are proved.
    """
    faults: list[str] = []
    heights: dict[int, float] = {}
    for number, level in enumerate(levels):
        prices = [max(0.0, float(price)) for price in level.prices]
        distances = paid_distances(network, demands, prices)
        paid = [demand[2] * distance for demand, distance in zip(demands, distances, strict=True)]
        paid_by_stopped = math.fsum(heights[i] * paid[i] for i in heights)
        paid_by_rising = math.fsum(paid[i] for i in range(len(demands)) if i not in heights)
        if not paid_by_rising > 0:
            return [*faults, f"level {number}: its prices stop no pair"]
        proved_height = (_worth(network, prices) - paid_by_stopped) / paid_by_rising
        if level.height < proved_height * (1 - tolerance):
            faults.append(
                f"level {number}: height {level.height:.6g}; the prices let the pairs rise to "
                f"{proved_height:.6g}"
            )
        elif both_directions and level.height > proved_height * (1 + tolerance):
            faults.append(
                f"level {number}: height {level.height:.6g}; the prices allow {proved_height:.6g} "
                "at most"
            )
        for i in level.pairs:
            if i in heights or paid[i] < _MIN_PAID_SHARE * paid_by_rising:
                faults.append(
                    f"level {number}: pair {i} is not stopped by its prices, or stands twice"
                )
        heights |= dict.fromkeys(level.pairs, level.height)
    for i in range(len(demands)):
        if i not in heights:
            faults.append(f"pair {i} has no level")
    return faults


def paid_distances(
    network: Network, demands: Sequence[Demand], prices: Sequence[float]
) -> list[float]:
    """Return the distance in prices of each demand, infinite if no path leads."""
    from_source: dict[str, dict[str, float]] = {}
    distances = []
    for source, sink, _ in demands:
        if source not in from_source:
            from_source[source] = price_distances(network, source, prices)
        distances.append(from_source[source].get(sink, math.inf))
    return distances
