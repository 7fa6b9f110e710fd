"""A routing for the testbed: the path whose narrowest link is widest; of equals the one with fewest links.

testbed route swiss-t1 --from s1 --to s6 --routing widest
"""

import heapq
from fractions import Fraction

from testbed.model.routes import SplitRoute
from topologies.errors import NoPathError
from topologies.network import Network


def widest_path(network: Network, source: str, sink: str) -> SplitRoute:
    """Dijkstra's algorithm with (narrowest capacity, links) in place of length; hosts pass nothing on."""
    network.node(source), network.node(sink)
    best = {source: (float("-inf"), 0)}
    came: dict[str, int] = {}
    queue = [(float("-inf"), 0, source)]
    while queue:
        narrowest, hops, node = heapq.heappop(queue)
        if (narrowest, hops) > best[node] or (node != source and network.node(node).kind == "host"):
            continue
        for number in network.out_links(node):
            link = network.links[number]
            reached = max(narrowest, -link.capacity_bps), hops + 1
            if link.target != source and reached < best.get(link.target, (0.0, 0)):
                best[link.target] = reached
                came[link.target] = number
                heapq.heappush(queue, (*reached, link.target))
    if sink not in came:
        raise NoPathError(f"no path from {source!r} to {sink!r} in network {network.name!r}")
    loads, at = [Fraction(0)] * len(network.links), sink
    while at != source:
        loads[came[at]] = Fraction(1)
        at = network.links[came[at]].source
    return SplitRoute(
        network=network, source=source, sink=sink, method="widest", loads=tuple(loads)
    )
