"""The least load of the fullest link that any routes can have, however finely messages are parted: the flow bound."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from testbed.routing.demands.checker import price_bound
from testbed.routing.demands.matrix import given_matrix
from testbed.routing.demands.optimum import optimal_demands
from topologies import Network

MOST_VARIABLES = 25_000
"""Of the linear programme, sources times links: some ten seconds."""


def flow_bound(network: Network, pairs: Sequence[tuple[str, str]], load: float) -> float:
    """In messages over a link of the least capacity, which a schedule carries one at a time (where all have one
    capacity, a time frame each): no routes and no parts take less time.

    A host's own links and the links that all have to pass give a bound at once; where ``load``, what the routes come
    to, is above it and the network is not too large, the prices of a linear programme give the best there is. Any of
    them is recomputed by the checker of routed demands, from the prices alone.
    """
    unit = min(link.capacity_bps for link in network.links)
    counted = Counter(pair for pair in pairs if pair[0] != pair[1])
    demands = [(a, b, count * unit) for (a, b), count in counted.items()]
    bound = 0.0
    for end, numbers in ((0, network.out_links), (1, network.in_links)):
        for node, count in Counter(pair[end] for pair in pairs).items():
            if node not in network.switch_ids:
                bound = max(
                    bound, count * unit / sum(network.links[i].capacity_bps for i in numbers(node))
                )
    between = [
        float({link.source, link.target} <= network.switch_ids.keys()) for link in network.links
    ]
    slow = [
        own * (link.capacity_bps == unit) for own, link in zip(between, network.links, strict=True)
    ]
    bound = max(bound, *(price_bound(network, demands, priced) for priced in (between, slow)))
    sources = len({source for source, _, _ in demands})
    if demands and bound < load * (1 - 1e-9) and sources * len(network.links) <= MOST_VARIABLES:
        matrix = given_matrix(network, "pattern", {(a, b): rate for a, b, rate in demands})
        prices = optimal_demands(matrix).prices
        if prices is not None:
            bound = max(bound, price_bound(network, demands, prices.tolist()))
    return bound


def equal_links(network: Network) -> Network:
    """As schedules have it where no capacities are given: a link carries one transfer in a frame, whatever its
    capacity."""
    return replace(network, links=tuple(replace(link, capacity_bps=1.0) for link in network.links))
