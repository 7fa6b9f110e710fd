"""The flow bound: the smallest load that the fullest link can have with any routes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from testbed.routing.demands.checker import Demand, price_bound
from testbed.routing.demands.matrix import given_matrix
from testbed.routing.demands.optimum import optimal_demands
from topologies import Network

# Largest number of variables of the linear programme (sources times links), which then takes about
# ten seconds.
MAX_VARIABLES = 25_000


def flow_bound(network: Network, pairs: Sequence[tuple[str, str]], load: float) -> float:
    """Return a lower bound of the load of the fullest link, for any routes.

    Messages may be divided into any number of parts. The unit is the time of one message over a
    link of the smallest capacity. A schedule carries one message at a time over such a link. If all
    capacities are equal, the unit is a time frame.

    The capacity of each host's links, and the capacity of the links between switches, give bounds
    at once. If ``load`` is above these bounds and the network is not too large, the dual variables
    ("prices") of a linear programme give the best possible bound. ``price_bound``, which also
    checks routed demands, computes the bound from the prices alone.

    Args:
        network: The network.
        pairs: Source and sink of each message.
        load: Load of the fullest link with the actual routes; no better bound is needed than this.
    """
    unit = min(link.capacity_bps for link in network.links)
    messages = Counter(pair for pair in pairs if pair[0] != pair[1])
    demands = []
    rates = {}
    sources = set()
    for (source, sink), count in messages.items():
        demands.append((source, sink, count * unit))
        rates[source, sink] = count * unit
        sources.add(source)
    bound = max([0.0, *_host_bounds(network, pairs, unit)])
    bound = max(bound, *_core_bounds(network, demands, unit))
    variables = len(sources) * len(network.links)
    if demands and bound < load * (1 - 1e-9) and variables <= MAX_VARIABLES:
        matrix = given_matrix(network, "pattern", rates)
        prices = optimal_demands(matrix).prices
        if prices is not None:
            bound = max(bound, price_bound(network, demands, prices.tolist()))
    return bound


def _host_bounds(
    network: Network, pairs: Sequence[tuple[str, str]], unit: float
) -> Iterator[float]:
    """Yield the bound of each host: its messages over the capacity of its links.

    Args:
        network: The network.
        pairs: Source and sink of each message.
        unit: Smallest capacity of the network in bits per second.
    """
    for end, links_of in ((0, network.out_links), (1, network.in_links)):
        for node, count in Counter(pair[end] for pair in pairs).items():
            if node not in network.switch_ids:
                capacity = sum(network.links[i].capacity_bps for i in links_of(node))
                yield count * unit / capacity


def _core_bounds(network: Network, demands: Sequence[Demand], unit: float) -> Iterator[float]:
    """Yield two bounds from prices of the links (see ``price_bound``).

    The first bound has the price 1 for all links between switches, the second one for the slowest
    of them. All other links have the price 0.

    Args:
        network: The network.
        demands: The demands.
        unit: Smallest capacity of the network in bits per second.
    """
    all_prices = []
    slow_prices = []
    for link in network.links:
        between_switches = {link.source, link.target} <= network.switch_ids.keys()
        slow = between_switches and link.capacity_bps == unit
        all_prices.append(1.0 if between_switches else 0.0)
        slow_prices.append(1.0 if slow else 0.0)
    yield price_bound(network, demands, all_prices)
    yield price_bound(network, demands, slow_prices)


def equal_links(network: Network) -> Network:
    """Return the network with equal capacities.

    Schedules without capacities see it this way: a link carries one transfer per frame, whatever
    its capacity.
    """
    links = tuple(replace(link, capacity_bps=1.0) for link in network.links)
    return replace(network, links=links)
