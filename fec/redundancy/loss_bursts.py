"""Detection of losses that come in short bursts, and block sizes that tolerate such bursts.

One burst takes most of a block. A block that is large enough for the bursts of a Gilbert-Elliott
channel is therefore two to five times M at a mean loss of one or two percent. Parity that is sent
after the burst, for the affected blocks alone, costs about as much as was lost. It needs time: the
playback buffer must have room for a loss report and for the round trip. If there is no room, the
block size follows from a Gilbert-Elliott channel (``burst_block_size``) whose parameters are
estimated from the packets that were lost.
"""

import math
from collections import deque
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fec.redundancy.block_size_control import MAX_BLOCK

# Number of consecutive packets that arrive and thereby end a burst.
_GAP = 16
# The same for the estimation of a channel: fewer, so that few of its bursts are merged into one.
SHORT_GAP = 8
# Number of bursts that must have ended before losses count as bursts, and not as a failure.
_MIN_BURSTS = 2
# Bursts that are remembered to decide whether losses come in bursts.
_REMEMBERED = 32
# Minimum number of losses of the mean burst, and minimum ratio of its losses to the packets from
# its first loss to its last. Independent losses of 0.3 % to 20 % stay below one of the two.
_MIN_MEAN_LOSSES = 1.6
_MIN_DENSITY = 0.4
# Maximum number of losses of a burst. More losses than this, or than twice the longest burst so far
# plus eight, are a failure.
_MAX_BURST_LOSSES = 64
# Largest and smallest number of bursts from which a channel is estimated.
_MAX_FITTED = 128
_MIN_FITTED = 8
# Losses are in bursts if the number of losses directly after a loss exceeds the expected number for
# independent losses by both this number of standard deviations and this number of packets.
# Independent losses do so with a probability of 1 in 10^6.
_SIGMAS = 6.0
_EXTRA_LOSSES = 2.0
# A gap between bursts that is longer than the usual one by this factor ends the bursts.
_CALM = 10.0
# The logarithms of estimated parameters are rounded to multiples of 1 / this number. Few bursts do
# not determine them more precisely, and few different block sizes have to be computed.
_GRID = 16


class BurstChain(NamedTuple):
    """A channel with a good and a bad state (Gilbert 1960).

    Attributes:
        share: Fraction of the packets for which the channel is bad.
        length: Mean number of consecutive packets for which it is bad.
        lost: Fraction of these packets that are lost.
    """

    share: float
    length: float
    lost: float


class _Burst(NamedTuple):
    """A burst of losses that has ended.

    Attributes:
        packets: Packets since the previous burst ended.
        losses: Lost packets.
        span: Packets from the first loss to the last.
        consecutive: Losses directly after another loss.
        span_squared: Square of ``span``.
        expected_consecutive: Losses directly after another loss if losses were independent.
    """

    packets: int
    losses: int
    span: int
    consecutive: int
    span_squared: int
    expected_consecutive: float


@lru_cache(maxsize=1024)
def burst_block_size(
    source_packets: int,
    chain: BurstChain,
    error_rate: float,
    *,
    interleaved: bool = True,
    largest: int = MAX_BLOCK,
) -> int:
    """Return the smallest block size N at which decoding fails no more often than ``error_rate``.

    Args:
        source_packets: M, the number of packets that are needed to decode a block.
        chain: The channel.
        error_rate: Accepted probability that fewer than M of the N packets arrive.
        interleaved: Parity is sent during the time of the next block, so that the packets of two
            blocks alternate. Otherwise all packets of a block follow one another.
        largest: Largest N; it is also returned if no N up to it suffices.

    >>> chain = BurstChain(share=0.001 / 0.101, length=10.0, lost=1.0)
    >>> burst_block_size(20, chain, 1e-5, interleaved=False), burst_block_size(20, chain, 1e-5)
    (97, 69)
    """
    low = source_packets
    high = max(source_packets, largest)
    while low < high:
        middle = (low + high) // 2
        if failure_in_bursts(source_packets, middle, chain, interleaved=interleaved) > error_rate:
            low = middle + 1
        else:
            high = middle
    return low


def failure_in_bursts(m: int, n: int, chain: BurstChain, *, interleaved: bool) -> float:
    """Return the probability that fewer than M of N packets arrive.

    This is the recursion of Elliott (1963). It is evaluated as a generating function of the number
    of losses at the roots of unity; the inverse Fourier transform gives the distribution.

    Args:
        m: Source packets of a block.
        n: Packets of a block.
        chain: The channel.
        interleaved: See ``burst_block_size``.
    """
    good_to_bad = chain.share / (1 - chain.share) / chain.length
    bad_to_good = 1 / chain.length
    # Distance between two source packets, and between two parity packets of a block, in packets.
    distances = (n / m, n / max(1, n - m)) if interleaved else (1.0, 1.0)
    z = np.exp(-2j * np.pi * np.arange(n + 1) / (n + 1))
    arrival = np.zeros((n + 1, 2, 2), dtype=np.complex128)
    arrival[:, 0, 0] = 1.0
    arrival[:, 1, 1] = 1 - chain.lost + chain.lost * z
    state = np.array([1 - chain.share, chain.share])
    long_run = np.outer(state, (1.0, 1.0))
    steps: list[NDArray[np.complex128]] = []
    for distance, count in zip(distances, (m, n - m), strict=True):
        memory = max(0.0, 1 - good_to_bad - bad_to_good) ** distance
        transition = long_run + memory * (np.eye(2) - long_run)
        steps.append(np.linalg.matrix_power(transition @ arrival, count))
    losses = np.fft.ifft((steps[1] @ steps[0] @ state).sum(axis=1)).real
    return float(losses[n - m + 1 :].sum())


class LossBursts:
    """Detects whether losses, in the order of sending, occur in bursts that end.

    ``passing`` is then true, and ``chain`` is the channel that causes such bursts.

    >>> bursts = LossBursts()
    >>> for _ in range(2):
    ...     bursts.add([True] * 5 + [False] * 40)
    >>> bursts.passing
    True
    >>> bursts.add([True, False] * 60)  # a failure, which does not end
    >>> bursts.passing
    False
    """

    def __init__(self, gap: int = _GAP) -> None:
        """Start without losses.

        Args:
            gap: Packets that arrive in a row and thereby end a burst.
        """
        self._gap = gap
        # Losses and span of the last bursts.
        self._ended: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        # Bursts from which the channel is estimated.
        self._fitted: deque[_Burst] = deque(maxlen=_MAX_FITTED)
        # Bursts in a row that were much longer than those before.
        self._outliers = 0
        self._start_burst()

    def _start_burst(self) -> None:
        # Packets since the previous burst ended.
        self._packets = 0
        # Of the present burst: losses, packets from the first loss to the last, and losses
        # directly after another one.
        self._losses = 0
        self._span = 0
        self._consecutive = 0
        # Packets that have arrived since the last loss.
        self._arrived = 0

    def add(self, lost: list[bool]) -> None:
        """Add packets in the order of sending; True stands for a lost one."""
        for is_lost in lost:
            self._packets += 1
            if is_lost:
                self._add_loss()
            elif self._losses:
                self._arrived += 1
                if self._arrived >= self._gap:
                    self._end_burst()
        usual_gap_sum = sum(burst.packets for burst in self._fitted)
        if not self._losses and self._packets * len(self._fitted) > _CALM * usual_gap_sum:
            self._fitted.clear()

    def _add_loss(self) -> None:
        if not self._losses:
            self._span += 1
        else:
            self._span += self._arrived + 1
            if not self._arrived:
                self._consecutive += 1
        self._losses += 1
        self._arrived = 0

    def _end_burst(self) -> None:
        self._ended.append((self._losses, self._span))
        self._fit_burst()
        self._start_burst()

    def _fit_burst(self) -> None:
        """Add the burst to those from which the channel is estimated.

        A failure among bursts is left out. Two outliers in a row mean that the channel has changed.
        """
        self._outliers = 0 if self.under_way else self._outliers + 1
        if self._outliers > 1:
            self._fitted.clear()
        if self._outliers != 1 and self._losses < 2 * _MAX_BURST_LOSSES:
            self._fitted.append(
                _Burst(
                    packets=self._packets,
                    losses=self._losses,
                    span=self._span,
                    consecutive=self._consecutive,
                    span_squared=self._span**2,
                    expected_consecutive=self._losses**2 / self._packets,
                )
            )

    @property
    def under_way(self) -> bool:
        """True if the present losses may be a burst like those before."""
        longest = max((burst.losses for burst in self._fitted), default=0)
        return len(self._fitted) < _MIN_FITTED or self._losses <= 2 * longest + 8

    @property
    def chain(self) -> BurstChain | None:
        """The channel that causes such bursts, or None if losses may be independent.

        The mean length is weighted by the packets of each burst, so that single losses between the
        bursts do not shorten it.
        """
        if len(self._fitted) < _MIN_FITTED:
            return None
        packets = sum(burst.packets for burst in self._fitted)
        losses = sum(burst.losses for burst in self._fitted)
        span = sum(burst.span for burst in self._fitted)
        consecutive = sum(burst.consecutive for burst in self._fitted)
        span_squared = sum(burst.span_squared for burst in self._fitted)
        expected = sum(burst.expected_consecutive for burst in self._fitted)
        max_by_chance = expected + _SIGMAS * math.sqrt(expected) + _EXTRA_LOSSES
        if losses < _MIN_DENSITY * span or consecutive <= max_by_chance:
            return None
        share = _rounded(span / packets)
        length = _rounded(max(1.0, (1 + span_squared / span) / 2))
        lost = _rounded(losses / span)
        return BurstChain(share=min(share, 0.5), length=length, lost=min(lost, 1.0))

    @property
    def passing(self) -> bool:
        """True if losses come in bursts, and the present one, if any, is not much longer."""
        if len(self._ended) < _MIN_BURSTS:
            return False
        losses = sum(burst_losses for burst_losses, _ in self._ended)
        span = sum(burst_span for _, burst_span in self._ended)
        longest = max(burst_losses for burst_losses, _ in self._ended)
        return (
            losses >= _MIN_MEAN_LOSSES * len(self._ended)
            and losses >= _MIN_DENSITY * span
            and longest <= _MAX_BURST_LOSSES
            and self._losses <= min(_MAX_BURST_LOSSES, 2 * longest + 8)
        )


def _rounded(value: float) -> float:
    """Return the value, rounded on the logarithmic grid."""
    return math.exp(round(_GRID * math.log(value)) / _GRID)
