"""How often failures overlap when links fail at random, and what overlaps do to ROR (Gabrielyan 2007, appendix G, as
corrected).

Every link fails as a Poisson process of its own: once in ``between_s`` seconds on average, each time for ``failure_s``.
"""

import math
from dataclasses import dataclass

from testbed.errors import InputError


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


@dataclass(frozen=True, kw_only=True)
class FailureWeights:
    """Shares of the time in which any link is down: ``one`` (k1) and ``more`` than one at once (k2 and all above)."""

    one: float
    more: float


def failure_weights(links: int, failure_s: float, between_s: float) -> FailureWeights:
    """k1 and 1 - k1 of eq. 44, with overlaps of any number: failures in force are Poisson with mean rho = N t / d.

    k1 = rho exp(-rho) / (1 - exp(-rho)).

    >>> round(failure_weights(50, 2, 3600).one, 4)
    0.9862
    """
    rho = _offered(links, failure_s, between_s)
    one = rho / math.expm1(rho)
    return FailureWeights(one=one, more=1 - one)


def failure_weights_of_two(links: int, failure_s: float, between_s: float) -> FailureWeights:
    """k1 and k2 where three failures at once are neglected, as eq. 44 assumes: k1 = 1 / (1 + rho / 2).

    >>> round(failure_weights_of_two(50, 2, 3600).one, 4)
    0.9863
    """
    one = 1 / (1 + _offered(links, failure_s, between_s) / 2)
    return FailureWeights(one=one, more=1 - one)


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
        raise InputError(f"unavailability {unavailable!r}: give a share of the time, from 0 to below 1")
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
        raise InputError(f"failures of {failure_s!r} s, one in {between_s!r} s: give seconds above 0")
    return links * failure_s / between_s
