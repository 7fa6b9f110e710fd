"""Finds the times near faults. Packets of other times are expected to be undisturbed."""

from collections.abc import Iterable

import numpy as np

from testbed.arrays import BoolArray, FloatArray
from testbed.faults.fault import FaultTimes


def near_faults(
    times_s: FloatArray,
    faults: Iterable[FaultTimes],
    *,
    before_s: float,
    after_s: float,
) -> BoolArray:
    """Return which times lie in one of the faults, or near it.

    Args:
        times_s: Times of sending, in seconds after the start of the run.
        faults: The faults as they were carried out.
        before_s: A packet sent this long before a fault may still meet it: at least the time that
            it takes to the failed link.
        after_s: A packet sent this long after a repair may still be lost.
    """
    near = np.zeros(len(times_s), dtype=np.bool_)
    for times in faults:
        near |= (times_s >= times.start_s - before_s) & (times_s < times.stop_s + after_s)
    return near
