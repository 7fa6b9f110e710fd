"""Dimension order as tables, with either way where both are as long, and the dateline that breaks the cycles of rings.

A packet that has still to cross the dateline of its ring (the cable between its last and first switch) is of class 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.interconnect.ft_drb.ft_drb_arrays import NONE, Paths
from topologies import Network


def grid_tables(network: Network, paths: Paths, *, both_ties: bool) -> NDArray[np.int32]:
    """V x R x R: the link that leaves router r for router t. Variant 0 breaks ties to +, variant 1 (``both_ties``) to -."""
    plus = np.asarray(paths.next_link)[:, : paths.routers]
    if not both_ties or not network.attributes["wraps"]:
        return np.ascontiguousarray(plus)[None, :, :]
    shape = [int(size) for size in network.attributes["shape"]]
    place = np.array(np.unravel_index(np.arange(paths.routers), shape))
    link_between = {
        (int(a), int(b)): i
        for i, (a, b) in reversed(list(enumerate(zip(paths.link_source, paths.link_target, strict=True))))
        if a >= 0 <= b
    }
    minus = plus.copy()
    settled = np.zeros((paths.routers, paths.routers), dtype=bool)
    for dimension, size in enumerate(shape):
        ahead = (place[dimension][None, :] - place[dimension][:, None]) % size
        there = place.copy()
        there[dimension] = (there[dimension] - 1) % size
        neighbour = np.ravel_multi_index(tuple(there), tuple(shape))
        back = np.array([link_between.get((r, int(neighbour[r])), NONE) for r in range(paths.routers)], dtype=np.int32)
        tied = (2 * ahead == size) & ~settled
        minus = np.where(tied, back[:, None], minus)
        settled |= ahead != 0
    return np.stack([np.ascontiguousarray(plus), minus])


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
