"""An independent check of a routing of demands: flow conservation, loads, and a lower bound of the greatest utilisation
from prices.

It shares no code with any routing and takes plain numbers of any origin; its shortest paths are its own.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topologies.network import Network

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
    scale = max(loads, default=0.0)
    for link, load, claimed in zip(network.links, loads, claimed_loads_bps, strict=True):
        if abs(load - claimed) > tolerance * scale:
            violations.append(f"link {link.label}: {claimed:g} bit/s are claimed, the shares come to {load:g}")
    utilisation = max(load / link.capacity_bps for link, load in zip(network.links, loads, strict=True))
    bound = 0.0 if prices is None else price_bound(network, demands, prices)
    if bound > utilisation * (1 + tolerance):
        violations.append(f"the bound {bound:g} is above the utilisation {utilisation:g}: one of the two is wrong")
    return DemandCheck(utilisation=utilisation, bound=bound, unmet_bps=unmet, violations=tuple(violations))


def price_bound(network: Network, demands: Sequence[Demand], prices: Sequence[float]) -> float:
    """A greatest utilisation that no routing of the demands goes below; prices below 0 count as 0. Hosts do not
    forward."""
    sound = [max(0.0, price) for price in prices]
    worth = math.fsum(link.capacity_bps * price for link, price in zip(network.links, sound, strict=True))
    if worth == 0:
        return 0.0
    by_source: dict[str, list[tuple[str, float]]] = {}
    for source, sink, rate in demands:
        by_source.setdefault(source, []).append((sink, rate))
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


def _flow_violations(network: Network, source: str, sink: str, own: Mapping[int, float], tolerance: float) -> list[str]:
    found = []
    balance: dict[str, float] = {source: -1.0, sink: 1.0}
    hosts = network.silent_hosts - {source, sink}
    for at, share in own.items():
        link = network.links[at]
        if not -tolerance <= share <= 1 + tolerance:
            found.append(f"{source} to {sink}: share {share:g} of link {link.label} is outside 0 to 1")
        if share > tolerance and (link.source in hosts or link.target in hosts):
            found.append(f"{source} to {sink}: {link.label} leads through a host, which does not forward")
        balance[link.source] = balance.get(link.source, 0.0) + share
        balance[link.target] = balance.get(link.target, 0.0) - share
    found += [
        f"{source} to {sink}: node {node} sends out {net:g} more than it should"
        for node, net in balance.items()
        if abs(net) > tolerance
    ]
    return found
