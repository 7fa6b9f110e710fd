"""Limits of the difference between measured and predicted losses of an impaired link.

A tolerance is a multiple of the standard deviation for the number of packets that crossed the link.
From it follows how many packets must cross a link before the checks can distinguish its losses from
their rivals: no losses, and as many independent losses.
"""

import math

from testbed.stream.impaired.burst_loss import (
    follows_a_loss,
    mean_of,
    share_error,
)
from topologies.impairments import (
    Duplication,
    GilbertElliott,
    Impairments,
    RateTrace,
)

# Tolerances are this number of standard deviations.
SIGMAS = 4.0
# With fewer packets there is no check.
MIN_PACKETS = 200
# No run has more packets.
_MAX_PACKETS = 1e7
# The search for the necessary number of packets multiplies the number by this factor in each step.
_STEP = 1.25


def packets_needed(impairments: Impairments) -> float:
    """Return how many packets must cross the link, and no other impaired one, for its checks.

    With this number, the checks distinguish the link from one that loses nothing, and from one that
    loses the same share of packets independently. The number is accurate to 25 %. It is
    infinite if no number of packets is sufficient.
    """
    mean = mean_of(impairments)
    needed = float(MIN_PACKETS)
    if not mean or any(isinstance(step, RateTrace) for step in impairments):
        return needed
    losing = without_copies(impairments)
    excess = math.inf
    if number_of_chains(losing) == 1:
        excess = abs(follows_a_loss(losing) - mean_of(losing))
    while needed < _MAX_PACKETS:
        loss_tells = loss_tolerance(impairments, int(needed)) < mean
        if loss_tells and burst_tolerance(losing, int(needed * mean)) < excess:
            return needed
        needed *= _STEP
    return math.inf


def number_of_chains(impairments: Impairments) -> int:
    """Return how many of the impairments lose packets in bursts."""
    return sum(isinstance(step, GilbertElliott) for step in impairments)


def without_copies(impairments: Impairments) -> Impairments:
    """Return the impairments except those that duplicate packets."""
    return tuple(step for step in impairments if not isinstance(step, Duplication))


def loss_tolerance(impairments: Impairments, packets: int) -> float:
    """Return how far the measured share of losses may be from its mean.

    This is ``SIGMAS`` standard deviations, and the share of losses that duplicates may hide.
    """
    fractions = [step.fraction for step in impairments if isinstance(step, Duplication)]
    repaired = mean_of(impairments) * math.prod(fractions) if fractions else 0.0
    return SIGMAS * share_error(without_copies(impairments), packets) + 1 / packets + repaired


def burst_tolerance(impairments: Impairments, losses: int) -> float:
    """Return how far the share of losses that follow a loss may be from its mean.

    It is 0 if no impairment loses in bursts.
    """
    chain = next(
        (step for step in impairments if isinstance(step, GilbertElliott)),
        None,
    )
    if chain is None:
        return 0.0
    expected = follows_a_loss(impairments)
    memory = max(0.0, chain.memory)
    simple = chain.bad_loss == 1 and chain.good_loss == 0 and len(impairments) == 1
    correlation = 1.0 if simple else (1 + memory) / (1 - memory)
    variance = expected * (1 - expected) * correlation / max(1, losses)
    return SIGMAS * math.sqrt(variance) + 1 / max(1, losses)
