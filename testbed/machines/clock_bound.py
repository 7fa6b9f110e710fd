"""What is known of another machine's clock at one moment: a value, made by an estimator and used by whoever turns
times."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ClockBound:
    """At ``at_ns`` on our monotonic clock theirs shows ``at_ns + offset_ns``, to within ``uncertainty_ns`` either way.

    ``drift``: by how much theirs runs faster, a fraction (1e-6: a microsecond a second); 0 where it cannot be told.
    """

    at_ns: int
    offset_ns: int
    drift: float
    uncertainty_ns: int

    def to_ours_ns(self, theirs_ns: int) -> int:
        """The moment on our clock at which theirs showed that.

        >>> ClockBound(at_ns=100, offset_ns=5000, drift=0.0, uncertainty_ns=3).to_ours_ns(5120)
        120
        """
        since_ns = theirs_ns - self.at_ns - self.offset_ns
        return self.at_ns + round(since_ns / (1 + self.drift))
