"""The block size of a sender that diagnoses: from what is broken where labels explain the losses, else from the
estimator."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fec.redundancy.adaptation import BlockSizeController
from fec.redundancy.block_size import Interval
from fec.redundancy.block_size_control import PacketReport
from fec.redundancy.diagnosis import Diagnoser
from fec.redundancy.labels import LABELS

_FIRST_LOOK = 64
"""Packets under new paths before the diagnosis speaks again."""


@dataclass(frozen=True, kw_only=True)
class DiagnosisEvent:
    """What the sender believed from ``at_s`` on: ``names`` of what is broken (all that is possible where not
    ``certain``), the fraction of labels lost, the block size, and who spoke: "diagnosis", or "estimate" where labels
    explain nothing."""

    at_s: float
    names: tuple[str, ...]
    certain: bool
    lost_fraction: float
    block_size: int
    speaker: str


@dataclass(frozen=True, kw_only=True)
class NewPaths:
    """From ``from_s`` on labels may take other paths, from ``until_s`` on they take those of ``diagnoser`` (seconds of
    stream time).

    What was sent in between went by the old or the new paths: nobody is suspected or cleared by it, nor believed until
    so much was seen of the new ones that a failure would show.
    """

    from_s: float
    until_s: float
    diagnoser: Diagnoser


@dataclass
class DiagnosingControl:
    """N from what is broken, at once and without a margin, up and down; from the estimator where nothing explains the
    losses; that of bursts at least, which look like failures of all paths.

    ``size_of`` maps lost label intervals to N, None where no N helps (N then stays as it is). ``late_parity`` and
    ``largest`` are the estimator's. ``changes``: of the paths that labels take, in order; the estimator speaks until
    one is over. ``events``: what was believed, in order, for whoever wants to judge it.
    """

    diagnoser: Diagnoser
    size_of: Callable[[tuple[Interval, ...]], int | None]
    estimator: BlockSizeController
    changes: Sequence[NewPaths] = ()
    events: list[DiagnosisEvent] = field(default_factory=list)
    _sizes: dict[tuple[Interval, ...], int | None] = field(default_factory=dict)
    _block_size: int = 0
    _changing: bool = False
    _unseen: int = 0
    _explained: int = 0

    def __post_init__(self) -> None:
        self._base = self._block_size = self._explained = self.estimator.block_size
        self._expected = deque(self.changes)

    def prepare(self) -> None:
        """Reckon the block size of every single suspect now, so that none is in mid-stream."""
        for diagnoser in (self.diagnoser, *(change.diagnoser for change in self.changes)):
            for mask in diagnoser.table.masks:
                self._size(diagnoser.table.intervals_in(mask))

    @property
    def largest(self) -> int:
        return self.estimator.largest

    @property
    def late_parity(self) -> bool:
        return self.estimator.late_parity

    @property
    def loss(self) -> float:
        """The fraction of labels that is lost now, or the estimate where the estimator speaks."""
        if self._estimating:
            return self.estimator.loss
        return self.diagnoser.table.labels_in(self.diagnoser.possible_losses[0]) / LABELS

    def block_size_at(self, begins_s: float) -> int:
        """N as it is now, whenever the block begins."""
        return self._block_size

    def on_packet_reports(
        self, reports: Sequence[PacketReport], now_s: float, round_trip_s: float = 0.0
    ) -> None:
        """One report's news, to both; the diagnosis has the last word where it explains what happened."""
        for report in reports:
            while self._expected and report.sent_s >= self._expected[0].until_s:
                self.diagnoser, self._unseen = self._expected.popleft().diagnoser, _FIRST_LOOK
            self._changing = bool(self._expected) and report.sent_s >= self._expected[0].from_s
            if not self._changing:
                self.diagnoser.add(report)
                self._unseen -= self._unseen > 0
        self.estimator.on_packet_reports(reports, now_s, round_trip_s)
        self._decide(now_s)

    def restart_estimate(self) -> None:
        """Losses that were reported were none."""
        self.diagnoser.restart()
        self.estimator.restart_estimate()

    @property
    def _estimating(self) -> bool:
        return self._changing or self._unseen > 0 or self.diagnoser.unexplained

    def _decide(self, now_s: float) -> None:
        estimating, certain = self._estimating, self.diagnoser.certain
        if not self.late_parity and (
            estimating or not certain
        ):  # congestion: what failed before is still answered
            self._block_size = max(self.estimator.block_size, self._explained)
        elif estimating:
            self._block_size = self.estimator.block_size
        else:
            table = self.diagnoser.table
            sizes = [
                self._size(table.intervals_in(mask)) for mask in self.diagnoser.possible_losses
            ]
            known = [size for size in sizes if size is not None]
            if known:
                self._block_size = min(
                    self.largest, max(self._base, self.estimator.of_bursts, *known)
                )
                self._explained = self._block_size if certain else self._explained
        event = DiagnosisEvent(
            at_s=now_s,
            names=() if estimating else self.diagnoser.names(),
            certain=not estimating and certain,
            lost_fraction=self.loss,
            block_size=self._block_size,
            speaker="estimate" if estimating else "diagnosis",
        )
        last = self.events[-1] if self.events else None
        if last is None or (event.names, event.certain, event.speaker) != (
            last.names,
            last.certain,
            last.speaker,
        ):
            self.events.append(event)

    def _size(self, lost: tuple[Interval, ...]) -> int | None:
        if lost not in self._sizes:
            self._sizes[lost] = self.size_of(lost) if lost else self._base
        return self._sizes[lost]
