"""Whether losses come in bursts that pass: the answer is parity sent when one is over, not a larger block.

A block sized for the bursts of a chain of Gilbert's and Elliott's is two to five times M at a mean loss of one or two
percent, since one burst takes most of a block. Parity that leaves after the burst, for those blocks alone, costs about
what was lost. It wants time: a playback buffer with room for a report and the way there and back.
"""

from collections import deque

_GAP = 16
"""Packets that came on end, after which a burst is over."""
_BURSTS = 2
"""That have passed before the next one is expected to pass as well."""
_REMEMBERED = 32
_LOSSES, _DENSITY = 1.6, 0.4
"""Of the mean burst: losses, and losses for each packet from its first to its last. Independent losses of 0.3 % to 20 %
have fewer, or are thinner."""
_LONGEST = 64
"""Losses of what still counts as a burst; and of twice the longest so far and eight more, by which a failure shows."""


class LossBursts:
    """Fates in the order of sending in; ``passing`` out.

    >>> bursts = LossBursts()
    >>> for _ in range(2):
    ...     bursts.add([True] * 5 + [False] * 40)
    >>> bursts.passing
    True
    >>> bursts.add([True, False] * 60)  # a failure: this one does not pass
    >>> bursts.passing
    False
    """

    def __init__(self) -> None:
        self._over: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        self._losses = self._span = self._arrived = 0

    def add(self, lost: list[bool]) -> None:
        for gone in lost:
            if gone:
                self._span += self._arrived + 1 if self._losses else 1
                self._losses += 1
                self._arrived = 0
            elif self._losses:
                self._arrived += 1
                if self._arrived >= _GAP:
                    self._over.append((self._losses, self._span))
                    self._losses = self._span = self._arrived = 0

    @property
    def passing(self) -> bool:
        """Whether what is lost is lost in bursts, and none is under way that may be more."""
        losses, span = (sum(column) for column in zip(*self._over, strict=True)) if self._over else (0, 1)
        longest = max((one for one, _ in self._over), default=0)
        return (
            len(self._over) >= _BURSTS
            and losses >= _LOSSES * len(self._over)
            and losses >= _DENSITY * span
            and longest <= _LONGEST
            and self._losses <= min(_LONGEST, 2 * longest + 8)
        )
