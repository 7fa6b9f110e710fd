"""The judgement of a bulk run: predicted and measured figures next to each other, and the verdict.

Every run must end with each message delivered once and verified. If circuits ran without faults,
their throughput is compared with the prediction and the links' bytes with the schedule. If the
machine did not keep up, that verdict is invalid.
"""

from collections.abc import Iterable, Iterator

from testbed.bulk.calibration import AT_ONCE_BYTES, LONGER_FRAMES, machine_lag
from testbed.bulk.facts import LIQUID_RATIO, ORDER_TOLERANCE, TIMEOUT_S, BulkFacts
from testbed.bulk.link_rates import overload_hint, rate_notes
from testbed.bulk.measurements import BulkMeasurements
from testbed.bulk.plan import BulkPlan
from testbed.bulk.planning import ROUNDS, conflict_free_frames
from testbed.faults.fault import injection_check, injection_times
from testbed.judgement.validity import first_reason
from testbed.machines.machines_report import MachinesReport
from testbed.model.machine.load import MachineLoadLimits, overload_message, overload_reason
from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import Judgement
from topologies import JsonObject, LinkId, label_of, reverse_of

# The relative difference between the bytes of a link and those of the plan: if circuits are set up,
# and if packets share links.
_CIRCUIT_BYTES_TOLERANCE = 0.02
_SHARED_BYTES_TOLERANCE = 0.25
# A machine may stand still for this share of the time by which its run may be longer than
# predicted.
_MAX_STANDSTILL_SHARE = 0.4
# In short runs it may stand still for this time, but never for more than the tolerated delay.
_USUAL_LATENESS_S = 0.01
# The largest mean lateness of a thread that wakes.
_MAX_MEAN_LATENESS_S = 0.0015
# Why switches drop some packets even in a correct run.
_STRAYS = (
    "retransmissions after the removal of their circuit, and first packets that meet an outdated "
    "entry of a switch's cache; TCP sends them again"
)
# The notes of a verdict describe up to this number of deadlocks, and count the others.
_MAX_DEADLOCKS_NOTED = 5

# Fields of the plan and of the measurements that the row of a run has under the same names.
_PLAN_FIELDS = (
    "switching",
    "method",
    "barrier",
    "message_bytes",
    "link_rate_bps",
    "parts",
    "bottleneck_load",
)
_RUN_FIELDS = (
    "fabric",
    "seconds",
    "rule_changes",
    "slowest_change_s",
    "circuit_change_s",
    "cpu_fraction",
    "failure",
)


def judge_bulk(plan: BulkPlan, run: BulkMeasurements) -> Judgement:
    """Return the verdict and the figures of a run; its one row has all figures."""
    facts = BulkFacts(plan, run)
    row = _row(facts)
    verdict = _verdict(facts)
    document = {**row, "verdict": dict(verdict.to_json())}
    return Judgement(verdict=verdict, document=document, rows=(row,))


def _row(facts: BulkFacts) -> JsonObject:
    """Return all figures of a run, JSON-ready.

    ``liquid_throughput_bps`` is the liquid throughput for the calibrated goodput. ``ratio`` is the
    measured throughput divided by it. ``predicted_ratio`` is the ratio of a simulation of the plan.
    ``bottleneck_busy`` has, for each bottleneck, the fraction of each time frame in which it
    carried data.
    """
    plan = facts.plan
    run = facts.run
    busy = facts.busy_fractions(plan.bottlenecks)
    return {
        **{name: getattr(plan, name) for name in _PLAN_FIELDS},
        **{name: getattr(run, name) for name in _RUN_FIELDS},
        "network": plan.network.name,
        "bytes": run.delivered * plan.message_bytes,
        "throughput_bps": facts.throughput_bps,
        "goodput_bps": run.goodput.single_path_bps,
        "concurrent_goodput_bps": run.goodput.concurrent_bps,
        "liquid_links": float(plan.liquid_links),
        "liquid_throughput_bps": facts.liquid_throughput_bps,
        "ratio": facts.ratio,
        "predicted_ratio": facts.predicted_ratio,
        "transfers": len(plan.transfers),
        "frames": conflict_free_frames(plan),
        "rounds": len(plan.frames) if plan.method in ROUNDS else None,
        "verified": facts.messages_verified == len(plan.transfers),
        "messages_verified": facts.messages_verified,
        "deadlocks": len(run.deadlocks),
        "injected_packets": run.injected,
        "dropped_packets": facts.dropped_packets,
        "queue_drops": sum(c.queue_drops for c in run.links.values()),
        "frame_times_s": list(map(list, run.frame_times_s)),
        "bottlenecks": list(map(label_of, busy)),
        "bottleneck_busy": list(map(_rounded, busy.values())),
        "link_loads": _link_loads(facts),
        "machines": None if run.machines is None else _machines_figures(facts, run.machines),
        "retried_transfers": _retried_transfers(facts),
    }


def _link_loads(facts: BulkFacts) -> list[list[object]]:
    """Return the label, the planned messages and the counted bytes of each link."""
    rows: list[list[object]] = []
    for link, messages in facts.plan.loads.items():
        count = facts.run.links.get(link)
        rows.append([label_of(link), messages, 0 if count is None else count.bytes])
    return rows


def _retried_transfers(facts: BulkFacts) -> list[str]:
    names = []
    for record in facts.run.transfers:
        if record.attempts > 1:
            names.append(facts.plan.transfers[record.transfer].name)
    return names


def _rounded(shares: Iterable[float]) -> list[float]:
    return [round(share, 4) for share in shares]


def _machines_figures(facts: BulkFacts, report: MachinesReport) -> JsonObject:
    """Return the figures of a run over several machines.

    ``seconds`` is right to within ``seconds_uncertainty_s``. ``messages_undecided`` counts the
    messages that ended so near to the beginning or end of a fault that the clocks cannot tell on
    which side.
    """
    moments_s = []
    for fault in facts.plan.faults:
        moments_s += [fault.start_s, fault.stop_s]
    done_s = [record.done_s for record in facts.run.transfers if record.done_s is not None]
    return {
        **report.to_json(),
        "seconds_uncertainty_s": report.uncertainty_s,
        "messages_undecided": report.undecided(done_s, moments_s),
    }


def _verdict(facts: BulkFacts) -> Verdict:
    """Return all checks of the run, and why it says nothing about the network, or None."""
    checks = [*_checks_of_messages(facts), *_checks_of_faults(facts)]
    strained = None
    if facts.undisturbed:
        if facts.circuits and facts.run.fabric == "emulation":
            checks += _circuit_checks(facts)
        checks.append(_link_bytes(facts))
        if facts.circuits:
            checks.append(_throughput(facts))
            strained = _strained(facts)
    planned = _both_directions(fault.link for fault in facts.plan.faults)
    unplanned = [link for link in facts.run.lost_links if link not in planned]
    invalid = first_reason(
        machine_lag(facts.plan, facts.run.goodput),
        strained,
        *(f"{label_of(link)} failed in no planned fault" for link in unplanned),
    )
    return Verdict(checks=tuple(checks), notes=tuple(_notes(facts)), invalid=invalid)


def _notes(facts: BulkFacts) -> list[str]:
    deadlocks = facts.run.deadlocks
    notes = rate_notes(facts.plan.rates)
    notes += [f"deadlock broken: {text}" for text in deadlocks[:_MAX_DEADLOCKS_NOTED]]
    if len(deadlocks) > _MAX_DEADLOCKS_NOTED:
        notes.append(f"and {len(deadlocks) - _MAX_DEADLOCKS_NOTED} more deadlocks")
    notes += [f"link cut: {label_of(link)}" for link in facts.run.lost_links]
    return notes


def _both_directions(links: Iterable[LinkId]) -> set[LinkId]:
    directions = set()
    for link in links:
        directions |= {link, reverse_of(link)}
    return directions


def _checks_of_messages(facts: BulkFacts) -> Iterator[Check]:
    """Yield the checks of every run: it ended, and every message arrived once."""
    plan = facts.plan
    run = facts.run
    ended = Check(
        name="the run completed",
        key="ended",
        passed=run.failure is None,
        detail=run.failure or "",
    )
    yield ended.of(run.delivered) if ended.passed else ended
    detail = f"{facts.messages_verified * plan.message_bytes} of {plan.total_bytes} bytes"
    if facts.misplaced:
        detail += f"; {facts.misplaced} not over its circuit or not in its time"
    claim = Claim("messages delivered exactly once and verified", "verified")
    arrived = facts.messages_verified - facts.misplaced
    yield claim.equal(len(plan.transfers), arrived).noting(detail)


def _checks_of_faults(facts: BulkFacts) -> Iterator[Check]:
    """Yield the checks that the planned faults occurred, and that the run noticed them."""
    plan = facts.plan
    run = facts.run
    noticed = _both_directions(run.lost_links)
    cuts = [fault.link for fault in plan.faults if fault.kind == "down"]
    missed = any(link not in noticed for link in cuts) or (plan.killed and not run.failure)
    for check in injection_check(injection_times(plan.faults, plan.killed), run.seconds):
        yield check.of(not missed, "nothing noticed the failure")


def _link_bytes(facts: BulkFacts) -> Check:
    error, worst = facts.counter_error
    tolerance = _CIRCUIT_BYTES_TOLERANCE if facts.circuits else _SHARED_BYTES_TOLERANCE
    claim = Claim("relative error of the bytes that links carried", "link-bytes")
    check = claim.equal(0.0, error, tolerance)
    return check.noting(f"worst: {label_of(worst)}") if error > 0 else check


def _circuit_checks(facts: BulkFacts) -> Iterator[Check]:
    """Yield the checks that switches forward data over circuits only."""
    planned = facts.plan.injected
    injected = facts.run.injected
    dropped = facts.dropped_packets
    if planned:
        claim = Claim("packets injected without a circuit, dropped at switches", "injected-dropped")
        counted = injected
        if injected <= planned:
            counted = min(dropped, injected)
        refused = claim.equal(planned, counted)
        detail = f"{dropped} packets were dropped at switches in all"
        yield refused.noting(detail).of(injected)
    name = "share of the messages' packets that switches dropped"
    stray_share = max(0, dropped - injected) / facts.data_packets
    check = Claim(name, "own-dropped").equal(0.0, stray_share, facts.max_stray_share)
    yield check.noting(_STRAYS).of(facts.run.delivered)


def _throughput(facts: BulkFacts) -> Check:
    """Return the check of the measured ratio against the claimed one."""
    predicted = facts.claimed_ratio
    if not facts.liquid_order:
        name = "throughput over predicted liquid throughput, against the order in virtual time"
        return Claim(name, "throughput").equal(predicted, facts.ratio, ORDER_TOLERANCE)
    min_ratio = LIQUID_RATIO * predicted
    # An idle link forwards some bytes at once, and links are idle between messages.
    share_at_once = min(0.5, AT_ONCE_BYTES / facts.plan.message_bytes)
    max_ratio = predicted * (2 - LIQUID_RATIO) / (1 - share_at_once)
    detail = f"at least {min_ratio:.4g}"
    if facts.ratio > max_ratio:
        detail += f", at most {max_ratio:.2f}"
    return Check(
        name="throughput over predicted liquid throughput",
        key="throughput",
        predicted=predicted,
        measured=facts.ratio,
        tolerance=predicted - min_ratio,
        passed=min_ratio <= facts.ratio <= max_ratio,
        detail=detail,
    )


def _strained(facts: BulkFacts) -> str | None:
    """Return why the machine was too slow for a run with a predicted throughput, or None.

    This follows from figures of the machine, never from the throughput. They are compared with the
    predicted duration of the run, never with the measured one.
    """
    if facts.run.strain is None:
        return None
    standstill_s = _MAX_STANDSTILL_SHARE * facts.spare_s
    limits = MachineLoadLimits(
        worst_lateness_s=max(min(_USUAL_LATENESS_S, facts.spare_s), standstill_s),
        mean_lateness_s=_MAX_MEAN_LATENESS_S,
    )
    hint = overload_hint(facts.plan.rates)
    machine = overload_reason([facts.run.strain], limits, facts.run.seconds, hint)
    changes = _changes_too_long(facts, standstill_s)
    repeats = _repeats_too_long(facts)
    if standstill_s < _USUAL_LATENESS_S:
        # Only a longer run helps here, and the reason of the changes says so.
        return first_reason(changes, machine, repeats)
    return first_reason(machine, changes, repeats)


def _changes_too_long(facts: BulkFacts, limit_s: float) -> str | None:
    """Return a reason if changes of circuits took longer than this.

    A schedule neglects the time that they take. If it is too long, the run cannot tell a schedule
    from a worse one.
    """
    run = facts.run
    delay_s = facts.circuit_change_delay_s
    if delay_s <= limit_s:
        return None
    each_ms = 1e3 * run.circuit_change_s / max(1, run.rule_changes)
    share = delay_s / facts.predicted_s
    limit = limit_s / facts.predicted_s
    return overload_message(
        f"{run.rule_changes} changes of circuits took {each_ms:.1f} ms each, "
        f"{share:.1%} of the predicted time (limit {limit:.1%})",
        hint=LONGER_FRAMES,
    )


def _repeats_too_long(facts: BulkFacts) -> str | None:
    """Return a reason if messages were too short for the retransmissions of TCP.

    They are if retransmissions and changes of circuits took all the time by which the run may be
    longer than predicted. Retransmissions are no fault of the schedule only if no queue was full,
    and if they are no more than switches may drop of messages whose circuit is new.
    """
    retransmissions = facts.run.retransmitted.values()
    packets = sum(counts.packets for counts in retransmissions)
    queue_drops = any(count.queue_drops for count in facts.run.links.values())
    if not packets or queue_drops or packets > facts.max_stray_share * facts.data_packets:
        return None
    took_s = facts.retransmission_s
    if took_s + facts.circuit_change_delay_s <= facts.spare_s:
        return None
    timeouts = sum(counts.timeouts for counts in retransmissions)
    share = took_s / facts.predicted_s
    limit = facts.spare_s / facts.predicted_s
    return overload_message(
        f"TCP sent {packets} packets again, "
        f"{timeouts} after a time-out of {1e3 * TIMEOUT_S:.0f} ms, "
        f"which takes up to {share:.1%} of the predicted time "
        f"(limit, including changes of circuits, {limit:.1%})",
        hint=LONGER_FRAMES,
    )
