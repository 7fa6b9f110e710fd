"""Diagnosis of failures: the smallest set of candidates that explains which packets were lost.

Theory of operation. A sender knows which labels cross which cable. For each *candidate* (a cable,
one direction of it, or a node with all its cables) it knows the label intervals that are lost while
the candidate is down. A report tells for every label that was sent whether the packet arrived. A
lost label suspects the candidates on its path, and a label that arrived clears them. The candidates
that are left explain the losses. If several candidates fail at once, the explanation is the
smallest set of them whose labels cover everything that was lost and nothing that arrived.

Evidence becomes outdated: a label that arrived before a link failed clears no candidate of that
failure. Evidence therefore begins again with the first lost label that no known failure explains.
It is closed in one of three ways:

- All sets that are left lose the same labels: the diagnosis is *certain*. Candidates in series,
  which carry the same labels, cannot be distinguished. They need not be, because the answer is the
  same, and all of them are named. Two small failures look like one large failure until a label
  distinguishes them, so explanations by two cables have to be ruled out as well. If a loss
  contradicts the one cable that was left, there may be another failure besides it, or there were
  two other failures from the beginning; both remain possible.
- A label arrives that was lost before: the failure has ended. Closed failures end in the same
  way, each by itself. A failure with few labels may end without a label that shows it. If another
  failure has begun since and none of its labels was lost, the diagnosis is *uncertain*.
- No set is left: the losses are *unexplained*. Independent random losses, congestion, and links
  that lose some of their packets are of this kind. If this happens ``_MAX_UNEXPLAINED`` times
  within a time window, labels explain nothing, and the loss has to be estimated instead.

Labels that have not been seen since the failure began leave several sets possible. All are listed,
and the block size is the largest that any of them requires, so that waiting for certainty loses no
packets.

The diagnosis has no clock and does no I/O. A packet costs a few operations on integers used as bit
sets, with one bit for each elementary interval of labels.
"""

import functools
import itertools
import math
import operator
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fec.redundancy.block_size_control import PacketReport
from fec.redundancy.candidates import CandidateTable

# Candidates in one explanation of the losses since the last change, besides closed failures.
_MAX_AT_ONCE = 3
# Minimum number of losses before a diagnosis is used. A single packet may be lost by chance, and
# FEC_t, the block size outside faults, is large enough for it.
_MIN_EVIDENCE = 2
# Losses after which an explanation is reliable. A contradiction is then another failure, or the
# end of this one.
_WELL_EXPLAINED = 5
# Number of losses that a switch that stalls for a moment does not cause. Then a failure is certain
# even if all losses happened within a moment.
_LOSSES_WITHOUT_SPREAD = 25
# Unexplained losses within the time window after which labels explain nothing.
_MAX_UNEXPLAINED = 3
# Combinations of explanations, one for each failure, that are enumerated.
_MAX_COMBINATIONS = 1000
# Sets, the widest ones first, whose block size is computed while several are possible.
_MAX_SIZED = 4


@dataclass(frozen=True)
class Hypothesis:
    """Candidates that are down together.

    Attributes:
        candidates: Their indices in the table.
        mask: The bit set of the labels that they lose.
    """

    candidates: tuple[int, ...]
    mask: int


@dataclass(slots=True, kw_only=True)
class _Failure:
    """One cause of losses, from the first lost label that no known failure explains.

    Attributes:
        began_s: When the first lost packet was sent.
        newest_s: When the newest lost packet was sent.
        lost: Bit set of lost labels.
        arrived: Bit set of labels that arrived since the failure began.
        losses: Number of losses.
        possible: The smallest explanations that are left.
        larger_hypotheses: Explanations by one more cable, which have to be ruled out before the
            diagnosis is certain; None until they are needed.
        closed: No more evidence is gathered: the failure is explained.
        confirmed: A label that only this failure loses was lost since the latest failure began.
        seen: For each lost elementary interval when its first and its newest lost packet were sent.
    """

    began_s: float
    newest_s: float
    lost: int
    arrived: int = 0
    losses: int = 1
    possible: list[Hypothesis]
    larger_hypotheses: list[Hypothesis] | None = None
    closed: bool = False
    confirmed: bool = True
    seen: dict[int, tuple[float, float]] = field(default_factory=dict)

    def may_lose(self, bit: int) -> bool:
        """Return whether a possible explanation loses this elementary interval."""
        return any(hypothesis.mask & bit for hypothesis in self.possible)

    def lose(self, bit: int, sent_s: float, *, only_cause: bool = True) -> None:
        """Add a loss that the failure explains.

        Args:
            bit: Elementary interval of the lost label.
            sent_s: When the packet was sent.
            only_cause: No other failure explains the loss, so that it rules out explanations that
                do not lose this label.
        """
        self.lost |= bit
        self.losses += 1
        self.newest_s = max(self.newest_s, sent_s)
        self.note_loss_time(bit, sent_s)
        if only_cause:
            self._retain(lambda mask: bool(mask & bit))

    def note_loss_time(self, bit: int, sent_s: float) -> None:
        """Record when a lost packet was sent."""
        first_s, newest_s = self.seen.get(bit, (sent_s, sent_s))
        self.seen[bit] = min(first_s, sent_s), max(newest_s, sent_s)

    def lasted_s(self, outside: int) -> float:
        """Return for how long labels were lost that are not in a bit set.

        Args:
            outside: The bit set; its labels are left out.

        Returns:
            The time between the sending of the first and the last of them; infinity if there were
            none.
        """
        times = [times for bit, times in self.seen.items() if not bit & outside]
        if not times:
            return math.inf
        first_s = min(first for first, _ in times)
        newest_s = max(newest for _, newest in times)
        return newest_s - first_s

    def add_arrival(self, bit: int) -> None:
        """Rule out the explanations that lose a label that has arrived."""
        self.arrived |= bit
        self._retain(lambda mask: not mask & bit)

    def _retain(self, fits: Callable[[int], bool]) -> None:
        self.possible = [hypothesis for hypothesis in self.possible if fits(hypothesis.mask)]
        if self.larger_hypotheses is not None:
            self.larger_hypotheses = [
                hypothesis for hypothesis in self.larger_hypotheses if fits(hypothesis.mask)
            ]


class Diagnoser:
    """Explains lost packets by failures.

    >>> from fec.redundancy.candidates import FailureCandidate
    >>> links = (("a", (0, 9)), ("b", (5, 20)), ("c", (12, 20)))
    >>> table = CandidateTable([FailureCandidate(name=n, intervals=(i,)) for n, i in links])
    >>> diagnoser = Diagnoser(table, unexplained_window_s=1.0)
    >>> for label, lost in ((7, True), (2, False), (6, True), (15, True)):
    ...     diagnoser.add(PacketReport(label, lost, 0.0))
    >>> diagnoser.names(), diagnoser.certain
    (('b',), True)
    """

    def __init__(
        self,
        table: CandidateTable,
        *,
        unexplained_window_s: float,
        transit_s: float = 0.0,
        min_loss_spread_s: float = 0.0,
        one_path: bool = False,
    ) -> None:
        """Start without evidence.

        Args:
            table: What may fail.
            unexplained_window_s: How long an unexplained loss is remembered.
            transit_s: Largest difference between the times that packets take to a failed link.
                Packets sent shortly before and after a change prove nothing.
            min_loss_spread_s: The losses of a failure must spread over this time, or be very many,
                before it is certain. A switch that stalls delays packets of several paths for a
                moment, which looks like a node that is down.
            one_path: Labels that no candidate distinguishes take one path, so that their packets
                arrive in the order of sending.
        """
        self.table = table
        self._one_path = one_path
        self._window_s = unexplained_window_s
        self._transit_s = transit_s
        self._min_loss_spread_s = min_loss_spread_s
        # Failures whose lost labels are settled.
        self._closed: list[_Failure] = []
        # The failure for which evidence is being gathered.
        self._current: _Failure | None = None
        # Times of unexplained losses.
        self._unexplained: deque[float] = deque(maxlen=_MAX_UNEXPLAINED)
        self._newest_s = 0.0
        # The labels of the failure that ended last. Packets sent before this time may still be
        # lost to it.
        self._ended_mask = 0
        self._ended_until_s = 0.0

    @property
    def certain(self) -> bool:
        """True if one set of lost labels is left (possibly none), and recent losses confirm it."""
        if self._current is not None or len(self._unions()) > 1:
            return False
        return not any(self._may_be_over(failure) for failure in self._closed)

    def _may_be_over(self, failure: _Failure) -> bool:
        """Return whether the end of a failure may have been missed.

        This concerns failures that may lose labels which no other closed failure may lose.
        """
        if failure.confirmed:
            return False
        covered = self._mask_of(other for other in self._closed if other is not failure)
        return failure.may_lose(~covered)

    @property
    def unexplained(self) -> bool:
        """True if too many recent losses had no explanation."""
        return (
            len(self._unexplained) == _MAX_UNEXPLAINED
            and self._newest_s - self._unexplained[0] <= self._window_s
        )

    @property
    def possible_losses(self) -> tuple[int, ...]:
        """Bit sets of labels, one of which is lost now.

        There is one if the diagnosis is certain, and otherwise the widest ones that are possible.
        """
        masks = self._unions()
        if self._current is not None and self._current.losses >= _MIN_EVIDENCE:
            pairs = itertools.product(masks, self._current.possible)
            masks = {mask | hypothesis.mask for mask, hypothesis in pairs}
        widest_first = sorted(masks, key=lambda mask: (-self.table.labels_in(mask), mask))
        return tuple(widest_first[:_MAX_SIZED])

    def names(self) -> tuple[str, ...]:
        """Return the names of the candidates in the present explanations, each once.

        Several candidates are named if they lose the same labels, or if several explanations are
        possible.
        """
        failures = [*self._closed]
        if self._current is not None and self._current.losses >= _MIN_EVIDENCE:
            failures.append(self._current)
        indices: dict[int, None] = {}
        for failure in failures:
            for hypothesis in failure.possible:
                indices.update(dict.fromkeys(hypothesis.candidates))
        return tuple(self.table.candidates[i].name for i in indices)

    def restart(self) -> None:
        """Forget what is not certain yet, because some lost packets have arrived after all.

        A closed failure that did not exist ends with its next label that arrives.
        """
        self._current = None
        self._unexplained.clear()

    def add(self, report: PacketReport) -> None:
        """Process the fate of one packet; the packets are in the order of sending."""
        bit = self.table.bit_of(report.label)
        self._newest_s = max(self._newest_s, report.sent_s)
        if report.lost:
            self._lose(bit, report.sent_s)
        else:
            self._arrive(bit, report.sent_s)
        self._close_if_settled()

    def _lose(self, bit: int, sent_s: float) -> None:
        if bit & self._ended_mask and sent_s < self._ended_until_s:
            # The packet was sent before the repair, which a faster packet has shown.
            return
        owners = [failure for failure in self._closed if failure.may_lose(bit)]
        if owners:
            self._lose_again(owners, bit, sent_s)
            return
        current = self._current
        if current is None:
            self._begin(bit, sent_s)
        elif current.may_lose(bit):
            current.lose(bit, sent_s)
        elif current.losses >= _WELL_EXPLAINED or sent_s - current.newest_s > self._window_s:
            # This is another failure besides this one or long after it, or there were two others
            # from the beginning.
            larger = self._larger_hypotheses_of(current)
            pairs = [hypothesis for hypothesis in larger if hypothesis.mask & bit]
            self._split_failure(current, pairs)
            self._begin(bit, sent_s)
        else:
            current.lose(bit, sent_s)
            current.possible = self._explanations(current.lost, current.arrived)
            current.larger_hypotheses = None
            if not current.possible:
                # The loss may be the first of a failure.
                self._mark_unexplained()
                self._begin(bit, sent_s)

    def _lose_again(self, owners: Sequence[_Failure], bit: int, sent_s: float) -> None:
        """Record a loss that one or several closed failures explain."""
        only_cause = len(owners) == 1
        if self._current is not None and self._current.may_lose(bit):
            self._current.lose(bit, sent_s, only_cause=False)
            only_cause = False
        for failure in owners:
            failure.lose(bit, sent_s, only_cause=only_cause)
            failure.confirmed = failure.confirmed or only_cause

    def _arrive(self, bit: int, sent_s: float) -> None:
        for failure in [closed for closed in self._closed if closed.may_lose(bit)]:
            if self._may_have_passed(failure, bit, sent_s):
                continue
            if failure.lost & bit or all(each.mask & bit for each in failure.possible):
                self._end(failure, sent_s)
            else:
                failure.add_arrival(bit)
        current = self._current
        if current is None or current.arrived & bit:
            return
        if self._may_have_passed(current, bit, sent_s):
            return
        if current.lost & bit:
            self._end(current, sent_s)
            return
        current.add_arrival(bit)
        if not current.possible:
            current.possible = self._explanations(current.lost, current.arrived)
        if not current.possible:
            self._mark_unexplained()

    def _may_have_passed(self, failure: _Failure, bit: int, sent_s: float) -> bool:
        """Return whether a packet sent then may have passed the failed link before it failed.

        It may not if a packet that took the same path was sent earlier and lost.
        """
        lost_before = self._one_path and bit in failure.seen and failure.seen[bit][1] < sent_s
        return sent_s < failure.began_s + self._transit_s and not lost_before

    def _begin(self, bit: int, sent_s: float) -> None:
        """Begin the evidence for a new failure with its first loss."""
        candidates = self.table.candidates
        holding = self.table.holding(bit)
        fewest = min((candidates[i].cables for i in holding), default=0)
        cheapest = [
            Hypothesis((i,), self.table.masks[i]) for i in holding if candidates[i].cables == fewest
        ]
        for failure in self._closed:
            failure.confirmed = False
        self._current = _Failure(began_s=sent_s, newest_s=sent_s, lost=bit, possible=cheapest)
        self._current.note_loss_time(bit, sent_s)
        if not cheapest:
            self._mark_unexplained()

    def _end(self, failure: _Failure, sent_s: float) -> None:
        """End a failure, because a label that it lost has arrived.

        Packets that were sent before that label may still be lost to it.
        """
        if failure.losses < _WELL_EXPLAINED:
            self._unexplained.append(self._newest_s)
        self._ended_mask = self._mask_of([failure])
        self._ended_until_s = sent_s + self._transit_s
        if failure is self._current:
            self._current = None
        else:
            self._closed.remove(failure)

    def _mark_unexplained(self) -> None:
        """Drop the evidence, because nothing explains what was lost since it began."""
        self._unexplained.append(self._newest_s)
        self._current = None

    def _split_failure(self, failure: _Failure, pairs: Sequence[Hypothesis]) -> None:
        """Close a failure with all explanations that are possible.

        A single loss is too little evidence for that.

        Args:
            failure: The failure for which evidence is being gathered.
            pairs: Pairs of cables that explain its losses and also the loss that it does not
                explain.
        """
        if failure.losses < _MIN_EVIDENCE:
            self._mark_unexplained()
        else:
            failure.possible = [*failure.possible, *pairs]
            self._closed.append(failure)
            self._current = None

    def _close_if_settled(self) -> None:
        """Close the evidence if all possible explanations lose the same labels.

        Labels that closed failures lose anyway are ignored.
        """
        current = self._current
        if current is None or current.losses < _MIN_EVIDENCE:
            return
        spread_s = current.newest_s - current.began_s
        if current.losses < _LOSSES_WITHOUT_SPREAD and spread_s < self._min_loss_spread_s:
            return
        fresh = ~self._mask_of(self._closed)
        mask = current.possible[0].mask & fresh
        if any(hypothesis.mask & fresh != mask for hypothesis in current.possible):
            return
        larger = self._larger_hypotheses_of(current)
        if any(hypothesis.mask & fresh != mask for hypothesis in larger):
            return
        if self._is_passing(current):
            return
        self._closed.append(current)
        self._current = None

    def _is_passing(self, failure: _Failure) -> bool:
        """Return whether one cable explains all losses, except losses within a short time.

        A switch that stalls next to a failure delays packets of other paths. The two look like a
        node that is down, or like several failures, until the late packets arrive or more packets
        are lost.
        """
        if not all(self._is_wide(hypothesis) for hypothesis in failure.possible):
            return False
        cables = self._free_cables(failure.lost, failure.arrived)
        return any(failure.lasted_s(self.table.masks[i]) < self._min_loss_spread_s for i in cables)

    def _is_wide(self, hypothesis: Hypothesis) -> bool:
        """Return whether more than one cable is down."""
        first = self.table.candidates[hypothesis.candidates[0]]
        return len(hypothesis.candidates) > 1 or first.cables > 1

    def _mask_of(self, failures: Iterable[_Failure]) -> int:
        """Return all labels that the failures may lose, by the widest explanation of each."""
        mask = 0
        for failure in failures:
            masks = [hypothesis.mask for hypothesis in failure.possible]
            mask |= max(masks, key=self.table.labels_in)
        return mask

    def _unions(self) -> set[int]:
        """Return the bit sets that the closed failures may lose together.

        Each is a choice of one explanation per failure that covers everything that was lost. If
        there are too many choices, the result has the union of the widest explanations, and the
        explanations themselves.
        """
        choices = []
        for failure in self._closed:
            choices.append(list({hypothesis.mask for hypothesis in failure.possible}))
        if math.prod(map(len, choices)) > _MAX_COMBINATIONS:
            return {self._mask_of(self._closed), *itertools.chain.from_iterable(choices)}
        lost = _union(failure.lost for failure in self._closed)
        unions = {_union(masks) for masks in itertools.product(*choices)}
        covering = {mask for mask in unions if not lost & ~mask}
        return covering or unions

    def _larger_hypotheses_of(self, failure: _Failure) -> list[Hypothesis]:
        """Return the pairs of cables (``_larger_hypotheses``) that have not been ruled out."""
        if failure.larger_hypotheses is None:
            failure.larger_hypotheses = self._larger_hypotheses(failure)
        return failure.larger_hypotheses

    def _larger_hypotheses(self, failure: _Failure) -> list[Hypothesis]:
        """Return pairs of cables that explain as much as the one candidate that is left.

        Each cable of a pair explains a loss that the other does not.
        """
        if any(len(hypothesis.candidates) > 1 for hypothesis in failure.possible):
            return []
        masks = self.table.masks
        cables = self._free_cables(failure.lost, failure.arrived)
        pairs = []
        for hypothesis in self._covers(failure.lost, cables, 2):
            both_needed = all(failure.lost & ~masks[i] for i in hypothesis.candidates)
            if len(hypothesis.candidates) == 2 and both_needed:
                pairs.append(hypothesis)
        return pairs

    def _free_cables(self, lost: int, arrived: int) -> list[int]:
        """Return the cables that lose some of ``lost`` and nothing of ``arrived``."""
        candidates = self.table.candidates
        return [i for i in self._free_candidates(lost, arrived) if candidates[i].cables == 1]

    def _free_candidates(self, lost: int, arrived: int) -> list[int]:
        """Return the candidates that lose some of ``lost`` and nothing of ``arrived``."""
        return [i for i, mask in enumerate(self.table.masks) if mask & lost and not mask & arrived]

    def _explanations(self, lost: int, arrived: int) -> list[Hypothesis]:
        """Return the smallest sets of candidates that lose ``lost`` and nothing of ``arrived``.

        Single cables are preferred to wider candidates, and these to several cables.
        """
        cables = self._free_cables(lost, arrived)
        searches = [(1, cables), (1, self._free_candidates(lost, arrived))]
        for size in range(2, _MAX_AT_ONCE + 1):
            searches.append((size, cables))
        for max_size, indices in searches:
            explanations = self._covers(lost, indices, max_size)
            if explanations:
                return explanations
        return []

    def _covers(self, lost: int, indices: Sequence[int], max_size: int) -> list[Hypothesis]:
        """Return the sets of at most ``max_size`` of these candidates that lose all of ``lost``."""
        masks = self.table.masks
        covers: dict[tuple[int, ...], int] = {}

        def extend(chosen: tuple[int, ...], mask: int) -> None:
            missing = lost & ~mask
            if not missing:
                covers[tuple(sorted(chosen))] = mask
                return
            if len(chosen) == max_size:
                return
            # One candidate of the set has to lose the first missing interval.
            first = missing & -missing
            for i in indices:
                if masks[i] & first:
                    extend((*chosen, i), mask | masks[i])

        extend((), 0)
        return [Hypothesis(chosen, mask) for chosen, mask in covers.items()]


def _union(masks: Iterable[int]) -> int:
    return functools.reduce(operator.or_, masks, 0)
