"""Many failures at once, nodes that move: every packet's fate predicted from the labels, held against what arrived;
pure.

Single failures cannot be distinguished there, so epochs (testbed.stream.prediction.active_faults) are compared instead
of faults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from testbed.faults.fault import FaultTimes
from testbed.stream.measurements import BoolArray, FloatArray, IntArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import (
    NEVER,
    Epoch,
    epochs,
    path_losses,
)
from testbed.stream.prediction.block_size_policy import BlockSizePolicy
from testbed.stream.prediction.stream_outcome import (
    SentRedundancy,
    is_unrecoverable,
    sent_redundancy,
    transits_s,
)

_EARLY_S = 0.01
"""A change may have been in force so long before it was noted."""


@dataclass(frozen=True, kw_only=True)
class SplitPeriod:
    """The time of one split: losses over the packets whose fate was certain. ``frame`` counts from 0."""

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


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A time beyond the code's reach: no block size up to the largest helps, or no report gets back to ask for one.

    ``blocks`` were open in it; of those the packets' predicted fates leave ``predicted`` without M symbols (at most
    ``predicted_most`` where some fates were not certain), and ``measured`` were not decoded in time.
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
class DiagnosisAccuracy:
    """``spoke``: the share of the time in which the diagnosis decided, not the estimator. Of the ``certain`` sets of
    cables that it named, all are ``right`` but the ``mistaken_beliefs``; ``unsure`` times it named several."""

    spoke: float
    certain: int
    right: int
    unsure: int

    def __str__(self) -> str:
        certain = f"{self.right} of the {self.certain} failures that it was certain of were so"
        return f"the diagnosis decided in {self.spoke:.0%} of the time, {certain}"


@dataclass(frozen=True, kw_only=True)
class EpochsResult(SentRedundancy):
    """``certain`` packets were predicted for sure: ``wrongly_lost`` of them vanished, ``wrongly_arrived`` came all the
    same.

    ``sender_redundancy``: the sender's N, mean over all blocks.
    ``diagnoses``: how often it knew what had failed.
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


class LossShare(NamedTuple):
    """Losses over so many packets whose fate was certain: a fraction of them predicted and measured, and by how much
    the two may differ."""

    certain: int
    predicted_loss: float | None
    measured_loss: float | None
    tolerance: float | None


@dataclass(frozen=True)
class LossBounds:
    """Shape (sent,): the smallest and largest probability of loss that a packet may have met, and whether it was
    lost."""

    lowest: FloatArray
    highest: FloatArray
    lost: BoolArray

    @property
    def certain(self) -> BoolArray:
        return np.asarray(self.lowest == self.highest)

    def share(self, own: BoolArray | slice) -> LossShare:
        """Of the packets among these whose fate was certain; nothing where there is none."""
        sure = self.certain[own]
        chance, lost, packets = self.lowest[own][sure], self.lost[own][sure], int(sure.sum())
        if not packets:
            return LossShare(0, None, None, None)
        spread = 4 * float(np.sqrt((chance * (1 - chance)).sum())) + 1 + 1e-3 * packets
        return LossShare(packets, float(chance.mean()), float(lost.mean()), spread / packets)


def analyse_epochs(
    plan: StreamPlan, run: StreamMeasurements, policy: BlockSizePolicy, deliveries: LossBounds
) -> EpochsResult:
    """All epochs of the run. Cost: one pass over the packet log, and a pass over the labels for every state of the
    network."""
    found, lost = epochs(plan, run.faults, run.changes), deliveries.lost
    certain, sure = deliveries.certain, deliveries.lowest
    outages, beyond = _outages(plan, run, found, policy, deliveries)
    chance = certain & (sure > 0) & (sure < 1)
    spread = float(np.sqrt((sure[chance] * (1 - sure[chance])).sum()))
    return EpochsResult(
        **vars(sent_redundancy(plan, run, found, policy)), frames=_split_periods(plan, run, found, deliveries),
        outages=outages, faults=len(run.faults), most_at_once=max((e.faults for e in found), default=0),
        overlapping_s=round(sum(e.lasts_s for e in found if e.faults > 1), 4),
        failing_s=round(sum(e.lasts_s for e in found if e.faults), 4), certain=int(certain.sum()),
        uncertain=int((~certain).sum()), wrongly_lost=int((certain & (sure == 0) & lost).sum()),
        wrongly_arrived=int((certain & (sure == 1) & ~lost).sum()),
        random_losses=(float(sure[chance].sum()), float(lost[chance].sum()), 4 * spread),
        undecodable=int(run.never_complete.sum()), undecodable_within_reach=int((run.never_complete & ~beyond).sum()),
        sender_redundancy=_sender_redundancy(run, policy),
        longest_change_s=max((c.switch_stop_s - c.began_s for c in run.changes), default=None),
        transit_s=round(float(transits_s(run).max(initial=0.0)), 4),
    )  # fmt: skip


def run_loss_bounds(plan: StreamPlan, run: StreamMeasurements, lost: BoolArray) -> LossBounds:
    """Return the fate of every packet by the states of the network, as commanded and as noted."""
    commanded = []
    for times in run.faults:
        fault = times.fault
        commanded.append(FaultTimes(fault=fault, start_s=fault.start_s, stop_s=fault.stop_s))
    transit_s = transits_s(run)
    noted = loss_bounds(plan, run, epochs(plan, run.faults, run.changes), transit_s, lost)
    due = loss_bounds(plan, run, epochs(plan, commanded, run.changes), transit_s, lost)
    return LossBounds(
        lowest=np.minimum(noted.lowest, due.lowest),
        highest=np.maximum(noted.highest, due.highest),
        lost=lost,
    )


def loss_bounds(
    plan: StreamPlan,
    run: StreamMeasurements,
    found: Sequence[Epoch],
    transit_s: FloatArray,
    lost: BoolArray,
) -> LossBounds:
    """Return the fate of every packet by the states that it may have met.

    A link loses for sure the packets that it loses in all states that they meet. Packets that it
    loses in some of them are lost perhaps: a packet may cross one link in the first state and
    another link in the second.

    Args:
        plan: The plan of the stream.
        run: The run of it.
        found: All states of the network, in order.
        transit_s: The longest time that each packet may have been in transit.
        lost: The packets that never arrived.
    """
    sent = run.sent
    apart_s = run.clocks.fault_to_sender_s
    there_s = sent.time_s + transit_s
    begins_s = np.array([state.start_s for state in found]) - apart_s
    ends_s = np.array([state.stop_s for state in found]) + _EARLY_S + apart_s
    first = np.searchsorted(ends_s, sent.time_s, side="right")
    first = np.minimum(first, len(found) - 1)
    last = np.maximum(first, np.searchsorted(begins_s, there_s, side="right") - 1)
    lowest = np.zeros(len(first))
    highest = np.zeros(len(first))
    for packets in _packets_by_states(first, last):
        met = found[first[packets[0]] : last[packets[0]] + 1]
        low, high = _bounds_of_states(plan, met, sent.label[packets])
        lowest[packets] = low
        highest[packets] = high
    for times in run.changes:
        # Between old and new rules, and while links vanish, any packet may be lost.
        for begin_s, end_s in (
            (times.began_s, times.links_s),
            (times.switch_start_s, times.switch_stop_s),
        ):
            unsure = (there_s >= begin_s - apart_s) & (sent.time_s <= end_s + _EARLY_S + apart_s)
            lowest[unsure] = 0.0
            highest[unsure] = 1.0
    return LossBounds(lowest=lowest, highest=highest, lost=lost)


def _packets_by_states(first: IntArray, last: IntArray) -> list[IntArray]:
    """Return the indices of packets that met the same states, group by group."""
    if not len(first):
        return []
    order = np.lexsort((last, first))
    changed = (np.diff(first[order]) != 0) | (np.diff(last[order]) != 0)
    return np.split(order, np.flatnonzero(changed) + 1)


def _bounds_of_states(
    plan: StreamPlan, met: Sequence[Epoch], labels: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest loss of packets with these labels that met these states."""
    surely = dict(met[0].broken)
    perhaps = dict(met[0].broken)
    for state in met[1:]:
        broken = dict(state.broken)
        surely = {link: min(loss, broken[link]) for link, loss in surely.items() if link in broken}
        for link, loss in broken.items():
            perhaps[link] = max(loss, perhaps.get(link, 0.0))
    lowest = np.ones(len(labels))
    highest = np.zeros(len(labels))
    for number in {state.split for state in met}:
        split = plan.splits[number]
        path = np.searchsorted([one.start for one in split.paths], labels, side="right") - 1
        lowest = np.minimum(lowest, path_losses(split, frozenset(surely.items()))[path])
        highest = np.maximum(highest, path_losses(split, frozenset(perhaps.items()))[path])
    return lowest, highest


def _split_periods(
    plan: StreamPlan, run: StreamMeasurements, found: Sequence[Epoch], deliveries: LossBounds
) -> tuple[SplitPeriod, ...]:
    parts = []
    for number in range(len(plan.splits)):
        own = [epoch for epoch in found if epoch.split == number]
        if not own:
            continue
        first, last = np.searchsorted(run.sent.time_s, (own[0].start_s, own[-1].stop_s))
        share = deliveries.share(slice(first, last))
        times = run.changes[number - 1] if 0 < number <= len(run.changes) else None
        part = SplitPeriod(
            frame=number, start_s=round(own[0].start_s, 4), stop_s=round(own[-1].stop_s, 4), packets=share.certain,
            uncertain=int(last - first) - share.certain, predicted_loss=share.predicted_loss or 0.0,
            measured_loss=share.measured_loss or 0.0, tolerance=1.0 if share.tolerance is None else share.tolerance,
            change_s=round(times.switch_stop_s - times.began_s, 4) if times else None,
            lost_links=len(plan.changes[number - 1].vanished) // 2 if number else 0,
        )  # fmt: skip
        parts.append(part)
    return tuple(parts)


def _outages(
    plan: StreamPlan,
    run: StreamMeasurements,
    found: Sequence[Epoch],
    policy: BlockSizePolicy,
    deliveries: LossBounds,
) -> tuple[tuple[Outage, ...], BoolArray]:
    """Times beyond reach, neighbours joined, and a mask over the blocks that were open in one."""
    groups: list[list[Epoch]] = []
    for epoch in found:
        if not is_unrecoverable(epoch, policy):
            continue
        if groups and epoch.start_s - groups[-1][-1].stop_s <= plan.stream.playback_s:
            groups[-1].append(epoch)
        else:
            groups.append([epoch])
    blocks, place = run.blocks, run.place_of_block
    surely = np.bincount(place, weights=deliveries.highest == 0, minlength=len(blocks.block))
    perhaps = np.bincount(place, weights=deliveries.lowest < 1, minlength=len(blocks.block))
    m, covered, listed = plan.stream.source_packets, np.zeros(len(blocks.block), dtype=bool), []
    for group in groups:
        open_then = (blocks.started_s < group[-1].stop_s) & (
            blocks.started_s + plan.stream.playback_s > group[0].start_s
        )
        open_then &= ~covered
        covered |= open_then
        worst = max(group, key=lambda e: e.needed)
        outage = Outage(
            start_s=round(group[0].start_s, 4), stop_s=round(group[-1].stop_s, 4), links=_broken_links(plan, worst),
            reason="loss" if worst.needed > policy.largest else "reports", loss=worst.loss,
            needed=None if worst.needed == NEVER else worst.needed, blocks=int(open_then.sum()),
            predicted=int((open_then & (perhaps < m)).sum()), predicted_most=int((open_then & (surely < m)).sum()),
            measured=int((open_then & run.never_complete).sum()),
        )  # fmt: skip
        listed.append(outage)
    return tuple(listed), covered


def _broken_links(plan: StreamPlan, epoch: Epoch) -> tuple[str, ...]:
    loaded = set(plan.splits[epoch.split].loaded)
    return tuple(plan.network.links[i].label for i, _ in sorted(epoch.broken) if i in loaded)


def _sender_redundancy(run: StreamMeasurements, policy: BlockSizePolicy) -> float:
    """Mean over the blocks of the N that each was begun with, over FEC_t, less one."""
    if not len(run.sent.block):
        return 0.0
    return float(run.size_begun.mean() / policy.base - 1)
