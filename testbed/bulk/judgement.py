"""A bulk run's measurements beside its prediction: figures, and the verdict.

Every run must come to its end with each message delivered once and verified. Where circuits ran without faults, their
throughput is held against the prediction and the links' bytes against the schedule; a machine that did not keep up makes that
verdict invalid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.bulk.calibration import machine_lag
from testbed.bulk.measurements import BulkMeasurements
from testbed.bulk.plan import BulkPlan
from testbed.bulk.planning import ROUNDS
from testbed.bulk.prediction import HEADERS_BYTES, expected_bytes, liquid_throughput_bps
from testbed.faults.coming import came_check, fault_moments
from testbed.model.machine.strain import StrainLimits, could_not_keep_up, why_not_kept_up
from testbed.model.verdict import Check, Verdict
from topologies.network import LinkId

LIQUID_RATIO = 0.95
"""What a liquid schedule's run must reach of the predicted liquid throughput."""
ORDER_TOLERANCE = 0.1
"""How far the ratio of any other order may lie from that of its virtual-time run."""
COUNTER_TOLERANCE = 0.02
MAX_STANDSTILL, USUAL_LATENESS_S, MAX_LATE_S = 0.4, 0.01, 0.0015
"""Of the time that a run may lose against its prediction, what its machine may stand still at once (so long it may in any run,
however short); and how late a thread may wake on average."""
STRAY_SHARE, STRAY_PACKETS = 0.03, 2
"""Of the messages' own packets, what switches may drop and TCP repeats; small messages: so many packets of each."""
SEGMENT_BYTES = 8948
"""Data in a packet of the largest size on the emulated links."""


@dataclass(frozen=True, kw_only=True)
class BulkAnalysis:
    """Figures of one run beside its prediction. ``liquid_throughput_bps``: liquid throughput times calibrated goodput; ``ratio``:
    measured throughput over it; ``predicted_ratio``: that of the same plan in virtual time. ``busy``: bottleneck -> fraction
    of each time frame in which it carried data. ``counter_error``: largest relative difference between the bytes that a link
    carried and the bytes that the schedule puts on it, those that TCP sent again there set aside."""

    throughput_bps: float
    liquid_throughput_bps: float
    ratio: float
    predicted_ratio: float
    verified: int
    busy: Mapping[LinkId, tuple[float, ...]]
    counter_error: float
    worst_link: LinkId | None


def analyse(plan: BulkPlan, run: BulkMeasurements, predicted_ratio: float) -> BulkAnalysis:
    """The figures of a run. ``predicted_ratio``: throughput of the same plan in virtual time over liquid throughput."""
    liquid_bps = liquid_throughput_bps(plan, run.goodput)
    delivered_bits = run.delivered * plan.message_bytes * 8
    throughput = delivered_bits / run.seconds if run.seconds > 0 else 0.0
    error, worst = _counter_error(plan, run)
    return BulkAnalysis(
        throughput_bps=throughput,
        liquid_throughput_bps=liquid_bps,
        ratio=throughput / liquid_bps,
        predicted_ratio=predicted_ratio,
        verified=sum(r.deliveries == 1 for r in run.transfers),
        busy=busy_fractions(plan, run, plan.bottlenecks),
        counter_error=error,
        worst_link=worst,
    )


def busy_fractions(plan: BulkPlan, run: BulkMeasurements, links: Sequence[LinkId]) -> dict[LinkId, tuple[float, ...]]:
    """Link -> for every time frame that ended, the fraction of it in which some transfer over the link was sending."""
    times = run.frame_times_s
    busy: dict[LinkId, list[float]] = {link: [0.0] * len(times) for link in links}
    for record in run.transfers:
        if record.began_s is None or record.done_s is None:
            continue
        number = plan.frame_of[record.transfer]
        if number >= len(times):
            continue
        begin, end = times[number]
        share = (min(end, record.done_s) - max(begin, record.began_s)) / (end - begin) if end > begin else 0.0
        for link in record.path:
            if link in busy:
                busy[link][number] += max(0.0, share)
    return {link: tuple(min(1.0, x) for x in shares) for link, shares in busy.items()}


def retransmitted_bytes(plan: BulkPlan, run: BulkMeasurements) -> dict[LinkId, int]:
    """Link -> the most bytes that TCP's retransmissions may have put on it; those dropped at a switch got less far."""
    found: dict[LinkId, int] = {}
    for number, (octets, packets) in run.retransmitted.items():
        for link in plan.transfers[number].path:
            found[link] = found.get(link, 0) + octets + packets * HEADERS_BYTES
    return found


def _counter_error(plan: BulkPlan, run: BulkMeasurements) -> tuple[float, LinkId | None]:
    """(largest relative difference, its link) of the links that carry data; virtual time counts no headers, so it has none."""
    if run.fabric != "emulation" or run.lost_links or run.failure is not None:
        return 0.0, None
    expected = expected_bytes(plan, run.packet_payload_bytes)
    again = retransmitted_bytes(plan, run)
    errors = {}
    for link in plan.loads:
        more = run.links[link].bytes - expected[link]
        errors[link] = max(-more, more - again.get(link, 0), 0.0) / expected[link]
    worst = max(errors, key=lambda link: errors[link])
    return errors[worst], worst


def judge(plan: BulkPlan, run: BulkMeasurements, analysis: BulkAnalysis) -> Verdict:
    """Completeness for every run; throughput against prediction where one is claimed; circuits against the switches' counters."""
    count = len(plan.transfers)
    checks = [
        Check(
            name="the run came to its end",
            predicted=None,
            measured=None,
            tolerance=None,
            passed=run.failure is None,
            detail=run.failure or "",
        ),
        Check.equal(
            "messages delivered exactly once and verified",
            count,
            analysis.verified,
            detail=f"{analysis.verified * plan.message_bytes} of {plan.total_bytes} bytes",
        ),
    ]
    checks += came_check(fault_moments(plan.faults, plan.killed), run.seconds)
    strained = None
    whole = run.failure is None and not plan.faults and not plan.killed
    if whole and plan.switching == "circuit":
        if run.fabric == "emulation":
            checks += _circuit_checks(plan, run, analysis)
        checks.append(_throughput_check(plan, analysis))
        strained = _strained(run, checks[-1].tolerance or 0.0)
    notes = [f"deadlock broken: {text}" for text in run.deadlocks[:5]]
    if len(run.deadlocks) > 5:
        notes.append(f"and {len(run.deadlocks) - 5} more deadlocks")
    notes += [f"link cut: {a}->{b}" for a, b, _ in run.lost_links]
    return Verdict(checks=tuple(checks), notes=tuple(notes), invalid=machine_lag(run.goodput) or strained)


def _strained(run: BulkMeasurements, tolerance: float) -> str | None:
    """Why a run of which a throughput is claimed says nothing: decided by how late a thread woke, never by what came out."""
    limits = StrainLimits(
        worst_lateness_s=max(USUAL_LATENESS_S, MAX_STANDSTILL * tolerance * run.seconds), mean_lateness_s=MAX_LATE_S
    )
    if run.strain is None:
        return None
    return why_not_kept_up([run.strain], limits, run.seconds) or _changes_too_long(run, tolerance)


def _changes_too_long(run: BulkMeasurements, tolerance: float) -> str | None:
    """Why time frames were too short for this machine's switches: changing circuits, which a schedule takes for nothing, took more of
    the run than is left to tell a schedule from a worse one."""
    limit_s = MAX_STANDSTILL * tolerance * run.seconds
    if not run.rule_changes or run.changing_s <= limit_s:
        return None
    each_ms = 1e3 * run.changing_s / run.rule_changes
    return could_not_keep_up(
        f"{run.rule_changes} changes of circuits took {each_ms:.1f} ms each, {run.changing_s / run.seconds:.1%} of the run (limit "
        f"{limit_s / run.seconds:.1%})",
        mend="give longer time frames: a larger --message-size, or a lower --link-rate",
    )


def _throughput_check(plan: BulkPlan, analysis: BulkAnalysis) -> Check:
    if plan.barrier and plan.method not in ROUNDS and len(plan.frames) == plan.bottleneck_load:
        return Check(
            name="throughput over predicted liquid throughput",
            predicted=1.0,
            measured=analysis.ratio,
            tolerance=1 - LIQUID_RATIO,
            passed=analysis.ratio >= LIQUID_RATIO,
            detail=f"at least {LIQUID_RATIO}",
        )
    return Check.equal(
        "throughput over predicted liquid throughput, against the order in virtual time",
        analysis.predicted_ratio,
        analysis.ratio,
        tolerance=ORDER_TOLERANCE,
    )


def _circuit_checks(plan: BulkPlan, run: BulkMeasurements, analysis: BulkAnalysis) -> list[Check]:
    """What the switches' counters must show where data finds a way over circuits alone."""
    dropped = sum(run.dropped.values())
    own = max(1, len(plan.transfers) * plan.message_bytes // SEGMENT_BYTES)
    stray = max(0, dropped - run.injected) / own
    most_stray = max(STRAY_SHARE, STRAY_PACKETS * len(plan.transfers) / own)
    named = "" if analysis.worst_link is None else f"worst: {analysis.worst_link[0]}->{analysis.worst_link[1]}"
    return [
        Check.equal(
            "packets injected without a circuit, dropped at switches",
            run.injected,
            min(dropped, run.injected),
            detail=f"{dropped} packets were dropped at switches in all",
        ),
        Check.equal(
            "packets of the messages themselves dropped at switches, share of all",
            0.0,
            stray,
            tolerance=most_stray,
            detail="repetitions that come after their circuit is gone, first packets that a switch still holds for strays; TCP repeats them",
        ),
        Check.equal(
            "bytes of links by the switches' counters against the schedule",
            0.0,
            analysis.counter_error,
            tolerance=COUNTER_TOLERANCE,
            detail=named,
        ),
    ]
