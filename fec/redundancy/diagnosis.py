"""Which failure explains the fates of packets: the smallest set of suspects that all that was lost has in common.

Theory of operation. A sender knows which labels cross which cable: for each *suspect* (a cable, one direction of it, a
node with all its cables) the label intervals that are lost while it is broken. A report tells the fate of every label
that was sent. A lost label accuses the suspects on its path, one that arrived clears them. What is left explains the
losses; where several suspects break at once, the smallest set of them whose labels cover everything lost and nothing
that arrived does.

Evidence grows old: a label that arrived before a link failed clears nobody of that failure. Evidence therefore begins
again with the first lost label that nothing known explains (``_open``), and is closed in one of three ways:

- All sets left lose the same labels: the diagnosis is *certain*. Suspects in series, which carry the same labels,
  cannot be distinguished and need not be: the answer is the same, and all of them are named. Two small failures look
  like one large one until a label tells them apart, so explanations by two cables have to be ruled out as well. Where a
  loss contradicts the one cable that was left, that may be another failure on top of it, or two others from the
  beginning: both stay possible.
- A label arrives that was lost before: the failure is over. Closed ones end likewise, each by itself. One of few labels
  may be over without a label that tells: where another failure has begun since and none of its labels was lost, the
  whole is *uncertain*.
- No set is left: what was lost is *unexplained*, as independent random loss, congestion and links that lose some of
  their packets are. Where that happens ``_BAFFLING`` times within a while, labels explain nothing and an estimator has
  to speak.

Labels not seen since the failure began leave several sets possible. All are listed, and the block size is the largest
that any of them asks for, so that nothing is lost by waiting for certainty.

Pure and without a clock. A packet costs a few operations on integers used as bit sets, one bit for each elementary
interval of labels.
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

_MAX_AT_ONCE = 3
"""Suspects in one explanation of what was lost since the last change; settled ones come on top."""
_MIN_EVIDENCE = 2
"""Losses since the evidence began before a diagnosis is acted upon: one packet may be lost by chance, and FEC_t answers
it."""
_WELL_EXPLAINED = 5
"""Losses after which an explanation stands: what contradicts it is then another failure, or the end of this one."""
_LOSSES_WITHOUT_SPREAD = 25
"""Losses that are too many for a switch that stalls: so many need not be spread over time before one is certain."""
_MAX_UNEXPLAINED = 3
_MAX_COMBINATIONS = 1000
"""Choices of explanations, one for each failure, that are gone through."""
_MAX_SIZED = 4
"""So many of the widest sets are asked for their block size while several are possible."""


@dataclass(frozen=True)
class Hypothesis:
    """Suspects (indices) that together lose the labels of ``mask``."""

    candidates: tuple[int, ...]
    mask: int


@dataclass(slots=True, kw_only=True)
class _Failure:
    """One cause of losses, from the first lost label that nothing known explains.

    ``possible``: the smallest explanations left; ``rivals``: explanations by one cable more, which have to be ruled out
    as well before one is certain (None: not looked for). ``closed``: it takes no more losses than its own. ``seen``: of
    each lost elementary interval, when the first and the newest lost packet left. ``confirmed``: a label that it alone
    loses was lost since another failure began.
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

    def lose(self, bit: int, sent_s: float, *, only_cause: bool = True) -> None:
        """One more loss that it explains; ``alone``: and nothing else does, so that it tells which explanation
        holds."""
        self.lost |= bit
        self.losses += 1
        self.newest_s = max(self.newest_s, sent_s)
        self.note_loss_time(bit, sent_s)
        if only_cause:
            self._keep(lambda mask: bool(mask & bit))

    def note_loss_time(self, bit: int, sent_s: float) -> None:
        """When a lost packet left."""
        first_s, newest_s = self.seen.get(bit, (sent_s, sent_s))
        self.seen[bit] = min(first_s, sent_s), max(newest_s, sent_s)

    def lasted_s(self, outside: int) -> float:
        """Over how long packets were lost that the labels of ``outside`` do not explain; infinity where there were
        none."""
        times = [self.seen[bit] for bit in self.seen if not bit & outside]
        return max(t for _, t in times) - min(t for t, _ in times) if times else math.inf

    def add_arrival(self, bit: int) -> None:
        """A label has arrived that was not lost to it."""
        self.arrived |= bit
        self._keep(lambda mask: not mask & bit)

    def _keep(self, fits: Callable[[int], bool]) -> None:
        self.possible = [one for one in self.possible if fits(one.mask)]
        if self.larger_hypotheses is not None:
            self.larger_hypotheses = [one for one in self.larger_hypotheses if fits(one.mask)]


class Diagnoser:
    """Fates in, explanations out. ``memory_s``: how long an unexplained loss is remembered; ``transit_s``: by how much
    packets may differ in the time that they take to a broken link: what left that shortly before and after a change
    proves nothing. ``settle_s``: over how long a failure's losses have to spread, or be very many, before one is
    certain: a switch that stalls delays packets of several ways for a moment, which looks like a node that is down.
    ``one_path``: labels that no candidate tells apart take one path, so that they come in the order of sending.

    >>> from fec.redundancy.candidates import FailureCandidate
    >>> suspects = (("a", (0, 9)), ("b", (5, 20)), ("c", (12, 20)))
    >>> table = CandidateTable([FailureCandidate(name=n, intervals=(i,)) for n, i in suspects])
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
        self.table, self._one_path = table, one_path
        self._memory_s, self._transit_s, self._settle_s = (
            unexplained_window_s,
            transit_s,
            min_loss_spread_s,
        )
        self._resolved: list[_Failure] = []
        self._current: _Failure | None = None
        self._unexplained: deque[float] = deque(maxlen=_MAX_UNEXPLAINED)
        self._newest_s = 0.0
        self._over, self._over_until_s = 0, 0.0

    @property
    def certain(self) -> bool:
        """Whether one set of lost labels is left (none lost included), and no more of it is believed than was seen of
        late."""
        if self._current is not None or len(self._unions()) > 1:
            return False
        for failure in self._resolved:
            own = ~self._mask_of(one for one in self._resolved if one is not failure)
            if not failure.confirmed and any(one.mask & own for one in failure.possible):
                return False
        return True

    @property
    def unexplained(self) -> bool:
        """Whether too many losses of late had no explanation."""
        return (
            len(self._unexplained) == _MAX_UNEXPLAINED
            and self._newest_s - self._unexplained[0] <= self._memory_s
        )

    @property
    def possible_losses(self) -> tuple[int, ...]:
        """Bit sets of labels, one of which is lost now: one where certain; the widest ones where several are
        possible."""
        masks = self._unions()
        if self._current is not None and self._current.losses >= _MIN_EVIDENCE:
            masks = {mask | one.mask for mask in masks for one in self._current.possible}
        return tuple(
            sorted(masks, key=lambda mask: (-self.table.labels_in(mask), mask))[:_MAX_SIZED]
        )

    def names(self) -> tuple[str, ...]:
        """Suspects of the present explanations, each once: those that explain the same losses, and those still
        possible."""
        failures = [*self._resolved]
        if self._current is not None and self._current.losses >= _MIN_EVIDENCE:
            failures.append(self._current)
        found = dict.fromkeys(
            i for failure in failures for one in failure.possible for i in one.candidates
        )
        return tuple(self.table.candidates[i].name for i in found)

    def restart(self) -> None:
        """Forget what is not certain yet: some of what was taken for lost came after all. A closed failure that was
        none ends with the next label that arrives."""
        self._current = None
        self._unexplained.clear()

    def add(self, report: PacketReport) -> None:
        """The fate of one more packet, in the order of sending."""
        bit = self.table.bit_of(report.label)
        self._newest_s = max(self._newest_s, report.sent_s)
        if report.lost:
            self._lose(bit, report.sent_s)
        else:
            self._arrive(bit, report.sent_s)
        self._resolve_current()

    def _lose(self, bit: int, sent_s: float) -> None:
        if bit & self._over and sent_s < self._over_until_s:
            return  # left before the repair that a quicker packet told of
        owners = [one for one in self._resolved if any(each.mask & bit for each in one.possible)]
        if owners:
            alone = len(owners) == 1
            if self._current is not None and any(one.mask & bit for one in self._current.possible):
                self._current.lose(bit, sent_s, only_cause=False)
                alone = False
            for one in owners:
                one.lose(bit, sent_s, only_cause=alone)
                one.confirmed = one.confirmed or alone
            return
        known = self._current
        if known is None:
            self._begin(bit, sent_s)
        elif any(one.mask & bit for one in known.possible):
            known.lose(bit, sent_s)
        elif known.losses >= _WELL_EXPLAINED or sent_s - known.newest_s > self._memory_s:
            both = [one for one in self._larger_hypotheses_of(known) if one.mask & bit]
            self._split_failure(
                known, both
            )  # another failure, on top of this one or long after; or two from the beginning
            self._begin(bit, sent_s)
        else:
            known.lose(bit, sent_s)
            known.possible, known.larger_hypotheses = (
                self._explanations(known.lost, known.arrived),
                None,
            )
            if not known.possible:  # the loss may be the first one of a failure
                self._mark_unexplained()
                self._begin(bit, sent_s)

    def _arrive(self, bit: int, sent_s: float) -> None:
        for failure in [
            one for one in self._resolved if any(each.mask & bit for each in one.possible)
        ]:
            if self._may_have_passed(failure, bit, sent_s):
                continue  # was past the broken link already
            if failure.lost & bit or all(one.mask & bit for one in failure.possible):
                self._end(failure, sent_s)
            else:
                failure.add_arrival(bit)
        known = self._current
        if known is None or known.arrived & bit or self._may_have_passed(known, bit, sent_s):
            return
        if known.lost & bit:
            self._end(known, sent_s)
            return
        known.add_arrival(bit)
        if not known.possible:
            known.possible = self._explanations(known.lost, known.arrived)
        if not known.possible:
            self._mark_unexplained()

    def _may_have_passed(self, failure: _Failure, bit: int, sent_s: float) -> bool:
        """Whether what left then may have been past the broken link when it broke; not if one lost left before it and
        took the same path."""
        lost_before = self._one_path and bit in failure.seen and failure.seen[bit][1] < sent_s
        return sent_s < failure.began_s + self._transit_s and not lost_before

    def _begin(self, bit: int, sent_s: float) -> None:
        possible = [Hypothesis((i,), self.table.masks[i]) for i in self.table.holding(bit)]
        fewest = min(
            (self.table.candidates[one.candidates[0]].cables for one in possible), default=0
        )
        cheapest = [
            one for one in possible if self.table.candidates[one.candidates[0]].cables == fewest
        ]
        for failure in self._resolved:
            failure.confirmed = False
        self._current = _Failure(began_s=sent_s, newest_s=sent_s, lost=bit, possible=cheapest)
        self._current.note_loss_time(bit, sent_s)
        if not cheapest:
            self._mark_unexplained()

    def _end(self, failure: _Failure, sent_s: float) -> None:
        """A label of it has arrived: it is over, and packets that left before that one may still be lost to it."""
        if failure.losses < _WELL_EXPLAINED:
            self._unexplained.append(self._newest_s)
        self._over, self._over_until_s = self._mask_of([failure]), sent_s + self._transit_s
        if failure is self._current:
            self._current = None
        else:
            self._resolved.remove(failure)

    def _mark_unexplained(self) -> None:
        """Nothing explains what was lost since the evidence began."""
        self._unexplained.append(self._newest_s)
        self._current = None

    def _split_failure(self, failure: _Failure, both: Sequence[Hypothesis]) -> None:
        """Close it with all that is still possible, ``both``: pairs that explain what it lost and the loss that it does
        not; a single loss is too little for that."""
        if failure.losses < _MIN_EVIDENCE:
            self._mark_unexplained()
        else:
            failure.possible = [*failure.possible, *both]
            self._resolved.append(failure)
            self._current = None

    def _resolve_current(self) -> None:
        """Close the evidence where all that is possible loses the same labels, labels that are lost anyway left
        aside."""
        known = self._current
        if known is None or known.losses < _MIN_EVIDENCE:
            return
        if (
            known.losses < _LOSSES_WITHOUT_SPREAD
            and known.newest_s - known.began_s < self._settle_s
        ):
            return
        fresh = ~self._mask_of(self._resolved)
        mask = known.possible[0].mask & fresh
        if any(one.mask & fresh != mask for one in known.possible):
            return
        if any(one.mask & fresh != mask for one in self._larger_hypotheses_of(known)):
            return
        if self._is_passing(known):
            return
        self._resolved.append(known)
        self._current = None

    def _is_passing(self, known: _Failure) -> bool:
        """Whether one cable explains all but what was lost within a moment: a switch that stalls next to a failure
        delays packets of other ways, and the two look like a node that is down, or like several failures, until the
        late packets come or more are lost."""
        wide = all(
            len(one.candidates) > 1 or self.table.candidates[one.candidates[0]].cables > 1
            for one in known.possible
        )
        cables = self._free_cables(known.lost, known.arrived) if wide else ()
        return any(known.lasted_s(self.table.masks[i]) < self._settle_s for i in cables)

    def _mask_of(self, failures: Iterable[_Failure]) -> int:
        """All labels that they may lose, of each one the widest that is possible."""
        mask = 0
        for failure in failures:
            mask |= max(failure.possible, key=lambda one: self.table.labels_in(one.mask)).mask
        return mask

    def _unions(self) -> set[int]:
        """What the closed failures may lose together: a choice of each one's explanations that covers all that was
        lost, or, where there are very many such, the widest of each and what is sure to be among them."""
        choices = [list({one.mask for one in failure.possible}) for failure in self._resolved]
        if math.prod(map(len, choices)) > _MAX_COMBINATIONS:
            return {self._mask_of(self._resolved), *itertools.chain.from_iterable(choices)}
        lost = functools.reduce(operator.or_, (failure.lost for failure in self._resolved), 0)
        unions = {
            functools.reduce(operator.or_, chosen, 0) for chosen in itertools.product(*choices)
        }
        return {mask for mask in unions if not lost & ~mask} or unions

    def _larger_hypotheses_of(self, known: _Failure) -> list[Hypothesis]:
        """Looked for once; from then on evidence rules them out one by one."""
        if known.larger_hypotheses is None:
            known.larger_hypotheses = self._larger_hypotheses(known)
        return known.larger_hypotheses

    def _larger_hypotheses(self, known: _Failure) -> list[Hypothesis]:
        """Pairs of cables that would explain as much as the one suspect that is left, each what the other does not."""
        masks = self.table.masks
        if any(len(one.candidates) > 1 for one in known.possible):
            return []
        pairs = self._covers(known.lost, self._free_cables(known.lost, known.arrived), 2)
        return [
            one
            for one in pairs
            if len(one.candidates) == 2 and all(known.lost & ~masks[i] for i in one.candidates)
        ]

    def _free_cables(self, lost: int, arrived: int) -> list[int]:
        masks, candidates = self.table.masks, self.table.candidates
        return [
            i
            for i, mask in enumerate(masks)
            if candidates[i].cables == 1 and mask & lost and not mask & arrived
        ]

    def _explanations(self, lost: int, arrived: int) -> list[Hypothesis]:
        """All sets of fewest suspects that lose ``lost`` and nothing of ``arrived``; single cables before wider
        suspects."""
        masks, cables = self.table.masks, self._free_cables(lost, arrived)
        free = [i for i, mask in enumerate(masks) if not mask & arrived and mask & lost]
        for most, chosen in (
            (1, cables),
            (1, free),
            *((k, cables) for k in range(2, _MAX_AT_ONCE + 1)),
        ):
            found = self._covers(lost, chosen, most)
            if found:
                return found
        return []

    def _covers(self, lost: int, chosen: Sequence[int], most: int) -> list[Hypothesis]:
        masks, found = self.table.masks, dict[tuple[int, ...], int]()

        def extend(taken: tuple[int, ...], mask: int) -> None:
            missing = lost & ~mask
            if not missing:
                found[tuple(sorted(taken))] = mask
                return
            if len(taken) == most:
                return
            first = missing & -missing  # whichever it is, one of the set has to lose it
            for i in chosen:
                if masks[i] & first:
                    extend((*taken, i), mask | masks[i])

        extend((), 0)
        return [Hypothesis(taken, mask) for taken, mask in found.items()]
