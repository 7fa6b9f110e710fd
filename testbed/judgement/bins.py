"""Packets counted in intervals of time of equal length."""

import numpy as np

from testbed.arrays import BoolArray, FloatArray, IntArray


class TimeBins:
    """Intervals of time one after another, and the packets that lie in each.

    Attributes:
        index: The number of the interval of each packet; below 0, or ``count`` and more, outside.
    """

    def __init__(
        self,
        times_s: FloatArray,
        *,
        start_s: float,
        bin_s: float,
        count: int,
    ) -> None:
        self.count = count
        self.index = np.floor((times_s - start_s) / bin_s).astype(np.int64)
        self._inside = (self.index >= 0) & (self.index < count)

    def sums(self, values: FloatArray | IntArray | BoolArray) -> list[float]:
        """Return the sum of the packets' values in each interval."""
        inside = self._inside
        sums: list[float] = np.bincount(
            self.index[inside], weights=values[inside], minlength=self.count
        ).tolist()
        return sums

    def counts(self, chosen: BoolArray | None = None) -> list[int]:
        """Return the number of packets, or of the chosen ones, in each interval."""
        counted = self._inside if chosen is None else self._inside & chosen
        counts: list[int] = np.bincount(self.index[counted], minlength=self.count).tolist()
        return counts
