"""Rounding of exact loads to numbers of labels.

Each link's share of 65,536 labels is rounded up or down so that the flow is conserved. The rounding
is exact. Of the possible roundings, the order of the network's links selects one.
"""

import math
from collections.abc import Mapping
from itertools import pairwise

from testbed.model.label_split import LABELS
from testbed.model.routes import SplitRoute
from topologies import Network

# Number of labels of each loaded link, by the link's index, in the network's order.
Units = dict[int, int]

# A link of a walk, and whether the walk follows it in its direction.
Step = tuple[int, bool]


def round_to_labels(route: SplitRoute) -> Units:
    """Round 65,536 r(l) up or down to integers that conserve flow.

    While a link has a fraction, there is a cycle of such links (through any node, because the ends
    of the flow send whole labels too). Flow is pushed around it until at least one link becomes an
    integer, so at most one round per link is needed.

    Then as few loaded links as possible should have no label. Where a load below one label was
    rounded down to zero, cycles are searched on which more of such links gain a label than lose
    theirs, until there is none.

    >>> from fractions import Fraction
    >>> from topologies.network import Link, Node
    >>> nodes = (Node(id="a", kind="switch"), Node(id="b", kind="switch"))
    >>> links = tuple(Link(source="a", target="b", key=k) for k in range(3))
    >>> net = Network(name="pair", nodes=nodes, links=links)
    >>> thirds = SplitRoute(network=net, source="a", sink="b", method="thirds",
    ...                     loads=(Fraction(1, 3),) * 3)
    >>> round_to_labels(thirds)
    {0: 21846, 1: 21845, 2: 21845}
    """
    network = route.network
    scale = math.lcm(*{load.denominator for load in route.loads})
    # Number of labels of each loaded link, in units of 1 / scale.
    exact = {}
    for i, load in enumerate(route.loads):
        if load:
            exact[i] = load.numerator * (scale // load.denominator) * LABELS
    units = _rounded_along_cycles(network, exact, scale)
    # Lower bound of each link with a fraction.
    floors = {i: amount // scale for i, amount in exact.items() if amount % scale}
    if 0 in units.values():
        _keep_small_loads(network, units, floors)
    return {i: labels for i, labels in units.items() if labels}


def _rounded_along_cycles(network: Network, exact: Mapping[int, int], scale: int) -> Units:
    """Move every amount to the integer below or above it, by pushing flow around cycles.

    Args:
        network: The network.
        exact: Number of labels of each link, in units of 1 / ``scale``.
        scale: Number of units of one label.
    """
    amount = dict(exact)
    # The links with a fraction at each node, and whether each leaves the node.
    fractional: dict[str, dict[int, bool]] = {}
    for i, value in amount.items():
        if value % scale:
            fractional.setdefault(network.links[i].source, {})[i] = True
            fractional.setdefault(network.links[i].target, {})[i] = False
    while any(fractional.values()):
        cycle = _cycle(network, fractional)
        # What each link can gain or lose until it is an integer; the smallest decides.
        distances = []
        for i, forward in cycle:
            signed_amount = -amount[i] if forward else amount[i]
            distances.append(signed_amount % scale)
        push = min(distances)
        for i, forward in cycle:
            amount[i] += push if forward else -push
            if not amount[i] % scale:
                del fractional[network.links[i].source][i]
                del fractional[network.links[i].target][i]
    return {i: value // scale for i, value in amount.items()}


def _cycle(network: Network, links_at: Mapping[str, Mapping[int, bool]]) -> list[Step]:
    """Return a cycle, walked without regard to the direction of links.

    Args:
        network: The network.
        links_at: The usable links at each node, and whether each leaves the node. Every node with
            a link has at least two.
    """
    node = next(node for node, links in links_at.items() if links)
    steps_before: dict[str, int] = {}
    walk: list[Step] = []
    previous_link = -1
    while node not in steps_before:
        steps_before[node] = len(walk)
        link, leaves = next(step for step in links_at[node].items() if step[0] != previous_link)
        walk.append((link, leaves))
        previous_link = link
        node = network.links[link].target if leaves else network.links[link].source
    return walk[steps_before[node] :]


def _keep_small_loads(network: Network, units: Units, floors: Mapping[int, int]) -> None:
    """Move labels around cycles until as many small loads as possible have a label.

    This is a minimum-cost flow by cancelling negative cycles: a link whose floor is 0 has a gain of
    1 if it gets its label. Each cycle gains at least one link.

    Args:
        network: The network.
        units: Number of labels of each link; changed in place.
        floors: Lower bound of each link with a fraction. The upper bound is one more.
    """
    while cycle := _gaining_cycle(network, units, floors):
        for i, forward in cycle:
            units[i] += 1 if forward else -1


def _gaining_cycle(network: Network, units: Units, floors: Mapping[int, int]) -> list[Step]:
    """Return a cycle of positive gain in the residual network, or an empty list.

    The arguments are those of ``_keep_small_loads``.
    """
    import networkx  # Imported here, because it is rarely needed.

    graph = networkx.DiGraph()
    for i, floor in floors.items():
        link = network.links[i]
        can_rise = units[i] == floor
        ends = (link.source, link.target) if can_rise else (link.target, link.source)
        cost = 0
        if floor == 0:
            cost = -1 if can_rise else 1
        if not graph.has_edge(*ends) or cost < graph.edges[ends]["weight"]:
            graph.add_edge(*ends, weight=cost, step=(i, can_rise))
    # An artificial node from which every node can be reached.
    graph.add_weighted_edges_from([("", node, 0) for node in graph])
    try:
        cycle = networkx.find_negative_cycle(graph, "")
    except networkx.NetworkXError:
        return []  # There is no negative cycle.
    return [graph.edges[ends]["step"] for ends in pairwise(cycle)]
