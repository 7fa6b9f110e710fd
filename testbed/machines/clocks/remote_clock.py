"""Conversion of another machine's time stamps to our clock, with guaranteed bounds.

Theory of operation
-------------------

Let P(t) be what the other clock shows at our time t, and rho the bound of its drift: P rises by
1 - rho to 1 + rho seconds per second. An exchange gives two inequalities:

- P(sent) <= received, because the question had not arrived before it was sent;
- P(returned) >= answered, because the answer had been sent before it arrived.

No statistics are used, and nothing is assumed about how the round trip divides into its two
directions.

For a stamp p of the other clock, each point (sent, received) gives an earliest time on our clock,
and each point (answered, returned) gives a latest time. The bounds become weaker with the distance
in time, by 1 / (1 +- rho) seconds per second, so each point bounds a cone. The tightest bounds of
all exchanges of the run, before and after the stamp, are the intersection of all cones (Marzullo
1984, here for the exchanges of one pair). These are the bounds of a Lipschitz function through
one-sided points; there are no tighter ones without further assumptions. One quick exchange tightens
the bounds for a minute around it. A slow one does no harm.

If an earliest time is after the latest one, the drift bound is wrong or a clock was set. Then the
stamps of these clocks are useless, and the run is invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testbed.arrays import FloatArray
from testbed.errors import InputError, InvalidRunError
from testbed.machines.clocks.exchange import Exchange

# Bound of the drift between two monotonic clocks, in seconds per second: each kernel slews its
# clock by at most 500 parts per million (adjtimex).
DRIFT_BOUND = 1e-3
# Margin of every bound, in seconds: stamps are integer nanoseconds, and their sums are floats.
ROUNDING_S = 2e-9
# Number of steps at which the uncertainty of a run is evaluated.
_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class LocalTimes:
    """Intervals on our clock that contain the true times.

    Attributes:
        earliest_s: Lower bounds, shape (n,), in seconds.
        latest_s: Upper bounds, shape (n,), in seconds.
    """

    earliest_s: FloatArray
    latest_s: FloatArray

    @property
    def middle_s(self) -> FloatArray:
        """The middle of each interval, which is the best estimate, in seconds."""
        return (self.earliest_s + self.latest_s) / 2

    @property
    def uncertainty_s(self) -> FloatArray:
        """Largest possible error of the estimate: half of each interval, in seconds."""
        return (self.latest_s - self.earliest_s) / 2


@dataclass(frozen=True, kw_only=True)
class RemoteClock:
    """The clock of another machine over one run.

    Attributes:
        machine: Name of the machine.
        exchanges: The exchanges of time stamps, at least one.
        drift_bound: Bound of the drift, from 0 to below 1, in seconds per second.

    Raises:
        InputError: There is no exchange, or the drift bound is out of range.
        InvalidRunError: The exchanges contradict each other under the drift bound.

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
        bounds = self._at_exchanges
        width_s = bounds.latest_s - bounds.earliest_s
        if width_s.min() < 0:
            raise InvalidRunError(
                f"the clock of {self.machine} cannot be followed: "
                "inconsistent exchanges of time stamps, by "
                f"{-width_s.min() * 1e3:.3g} ms under a drift of at most "
                f"{self.drift_bound * 1e6:g} parts in a million; it was set, or drifts more"
            )

    @cached_property
    def _base(self) -> tuple[int, int]:
        """The first stamps of our clock and of the other one, in nanoseconds.

        Stamps are converted to floats relative to these, so that no nanosecond is lost.
        """
        return self.exchanges[0].sent_ns, self.exchanges[0].received_ns

    @cached_property
    def _earliest_cones(self) -> _Cones:
        points = [(exchange.sent_ns, exchange.received_ns) for exchange in self.exchanges]
        return self._cones(points, earliest=True)

    @cached_property
    def _latest_cones(self) -> _Cones:
        points = [(exchange.returned_ns, exchange.answered_ns) for exchange in self.exchanges]
        return self._cones(points, earliest=False)

    def _cones(self, points_ns: Sequence[tuple[int, int]], *, earliest: bool) -> _Cones:
        """Return the cones of points (our stamp, other stamp), in nanoseconds."""
        our_base_ns, their_base_ns = self._base
        points_s: list[tuple[float, float]] = []
        for ours_ns, theirs_ns in points_ns:
            points_s.append(((ours_ns - our_base_ns) / 1e9, (theirs_ns - their_base_ns) / 1e9))
        return _Cones.of(points_s, self.drift_bound, earliest=earliest)

    @cached_property
    def _at_exchanges(self) -> LocalTimes:
        """The bounds at every stamp of an exchange. The bounds are closest at one of these."""
        return self._since_base(self._stamps_s)

    @cached_property
    def _stamps_s(self) -> FloatArray:
        """The other clock's stamps of all exchanges, sorted, in seconds since the base."""
        earliest = self._earliest_cones.theirs_s
        return np.unique(np.concatenate((earliest, self._latest_cones.theirs_s)))

    def _since_base(self, theirs_s: FloatArray) -> LocalTimes:
        """Convert stamps; both they and the result are in seconds since the base."""
        return LocalTimes(
            earliest_s=self._earliest_cones.bound(theirs_s) - ROUNDING_S,
            latest_s=self._latest_cones.bound(theirs_s) + ROUNDING_S,
        )

    def ours(self, stamps_s: Sequence[float] | FloatArray) -> LocalTimes:
        """Convert stamps of the other clock to our clock.

        This takes O((n + exchanges) log exchanges).

        Args:
            stamps_s: Stamps in seconds, shape (n,), in any order.
        """
        our_base_ns, their_base_ns = self._base
        since_base_s = np.asarray(stamps_s, dtype=np.float64) - their_base_ns / 1e9
        times = self._since_base(since_base_s)
        return LocalTimes(
            earliest_s=times.earliest_s + our_base_ns / 1e9,
            latest_s=times.latest_s + our_base_ns / 1e9,
        )

    def offset(self, stamp_s: float) -> tuple[float, float]:
        """Return how far the other clock is ahead of ours when it shows this stamp.

        Returns:
            The estimate and its uncertainty, in seconds.
        """
        times = self.ours([stamp_s])
        return stamp_s - float(times.middle_s[0]), float(times.uncertainty_s[0])

    def drift(self) -> tuple[float, float]:
        """Return the lowest and highest mean drift over the run that the exchanges allow.

        The unit is seconds of the other clock per second of ours, minus 1.
        """
        bounds = self._at_exchanges
        theirs_s = float(self._stamps_s[-1] - self._stamps_s[0])
        shortest_s = float(bounds.earliest_s[-1] - bounds.latest_s[0])
        longest_s = float(bounds.latest_s[-1] - bounds.earliest_s[0])
        if theirs_s <= 0 or longest_s <= 0:
            return -self.drift_bound, self.drift_bound
        highest = self.drift_bound
        if shortest_s > 0:
            highest = min(self.drift_bound, theirs_s / shortest_s - 1)
        return max(-self.drift_bound, theirs_s / longest_s - 1), highest

    def worst_uncertainty_s(self, from_s: float, to_s: float) -> float:
        """Return the largest uncertainty of any stamp in an interval of the other clock.

        All values are in seconds.
        """
        steps = np.linspace(from_s, to_s, _STEPS + 1)
        exchanges = self._base[1] / 1e9 + self._stamps_s
        exchanges = exchanges[(exchanges >= from_s) & (exchanges <= to_s)]
        # Between two exchanges the width is piecewise linear with corners where cones meet. A step
        # is close to each corner, and the width grows by at most ``growth_s`` from there.
        spacing_s = (to_s - from_s) / _STEPS
        growth_s = spacing_s * self.drift_bound / (1 - self.drift_bound**2)
        return float(self.ours(np.concatenate((steps, exchanges))).uncertainty_s.max()) + growth_s


@dataclass(frozen=True, kw_only=True)
class _Cones:
    """The intersection of the cones of one-sided points.

    A bound at a stamp is the tighter of two lines: one from the points before the stamp, one from
    the points after it.

    Attributes:
        theirs_s: The other clock's stamp of each point, sorted, in seconds.
        from_left: Intercept of the tightest line from each point and all before it, in seconds.
        from_right: Intercept of the tightest line from each point and all after it, in seconds.
        slope_left: Slope of lines to the right of their point.
        slope_right: Slope of lines to the left of their point.
        earliest: Whether the bounds are earliest times, not latest times.
    """

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
        """Intersect the cones of points.

        Args:
            points: Our stamp and the other stamp of each point, in seconds.
            drift_bound: Bound of the drift, in seconds per second.
            earliest: Whether each point gives an earliest time, not a latest time.
        """
        ours, theirs = np.array(points, dtype=np.float64).T
        order = np.argsort(theirs, kind="stable")
        ours = ours[order]
        theirs = theirs[order]
        slow = 1 / (1 + drift_bound)
        fast = 1 / (1 - drift_bound)
        # An earliest time grows slowly after its point and falls fast before it.
        slope_left, slope_right = (slow, fast) if earliest else (fast, slow)
        tighter = np.maximum if earliest else np.minimum
        return cls(
            theirs_s=theirs,
            from_left=tighter.accumulate(ours - theirs * slope_left),
            from_right=tighter.accumulate((ours - theirs * slope_right)[::-1])[::-1],
            slope_left=slope_left,
            slope_right=slope_right,
            earliest=earliest,
        )

    def bound(self, stamps_s: FloatArray) -> FloatArray:
        """Return the tightest bound of each stamp; both are in seconds since the base."""
        no_bound = -np.inf if self.earliest else np.inf
        points_before = np.searchsorted(self.theirs_s, stamps_s, side="right")
        left = np.concatenate(([no_bound], self.from_left))[points_before]
        right = np.concatenate((self.from_right, [no_bound]))[points_before]
        from_left = left + stamps_s * self.slope_left
        from_right = right + stamps_s * self.slope_right
        tighter = np.maximum if self.earliest else np.minimum
        bounds: FloatArray = tighter(from_left, from_right)
        return bounds
