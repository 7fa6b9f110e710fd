"""The loss while a set of links is down, and how often failures overlap.

The loss is the function loss(l1, l2) that appendix G of Gabrielyan 2007 leaves open. There are two
models: in the theoretical one, every node splits the packets at random in the proportions of its
links' loads; on switches, labels decide.

Failures overlap according to the model of appendix G, as corrected: every link fails as a Poisson
process of its own, on average once in ``between_s`` seconds, each time for ``failure_s`` seconds.
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
    """Return the exact share of the flow that is lost while links are down.

    This is the hop-by-hop proportional model: a node forwards each packet at random, in the
    proportions of its outgoing loads, whether or not those links work. Nodes are visited in the
    order of the flow, from the source to the sink.

    Args:
        route: The route.
        failed: Indices of the failed links in the network.

    Raises:
        InputError: A link is not in the network, or the flow has a cycle.

    >>> from topologies.network import Link, Network, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> halves = SplitRoute(network=square, source="a", sink="d", method="halves",
    ...                     loads=(Fraction(1, 2),) * 4)
    >>> [str(failure_loss(halves, pair)) for pair in ((0, 2), (0, 1), (0, 3))]
    ['1/2', '1', '1']
    """
    failed_links = frozenset(failed)
    for link in failed_links:
        if not 0 <= link < len(route.loads):
            raise InputError(
                f"failed link {link}: network {route.network.name!r} has links 0 to "
                f"{len(route.loads) - 1}"
            )
    # Share of the flow that arrives at each node.
    arriving = {route.source: Fraction(1)}
    for node, outgoing in route.in_flow_order(route.loaded):
        amount = arriving.get(node, Fraction(0))
        outflow = sum((route.loads[i] for i in outgoing), Fraction(0))
        for i in outgoing:
            if i not in failed_links:
                head = route.network.links[i].target
                part = amount * route.loads[i] / outflow
                arriving[head] = arriving.get(head, Fraction(0)) + part
    return 1 - arriving.get(route.sink, Fraction(0))


def pair_losses(route: SplitRoute) -> NDArray[np.float64]:
    """Return the loss of every pair of failed links, in the model of ``failure_loss``.

    With r the loads, loss(l1, l2) is r1 + r2 - J12 - J21, because flow through both links is lost
    only once. J12 = r1 * P(head of l1 reaches tail of l2) * r2 / outflow(tail of l2) is the flow
    through l1 and then l2. The time is proportional to nodes * links.

    Returns:
        Symmetric array; its rows and columns are the links of ``route.loaded``. The diagonal has
        the losses r(l) of single links.
    """
    loaded = route.loaded
    links = route.network.links
    order = route.in_flow_order(loaded)
    position = {node: i for i, (node, _) in enumerate(order)}
    # reach[a, b] is the probability that a packet at the node at position a passes position b.
    reach = np.zeros((len(order), len(order)))
    outflow = np.ones(len(order))
    for node, outgoing in reversed(order):
        i = position[node]
        reach[i, i] = 1.0
        if outgoing:
            outflow[i] = float(sum((route.loads[link] for link in outgoing), Fraction(0)))
        for link in outgoing:
            probability = float(route.loads[link]) / outflow[i]
            reach[i] += probability * reach[position[links[link].target]]
    load = np.zeros(len(loaded))
    tail = np.zeros(len(loaded), dtype=np.int64)
    head = np.zeros(len(loaded), dtype=np.int64)
    for row, link in enumerate(loaded):
        load[row] = float(route.loads[link])
        tail[row] = position[links[link].source]
        head[row] = position[links[link].target]
    flow_through_both = load[:, None] * reach[np.ix_(head, tail)] * (load / outflow[tail])[None, :]
    losses = load[:, None] + load[None, :] - flow_through_both - flow_through_both.T
    np.fill_diagonal(losses, load)
    return np.asarray(np.clip(losses, 0.0, 1.0), dtype=np.float64)


def interval_loss(split: LabelSplit, failed: Iterable[int]) -> Fraction:
    """Return the exact share of the labels whose path crosses a failed link.

    This is the loss on switches.

    Args:
        split: The label split.
        failed: Indices of the failed links in the network.
    """
    failed_links = frozenset(failed)
    lost_labels = 0
    for path in split.paths:
        if not failed_links.isdisjoint(path.links):
            lost_labels += path.stop - path.start
    return Fraction(lost_labels, LABELS)


def overlap_probability(links: int, failure_s: float, between_s: float) -> float:
    """Return the probability that a failure begins before the previous one has ended.

    Source: Gabrielyan 2007, equation 39: 1 - exp(-N t / d).

    Args:
        links: Number N of links.
        failure_s: Duration t of a failure in seconds.
        between_s: Mean time d between two failures of one link in seconds.

    >>> round(overlap_probability(50, 2, 3600), 4), round(overlap_probability(50, 1, 3600), 4)
    (0.0274, 0.0138)
    """
    return -math.expm1(-_mean_active_failures(links, failure_s, between_s))


def most_links(overlap: float, failure_s: float, between_s: float) -> float:
    """Return the number of links up to which failures overlap with at most this probability.

    Source: Gabrielyan 2007, equation 42, where the probability is called FOP.

    Args:
        overlap: Largest accepted probability that two consecutive failures overlap.
        failure_s: Duration of a failure in seconds.
        between_s: Mean time between two failures of one link in seconds.

    >>> int(most_links(0.05, 5, 86400))
    886
    """
    if not 0 <= overlap < 1:
        raise InputError(f"overlapping probability {overlap!r}: give one from 0 to below 1")
    return -math.log1p(-overlap) / _mean_active_failures(1, failure_s, between_s)


def single_share(links: int, failure_s: float, between_s: float) -> float:
    """Return k1 of equation 44: how much of the time with any failure has exactly one.

    Any number of failures may overlap. The number of active failures is Poisson distributed with
    mean rho = N t / d, so k1 = rho exp(-rho) / (1 - exp(-rho)).

    Args:
        links: Number N of links.
        failure_s: Duration t of a failure in seconds.
        between_s: Mean time d between two failures of one link in seconds.

    >>> round(single_share(50, 2, 3600), 4)
    0.9862
    """
    rho = _mean_active_failures(links, failure_s, between_s)
    return rho * math.exp(-rho) / -math.expm1(-rho)


def single_share_of_two(links: int, failure_s: float, between_s: float) -> float:
    """Return k1 of equation 44 without failures of three links at once, as the thesis assumes.

    Then k1 = 1 / (1 + rho / 2), and k2 is 1 - k1. The arguments are those of ``single_share``.

    >>> round(single_share_of_two(50, 2, 3600), 4)
    0.9863
    """
    return 1 / (1 + _mean_active_failures(links, failure_s, between_s) / 2)


def unavailability(failure_s: float, between_s: float) -> float:
    """Return the share of the time in which a link is down: t / (t + d).

    Args:
        failure_s: Duration t of a failure in seconds.
        between_s: Mean time d from a repair to the next failure in seconds.
    """
    _check_durations(failure_s, between_s)
    return failure_s / (failure_s + between_s)


def overlapping_ror(ror_of_one: float, ror_of_two: float, links: int, unavailable: float) -> float:
    """Return the ROR if up to two links are down at once.

    It is (1-u)^(N-1) ROR1 + u (1-u)^(N-2) ROR2. Multiplied by u, it is the mean redundancy of a
    long communication. Equations 45 and 54 of Gabrielyan 2007 use the weights k1 and k2 instead,
    which mixes a sum over N links with a sum over N (N - 1) / 2 pairs.

    Args:
        ror_of_one: ROR1, the sum over all single failures.
        ror_of_two: ROR2, the sum over all pairs of failures.
        links: Number N of links.
        unavailable: Share u of the time in which a link is down.

    >>> overlapping_ror(10.0, 100.0, 50, 0.0)
    10.0
    """
    if not 0 <= unavailable < 1:
        raise InputError(
            f"unavailability {unavailable!r}: give a share of the time, from 0 to below 1"
        )
    _check_links(links)
    available = 1 - unavailable
    single_failures = available ** (links - 1) * ror_of_one
    if links < 2 or not unavailable:
        return float(single_failures)
    double_failures = unavailable * available ** (links - 2) * ror_of_two
    return float(single_failures + double_failures)


def _mean_active_failures(links: int, failure_s: float, between_s: float) -> float:
    """Return rho = N t / d, the mean number of failures that are active at a time."""
    _check_links(links)
    _check_durations(failure_s, between_s)
    return links * failure_s / between_s


def _check_links(links: int) -> None:
    if links < 1:
        raise InputError(f"links {links}: give 1 or more")


def _check_durations(failure_s: float, between_s: float) -> None:
    if not (0 < failure_s < math.inf) or not (0 < between_s < math.inf):
        raise InputError(
            f"failures of {failure_s!r} s, one in {between_s!r} s: give seconds above 0"
        )
