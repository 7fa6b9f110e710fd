"""The block size of a sender that diagnoses failures.

It follows from the failed links if labels explain the losses, and from the loss estimate otherwise.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fec.redundancy.adaptation import BlockSizeController
from fec.redundancy.block_size import Interval
from fec.redundancy.block_size_control import PacketReport
from fec.redundancy.diagnosis import Diagnoser
from fec.redundancy.labels import LABELS

# Number of packets on new paths that must be reported before the diagnosis is used again.
_FIRST_LOOK = 64


@dataclass(frozen=True, kw_only=True)
class DiagnosisEvent:
    """The sender's diagnosis from a moment on.

    Attributes:
        at_s: The moment, in seconds of stream time.
        names: The failed cables and nodes; all possible ones unless ``certain``.
        certain: Whether one explanation is left.
        lost_fraction: Fraction of the labels that are lost.
        block_size: N.
        speaker: "diagnosis", or "estimate" if labels do not explain the losses.
    """

    at_s: float
    names: tuple[str, ...]
    certain: bool
    lost_fraction: float
    block_size: int
    speaker: str


@dataclass(frozen=True, kw_only=True)
class NewPaths:
    """A change of the paths that labels take.

    Packets sent during the change used the old or the new paths. They neither suspect nor clear a
    link. After the change, the diagnosis is not used until enough packets on the new paths have
    been reported to show a failure.

    Attributes:
        from_s: From this stream time on (s), labels may take other paths.
        until_s: From this stream time on (s), labels take the new paths.
        diagnoser: The diagnoser of the new paths.
    """

    from_s: float
    until_s: float
    diagnoser: Diagnoser


@dataclass
class DiagnosingControl:
    """Chooses N by the failed links, or by the loss estimate if they do not explain the losses.

    N of a diagnosis is set at once and without a margin, up and down. It is at least the N that
    answers bursts, because bursts look like failures of all paths.

    Attributes:
        diagnoser: The diagnoser of the present paths.
        size_of: Maps lost label intervals to N, or to None if no N helps (N is then unchanged).
        estimator: Chooses N from the estimated loss. It also decides ``late_parity`` and
            ``largest``, and N during a change of paths.
        changes: Changes of the paths that labels take, in order of time.
        events: Changes of the diagnosis, in order of time; a record for the evaluation.
    """

    diagnoser: Diagnoser
    size_of: Callable[[tuple[Interval, ...]], int | None]
    estimator: BlockSizeController
    changes: Sequence[NewPaths] = ()
    events: list[DiagnosisEvent] = field(default_factory=list)
    _sizes: dict[tuple[Interval, ...], int | None] = field(default_factory=dict)
    _block_size: int = 0
    _changing: bool = False
    # Packets on new paths that are still missing before the diagnosis is used.
    _unseen: int = 0
    # N of the last certain diagnosis.
    _explained: int = 0

    def __post_init__(self) -> None:
        self._base = self.estimator.block_size
        self._block_size = self._base
        self._explained = self._base
        self._expected = deque(self.changes)

    def prepare(self) -> None:
        """Compute the block size of every single candidate, so that none is computed later."""
        for diagnoser in (self.diagnoser, *(change.diagnoser for change in self.changes)):
            for mask in diagnoser.table.masks:
                self._size(diagnoser.table.intervals_in(mask))

    @property
    def largest(self) -> int:
        """The largest N that is ever chosen."""
        return self.estimator.largest

    @property
    def late_parity(self) -> bool:
        """True if the sender sends more parity for blocks that lack packets."""
        return self.estimator.late_parity

    @property
    def loss(self) -> float:
        """The fraction of labels that are lost now, or the estimate if that decides N."""
        if self._estimating:
            return self.estimator.loss
        return self.diagnoser.table.labels_in(self.diagnoser.possible_losses[0]) / LABELS

    def block_size_at(self, begins_s: float) -> int:
        """Return the present N, whenever the block begins."""
        return self._block_size

    def on_packet_reports(
        self, reports: Sequence[PacketReport], now_s: float, round_trip_s: float = 0.0
    ) -> None:
        """Process one loss report, and choose N again.

        Args:
            reports: The packets in the order in which they were sent.
            now_s: Present stream time.
            round_trip_s: Round trip of the newest packet that arrived.
        """
        for report in reports:
            while self._expected and report.sent_s >= self._expected[0].until_s:
                self.diagnoser = self._expected.popleft().diagnoser
                self._unseen = _FIRST_LOOK
            self._changing = bool(self._expected) and report.sent_s >= self._expected[0].from_s
            if not self._changing:
                self.diagnoser.add(report)
                if self._unseen > 0:
                    self._unseen -= 1
        self.estimator.on_packet_reports(reports, now_s, round_trip_s)
        self._decide(now_s)

    def restart_estimate(self) -> None:
        """Forget what is not certain, because packets reported as lost were only overtaken."""
        self.diagnoser.restart()
        self.estimator.restart_estimate()

    @property
    def _estimating(self) -> bool:
        return self._changing or self._unseen > 0 or self.diagnoser.unexplained

    def _decide(self, now_s: float) -> None:
        estimating = self._estimating
        certain = self.diagnoser.certain
        congested = not self.late_parity
        if congested and (estimating or not certain):
            # Failures that were certain before the congestion are still answered.
            self._block_size = max(self.estimator.block_size, self._explained)
        elif estimating:
            self._block_size = self.estimator.block_size
        else:
            self._follow_diagnosis(certain=certain)
        event = DiagnosisEvent(
            at_s=now_s,
            names=() if estimating else self.diagnoser.names(),
            certain=not estimating and certain,
            lost_fraction=self.loss,
            block_size=self._block_size,
            speaker="estimate" if estimating else "diagnosis",
        )
        if not self.events or _belief(event) != _belief(self.events[-1]):
            self.events.append(event)

    def _follow_diagnosis(self, *, certain: bool) -> None:
        table = self.diagnoser.table
        sizes = []
        for mask in self.diagnoser.possible_losses:
            size = self._size(table.intervals_in(mask))
            if size is not None:
                sizes.append(size)
        if not sizes:
            return
        required = max(self._base, self.estimator.of_bursts, *sizes)
        self._block_size = min(self.largest, required)
        if certain:
            self._explained = self._block_size

    def _size(self, lost: tuple[Interval, ...]) -> int | None:
        if lost not in self._sizes:
            self._sizes[lost] = self.size_of(lost) if lost else self._base
        return self._sizes[lost]


def _belief(event: DiagnosisEvent) -> tuple[tuple[str, ...], bool, str]:
    """Return the part of an event whose change is recorded."""
    return event.names, event.certain, event.speaker
