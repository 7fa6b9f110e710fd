"""Losses that arrive in bursts: their mean, their memory, and the losses of a block.

An impairment that loses packets is described by its mean survival s, by the variance v of the
survival over the states of its chain, and by the memory m of these states. The survival of two
packets that cross the link k packets apart has the covariance v m^k (Gilbert 1960; Elliott 1963 for
the losses of a block). Several impairments of one link multiply.
"""

from functools import lru_cache

import numpy as np

from testbed.stream.measurements import FloatArray
from topologies.impairments import GilbertElliott, Impairment, Impairments

# The losses of two packets that are further apart than this number of packets count as independent.
_MAX_LAG = 2000
# Sums over the distance of two packets end at the first covariance below this.
_NEGLIGIBLE = 1e-12


def survival_covariance(impairments: Impairments, lag: int) -> float:
    """Return the covariance of the survival of two packets, ``lag`` packets apart on the link.

    Args:
        impairments: The impairments of the link.
        lag: A number of packets, 1 or more.
    """
    together = 1.0
    independent = 1.0
    for step in impairments:
        survival = 1 - step.mean_loss
        together *= survival**2 + _state_variance(step) * _memory(step) ** lag
        independent *= survival**2
    return together - independent


def follows_a_loss(impairments: Impairments) -> float:
    """Return the probability that the packet after a lost one is lost as well.

    If losses are independent, this is the mean share of packets lost.
    """
    lost = mean_of(impairments)
    return (survival_covariance(impairments, 1) + lost**2) / lost


def mean_of(impairments: Impairments) -> float:
    """Return the mean share of packets lost."""
    retained = 1.0
    for step in impairments:
        retained *= 1 - step.mean_loss
    return 1 - retained


def share_error(impairments: Impairments, packets: int) -> float:
    """Return the standard deviation of the share of lost packets among consecutive packets.

    Args:
        impairments: The impairments of the link.
        packets: Number of consecutive packets.
    """
    lost = mean_of(impairments)
    total = lost * (1 - lost)
    for lag in range(1, min(packets, _MAX_LAG)):
        covariance = survival_covariance(impairments, lag) * (1 - lag / packets)
        total += 2 * covariance
        if abs(covariance) < _NEGLIGIBLE:
            break
    return float(np.sqrt(max(total, 0.0) / packets))


@lru_cache(maxsize=4096)
def losses_in_block(chain: GilbertElliott, gaps: tuple[int, ...]) -> FloatArray:
    """Return the probabilities of 0, 1, ... losses among the packets of a block.

    This is Elliott's recursion over the state and the losses so far, from the stationary state.
    Cost: O(n^2) for n packets.

    Args:
        chain: The chain of the link.
        gaps: For each packet except the first, its distance from the previous packet of the block,
            counted in packets of the link; 1 for neighbours.

    Returns:
        Shape (len(gaps) + 2,).

    Two neighbours are both lost with the share of the bad state, times the probability to stay
    there:

    >>> chain = GilbertElliott(p=0.1, r=0.3)
    >>> round(float(losses_in_block(chain, (1,))[2]), 3)
    0.175
    """
    count = len(gaps) + 1
    # Rows: the state is good, or bad. Columns: the losses so far.
    probability = np.zeros((2, count + 1))
    probability[0, 0] = 1 - chain.loss_in_bad_state
    probability[1, 0] = chain.loss_in_bad_state
    lost = np.array([[chain.good_loss], [chain.bad_loss]])
    for gap in (*gaps, 0):
        after = probability * (1 - lost)
        after[:, 1:] += (probability * lost)[:, :-1]
        probability = _transition(chain, gap) @ after
    return np.asarray(probability.sum(axis=0))


def _transition(chain: GilbertElliott, steps: int) -> FloatArray:
    """Return the probability of each state (row) after ``steps`` packets, by the first (column)."""
    stay = chain.memory**steps
    bad_share = chain.loss_in_bad_state
    to_bad = bad_share * (1 - stay)
    to_good = (1 - bad_share) * (1 - stay)
    return np.array([[1 - to_bad, to_good], [to_bad, 1 - to_good]])


def binomial_losses(fraction: float, count: int) -> FloatArray:
    """Return the probabilities of 0 to ``count`` losses among independent packets."""
    from scipy.stats import binom

    return np.asarray(binom.pmf(np.arange(count + 1), count, fraction), dtype=np.float64)


def _state_variance(impairment: Impairment) -> float:
    if not isinstance(impairment, GilbertElliott):
        return 0.0
    bad_share = impairment.loss_in_bad_state
    difference = impairment.bad_loss - impairment.good_loss
    return bad_share * (1 - bad_share) * difference**2


def _memory(impairment: Impairment) -> float:
    return impairment.memory if isinstance(impairment, GilbertElliott) else 0.0
