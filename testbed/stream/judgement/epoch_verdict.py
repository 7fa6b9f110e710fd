"""The verdict of a run under many failures or with moving nodes: packets, frames, blocks, redundancy, changes."""

import math
from dataclasses import replace
from typing import TypedDict, Unpack

from testbed.model.verdict import Check, Claim
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import is_exact
from testbed.stream.prediction.block_size_policy import is_deterministic, largest_block
from testbed.stream.prediction.epoch_analysis import EpochsResult

MAX_WRONG = 1e-3
"""Share of packets of certain fate that may fare otherwise: clocks of switches, sender and faults agree to a few
packets."""
MAX_CHANGE_S = 1.0


class Rival(TypedDict, total=False):
    """Fields of a check: what would be measured if it were false, and what the check is about."""

    rival: float | None
    rival_note: str
    about: str


def within(
    key: str, name: str, predicted: float, measured: float, tolerance: float, **more: Unpack[Rival]
) -> Check:
    """The two differ by ``tolerance`` at most."""
    passed = abs(measured - predicted) <= tolerance
    return Check(
        name=name,
        key=key,
        predicted=predicted,
        measured=measured,
        tolerance=tolerance,
        passed=passed,
        **more,
    )


def campaign_checks(plan: StreamPlan, result: EpochsResult, blocks: int) -> list[Check]:
    """Every figure of the campaign that was predicted. ``blocks``: those within the code's reach."""
    checks = [_loss_bounds(result)]
    if result.random_losses[0]:
        checks.append(_random(result))
    if plan.changes:
        checks += [_frames(result), _changes(plan, result)]
    within = Claim("undecodable blocks within the code's reach", "undecodable-within-reach")
    check = within.equal(0, result.undecodable_within_reach, chance_failures(plan, blocks))
    overlap = f"{result.faults} faults, up to {result.most_at_once} at once, {result.overlapping_s:.1f} s of overlap"
    checks.append(check.noting(overlap).of(blocks))
    if result.outages:
        checks.append(_beyond(result))
    if plan.stream.block_size is None:
        checks += _redundancy(plan, result, is_exact(plan, *plan.faults))
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
    wrong, most = result.wrongly_lost + result.wrongly_arrived, max(2.0, MAX_WRONG * result.certain)
    detail = f"of {result.certain} packets; {result.wrongly_lost} lost, {result.wrongly_arrived} arrived; "
    detail += f"{result.uncertain} more were under way during a change"
    check = within(
        "packet-fates", "packets that fared otherwise than their labels say", 0, wrong, most
    )
    return check.noting(detail).of(result.certain)


def _random(result: EpochsResult) -> Check:
    expected, lost, spread = result.random_losses
    check = within("random-losses", "packets lost at random", expected, lost, spread + 1)
    return check.noting("four standard deviations")


def _frames(result: EpochsResult) -> Check:
    frames = [part for part in result.frames if part.packets]
    off = [
        part for part in frames if abs(part.predicted_loss - part.measured_loss) > part.tolerance
    ]
    worst = max((abs(part.predicted_loss - part.measured_loss) for part in frames), default=0.0)
    detail = f"of {len(frames)}; largest difference {100 * worst:.2f} points"
    detail += f"; frame {off[0].frame} is the first" if off else ""
    check = within("frame-losses", "frames whose loss is not the predicted one", 0, len(off), 0)
    return check.noting(detail).of(len(frames))


def _changes(plan: StreamPlan, result: EpochsResult) -> Check:
    longest = result.longest_change_s if result.longest_change_s is not None else float("inf")
    return Check(
        name="longest change of the plan, s",
        key="longest-change",
        measured=longest,
        tolerance=MAX_CHANGE_S,
        passed=len(result.frames) == len(plan.splits) and longest <= MAX_CHANGE_S,
        detail=f"{len(plan.changes)} changes, from the links' change to the last switch that sends by the new split",
    )


def _beyond(result: EpochsResult) -> Check:
    names = ("predicted", "predicted_most", "measured", "blocks")
    least, most, measured, blocks = (
        sum(getattr(one, name) for one in result.outages) for name in names
    )
    key, name = "undecodable-beyond-reach", "undecodable blocks beyond the code's reach"
    check = within(key, name, (least + most) / 2, measured, (most - least) / 2)
    return check.noting(f"in {len(result.outages)} outages, listed in the run's figures").of(blocks)


def _redundancy(plan: StreamPlan, result: EpochsResult, exact: bool) -> list[Check]:
    """What was sent first after each answer, and what late parity had to add then: where the sender can know what is
    lost (``exact``), nothing."""
    settled_s, transient = result.redundancy_over_s, result.transient_packets
    detail = f"mean of N/FEC_t - 1 over {settled_s:.1f} s of blocks; {transient} packets more in the transients"
    detail += f"; {result.diagnoses}" if result.diagnoses is not None else ""
    name, none = (
        "redundancy of what was sent once the sender had answered",
        "none: too near to no redundancy at all",
    )
    sent = (result.redundancy_predicted, result.redundancy_measured, result.ror_tolerance)
    check = within(
        "redundancy",
        name,
        *sent,
        **no_redundancy_rival(result.redundancy_predicted, result.ror_tolerance, none),
    )
    blocks = round(settled_s / plan.stream.block_s)
    by_chance = chance_failures(plan, blocks) * largest_block(plan)
    late = late_parity_check(result.settled_late_parity, result.settled_packets, by_chance)
    believed = result.diagnoses
    if (
        exact and believed is not None and believed.right < believed.certain
    ):  # an answer to what was not so is none
        check = replace(check, passed=False)
    return [check.noting(detail).of(settled_s), *([late] if exact else [])]


def no_redundancy_rival(predicted: float, tolerance: float, near: str) -> Rival:
    """The rival of a redundancy: none is added; ``near``: why that is none, where the prediction is as near to it."""
    apart = abs(predicted) > tolerance
    return {
        "rival": 0.0 if apart else None,
        "rival_note": "no redundancy is added" if apart else near,
    }


def late_parity_check(late: int, packets: int, by_chance: int = 0) -> Check:
    """Return the check of late parity after the sender's answers.

    Args:
        late: Late parity of blocks that were begun after an answer.
        packets: All packets of these blocks.
        by_chance: Late parity at most of blocks that chance leaves undecodable at the right N.
    """
    claim = "late parity once the sender had answered, packets"
    tolerance = max(2.0, MAX_WRONG * packets) + by_chance
    rival = "none: each packet is counted"
    check = within("late-parity-once-answered", claim, 0, late, tolerance, rival_note=rival)
    return check.noting(f"of {packets} packets").of(packets)
