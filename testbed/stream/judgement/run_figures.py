"""Figures of a complete run: redundancy over time, ROR over the faults, frames, and outages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from testbed.stream.facts.beliefs import DiagnosisAccuracy
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.judgement.fault_figures import (
    FaultResult,
    sent_per_source,
)
from testbed.stream.measurements import BoolArray
from testbed.stream.prediction.active_faults import NEVER, Epoch

# Largest allowed difference between measured and predicted redundancy: at least the first value,
# and at least the second one as a share of the prediction.
MIN_REDUNDANCY_TOLERANCE = 0.002
REDUNDANCY_TOLERANCE_SHARE = 0.02
# A sender with the wrong N is off by one packet per block. The tolerance must be smaller than that.
_STRATIFIED_TOLERANCE_PACKETS = 2 / 3


@dataclass(frozen=True, kw_only=True)
class SplitPeriod:
    """The losses while one label split was used, over the packets whose fate was certain.

    Attributes:
        frame: The number of the split, from 0.
        start_s: When the split was first used.
        stop_s: When it was last used.
        packets: Number of packets whose fate was certain.
        uncertain: Number of other packets.
        predicted_loss: The predicted share of lost packets.
        measured_loss: The measured share of lost packets.
        tolerance: The allowed difference.
        change_s: How long the change to this split took; None for the first split.
        lost_links: Number of cables that disappeared with this change.
    """

    frame: int
    start_s: float
    stop_s: float
    packets: int
    uncertain: int
    predicted_loss: float
    measured_loss: float
    tolerance: float
    change_s: float | None
    lost_links: int

    @property
    def agrees(self) -> bool:
        """True if the measured loss is the predicted one."""
        return abs(self.predicted_loss - self.measured_loss) <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A time in which losses cannot be repaired.

    Either no N up to the plan's largest is sufficient, or no loss report arrives with which the
    sender could choose a larger N.

    Attributes:
        start_s: Its beginning.
        stop_s: Its end.
        reason: "loss" or "reports".
        links: The broken links that carry labels, at the worst time.
        loss: The share of labels lost then.
        needed: The N that would have been required then; None if no N is sufficient.
        blocks: Number of blocks that were open in this time.
        predicted: How many of them get fewer than M symbols in time if all packets of uncertain
            fate arrive.
        predicted_most: The same if all packets of uncertain fate are lost.
        measured: How many were not decoded in time.
    """

    start_s: float
    stop_s: float
    reason: str
    links: tuple[str, ...]
    loss: float
    needed: int | None
    blocks: int
    predicted: int
    predicted_most: int
    measured: int


@dataclass(frozen=True, kw_only=True)
class Redundancy:
    """Redundancy after the sender had answered each epoch.

    Attributes:
        redundancy_predicted: Mean over the counted blocks of N / FEC_t - 1 for the N that their
            epochs require.
        redundancy_measured: The same mean for the packets that were sent, without late parity.
        redundancy_tolerance: Allowed difference because the sender estimates the share of losses.
        redundancy_over_s: Stream time of the counted blocks.
        settled_packets: Packets of the counted blocks that began when the sender knew what was
            lost.
        settled_late_parity: Late parity among these packets.
        transient_packets: Packets beyond the required N of all blocks that are not settled, outside
            outages.
    """

    redundancy_predicted: float = 0.0
    redundancy_measured: float = 0.0
    redundancy_tolerance: float = 0.0
    redundancy_over_s: float = 0.0
    settled_packets: int = 0
    settled_late_parity: int = 0
    transient_packets: int = 0

    @property
    def ror_tolerance(self) -> float:
        """The largest allowed difference between sent and predicted redundancy."""
        share = REDUNDANCY_TOLERANCE_SHARE * self.redundancy_predicted
        return self.redundancy_tolerance + max(MIN_REDUNDANCY_TOLERANCE, share)


@dataclass(frozen=True, kw_only=True)
class RorSum:
    """ROR by Gabrielyan 2007, eq. 23, over the faults of a run.

    Attributes:
        predicted: The sum for the required block sizes.
        measured: The sum for the packets that were sent.
        tolerance: How far the two may differ.
        error: Standard error, because only complete blocks are counted.
        counted: Number of faults in the sum.
        spurious: Change of ``measured`` if blocks of a misinformed sender (``timing_errors``) were
            counted too; infinite if a fault, or the time outside faults, has only such blocks.
    """

    predicted: float
    measured: float
    tolerance: float
    error: float
    counted: int
    spurious: float = 0.0


@dataclass(frozen=True, kw_only=True)
class EpochsResult(Redundancy):
    """All epochs of a run together (``figures.campaign``).

    Attributes:
        frames: The times of the splits, while nodes move.
        outages: Times in which losses could not be repaired.
        faults: Number of faults.
        most_at_once: Largest number of faults that were active at the same time.
        overlapping_s: Time with more than one fault.
        failing_s: Time with a fault.
        certain: Packets of certain fate.
        uncertain: All others.
        wrongly_lost: Packets that vanished and must have arrived.
        wrongly_arrived: Packets that arrived and must have vanished.
        random_losses: Packets that are lost with a probability between 0 and 1: expected number of
            losses, measured number, and four standard deviations.
        undecodable: Blocks that were not decoded in time.
        undecodable_within_reach: Those of them that were open in no outage. The last blocks of the
            stream are left out, because no report contains their losses.
        sender_redundancy: Mean of N / FEC_t - 1 over all blocks.
        longest_change_s: Longest change of the plan, while nodes move.
        transit_s: Longest time in transit.
        diagnoses: How often the sender diagnosed failures; None if it does not diagnose.
    """

    frames: tuple[SplitPeriod, ...]
    outages: tuple[Outage, ...]
    faults: int
    most_at_once: int
    overlapping_s: float
    failing_s: float
    certain: int
    uncertain: int
    wrongly_lost: int
    wrongly_arrived: int
    random_losses: tuple[float, float, float]
    undecodable: int
    undecodable_within_reach: int
    sender_redundancy: float
    longest_change_s: float | None
    transit_s: float
    diagnoses: DiagnosisAccuracy | None = None


def redundancy(facts: RunFacts) -> Redundancy:
    """Return the redundancy of the packets sent after the sender had answered."""
    epoch = facts.epoch_of_block
    counted = facts.counted
    base = facts.theory.policy.base
    sizes = facts.sizes[epoch]
    transient = ~facts.settled & ~np.isnan(sizes)
    transient_packets = int((facts.run.packets_of_block - sizes)[transient].sum())
    if not counted.any():
        return Redundancy(transient_packets=transient_packets)
    slack = np.array([required.slack for required in facts.required])
    return Redundancy(
        redundancy_predicted=float(sizes[counted].mean() / base - 1),
        redundancy_measured=float(facts.first_packets[counted].mean() / base - 1),
        redundancy_tolerance=float(slack[epoch][counted].mean() / base),
        redundancy_over_s=round(float(counted.sum()) * facts.plan.stream.block_s, 4),
        settled_packets=int(facts.run.packets_of_block[facts.informed].sum()),
        settled_late_parity=int(facts.late_parity[facts.informed].sum()),
        transient_packets=transient_packets,
    )


def ror_sum(facts: RunFacts, faults: Sequence[FaultResult]) -> RorSum:
    """Return ROR over the faults whose losses some N repairs."""
    ratios = [(fault.sent_per_source, fault.sent_per_source_error) for fault in faults]
    ror = _ror(facts, faults, ratios, facts.counted)
    if not facts.spurious.any():
        return ror
    all_ratios = [(fault.sent_per_source_spurious, 0.0) for fault in faults]
    with_spurious = _ror(facts, faults, all_ratios, facts.settled)
    fault_without_blocks = any(
        fault.sent_per_source is None and fault.sent_per_source_spurious is not None
        for fault in faults
    )
    outside_faults = _began_outside_faults(facts)
    none_outside_faults = (
        not (facts.counted & outside_faults).any() and (facts.settled & outside_faults).any()
    )
    if fault_without_blocks or none_outside_faults:
        return replace(ror, spurious=math.inf)
    return replace(ror, spurious=with_spurious.measured - ror.measured)


def _began_outside_faults(facts: RunFacts) -> BoolArray:
    """Return a mask of the blocks that began outside faults, shape (blocks,)."""
    return np.asarray((facts.losses == 0)[facts.epoch_of_block])


def _ror(
    facts: RunFacts,
    faults: Sequence[FaultResult],
    ratios: Sequence[tuple[float | None, float]],
    blocks: BoolArray,
) -> RorSum:
    """Return ROR computed from the packets sent per source packet.

    Args:
        facts: The facts of the run.
        faults: All faults.
        ratios: For each fault, the packets sent per source packet and their standard error.
        blocks: The blocks from which the packets per source packet outside faults are computed.
    """
    stream = facts.plan.stream
    base = facts.theory.policy.base
    ratio_outside, error_outside = sent_per_source(facts, blocks & _began_outside_faults(facts))
    base_ratio = ratio_outside or base_block_size(facts) / stream.source_packets
    predicted = 0.0
    total = 0.0
    slack = 0.0
    variance = 0.0
    counted = 0
    for fault, (ratio, error) in zip(faults, ratios, strict=True):
        size = fault.predicted_block_size
        if ratio is None or size is None or fault.impaired:
            continue
        low, high = fault.block_size_range
        predicted += size / base - 1
        total += ratio / base_ratio
        slack += max(high - size, size - low, 0) / base
        variance += (error / base_ratio) ** 2
        counted += 1
    if stream.labels == "random":
        tolerance = max(0.1, 0.05 * predicted)
    elif slack:
        tolerance = max(0.05, 0.02 * predicted)
    else:
        tolerance = max(_STRATIFIED_TOLERANCE_PACKETS / base, 0.02 * predicted)
    return RorSum(
        predicted=predicted,
        measured=total - counted,
        tolerance=tolerance + slack,
        error=math.hypot(math.sqrt(variance), total * error_outside / base_ratio),
        counted=counted,
    )


def base_block_size(facts: RunFacts) -> float:
    """Return the median N of settled blocks outside faults."""
    sizes = facts.run.initial_block_size[facts.settled & _began_outside_faults(facts)]
    return float(np.median(sizes)) if len(sizes) else float(facts.theory.policy.base)


def epochs_result(facts: RunFacts) -> EpochsResult:
    """Return the figures of all epochs together. Cost: a few passes over the packet log."""
    run = facts.run
    bounds = facts.loss_bounds
    outages, beyond = _outages(facts)
    answerable = ~beyond & ~facts.unheard
    chance = bounds.lowest[bounds.random]
    lost = bounds.lost[bounds.random]
    deviation = float(np.sqrt((chance * (1 - chance)).sum()))
    overlapping_s = sum(epoch.lasts_s for epoch in facts.epochs if epoch.faults > 1)
    failing_s = sum(epoch.lasts_s for epoch in facts.epochs if epoch.faults)
    changes_s = [change.switch_stop_s - change.began_s for change in run.changes]
    return EpochsResult(
        **vars(redundancy(facts)),
        frames=_frames(facts) if facts.plan.changes else (),
        outages=outages,
        faults=len(run.faults),
        most_at_once=max((epoch.faults for epoch in facts.epochs), default=0),
        overlapping_s=round(overlapping_s, 4),
        failing_s=round(failing_s, 4),
        certain=int(bounds.certain.sum()),
        uncertain=int((~bounds.certain).sum()),
        wrongly_lost=int((bounds.certain & bounds.wrongly_lost).sum()),
        wrongly_arrived=int((bounds.certain & bounds.wrongly_arrived).sum()),
        random_losses=(
            float(chance.sum()),
            float(lost.sum()),
            4 * deviation,
        ),
        undecodable=int(run.never_complete.sum()),
        undecodable_within_reach=int((run.never_complete & answerable).sum()),
        sender_redundancy=_sender_redundancy(facts),
        longest_change_s=max(changes_s, default=None),
        transit_s=round(float(facts.longest_transit_s.max(initial=0.0)), 4),
        diagnoses=facts.diagnosis_accuracy,
    )


def _sender_redundancy(facts: RunFacts) -> float:
    if not len(facts.run.initial_block_size):
        return 0.0
    return float(facts.run.initial_block_size.mean() / facts.theory.policy.base - 1)


def _frames(facts: RunFacts) -> tuple[SplitPeriod, ...]:
    frames = []
    for number in range(len(facts.plan.splits)):
        epochs = [epoch for epoch in facts.epochs if epoch.split == number]
        if epochs:
            frames.append(_frame(facts, number, epochs))
    return tuple(frames)


def _frame(facts: RunFacts, number: int, epochs: Sequence[Epoch]) -> SplitPeriod:
    """Return the losses in these epochs, in which the split of this number was used."""
    start_s = epochs[0].start_s
    stop_s = epochs[-1].stop_s
    first, last = np.searchsorted(facts.run.sent.time_s, (start_s, stop_s))
    share = facts.loss_bounds.share(slice(first, last))
    change_s = None
    if 0 < number <= len(facts.run.changes):
        change = facts.run.changes[number - 1]
        change_s = round(change.switch_stop_s - change.began_s, 4)
    return SplitPeriod(
        frame=number,
        start_s=round(start_s, 4),
        stop_s=round(stop_s, 4),
        packets=share.certain,
        uncertain=int(last - first) - share.certain,
        predicted_loss=share.predicted_loss or 0.0,
        measured_loss=share.measured_loss or 0.0,
        tolerance=1.0 if share.tolerance is None else share.tolerance,
        change_s=change_s,
        lost_links=len(facts.plan.changes[number - 1].vanished) // 2 if number else 0,
    )


def _outages(facts: RunFacts) -> tuple[tuple[Outage, ...], BoolArray]:
    """Return the outages, and a mask of the blocks that were open in one."""
    run = facts.run
    blocks = run.blocks
    playback_s = facts.plan.stream.playback_s
    count = len(blocks.block)
    # Late parity may arrive after the deadline of its block.
    deadline_s = blocks.started_s[run.block_index] + playback_s
    surely_in_time = (facts.loss_bounds.highest == 0) & (facts.latest_arrival_s <= deadline_s)
    perhaps_in_time = (facts.loss_bounds.lowest < 1) & (facts.earliest_arrival_s <= deadline_s)
    surely = np.bincount(run.block_index, weights=surely_in_time, minlength=count)
    perhaps = np.bincount(run.block_index, weights=perhaps_in_time, minlength=count)
    m = facts.plan.stream.source_packets
    covered = np.zeros(count, dtype=np.bool_)
    outages = []
    for epochs in _unrecoverable_epochs(facts):
        begin_s = epochs[0].start_s
        end_s = max(epoch.stop_s for epoch in epochs)
        open_then = (blocks.started_s < end_s) & (blocks.started_s + playback_s > begin_s)
        open_then &= ~covered
        covered |= open_then
        worst = max(epochs, key=lambda epoch: epoch.needed)
        loaded = set(facts.plan.splits[worst.split].loaded)
        broken = [link for link, _ in sorted(worst.broken) if link in loaded]
        outage = Outage(
            start_s=round(begin_s, 4),
            stop_s=round(end_s, 4),
            links=tuple(facts.plan.network.links[link].label for link in broken),
            reason="loss" if worst.needed > facts.theory.policy.largest else "reports",
            loss=worst.loss,
            needed=None if worst.needed == NEVER else worst.needed,
            blocks=int(open_then.sum()),
            predicted=int((open_then & (perhaps < m)).sum()),
            predicted_most=int((open_then & (surely < m)).sum()),
            measured=int((open_then & run.never_complete).sum()),
        )
        outages.append(outage)
    return tuple(outages), covered


def _unrecoverable_epochs(facts: RunFacts) -> list[list[Epoch]]:
    """Return the epochs whose losses cannot be repaired, grouped into outages.

    Epochs belong to the same outage if they are no further apart than the playback time. Joined
    epochs (``EpochFacts.joined_epochs``) are included.
    """
    groups: list[list[Epoch]] = []
    epochs = [*facts.epochs, *facts.joined_epochs]
    stop_s = 0.0
    for epoch in sorted(epochs, key=lambda epoch: epoch.start_s):
        if facts.theory.requirement(epoch).within_reach:
            continue
        if groups and epoch.start_s - stop_s <= facts.plan.stream.playback_s:
            groups[-1].append(epoch)
            stop_s = max(stop_s, epoch.stop_s)
        else:
            groups.append([epoch])
            stop_s = epoch.stop_s
    return groups
