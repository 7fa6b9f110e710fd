"""A scheduler for the testbed: transfers with most links first, each into the first time frame in which its links are
free.

testbed schedule swiss-t1 --scheduling longest-first
"""

from collections.abc import Callable

import numpy as np

from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic


def longest_first(
    traffic: Traffic,
    *,
    seed: int = 1,
    time_limit_s: float = 60.0,
    now: Callable[[], float] | None = None,
) -> Schedule:
    """First fit by decreasing number of links; nothing is drawn, and it is always done in time."""
    paths = traffic.paths()
    frame_of = np.zeros(len(traffic), dtype=np.int32)
    used: list[set[int]] = []
    for transfer in sorted(range(len(traffic)), key=lambda i: (-len(paths[i]), i)):
        links = set(paths[transfer])
        frame = next((i for i, taken in enumerate(used) if not taken & links), len(used))
        if frame == len(used):
            used.append(set())
        used[frame] |= links
        frame_of[transfer] = frame
    return Schedule.of(frame_of, traffic.bottleneck_load, method="longest-first")
