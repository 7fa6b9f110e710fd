"""Runs a telephone stream beside TCP on a slow last mile, with one queue or with priority queues.

The last mile is a link between switches. With one queue the stream waits behind TCP; with priority
queues its packets leave first.
"""

import statistics
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from testbed.download.planning import with_last_kilometre
from testbed.faults.fault import Fault
from testbed.faults.impaired_link import queue_bytes
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    interval,
    verdict_of,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict, repeated
from testbed.report.drawing.charts import chart
from testbed.stream.facts.run_facts import MAX_LAG
from testbed.stream.judgement.outcome import stream_outcome
from testbed.stream.measurements import FloatArray, StreamMeasurements
from testbed.stream.options import PROFILES
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import HEADERS_BYTES
from testbed.stream.workload import stream_plan
from topologies import load_network

NETWORK = "swiss-t1"
SOURCE = "s1"
EDGE = "s6"

# Rate of the last mile, and the rate at which programs offer data to TCP.
LAST_BPS = 1e6
GREEDY_BPS = 1e8

DURATION_S = 12.0

# TCP connections; a browser opens several.
CONNECTIONS = 4

# TCP takes the path of label 0, which does not contain this link.
FAULT = Fault(link=("s1", "s8", 0), start_s=3.0, stop_s=6.0)

# Largest one-way delay of a conversation (ITU-T G.114).
IN_TIME_S = 0.15

# Fraction of a full Ethernet frame that is TCP payload.
TCP_PAYLOAD = 1448 / 1514

# Mean fraction of the queue that TCP (CUBIC) fills: it reduces its window by 30 % when the queue is
# full.
TCP_FILL = 0.85

# Largest accepted fraction of lost source packets: one of the 560 packets of a run.
NEARLY_NONE = 0.002

MTU = 1500
ETHERNET_HEADER_BYTES = 14

# Full packets of TCP that a packet of the stream may have to wait for: two that the shaper releases
# at once, one in transmission, and one of another link.
QUEUED_PACKETS = 4


@dataclass(frozen=True)
class _Case:
    """The settings of a run.

    Attributes:
        queues: The queues of every link.
        tcp: Whether TCP runs beside the stream.
        coded: Whether the stream has adaptive redundancy.
        outage: Whether a link between switches fails, upstream of the last mile.
    """

    queues: Literal["fifo", "priority"]
    tcp: bool
    coded: bool = False
    outage: bool = False


CASES = {
    "alone": _Case("fifo", tcp=False),
    "one queue": _Case("fifo", tcp=True),
    "priority": _Case("priority", tcp=True),
    "one queue, code, outage": _Case("fifo", tcp=True, coded=True, outage=True),
    "priority, code, outage": _Case("priority", tcp=True, coded=True, outage=True),
}

# How often cases are run if not once. The first two are compared.
RUNS = {"one queue": 4, "priority": 4, "priority, code, outage": 2}


def points(quick: bool, seed: int) -> Points:
    """Return every case, and repetitions with other seeds unless ``quick``."""
    result: Points = [{"case": case, "seed": seed} for case in CASES]
    if quick:
        return result
    for case, runs in RUNS.items():
        for k in range(1, runs):
            result.append({"case": case, "seed": seed + k})
    return result


def last_mile_plan(point: Row) -> StreamPlan:
    """Return a VOIP stream over capillary routes to a host behind a last mile of 1 Mbit/s."""
    case = CASES[point["case"]]
    profile = PROFILES["voip"]
    network, last_link = with_last_kilometre(load_network(NETWORK), EDGE, LAST_BPS)
    # Without parity, a block consists of its source packets.
    block_size = None if case.coded else profile["source_packets"]
    stream = StreamParameters(**profile, block_size=block_size)
    faults = (FAULT,) if case.outage else ()
    settings = {**vars(stream), "faults": faults, "duration_s": DURATION_S, "seed": point["seed"]}
    return stream_plan(network, SOURCE, last_link[1], **settings)


def measure(point: Row) -> Results:
    """Measure one run on switches; repeat it up to twice if the sender was behind its schedule."""
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    case = CASES[point["case"]]
    plan = last_mile_plan(point)
    fabric = EmulatedStreamFabric(
        queues=case.queues,
        background_bps=GREEDY_BPS if case.tcp else 0.0,
        background_connections=CONNECTIONS,
    )
    run = repeated(partial(fabric.run, plan), partial(lag_reason, plan), 2)
    return {**last_mile_row(plan, run), "invalid": lag_reason(plan, run)}


def lag_reason(plan: StreamPlan, run: StreamMeasurements) -> str | None:
    """Return why a run is invalid, or None.

    Packets that a full queue drops are no reason, because the study measures them.
    """
    limit_s = MAX_LAG * IN_TIME_S
    if run.health.sender_lag_s > limit_s:
        return (
            f"the sender lagged {1000 * run.health.sender_lag_s:.0f} ms behind its schedule "
            f"(limit {1000 * limit_s:.0f} ms)"
        )
    if run.health.unplanned_drops:
        return f"{run.health.unplanned_drops} datagrams dropped at a socket"
    return None


def last_mile_row(plan: StreamPlan, run: StreamMeasurements) -> Results:
    """Return the results of a run: fractions of the source packets, delays (s) and rates (bit/s).

    ``delays`` are the percentiles 0 to 100 of the delay; a lost packet has a delay of 1,000 s.
    """
    delays_s = source_delays(plan, run)
    arrived_s = delays_s[np.isfinite(delays_s)]
    finite_s = np.where(np.isinf(delays_s), 1e3, delays_s)
    percentiles_s = np.quantile(finite_s, np.linspace(0, 1, 101))
    sent_pps = len(run.sent.symbol) / (plan.duration_s - plan.stream.playback_s)
    tcp_bytes = float(run.counters.get("background_carried_bytes", 0))
    tcp_s = float(run.counters.get("background_s", 1))
    return {
        "lost": float(np.isinf(delays_s).mean()),
        "not_in_time": float((delays_s > IN_TIME_S).mean()),
        "unplayed": stream_outcome(plan, run)["late"],
        "median_s": float(np.median(arrived_s)),
        "p99_s": float(np.quantile(arrived_s, 0.99)),
        "sent_per_source": len(run.sent.symbol) / len(delays_s),
        "stream_bps": 8 * sent_pps * (plan.stream.symbol_bytes + HEADERS_BYTES),
        "tcp_bps": 8 * tcp_bytes / tcp_s,
        "delays": list(map(float, percentiles_s)),
    }


def source_delays(plan: StreamPlan, run: StreamMeasurements) -> FloatArray:
    """Return the time from sending to first arrival of each source packet, in seconds.

    A packet that did not arrive has an infinite delay, even if the code recovered it.
    """
    is_source = run.sent.symbol < plan.stream.source_packets
    transit_s = run.deliveries.transit_s[is_source]
    return np.where(np.isnan(transit_s), np.inf, transit_s)


def judge(rows: Rows) -> Verdict:
    """Check that priority serves the stream as if it were alone, and leaves the remainder to TCP.

    In one queue with TCP the stream is too late.
    """
    plan = last_mile_plan(rows[0])
    checks = [*_delay_checks(rows, plan), _check_tcp_rate(rows), _check_outage(rows, plan)]
    return verdict_of(rows, checks)


def _delay_checks(rows: Rows, plan: StreamPlan) -> list[Check]:
    """Check delays and losses without a code: in one queue, alone, and with priority."""
    queue_s = queue_bytes(LAST_BPS, MTU) * 8 / LAST_BPS
    shared_median_s, _ = mean(rows, "one queue", "median_s")
    alone_median_s, _ = mean(rows, "alone", "median_s")
    shared_p99_s, _ = mean(rows, "one queue", "p99_s")
    transmission_s = (plan.stream.symbol_bytes + HEADERS_BYTES) * 8 / LAST_BPS
    wait_s = QUEUED_PACKETS * (MTU + ETHERNET_HEADER_BYTES) * 8 / LAST_BPS
    return [
        Claim("one queue: median delay, s")
        .equal(TCP_FILL * queue_s, shared_median_s, (1 - TCP_FILL) * queue_s)
        .against(alone_median_s, "without TCP")
        .noting(f"TCP keeps the queue, {queue_s:.3f} s long, between 70 and 100 % full"),
        _check_in_time(rows, "alone"),
        _check_in_time(rows, "priority"),
        Claim("priority: delay that 99 % stay below, s")
        .at_most(wait_s + transmission_s, mean(rows, "priority", "p99_s"))
        .against(shared_p99_s, "in one queue with TCP"),
    ]


def _check_in_time(rows: Rows, case: str) -> Check:
    shared, _ = mean(rows, "one queue", "not_in_time")
    return (
        Claim(f"{case}: source packets lost or later than {1000 * IN_TIME_S:.0f} ms, share")
        .equal(0.0, mean(rows, case, "not_in_time"), NEARLY_NONE)
        .against(shared, "the share in one queue with TCP")
    )


def _check_tcp_rate(rows: Rows) -> Check:
    """Check that TCP gets what the stream leaves of the last mile."""
    stream_bps, _ = mean(rows, "priority", "stream_bps")
    shared_tcp_bps, _ = mean(rows, "one queue", "tcp_bps")
    left_bps = LAST_BPS - stream_bps
    return (
        Claim("priority: what TCP carries, bit/s")
        .equal(left_bps * TCP_PAYLOAD, mean(rows, "priority", "tcp_bps"), 0.04 * LAST_BPS)
        .against(LAST_BPS * TCP_PAYLOAD, "all of the link")
        .noting(f"one queue: {shared_tcp_bps / 1e3:.0f} kbit/s")
    )


def _check_outage(rows: Rows, plan: StreamPlan) -> Check:
    """Check that the code repairs the failure of a link upstream of the last mile."""
    load = float(plan.forward.load(plan.network.link_index[FAULT.link]))
    outage_s = FAULT.stop_s - FAULT.start_s
    failing = load * outage_s / (plan.duration_s - plan.stream.playback_s)
    return (
        Claim("priority, code, outage: source packets that could not be played, share")
        .equal(0.0, mean(rows, "priority, code, outage", "unplayed"), NEARLY_NONE)
        .against(failing, "what the failed link carries meanwhile")
    )


def mean(rows: Rows, case: str, key: str) -> tuple[float, float | None]:
    """Return the mean of a field over repetitions, and half the width of its 95 % interval.

    The width is None for a single run.
    """
    values = [row[key] for row in where(rows, case=case)]
    return statistics.fmean(values), interval(values)


def figures(rows: Rows) -> Figures:
    """Draw the fraction of source packets that arrive within a delay, a line per case.

    Lost packets never arrive.
    """
    figure, axes = chart(
        f"VOIP through a last kilometre of {LAST_BPS / 1e6:g} Mbit/s, TCP beside it",
        size=(7.5, 4.6),
        xlabel="one-way delay, ms",
        ylabel="source packets that came within it, %",
        xlim=(0, 400),
        ylim=(0, 101),
    )
    cases = dict.fromkeys(row["case"] for row in rows)
    for number, case in enumerate(cases):
        delays_s = np.mean([row["delays"] for row in where(rows, case=case)], axis=0)
        axes.plot(
            1000 * delays_s,
            np.arange(101),
            color=f"C{number}",
            linestyle="--" if "code" in case else "-",
            label=case,
        )
    limit_ms = 1000 * IN_TIME_S
    axes.axvline(limit_ms, color="k", linestyle=":", label=f"{limit_ms:.0f} ms: a conversation")
    axes.legend()
    return {"delays": figure}


STUDY = Study.of_module(
    __name__,
    title="The last kilometre: telephony beside TCP, with one queue and with priority",
    answers="Gabrielyan 2007, section 4.5: "
    "congestion of the last kilometre is solved by QoS at the router; "
    "rival: it is not, as in one queue",
    deviations=(
        "Four TCP connections without a rate limit replace bursty HTTP.",
        "The queues are the kernel's (htb), on every link; only the last kilometre is ever full.",
    ),
    emulation=True,
    # A sender that is late stamps packets when it is done, so that delays may be negative.
    signed=("delays",),
)
