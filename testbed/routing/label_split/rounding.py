"""From exact loads to whole numbers of labels: each link's share of 65,536 rounded up or down, flow conserved.

Pure and exact; which of the possible roundings comes out depends on the order of the network's links only.
"""

import math
from collections.abc import Mapping
from itertools import pairwise

from testbed.model.label_split import LABELS
from testbed.model.routes import SplitRoute
from topologies import Network

Units = dict[int, int]
"""Link index -> number of labels, loaded links only, in the network's order."""
Step = tuple[int, bool]
"""A link of a walk, and whether the walk follows it forwards (else against its direction)."""


def round_to_labels(route: SplitRoute) -> Units:
    """Integers u(l), each the floor or the ceiling of 65536 r(l), that conserve flow; as few loaded links as possible
    get none.

    While a link is fractional, a cycle of fractional links exists (ends of the flow included: they send whole labels);
    pushing around it makes at least one link whole. At most one round a link. Then, where a load below one label was
    rounded down to nothing, cycles on which more such links gain a label than lose theirs are looked for until there is
    none.

    >>> from fractions import Fraction
    >>> from topologies.network import Link, Node
    >>> net = Network(name="pair", nodes=(Node(id="a", kind="switch"), Node(id="b", kind="switch")),
    ...               links=tuple(Link(source="a", target="b", key=k) for k in range(3)))
    >>> third = Fraction(1, 3)
    >>> round_to_labels(SplitRoute(network=net, source="a", sink="b", method="thirds", loads=(third, third, third)))
    {0: 21846, 1: 21845, 2: 21845}
    """
    network = route.network
    scale = math.lcm(*{load.denominator for load in route.loads})
    exact = {
        i: load.numerator * (scale // load.denominator) * LABELS
        for i, load in enumerate(route.loads)
        if load
    }
    units = _whole(network, exact, scale)
    floors = {i: amount // scale for i, amount in exact.items() if amount % scale}
    if any(not units[i] for i in floors):
        _keep_small_loads(network, units, floors)
    return {i: u for i, u in units.items() if u}


def _whole(network: Network, exact: Mapping[int, int], scale: int) -> Units:
    """``exact`` in multiples of 1/scale, each moved to the whole number below or above it along cycles."""
    amount = dict(exact)
    around: dict[str, dict[int, bool]] = {}
    for i, value in amount.items():
        if value % scale:
            around.setdefault(network.links[i].source, {})[i] = True
            around.setdefault(network.links[i].target, {})[i] = False
    while any(around.values()):
        cycle = _cycle(network, around)
        room = min((-amount[i] if forward else amount[i]) % scale for i, forward in cycle)
        for i, forward in cycle:
            amount[i] += room if forward else -room
            if not amount[i] % scale:
                del around[network.links[i].source][i]
                del around[network.links[i].target][i]
    return {i: value // scale for i, value in amount.items()}


def _cycle(network: Network, around: Mapping[str, Mapping[int, bool]]) -> list[Step]:
    """A cycle of the links in ``around`` (node -> links at it, True where it leaves), walked without regard to
    direction."""
    node = next(n for n, links in around.items() if links)
    seen: dict[str, int] = {}
    walk: list[Step] = []
    last = -1
    while node not in seen:
        seen[node] = len(walk)
        last, forward = next((i, leaves) for i, leaves in around[node].items() if i != last)
        walk.append((last, forward))
        node = network.links[last].target if forward else network.links[last].source
    return walk[seen[node] :]


def _keep_small_loads(network: Network, units: Units, floors: Mapping[int, int]) -> None:
    """Move labels along cycles of gain until none is left: the greatest number of small loads then has a label.

    Least-cost flow by negative cycles, each gains one link at least. ``floors``: the fractional links' lower bounds;
    the upper ones are one more. A link with floor 0 gains 1 when it gets its label.
    """
    while cycle := _gaining_cycle(network, units, floors):
        for i, forward in cycle:
            units[i] += 1 if forward else -1


def _gaining_cycle(network: Network, units: Units, floors: Mapping[int, int]) -> list[Step]:
    """A cycle of positive gain in the residual network, or nothing."""
    import networkx  # rarely needed

    graph = networkx.DiGraph()
    for i, floor in floors.items():
        link, rises = network.links[i], units[i] == floor
        ends = (link.source, link.target) if rises else (link.target, link.source)
        cost = (-1 if rises else 1) * (floor == 0)
        if not graph.has_edge(*ends) or cost < graph.edges[ends]["weight"]:
            graph.add_edge(*ends, weight=cost, step=(i, rises))
    graph.add_weighted_edges_from([("", node, 0) for node in graph])
    try:
        cycle = networkx.find_negative_cycle(graph, "")
    except networkx.NetworkXError:
        return []
    return [graph.edges[ends]["step"] for ends in pairwise(cycle)]
