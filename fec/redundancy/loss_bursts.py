"""Whether losses come in bursts that pass: the answer is parity sent when one is over, not a larger block.

A block sized for the bursts of a chain of Gilbert's and Elliott's is two to five times M at a mean loss of one or two
percent, since one burst takes most of a block. Parity that leaves after the burst, for those blocks alone, costs about
what was lost. It wants time: a playback buffer with room for a report and the way there and back. Where there is none,
a block is sized for the chain that makes such bursts (``burst_block_size``), as the fates of packets tell it.
"""

import math
from collections import deque
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fec.redundancy.block_size_control import MAX_BLOCK

_GAP, SHORT_GAP = 16, 8
"""Packets that came on end, after which a burst is over; fewer for a chain, so that few of its bursts are taken
together."""
_BURSTS = 2
"""That have passed before the next one is expected to pass as well."""
_REMEMBERED = 32
_LOSSES, _DENSITY = 1.6, 0.4
"""Of the mean burst: losses, and losses for each packet from its first to its last. Independent losses of 0.3 % to 20 %
have fewer, or are thinner."""
_LONGEST = 64
"""Losses of what still counts as a burst; and of twice the longest so far and eight more, by which a failure shows."""
_FITTED, _LEAST = 128, 8
"""Bursts that a chain is told from, at most and at least."""
_SIGMAS, _MORE = 6.0, 2.0
"""By which losses right after a loss exceed those of independent ones: 1 in 10^6 by chance."""
_CALM = 10.0
"""Times the usual one, after which a gap between bursts says that they are over."""
_GRID = 16
"""Steps by which a figure of a chain grows e times: as near as bursts tell it, so that few sizes are reckoned."""


class BurstChain(NamedTuple):
    """A channel that is bad for a ``share`` of the packets, for ``length`` of them on end in the mean, and loses
    ``lost`` of those (Gilbert 1960)."""

    share: float
    length: float
    lost: float


@lru_cache(maxsize=1024)
def burst_block_size(
    source_packets: int,
    chain: BurstChain,
    error_rate: float,
    *,
    interleaved: bool = True,
    largest: int = MAX_BLOCK,
) -> int:
    """The smallest N of which M come but for the decoding error rate, ``largest`` at most.

    ``interleaved``: parity leaves during the next block's time, so that packets of two blocks alternate; else those of
    a block follow one another.

    >>> chain = BurstChain(share=0.001 / 0.101, length=10.0, lost=1.0)
    >>> burst_block_size(20, chain, 1e-5, interleaved=False), burst_block_size(20, chain, 1e-5)
    (97, 69)
    """
    low, high = source_packets, max(source_packets, largest)
    while low < high:
        middle = (low + high) // 2
        if failure_in_bursts(source_packets, middle, chain, interleaved=interleaved) > error_rate:
            low = middle + 1
        else:
            high = middle
    return low


def failure_in_bursts(m: int, n: int, chain: BurstChain, *, interleaved: bool) -> float:
    """Probability that fewer than M of N packets come: Elliott's recursion (1963) in its generating function."""
    out, back = chain.share / (1 - chain.share) / chain.length, 1 / chain.length
    apart = (n / m, n / max(1, n - m)) if interleaved else (1.0, 1.0)
    z = np.exp(-2j * np.pi * np.arange(n + 1) / (n + 1))
    arrival = np.zeros((n + 1, 2, 2), dtype=np.complex128)
    arrival[:, 0, 0], arrival[:, 1, 1] = 1.0, 1 - chain.lost + chain.lost * z
    state = np.array([1 - chain.share, chain.share])
    long_run = np.outer(state, (1.0, 1.0))
    steps: list[NDArray[np.complex128]] = []
    for gap, count in zip(apart, (m, n - m), strict=True):
        stay = max(0.0, 1 - out - back) ** gap
        steps.append(
            np.linalg.matrix_power((long_run + stay * (np.eye(2) - long_run)) @ arrival, count)
        )
    losses = np.fft.ifft((steps[1] @ steps[0] @ state).sum(axis=1)).real
    return float(losses[n - m + 1 :].sum())


class LossBursts:
    """Fates in the order of sending in; ``passing`` and ``chain`` out. A burst is over after ``gap`` that came.

    >>> bursts = LossBursts()
    >>> for _ in range(2):
    ...     bursts.add([True] * 5 + [False] * 40)
    >>> bursts.passing
    True
    >>> bursts.add([True, False] * 60)  # a failure: this one does not pass
    >>> bursts.passing
    False
    """

    def __init__(self, gap: int = _GAP) -> None:
        self._gap = gap
        self._over: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        self._known: deque[tuple[int, int, int, int, int, float]] = deque(maxlen=_FITTED)
        self._losses = self._span = self._arrived = self._seen = self._follow = self._unlike = 0

    def add(self, lost: list[bool]) -> None:
        for gone in lost:
            self._seen += 1
            if gone:
                self._span += self._arrived + 1 if self._losses else 1
                self._follow += self._losses > 0 and not self._arrived
                self._losses += 1
                self._arrived = 0
            elif self._losses:
                self._arrived += 1
                if self._arrived >= self._gap:
                    self._over.append((self._losses, self._span))
                    self._remember()
                    self._losses = self._span = self._arrived = self._seen = self._follow = 0
        if not self._losses and self._seen * len(self._known) > _CALM * sum(
            one[0] for one in self._known
        ):
            self._known.clear()

    def _remember(self) -> None:
        """The burst that is over, for the chain: but for a failure among bursts, unless two come on end."""
        self._unlike = 0 if self.under_way else self._unlike + 1
        if self._unlike > 1:
            self._known.clear()
        if self._unlike != 1 and self._losses < 2 * _LONGEST:
            alone = self._losses**2 / self._seen
            self._known.append(
                (self._seen, self._losses, self._span, self._follow, self._span**2, alone)
            )

    @property
    def under_way(self) -> bool:
        """Whether what is lost now may be a burst like those before."""
        usual = max((one[1] for one in self._known), default=0)
        return len(self._known) < _LEAST or self._losses <= 2 * usual + 8

    @property
    def chain(self) -> BurstChain | None:
        """What makes such bursts; None where losses may as well be independent. A burst's length counts by its packets,
        so that single losses beside bursts do not shorten them."""
        if len(self._known) < _LEAST:
            return None
        seen, losses, span, follow, squares, alone = (
            sum(column) for column in zip(*self._known, strict=True)
        )
        if losses < _DENSITY * span or follow <= alone + _SIGMAS * math.sqrt(alone) + _MORE:
            return None
        length = max(1.0, (1 + squares / span) / 2)
        figures = (span / seen, length, losses / span)
        share, length, lost = (math.exp(round(_GRID * math.log(x)) / _GRID) for x in figures)
        return BurstChain(share=min(share, 0.5), length=length, lost=min(lost, 1.0))

    @property
    def passing(self) -> bool:
        """Whether what is lost is lost in bursts, and none is under way that may be more."""
        losses, span = (
            (sum(column) for column in zip(*self._over, strict=True)) if self._over else (0, 1)
        )
        longest = max((one for one, _ in self._over), default=0)
        return (
            len(self._over) >= _BURSTS
            and losses >= _LOSSES * len(self._over)
            and losses >= _DENSITY * span
            and longest <= _LONGEST
            and self._losses <= min(_LONGEST, 2 * longest + 8)
        )
