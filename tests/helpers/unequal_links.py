"""Networks whose links have different capacities."""

import random
from dataclasses import replace

from topologies import Link, Network, Node

RATES_BPS = (1e9, 5e9 / 3, 2e9, 8e9)


def with_drawn_capacities(network: Network, rng: random.Random) -> Network:
    """Return the network with a capacity of RATES_BPS for each direction of each cable."""
    links = [replace(link, capacity_bps=rng.choice(RATES_BPS)) for link in network.links]
    return replace(network, links=tuple(links))


def two_switches(host_bps: float, cable_bps: float) -> Network:
    """Return two switches with a cable, and two hosts at each: h0 and h1 at a, h2 and h3 at b."""
    nodes = [Node(id=name, kind="switch") for name in "ab"]
    links = [_link("a", "b", cable_bps), _link("b", "a", cable_bps)]
    for number, switch in enumerate("aabb"):
        host = f"h{number}"
        nodes.append(Node(id=host, kind="host"))
        links += [_link(host, switch, host_bps), _link(switch, host, host_bps)]
    return Network(name="two-switches", nodes=tuple(nodes), links=tuple(links))


def _link(source: str, target: str, rate_bps: float) -> Link:
    return Link(source=source, target=target, capacity_bps=rate_bps)
