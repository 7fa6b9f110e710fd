"""Networks small enough to be explored whole: routers, links, the flows that load them, the cables that may fail.

Routing is a table a set of failed cables: the network's own static routing while all work, and fewest links on what is
left otherwise, known to every router at once.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import networkx as nx

from testbed.errors import InputError
from testbed.interconnect.static_paths import NONE, build_paths
from topologies import load_network

Table = tuple[tuple[int, ...], ...]
"""[router][destination]: the link that leaves the router; NONE at the destination, or where none leads."""


@dataclass(frozen=True, kw_only=True)
class SmallNetwork:
    """Routers 0..R-1; links between them, numbered; ``flows``: (source router, destination router) of what hosts may
    send.

    ``cables``: those that may fail, as the numbers of their links; ``most_down``: so many at once. ``tables``: by the
    bit set of the failed ones. Links that no flow can ever use are left out.
    """

    name: str
    routers: int
    links: tuple[tuple[int, int], ...]
    flows: tuple[tuple[int, int], ...]
    cables: tuple[tuple[int, ...], ...] = ()
    most_down: int = 0
    tables: dict[int, Table] = field(default_factory=dict)

    def dead_links(self, down: int) -> frozenset[int]:
        """The links of the failed cables of a bit set."""
        return frozenset(
            link for c, links in enumerate(self.cables) if down >> c & 1 for link in links
        )

    def places(self) -> list[tuple[int, int]]:
        """(router, destination): where packets of the flows can come to be, whatever fails on their way."""
        found, seen = list(self.flows), set(self.flows)
        for router, goal in found:
            for table in self.tables.values():
                link = table[router][goal]
                following = (self.links[link][1], goal)
                if link != NONE and following not in seen:
                    seen.add(following)
                    found.append(following)
        return found


def small_network(
    name: str,
    flows: Sequence[tuple[int, int]],
    failing: Sequence[tuple[int, int]] = (),
    most_down: int = 0,
) -> SmallNetwork:
    """A network of the catalogue under these flows; ``failing``: pairs of routers whose cable may fail, ``most_down``
    at once.

    InputError where some of these failures leave a flow without a way, or touch no flow.

    >>> small_network("ring:3", [(0, 2)]).links
    ((0, 2),)
    """
    paths = build_paths(load_network(name))
    every = [
        (i, int(a), int(b))
        for i, (a, b) in enumerate(zip(paths.link_source, paths.link_target, strict=True))
        if a >= 0 <= b
    ]
    number = {old: new for new, (old, _, _) in enumerate(every)}
    ends = tuple((a, b) for _, a, b in every)
    own = tuple(
        tuple(number.get(int(paths.next_link[r, t]), NONE) for t in range(paths.routers))
        for r in range(paths.routers)
    )
    cables = tuple(
        tuple(i for i, (a, b) in enumerate(ends) if {a, b} == set(pair)) for pair in failing
    )
    tables = {}
    for down in range(1 << len(cables)):
        if down.bit_count() <= most_down:
            dead = {link for c, links in enumerate(cables) if down >> c & 1 for link in links}
            tables[down] = own if not dead else _fewest_links(paths.routers, ends, dead)
    whole = SmallNetwork(
        name=name,
        routers=paths.routers,
        links=ends,
        flows=tuple(flows),
        cables=cables,
        most_down=most_down,
        tables=tables,
    )
    return _only_used(whole)


def one_way_ring(routers: int, hops: Sequence[int]) -> SmallNetwork:
    """A ring whose hosts send to those so many links ahead, all the same way round (the document's tornado).

    >>> one_way_ring(3, [2]).flows
    ((0, 2), (1, 0), (2, 1))
    """
    table = tuple(tuple(NONE if r == t else r for t in range(routers)) for r in range(routers))
    return SmallNetwork(
        name=f"ring of {routers}, one way, {' or '.join(map(str, hops))} hops",
        routers=routers,
        links=tuple((r, (r + 1) % routers) for r in range(routers)),
        flows=tuple((r, (r + h) % routers) for r, h in itertools.product(range(routers), hops)),
        tables={0: table},
    )


def two_rings() -> SmallNetwork:
    """A ring of three (0, 1, 2) and a ring of four (0, 1, 3, 4), one way, that share the link from 0 to 1; all hosts
    send two ahead.

    Two inputs of router 0 want the link that they share, and an input of router 1 is on two cycles.
    """
    links = ((0, 1), (1, 2), (2, 0), (1, 3), (3, 4), (4, 0))
    flows = ((0, 2), (1, 0), (2, 1), (0, 3), (1, 4), (3, 0), (4, 1))
    table = _fewest_links(5, links, set())
    return SmallNetwork(
        name="two rings that share a link", routers=5, links=links, flows=flows, tables={0: table}
    )


def _fewest_links(routers: int, ends: Sequence[tuple[int, int]], dead: set[int]) -> Table:
    """Over the links that work; of equals the first link."""
    live = {i: link for i, link in enumerate(ends) if i not in dead}
    graph = nx.DiGraph(live.values())
    graph.add_nodes_from(range(routers))
    hops = dict(nx.all_pairs_shortest_path_length(graph))

    def first(router: int, goal: int) -> int:
        left = hops[router].get(goal)
        return next(
            (
                i
                for i, (a, b) in live.items()
                if a == router and hops[b].get(goal, routers) + 1 == left
            ),
            NONE,
        )

    return tuple(tuple(first(r, t) for t in range(routers)) for r in range(routers))


def _only_used(whole: SmallNetwork) -> SmallNetwork:
    """Without the links that no flow can come over, whatever fails on its way."""
    used: set[int] = set()
    for router, goal in whole.places():
        for table in whole.tables.values():
            if table[router][goal] == NONE and router != goal:
                raise InputError(
                    f"{whole.name}: no way from router {router} to {goal} after the failures"
                )
            used |= {table[router][goal]} - {NONE}
    if any(not used & set(links) for links in whole.cables):
        raise InputError(
            f"{whole.name}: a cable that is to fail carries none of the flows; name one that does"
        )
    retained = sorted(used)
    number = {old: new for new, old in enumerate(retained)}
    number[NONE] = NONE
    return replace(
        whole,
        links=tuple(whole.links[i] for i in retained),
        cables=tuple(tuple(number[i] for i in links if i in used) for links in whole.cables),
        tables={
            down: tuple(tuple(number.get(i, NONE) for i in row) for row in table)
            for down, table in whole.tables.items()
        },
    )
