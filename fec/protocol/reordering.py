"""How much later than others a packet may come before its sender takes it for lost.

Paths of different lengths want this for good, a machine that was busy for a moment does not: every allowance is waited
out before each answer to a failure. So it doubles when a packet taken for lost comes after all, and is halved after a
while in which none did. Where that turns out wrong soon, the next while is twice as long.

No clock: the time is handed in.
"""

_LEAST_S = 0.005
_CALM_S, _LONGEST_CALM_S = 2.0, 64.0


class ReorderingAllowance:
    """``allowance_s``, from 5 ms to ``most_s``.

    >>> allowance = ReorderingAllowance(most_s=0.1)
    >>> allowance.too_short(1.0)
    >>> allowance.too_short(1.1)
    >>> allowance.allowance_s
    0.02
    >>> allowance.pass_time(3.2)
    >>> allowance.allowance_s
    0.01
    """

    def __init__(self, *, most_s: float) -> None:
        self.allowance_s = _LEAST_S
        self._most_s, self._calm_s = most_s, _CALM_S
        self._changed_s, self._shortened = 0.0, False

    def too_short(self, now_s: float) -> None:
        """A packet that was taken for lost has come."""
        if self._shortened and now_s - self._changed_s < self._calm_s:
            self._calm_s = min(2 * self._calm_s, _LONGEST_CALM_S)
        self.allowance_s = min(2 * self.allowance_s, self._most_s)
        self._changed_s, self._shortened = now_s, False

    def pass_time(self, now_s: float) -> None:
        """Shorten it where it has been long enough for a while."""
        if self.allowance_s > _LEAST_S and now_s - self._changed_s >= self._calm_s:
            self.allowance_s = max(self.allowance_s / 2, _LEAST_S)
            self._changed_s, self._shortened = now_s, True
