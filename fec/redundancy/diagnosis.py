"""Which failure explains the fates of packets: the smallest set of suspects that all that was lost has in common.

Theory of operation. A sender knows which labels cross which cable: for each *suspect* (a cable, one direction of it, a node with
all its cables) the label intervals that are lost while it is broken. A report tells the fate of every label that was sent. A
lost label accuses the suspects on its path, one that arrived clears them. What is left explains the losses; where several
suspects break at once, the smallest set of them whose labels cover everything lost and nothing that arrived does.

Evidence grows old: a label that arrived before a link failed clears nobody of that failure. Evidence therefore begins anew with
the first lost label that nothing known explains (``_open``), and is closed in one of three ways:

- All sets left lose the same labels: the diagnosis is *certain* and settles. Suspects in series, which carry the same labels, cannot
  be told apart and need not be: the answer is the same, and all of them are named.
- A label arrives that was lost before: the failure is over. Settled ones end likewise, each by itself.
- No set is left: what was lost is *unexplained*, as independent random loss, congestion and links that lose some of their packets are.
  Where that happens ``_BAFFLING`` times within a while, labels explain nothing and an estimator has to speak.

Labels not seen since the failure began leave several sets possible. All are listed, and the block size is the largest that any of
them asks for, so that nothing is lost by waiting for certainty.

Pure and without a clock. A packet costs a few operations on integers used as bit sets, one bit for each elementary interval of labels.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError
from fec.redundancy.adaptation import BlockSizeController
from fec.redundancy.block_size import Interval
from fec.redundancy.block_size_control import PacketFate
from fec.redundancy.labels import LABELS

_MAX_AT_ONCE = 3
"""Suspects in one explanation of what was lost since the last change; settled ones come on top."""
_MIN_EVIDENCE = 2
"""Losses since the evidence began before a diagnosis is acted upon: one packet may be lost by chance, and FEC_t answers it."""
_WELL_EXPLAINED = 5
"""Losses after which an explanation stands: what contradicts it is then another failure, or the end of this one."""
_BAFFLING = 3
_MAX_SIZED = 4
"""So many of the widest sets are asked for their block size while several are possible."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """Something that may break, and the label intervals that are lost while it is broken. ``cables``: how many cables that takes
    down; explanations by fewer are preferred."""

    name: str
    intervals: tuple[Interval, ...]
    cables: int = 1


class SuspectTable:
    """Label -> suspects, as bit sets over the elementary intervals of labels (all that no suspect tells apart). FecError for none.

    >>> table = SuspectTable([Suspect(name="a-b", intervals=((0, 100),)), Suspect(name="b-c", intervals=((50, 100),))])
    >>> table.bit_of(70) in (table.masks[0] & table.masks[1], 0), table.labels_in(table.masks[1])
    (True, 50)
    """

    def __init__(self, suspects: Sequence[Suspect]) -> None:
        if not suspects:
            raise FecError("no suspects: give one for each cable that carries labels")
        self.suspects = tuple(suspects)
        edges = {0, LABELS} | {edge for one in suspects for interval in one.intervals for edge in interval}
        self._edges = np.array(sorted(edges), dtype=np.int64)
        if self._edges[0] != 0 or self._edges[-1] != LABELS:
            raise FecError(
                f"suspects: label intervals reach from {self._edges[0]} to {self._edges[-1]}; give 0 to {LABELS}"
            )
        self._interval_of = np.repeat(np.arange(len(edges) - 1, dtype=np.int32), np.diff(self._edges))
        self.masks = tuple(self._mask(one.intervals) for one in suspects)
        self._holding: dict[int, tuple[int, ...]] = {}

    def bit_of(self, label: int) -> int:
        """The elementary interval of a label, as a bit set of one."""
        return 1 << int(self._interval_of[label])

    def holding(self, bit: int) -> tuple[int, ...]:
        """Indices of the suspects that lose that elementary interval."""
        if bit not in self._holding:
            self._holding[bit] = tuple(i for i, mask in enumerate(self.masks) if mask & bit)
        return self._holding[bit]

    def intervals_in(self, mask: int) -> tuple[Interval, ...]:
        """A bit set as label intervals, adjacent ones merged."""
        found: list[Interval] = []
        for number, (start, stop) in enumerate(itertools.pairwise(self._edges.tolist())):
            if mask >> number & 1:
                joined = bool(found) and found[-1][1] == start
                found[-1:] = [(found[-1][0], stop)] if joined else [*found[-1:], (start, stop)]
        return tuple(found)

    def labels_in(self, mask: int) -> int:
        """How many labels a bit set stands for."""
        return sum(stop - start for start, stop in self.intervals_in(mask))

    def _mask(self, intervals: Sequence[Interval]) -> int:
        inside: NDArray[np.bool_] = np.zeros(len(self._edges) - 1, dtype=np.bool_)
        for start, stop in intervals:
            first, last = np.searchsorted(self._edges, (start, stop))
            inside[first:last] = True
        return sum(1 << int(number) for number in np.flatnonzero(inside))


@dataclass(frozen=True)
class Explanation:
    """Suspects (indices) that together lose the labels of ``mask``."""

    suspects: tuple[int, ...]
    mask: int


@dataclass(slots=True)
class _Evidence:
    """Since the first lost label that nothing settled explains."""

    lost: int
    arrived: int
    losses: int
    packets: int
    possible: list[Explanation]


@dataclass(slots=True)
class _Settled:
    """A certain explanation: what is lost, and all the sets of suspects that lose just that."""

    mask: int
    explanations: tuple[Explanation, ...]
    losses: int


class Diagnoser:
    """Fates in, explanations out. ``memory_s``: how long an unexplained loss is remembered.

    >>> table = SuspectTable([Suspect(name=n, intervals=(i,)) for n, i in (("a", (0, 9)), ("b", (5, 20)), ("c", (12, 20)))])
    >>> diagnoser = Diagnoser(table, memory_s=1.0)
    >>> for label, lost in ((7, True), (2, False), (6, True), (15, True)):
    ...     diagnoser.add(PacketFate(label, lost, 0.0))
    >>> diagnoser.names(), diagnoser.certain
    (('b',), True)
    """

    def __init__(self, table: SuspectTable, *, memory_s: float) -> None:
        self.table = table
        self._memory_s = memory_s
        self._settled: list[_Settled] = []
        self._open: _Evidence | None = None
        self._unexplained: deque[float] = deque(maxlen=_BAFFLING)
        self._newest_s = 0.0

    @property
    def certain(self) -> bool:
        """Whether one set of lost labels is left (none lost included)."""
        return self._open is None

    @property
    def baffled(self) -> bool:
        """Whether too many losses of late had no explanation."""
        return len(self._unexplained) == _BAFFLING and self._newest_s - self._unexplained[0] <= self._memory_s

    @property
    def dead(self) -> tuple[int, ...]:
        """Bit sets of labels, one of which is lost now: one where certain; the widest ones where several are possible."""
        settled = self._settled_mask
        if self._open is None or self._open.losses < _MIN_EVIDENCE:
            return (settled,)
        masks = {settled | one.mask for one in self._open.possible}
        return tuple(sorted(masks, key=lambda mask: (-self.table.labels_in(mask), mask))[:_MAX_SIZED])

    def names(self) -> tuple[str, ...]:
        """Suspects of the present explanations, each once: those that explain the same losses, and those still possible."""
        found = [i for one in self._settled for each in one.explanations for i in each.suspects]
        if self._open is not None and self._open.losses >= _MIN_EVIDENCE:
            found += [i for each in self._open.possible for i in each.suspects]
        return tuple(self.table.suspects[i].name for i in dict.fromkeys(found))

    def restart(self) -> None:
        """Forget what is not certain yet: some of what was taken for lost came after all. A settled failure that was none ends with
        the next label that arrives."""
        self._open = None
        self._unexplained.clear()

    def add(self, fate: PacketFate) -> None:
        """The fate of one more packet, in the order of sending."""
        bit = self.table.bit_of(fate.label)
        self._newest_s = max(self._newest_s, fate.sent_s)
        if self._open is not None:
            self._open.packets += 1
        if fate.lost:
            self._lose(bit)
        else:
            self._arrive(bit)
        if self._open is not None and not self._open.possible:
            self._give_up(bit if fate.lost else 0)
        self._settle()

    @property
    def _settled_mask(self) -> int:
        mask = 0
        for one in self._settled:
            mask |= one.mask
        return mask

    def _lose(self, bit: int) -> None:
        explained = [one for one in self._settled if one.mask & bit]
        if explained:
            for one in explained:
                one.losses += 1
            return
        if self._open is None:
            self._begin(bit)
            return
        known = self._open
        left = [one for one in known.possible if one.mask & bit]
        if not left and known.losses >= _WELL_EXPLAINED:  # another failure on top of this one
            self._settle(anyway=True)
            self._begin(bit)
            return
        known.lost |= bit
        known.losses += 1
        known.possible = left or self._explanations(known.lost, known.arrived)

    def _arrive(self, bit: int) -> None:
        for over in [one for one in self._settled if one.mask & bit]:
            self._settled.remove(over)
            if over.losses < _WELL_EXPLAINED:
                self._unexplained.append(self._newest_s)
        known = self._open
        if known is None:
            return
        if known.lost & bit:
            if known.losses < _WELL_EXPLAINED:
                self._unexplained.append(self._newest_s)
            self._open = None
            return
        if not known.arrived & bit:
            known.arrived |= bit
            left = [one for one in known.possible if not one.mask & bit]
            known.possible = left or self._explanations(known.lost, known.arrived)

    def _begin(self, bit: int) -> None:
        possible = [Explanation((i,), self.table.masks[i]) for i in self.table.holding(bit)]
        fewest = min((self.table.suspects[one.suspects[0]].cables for one in possible), default=0)
        cheapest = [one for one in possible if self.table.suspects[one.suspects[0]].cables == fewest]
        self._open = _Evidence(bit, 0, 1, 1, cheapest)

    def _give_up(self, bit: int) -> None:
        """Nothing explains what was lost since the evidence began. The last loss may be the first one of a failure."""
        self._unexplained.append(self._newest_s)
        self._open = None
        if bit:
            self._begin(bit)

    def _settle(self, *, anyway: bool = False) -> None:
        """Close the evidence where all that is possible loses the same labels; ``anyway``: by the widest that is possible."""
        known = self._open
        if known is None or not known.possible or (known.losses < _MIN_EVIDENCE and not anyway):
            return
        fresh = ~self._settled_mask  # labels that are lost already tell nothing of a further failure
        widest = (
            max(known.possible, key=lambda one: self.table.labels_in(one.mask & fresh)) if anyway else known.possible[0]
        )
        same = tuple(one for one in known.possible if one.mask & fresh == widest.mask & fresh)
        if anyway or len(same) == len(known.possible):
            self._settled.append(_Settled(widest.mask & fresh, same, known.losses))
            self._open = None

    def _explanations(self, lost: int, arrived: int) -> list[Explanation]:
        """All sets of fewest suspects that lose ``lost`` and nothing of ``arrived``; single cables before wider suspects."""
        suspects, masks = self.table.suspects, self.table.masks
        free = [i for i, mask in enumerate(masks) if not mask & arrived and mask & lost]
        cables = [i for i in free if suspects[i].cables == 1]
        for most, chosen in ((1, cables), (1, free), *((k, cables) for k in range(2, _MAX_AT_ONCE + 1))):
            found = self._covers(lost, chosen, most)
            if found:
                return found
        return []

    def _covers(self, lost: int, chosen: Sequence[int], most: int) -> list[Explanation]:
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
        return [Explanation(taken, mask) for taken, mask in found.items()]


@dataclass(frozen=True, kw_only=True)
class DiagnosisEvent:
    """What the sender believed from ``at_s`` on: ``names`` of what is broken (all that is possible where not ``certain``), the
    fraction of labels lost, the block size, and who spoke: "diagnosis", or "estimate" where labels explain nothing."""

    at_s: float
    names: tuple[str, ...]
    certain: bool
    lost_fraction: float
    block_size: int
    speaker: str


@dataclass
class DiagnosingControl:
    """N from what is broken, at once and without a margin, up and down; from the estimator where nothing explains the losses.

    ``size_of`` maps lost label intervals to N, None where no N helps (N then stays as it is). ``late_parity`` and ``largest`` are
    the estimator's. ``events``: what was believed, in order, for whoever wants to judge it.
    """

    diagnoser: Diagnoser
    size_of: Callable[[tuple[Interval, ...]], int | None]
    estimator: BlockSizeController
    events: list[DiagnosisEvent] = field(default_factory=list)
    late_parity: bool = True
    _sizes: dict[int, int | None] = field(default_factory=dict)
    _block_size: int = 0

    def __post_init__(self) -> None:
        self._base = self._block_size = self.estimator.block_size

    def prepare(self) -> None:
        """Reckon the block size of every single suspect now, so that none is in mid-stream."""
        for mask in self.diagnoser.table.masks:
            self._size(mask)

    @property
    def largest(self) -> int:
        return self.estimator.largest

    @property
    def loss(self) -> float:
        """The fraction of labels that is lost now, or the estimate where the estimator speaks."""
        if self.diagnoser.baffled:
            return self.estimator.loss
        return self.diagnoser.table.labels_in(self.diagnoser.dead[0]) / LABELS

    def block_size_at(self, begins_s: float) -> int:
        """N as it is now, whenever the block begins."""
        return self._block_size

    def learn(self, fates: Sequence[PacketFate], now_s: float) -> None:
        """One report's news, to both; the diagnosis has the last word where it explains what happened."""
        for fate in fates:
            self.diagnoser.add(fate)
        self.estimator.learn(fates, now_s)
        self._decide(now_s)

    def restart_estimate(self) -> None:
        """Losses that were reported were none."""
        self.diagnoser.restart()
        self.estimator.restart_estimate()

    def _decide(self, now_s: float) -> None:
        baffled = self.diagnoser.baffled
        if baffled:
            self._block_size = self.estimator.block_size
        else:
            sizes = [self._size(mask) for mask in self.diagnoser.dead]
            known = [size for size in sizes if size is not None]
            if known:
                self._block_size = min(self.largest, max(self._base, *known))
        event = DiagnosisEvent(
            at_s=now_s,
            names=() if baffled else self.diagnoser.names(),
            certain=not baffled and self.diagnoser.certain,
            lost_fraction=self.loss,
            block_size=self._block_size,
            speaker="estimate" if baffled else "diagnosis",
        )
        last = self.events[-1] if self.events else None
        if last is None or (event.names, event.certain, event.speaker) != (last.names, last.certain, last.speaker):
            self.events.append(event)

    def _size(self, mask: int) -> int | None:
        if mask not in self._sizes:
            self._sizes[mask] = self.size_of(self.diagnoser.table.intervals_in(mask)) if mask else self._base
        return self._sizes[mask]
