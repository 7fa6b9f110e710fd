"""The verdict of a streaming run: each predicted figure next to the measured one, with the tolerance stated and its
reason."""

import numpy as np

from testbed.faults.fault import fault_not_in_force
from testbed.faults.impaired_link import MAX_LATE_S, most_late_s
from testbed.model.machine.load import (
    LOWER_PACKET_RATE,
    MAX_UNPLANNED,
    dropped_reason,
    first_exceeded,
    overload_message,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.stream.impaired.checks import impairment_checks, unrest_s
from testbed.stream.judgement.analysis import FAULT_GUARD_S, SessionAnalysis
from testbed.stream.judgement.epoch_verdict import (
    MAX_WRONG,
    Rival,
    campaign_checks,
    chance_failures,
    late_parity_check,
    no_redundancy_rival,
    within,
)
from testbed.stream.judgement.fault_results import FaultResult
from testbed.stream.judgement.packet_logs import miscounted
from testbed.stream.judgement.packet_totals import residual_check
from testbed.stream.judgement.timing_errors import quarter_s
from testbed.stream.measurements import RELAYED, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import is_impaired

COUNTED = "none: each is counted"
MAX_QUEUEING_S = MAX_LATE_S
"""Switches that hold up all packets for longer measure the machine, as a relay that is late does."""
_OF_LATENESS = f" (99 of 100; limit {MAX_QUEUEING_S * 1000:g} ms)"
LEAST_OF_PLAN = 0.75
"""Of the planned blocks have to be sent in a run that counts."""


def judge(plan: StreamPlan, run: StreamMeasurements, analysis: SessionAnalysis) -> Verdict:
    """All checks of the session; invalid, never passed, where the machine could not keep up."""
    if is_impaired(plan):
        return _judge_impaired(plan, run, analysis)
    if analysis.campaign is not None:
        checks = campaign_checks(plan, analysis.campaign, analysis.blocks_outside)
        checks += [_label_check(analysis), *_path_checks(analysis), _content_check(run)]
        return Verdict(
            checks=tuple(checks),
            invalid=invalid_reason(plan, run, analysis),
            notes=run.health.notes,
        )
    checks = []
    for result in analysis.faults:
        checks += fault_checks(
            result, analysis.policy(0.0) if plan.stream.block_size is None else None
        )
        if _is_answered(plan, result):
            checks.append(_decoding_check(plan, result))
    checks = [_compare_with_silence(check, analysis) for check in checks]
    if (
        analysis.blocks_outside or not analysis.blocks
    ):  # else faults last as long as the stream, and their checks have all of it
        blocks = Claim("undecodable blocks outside faults", "undecodable-blocks")
        checks.append(
            blocks.count(0, analysis.undecodable_outside, COUNTED).of(analysis.blocks_outside)
        )
    if plan.stream.block_size is None and any(
        _is_answered(plan, result) for result in analysis.faults
    ):
        checks.append(_ror_check(analysis))
        late, settled = analysis.settled_late_parity
        queued = (
            "background_bps" in run.counters
        )  # queues of TCP hold packets, and nobody predicts which come in time
        if settled and not queued:
            settled_blocks = settled // analysis.policy.base
            by_chance = chance_failures(plan, settled_blocks) * analysis.policy.largest
            checks.append(late_parity_check(late, settled, by_chance))
    checks += _residual_checks(plan, run)
    checks += [_label_check(analysis), *_path_checks(analysis), _content_check(run)]
    return Verdict(
        checks=tuple(checks), invalid=invalid_reason(plan, run, analysis), notes=run.health.notes
    )


def _judge_impaired(
    plan: StreamPlan, run: StreamMeasurements, analysis: SessionAnalysis
) -> Verdict:
    """What the impaired links did, packet by packet; of other faults only their losses, where they stand alone: the
    block sizes with which a sender answers bursts and late packets are not predicted, and neither is ROR then."""
    checks = impairment_checks(plan, run)
    alone = analysis.campaign is None and not any(link.impairments for link in plan.network.links)
    if alone:
        checks += [
            _compare_with_silence(check, analysis)
            for result in analysis.faults
            if not result.impaired
            for check in fault_checks(result, None)
        ]
    checks += _residual_checks(plan, run)
    checks.append(_content_check(run))
    notes = (
        *run.health.notes,
        "unpredicted beside impairments: block sizes, ROR, undecodable blocks after late parity",
    )
    return Verdict(checks=tuple(checks), invalid=invalid_reason(plan, run, analysis), notes=notes)


def _residual_checks(plan: StreamPlan, run: StreamMeasurements) -> list[Check]:
    check = residual_check(plan, run)
    return [] if check is None else [check]


def _is_answered(plan: StreamPlan, result: FaultResult) -> bool:
    """Whether theory has a block size against the fault, and the sender may choose it or has it fixed: else blocks are
    lost, as many as nobody predicts."""
    fixed, needed = plan.stream.block_size, result.predicted_block_size
    return needed is not None and (fixed is None or fixed >= needed)


def _compare_with_silence(check: Check, analysis: SessionAnalysis) -> Check:
    """A loss of everything in a fault, where nothing came outside faults either: that cannot tell what the fault
    took."""
    all_lost = check.key == "loss" and check.predicted is not None and check.predicted >= 1
    arrived = analysis.sent_outside - analysis.lost_outside
    return check.of(arrived, "nothing arrived outside faults either") if all_lost else check


def fault_checks(result: FaultResult, least: int | None) -> list[Check]:
    """The loss of one fault and, where the sender chooses N, the block size that answers it. ``least``: N without
    losses.

    A fault in which no packet was sent that the sender had answered it with cannot tell.
    """
    checks = [_loss_check(result)]
    if least is not None and result.predicted_block_size is not None:
        checks.append(_size_check(result, least))
    return [check.of(result.packets) for check in checks]


def _path_checks(analysis: SessionAnalysis) -> list[Check]:
    """Loss of every path against what its links' faults say, in one check; none where paths are not numbered."""
    if not analysis.paths:
        return []
    measured = [
        path
        for path in analysis.paths
        if path.predicted_loss is not None and path.measured_loss is not None
    ]
    off = [path for path in measured if not path.agrees]
    losses = Claim("paths whose loss is not the predicted one", "path-losses").count(
        0, len(off), COUNTED
    )
    detail = f"of {len(measured)}" + (f"; path {off[0].path} is the first" if off else "")
    return [losses.noting(detail).of(len(measured))]


def _label_check(analysis: SessionAnalysis) -> Check:
    wrong, packets = analysis.mislabelled
    check = Claim("packets under another label than the plan's", "labels").count(0, wrong, COUNTED)
    return check.noting(f"of {packets} looked at").of(packets)


def _content_check(run: StreamMeasurements) -> Check:
    corrupted = int(run.counters.get("corrupted", 0))
    check = Claim("corrupted packets", "corrupted-packets").count(0, corrupted, COUNTED)
    return check.of(corrupted + len(run.received.time_s))


def invalid_reason(
    plan: StreamPlan, run: StreamMeasurements, analysis: SessionAnalysis
) -> str | None:
    """Why the run says nothing, or None: later than the checks bear, packets lost in no fault, a fault that hardly was,
    nothing sent.

    A stream of which nothing came has failed: no load on a machine that was in time takes every packet.
    """
    if analysis.sent == 0:
        return "no packet was sent"
    late = first_exceeded(analysis.lateness, LOWER_PACKET_RATE)
    own = late or clock_reason(plan, run, analysis) or _delayed(plan, run)
    if (
        reason := own
        or fault_not_in_force(plan.faults, run.faults, plan.duration_s)
        or _stopped_early(plan, run)
    ):
        return reason
    most_lost = MAX_UNPLANNED if analysis.campaign is None else MAX_WRONG
    calm = not (
        is_impaired(plan)
        and (analysis.campaign is not None or any(k.impairments for k in plan.network.links))
    )
    if calm and len(run.received.time_s) and analysis.lost_outside > most_lost * analysis.sent:
        return f"{analysis.lost_outside} of {analysis.sent} packets were lost in no planned fault"
    strange = abs(len(run.received.time_s) - int((~run.lost).sum()))
    if strange > MAX_UNPLANNED * analysis.sent and not is_impaired(plan):
        return f"{strange} packets were sent or arrived twice, or were never sent, and no link makes copies"
    dropped = dropped_reason(run.health.unplanned_drops, analysis.sent, "at a full socket or queue")
    return dropped or miscounted(plan, run)


def clock_reason(
    plan: StreamPlan, run: StreamMeasurements, analysis: SessionAnalysis
) -> str | None:
    """Why the clocks of several machines say too little for this run, or None: worse than the guard around faults, than
    a reaction that they timed, or than what the playback buffer can be off by."""
    apart_s, through_s = run.clocks.fault_to_sender_s, run.clocks.end_to_end_s
    if apart_s > FAULT_GUARD_S:
        return f"{_known(apart_s)}, and packets are told from a fault's within {FAULT_GUARD_S * 1000:g} ms"
    reactions = [fault.reaction_s for fault in analysis.faults if fault.reaction_s is not None]
    if reactions and min(reactions) < apart_s:
        return f"{_known(apart_s)}, and the quickest reaction took {min(reactions) * 1000:.3g} ms"
    most_s = quarter_s(plan)
    if through_s > most_s:
        return f"{_known(through_s)} from sending to arrival, and the playback buffer allows {most_s * 1000:.0f} ms"
    under_way_s = run.deliveries.transit_s[~run.lost]
    if len(under_way_s) and np.median(under_way_s) < -MAX_QUEUEING_S - through_s:
        return f"packets arrived {-1000 * np.median(under_way_s):.1f} ms before they were sent"
    return None


def _known(uncertainty_s: float) -> str:
    return f"the clocks of the machines are known to within {uncertainty_s * 1000:.3g} ms of each other only"


def _delayed(plan: StreamPlan, run: StreamMeasurements) -> str | None:
    """Why a run over impaired or delayed links measured the machine: packets went on late, at the relay or where
    nothing impairs them."""
    for name, report in run.counters.get(RELAYED, {}).items():
        # a record of before the relay made delays says of neither
        late_s, most_s = report["late_s"], most_late_s(report.get("delay_s", 0.0))
        if report.get("missed"):
            return overload_message(
                f"{name}: {report['missed']} packets found the relay full", LOWER_PACKET_RATE
            )
        if late_s > most_s:
            late = f"{name}: packets were sent on {late_s * 1000:.1f} ms late (99 of 100; limit {most_s * 1000:g} ms)"
            return overload_message(late, LOWER_PACKET_RATE)
    unrest = unrest_s(plan, run) if run.fabric == "emulation" and is_impaired(plan) else 0.0
    if unrest <= MAX_QUEUEING_S:
        return None
    late = f"packets that met no impairment were up to {unrest * 1000:.1f} ms late"
    return overload_message(late + _OF_LATENESS, LOWER_PACKET_RATE)


def _stopped_early(plan: StreamPlan, run: StreamMeasurements) -> str | None:
    """Why a stream of far fewer blocks than can be played in its time says nothing; nodes that move end it sooner."""
    stream, blocks = plan.stream, len(run.blocks.block)
    planned = int((plan.duration_s - stream.playback_s) / stream.block_s)
    return (
        f"{blocks} of {planned} blocks were sent"
        if blocks < LEAST_OF_PLAN * planned and not plan.changes
        else None
    )


def _loss_check(result: FaultResult) -> Check:
    low, high = result.interval
    # Shares are rounded to 1/65536 on the switches; the prediction may miss the interval by no more than that.
    passed = (
        result.measured_loss is not None
        and low - 1 / 65536 <= result.predicted_loss <= high + 1 / 65536
    )
    return Check(
        name=f"loss, {result.link} {result.kind}",
        key="loss",
        about=result.about,
        predicted=result.predicted_loss,
        measured=result.measured_loss,
        tolerance=(high - low) / 2,
        passed=passed,
        detail=f"{result.packets} packets; the true loss lies in [{low:.4f}, {high:.4f}]",
        rival=1.0 if result.kind in ("down", "blackhole") and high < 1 else None,
        rival_note="all, as on a single path",
    )


def _size_check(result: FaultResult, least: int) -> Check:
    """``least``: N without losses."""
    low, high = result.size_range
    measured = result.measured_block_size
    passed = result.reacted and measured is not None and low - 0.5 <= measured <= high + 0.5
    return Check(
        name=f"block size, {result.link} {result.kind}",
        key="block-size",
        about=result.about,
        predicted=result.predicted_block_size,
        measured=measured,
        tolerance=float(high - low) / 2 + 0.5,
        passed=passed,
        detail=f"N for the labels that are lost is {low}"
        if low == high
        else f"the sender's policy gives {low} to {high} for losses it cannot tell apart",
        rival=float(least) if least < low else None,
        rival_note="N is never raised" if least < low else "none: no larger N is called for",
    )


def _decoding_check(plan: StreamPlan, result: FaultResult) -> Check:
    name, blocks = f"undecodable blocks, {result.link} {result.kind}", result.steady_blocks
    most, rest = chance_failures(plan, blocks), Rival(about=result.about, rival_note=COUNTED)
    check = within("undecodable-blocks", name, 0, result.undecodable_blocks, most, **rest)
    transient = f"{result.transient_blocks_lost} of {result.transient_blocks} transient blocks"
    detail = f"{blocks} blocks after the reaction; {transient} were not saved by late parity"
    return check.noting(detail).of(blocks)


def _ror_check(analysis: SessionAnalysis) -> Check:
    predicted, measured, tolerance = (
        analysis.ror_predicted,
        analysis.ror_measured,
        analysis.ror_tolerance,
    )
    counted = sum(
        fault.sent_per_source is not None and not fault.impaired for fault in analysis.faults
    )
    rival = no_redundancy_rival(
        predicted, tolerance, "none: the prediction is too near to no redundancy at all"
    )
    check = within("ror", "ROR over the failed links", predicted, measured, tolerance, **rival)
    of = f"Gabrielyan 2007, eq. 23, with the block sizes of {analysis.policy.name}"
    return check.noting(f"{of}; counting whole blocks leaves {analysis.ror_error:.3f} open").of(
        counted
    )
