"""The dateline that breaks the cycles of rings, so that virtual channels keep a torus free of deadlock.

A packet that has still to cross the dateline of its ring (the cable between its last and first switch) is of class 1, every
other of class 0; each class has half of the virtual channels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.interconnect.static_paths import Paths
from topologies import Network


def dateline_classes(network: Network, tables: NDArray[np.int32], paths: Paths) -> NDArray[np.uint8]:
    """V x R x T: 1 where the way from router r to target t has still to cross the dateline of the ring that it is in."""
    shape = [int(size) for size in network.attributes["shape"]]
    place = np.array(np.unravel_index(np.arange(paths.routers), shape))
    variants, routers, targets = tables.shape
    at_router = np.concatenate([np.arange(routers), np.asarray(paths.host_router)])[:targets]
    classes = np.zeros((variants, routers, targets), dtype=np.uint8)
    for variant in range(variants):
        there = np.where(tables[variant] >= 0, np.asarray(paths.link_target)[tables[variant]], 0)
        for dimension, size in enumerate(shape):
            here = place[dimension][:, None]
            step = (place[dimension][there] - here) % size
            moves = (step != 0) & (tables[variant] >= 0)
            goal = place[dimension][at_router][None, :]
            forward = step == 1
            crosses = np.where(forward, goal < here, goal > here)
            classes[variant] |= (moves & crosses & (size > 2)).astype(np.uint8)
    return classes
