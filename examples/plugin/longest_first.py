"""A scheduler for the testbed: first fit, transfers with the most links first.

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
    """Put each transfer into the first time frame in which its links are free.

    Nothing is random, and the method needs no time limit.
    """
    paths = traffic.paths()
    frame_of = np.zeros(len(traffic), dtype=np.int32)
    used_links: list[set[int]] = []
    # Sorting is stable: transfers with as many links stay in their order.
    for transfer in sorted(range(len(traffic)), key=lambda index: -len(paths[index])):
        links = set(paths[transfer])
        frame = 0
        while frame < len(used_links) and used_links[frame] & links:
            frame += 1
        if frame == len(used_links):
            used_links.append(set())
        used_links[frame] |= links
        frame_of[transfer] = frame
    return Schedule.of(frame_of, traffic.bottleneck_load, method="longest-first")
