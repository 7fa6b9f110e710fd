"""What theory says that a bulk run will measure, and its measurements next to it: figures, and the verdict.

Every run must come to its end with each message delivered once and verified. Where circuits ran without faults, their
throughput is held against the prediction and the links' bytes against the schedule; a machine that did not keep up
makes that verdict invalid.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from testbed.bulk.calibration import AT_ONCE_BYTES, LONGER_FRAMES, machine_lag
from testbed.bulk.link_rates import overload_hint
from testbed.bulk.measurements import HEADERS_BYTES, BulkMeasurements, Goodput
from testbed.bulk.messages import OVERHEAD_BYTES
from testbed.bulk.plan import BulkPlan
from testbed.bulk.planning import ROUNDS, conflict_free_frames
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.faults.fault import injection_check, injection_times
from testbed.machines.machines_report import MachinesReport
from testbed.model.machine.load import MachineLoadLimits, overload_message, overload_reason
from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import Judgement
from topologies import Json, JsonObject, LinkId, label_of, reverse_of


def liquid_throughput_bps(plan: BulkPlan, goodput: Goodput) -> float:
    """Bits of payload a second that no order of the transfers exceeds: the traffic's liquid throughput in links
    (Gabrielyan 2007, eq. 3) times the calibrated goodput of one link. If links differ in rate, both count links of the
    fastest rate."""
    return float(plan.liquid_links) * goodput.single_path_bps


def predicted_ratio(plan: BulkPlan) -> float:
    """Throughput of the plan's own order over liquid throughput, 0 to 1, in virtual time and without faults."""
    virtual_s = SimulatedBulkFabric().run(replace(plan, faults=(), killed=(), injected=0)).seconds
    liquid_s = plan.total_bytes * 8 / (float(plan.liquid_links) * plan.link_rate_bps)
    return liquid_s / virtual_s if virtual_s > 0 else 0.0


def expected_bytes(plan: BulkPlan, packet_payload_bytes: int) -> dict[LinkId, float]:
    """Link -> bytes that the schedule puts on it: messages with their headers, and on the way back at most one
    acknowledgement for every two packets."""
    message = plan.message_bytes + OVERHEAD_BYTES
    packets = -(-message // packet_payload_bytes)
    forward, back = message + packets * HEADERS_BYTES, packets * HEADERS_BYTES / 2
    found: dict[LinkId, float] = {}
    for transfer in plan.transfers:
        for a, b, key in transfer.path:
            found[a, b, key] = found.get((a, b, key), 0.0) + forward
            found[b, a, key] = found.get((b, a, key), 0.0) + back
    return found


LIQUID_RATIO = 0.95
"""What a liquid schedule's run must reach of the predicted liquid throughput."""
ORDER_TOLERANCE = 0.1
"""How far the ratio of any other order may lie from that of its virtual-time run."""
COUNTER_TOLERANCE, SHARED_TOLERANCE = 0.02, 0.25
MAX_STANDSTILL, USUAL_LATENESS_S, MAX_LATE_S = 0.4, 0.01, 0.0015
"""Of the time that a run may lose against its prediction, what its machine may stand still at once (so long it may in
shorter runs too, but never longer than all that time); and how late a thread may wake on average."""
TIMEOUT_S = 0.2
"""TCP waits so long at least before it sends again what nobody acknowledged (Linux: TCP_RTO_MIN)."""
STRAY_SHARE, STRAY_PACKETS = 0.03, 2
"""Of the messages' own packets, what switches may drop and TCP repeats; small messages: so many packets of each."""
SEGMENT_BYTES = 8948
"""Data in a packet of the largest size on the emulated links; slow links have smaller ones, for which the bounds are
stricter."""
_STRAYS = (
    "repetitions that come after their circuit is gone, first packets that a switch still holds for strays; TCP repeats"
    " them"
)


OF_PLANS = (
    "switching",
    "method",
    "barrier",
    "message_bytes",
    "link_rate_bps",
    "parts",
    "bottleneck_load",
)
OF_RUNS = (
    "fabric",
    "seconds",
    "rule_changes",
    "slowest_change_s",
    "circuit_change_s",
    "cpu_fraction",
    "failure",
)
"""What the row of a run has of its plan and of its measurements, by their names."""


def judge_bulk(plan: BulkPlan, run: BulkMeasurements) -> Judgement:
    """Verdict and figures next to what is predicted; one row has them all."""
    row = _row(plan, run)
    verdict = judge(plan, run, row)
    return Judgement(
        verdict=verdict, document={**row, "verdict": dict(verdict.to_json())}, rows=(row,)
    )


def _row(plan: BulkPlan, run: BulkMeasurements) -> JsonObject:
    """Everything that figures and tables are drawn from, JSON-ready. ``liquid_throughput_bps``: liquid throughput times
    calibrated goodput; ``ratio``: measured throughput over it; ``predicted_ratio``: that of the same plan in virtual
    time; ``bottleneck_busy``: of each, the fraction of each time frame in which it carried data."""
    liquid_bps = liquid_throughput_bps(plan, run.goodput)
    throughput_bps = (
        run.delivered * plan.message_bytes * 8 / run.seconds if run.seconds > 0 else 0.0
    )
    delivered = Counter[int]()
    for record in run.transfers:
        delivered[record.transfer] += record.deliveries
    verified = sum(times == 1 for times in delivered.values())
    busy = busy_fractions(plan, run, plan.bottlenecks)
    return {
        **{name: getattr(plan, name) for name in OF_PLANS},
        **{name: getattr(run, name) for name in OF_RUNS},
        "network": plan.network.name,
        "bytes": run.delivered * plan.message_bytes,
        "throughput_bps": throughput_bps,
        "goodput_bps": run.goodput.single_path_bps,
        "concurrent_goodput_bps": run.goodput.concurrent_bps,
        "liquid_links": float(plan.liquid_links),
        "liquid_throughput_bps": liquid_bps,
        "ratio": throughput_bps / liquid_bps,
        "predicted_ratio": predicted_ratio(plan),
        "transfers": len(plan.transfers),
        "frames": conflict_free_frames(plan),
        "rounds": len(plan.frames) if plan.method in ROUNDS else None,
        "verified": verified == len(plan.transfers),
        "messages_verified": verified,
        "deadlocks": len(run.deadlocks),
        "injected_packets": run.injected,
        "dropped_packets": sum(run.dropped.values()),
        "queue_drops": sum(c.queue_drops for c in run.links.values()),
        "frame_times_s": [list(times) for times in run.frame_times_s],
        "bottlenecks": [label_of(link) for link in busy],
        "bottleneck_busy": [[round(x, 4) for x in shares] for shares in busy.values()],
        "link_loads": [
            [label_of(k), n, run.links[k].bytes if k in run.links else 0]
            for k, n in plan.loads.items()
        ],
        "machines": None if run.machines is None else _of_machines(plan, run, run.machines),
        "retried_transfers": [
            plan.transfers[r.transfer].name for r in run.transfers if r.attempts > 1
        ],
    }


def _of_machines(plan: BulkPlan, run: BulkMeasurements, report: MachinesReport) -> JsonObject:
    """``seconds`` is right to within ``seconds_uncertainty_s``; ``messages_undecided``: done so near to a fault's
    beginning or end that the clocks cannot tell on which side."""
    moments = [moment_s for fault in plan.faults for moment_s in (fault.start_s, fault.stop_s)]
    done = [record.done_s for record in run.transfers if record.done_s is not None]
    return {
        **report.to_json(),
        "seconds_uncertainty_s": report.uncertainty_s,
        "messages_undecided": report.undecided(done, moments),
    }


def busy_fractions(
    plan: BulkPlan, run: BulkMeasurements, links: Sequence[LinkId]
) -> dict[LinkId, tuple[float, ...]]:
    """Link -> for every time frame that ended, the fraction of it in which some transfer over the link was sending."""
    times = run.frame_times_s
    busy: dict[LinkId, list[float]] = {link: [0.0] * len(times) for link in links}
    for record in run.transfers:
        if record.started_s is None or record.done_s is None:
            continue
        number = plan.frame_of[record.transfer]
        if number >= len(times):
            continue
        begin, end = times[number]
        share = (
            (min(end, record.done_s) - max(begin, record.started_s)) / (end - begin)
            if end > begin
            else 0.0
        )
        for link in record.path:
            if link in busy:
                busy[link][number] += max(0.0, share)
    return {link: tuple(min(1.0, x) for x in shares) for link, shares in busy.items()}


def retransmitted_bytes(plan: BulkPlan, run: BulkMeasurements) -> dict[LinkId, int]:
    """Link -> the most bytes that TCP's retransmissions may have put on it; those dropped at a switch got less far."""
    found: dict[LinkId, int] = {}
    for number, repeats in run.retransmitted.items():
        for link in plan.transfers[number].path:
            found[link] = found.get(link, 0) + repeats.bytes + repeats.packets * HEADERS_BYTES
    return found


def counter_error(plan: BulkPlan, run: BulkMeasurements) -> tuple[float, LinkId]:
    """(largest relative difference, its link) between the bytes that a link carried and those that the plan puts on it,
    what TCP sent again there set aside. Virtual time counts no headers; those of packets that share links are more,
    where they come out of order, or fewer."""
    messages: dict[LinkId, float] = {
        link: load * plan.message_bytes for link, load in plan.loads.items()
    }
    expected = (
        expected_bytes(plan, run.packet_payload_bytes) if run.fabric == "emulation" else messages
    )
    again, errors = retransmitted_bytes(plan, run), {}
    for link in (
        *plan.loads,
        *(link for link in run.links if link not in expected),
    ):  # these in parts of a message
        own = expected.get(link, 0.0)
        more = (run.links[link].bytes if link in run.links else 0) - own
        headers = own - messages.get(link, 0.0) if plan.switching == "packet" else 0.0
        errors[link] = max(-more - headers, more - 2 * headers - again.get(link, 0), 0.0) / max(
            own, plan.message_bytes
        )
    worst = max(errors, key=lambda link: errors[link])
    return errors[worst], worst


def misplaced(plan: BulkPlan, run: BulkMeasurements, planned: bool) -> int:
    """Messages that went faster than links are or, where circuits went as ``planned``, another path than theirs, or
    over a link that another one's circuit held; all, where the run did not end with the last."""
    wrong, off_s = set[int](), 0.0 if run.machines is None else run.machines.uncertainty_s
    least_share = max(0.0, 1 - AT_ONCE_BYTES / plan.message_bytes) / (2 - LIQUID_RATIO)
    ended_s = [record.done_s for record in run.transfers if record.done_s is not None]
    held: dict[LinkId, list[tuple[float, float, int]]] = {}
    for record in run.transfers:
        start_s, done_s, number = record.started_s, record.done_s, record.transfer
        if start_s is None or done_s is None:
            continue  # it is counted as not delivered
        astray = planned and record.path != plan.transfers[number].path
        least_s = plan.transfer_s[number] * least_share
        if astray or start_s < 0 or done_s - start_s <= least_s - 2 * off_s:
            wrong.add(number)
        for link in record.path if planned else ():
            held.setdefault(link, []).append((start_s, done_s, number))
    for spans in held.values():
        wrong |= {
            later[2] for sooner, later in pairwise(sorted(spans)) if later[0] < sooner[1] - off_s
        }
    whole = not ended_s or abs(run.seconds - max(ended_s)) <= 2 * off_s
    return len(wrong) if whole else len(run.transfers)


def judge(plan: BulkPlan, run: BulkMeasurements, row: Json) -> Verdict:
    """Completeness for every run; throughput against prediction where one is claimed; circuits against the switches'
    counters."""
    count, whole = len(plan.transfers), run.failure is None and not plan.faults and not plan.killed
    wrong = (
        misplaced(plan, run, whole and plan.switching == "circuit") if run.failure is None else 0
    )
    seen = {link for lost in run.lost_links for link in (lost, reverse_of(lost))}
    missed = [f for f in plan.faults if f.kind == "down" and f.link not in seen] or (
        plan.killed and not run.failure
    )
    verified = row["messages_verified"] * plan.message_bytes
    ended = Check(
        name="the run came to its end",
        key="ended",
        passed=run.failure is None,
        detail=run.failure or "",
    )
    checks = [
        ended.of(run.delivered) if ended.passed else ended,
        Claim("messages delivered exactly once and verified", "verified")
        .equal(count, row["messages_verified"] - wrong)
        .noting(
            f"{verified} of {plan.total_bytes} bytes"
            + f"; {wrong} not where and when it was to go" * bool(wrong)
        ),
    ]
    came = injection_check(injection_times(plan.faults, plan.killed), run.seconds)
    checks += [check.of(not missed, "nothing saw it break") for check in came]
    strained = None
    if whole:
        circuits = plan.switching == "circuit"
        checks += _circuit_checks(plan, run) if circuits and run.fabric == "emulation" else []
        (error, worst), tolerance = (
            counter_error(plan, run),
            COUNTER_TOLERANCE if circuits else SHARED_TOLERANCE,
        )
        carried = Claim("bytes that links carried against those of the plan", "link-bytes")
        checks.append(
            carried.equal(0.0, error, tolerance).noting(f"worst: {label_of(worst)}" * (error > 0))
        )
    if whole and circuits:
        checks.append(_throughput_check(plan, row))
        strained = _strained(plan, run, row, checks[-1])
    notes = [plan.rates.note] if plan.rates is not None and plan.rates.note else []
    notes += [f"deadlock broken: {text}" for text in run.deadlocks[:5]]
    if len(run.deadlocks) > 5:
        notes.append(f"and {len(run.deadlocks) - 5} more deadlocks")
    notes += [f"link cut: {label_of(link)}" for link in run.lost_links]
    planned = {link for fault in plan.faults for link in (fault.link, reverse_of(fault.link))}
    astray = [
        f"{label_of(link)} was cut in no planned fault"
        for link in run.lost_links
        if link not in planned
    ]
    invalid = (machine_lag(plan, run.goodput), strained, *astray)
    return Verdict(
        checks=tuple(checks), notes=tuple(notes), invalid=next(filter(None, invalid), None)
    )


def _strained(plan: BulkPlan, run: BulkMeasurements, row: Json, claim: Check) -> str | None:
    """Why a run of which a throughput is claimed says nothing: decided by what the machine did, never by what came out,
    and held against the time that the run was to take, never against the time that it took."""
    if run.strain is None:
        return None
    predicted_s = plan.total_bytes * 8 / (row["liquid_throughput_bps"] * (claim.predicted or 1.0))
    spare_s = predicted_s * (1 - LIQUID_RATIO if _is_liquid(plan) else ORDER_TOLERANCE)
    limits = MachineLoadLimits(
        worst_lateness_s=max(min(USUAL_LATENESS_S, spare_s), MAX_STANDSTILL * spare_s),
        mean_lateness_s=MAX_LATE_S,
    )
    machine = overload_reason([run.strain], limits, run.seconds, overload_hint(plan.rates))
    circuit_change_s = _delay_by_changes_s(plan, run, predicted_s)
    changes = _changes_too_long(run, circuit_change_s, predicted_s, MAX_STANDSTILL * spare_s)
    short = MAX_STANDSTILL * spare_s < USUAL_LATENESS_S  # then a longer run is what repairs it
    repeats = _repeats_too_long(plan, run, circuit_change_s, predicted_s, spare_s)
    return (changes or machine if short else machine or changes) or repeats


def _delay_by_changes_s(plan: BulkPlan, run: BulkMeasurements, predicted_s: float) -> float:
    """By how much changing circuits can have made the run longer. A time frame waits for each change between it and the
    one before; where none waits, other transfers go on meanwhile, and of those that wait for one another, which are
    no more than fit into the predicted time, each waits for its own, and as often as one is under way for another."""
    if plan.barrier or not run.rule_changes:
        return run.circuit_change_s
    each_s = run.circuit_change_s / run.rule_changes * (1 + run.circuit_change_s / predicted_s)
    return min(run.circuit_change_s, each_s * predicted_s / min(plan.transfer_s))


def _changes_too_long(
    run: BulkMeasurements, circuit_change_s: float, predicted_s: float, limit_s: float
) -> str | None:
    """Why time frames were too short for this machine's switches: changing circuits, which a schedule takes for
    nothing, took more of the run than is left to tell a schedule from a worse one."""
    if circuit_change_s <= limit_s:
        return None
    each_ms = 1e3 * run.circuit_change_s / max(1, run.rule_changes)
    return overload_message(
        f"{run.rule_changes} changes of circuits took {each_ms:.1f} ms each, {circuit_change_s / predicted_s:.1%} of the"
        f" predicted time (limit {limit_s / predicted_s:.1%})",
        hint=LONGER_FRAMES,
    )


def _repeats_too_long(
    plan: BulkPlan,
    run: BulkMeasurements,
    circuit_change_s: float,
    predicted_s: float,
    limit_s: float,
) -> str | None:
    """Why messages were too short for what TCP had to repeat: with the changes of circuits that took more than all that
    is left to tell a schedule from a worse one.

    Only as many packets as switches may miss of messages whose circuit is new; what queues had no room for is the
    schedule's fault.
    """
    packets = sum(repeats.packets for repeats in run.retransmitted.values())
    if packets > _most_stray(plan) * _own_packets(plan) or any(
        count.queue_drops for count in run.links.values()
    ):
        return None
    took_s = retransmission_time_s(plan, run)
    if not packets or took_s + circuit_change_s <= limit_s:
        return None
    timeouts = sum(repeats.timeouts for repeats in run.retransmitted.values())
    return overload_message(
        f"TCP sent {packets} packets again, {timeouts} after a time-out of {1e3 * TIMEOUT_S:.0f} ms, which takes up to "
        f"{took_s / predicted_s:.1%} of the predicted time (limit, circuits' changes too, {limit_s / predicted_s:.1%})",
        hint=LONGER_FRAMES,
    )


def retransmission_time_s(plan: BulkPlan, run: BulkMeasurements) -> float:
    """By how much TCP's repeating can have made the run longer: of each time frame, the transfer that repeated for
    longest."""
    longest = [0.0] * len(plan.frames)
    for number, repeats in run.retransmitted.items():
        octets = repeats.bytes + repeats.packets * HEADERS_BYTES
        rate_bps = plan.path_rate_bps(plan.transfers[number].path)
        took_s = octets * 8 / rate_bps + repeats.timeouts * TIMEOUT_S
        longest[plan.frame_of[number]] = max(longest[plan.frame_of[number]], took_s)
    return sum(longest)


def _is_liquid(plan: BulkPlan) -> bool:
    """Return whether the plan's order is a liquid schedule with a barrier between time frames."""
    return plan.barrier and plan.method not in ROUNDS and len(plan.frames) == plan.bottleneck_load


def _throughput_check(plan: BulkPlan, row: Json) -> Check:
    if _is_liquid(plan):
        # Where links differ in rate, a time frame waits for its slowest circuit.
        predicted = 1.0 if plan.equal_rates else row["predicted_ratio"]
        least = LIQUID_RATIO * predicted
        # Links rest between messages.
        most = predicted * (2 - LIQUID_RATIO) / (1 - min(0.5, AT_ONCE_BYTES / plan.message_bytes))
        return Check(
            name="throughput over predicted liquid throughput",
            key="throughput",
            predicted=predicted,
            measured=row["ratio"],
            tolerance=predicted - least,
            passed=least <= row["ratio"] <= most,
            detail=f"at least {least:.4g}" + f", at most {most:.2f}" * (row["ratio"] > most),
        )
    name = "throughput over predicted liquid throughput, against the order in virtual time"
    return Claim(name, "throughput").equal(row["predicted_ratio"], row["ratio"], ORDER_TOLERANCE)


def _circuit_checks(plan: BulkPlan, run: BulkMeasurements) -> list[Check]:
    """What the switches' counters must show where data finds a way over circuits alone."""
    dropped = sum(run.dropped.values())
    stray = max(0, dropped - run.injected) / _own_packets(plan)
    injected = Claim("packets injected without a circuit, dropped at switches", "injected-dropped")
    counted = run.injected if run.injected > plan.injected else min(dropped, run.injected)
    refused = injected.equal(plan.injected, counted)
    refused = refused.noting(f"{dropped} packets were dropped at switches in all").of(run.injected)
    return [
        *([refused] if plan.injected else []),
        Claim("packets of the messages themselves dropped at switches, share of all", "own-dropped")
        .equal(0.0, stray, _most_stray(plan))
        .noting(_STRAYS)
        .of(run.delivered),
    ]


def _own_packets(plan: BulkPlan) -> int:
    """Of the messages themselves."""
    return max(1, len(plan.transfers) * plan.message_bytes // SEGMENT_BYTES)


def _most_stray(plan: BulkPlan) -> float:
    """The share of them that switches may drop."""
    return max(STRAY_SHARE, STRAY_PACKETS * len(plan.transfers) / _own_packets(plan))
