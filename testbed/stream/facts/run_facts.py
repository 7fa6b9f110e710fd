"""What one run of one plan was like: everything that a judge asks of the two, each computed once.

Theory of operation. Time is divided into epochs, in each of which nothing changes
(``active_faults.epochs``); a fault that overlaps no other is an epoch of its own. For each epoch the
plan says which share of the labels is lost and which N answers that. For each packet the epochs give
the smallest and largest probability of loss that it may have met (``loss_bounds``). A block is *settled* if
it begins after the sender's answer to its epoch and is over before the epoch ends. All figures are
sums over packets, blocks and epochs.

Shapes: ``packets`` in the order of the sent log, ``blocks`` in the order of ``run.blocks``,
``epochs`` in the order of time.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from testbed.faults.fault import FaultTimes
from testbed.model.label_split import LABELS
from testbed.stream.endpoints import SETTLE_S
from testbed.stream.facts.beliefs import (
    DiagnosisAccuracy,
    diagnosis_accuracy,
    mistaken_beliefs,
)
from testbed.stream.facts.spurious_losses import spurious_loss_blocks
from testbed.stream.measurements import BoolArray, FloatArray, IntArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import DIAGNOSES, Epoch, epochs, path_losses
from testbed.stream.prediction.path_delays import REACTION_S
from testbed.stream.prediction.required_size import Requirement
from testbed.stream.prediction.stream_theory import StreamTheory
from topologies import Json

# The first reports of a run may be late on a machine that is still loading code.
START_UP_S = 0.4
# Share of the playback buffer by which sender, switches and receiver may each be late.
MAX_LAG = 0.25
# A change may have been in force this long before it was noted.
EARLY_S = 0.01
# The time in transit is read off the packets sent within a second: a busy machine delays some.
_BIN_S = 0.25
_BINS_AROUND = 4
# An answer is due after two reports, this many blocks, and the time in which this many packets are lost.
_ANSWER_BLOCKS = 5
_ANSWER_LOSSES = 3
# Log likelihood ratio at which a sender that estimates believes that the loss has changed.
_SURE_OF_CHANGE = 12
# The estimate of a random loss from fewer packets may be far off.
_ESTIMATE_PACKETS = 250


@dataclass(frozen=True)
class LossShare:
    """Losses over the packets whose fate was certain, as fractions; None if there are none.

    Attributes:
        certain: The number of these packets.
        predicted_loss: The fraction that theory says is lost.
        measured_loss: The fraction that was lost.
        tolerance: How far the two may differ.
    """

    certain: int
    predicted_loss: float | None = None
    measured_loss: float | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class LossBounds:
    """What theory says of each packet, and what became of it.

    Attributes:
        lowest: Shape (packets,), the smallest probability of loss that each may have met.
        highest: Shape (packets,), the largest one.
        lost: Shape (packets,), whether each was lost.
    """

    lowest: FloatArray
    highest: FloatArray
    lost: BoolArray

    @cached_property
    def certain(self) -> BoolArray:
        """Whether one probability is left, shape (packets,)."""
        return np.asarray(self.lowest == self.highest)

    @cached_property
    def wrongly_lost(self) -> BoolArray:
        """Whether each packet vanished that must have arrived, shape (packets,)."""
        return np.asarray(self.lost & (self.highest == 0))

    @cached_property
    def wrongly_arrived(self) -> BoolArray:
        """Whether each packet arrived that must have vanished, shape (packets,)."""
        return np.asarray(~self.lost & (self.lowest == 1))

    @cached_property
    def random(self) -> BoolArray:
        """Whether each packet was lost with a known probability between 0 and 1, shape (packets,)."""
        return np.asarray(self.certain & (self.lowest > 0) & (self.lowest < 1))

    def share(self, chosen: BoolArray | slice) -> LossShare:
        """Return the losses among the chosen packets whose fate was certain."""
        certain = self.certain[chosen]
        packets = int(certain.sum())
        if not packets:
            return LossShare(0)
        chance = self.lowest[chosen][certain]
        lost = self.lost[chosen][certain]
        four_deviations = 4 * float(np.sqrt((chance * (1 - chance)).sum()))
        tolerance = (four_deviations + 1 + 1e-3 * packets) / packets
        return LossShare(packets, float(chance.mean()), float(lost.mean()), tolerance)


class RunFacts:
    """Facts of one run of one plan; none is a verdict, and none is computed before it is needed."""

    def __init__(self, plan: StreamPlan, run: StreamMeasurements) -> None:
        self.theory = StreamTheory(plan)
        self.plan = plan
        self.run = run

    # Time.

    @cached_property
    def epochs(self) -> tuple[Epoch, ...]:
        """Times between one change and the next, as the changes were carried out."""
        return epochs(self.plan, self.run.faults, self.run.changes)

    @cached_property
    def starts_s(self) -> FloatArray:
        """Beginning of each epoch, shape (epochs,)."""
        return np.array([epoch.start_s for epoch in self.epochs])

    @cached_property
    def stops_s(self) -> FloatArray:
        """End of each epoch, shape (epochs,)."""
        return np.array([epoch.stop_s for epoch in self.epochs])

    @cached_property
    def losses(self) -> FloatArray:
        """Share of labels lost in each epoch, shape (epochs,)."""
        return np.array([epoch.loss for epoch in self.epochs])

    def epochs_at(self, times_s: FloatArray) -> IntArray:
        """Return the indices of the epochs in which the times lie."""
        indices = np.searchsorted(self.starts_s, times_s, side="right") - 1
        return np.asarray(np.clip(indices, 0, len(self.epochs) - 1), dtype=np.int64)

    def epoch_at(self, at_s: float) -> int:
        """Return the index of the epoch in which the time lies."""
        return int(self.epochs_at(np.array([at_s]))[0])

    # Packets.

    @cached_property
    def longest_transit_s(self) -> FloatArray:
        """The longest transit of the packets sent within a second of each packet, shape (packets,)."""
        sent_s = self.run.sent.time_s
        if not len(sent_s):
            return np.zeros(0)
        bins = np.maximum(0, sent_s / _BIN_S).astype(np.int64)
        longest = np.zeros(int(bins.max()) + 1)
        np.maximum.at(longest, bins, np.nan_to_num(self.run.deliveries.transit_s))
        padded = np.pad(longest, _BINS_AROUND)
        shifted = [padded[k : k + len(longest)] for k in range(2 * _BINS_AROUND + 1)]
        widest = np.max(shifted, axis=0)
        return np.asarray(widest[bins], dtype=np.float64)

    @cached_property
    def loss_bounds(self) -> LossBounds:
        """Every packet against the epochs that it may have met, as commanded and as carried out."""
        commanded = []
        for times in self.run.faults:
            fault = times.fault
            commanded.append(FaultTimes(fault=fault, start_s=fault.start_s, stop_s=fault.stop_s))
        noted = self._bounds_over(self.epochs)
        due = self._bounds_over(epochs(self.plan, commanded, self.run.changes))
        lowest = np.minimum(noted[0], due[0])
        highest = np.maximum(noted[1], due[1])
        sent_s = self.run.sent.time_s
        there_s = sent_s + self.longest_transit_s
        apart_s = self.run.clocks.fault_to_sender_s
        for change in self.run.changes:
            # Between old and new rules, and while links vanish, any packet may be lost.
            for begin_s, end_s in (
                (change.began_s, change.links_s),
                (change.switch_start_s, change.switch_stop_s),
            ):
                unsure = (there_s >= begin_s - apart_s) & (sent_s <= end_s + EARLY_S + apart_s)
                lowest[unsure] = 0.0
                highest[unsure] = 1.0
        return LossBounds(lowest=lowest, highest=highest, lost=self.run.lost)

    def _bounds_over(self, course: Sequence[Epoch]) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest probability of loss of each packet, shape (packets,).

        Args:
            course: All epochs, in order.
        """
        sent_s = self.run.sent.time_s
        there_s = sent_s + self.longest_transit_s
        apart_s = self.run.clocks.fault_to_sender_s
        begins_s = np.array([epoch.start_s for epoch in course]) - apart_s
        ends_s = np.array([epoch.stop_s for epoch in course]) + EARLY_S + apart_s
        first = np.searchsorted(ends_s, sent_s, side="right")
        first = np.minimum(first, len(course) - 1)
        last = np.maximum(first, np.searchsorted(begins_s, there_s, side="right") - 1)
        lowest = np.zeros(len(first))
        highest = np.zeros(len(first))
        for packets in _groups(first, last):
            met = course[first[packets[0]] : last[packets[0]] + 1]
            low, high = self._bounds_of(met, self.run.sent.label[packets])
            lowest[packets] = low
            highest[packets] = high
        return lowest, highest

    def _bounds_of(self, met: Sequence[Epoch], labels: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds for packets with these labels that met these epochs.

        A link loses for sure the packets that it loses in all of the epochs. Packets that it loses in
        some of them are lost perhaps: a packet may cross one link in the first epoch and another link
        in the second.
        """
        surely = dict(met[0].broken)
        perhaps = dict(met[0].broken)
        for epoch in met[1:]:
            broken = dict(epoch.broken)
            common = surely.keys() & broken.keys()
            surely = {link: min(surely[link], broken[link]) for link in common}
            for link, loss in broken.items():
                perhaps[link] = max(loss, perhaps.get(link, 0.0))
        lowest = np.ones(len(labels))
        highest = np.zeros(len(labels))
        for number in {epoch.split for epoch in met}:
            split = self.plan.splits[number]
            path = np.searchsorted([one.start for one in split.paths], labels, side="right") - 1
            lowest = np.minimum(lowest, path_losses(split, frozenset(surely.items()))[path])
            highest = np.maximum(highest, path_losses(split, frozenset(perhaps.items()))[path])
        return lowest, highest

    def surely_met(self, times: FaultTimes) -> BoolArray:
        """Return which packets surely met the fault, in blocks that met it as a whole.

        These are first transmissions of blocks that were sent while the fault was in force and
        arrived before its end. Their labels follow one another in the plan's order.
        """
        sent_s = self.run.sent.time_s
        there_s = sent_s + self.longest_transit_s
        apart_s = self.run.clocks.fault_to_sender_s
        begin_s = max(times.start_s, min(times.fault.start_s, times.stop_s)) + apart_s
        end_s = min(times.stop_s, times.fault.stop_s) - apart_s - EARLY_S
        block = self.run.place_of_block
        first = self.run.sent.symbol < self.run.size_begun[block]
        outside = first & ((sent_s < begin_s) | (there_s >= end_s))
        blocks = len(self.run.blocks.block)
        split = np.bincount(block, weights=outside, minlength=blocks) > 0
        return np.asarray(first & ~split[block])

    # Blocks.

    @cached_property
    def epoch_of_block(self) -> IntArray:
        """The epoch in which each block began, shape (blocks,)."""
        return self.epochs_at(self.run.blocks.started_s)

    @cached_property
    def first_packets(self) -> IntArray:
        """Packets that were sent of each block at first, shape (blocks,).

        An N that the sender announced and did not send adds nothing.
        """
        return np.minimum(self.run.size_begun, self.run.packets_of_block)

    @cached_property
    def late_parity(self) -> IntArray:
        """Packets that were sent of each block afterwards, shape (blocks,)."""
        return np.asarray(self.run.packets_of_block - self.first_packets)

    @cached_property
    def safe(self) -> BoolArray:
        """Whether theory says that each block lost nothing, shape (blocks,)."""
        blocks = len(self.run.blocks.block)
        endangered = np.bincount(
            self.run.place_of_block, weights=self.loss_bounds.highest > 0, minlength=blocks
        )
        return np.asarray(endangered == 0)

    @cached_property
    def spurious(self) -> BoolArray:
        """Whether each block was begun or helped upon false news (``timing_errors``), shape (blocks,)."""
        if not self.only_switches_delay or not len(self.run.news.lost_s):
            return np.zeros(len(self.run.blocks.block), dtype=np.bool_)
        return spurious_loss_blocks(self.run, self.plan.stream)

    # Answers.

    @cached_property
    def required(self) -> tuple[Requirement, ...]:
        """Which N answers each epoch."""
        return tuple(self.theory.requirement(epoch) for epoch in self.epochs)

    @cached_property
    def sizes(self) -> FloatArray:
        """The N that answers each epoch, nan beyond reach, shape (epochs,)."""
        return np.array([required.size for required in self.required])

    @cached_property
    def exact(self) -> BoolArray:
        """Whether the sender can know the lost labels of each epoch, shape (epochs,)."""
        return np.array([required.exact for required in self.required])

    @cached_property
    def estimated(self) -> BoolArray:
        """Whether the sender estimates a share that is lost at random, shape (epochs,)."""
        if self.theory.deterministic:
            return np.zeros(len(self.epochs), dtype=np.bool_)
        return np.asarray(~self.exact & (self.losses > 0))

    @cached_property
    def answered_s(self) -> FloatArray:
        """When the sender had answered each epoch, shape (epochs,).

        This is the beginning of the first block with an N of the range, once the sender was certain;
        at the latest the time at which the answer is due.
        """
        answered_s = self._due_s.copy()
        epoch = self.epoch_of_block
        lows = np.array([required.low for required in self.required])
        highs = np.array([required.high for required in self.required])
        size = self.run.size_begun
        started_s = self.run.blocks.started_s
        right = (size >= lows[epoch]) & (size <= highs[epoch])
        right &= started_s >= self._certain_s[epoch]
        # If no report got back before, a block that happens to have the right N is no answer.
        unreported = np.isnan(np.append(self.sizes[:1], self.sizes[:-1]))
        right &= ~unreported[epoch]
        np.minimum.at(answered_s, epoch[right], started_s[right])
        return answered_s

    @cached_property
    def settled_s(self) -> FloatArray:
        """From when on N is compared in each epoch, shape (epochs,).

        A sender that can know the lost labels is compared from its answer on. The N of a sender that
        estimates may be right by chance, so it is compared from when its answer is due.
        """
        if not self.theory.adaptive:
            return self.answered_s
        return np.where(self.exact, self.answered_s, self._due_s)

    @cached_property
    def _due_s(self) -> FloatArray:
        """When the answer to each epoch is due, shape (epochs,)."""
        stream = self.plan.stream
        lost_pps = stream.rate_pps * self.losses
        losses_s = np.zeros(len(lost_pps))
        np.divide(_ANSWER_LOSSES, lost_pps, out=losses_s, where=lost_pps > 0)
        reports_s = 2 * stream.report_interval_s + _ANSWER_BLOCKS * stream.block_s
        rise_s = np.maximum(reports_s + losses_s, self.theory.allowed_reaction_s)
        estimate_s = _ESTIMATE_PACKETS / stream.rate_pps + self.theory.round_trip_s
        rise_s = np.where(self.estimated, np.maximum(rise_s, estimate_s), rise_s)
        rise_s = np.where(self.exact, rise_s, np.maximum(rise_s, self._telling_apart_s))
        due_s = np.maximum(self.starts_s + rise_s, self._recovered_s)
        # At rest nothing is to be answered, but the first reports have to arrive.
        start_up_s = START_UP_S + self.theory.round_trip_s
        due_s[0] = max(due_s[0], start_up_s) if self.losses[0] else start_up_s
        return np.minimum(self.stops_s, due_s)

    @cached_property
    def _telling_apart_s(self) -> FloatArray:
        """How long a sender that estimates takes to distinguish two losses, shape (epochs,).

        Each packet adds the divergence of Kullback and Leibler to the log likelihood ratio.
        """
        times_s = np.zeros(len(self.epochs))
        for number, (before, loss) in enumerate(pairwise(self.losses.tolist()), start=1):
            if 0 < before < 1 and 0 < loss < 1 and before != loss:
                divergence = loss * math.log(loss / before)
                divergence += (1 - loss) * math.log((1 - loss) / (1 - before))
                times_s[number] = _SURE_OF_CHANGE / divergence / self.plan.stream.rate_pps
        return times_s

    @cached_property
    def _recovered_s(self) -> FloatArray:
        """When the sender has recovered from epochs that asked for more than each, shape (epochs,).

        A sender keeps the N of what it has been through until it has recovered. Where it estimates, or
        no N helps, that may be any N.
        """
        highs = np.array([required.high for required in self.required])
        peaks = np.where(self.estimated, self.theory.policy.largest, highs)
        peaks = np.where(np.isnan(self.sizes), np.inf, peaks)
        recovered_s = np.zeros(len(self.epochs))
        for number, high in enumerate(highs):
            larger = np.flatnonzero(peaks[:number] > high)
            if len(larger):
                recovered_s[number] = self.stops_s[larger[-1]] + self.theory.recovery_s
        return recovered_s

    @cached_property
    def _certain_s(self) -> FloatArray:
        """When the last belief before the due answer that calls for another N was over, shape (epochs,).

        An estimate, and no belief at all, count as such. Before that, a block that happens to have the
        right N is no answer.
        """

        def is_right(belief: Json) -> BoolArray:
            diagnosed = belief["speaker"] == "diagnosis"
            return np.asarray((self.sizes == belief["block_size"]) & diagnosed)

        return self._last_wrong_belief_s(is_right)

    @cached_property
    def _informed_s(self) -> FloatArray:
        """When the last doubt or wrong belief before the due answer was over, shape (epochs,).

        Until then lost packets may need late parity, even if N is right.
        """

        def is_right(belief: Json) -> BoolArray:
            known = np.abs(self.losses - belief["lost_fraction"]) < 1 / LABELS
            return np.asarray(known & belief["certain"])

        return self._last_wrong_belief_s(is_right)

    def _last_wrong_belief_s(self, is_right: Callable[[Json], BoolArray]) -> FloatArray:
        """Return when the last wrong belief before the due answer was over, shape (epochs,).

        This is the beginning of an epoch in which the sender had none, or in which it cannot know what
        is lost.

        Args:
            is_right: A function from a belief to the epochs for which it is right.
        """
        ended_s = self.starts_s.copy()
        if not self.beliefs:
            return ended_s
        first_s = self.beliefs[0]["at_s"]
        unknowing = self.exact & (self.starts_s < first_s)
        ended_s[unknowing] = np.minimum(first_s, self._due_s)[unknowing]
        for belief, after in pairwise([*self.beliefs, {"at_s": math.inf}]):
            met = (belief["at_s"] < self._due_s) & (after["at_s"] > self.starts_s)
            wrong = self.exact & ~is_right(belief) & met
            ends_s = np.minimum(after["at_s"], self._due_s)
            ended_s[wrong] = np.maximum(ended_s, ends_s)[wrong]
        return ended_s

    @cached_property
    def settled(self) -> BoolArray:
        """Whether each block began after the answer to its epoch and was over, with all packets there,
        before its end, shape (blocks,).
        """
        epoch = self.epoch_of_block
        started_s = self.run.blocks.started_s
        transit_s = self.longest_transit_s[self.run.first_of_block]
        there_s = started_s + 2 * self.plan.stream.block_s + transit_s
        within_reach = ~np.isnan(self.sizes)[epoch]
        reports_arrive = started_s >= START_UP_S + self.theory.round_trip_s
        at_rest = (self.losses == 0)[epoch]
        settled = (started_s >= self.settled_s[epoch]) & (there_s < self.stops_s[epoch])
        return np.asarray(settled & within_reach & (reports_arrive | ~at_rest))

    @cached_property
    def unpredicted(self) -> BoolArray:
        """Whether the diagnosis decided N of each block although losses were random, shape (blocks,).

        It may blame random losses on a link. Nothing predicts on which one, and for how long.
        """
        if not self.theory.diagnosing or not self.beliefs:
            return np.zeros(len(self.epoch_of_block), dtype=np.bool_)
        since_s = [belief["at_s"] for belief in self.beliefs]
        estimates = [False, *(belief["speaker"] == "estimate" for belief in self.beliefs)]
        belief_of_block = np.searchsorted(since_s, self.run.blocks.started_s, side="right")
        diagnosed = ~np.array(estimates)[belief_of_block]
        return np.asarray(self.estimated[self.epoch_of_block] & diagnosed)

    @cached_property
    def counted(self) -> BoolArray:
        """Whether redundancy and late parity are sums over each block, shape (blocks,).

        These are settled blocks with an N that theory predicts, begun upon true news.
        """
        return np.asarray(self.settled & ~self.spurious & ~self.unpredicted)

    @cached_property
    def informed(self) -> BoolArray:
        """Whether each counted block began when the sender knew what was lost, shape (blocks,).

        Such a block needs no late parity.
        """
        epoch = self.epoch_of_block
        knowing = self.run.blocks.started_s >= self._informed_s[epoch]
        return np.asarray(self.counted & self.exact[epoch] & knowing)

    # The machine.

    @cached_property
    def playback_quarter_s(self) -> float:
        """Time by which sender, switches, receiver and clocks may each be off."""
        return MAX_LAG * self.plan.stream.playback_s

    @cached_property
    def only_switches_delay(self) -> bool:
        """Whether nothing delays packets on purpose, as impairments and queues filled by TCP do."""
        on_switches = self.run.fabric == "emulation"
        with_tcp = "background_bps" in self.run.counters
        return on_switches and not self.theory.impaired_spans and not with_tcp

    @cached_property
    def queueing_s(self) -> float:
        """Longest time in transit beyond the longest path and what clocks leave open."""
        transit_s = self.run.deliveries.transit_s
        longest_s = float(transit_s[~np.isnan(transit_s)].max(initial=0.0))
        clocks_s = self.run.clocks.end_to_end_s
        return max(0.0, longest_s - self.theory.longest_path_s - clocks_s)

    @cached_property
    def oldest_report_s(self) -> float:
        """Age of the newest packet that a report told of, at most, beyond propagation."""
        ages_s = self.run.news.told_s - self.run.news.newest_s
        oldest_s = float(ages_s[np.isfinite(ages_s)].max(initial=0.0))
        return oldest_s - 2 * self.theory.longest_path_s

    @cached_property
    def max_report_age_s(self) -> float:
        """Age of news with which a sender can still answer in time."""
        stream = self.plan.stream
        rest_s = REACTION_S - stream.report_interval_s - SETTLE_S - stream.block_s
        return max(rest_s, self.playback_quarter_s)

    # The sender.

    @cached_property
    def beliefs(self) -> tuple[Json, ...]:
        """What a diagnosing sender believed, in order of time."""
        return tuple(self.run.counters.get(DIAGNOSES, ()))

    @cached_property
    def mistaken_beliefs(self) -> tuple[float, ...]:
        """When the sender began to be certain of a loss that did not exist."""
        if not self.theory.diagnosing:
            return ()
        arrived = self.loss_bounds.certain & ~self.run.lost
        found = mistaken_beliefs(self.theory, self.run.sent, arrived, self.epochs, self.beliefs)
        return tuple(found)

    @cached_property
    def diagnosis_accuracy(self) -> DiagnosisAccuracy | None:
        """How often the sender knew what had failed; None if it does not diagnose or has no log."""
        if not self.theory.diagnosing or not self.beliefs:
            return None
        mistaken = len(self.mistaken_beliefs)
        return diagnosis_accuracy(self.beliefs, mistaken, self.plan.duration_s)


def _groups(first: IntArray, last: IntArray) -> Iterator[IntArray]:
    """Yield the indices of packets that have the same pair of values, group by group."""
    if not len(first):
        return
    order = np.lexsort((last, first))
    changed = (np.diff(first[order]) != 0) | (np.diff(last[order]) != 0)
    yield from np.split(order, np.flatnonzero(changed) + 1)
