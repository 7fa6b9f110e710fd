"""All facts of one run of one plan of a stream, each computed once.

Theory of operation. Time is divided into epochs (``epoch_facts``). For each epoch, the share of
lost labels and the required N follow from the plan, and the time of the sender's answer from the
logs (``answer_times``). For each packet, the epochs give the smallest and the largest probability
of loss (``loss_bounds``). A block is *settled* if it begins after the sender's answer to its epoch
and its last packet arrives before the epoch ends. All figures are sums over packets, blocks and
epochs.
"""

from functools import cached_property

import numpy as np

from testbed.faults.fault import FaultTimes
from testbed.stream.endpoints import SETTLE_S
from testbed.stream.facts.answer_times import START_UP_S, AnswerTimes
from testbed.stream.facts.beliefs import (
    DiagnosisAccuracy,
    diagnosis_accuracy,
    mistaken_beliefs,
)
from testbed.stream.facts.loss_bounds import EARLY_S, LossBounds, bounds_over
from testbed.stream.facts.spurious_losses import spurious_loss_blocks
from testbed.stream.measurements import BoolArray, FloatArray, IntArray
from testbed.stream.prediction.active_faults import epochs
from testbed.stream.prediction.path_delays import REACTION_S, path_spread_s

# Share of the playback buffer by which sender, switches and receiver may each be late.
MAX_LAG = 0.25
# A busy machine delays some packets, so the longest transit time is taken over all packets sent
# within a second of each packet: over bins of this length, and this number of bins on each side.
_BIN_S = 0.25
_BINS_AROUND = 4


class RunFacts(AnswerTimes):
    """Facts of one run of one plan; none is a verdict, and none is computed before it is needed.

    Arrays have one entry for each packet in the order of the sender's log, or for each block in the
    order of ``run.blocks``.
    """

    # Packets.

    @cached_property
    def longest_transit_s(self) -> FloatArray:
        """The longest transit of the packets that were sent within a second of each packet."""
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
    def latest_arrival_s(self) -> FloatArray:
        """The latest time at which each packet can have arrived."""
        return self.run.sent.time_s + self.longest_transit_s

    @cached_property
    def earliest_arrival_s(self) -> FloatArray:
        """The earliest time at which each packet can have arrived."""
        shortest_path_s = self.theory.longest_path_s - path_spread_s(self.plan)
        return self.run.sent.time_s + shortest_path_s

    @cached_property
    def loss_bounds(self) -> LossBounds:
        """The bounds of each packet, over the epochs that it may have met.

        Both the planned and the recorded times of the faults are taken into account.
        """
        commanded = []
        for times in self.run.faults:
            fault = times.fault
            commanded.append(FaultTimes(fault=fault, start_s=fault.start_s, stop_s=fault.stop_s))
        planned = epochs(self.plan, commanded, self.run.changes)
        splits = self.plan.splits
        low_noted, high_noted = bounds_over(self.epochs, splits, self.run, self.latest_arrival_s)
        low_planned, high_planned = bounds_over(planned, splits, self.run, self.latest_arrival_s)
        lowest = np.minimum(low_noted, low_planned)
        highest = np.maximum(high_noted, high_planned)
        lowest[self._changing] = 0.0
        highest[self._changing] = 1.0
        return LossBounds(lowest=lowest, highest=highest, lost=self.run.lost)

    @cached_property
    def _changing(self) -> BoolArray:
        """A mask of the packets in transit while routes changed, each of which may be lost."""
        sent_s = self.run.sent.time_s
        clock_error_s = self.run.clocks.fault_to_sender_s
        changing = np.zeros(len(sent_s), dtype=np.bool_)
        for change in self.run.changes:
            links = (change.began_s, change.links_s)
            rules = (change.switch_start_s, change.switch_stop_s)
            for begin_s, end_s in (links, rules):
                met = self.latest_arrival_s >= begin_s - clock_error_s
                changing |= met & (sent_s <= end_s + EARLY_S + clock_error_s)
        return changing

    def surely_met(self, times: FaultTimes) -> BoolArray:
        """Return a mask of the packets in blocks of which every packet was in transit in the fault.

        Only the first N packets of a block count, which have consecutive labels in the plan's
        order. All of them were sent after the fault began, and arrived before it ended.
        """
        sent_s = self.run.sent.time_s
        clock_error_s = self.run.clocks.fault_to_sender_s
        begin_s = max(times.start_s, min(times.fault.start_s, times.stop_s)) + clock_error_s
        end_s = min(times.stop_s, times.fault.stop_s) - clock_error_s - EARLY_S
        block = self.run.block_index
        first = self.run.sent.symbol < self.run.initial_block_size[block]
        outside = first & ((sent_s < begin_s) | (self.latest_arrival_s >= end_s))
        blocks = len(self.run.blocks.block)
        split = np.bincount(block, weights=outside, minlength=blocks) > 0
        return np.asarray(first & ~split[block])

    # Blocks.

    @cached_property
    def first_packets(self) -> IntArray:
        """The number of packets of each block without late parity.

        This is N, or the number of packets that were sent if the sender did not send all N.
        """
        return np.minimum(self.run.initial_block_size, self.run.packets_of_block)

    @cached_property
    def late_parity(self) -> IntArray:
        """The number of late parity packets of each block, which were sent after its first N."""
        return np.asarray(self.run.packets_of_block - self.first_packets)

    @cached_property
    def safe(self) -> BoolArray:
        """A mask of the blocks that cannot have lost a packet according to the prediction."""
        blocks = len(self.run.blocks.block)
        endangered = np.bincount(
            self.run.block_index,
            weights=self.loss_bounds.highest > 0,
            minlength=blocks,
        )
        return np.asarray(endangered == 0)

    @cached_property
    def between_epochs(self) -> BoolArray:
        """A mask of blocks that no N repairs, because they meet the broken links of two epochs.

        Their packets were in transit when one epoch ended and the next began.
        """
        started_s = self.run.blocks.started_s
        sent_s = started_s + 2 * self.plan.stream.block_s
        between = np.zeros(len(started_s), dtype=np.bool_)
        for epoch in self.joined_epochs:
            if not self.theory.requirement(epoch).within_reach:
                between |= (started_s < epoch.stop_s) & (sent_s > epoch.start_s)
        return between

    @cached_property
    def unheard(self) -> BoolArray:
        """A mask of the last blocks of the stream, whose losses the sender may never learn of.

        It learns of a loss only when a later packet arrives (``StreamTheory.tail_s``).
        """
        sent_s = self.run.sent.time_s
        last_sent_s = np.full(len(self.run.blocks.block), -np.inf)
        np.maximum.at(last_sent_s, self.run.block_index, sent_s)
        # Packets under a random loss count: most of them arrive.
        can_arrive = self.loss_bounds.lowest < 1
        newest_s = sent_s[can_arrive].max() if can_arrive.any() else np.inf
        return np.asarray(last_sent_s >= newest_s - self.theory.tail_s)

    @cached_property
    def spurious(self) -> BoolArray:
        """A mask of blocks on which a sender decided that took delayed packets for lost.

        See ``spurious_losses`` and ``timing_errors``. The mask is empty if packets are delayed on
        purpose.
        """
        if not self.only_switches_delay or not len(self.run.news.lost_s):
            return np.zeros(len(self.run.blocks.block), dtype=np.bool_)
        return spurious_loss_blocks(self.run, self.plan.stream)

    @cached_property
    def settled(self) -> BoolArray:
        """A mask of the blocks that began after the answer to an epoch, and arrived before its end.

        A block has arrived when all its packets have. Epochs that no N answers have no such blocks.
        """
        epoch = self.epoch_of_block
        started_s = self.run.blocks.started_s
        transit_s = self.longest_transit_s[self.run.first_of_block]
        arrived_s = started_s + 2 * self.plan.stream.block_s + transit_s
        within_reach = ~np.isnan(self.sizes)[epoch]
        reports_arrive = started_s >= START_UP_S + self.theory.round_trip_s
        at_rest = (self.losses == 0)[epoch]
        settled = (started_s >= self.settled_s[epoch]) & (arrived_s < self.stops_s[epoch])
        return np.asarray(settled & within_reach & (reports_arrive | ~at_rest))

    @cached_property
    def unpredicted(self) -> BoolArray:
        """A mask of the blocks whose N followed from a diagnosis although losses were random.

        The diagnosis may explain random losses by the failure of some link. It cannot be predicted
        of which link, and for how long.
        """
        if not self.theory.diagnosing or not self.beliefs:
            return np.zeros(len(self.epoch_of_block), dtype=np.bool_)
        since_s = [belief["at_s"] for belief in self.beliefs]
        speakers = [
            "diagnosis",
            *(belief["speaker"] for belief in self.beliefs),
        ]
        estimates = np.array(speakers) == "estimate"
        belief_of_block = np.searchsorted(since_s, self.run.blocks.started_s, side="right")
        diagnosed = ~estimates[belief_of_block]
        return np.asarray(self.estimated[self.epoch_of_block] & diagnosed)

    @cached_property
    def counted(self) -> BoolArray:
        """A mask of the blocks over which redundancy and late parity are summed.

        These are settled blocks whose N is predicted, and which a correctly informed sender began.
        """
        return np.asarray(self.settled & ~self.spurious & ~self.unpredicted)

    @cached_property
    def informed(self) -> BoolArray:
        """A mask of the counted blocks that began when the sender knew the lost labels.

        Such a block needs no late parity.
        """
        epoch = self.epoch_of_block
        knowing = self.run.blocks.started_s >= self.informed_s[epoch]
        return np.asarray(self.counted & self.exact[epoch] & knowing)

    # The machine.

    @cached_property
    def playback_quarter_s(self) -> float:
        """Largest accepted lateness of sender, switches, receiver and clocks, each, in seconds."""
        return MAX_LAG * self.plan.stream.playback_s

    @cached_property
    def only_switches_delay(self) -> bool:
        """True if nothing delays packets on purpose, as impairments and queues filled by TCP do."""
        on_switches = self.run.fabric == "emulation"
        with_tcp = "background_bps" in self.run.counters
        return on_switches and not self.theory.impaired_spans and not with_tcp

    @cached_property
    def queueing_s(self) -> float:
        """Longest transit time, minus the longest propagation and the uncertainty of the clocks."""
        transit_s = self.run.deliveries.transit_s
        longest_s = float(transit_s[~np.isnan(transit_s)].max(initial=0.0))
        clocks_s = self.run.clocks.end_to_end_s
        return max(0.0, longest_s - self.theory.longest_path_s - clocks_s)

    @cached_property
    def oldest_report_s(self) -> float:
        """Largest age of a loss report, in seconds.

        The age is the time from the sending of the newest packet in the report until the sender got
        the report, minus propagation.
        """
        ages_s = self.run.news.told_s - self.run.news.newest_s
        oldest_s = float(ages_s[np.isfinite(ages_s)].max(initial=0.0))
        return oldest_s - 2 * self.theory.longest_path_s

    @cached_property
    def max_report_age_s(self) -> float:
        """Largest age of a loss report with which the sender can still answer in time."""
        stream = self.plan.stream
        rest_s = REACTION_S - stream.report_interval_s - SETTLE_S - stream.block_s
        return max(rest_s, self.playback_quarter_s)

    # The sender.

    @cached_property
    def mistaken_beliefs(self) -> tuple[float, ...]:
        """The times at which the sender began to be certain of a loss that did not exist."""
        if not self.theory.diagnosing:
            return ()
        sent = self.run.sent
        arrived = ~self.run.lost
        judged_until_s = float(sent.time_s[arrived].max(initial=0.0)) - self.theory.tail_s
        beliefs = mistaken_beliefs(
            self.theory,
            sent,
            arrived & self.loss_bounds.certain,
            self.epochs,
            self.beliefs,
            judged_until_s,
        )
        return tuple(beliefs)

    @cached_property
    def diagnosis_accuracy(self) -> DiagnosisAccuracy | None:
        """Accuracy of the sender's diagnoses; None if it does not diagnose or has no log."""
        if not self.theory.diagnosing or not self.beliefs:
            return None
        mistaken = len(self.mistaken_beliefs)
        return diagnosis_accuracy(self.beliefs, mistaken, self.plan.duration_s)
