"""From the fates of packets to a loss estimate and a block size: up within one report, down after a hold.

The estimate restarts where the loss changes, so that after a failure only packets sent since then count.
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

MAX_MEMORY = 2048
"""Packets that an estimate rests on at most."""
CONVERGING = 1024
"""Packets after a change during which an estimate is still told more exactly: N follows it down without a hold."""

_MIN_GAP = 0.02
"""Stratified shares nearer than this are not distinguished: the windows in between err by as much."""
_SURE_OF_FIRST, _SURE_OF_OTHER = 7.0, 10.0
"""Log likelihood ratios at which a change of a stratified share is believed: after no loss at all, and between two
losses. Stratified labels vary less than chance does; over 25 random placements of 1 to 8 intervals each, shares from
0.06 to 0.7 and 3,000 packets, the second gave no false alarm but with eight intervals (one in ten runs)."""
_OUTAGE = 128
"""So many packets lost one after another are an outage, which no block size answers: they do not count as a loss to
code for."""
_SURE = 12.0
"""Log likelihood ratio at which chance no longer explains a change of a random loss (e^-12, for some 10^3 places)."""


@dataclass(frozen=True, kw_only=True)
class AdaptationParameters:
    """``base``: block size at rest; ``largest``: cap; ``hold_s``: how long a lower loss must last before N falls.

    ``report_timeout_s``: after a silence this long the hold begins again. ``deterministic``: losses follow from labels
    (stratified), so that a few packets tell a change; otherwise they are judged as independent random ones.
    ``apart_s``: the news of packets sent so much later may come before that of others, which is waited for.
    ``return_apart_s``: reports over different return paths may take times that differ by this.
    ``bursts_pass``: blocks can wait for parity that is sent when a burst of losses is over, which N need not answer.
    ``report_interval_s``: of which a congestion breaker counts three.
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
                f"block sizes: base {self.base}, largest {self.largest}; give 1 <= base <= largest <= 255"
            )
        if not (self.hold_s >= 0 and self.report_timeout_s > 0):
            raise FecError(
                f"hold {self.hold_s} s, report timeout {self.report_timeout_s} s: 0 or more, above 0"
            )


class LossEstimator:
    """Loss since the last change, from packets whose fate is known, in the order in which they were sent.

    A change is the place that splits the remembered packets best into two losses (largest likelihood ratio), where the
    two differ by more than stratified labels (``deterministic``) or chance can explain. Cost: O(packets remembered) a
    call.

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
        """Whether the change that the last ``add`` found was a fall."""

    @property
    def packets(self) -> int:
        """How many packets the estimate rests on."""
        return len(self._lost)

    @property
    def sent_pps(self) -> float:
        """Rate of those packets."""
        return (
            (len(self._sent_s) - 1) / max(1e-9, self._sent_s[-1] - self._sent_s[0])
            if len(self._sent_s) > 1
            else 0.0
        )

    @property
    def loss(self) -> float:
        """Fraction lost since the last change (0 where nothing is known)."""
        if not len(self._lost):
            return 0.0
        lost = float(self._lost.sum())
        # A window that begins with the first loss after a change is half a gap between losses too short.
        return max(0.0, lost - 0.5 * self._rose) / len(self._lost)

    @property
    def margin(self) -> float:
        """How far above the estimate the loss may well be: a packet in stratified order, half a deviation at random."""
        count = len(self._lost)
        if not count:
            return 1.0
        loss = max(self.loss, 1 / count)
        return (
            1 / count
            if self._deterministic
            else float(0.5 * np.sqrt(loss * max(0.0, 1 - loss) / count))
        )

    def restart(self) -> None:
        """Forget everything: what was added turned out wrong."""
        self._lost, self._sent_s, self._rose = self._lost[:0], self._sent_s[:0], False

    def add(self, lost: Sequence[bool], sent_s: Sequence[float]) -> float | None:
        """Fates and send times of more packets; the send time of the first packet after a change, or None."""
        self._lost = np.concatenate((self._lost, np.asarray(lost, dtype=np.int64)))[-MAX_MEMORY:]
        self._sent_s = np.concatenate((self._sent_s, np.asarray(sent_s, dtype=np.float64)))[
            -MAX_MEMORY:
        ]
        changed_s: float | None = None
        while (split := self._best_split()) is not None:
            before, after = self._lost[:split].mean(), self._lost[split:].mean()
            self.fell, self._rose = bool(after < before), bool(after > before)
            self._lost, self._sent_s = self._lost[split:], self._sent_s[split:]
            changed_s = float(self._sent_s[0])
        return changed_s

    def _best_split(self) -> int | None:
        """How many packets lie before the change, or None where there is none."""
        count = len(self._lost)
        total = int(self._lost.sum())
        if total in (0, count):
            return None
        n1 = np.arange(1, count)
        k1 = np.cumsum(self._lost)[:-1]
        n2, k2 = count - n1, total - k1
        gap = np.abs(k2 / n2 - k1 / n1)
        ratio = (
            _log_likelihood(k1, n1)
            + _log_likelihood(k2, n2)
            - _log_likelihood(np.array(total), np.array(count))
        )
        if self._deterministic:
            found = (ratio > np.where(k1 == 0, _SURE_OF_FIRST, _SURE_OF_OTHER)) & (gap > _MIN_GAP)
        else:
            found = ratio > _SURE
        return int(n1[np.argmax(np.where(found, ratio, -1.0))]) if found.any() else None


def _log_likelihood(lost: NDArray[np.int64], sent: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of ``lost`` among ``sent`` packets at the loss that explains them best."""
    retained = sent - lost
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(lost > 0, lost * np.log(lost / sent), 0.0) + np.where(
            retained > 0, retained * np.log(retained / sent), 0.0
        )
    return np.asarray(terms, dtype=np.float64)


class BlockSizeController:
    """Holds N. ``policy`` maps a loss to a block size; N stays within [base, largest].

    A loss that rose is answered at once. After a loss that fell, N stays at what it was then, at least, until
    ``hold_s`` after the first packet of lower loss: what another rise calls for at first, from a few packets, is
    corrected meanwhile. Where the loss is only told more exactly, N follows the estimate (with its margin, against
    flapping) down while it converges, later once it has called for less throughout ``hold_s``. N is kept while no
    report comes. Losses while a queue stands, of far more packets than TCP would send, raise nothing: N goes back to
    what it was before (``CongestionBreaker``), and late parity ends, until that is over.

    ``of_bursts``: the N that stands the bursts of a chain, which may be above ``largest``; it answers losses that come
    in bursts, unless those pass, and N is that at least while something else fails besides.
    """

    def __init__(
        self,
        parameters: AdaptationParameters,
        policy: Callable[[float], int],
        of_bursts: Callable[[BurstChain], int] | None = None,
    ) -> None:
        self._parameters = parameters
        self._policy, self._size_of_bursts = policy, of_bursts
        self.of_bursts = 0
        """N that answers the bursts that are known now; 0: none are."""
        self._estimator = LossEstimator(deterministic=parameters.deterministic)
        self._hold_until_s, self._in_use = 0.0, parameters.base
        self._needed_s = 0.0
        self._last_report_s: float | None = None
        self._answer = parameters.base
        self._early: list[PacketReport] = []
        self._breaker = CongestionBreaker(
            interval_s=parameters.report_interval_s,
            spread_s=parameters.apart_s + parameters.return_apart_s,
            hold_s=parameters.hold_s,
        )
        self._calm = parameters.base
        self._bursts = LossBursts() if of_bursts is None else LossBursts(SHORT_GAP)

    @property
    def largest(self) -> int:
        return max(self._parameters.largest, self.of_bursts)

    @property
    def loss(self) -> float:
        """Present estimate of the loss, a fraction."""
        return self._estimator.loss

    @property
    def block_size(self) -> int:
        return min(self._answer, self._calm) if self._breaker.open else self._answer

    @property
    def late_parity(self) -> bool:
        """Not while what is lost is taken for losses of a queue that the stream itself fills."""
        return not self._breaker.open

    def block_size_at(self, begins_s: float) -> int:
        """N as it is now, whenever the block begins."""
        return self.block_size

    def on_packet_reports(
        self, reports: Sequence[PacketReport], now_s: float, round_trip_s: float = 0.0
    ) -> None:
        """One report's news in the order of sending, but for outages, which no block size answers."""
        self._estimate(reports, now_s)
        estimator, breaker = self._estimator, self._breaker
        breaker.add(
            now_s,
            round_trip_s=round_trip_s,
            loss=estimator.loss,
            sent_pps=estimator.sent_pps,
            raised=self._answer > self._parameters.base,
        )
        if breaker.calm and not breaker.open:
            self._calm = self._answer

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
        known = _without_outages(losses, [report.sent_s for report in reports])
        if self._size_of_bursts is not None and self._answers_bursts(self._size_of_bursts, now_s):
            self._estimator.add(*known)
        else:
            self.add(*known, now_s)

    def _answers_bursts(self, size_of: Callable[[BurstChain], int], now_s: float) -> bool:
        chain, hold_s = self._bursts.chain, self._parameters.hold_s
        self.of_bursts = 0 if chain is None else max(self._parameters.base, size_of(chain))
        if chain is None or not self._bursts.under_way:
            return False
        self._last_report_s = now_s
        if self.of_bursts >= self._answer or now_s - self._needed_s >= hold_s:
            self._answer, self._needed_s = self.of_bursts, now_s
        return True

    def restart_estimate(self) -> None:
        """Losses that were reported were none; N is kept until something else is known."""
        self._early.clear()
        self._estimator.restart()

    def _in_order(self, reports: Sequence[PacketReport]) -> list[PacketReport]:
        """What is known up to a moment before which all is known: the news of long paths comes later."""
        known = sorted([*self._early, *reports], key=_sent_s)
        until_s = known[-1].sent_s - self._parameters.apart_s if known else 0.0
        ready = bisect.bisect_right(known, until_s, key=_sent_s)
        self._early = known[ready:]
        return known[:ready]

    def add(self, lost: Sequence[bool], sent_s: Sequence[float], now_s: float) -> bool:
        """One report's news in the order of sending; True where N rose."""
        if (
            self._last_report_s is not None
            and now_s - self._last_report_s > self._parameters.report_timeout_s
        ):
            self._hold_until_s, self._in_use = now_s + self._parameters.hold_s, self._answer
        self._last_report_s = now_s
        if not len(lost):
            return False
        changed_s = self._estimator.add(lost, sent_s)
        if changed_s is not None and self._estimator.fell:
            self._hold_until_s = max(self._hold_until_s, changed_s + self._parameters.hold_s)
            self._in_use = self._answer
        before = self._answer
        # A settled estimate has to move by its margin before N follows: without that every excursion would ratchet N
        # up.
        slack = self._estimator.margin if self._estimator.packets > CONVERGING else 0.0
        required = self._bounded(max(0.0, self._estimator.loss - slack))
        if required >= before:
            self._needed_s = now_s
            self._answer = required
        else:
            self._lower(now_s)
        return self._answer > before

    def _lower(self, now_s: float) -> None:
        cautious = self._bounded(self._estimator.loss + self._estimator.margin)
        if cautious >= self._answer:
            self._needed_s = now_s
        converging = self._estimator.packets <= CONVERGING
        if now_s < self._hold_until_s:
            cautious = max(cautious, self._in_use)
        if converging or now_s - self._needed_s >= self._parameters.hold_s:
            self._answer = min(self._answer, cautious)

    def _bounded(self, loss: float) -> int:
        # No block size answers a loss of everything, so no policy is requested it.
        required = max(self._parameters.base, self._policy(min(loss, 0.99)))
        return max(self.of_bursts, min(self._parameters.largest, required))


_sent_s = operator.attrgetter("sent_s")


def _without_outages(lost: list[bool], sent_s: list[float]) -> tuple[list[bool], list[float]]:
    """Fates and times but for runs of ``_OUTAGE`` or more losses."""
    if sum(lost) < _OUTAGE:
        return lost, sent_s
    retained: list[int] = []
    for gone, run in itertools.groupby(range(len(lost)), key=lost.__getitem__):
        places = list(run)
        if not gone or len(places) < _OUTAGE:
            retained += places
    return [lost[i] for i in retained], [sent_s[i] for i in retained]
