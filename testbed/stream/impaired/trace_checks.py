"""Checks of a link whose rate follows a trace: its bytes per time window, and its longest gap.

A trace lists opportunities: the times at which the link can send one packet of full length.
"""

import numpy as np

from testbed.model.verdict import Check, Claim
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.traversals import LinkTraversal
from testbed.stream.measurements import (
    RELAYED,
    FloatArray,
    StreamMeasurements,
)
from testbed.stream.planning import HEADERS_BYTES
from topologies.impairments import OPPORTUNITY_BYTES, RateTrace

# Lengths of the time windows; the check uses the first one that can distinguish the trace.
WINDOWS_S = (0.1, 0.3, 1.0)
# Error of the recorded arrival times on real switches. The bytes in a window are compared with the
# capacity in a longer window: longer by this error, by the largest lateness of the relay, and by
# the largest lateness of a packet that met no impairment.
_GRAIN_S = 0.005
# The trace counts bytes from the IP header on.
_ETHERNET_BYTES = 14


def trace_checks(facts: RunFacts, crossing: LinkTraversal, ending: str) -> list[Check]:
    """Return the checks that can distinguish the trace from a link without one.

    If none can, the list has one check that says so.

    Args:
        facts: The facts of the run.
        crossing: The packets that crossed the link.
        ending: The end of the checks' names, which identifies the link.
    """
    plan = facts.plan
    run = facts.run
    trace = next(step for step in crossing.span.impairments if isinstance(step, RateTrace))
    arrived_s = _arrivals_s(run, crossing)
    sent_s = run.sent.time_s[crossing.packets]
    packet_bytes = plan.stream.symbol_bytes + HEADERS_BYTES - _ETHERNET_BYTES
    relay_s = latest_s(run, plan.network.links[crossing.span.link].label)
    grain_s = _GRAIN_S + relay_s + crossing.unrest_s[1]
    capacities = []
    for window_s in WINDOWS_S:
        allowed = most_opportunities(trace, window_s + grain_s) * OPPORTUNITY_BYTES + packet_bytes
        came = most_in_window(arrived_s, window_s) * packet_bytes
        went = most_in_window(sent_s, window_s) * packet_bytes
        claim = Claim(f"most bytes in {window_s:g} s, {ending}", "most-bytes")
        carries = f"IP bytes; the trace carries {trace.mean_rate_bps / 1e6:.3g} Mbit/s on average"
        check = claim.at_most(allowed, came).against(float(went), "as many as were sent")
        check = check.noting(f"{carries}; {grain_s * 1000:.1f} ms for lateness")
        capacities.append(check.of(len(arrived_s)))
    capacity = next((check for check in capacities if not check.unsure), capacities[-1])
    silence = _silence_check(trace, arrived_s, sent_s, ending)
    return [check for check in (capacity, silence) if not check.unsure] or [capacity]


def _silence_check(
    trace: RateTrace, arrived_s: FloatArray, sent_s: FloatArray, ending: str
) -> Check:
    gap_s = longest_gap_s(trace)
    silent_s = float(np.diff(arrived_s).max(initial=0.0))
    unsent_s = float(np.diff(sent_s).max(initial=0.0))
    claim = Claim(f"longest silence, s, {ending}", "longest-silence")
    check = claim.at_least(gap_s - _GRAIN_S, silent_s)
    check = check.against(unsent_s, "as long as nothing was sent")
    return check.noting(f"the trace has no opportunity for {gap_s:g} s").of(len(arrived_s))


def latest_s(run: StreamMeasurements, label: str) -> float:
    """Return the largest lateness of the relay for a packet of the link; 0 without a relay."""
    latest = 0.0
    for name, report in run.counters.get(RELAYED, {}).items():
        if name.startswith(f"{label} "):
            latest = max(latest, float(report["latest_s"]))
    return latest


def _arrivals_s(run: StreamMeasurements, crossing: LinkTraversal) -> FloatArray:
    """Return the sorted times of arrival (in seconds) of the packets that crossed the link."""
    crossed = np.isin(run.received.key, run.sent.key[crossing.packets])
    return np.sort(run.received.time_s[crossed])


def most_in_window(times_s: FloatArray, window_s: float) -> int:
    """Return how many of the times lie within one window at most; the times are sorted."""
    ends = np.searchsorted(times_s, times_s + window_s, side="right")
    return int((ends - np.arange(len(times_s))).max(initial=0))


def most_opportunities(trace: RateTrace, window_s: float) -> int:
    """Return the largest number of opportunities of the repeated trace within one window."""
    rounds = int(window_s / trace.period_s) + 2
    once_s = np.array(trace.times_ms) / 1000
    times_s = np.arange(rounds)[:, None] * trace.period_s + once_s
    return most_in_window(times_s.ravel(), window_s)


def longest_gap_s(trace: RateTrace) -> float:
    """Return the longest time without an opportunity, also over the end of the trace."""
    times_ms = np.array([*trace.times_ms, trace.times_ms[-1] + trace.times_ms[0]])
    return float(np.diff(times_ms).max(initial=trace.times_ms[0])) / 1000
