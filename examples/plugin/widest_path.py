"""A routing for the testbed: the widest path, and the shortest one of several that are as wide.

testbed route swiss-t1 --from s1 --to s6 --routing widest
"""

import heapq
from fractions import Fraction

from testbed.model.routes import SplitRoute
from topologies.errors import NoPathError
from topologies.network import Network


def widest_path(network: Network, source: str, sink: str) -> SplitRoute:
    """Find the path whose narrowest link is widest (Dijkstra's algorithm).

    The length of a path is (minus its narrowest capacity, number of links). Hosts do not forward.
    """
    # Both raise an error if there is no such node.
    network.node(source)
    network.node(sink)
    shortest = {source: (float("-inf"), 0)}
    last_link: dict[str, int] = {}
    queue = [(float("-inf"), 0, source)]
    while queue:
        narrowest, hops, node = heapq.heappop(queue)
        is_other_host = node != source and network.node(node).kind == "host"
        if (narrowest, hops) > shortest[node] or is_other_host:
            continue
        for index in network.out_links(node):
            link = network.links[index]
            length = (max(narrowest, -link.capacity_bps), hops + 1)
            if link.target != source and length < shortest.get(link.target, (0.0, 0)):
                shortest[link.target] = length
                last_link[link.target] = index
                heapq.heappush(queue, (*length, link.target))
    if sink not in last_link:
        raise NoPathError(f"no path from {source!r} to {sink!r} in network {network.name!r}")
    loads = [Fraction(0)] * len(network.links)
    node = sink
    while node != source:
        loads[last_link[node]] = Fraction(1)
        node = network.links[last_link[node]].source
    return SplitRoute(
        network=network, source=source, sink=sink, method="widest", loads=tuple(loads)
    )
