"""A foreign clock in our time, with bounds that hold: intersected cones of a drift bound, no statistics.

Theory of operation
------------------- Let P(t) be what the foreign clock shows at our time t, and rho a bound of its drift: P rises by at
least 1 - rho and at most 1 + rho a second. An exchange says two things and no more: P(sent) <= received, because the
question was not yet there when it was sent; and P(returned) >= answered. Midpoint and half the round trip follow from
them, but the two inequalities say more, because they hold at different times, and nothing about how the round trip
falls into its two ways is assumed.

For a foreign stamp p each upper point (sent, received) gives an earliest time of ours, each lower point (answered,
returned) a latest one; they open as cones with the distance in time, 1 / (1 +- rho) a second. The greatest earliest and
the least latest of all exchanges of the run, before and after the stamp, is the intersection of all that is known
(Marzullo 1984, over the exchanges of one pair; the bounds are those of a Lipschitz function through one-sided points,
which none can better without assuming more). One quick exchange sharpens a minute around it; a slow one does no harm.
Where the earliest is after the latest, the drift bound is false or a clock was set: then nothing that these clocks say
counts, and the run is invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testbed.arrays import FloatArray
from testbed.errors import InputError, InvalidRunError
from testbed.machines.clocks.exchange import Exchange

DRIFT_BOUND = 1e-3
"""Of one monotonic clock against another's, seconds a second: each kernel slews its own by at most 500 parts in a
million (adjtimex)."""
ROUNDING_S = 2e-9
"""Taken off every bound: stamps are whole nanoseconds, and sums of them are floats."""


@dataclass(frozen=True, kw_only=True)
class LocalTimes:
    """Shape (n,) each, seconds on our clock: the truth is between ``earliest_s`` and ``latest_s``."""

    earliest_s: FloatArray
    latest_s: FloatArray

    @property
    def middle_s(self) -> FloatArray:
        """The best single guess."""
        return (self.earliest_s + self.latest_s) / 2

    @property
    def uncertainty_s(self) -> FloatArray:
        """Half the interval: how far the truth can lie from the guess."""
        return (self.latest_s - self.earliest_s) / 2


@dataclass(frozen=True, kw_only=True)
class RemoteClock:
    """The clock of one other machine over one run. ``drift_bound``: 0 to below 1, seconds a second.

    InputError without an exchange; InvalidRunError where the exchanges contradict each other under the drift bound.

    >>> near = Exchange(sent_ns=1_000, received_ns=501_000, answered_ns=502_000, returned_ns=4_000)
    >>> clock = RemoteClock(machine="m1", exchanges=(near,))
    >>> ours = clock.ours([501_500e-9])
    >>> round(float(ours.middle_s[0]) * 1e9), round(float(ours.uncertainty_s[0]) * 1e9)
    (2500, 1002)
    """

    machine: str
    exchanges: tuple[Exchange, ...]
    drift_bound: float = DRIFT_BOUND

    def __post_init__(self) -> None:
        if not self.exchanges:
            raise InputError(
                f"the clock of {self.machine}: no exchange of time stamps was answered"
            )
        if not 0 <= self.drift_bound < 1:
            raise InputError(
                f"drift bound {self.drift_bound!r}: give 0 to below 1, seconds a second"
            )
        at = self._vertices
        apart = at.latest_s - at.earliest_s
        if apart.min() < 0:
            raise InvalidRunError(
                f"the clock of {self.machine} cannot be followed: inconsistent exchanges of time stamps, by "
                f"{-apart.min() * 1e3:.3g} ms under a drift of at most {self.drift_bound * 1e6:g} parts in a million; "
                "it was set, or drifts more"
            )

    @cached_property
    def _base(self) -> tuple[int, int]:
        """Stamps are counted from the first exchange, so that floats lose nothing."""
        return self.exchanges[0].sent_ns, self.exchanges[0].received_ns

    @cached_property
    def _upper(self) -> _Cones:
        return self._cones([(e.sent_ns, e.received_ns) for e in self.exchanges], earliest=True)

    @cached_property
    def _lower(self) -> _Cones:
        return self._cones([(e.returned_ns, e.answered_ns) for e in self.exchanges], earliest=False)

    def _cones(self, points: Sequence[tuple[int, int]], *, earliest: bool) -> _Cones:
        ours, theirs = self._base
        since = [((own - ours) / 1e9, (other - theirs) / 1e9) for own, other in points]
        return _Cones.of(since, self.drift_bound, earliest=earliest)

    @cached_property
    def _vertices(self) -> LocalTimes:
        """At every stamp of an exchange: where the two bounds are nearest to each other is one of them."""
        return self._since_base(self._stamps)

    @cached_property
    def _stamps(self) -> FloatArray:
        """Theirs of all exchanges, sorted."""
        return np.unique(np.concatenate((self._upper.theirs_s, self._lower.theirs_s)))

    def _since_base(self, theirs_s: FloatArray) -> LocalTimes:
        return LocalTimes(
            earliest_s=self._upper.bound(theirs_s) - ROUNDING_S,
            latest_s=self._lower.bound(theirs_s) + ROUNDING_S,
        )

    def ours(self, stamps_s: Sequence[float] | FloatArray) -> LocalTimes:
        """Foreign stamps (seconds on their clock, any shape (n,), any order) on our clock. O((n + exchanges) log
        exchanges)."""
        ours, theirs = self._base
        found = self._since_base(np.asarray(stamps_s, dtype=np.float64) - theirs / 1e9)
        return LocalTimes(
            earliest_s=found.earliest_s + ours / 1e9, latest_s=found.latest_s + ours / 1e9
        )

    def offset(self, stamp_s: float) -> tuple[float, float]:
        """What the foreign clock is ahead of ours when it shows ``stamp_s``: (guess, uncertainty), seconds."""
        found = self.ours([stamp_s])
        return stamp_s - float(found.middle_s[0]), float(found.uncertainty_s[0])

    def drift(self) -> tuple[float, float]:
        """Least and greatest mean drift over the run that its exchanges leave possible, seconds of theirs a second of
        ours."""
        at, bound = self._vertices, self.drift_bound
        theirs_s = float(self._stamps[-1] - self._stamps[0])
        shortest_s = float(at.earliest_s[-1] - at.latest_s[0])
        longest_s = float(at.latest_s[-1] - at.earliest_s[0])
        if theirs_s <= 0 or longest_s <= 0:
            return -bound, bound
        greatest = bound if shortest_s <= 0 else min(bound, theirs_s / shortest_s - 1)
        return max(-bound, theirs_s / longest_s - 1), greatest

    def worst_uncertainty_s(self, from_s: float, to_s: float) -> float:
        """The greatest uncertainty of a stamp between two foreign stamps, seconds; the run's own figure for its
        clock."""
        steps = np.linspace(from_s, to_s, 1001)
        inner = self._base[1] / 1e9 + self._stamps
        inside = inner[(inner >= from_s) & (inner <= to_s)]
        # Between two stamps of exchanges the width is piecewise linear: its corners are where cones meet, which the
        # steps come near to.
        spacing_s = (to_s - from_s) / 1000
        grown_s = spacing_s * self.drift_bound / (1 - self.drift_bound**2)
        return float(self.ours(np.concatenate((steps, inside))).uncertainty_s.max()) + grown_s


@dataclass(frozen=True, kw_only=True)
class _Cones:
    """One-sided points (theirs, ours), sorted by theirs, and what of them bounds a stamp from the left and from the
    right."""

    theirs_s: FloatArray
    from_left: FloatArray
    from_right: FloatArray
    slope_left: float
    slope_right: float
    earliest: bool

    @classmethod
    def of(
        cls, points: Sequence[tuple[float, float]], drift_bound: float, *, earliest: bool
    ) -> _Cones:
        """``points``: (ours, theirs), seconds. An earliest time grows slowly after its point and falls fast before
        it."""
        ours, theirs = np.array(points, dtype=np.float64).T
        order = np.argsort(theirs, kind="stable")
        ours, theirs = ours[order], theirs[order]
        slow, fast = 1 / (1 + drift_bound), 1 / (1 - drift_bound)
        after, before = (slow, fast) if earliest else (fast, slow)
        tighter = np.maximum if earliest else np.minimum
        return cls(
            theirs_s=theirs,
            from_left=tighter.accumulate(ours - theirs * after),
            from_right=tighter.accumulate((ours - theirs * before)[::-1])[::-1],
            slope_left=after,
            slope_right=before,
            earliest=earliest,
        )

    def bound(self, stamps_s: FloatArray) -> FloatArray:
        """The tightest bound that any point gives each stamp."""
        nothing = -np.inf if self.earliest else np.inf
        behind = np.searchsorted(self.theirs_s, stamps_s, side="right")
        left = np.concatenate(([nothing], self.from_left))[behind] + stamps_s * self.slope_left
        right = np.concatenate((self.from_right, [nothing]))[behind] + stamps_s * self.slope_right
        found: FloatArray = np.maximum(left, right) if self.earliest else np.minimum(left, right)
        return found
