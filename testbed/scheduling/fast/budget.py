"""The time limit that the searches of the fast method share."""

from testbed.model.schedule import Clock

# Approximate number of positions that are examined per second. Without a clock, a time limit is
# measured by it.
POSITIONS_PER_SECOND = 20_000_000


class Budget:
    """A time limit, measured by a clock, or by work that is counted at a nominal speed.

    Args:
        limit_s: Time limit in seconds.
        now: A clock in seconds. None counts the work, so that the same seed gives the same result
            on every machine.

    Attributes:
        limit_s: Time limit in seconds.
        now: The clock, or None.
    """

    def __init__(self, limit_s: float, now: Clock | None) -> None:
        self.limit_s = limit_s
        self.now = now
        self._started_s = 0.0
        self._worked_s = 0.0
        if now is not None:
            self._started_s = now()

    def used_s(self) -> float:
        """Return the time in seconds that has been used."""
        if self.now is None:
            return self._worked_s
        return self.now() - self._started_s

    def left_s(self) -> float:
        """Return the time in seconds that is left; negative if the limit is exceeded."""
        return self.limit_s - self.used_s()

    def spend(self, positions: float) -> None:
        """Count work.

        Args:
            positions: Number of positions that were examined.
        """
        self._worked_s += positions / POSITIONS_PER_SECOND
