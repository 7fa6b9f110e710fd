"""Networks that are small enough for an exploration of all states.

A network has routers, links, the flows that load them, and the cables that may fail. There is one
routing table for each set of failed cables: the static routing of the network if all cables work,
and otherwise paths with the fewest links that work. When a cable fails or is repaired, all routers
use the new table at once.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import networkx as nx
import numpy as np

from testbed.errors import InputError
from testbed.interconnect.static_paths import NONE, build_paths
from topologies import load_network

# [router][destination]: the next link of a packet; NONE at the destination, or if there is no path.
Table = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class SmallNetwork:
    """A network of routers, links and flows, all of which are numbered from 0.

    Links that no flow can use are left out.

    Attributes:
        name: Name of the network.
        routers: Number of routers.
        links: (source router, target router) of each link.
        flows: (source router, destination router) of the packets that hosts may send.
        cables: The links of each cable that may fail.
        most_down: Largest number of cables that fail at once.
        tables: The routing table by the bit set of the failed cables.
    """

    name: str
    routers: int
    links: tuple[tuple[int, int], ...]
    flows: tuple[tuple[int, int], ...]
    cables: tuple[tuple[int, ...], ...] = ()
    most_down: int = 0
    tables: dict[int, Table] = field(default_factory=dict)

    def dead_links(self, down: int) -> frozenset[int]:
        """Return the links of the failed cables, given as a bit set of cables."""
        return _links_of_cables(self.cables, down)

    def places(self) -> list[tuple[int, int]]:
        """Return the pairs (router, destination) of all packets that can exist.

        A pair says that a packet to this destination can be at this router, whichever cables fail
        while it travels.
        """
        # The dictionary serves as an ordered set. ``waiting`` grows while it is read.
        places = dict.fromkeys(self.flows)
        waiting = list(places)
        for router, goal in waiting:
            for table in self.tables.values():
                link = table[router][goal]
                following = (self.links[link][1], goal)
                if link != NONE and following not in places:
                    places[following] = None
                    waiting.append(following)
        return waiting


def small_network(
    name: str,
    flows: Sequence[tuple[int, int]],
    failing: Sequence[tuple[int, int]] = (),
    most_down: int = 0,
) -> SmallNetwork:
    """Return a network of the catalogue under these flows.

    Args:
        name: Name of the network.
        flows: (source router, destination router) of the packets that hosts may send.
        failing: Pairs of routers whose cable may fail.
        most_down: Largest number of cables that fail at once.

    Raises:
        InputError: Some of these failures leave a flow without a path, or affect no flow.

    >>> small_network("ring:3", [(0, 2)]).links
    ((0, 2),)
    """
    paths = build_paths(load_network(name))
    between_routers = np.nonzero((paths.link_source >= 0) & (paths.link_target >= 0))[0]
    ends = tuple(
        (int(paths.link_source[link]), int(paths.link_target[link])) for link in between_routers
    )
    new_number = {int(link): i for i, link in enumerate(between_routers)}
    rows = paths.next_link[:, : paths.routers].tolist()
    static_table = tuple(_renumbered(row, new_number) for row in rows)
    cables = tuple(_links_between(ends, pair) for pair in failing)
    tables = {}
    for down in range(1 << len(cables)):
        if down.bit_count() > most_down:
            continue
        dead = _links_of_cables(cables, down)
        tables[down] = _fewest_links(paths.routers, ends, dead) if dead else static_table
    network = SmallNetwork(
        name=name,
        routers=paths.routers,
        links=ends,
        flows=tuple(flows),
        cables=cables,
        most_down=most_down,
        tables=tables,
    )
    return _without_unused_links(network)


def _links_between(ends: Sequence[tuple[int, int]], pair: tuple[int, int]) -> tuple[int, ...]:
    """Return the links between two routers, in both directions."""
    return tuple(i for i, link in enumerate(ends) if set(link) == set(pair))


def _links_of_cables(cables: Sequence[Sequence[int]], down: int) -> frozenset[int]:
    """Return the links of all cables in a bit set."""
    links: set[int] = set()
    for cable, cable_links in enumerate(cables):
        if down >> cable & 1:
            links.update(cable_links)
    return frozenset(links)


def one_way_ring(routers: int, hops: Sequence[int]) -> SmallNetwork:
    """Return a ring on which all packets take the same direction (the document's tornado).

    Args:
        routers: Number of routers.
        hops: Each host sends to the hosts at these distances, in links.

    >>> one_way_ring(3, [2]).flows
    ((0, 2), (1, 0), (2, 1))
    """
    table = []
    for router in range(routers):
        # Link r leaves router r.
        row = [router] * routers
        row[router] = NONE
        table.append(tuple(row))
    return SmallNetwork(
        name=f"ring of {routers}, one way, {' or '.join(map(str, hops))} hops",
        routers=routers,
        links=tuple((r, (r + 1) % routers) for r in range(routers)),
        flows=tuple((r, (r + h) % routers) for r, h in itertools.product(range(routers), hops)),
        tables={0: tuple(table)},
    )


def two_rings() -> SmallNetwork:
    """Return a ring of three routers and a ring of four that share a link.

    The rings 0, 1, 2 and 0, 1, 3, 4 share the link from 0 to 1. Both have one direction, and each
    host sends to the hosts that are two links ahead. So two inputs of router 0 request the shared
    link, and an input of router 1 is on two cycles.
    """
    links = ((0, 1), (1, 2), (2, 0), (1, 3), (3, 4), (4, 0))
    flows = ((0, 2), (1, 0), (2, 1), (0, 3), (1, 4), (3, 0), (4, 1))
    table = _fewest_links(5, links, frozenset())
    return SmallNetwork(
        name="two rings that share a link", routers=5, links=links, flows=flows, tables={0: table}
    )


def _fewest_links(routers: int, ends: Sequence[tuple[int, int]], dead: frozenset[int]) -> Table:
    """Return the routing table of the paths with the fewest links that work.

    Of several such paths, the one whose first link has the lowest number is taken.

    Args:
        routers: Number of routers.
        ends: (source router, target router) of each link.
        dead: Links that have failed.
    """
    live = {i: link for i, link in enumerate(ends) if i not in dead}
    graph = nx.DiGraph(live.values())
    graph.add_nodes_from(range(routers))
    hops = dict(nx.all_pairs_shortest_path_length(graph))

    def first_link(router: int, goal: int) -> int:
        distance = hops[router].get(goal)
        for i, (start, end) in live.items():
            if start == router and hops[end].get(goal, routers) + 1 == distance:
                return i
        return NONE

    table = []
    for router in range(routers):
        table.append(tuple(first_link(router, goal) for goal in range(routers)))
    return tuple(table)


def _without_unused_links(network: SmallNetwork) -> SmallNetwork:
    """Return the network without the links that no flow can use, whatever fails on its path.

    Raises:
        InputError: A flow may have no path, or a cable carries no flow.
    """
    used: set[int] = set()
    for router, goal in network.places():
        for table in network.tables.values():
            if table[router][goal] == NONE and router != goal:
                raise InputError(
                    f"{network.name}: no way from router {router} to {goal} after the failures"
                )
            used.add(table[router][goal])
    used.discard(NONE)
    if any(used.isdisjoint(links) for links in network.cables):
        raise InputError(
            f"{network.name}: a cable that is to fail carries none of the flows; name one that does"
        )
    retained = sorted(used)
    new_number = {old: new for new, old in enumerate(retained)}
    cables = []
    for links in network.cables:
        cables.append(tuple(new_number[i] for i in links if i in used))
    tables = {}
    for down, table in network.tables.items():
        tables[down] = tuple(_renumbered(row, new_number) for row in table)
    return replace(
        network,
        links=tuple(network.links[i] for i in retained),
        cables=tuple(cables),
        tables=tables,
    )


def _renumbered(row: Sequence[int], new_number: Mapping[int, int]) -> tuple[int, ...]:
    """Return a row of a table with new numbers of links; NONE for links without one."""
    return tuple(new_number.get(i, NONE) for i in row)
