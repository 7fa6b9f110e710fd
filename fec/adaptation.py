"""From loss reports to a loss estimate and a block size: up within one report, down after a hold.

The estimate restarts when the loss changes, so that after a failure only packets sent since then count.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_MOST_BATCHES = 400
_LONGEST_SUFFIX = 1000
"""Packets over which a change is looked for."""


@dataclass(frozen=True, kw_only=True)
class AdaptationParameters:
    """``base``: block size at rest; ``largest``: cap; ``hold_s``: a lower loss must last so long; ``jump``: a change of loss
    by so much (and by more than chance explains) restarts the estimate; ``deterministic``: losses carry no chance
    (stratified labels), so that a few packets tell a change."""

    base: int
    largest: int = 255
    hold_s: float = 2.0
    jump: float = 0.02
    deterministic: bool = True


class LossEstimator:
    """Loss of the packets since the last change. Fed with counts of packets whose fate is known, in order of sending."""

    def __init__(self, parameters: AdaptationParameters) -> None:
        self._parameters = parameters
        self._batches: deque[tuple[int, int]] = deque()
        self._lost = self._sent = 0

    @property
    def loss(self) -> float:
        return self._lost / self._sent if self._sent else 0.0

    @property
    def packets(self) -> int:
        """How many packets the estimate rests on."""
        return self._sent

    def add(self, lost: int, sent: int) -> int:
        """A batch of ``sent`` packets of which ``lost`` never arrived; returns +1 or -1 where the loss rose or fell."""
        before = self.loss
        self._batches.append((lost, sent))
        self._lost, self._sent = self._lost + lost, self._sent + sent
        keep = self._changed_since()
        if keep is None:
            while len(self._batches) > _MOST_BATCHES:
                self._forget_oldest()
            return 0
        while len(self._batches) > keep:
            self._forget_oldest()
        return 1 if self.loss > before else -1

    def _forget_oldest(self) -> None:
        lost, sent = self._batches.popleft()
        self._lost, self._sent = self._lost - lost, self._sent - sent

    def _changed_since(self) -> int | None:
        """How many of the latest batches differ from all before them by more than chance, or None."""
        lost = sent = 0
        for count, (more_lost, more_sent) in enumerate(reversed(self._batches), start=1):
            lost, sent = lost + more_lost, sent + more_sent
            if sent == self._sent or sent > _LONGEST_SUFFIX:
                return None
            if self._differs(lost, sent, self._lost - lost, self._sent - sent):
                return count
        return None

    def _differs(self, lost: int, sent: int, old_lost: int, old_sent: int) -> bool:
        gap = abs(lost / sent - old_lost / old_sent)
        if gap <= self._parameters.jump:
            return False
        if self._parameters.deterministic:
            # The packets of a batch come from two windows of labels; each misses an interval's share by about a packet.
            return gap > 2 / sent + 2 / old_sent
        middle = (old_lost + lost) / (old_sent + sent)
        spread = math.sqrt(max(middle * (1 - middle), 1e-4) * (1 / sent + 1 / old_sent))
        return gap > 4 * spread


class BlockSizeController:
    """Holds N. ``policy`` maps a loss to a block size, never below the base.

    A loss that rises, or is only told more exactly, is answered at once; when it falls, N is kept for ``hold_s`` first.
    """

    def __init__(self, parameters: AdaptationParameters, policy: Callable[[float], int]) -> None:
        self._parameters = parameters
        self._policy = policy
        self._estimator = LossEstimator(parameters)
        self._hold_until_s = 0.0
        self.block_size = parameters.base

    @property
    def loss(self) -> float:
        return self._estimator.loss

    def add(self, lost: int, sent: int, now_s: float) -> bool:
        """One report's news; True where N rose. N is kept where nothing is known."""
        if not sent:
            return False
        if self._estimator.add(lost, sent) < 0:
            self._hold_until_s = now_s + self._parameters.hold_s
        before = self.block_size
        wanted = min(self._parameters.largest, max(self._parameters.base, self._policy(self._estimator.loss)))
        self.block_size = max(before, wanted) if now_s < self._hold_until_s else wanted
        return self.block_size > before
