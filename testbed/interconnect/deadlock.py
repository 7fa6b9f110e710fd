"""The cycle of links of a deadlock: packets on each of which wait for the next.

At the end of a run the head of every buffer waits for one link (``BlockedPackets.waits``), whatever routing chose it
and whatever avoids deadlocks. In a deadlock some of these waits close a cycle; it is what a drawing shows of it.
"""

from collections.abc import Iterable

import networkx as nx

from testbed.interconnect.results import SimulationResult
from topologies import Network


def cycle_of(waits: Iterable[tuple[int, int]]) -> list[int]:
    """A cycle of links in which each waits for the next, from its smallest on; empty where the waits close none.

    >>> cycle_of([(0, 1), (1, 2), (2, 0), (7, 0)])
    [0, 1, 2]
    >>> cycle_of([(0, 1), (1, 2)])
    []
    """
    graph = nx.DiGraph(sorted(set(waits)))
    try:
        cycle = [link for link, _ in nx.find_cycle(graph, sorted(graph))]
    except nx.NetworkXNoCycle:
        return []
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def deadlock_cycle(network: Network, run: SimulationResult) -> list[tuple[str, str]]:
    """The ends of the links of the cycle, in order; empty where there is none to be found."""
    return [(network.links[i].source, network.links[i].target) for i in cycle_of(run.stuck.waits)]
