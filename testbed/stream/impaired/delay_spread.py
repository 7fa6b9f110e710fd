"""Predicts the extra delay of packets on impaired links, and how many packets are overtaken."""

from dataclasses import dataclass

import numpy as np

from testbed.stream.measurements import BoolArray, FloatArray
from topologies.impairments import (
    Duplication,
    ExtraDelay,
    Impairment,
    Impairments,
    RateTrace,
    Reordering,
)

# Number of Monte Carlo draws. Their spread shows how far one run may be from the mean.
DRAWS = 40
# A fabric that adds less than this to a delay does not change the order of packets.
_NO_GRAIN_S = 1e-5


@dataclass(frozen=True, kw_only=True)
class DelaySpread:
    """The predicted extra delays of packets on a link.

    Attributes:
        mean_s: The mean extra delay.
        mean_error_s: The standard deviation of this mean over runs.
        overtaken: The share of packets that is overtaken.
        overtaken_error: The standard deviation of this share over runs.
        shortest_s: Width of the range of extra delays, of the impairment with the smallest one.
    """

    mean_s: float
    mean_error_s: float
    overtaken: float
    overtaken_error: float
    shortest_s: float

    def overtaken_slack(self, grain_s: float) -> float:
        """Return by how much delays of the fabric itself may change the share overtaken.

        Args:
            grain_s: Extra delay that the fabric may add, in seconds.
        """
        if grain_s <= _NO_GRAIN_S:
            return 0.0
        return self.overtaken * min(1.0, grain_s / self.shortest_s)


def overtaken_packets(arrivals_s: FloatArray) -> BoolArray:
    """Return a mask of the packets that arrived after one sent later (RFC 4737: reordered packets).

    Args:
        arrivals_s: The times of arrival in the order of sending.
    """
    order = np.argsort(arrivals_s, kind="stable")
    late = np.zeros(len(arrivals_s), dtype=np.bool_)
    late[order] = order < np.maximum.accumulate(order)
    return late


def predicted_delay_spread(impairments: Impairments, sent_s: FloatArray) -> DelaySpread | None:
    """Return the predicted delays, or None if the link delays no packet or has a rate trace.

    Losses do not change the delays of the other packets. Cost: O(n log n) for each of ``DRAWS``.

    Args:
        impairments: The impairments of the link, in order.
        sent_s: When the packets that were not lost reached the link, in order.
    """
    delaying = [step for step in impairments if isinstance(step, (ExtraDelay, Reordering))]
    traced = any(isinstance(step, RateTrace) for step in impairments)
    if not delaying or traced or not len(sent_s):
        return None
    rng = np.random.default_rng(1)
    means_s = []
    shares = []
    for _ in range(DRAWS):
        waits_s = _draw_waits(impairments, len(sent_s), rng)
        means_s.append(float(waits_s.mean()))
        shares.append(float(overtaken_packets(sent_s + waits_s).mean()))
    return DelaySpread(
        mean_s=float(np.mean(means_s)),
        mean_error_s=float(np.std(means_s)),
        overtaken=float(np.mean(shares)),
        overtaken_error=float(np.std(shares)),
        shortest_s=_shortest_range_s(delaying),
    )


def _shortest_range_s(delaying: list[ExtraDelay | Reordering]) -> float:
    shortest_s = 1.0
    ranges_s = []
    for step in delaying:
        range_s = 2 * step.jitter_s if isinstance(step, ExtraDelay) else step.delay_s
        if range_s > 0:
            ranges_s.append(range_s)
    return min(ranges_s, default=shortest_s)


def longest_wait_s(impairments: Impairments) -> float:
    """Return the longest extra delay by delays and reordering; 0 for a rate trace."""
    waits_s = 0.0
    for step in impairments:
        if isinstance(step, ExtraDelay):
            waits_s += step.mean_s + step.jitter_s
        elif isinstance(step, Reordering):
            waits_s += step.delay_s
    return waits_s


def _draw_waits(impairments: Impairments, count: int, rng: np.random.Generator) -> FloatArray:
    """Return the extra delay of the first copy of each packet, shape (count,)."""
    first_s = np.zeros(count)
    second_s = np.full(count, np.inf)
    for step in impairments:
        if isinstance(step, Duplication):
            second_s = np.where(rng.random(count) < step.fraction, first_s, second_s)
        else:
            first_s = first_s + _draw_delays(step, count, rng)
            second_s = second_s + _draw_delays(step, count, rng)
    return np.asarray(np.minimum(first_s, second_s), dtype=np.float64)


def _draw_delays(
    impairment: Impairment, count: int, rng: np.random.Generator
) -> FloatArray | float:
    """Return the extra delay by one impairment; 0 if it delays no packet."""
    if isinstance(impairment, ExtraDelay):
        return impairment.mean_s + impairment.jitter_s * (2 * rng.random(count) - 1)
    if isinstance(impairment, Reordering):
        return np.where(rng.random(count) < impairment.fraction, 0.0, impairment.delay_s)
    return 0.0
