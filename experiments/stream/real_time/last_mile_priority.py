"""A telephone stream beside TCP on a slow last mile: one queue for both, or a queue for the stream that goes first, on
switches."""

import statistics
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

NETWORK, SOURCE, EDGE = "swiss-t1", "s1", "s6"
LAST_BPS, GREEDY_BPS = 1e6, 1e8
LASTS_S = 12.0
CONNECTIONS = 4
"""Of TCP, as a browser opens several."""
FAULT = Fault(link=("s1", "s8", 0), start_s=3.0, stop_s=6.0)
"""TCP goes over the path of label 0, which is another."""
IN_TIME_S = 0.15
"""One-way delay of a conversation (ITU-T G.114)."""
TCP_PAYLOAD = 1448 / 1514
TCP_FILLS = 0.85
"""Of the queue, on average: TCP (CUBIC) gives back 30 % whenever it is full."""
ALMOST_NONE = 0.002
"""Of the source packets: one of the 560 of a run."""
MTU = 1500
QUEUED_PACKETS = 4
"""Of TCP, of full length, that a packet of the stream may find before it: two that the shaper lets go at once, one
under way, one of another link."""
CASES: dict[str, tuple[Literal["fifo", "priority"], bool, str, bool]] = {
    "alone": ("fifo", False, "none", False),
    "one queue": ("fifo", True, "none", False),
    "priority": ("priority", True, "none", False),
    "one queue, code, outage": ("fifo", True, "adaptive", True),
    "priority, code, outage": ("priority", True, "adaptive", True),
}
"""Name -> queues, whether TCP takes what it can get, redundancy, and whether a link of the network behind fails."""


def points(quick: bool, seed: int) -> Points:
    """Every case; the two that are compared four times, with different seeds, and the outage with priority twice."""
    again = {"one queue": 4, "priority": 4, "priority, code, outage": 2}
    repeated = [
        (case, seed + k) for case, runs in again.items() for k in range(1, 1 if quick else runs)
    ]
    return [
        {"case": case, "seed": at} for case, at in (*((case, seed) for case in CASES), *repeated)
    ]


def last_mile_plan(point: Row) -> StreamPlan:
    """A VOIP stream over capillary routes to a host behind a last mile of 1 Mbit/s."""
    _, _, redundancy, outage = CASES[point["case"]]
    profile = PROFILES["voip"]
    network, last = with_last_kilometre(load_network(NETWORK), EDGE, LAST_BPS)
    stream = StreamParameters(
        **profile, block_size=profile["source_packets"] if redundancy == "none" else None
    )
    faults = (FAULT,) if outage else ()
    settings = vars(stream) | {"faults": faults, "duration_s": LASTS_S, "seed": point["seed"]}
    return stream_plan(network, SOURCE, last[1], **settings)


def measure(point: Row) -> Results:
    """One run on switches, repeated up to twice where the sender did not keep up with its own schedule."""
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    queues, tcp, _, _ = CASES[point["case"]]
    plan = last_mile_plan(point)
    greedy_bps = GREEDY_BPS if tcp else 0.0
    fabric = EmulatedStreamFabric(
        queues=queues, background_bps=greedy_bps, background_connections=CONNECTIONS
    )
    run = repeated(lambda: fabric.run(plan), partial(lag_reason, plan), 2)
    return {**last_mile_row(plan, run), "invalid": lag_reason(plan, run)}


def lag_reason(plan: StreamPlan, run: StreamMeasurements) -> str | None:
    """Why the run says nothing. Packets that a full queue drops are what is measured here, and no reason."""
    most_s = MAX_LAG * IN_TIME_S
    if run.health.sender_lag_s > most_s:
        return (
            f"the sender lagged {1000 * run.health.sender_lag_s:.0f} ms behind its schedule (limit "
            f"{1000 * most_s:.0f} ms)"
        )
    return (
        f"{run.health.unplanned_drops} datagrams dropped at a socket"
        if run.health.unplanned_drops
        else None
    )


def last_mile_row(plan: StreamPlan, run: StreamMeasurements) -> Results:
    """Shares of the source packets, delays in seconds, what was carried in bits a second."""
    delays = source_delays(plan, run)
    arrived = delays[np.isfinite(delays)]
    sent_pps = len(run.sent.symbol) / (plan.duration_s - plan.stream.playback_s)
    tcp_bytes, tcp_s = (
        float(run.counters.get(f"background_{key}", k))
        for k, key in enumerate(("carried_bytes", "s"))
    )
    return {
        "lost": float(np.isinf(delays).mean()),
        "not_in_time": float((delays > IN_TIME_S).mean()),
        "unplayed": stream_outcome(plan, run)["late"],
        "median_s": float(np.median(arrived)),
        "p99_s": float(np.quantile(arrived, 0.99)),
        "sent_per_source": len(run.sent.symbol) / len(delays),
        "stream_bps": 8 * sent_pps * (plan.stream.symbol_bytes + HEADERS_BYTES),
        "tcp_bps": 8 * tcp_bytes / tcp_s,
        "delays": [
            float(q)
            for q in np.quantile(np.where(np.isinf(delays), 1e3, delays), np.linspace(0, 1, 101))
        ],
    }


def source_delays(plan: StreamPlan, run: StreamMeasurements) -> FloatArray:
    """Shape (source packets,): from sending to first arrival, seconds; inf where it never came. Recovery by the code is
    not counted."""
    transit_s = run.deliveries.transit_s[run.sent.symbol < plan.stream.source_packets]
    return np.where(np.isnan(transit_s), np.inf, transit_s)


def judge(rows: Rows) -> Verdict:
    """With a queue of its own the stream is as if alone, and TCP has the rest; in one queue with TCP it is too late."""
    plan = last_mile_plan(rows[0])
    checks = [*_queue_checks(rows, plan), *_rest_checks(rows, plan)]
    return verdict_of(rows, checks)


def _queue_checks(rows: Rows, plan: StreamPlan) -> list[Check]:
    """Delays and losses without a code: in one queue with TCP, alone, and with priority."""
    own_s = (plan.stream.symbol_bytes + HEADERS_BYTES) * 8 / LAST_BPS
    shared = mean(rows, "one queue", "not_in_time")
    link = next(k for k in plan.network.links if k.capacity_bps == LAST_BPS)
    queue_s = queue_bytes(link.capacity_bps, MTU) * 8 / LAST_BPS
    return [
        Claim("one queue: median delay, s")
        .equal(
            TCP_FILLS * queue_s, mean(rows, "one queue", "median_s")[0], (1 - TCP_FILLS) * queue_s
        )
        .against(mean(rows, "alone", "median_s")[0], "without TCP")
        .noting(f"TCP keeps the queue, {queue_s:.3f} s long, between 70 and 100 % full"),
        *(
            Claim(f"{case}: source packets lost or later than {1000 * IN_TIME_S:.0f} ms, share")
            .equal(0.0, mean(rows, case, "not_in_time"), ALMOST_NONE)
            .against(shared[0], "the share in one queue with TCP")
            for case in ("alone", "priority")
        ),
        Claim("priority: delay that 99 % stay below, s")
        .at_most(
            QUEUED_PACKETS * (MTU + 14) * 8 / LAST_BPS + own_s, mean(rows, "priority", "p99_s")
        )
        .against(mean(rows, "one queue", "p99_s")[0], "in one queue with TCP"),
    ]


def _rest_checks(rows: Rows, plan: StreamPlan) -> list[Check]:
    """What TCP keeps, and that the code still repairs a failure of the network behind."""
    left_bps = LAST_BPS - mean(rows, "priority", "stream_bps")[0]
    share = float(plan.forward.load(plan.network.link_index[FAULT.link]))
    failing = share * (FAULT.stop_s - FAULT.start_s) / (plan.duration_s - plan.stream.playback_s)
    return [
        Claim("priority: what TCP carries, bit/s")
        .equal(left_bps * TCP_PAYLOAD, mean(rows, "priority", "tcp_bps"), 0.04 * LAST_BPS)
        .against(LAST_BPS * TCP_PAYLOAD, "all of the link")
        .noting(f"one queue: {mean(rows, 'one queue', 'tcp_bps')[0] / 1e3:.0f} kbit/s"),
        Claim("priority, code, outage: source packets that could not be played, share")
        .equal(0.0, mean(rows, "priority, code, outage", "unplayed"), ALMOST_NONE)
        .against(failing, "what the failed link carries meanwhile"),
    ]


def mean(rows: Rows, case: str, key: str) -> tuple[float, float | None]:
    """Over repetitions, with half of its 95 % interval (Student's t); None for a single run."""
    values = [row[key] for row in where(rows, case=case)]
    return statistics.fmean(values), interval(values)


def figures(rows: Rows) -> Figures:
    """How many source packets came within a delay, a line a case; lost ones never come."""
    title = f"VOIP through a last kilometre of {LAST_BPS / 1e6:g} Mbit/s, TCP beside it"
    x, y = "one-way delay, ms", "source packets that came within it, %"
    figure, axes = chart(title, size=(7.5, 4.6), xlabel=x, ylabel=y, xlim=(0, 400), ylim=(0, 101))
    for number, case in enumerate(dict.fromkeys(row["case"] for row in rows)):
        own = np.mean([row["delays"] for row in where(rows, case=case)], axis=0)
        axes.plot(
            1000 * own,
            np.arange(101),
            color=f"C{number}",
            linestyle="--" if "code" in case else "-",
            label=case,
        )
    axes.axvline(
        1000 * IN_TIME_S,
        color="k",
        linestyle=":",
        label=f"{1000 * IN_TIME_S:.0f} ms: a conversation",
    )
    axes.legend()
    return {"delays": figure}


STUDY = Study.of_module(
    __name__,
    title="The last kilometre: telephony beside TCP, with one queue and with priority",
    answers="Gabrielyan 2007, section 4.5: congestion of the last kilometre is solved by QoS at the router; rival: "
    "it is not, as in one queue",
    deviations=(
        "Four TCP connections that take what they can get stand for bursty HTTP.",
        "The queues are the kernel's (htb), on every link; only the last kilometre is ever full.",
    ),
    emulation=True,
    signed=("delays",),  # a sender that is late stamps packets when it is done
)
