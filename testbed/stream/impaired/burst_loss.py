"""Theory of losses that come in bursts: mean, memory and the losses of a block, for chains of Gilbert's and Elliott's;
and how long delays and reordering hold packets up; pure.

A stage of loss is (its mean survival s, the variance v of what its state alone says, the memory m of that state):
survival of two packets k apart has the covariance v m^k (Gilbert 1960; Elliott 1963 for the losses of a block). Stages
multiply.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from testbed.stream.measurements import BoolArray, FloatArray
from topologies.impairments import (
    Duplication,
    ExtraDelay,
    GilbertElliott,
    Impairments,
    RateTrace,
    Reordering,
)

_LAGS = 2000


def survival_covariance(impairments: Impairments, lag: int) -> float:
    """Covariance of the survival of two packets that come ``lag`` (1 or more) after one another over the link."""
    together = apart = 1.0
    for one in impairments:
        survival = 1 - one.mean_loss
        together *= survival**2 + _state_variance(one) * _memory(one) ** lag
        apart *= survival**2
    return together - apart


def follows_a_loss(impairments: Impairments) -> float:
    """Probability that the packet after a lost one is lost as well; of independent losses, their mean."""
    lost = mean_of(impairments)
    return (survival_covariance(impairments, 1) + lost**2) / lost


def mean_of(impairments: Impairments) -> float:
    """The share of packets lost in the long run."""
    retained = 1.0
    for one in impairments:
        retained *= 1 - one.mean_loss
    return 1 - retained


def share_error(impairments: Impairments, packets: int) -> float:
    """Standard deviation of the share that is lost of so many packets in a row."""
    lost = mean_of(impairments)
    total = lost * (1 - lost)
    for lag in range(1, min(packets, _LAGS)):
        step = survival_covariance(impairments, lag) * (1 - lag / packets)
        total += 2 * step
        if abs(step) < 1e-12:
            break
    return float(np.sqrt(max(total, 0.0) / packets))


@lru_cache(maxsize=4096)
def losses_in_block(chain: GilbertElliott, gaps: tuple[int, ...]) -> FloatArray:
    """Shape (len(gaps) + 2,): probability of 0, 1, ... losses among len(gaps) + 1 packets that lie ``gaps`` packets of
    the link apart.

    Elliott's recursion over (state, losses), begun in the stationary state; cost O(n^2) for n packets.

    >>> chain = GilbertElliott(p=0.1, r=0.3)
    >>> round(float(losses_in_block(chain, (1,))[2]), 3)  # both lost: the bad state's share, times staying bad
    0.175
    """
    count = len(gaps) + 1
    found = np.zeros((2, count + 1))  # state good, bad; losses so far
    found[:, 0] = 1 - chain.loss_in_bad_state, chain.loss_in_bad_state
    lost = np.array([[chain.good_loss], [chain.bad_loss]])
    for gap in (*gaps, 0):
        after = found * (1 - lost)
        after[:, 1:] += (found * lost)[:, :-1]
        found = _moved(chain, gap) @ after
    return np.asarray(found.sum(axis=0))


def _moved(chain: GilbertElliott, steps: int) -> FloatArray:
    """Shape (2, 2): probability of the state (row) after so many packets, given the state now (column)."""
    stay, share = chain.memory**steps, chain.loss_in_bad_state
    to_bad = share * (1 - stay)
    to_good = (1 - share) * (1 - stay)
    return np.array([[1 - to_bad, to_good], [to_bad, 1 - to_good]])


def binomial_losses(fraction: float, count: int) -> FloatArray:
    """Shape (count + 1,): probability of 0, 1, ... losses of so many packets that are lost independently."""
    from scipy.stats import binom

    return np.asarray(binom.pmf(np.arange(count + 1), count, fraction), dtype=np.float64)


def _state_variance(one: object) -> float:
    if not isinstance(one, GilbertElliott):
        return 0.0
    return one.loss_in_bad_state * (1 - one.loss_in_bad_state) * (one.bad_loss - one.good_loss) ** 2


def _memory(one: object) -> float:
    return one.memory if isinstance(one, GilbertElliott) else 0.0


DRAWS = 40
"""Their spread tells how far one run may lie from the mean."""


@dataclass(frozen=True, kw_only=True)
class DelaySpread:
    """Mean wait of the packets in seconds and the share of them that is overtaken, each with the standard deviation of
    one run."""

    mean_s: float
    mean_error_s: float
    overtaken: float
    overtaken_error: float
    shortest_s: float

    def overtaken_slack(self, grain_s: float) -> float:
        """What the fabric's own grain may add or take: the part of the waits that it is."""
        return self.overtaken * min(1.0, grain_s / self.shortest_s) if grain_s > 1e-5 else 0.0


def overtaken_packets(arrivals_s: FloatArray) -> BoolArray:
    """Shape (packets,), in the order of sending: which came after a packet that was sent later (RFC 4737's reordered
    packets)."""
    order = np.argsort(arrivals_s, kind="stable")
    late = np.zeros(len(arrivals_s), dtype=np.bool_)
    late[order] = order < np.maximum.accumulate(order)
    return late


def predicted_delay_spread(impairments: Impairments, sent_s: FloatArray) -> DelaySpread | None:
    """For packets that came to the link at ``sent_s`` (in order) and were not lost; None where nothing holds them up,
    or a trace does.

    Losses leave the waits of the others as they are. Cost DRAWS times n log n.
    """
    holding = [one for one in impairments if isinstance(one, (ExtraDelay, Reordering))]
    if not holding or any(isinstance(one, RateTrace) for one in impairments) or not len(sent_s):
        return None
    chance = np.random.default_rng(1)
    means, shares = [], []
    for _ in range(DRAWS):
        waits = _waits(impairments, len(sent_s), chance)
        means.append(float(waits.mean()))
        shares.append(float(overtaken_packets(sent_s + waits).mean()))
    ranges = [2 * one.jitter_s if isinstance(one, ExtraDelay) else one.delay_s for one in holding]
    return DelaySpread(
        mean_s=float(np.mean(means)),
        mean_error_s=float(np.std(means)),
        overtaken=float(np.mean(shares)),
        overtaken_error=float(np.std(shares)),
        shortest_s=min([r for r in ranges if r > 0], default=1.0),
    )


def longest_wait_s(impairments: Impairments) -> float:
    """Return for how long delays and reordering hold up a packet at most; of a trace 0."""
    waits_s = 0.0
    for one in impairments:
        if isinstance(one, ExtraDelay):
            waits_s += one.mean_s + one.jitter_s
        elif isinstance(one, Reordering):
            waits_s += one.delay_s
    return waits_s


def _waits(impairments: Impairments, count: int, chance: np.random.Generator) -> FloatArray:
    """Shape (count,): how long the first copy of each packet is held up."""
    first = np.zeros(count)
    second = np.full(count, np.inf)
    for one in impairments:
        if isinstance(one, Duplication):
            second = np.where(chance.random(count) < one.fraction, first, second)
        elif isinstance(one, ExtraDelay):
            first, second = (
                at + one.mean_s + one.jitter_s * (2 * chance.random(count) - 1)
                for at in (first, second)
            )
        elif isinstance(one, Reordering):
            first, second = (
                at + np.where(chance.random(count) < one.fraction, 0.0, one.delay_s)
                for at in (first, second)
            )
    return np.asarray(np.minimum(first, second), dtype=np.float64)
