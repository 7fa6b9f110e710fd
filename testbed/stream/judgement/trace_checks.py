"""What a rate trace let pass, next to what its opportunities allow: most bytes in a window, and the longest silence;
pure numpy."""

import numpy as np

from testbed.model.verdict import Check
from testbed.stream.judgement.link_traversals import LinkTraversal
from testbed.stream.measurements import RELAYED, FloatArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import HEADERS_BYTES
from topologies.impairments import OPPORTUNITY_BYTES, RateTrace

WINDOWS_S = (0.1, 0.3, 1.0)
_GRAIN_S = 0.005
"""Arrivals are noted so much late or early on real switches; a window is taken as much wider, by the most that the
relay was late and by the most that a packet which met no impairment was."""


def trace_checks(plan: StreamPlan, run: StreamMeasurements, crossing: LinkTraversal, ending: str) -> list[Check]:
    """Those that can tell the trace from a link without one; where none can, one that says so."""
    trace = next(one for one in crossing.span.impairments if isinstance(one, RateTrace))
    arrived = _arrivals(run, crossing)
    sent = run.sent.time_s[crossing.packets]
    packet = plan.stream.symbol_bytes + HEADERS_BYTES - 14
    grain_s = _GRAIN_S + latest_s(run, plan.network.links[crossing.span.link].label) + crossing.unrest_s[1]
    checks = [_capacity_check(trace, arrived, sent, (packet, grain_s, window), ending) for window in WINDOWS_S]
    capacity = next((check for check in checks if not check.unsure), checks[-1])
    silence = _silence_check(trace, arrived, sent, ending)
    return [check for check in (capacity, silence) if not check.unsure] or [capacity]


def _capacity_check(
    trace: RateTrace, arrived: FloatArray, sent: FloatArray, measure: tuple[int, float, float], ending: str
) -> Check:
    """``measure``: bytes of a packet, how far its arrival may be off and the window, in seconds."""
    packet, grain_s, window_s = measure
    return Check.at_most(
        f"most bytes in {window_s:g} s, {ending}",
        most_opportunities(trace, window_s + grain_s) * OPPORTUNITY_BYTES + packet,
        most_in_window(arrived, window_s) * packet,
        rival=float(most_in_window(sent, window_s) * packet),
        rival_is="as many as were sent",
        key="most-bytes",
        detail=f"IP bytes; the trace carries {trace.mean_rate_bps / 1e6:.3g} Mbit/s on average; "
        f"{grain_s * 1000:.1f} ms for lateness",
    ).of(len(arrived))


def _silence_check(trace: RateTrace, arrived: FloatArray, sent: FloatArray, ending: str) -> Check:
    return Check.at_least(
        f"longest silence, s, {ending}",
        longest_gap_s(trace) - _GRAIN_S,
        float(np.diff(arrived).max(initial=0.0)),
        rival=float(np.diff(sent).max(initial=0.0)),
        rival_is="as long as nothing was sent",
        key="longest-silence",
        detail=f"the trace has no opportunity for {longest_gap_s(trace):g} s",
    ).of(len(arrived))


def latest_s(run: StreamMeasurements, label: str) -> float:
    """How late the relay sent a packet of the link on at most; 0 where there was none."""
    reports = run.counters.get(RELAYED, {})
    return max((float(one["latest_s"]) for name, one in reports.items() if name.startswith(f"{label} ")), default=0.0)


def _arrivals(run: StreamMeasurements, crossing: LinkTraversal) -> FloatArray:
    """When the packets came that crossed the link, in order."""
    return np.sort(run.received.time_s[np.isin(run.received.key, run.sent.key[crossing.packets])])


def most_in_window(times: FloatArray, window_s: float) -> int:
    """The most of the times (sorted, s) that lie within one window."""
    return int((np.searchsorted(times, times + window_s, side="right") - np.arange(len(times))).max(initial=0))


def most_opportunities(trace: RateTrace, window_s: float) -> int:
    """The most opportunities of the trace, which comes again and again, within any window of so many seconds."""
    rounds = int(window_s / trace.period_s) + 2
    once = np.array(trace.times_ms) / 1000
    return most_in_window((np.arange(rounds)[:, None] * trace.period_s + once).ravel(), window_s)


def longest_gap_s(trace: RateTrace) -> float:
    """The longest time without an opportunity, over the end of the trace too."""
    times = np.array([*trace.times_ms, trace.times_ms[-1] + trace.times_ms[0]])
    return float(np.diff(times).max(initial=trace.times_ms[0])) / 1000
