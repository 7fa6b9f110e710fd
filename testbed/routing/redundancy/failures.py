"""What share of a flow is lost when a set of links fails: the function loss(l1, l2) that Appendix G of Gabrielyan 2007
leaves open.

Two models: every node splits each packet again in the proportions of its links' loads (theory), or label intervals
(switches). And how often failures overlap when every link fails as a Poisson process of its own, once in ``between_s``
seconds on average, each time for ``failure_s``, and what overlaps do to ROR (appendix G, as corrected).
"""

import math
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
    dead = frozenset(failed)
    if wrong := [link for link in dead if not 0 <= link < len(route.loads)]:
        raise InputError(
            f"failed link {wrong[0]}: network {route.network.name!r} has links 0 to {len(route.loads) - 1}"
        )
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
    reach = np.zeros(
        (len(order), len(order))
    )  # [from, to]: probability that a packet at the one passes the other
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
    return Fraction(
        sum(p.stop - p.start for p in split.paths if not dead.isdisjoint(p.links)), LABELS
    )


def overlap_probability(links: int, failure_s: float, between_s: float) -> float:
    """Probability that a failure begins before the one before it has ended (Gabrielyan 2007, eq. 39): 1 - exp(-N t /
    d).

    >>> round(overlap_probability(50, 2, 3600), 4), round(overlap_probability(50, 1, 3600), 4)
    (0.0274, 0.0138)
    """
    return -math.expm1(-_offered(links, failure_s, between_s))


def most_links(overlap: float, failure_s: float, between_s: float) -> float:
    """Links up to which two consecutive failures overlap with a probability of at most ``overlap``: FOP (Gabrielyan
    2007, eq. 42).

    >>> int(most_links(0.05, 5, 86400))
    886
    """
    if not 0 <= overlap < 1:
        raise InputError(f"overlapping probability {overlap!r}: give one from 0 to below 1")
    return -math.log1p(-overlap) / _offered(1, failure_s, between_s)


def single_share(links: int, failure_s: float, between_s: float) -> float:
    """k1 of eq. 44, the share of the time in which any link is down that just one is, with overlaps of any number:
    failures in force are Poisson with mean rho = N t / d.

    k1 = rho exp(-rho) / (1 - exp(-rho)).

    >>> round(single_share(50, 2, 3600), 4)
    0.9862
    """
    rho = _offered(links, failure_s, between_s)
    return rho * math.exp(-rho) / -math.expm1(-rho)


def single_share_of_two(links: int, failure_s: float, between_s: float) -> float:
    """k1 where three failures at once are neglected, as eq. 44 assumes (k2 is the rest): k1 = 1 / (1 + rho / 2).

    >>> round(single_share_of_two(50, 2, 3600), 4)
    0.9863
    """
    return 1 / (1 + _offered(links, failure_s, between_s) / 2)


def unavailability(failure_s: float, between_s: float) -> float:
    """Share of the time in which a link is down, where failures follow ``between_s`` after repairs: t / (t + d)."""
    _offered(1, failure_s, between_s)
    return failure_s / (failure_s + between_s)


def overlapping_ror(ror_of_one: float, ror_of_two: float, links: int, unavailable: float) -> float:
    """ROR with failures of up to two links at once: (1-u)^(N-1) ROR1 + u (1-u)^(N-2) ROR2, ROR2 over *all* pairs.

    Times u, the share of the time that a link is down, it is the mean redundancy of a long communication. Gabrielyan's
    eq. 45 and 54 weigh with k1 and k2 instead, which mixes a sum over N links with one over N (N - 1) / 2 pairs.

    >>> overlapping_ror(10.0, 100.0, 50, 0.0)
    10.0
    """
    if not 0 <= unavailable < 1:
        raise InputError(
            f"unavailability {unavailable!r}: give a share of the time, from 0 to below 1"
        )
    if links < 1:
        raise InputError(f"links {links}: give 1 or more")
    up = 1 - unavailable
    second = 0.0 if links < 2 or not unavailable else unavailable * up ** (links - 2) * ror_of_two
    return float(up ** (links - 1) * ror_of_one + second)


def _offered(links: int, failure_s: float, between_s: float) -> float:
    """rho = N t / d: failures in force on average."""
    if links < 1:
        raise InputError(f"links {links}: give 1 or more")
    if not (0 < failure_s < math.inf) or not (0 < between_s < math.inf):
        raise InputError(
            f"failures of {failure_s!r} s, one in {between_s!r} s: give seconds above 0"
        )
    return links * failure_s / between_s
