"""The times at which the sender had answered each epoch with the block size that it requires.

The answer is the first block with a right N that began when the sender was certain of the loss. A
block that has the right N by chance is no answer. If no such block was sent before the answer was
due, the due time is used, so that a sender with a wrong N is compared too.
"""

import math
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise

import numpy as np

from testbed.model.label_split import LABELS
from testbed.stream.facts.epoch_facts import EpochFacts
from testbed.stream.measurements import BoolArray, FloatArray
from testbed.stream.prediction.active_faults import DIAGNOSES
from topologies import Json

# Time from the beginning of a run in which loss reports may be late, because the machine is still
# loading code.
START_UP_S = 0.4
# An answer is due after two report intervals, this number of blocks, and the time in which this
# number of packets is lost.
_ANSWER_BLOCKS = 5
_ANSWER_LOSSES = 3
# Log likelihood ratio at which a sender that estimates believes that the loss has changed.
_SURE_OF_CHANGE = 12
# Number of packets from which a sender estimates a random loss well enough to answer it.
_ESTIMATE_PACKETS = 250


class AnswerTimes(EpochFacts):
    """The times of the sender's answers; arrays have one entry for each epoch."""

    @cached_property
    def beliefs(self) -> tuple[Json, ...]:
        """The beliefs of the sender, in order of time; empty if it does not diagnose.

        A belief lasts from ``at_s`` to the next one. It says which cables or nodes have failed
        (``names``), which share of labels is lost, and whether N follows from this diagnosis or
        from the estimated loss (``speaker``).
        """
        return tuple(self.run.counters.get(DIAGNOSES, ()))

    @cached_property
    def answered_s(self) -> FloatArray:
        """The time at which the sender had answered each epoch.

        This is the beginning of the first block with an N in the accepted range, once the sender
        was certain; at the latest the time at which the answer is due.
        """
        answered_s = self._due_s.copy()
        epoch = self.epoch_of_block
        size = self.run.initial_block_size
        started_s = self.run.blocks.started_s
        right = (size >= self.lowest_sizes[epoch]) & (size <= self.highest_sizes[epoch])
        right &= started_s >= self._certain_s[epoch]
        # If no report got back before, a block that happens to have the right N is no answer.
        unreported = np.isnan(np.append(self.sizes[:1], self.sizes[:-1]))
        right &= ~unreported[epoch]
        np.minimum.at(answered_s, epoch[right], started_s[right])
        return answered_s

    @cached_property
    def settled_s(self) -> FloatArray:
        """The time after which N is compared with the required one, in each epoch.

        If the sender can know the lost labels, this is the time of its answer. If it estimates the
        loss, its N may be right by chance, so this is the time at which the answer is due.
        """
        if not self.theory.adaptive:
            return self.answered_s
        return np.where(self.exact, self.answered_s, self._due_s)

    @cached_property
    def informed_s(self) -> FloatArray:
        """The time from which the sender was certain of the right loss, in each epoch.

        This is at the latest the time at which the answer is due. Before, lost packets may need
        late parity, even if N is right.
        """

        def is_right(belief: Json) -> BoolArray:
            same_loss = np.abs(self.losses - belief["lost_fraction"]) < 1 / LABELS
            return np.asarray(same_loss & belief["certain"])

        return self._last_wrong_belief_s(is_right)

    @cached_property
    def _certain_s(self) -> FloatArray:
        """The time from which the diagnosis required the N of the epoch, in each epoch.

        Before, the sender had a diagnosis that requires another N, only an estimate, or neither. A
        block before this time that happens to have the right N is no answer.
        """

        def is_right(belief: Json) -> BoolArray:
            diagnosed = belief["speaker"] == "diagnosis"
            return np.asarray((self.sizes == belief["block_size"]) & diagnosed)

        return self._last_wrong_belief_s(is_right)

    def _last_wrong_belief_s(self, is_right: Callable[[Json], BoolArray]) -> FloatArray:
        """Return when the last wrong belief of each epoch ended, shape (epochs,).

        This is at the latest the time at which the answer is due. It is the beginning of the epoch
        if no belief was wrong, or if the sender cannot know what is lost.

        Args:
            is_right: A function from a belief to a mask of the epochs for which it is right.
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
    def _due_s(self) -> FloatArray:
        """The time at which the answer to each epoch is due."""
        due_s = np.maximum(self.starts_s + self._rise_s, self._recovered_s)
        # If nothing is lost at first, no answer is needed, but the first reports have to arrive.
        start_up_s = START_UP_S + self.theory.round_trip_s
        due_s[0] = max(due_s[0], start_up_s) if self.losses[0] else start_up_s
        return np.minimum(self.stops_s, due_s)

    @cached_property
    def _rise_s(self) -> FloatArray:
        """The time from the beginning of each epoch in which a sender must raise N, if necessary.

        A sender that must lower N has more time; see ``_recovered_s``.
        """
        stream = self.plan.stream
        lost_pps = stream.rate_pps * self.losses
        losses_s = np.zeros(len(lost_pps))
        np.divide(_ANSWER_LOSSES, lost_pps, out=losses_s, where=lost_pps > 0)
        reports_s = 2 * stream.report_interval_s + _ANSWER_BLOCKS * stream.block_s
        rise_s = np.maximum(reports_s + losses_s, self.theory.allowed_reaction_s)
        estimate_s = _ESTIMATE_PACKETS / stream.rate_pps + self.theory.round_trip_s
        rise_s = np.where(self.estimated, np.maximum(rise_s, estimate_s), rise_s)
        return np.where(self.exact, rise_s, np.maximum(rise_s, self._distinguishing_s))

    @cached_property
    def _distinguishing_s(self) -> FloatArray:
        """The time in which a sender that estimates notices that the loss of an epoch is new.

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
        """The time until which the sender may keep the larger N of an earlier epoch; 0 if none.

        If the sender estimated the loss of the earlier epoch, or if no N was sufficient there, that
        larger N may be any N.
        """
        highs = self.highest_sizes
        peaks = np.where(self.estimated, self.theory.policy.largest, highs)
        peaks = np.where(np.isnan(self.sizes), np.inf, peaks)
        recovered_s = np.zeros(len(self.epochs))
        for number, high in enumerate(highs):
            larger = np.flatnonzero(peaks[:number] > high)
            if len(larger):
                recovered_s[number] = self.stops_s[larger[-1]] + self.theory.recovery_s
        return recovered_s
