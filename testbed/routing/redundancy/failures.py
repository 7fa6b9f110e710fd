"""What share of a flow is lost when a set of links fails: the function loss(l1, l2) that Appendix G of Gabrielyan 2007
leaves open.

Two models: every node splits each packet again in the proportions of its links' loads (theory), or label intervals
(switches).
"""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from testbed.errors import InputError
from testbed.model.label_split import LABELS, LabelSplit
from testbed.model.routes import SplitRoute


def failure_loss(route: SplitRoute, failed: Iterable[int]) -> Fraction:
    """Exact share of the flow that does not arrive while the links ``failed`` (indices into the network's) are down.

    Hop-by-hop proportional model: a node sends each packet on at random, in the proportions of its outgoing loads,
    whether or not those links work. One pass in the order of the flow. Raises InputError for a link that is not in
    the network, and for a flow with a cycle.

    >>> from topologies.network import Link, Network, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> halves = SplitRoute(network=square, source="a", sink="d", method="halves", loads=(Fraction(1, 2),) * 4)
    >>> [str(failure_loss(halves, pair)) for pair in ((0, 2), (0, 1), (0, 3))]
    ['1/2', '1', '1']
    """
    dead = _checked(route, failed)
    arriving = {route.source: Fraction(1)}
    for node, out in route.in_flow_order(route.loaded):
        here = arriving.get(node, Fraction(0))
        total = sum((route.loads[i] for i in out), Fraction(0))
        for i in out:
            if i not in dead:
                head = route.network.links[i].target
                arriving[head] = arriving.get(head, Fraction(0)) + here * route.loads[i] / total
    return 1 - arriving.get(route.sink, Fraction(0))


def pair_losses(route: SplitRoute) -> NDArray[np.float64]:
    """Loss of every pair of failed links, by the model of ``failure_loss``; symmetric, (loaded, loaded), in floats.

    Rows and columns are those of ``route.loaded``; the diagonal holds the single losses r(l). loss(l1, l2) is
    r1 + r2 - J12 - J21 with J12 = r1 * P(head of l1 reaches tail of l2) * r2 / outflow(tail of l2): what passes
    through both is lost once. Time: nodes * links.
    """
    loaded, network = route.loaded, route.network
    order = route.in_flow_order(route.loaded)
    place = {node: at for at, (node, _) in enumerate(order)}
    reach = np.zeros((len(order), len(order)))  # [from, to]: probability that a packet at the one passes the other
    outflow = np.ones(len(order))
    for node, out in reversed(order):
        at = place[node]
        reach[at, at] = 1.0
        if out:
            outflow[at] = float(sum((route.loads[i] for i in out), Fraction(0)))
        for i in out:
            reach[at] += float(route.loads[i]) / outflow[at] * reach[place[network.links[i].target]]
    load = np.array([float(route.loads[i]) for i in loaded])
    tail = np.array([place[network.links[i].source] for i in loaded], dtype=np.int64)
    head = np.array([place[network.links[i].target] for i in loaded], dtype=np.int64)
    both = load[:, None] * reach[np.ix_(head, tail)] * (load / outflow[tail])[None, :]
    losses = load[:, None] + load[None, :] - both - both.T
    np.fill_diagonal(losses, load)
    return np.asarray(np.clip(losses, 0.0, 1.0), dtype=np.float64)


def interval_loss(split: LabelSplit, failed: Iterable[int]) -> Fraction:
    """Exact share of the labels whose path crosses any of the links ``failed``: what is lost on switches."""
    dead = frozenset(failed)
    return Fraction(sum(p.stop - p.start for p in split.paths if not dead.isdisjoint(p.links)), LABELS)


def _checked(route: SplitRoute, failed: Iterable[int]) -> frozenset[int]:
    dead = frozenset(failed)
    for link in dead:
        if not 0 <= link < len(route.loads):
            raise InputError(
                f"failed link {link}: network {route.network.name!r} has links 0 to {len(route.loads) - 1}"
            )
    return dead
