"""How long delays and reordering hold packets up, and how many are overtaken: drawn for the times at which packets were
sent; pure."""

from dataclasses import dataclass

import numpy as np

from testbed.stream.measurements import BoolArray, FloatArray
from topologies.impairments import Duplication, ExtraDelay, Impairments, RateTrace, Reordering

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


def _waits(impairments: Impairments, count: int, chance: np.random.Generator) -> FloatArray:
    """Shape (count,): how long the first copy of each packet is held up."""
    first = np.zeros(count)
    second = np.full(count, np.inf)
    for one in impairments:
        if isinstance(one, Duplication):
            second = np.where(chance.random(count) < one.fraction, first, second)
        elif isinstance(one, ExtraDelay):
            first, second = (at + one.mean_s + one.jitter_s * (2 * chance.random(count) - 1) for at in (first, second))
        elif isinstance(one, Reordering):
            first, second = (
                at + np.where(chance.random(count) < one.fraction, 0.0, one.delay_s) for at in (first, second)
            )
    return np.asarray(np.minimum(first, second), dtype=np.float64)
