"""Estimates the loss from the packets that were lost, and chooses the block size N by it.

N rises with the next report after the loss has risen, and falls after a hold time. The estimate
restarts when the loss changes, so that after a failure only packets sent since then count.
"""

import bisect
import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError
from fec.redundancy.block_size_control import MAX_BLOCK, PacketReport
from fec.redundancy.congestion import CongestionBreaker
from fec.redundancy.loss_bursts import SHORT_GAP, BurstChain, LossBursts

# Largest number of packets on which an estimate rests.
MAX_MEMORY = 2048
# Number of packets after a change in which the estimate still becomes more precise. For these
# packets, N follows the estimate down without a hold time.
CONVERGING = 1024

# Shares of stratified labels that differ by less are not distinguished: the share of a window
# deviates that much from the exact one.
_MIN_GAP = 0.02
# Log likelihood ratios from which a change of a stratified share is accepted: after no loss at
# all, and between two losses. Stratified labels vary less than random ones. With 25 random
# placements of 1 to 8 intervals each, shares from 0.06 to 0.7 and 3,000 packets, the second value
# gave false alarms only with eight intervals (in one run of ten).
_MIN_RATIO_AFTER_NONE = 7.0
_MIN_RATIO_BETWEEN = 10.0
# The same for independent losses. A change at one given position is wrong with a probability of
# e^-12, and there are about 1,000 positions.
_MIN_RATIO_RANDOM = 12.0
# Number of consecutive losses that form an outage. The estimate leaves outages out, because no
# block size repairs them.
_OUTAGE = 128


@dataclass(frozen=True, kw_only=True)
class AdaptationParameters:
    """Parameters of a ``BlockSizeController``.

    Attributes:
        base: N in steady state.
        largest: Largest N.
        hold_s: How long a lower loss must last before N falls, in seconds.
        report_timeout_s: The hold time begins again if no report arrives for this time.
        deterministic: Losses follow from stratified labels, so that few packets show a change.
            Otherwise losses are treated as independent random ones.
        apart_s: Largest difference of path delays. Packets on slower paths are reported this much
            later, and the controller waits for them.
        return_apart_s: Largest difference of the delays of return paths, by which the round trips
            of reports may differ.
        bursts_pass: The playback buffer is long enough for late parity after a burst of losses, so
            that N need not be large enough for bursts.
        report_interval_s: Time between reports; the congestion breaker judges three of them.
    """

    base: int
    largest: int = MAX_BLOCK
    hold_s: float = 2.0
    report_timeout_s: float = 1.0
    deterministic: bool = True
    apart_s: float = 0.0
    return_apart_s: float = 0.0
    bursts_pass: bool = False
    report_interval_s: float = 0.1

    def __post_init__(self) -> None:
        if not 1 <= self.base <= self.largest <= MAX_BLOCK:
            raise FecError(
                f"block sizes: base {self.base}, largest {self.largest};"
                " give 1 <= base <= largest <= 255"
            )
        if not (self.hold_s >= 0 and self.report_timeout_s > 0):
            raise FecError(
                f"hold {self.hold_s} s, report timeout {self.report_timeout_s} s:"
                " 0 or more, above 0"
            )


class LossEstimator:
    """Estimates the loss since its last change, from packets in the order of sending.

    A change is the position that best splits the remembered packets into two losses (the largest
    likelihood ratio), if the two differ by more than stratified labels (``deterministic``) or
    chance can explain. A call takes time proportional to the number of packets remembered.

    Attributes:
        fell: Whether the change that the last ``add`` found was a fall.

    >>> estimator = LossEstimator(deterministic=True)
    >>> estimator.add([False] * 100, [0.01 * i for i in range(100)])
    >>> estimator.add([True, False, False, False] * 5, [1 + 0.01 * i for i in range(20)])
    1.0
    >>> estimator.packets, round(estimator.loss, 3)
    (20, 0.225)
    """

    def __init__(self, *, deterministic: bool) -> None:
        self._deterministic = deterministic
        self._lost: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._sent_s: NDArray[np.float64] = np.empty(0, dtype=np.float64)
        self._rose = False
        self.fell = False

    @property
    def packets(self) -> int:
        """Number of packets on which the estimate rests."""
        return len(self._lost)

    @property
    def sent_pps(self) -> float:
        """Rate at which these packets were sent (packets per second)."""
        if len(self._sent_s) <= 1:
            return 0.0
        duration_s = max(1e-9, float(self._sent_s[-1] - self._sent_s[0]))
        return (len(self._sent_s) - 1) / duration_s

    @property
    def loss(self) -> float:
        """Fraction lost since the last change; 0 without packets."""
        if not len(self._lost):
            return 0.0
        lost = float(self._lost.sum())
        if self._rose:
            # The window begins with the first loss after the change. It is too short by half the
            # distance between two losses.
            lost = max(0.0, lost - 0.5)
        return lost / len(self._lost)

    @property
    def margin(self) -> float:
        """The amount by which the loss may exceed the estimate, as a fraction.

        It is one packet of those on which the estimate rests with stratified labels, and half a
        standard deviation with random losses.
        """
        count = len(self._lost)
        if not count:
            return 1.0
        if self._deterministic:
            return 1 / count
        loss = max(self.loss, 1 / count)
        return float(0.5 * np.sqrt(loss * max(0.0, 1 - loss) / count))

    def restart(self) -> None:
        """Forget all packets, because what was added turned out to be wrong."""
        self._lost = self._lost[:0]
        self._sent_s = self._sent_s[:0]
        self._rose = False

    def add(self, lost: Sequence[bool], sent_s: Sequence[float]) -> float | None:
        """Add packets in the order of sending.

        Args:
            lost: For each packet whether it was lost.
            sent_s: When each was sent, in seconds.

        Returns:
            The send time of the first packet after a change of the loss, or None without a change.
        """
        all_lost = np.concatenate((self._lost, np.asarray(lost, dtype=np.int64)))
        all_sent_s = np.concatenate((self._sent_s, np.asarray(sent_s, dtype=np.float64)))
        self._lost = all_lost[-MAX_MEMORY:]
        self._sent_s = all_sent_s[-MAX_MEMORY:]
        changed_s: float | None = None
        while (split := self._best_split()) is not None:
            before = self._lost[:split].mean()
            after = self._lost[split:].mean()
            self.fell = bool(after < before)
            self._rose = bool(after > before)
            self._lost = self._lost[split:]
            self._sent_s = self._sent_s[split:]
            changed_s = float(self._sent_s[0])
        return changed_s

    def _best_split(self) -> int | None:
        """Return the number of packets before the change, or None without a change."""
        count = len(self._lost)
        total = int(self._lost.sum())
        if total in (0, count):
            return None
        sent_before = np.arange(1, count)
        lost_before = np.cumsum(self._lost)[:-1]
        sent_after = count - sent_before
        lost_after = total - lost_before
        gap = np.abs(lost_after / sent_after - lost_before / sent_before)
        ratio = (
            _log_likelihood(lost_before, sent_before)
            + _log_likelihood(lost_after, sent_after)
            - _log_likelihood(np.array(total), np.array(count))
        )
        if self._deterministic:
            min_ratio = np.where(lost_before == 0, _MIN_RATIO_AFTER_NONE, _MIN_RATIO_BETWEEN)
            accepted = (ratio > min_ratio) & (gap > _MIN_GAP)
        else:
            accepted = ratio > _MIN_RATIO_RANDOM
        if not accepted.any():
            return None
        return int(sent_before[np.argmax(np.where(accepted, ratio, -1.0))])


def _log_likelihood(lost: NDArray[np.int64], sent: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the largest log likelihood of ``lost`` losses among ``sent`` packets."""
    arrived = sent - lost
    with np.errstate(divide="ignore", invalid="ignore"):
        lost_terms = np.where(lost > 0, lost * np.log(lost / sent), 0.0)
        arrived_terms = np.where(arrived > 0, arrived * np.log(arrived / sent), 0.0)
    return np.asarray(lost_terms + arrived_terms, dtype=np.float64)


class BlockSizeController:
    """Chooses N, within [base, largest], from an estimate of the loss.

    A loss that has risen is answered at once. After the loss has fallen, N does not fall below its
    value at that moment until ``hold_s`` after the first packet with the lower loss. If the loss
    rises during this time, N first follows from few packets, and is corrected later.

    If the loss stays the same and only the estimate becomes more precise, N falls with the estimate
    plus its margin (against oscillation) while the estimate converges. After that, N falls when the
    estimate has required less for ``hold_s``. N is constant while no report arrives.

    Losses while a queue has built up, at a rate far above that of TCP, do not raise N. N returns
    to its value before the congestion (``CongestionBreaker``), and no late parity is sent, until
    the congestion has ended.

    Attributes:
        of_bursts: The N that the present bursts of losses require, or 0 if there are none. It may
            exceed the ``largest`` of the parameters. N is at least this while there are bursts.
    """

    def __init__(
        self,
        parameters: AdaptationParameters,
        policy: Callable[[float], int],
        of_bursts: Callable[[BurstChain], int] | None = None,
    ) -> None:
        """Start with the base N.

        Args:
            parameters: The parameters.
            policy: Maps a loss to N.
            of_bursts: Maps a channel with bursts to the N that answers them. None if bursts need
                no separate answer.
        """
        self._parameters = parameters
        self._policy = policy
        self._size_of_bursts = of_bursts
        self.of_bursts = 0
        self._estimator = LossEstimator(deterministic=parameters.deterministic)
        self._hold_until_s = 0.0
        # N at the beginning of the hold time; N does not fall below it.
        self._held_size = parameters.base
        # When the estimate last called for the present N.
        self._needed_s = 0.0
        self._last_report_s: float | None = None
        # N by the estimate, without regard to congestion.
        self._answer = parameters.base
        # Packets reported before packets that were sent earlier.
        self._early: list[PacketReport] = []
        self._breaker = CongestionBreaker(
            interval_s=parameters.report_interval_s,
            spread_s=parameters.apart_s + parameters.return_apart_s,
            hold_s=parameters.hold_s,
        )
        # N before the congestion.
        self._calm_size = parameters.base
        self._bursts = LossBursts() if of_bursts is None else LossBursts(SHORT_GAP)

    @property
    def largest(self) -> int:
        """The largest N that is chosen at present."""
        return max(self._parameters.largest, self.of_bursts)

    @property
    def loss(self) -> float:
        """Present estimate of the loss, a fraction."""
        return self._estimator.loss

    @property
    def block_size(self) -> int:
        """The present N."""
        return min(self._answer, self._calm_size) if self._breaker.open else self._answer

    @property
    def late_parity(self) -> bool:
        """True unless the losses seem to come from a queue that the stream itself fills."""
        return not self._breaker.open

    def block_size_at(self, begins_s: float) -> int:
        """Return the present N, whenever the block begins."""
        return self.block_size

    def on_packet_reports(
        self, reports: Sequence[PacketReport], now_s: float, round_trip_s: float = 0.0
    ) -> None:
        """Process one loss report; outages are ignored, because no block size answers them.

        Args:
            reports: The packets in the order in which they were sent.
            now_s: Present stream time.
            round_trip_s: Round trip of the newest packet that arrived.
        """
        self._estimate(reports, now_s)
        self._breaker.add(
            now_s,
            round_trip_s=round_trip_s,
            loss=self._estimator.loss,
            sent_pps=self._estimator.sent_pps,
            raised=self._answer > self._parameters.base,
        )
        if self._breaker.calm and not self._breaker.open:
            self._calm_size = self._answer

    def _estimate(self, reports: Sequence[PacketReport], now_s: float) -> None:
        if self._parameters.apart_s:
            reports = self._in_order(reports)
        losses = [report.lost for report in reports]
        if self._parameters.bursts_pass or self._size_of_bursts is not None:
            self._bursts.add(losses)
        if self._parameters.bursts_pass and self._bursts.passing:
            self._estimator.restart()
            self._answer = self._parameters.base
            return
        lost, sent_s = _without_outages(losses, [report.sent_s for report in reports])
        if self._size_of_bursts is not None and self._answers_bursts(self._size_of_bursts, now_s):
            self._estimator.add(lost, sent_s)
        else:
            self.add(lost, sent_s, now_s)

    def _answers_bursts(self, size_of: Callable[[BurstChain], int], now_s: float) -> bool:
        """Update N for bursts, and return whether the present losses are bursts."""
        chain = self._bursts.chain
        if chain is None:
            self.of_bursts = 0
            return False
        self.of_bursts = max(self._parameters.base, size_of(chain))
        if not self._bursts.under_way:
            return False
        self._last_report_s = now_s
        hold_over = now_s - self._needed_s >= self._parameters.hold_s
        if self.of_bursts >= self._answer or hold_over:
            self._answer = self.of_bursts
            self._needed_s = now_s
        return True

    def restart_estimate(self) -> None:
        """Forget the estimate, because packets reported as lost were only overtaken.

        N is unchanged until the next estimate.
        """
        self._early.clear()
        self._estimator.restart()

    def _in_order(self, reports: Sequence[PacketReport]) -> list[PacketReport]:
        """Add packets to those that wait, and return the ones whose order is final, sorted.

        Packets on long paths are reported later than those on short paths. A packet therefore waits
        until no packet that was sent earlier can still be reported.
        """
        reported = sorted([*self._early, *reports], key=_sent_s)
        until_s = reported[-1].sent_s - self._parameters.apart_s if reported else 0.0
        ready = bisect.bisect_right(reported, until_s, key=_sent_s)
        self._early = reported[ready:]
        return reported[:ready]

    def add(self, lost: Sequence[bool], sent_s: Sequence[float], now_s: float) -> bool:
        """Process the packets of one report, and return whether N rose.

        Args:
            lost: For each packet, in the order of sending, whether it was lost.
            sent_s: When each was sent.
            now_s: Present time.
        """
        if (
            self._last_report_s is not None
            and now_s - self._last_report_s > self._parameters.report_timeout_s
        ):
            self._hold_until_s = now_s + self._parameters.hold_s
            self._held_size = self._answer
        self._last_report_s = now_s
        if not len(lost):
            return False
        changed_s = self._estimator.add(lost, sent_s)
        if changed_s is not None and self._estimator.fell:
            self._hold_until_s = max(self._hold_until_s, changed_s + self._parameters.hold_s)
            self._held_size = self._answer
        before = self._answer
        # An estimate that has converged has to rise by its margin before N follows. Otherwise
        # every fluctuation would raise N a little further.
        slack = self._estimator.margin if self._estimator.packets > CONVERGING else 0.0
        required = self._bounded(max(0.0, self._estimator.loss - slack))
        if required >= before:
            self._needed_s = now_s
            self._answer = required
        else:
            self._lower(now_s)
        return self._answer > before

    def _lower(self, now_s: float) -> None:
        """Lower N to the estimate plus its margin, unless the hold time forbids it."""
        cautious = self._bounded(self._estimator.loss + self._estimator.margin)
        if cautious >= self._answer:
            self._needed_s = now_s
        converging = self._estimator.packets <= CONVERGING
        if now_s < self._hold_until_s:
            cautious = max(cautious, self._held_size)
        if converging or now_s - self._needed_s >= self._parameters.hold_s:
            self._answer = min(self._answer, cautious)

    def _bounded(self, loss: float) -> int:
        """Return N for a loss, within the limits."""
        # No block size answers a loss of everything, so the policy is never asked for it.
        required = max(self._parameters.base, self._policy(min(loss, 0.99)))
        return max(self.of_bursts, min(self._parameters.largest, required))


_sent_s = operator.attrgetter("sent_s")


def _without_outages(lost: list[bool], sent_s: list[float]) -> tuple[list[bool], list[float]]:
    """Return the losses and send times without runs of ``_OUTAGE`` or more losses."""
    if sum(lost) < _OUTAGE:
        return lost, sent_s
    retained: list[int] = []
    for is_lost, run in itertools.groupby(range(len(lost)), key=lost.__getitem__):
        positions = list(run)
        if not is_lost or len(positions) < _OUTAGE:
            retained += positions
    return [lost[i] for i in retained], [sent_s[i] for i in retained]
