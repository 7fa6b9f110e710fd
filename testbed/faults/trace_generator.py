"""Synthetic failure traces with the statistics of real ones, for where the data themselves are not at hand.

The statistics of the four machines of Zarza 2011 (Table 5.2) are kept here. A trace of them has Weibull gaps between
failures and lognormal outages; the number of failures, of different components, and the span are met exactly.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.errors import InputError
from testbed.faults.failure_traces import FailureTrace, NetworkFailure

MIN_OUTAGE_S = 60.0
_EPOCH_S = 1_041_379_200.0  # 2003-01-01


@dataclass(frozen=True, kw_only=True)
class TraceStatistics:
    """``failures`` within ``span_s``, on ``components`` different components of ``nodes``. ``gap_variation``: standard
    deviation over mean of the times between failures. Outages: median in seconds and standard deviation of the natural
    logarithm (those below a minute counted as one minute); None where no repair is known.
    """

    nodes: int
    failures: int
    components: int
    span_s: float
    gap_variation: float
    outage_median_s: float | None
    outage_log_deviation: float | None

    def __post_init__(self) -> None:
        if not 1 <= self.components <= min(self.failures, self.nodes):
            raise InputError(
                f"trace statistics: {self.components} components for {self.failures} failures of {self.nodes} nodes; "
                "give 1 or more, and not more than either"
            )
        if not (self.span_s > 0 and self.gap_variation > 0):
            raise InputError("trace statistics: span and variation of the gaps must be above 0")


KNOWN_STATISTICS: Mapping[str, TraceStatistics] = {
    "lanl-12": TraceStatistics(
        nodes=512, failures=52, components=46, span_s=58_523_520.0, gap_variation=1.504,
        outage_median_s=1290.0, outage_log_deviation=2.37,
    ),
    "lanl-18": TraceStatistics(
        nodes=1024, failures=28, components=22, span_s=105_519_780.0, gap_variation=1.39,
        outage_median_s=9300.0, outage_log_deviation=0.727,
    ),
    "lanl-19": TraceStatistics(
        nodes=1024, failures=58, components=35, span_s=91_295_700.0, gap_variation=2.191,
        outage_median_s=5760.0, outage_log_deviation=0.912,
    ),
    "pnnl-mpp2": TraceStatistics(
        nodes=980, failures=167, components=113, span_s=120_904_680.0, gap_variation=2.014,
        outage_median_s=None, outage_log_deviation=None,
    ),
}  # fmt: skip
"""Measured from the public tables by the rules of failure_traces.py (LANL: interconnect-hardware); a test measures them
again."""


def generate_trace(statistics: TraceStatistics, *, seed: int | Sequence[int], name: str = "synthetic") -> FailureTrace:
    """A trace of these statistics: gaps from a Weibull distribution of that variation, outages lognormal.

    The number of failures, of different components, and the span are met exactly.
    """
    chance = np.random.default_rng(seed)
    gaps = chance.weibull(_weibull_shape(statistics.gap_variation), size=statistics.failures + 1)
    starts = np.cumsum(gaps)[:-1] / gaps.sum() * statistics.span_s
    components = chance.permutation(statistics.nodes)[: statistics.components]
    again = chance.integers(statistics.components, size=statistics.failures - statistics.components)
    hit = np.concatenate([np.arange(statistics.components), again])
    chance.shuffle(hit)
    failures = []
    for k, start in enumerate(starts.tolist()):
        end = None
        if statistics.outage_median_s is not None and statistics.outage_log_deviation is not None:
            length = statistics.outage_median_s * math.exp(statistics.outage_log_deviation * float(chance.normal()))
            end = _EPOCH_S + start + max(length, MIN_OUTAGE_S)
        failures.append(
            NetworkFailure(component=str(components[hit[k]]), start_s=_EPOCH_S + start, end_s=end, row=k + 2)
        )
    return FailureTrace(
        system=name,
        failures=tuple(failures),
        start_s=_EPOCH_S,
        end_s=_EPOCH_S + statistics.span_s,
        rule="generated",
    )


def _weibull_shape(variation: float) -> float:
    """The shape whose standard deviation over mean is that; by bisection between 0.2 and 20."""
    low, high = 0.2, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        square = math.gamma(1 + 2 / middle) / math.gamma(1 + 1 / middle) ** 2 - 1
        low, high = (middle, high) if square > variation**2 else (low, middle)
    return low
