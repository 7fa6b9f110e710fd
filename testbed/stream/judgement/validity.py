"""Reasons why a run is invalid: a slow machine, inaccurate clocks, or missing faults."""

from testbed.faults.fault import fault_not_in_force
from testbed.faults.impaired_link import MAX_LATE_S, most_late_s
from testbed.judgement.validity import (
    MAX_UNPLANNED,
    NOTHING_SENT,
    arrived_early,
    dropped_reason,
    first_reason,
    lost_in_no_fault,
)
from testbed.model.machine.load import (
    LOWER_PACKET_RATE,
    first_exceeded,
    overload_message,
)
from testbed.stream.impaired.checks import unrest_s
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.checks import MAX_WRONG
from testbed.stream.judgement.end_counters import miscounted
from testbed.stream.measurements import RELAYED

# Largest difference between the clocks of the sender and of the faults. If it is larger, too few
# packets can be assigned to the time of a fault.
FAULT_GUARD_S = 0.02
# Largest delay that switches may add to packets. With a larger one the run measures the machine, as
# with a late relay.
MAX_QUEUEING_S = MAX_LATE_S
_OF_LATENESS = f" (99 of 100; limit {MAX_QUEUEING_S * 1000:g} ms)"
# Minimum share of the planned blocks that must be sent in a valid run.
MIN_SHARE_OF_PLAN = 0.75


def invalid_reason(facts: Analysis) -> str | None:
    """Return why the run is invalid, or None.

    A stream of which no packet arrived is not invalid but has failed, because a machine that met
    its time limits does not lose every packet.
    """
    plan = facts.plan
    run = facts.run
    sent = len(run.sent.time_s)
    if not sent:
        return NOTHING_SENT
    return first_reason(
        first_exceeded(facts.lateness, LOWER_PACKET_RATE),
        clock_reason(facts),
        _delayed(facts),
        fault_not_in_force(plan.faults, run.faults, plan.duration_s),
        _stopped_early(facts),
        _lost_in_no_fault(facts, sent),
        _strange(facts, sent),
        dropped_reason(run.health.unplanned_drops, sent, "at a full socket or queue"),
    ) or miscounted(facts)


def _lost_in_no_fault(facts: Analysis, sent: int) -> str | None:
    if facts.theory.impaired_spans and not facts.lone_impairments:
        return None
    lost = int(facts.loss_bounds.wrongly_lost.sum())
    limit = MAX_UNPLANNED if facts.theory.faults_alone else MAX_WRONG
    if not len(facts.run.received.time_s):
        return None
    return lost_in_no_fault(lost, sent, limit)


def _strange(facts: Analysis, sent: int) -> str | None:
    strange = abs(len(facts.run.received.time_s) - int((~facts.run.lost).sum()))
    if strange <= MAX_UNPLANNED * sent or facts.theory.impaired_spans:
        return None
    twice = f"{strange} packets were sent or arrived twice, or were never sent"
    return f"{twice}, and no link makes copies"


def clock_reason(facts: Analysis) -> str | None:
    """Return why the clocks of several machines are too inaccurate for this run, or None.

    Their uncertainty must not exceed ``FAULT_GUARD_S``, the shortest measured reaction, or a
    quarter of the playback buffer.
    """
    run = facts.run
    apart_s = run.clocks.fault_to_sender_s
    through_s = run.clocks.end_to_end_s
    if apart_s > FAULT_GUARD_S:
        guard_ms = FAULT_GUARD_S * 1000
        return f"{_known(apart_s)}, and packets are told from a fault's within {guard_ms:g} ms"
    reactions_s = [fault.reaction_s for fault in facts.faults if fault.reaction_s is not None]
    if reactions_s and min(reactions_s) < apart_s:
        quickest_ms = min(reactions_s) * 1000
        return f"{_known(apart_s)}, and the quickest reaction took {quickest_ms:.3g} ms"
    if through_s > facts.playback_quarter_s:
        buffer_ms = facts.playback_quarter_s * 1000
        allows = f"the playback buffer allows {buffer_ms:.0f} ms"
        return f"{_known(through_s)} from sending to arrival, and {allows}"
    transit_s = run.deliveries.transit_s[~run.lost]
    return arrived_early(transit_s, 50, MAX_QUEUEING_S + through_s)


def _known(uncertainty_s: float) -> str:
    return (
        "the clocks of the machines are known to within "
        f"{uncertainty_s * 1000:.3g} ms of each other only"
    )


def _delayed(facts: Analysis) -> str | None:
    """Return why the machine disturbed a run over impaired or delayed links, or None.

    The relay, or links without impairments, delayed packets for too long.
    """
    for name, report in facts.run.counters.get(RELAYED, {}).items():
        late_s = report["late_s"]
        # Records of earlier versions, in which the relay caused no delays, have no such value.
        limit_s = most_late_s(report.get("delay_s", 0.0))
        if report.get("missed"):
            missed = f"{name}: {report['missed']} packets found the relay full"
            return overload_message(missed, LOWER_PACKET_RATE)
        if late_s > limit_s:
            limit = f"(99 of 100; limit {limit_s * 1000:g} ms)"
            late = f"{name}: packets were sent on {late_s * 1000:.1f} ms late {limit}"
            return overload_message(late, LOWER_PACKET_RATE)
    if facts.run.fabric != "emulation" or not facts.theory.impaired_spans:
        return None
    unrest = unrest_s(facts)
    if unrest <= MAX_QUEUEING_S:
        return None
    late = f"packets that met no impairment were up to {unrest * 1000:.1f} ms late"
    return overload_message(late + _OF_LATENESS, LOWER_PACKET_RATE)


def _stopped_early(facts: Analysis) -> str | None:
    """Return why a stream with too few blocks is invalid, or None.

    There is no such limit if nodes move, because streams may then end earlier.
    """
    stream = facts.plan.stream
    blocks = len(facts.run.blocks.block)
    planned = int((facts.plan.duration_s - stream.playback_s) / stream.block_s)
    if blocks >= MIN_SHARE_OF_PLAN * planned or facts.plan.changes:
        return None
    return f"{blocks} of {planned} blocks were sent"
