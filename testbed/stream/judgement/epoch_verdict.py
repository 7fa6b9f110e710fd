"""The verdict of a run under many failures or with moving nodes: packets, frames, blocks, redundancy, changes."""

import math
from typing import Any

from testbed.model.verdict import Check
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.block_size_policy import is_deterministic
from testbed.stream.prediction.epoch_analysis import EpochsResult
from testbed.stream.prediction.failure_candidates import is_exact

MAX_WRONG = 1e-3
"""Share of packets of certain fate that may fare otherwise: clocks of switches, sender and faults agree to a few
packets."""
MAX_CHANGE_S = 1.0


def within(key: str, name: str, predicted: float, measured: float, tolerance: float, **more: Any) -> Check:
    """The two differ by ``tolerance`` at most; ``more``: fields of the check."""
    passed = abs(measured - predicted) <= tolerance
    return Check(name=name, key=key, predicted=predicted, measured=measured, tolerance=tolerance, passed=passed, **more)


def campaign_checks(plan: StreamPlan, result: EpochsResult, blocks: int) -> list[Check]:
    """Every figure of the campaign that was predicted. ``blocks``: those within the code's reach."""
    checks = [_loss_bounds(result)]
    if result.random_losses[0]:
        checks.append(_random(result))
    if plan.changes:
        checks += [_frames(result), _changes(plan, result)]
    within = Check.equal(
        "undecodable blocks within the code's reach",
        0,
        result.undecodable_within_reach,
        tolerance=chance_failures(plan, blocks),
        detail=f"{result.faults} faults, up to {result.most_at_once} at once, {result.overlapping_s:.1f} s of overlap",
        key="undecodable-within-reach",
    )
    checks.append(within.of(blocks))
    if result.outages:
        checks.append(_beyond(result))
    if plan.stream.block_size is None:
        checks += _redundancy(result, is_exact(plan, *plan.faults))
    return checks


def chance_failures(plan: StreamPlan, blocks: int) -> int:
    """How many of the blocks chance leaves undecodable at most: none where losses follow from labels, else what the
    decoding error rate exceeds with a probability of one in a thousand (Poisson tail)."""
    if is_deterministic(plan):
        return 0
    mean, k = blocks * plan.stream.decoding_error_rate, 0
    tail, term = 1 - math.exp(-mean), math.exp(-mean)
    while tail > 1e-3:
        k += 1
        term *= mean / k
        tail -= term
    return k


def _loss_bounds(result: EpochsResult) -> Check:
    return within(
        "packet-fates",
        "packets that fared otherwise than their labels say",
        0,
        result.wrongly_lost + result.wrongly_arrived,
        max(2.0, MAX_WRONG * result.certain),
        detail=f"of {result.certain} packets; {result.wrongly_lost} lost, {result.wrongly_arrived} arrived; "
        f"{result.uncertain} more were under way during a change",
    ).of(result.certain)


def _random(result: EpochsResult) -> Check:
    expected, lost, spread = result.random_losses
    words = "four standard deviations"
    return within("random-losses", "packets lost at random", expected, lost, spread + 1, detail=words)


def _frames(result: EpochsResult) -> Check:
    frames = [part for part in result.frames if part.packets]
    off = [part for part in frames if abs(part.predicted_loss - part.measured_loss) > part.tolerance]
    worst = max((abs(part.predicted_loss - part.measured_loss) for part in frames), default=0.0)
    return within(
        "frame-losses",
        "frames whose loss is not the predicted one",
        0,
        len(off),
        0,
        detail=f"of {len(frames)}; largest difference {100 * worst:.2f} points"
        + (f"; frame {off[0].frame} is the first" if off else ""),
    ).of(len(frames))


def _changes(plan: StreamPlan, result: EpochsResult) -> Check:
    longest = result.longest_change_s if result.longest_change_s is not None else float("inf")
    made = len(result.frames) == len(plan.splits)
    return Check(
        name="longest change of the plan, s",
        key="longest-change",
        measured=longest,
        tolerance=MAX_CHANGE_S,
        passed=made and longest <= MAX_CHANGE_S,
        detail=f"{len(plan.changes)} changes, from the links' change to the last switch that sends by the new split",
    )


def _beyond(result: EpochsResult) -> Check:
    least = sum(outage.predicted for outage in result.outages)
    most = sum(outage.predicted_most for outage in result.outages)
    measured = sum(outage.measured for outage in result.outages)
    return within(
        "undecodable-beyond-reach",
        "undecodable blocks beyond the code's reach",
        (least + most) / 2,
        measured,
        (most - least) / 2,
        detail=f"in {len(result.outages)} outages, listed in the run's figures",
    ).of(sum(outage.blocks for outage in result.outages))


def _redundancy(result: EpochsResult, exact: bool) -> list[Check]:
    """What was sent first after each answer, and what late parity had to add then: where the sender can know what is
    lost (``exact``), nothing."""
    settled_s, transient = result.redundancy_over_s, result.transient_packets
    tolerance = result.ror_tolerance
    apart = abs(result.redundancy_predicted) > tolerance
    redundancy = within(
        "redundancy",
        "redundancy of what was sent once the sender had answered",
        result.redundancy_predicted,
        result.redundancy_measured,
        tolerance,
        detail=f"mean of N/FEC_t - 1 over {settled_s:.1f} s of blocks; {transient} packets more in the transients"
        + (f"; {result.diagnoses}" if result.diagnoses is not None else ""),
        rival=0.0 if apart else None,
        rival_note="no redundancy is added" if apart else "none: too near to no redundancy at all",
    )
    late = late_parity_check(result.settled_late_parity, result.settled_packets)
    return [redundancy.of(settled_s), late] if exact else [redundancy.of(settled_s)]


def late_parity_check(late: int, packets: int) -> Check:
    """``late``: of the ``packets`` of blocks that were begun after the sender's answer."""
    words, detail = "late parity once the sender had answered, packets", f"of {packets} packets"
    most = max(2.0, MAX_WRONG * packets)
    key, rival = "late-parity-once-answered", "none: each packet is counted"
    return within(key, words, 0, late, most, detail=detail, rival_note=rival).of(packets)
