"""Shapes of neighbouring cables that fail together on a 2-D torus: line and square (convex), L and U (concave).

A shape is a walk over neighbouring switches, and the cables along the walk fail, so that no switch is ever cut off
(Zarza 2011, 5.6.2).
"""

import itertools
from collections.abc import Sequence

import numpy as np

from testbed.errors import InputError
from testbed.faults.cable_faults import cable_fault, check_faults
from testbed.faults.fault import Fault
from topologies import Network

SHAPES = ("line", "square", "L", "U")
_WALKS = {
    "line": ((0, 1),),
    "square": ((1, 0), (0, 1), (-1, 0), (0, -1)),
    "L": ((0, -1), (1, 0)),
    "U": ((0, -1), (1, 0), (0, 1)),
}


def shape_walk(shape: str, size: int) -> tuple[tuple[int, int], ...]:
    """The points of the walk, from (0, 0): each leg of the shape is ``size`` steps long.

    >>> shape_walk("L", 2)
    ((0, 0), (0, -1), (0, -2), (1, -2), (2, -2))
    """
    if shape not in _WALKS:
        raise InputError(f"fault shape {shape!r} is unknown; give one of {', '.join(SHAPES)}")
    if size < 1:
        raise InputError(f"fault shape {shape}: legs of {size} links; give 1 or more")
    points = [(0, 0)]
    for dx, dy in _WALKS[shape]:
        for _ in range(size):
            points.append((points[-1][0] + dx, points[-1][1] + dy))
    return tuple(points)


def shape_faults(network: Network, shape: str, *, size: int, seed: int | Sequence[int] = 1) -> tuple[Fault, ...]:
    """The permanent faults of a shape whose walk starts at a place that the seed draws.

    Raises InputError for a network that is no 2-D torus, and a shape that does not fit in it.
    """
    sizes = network.attributes.get("shape")
    if not (isinstance(sizes, list) and len(sizes) == 2 and network.attributes.get("wraps") is True):
        raise InputError(f"fault shape {shape}: {network.name} is no 2-D torus; take one, as torus:8x8")
    if size >= min(sizes):
        raise InputError(f"fault shape {shape}: legs of {size} links do not fit in {network.name}; give fewer")
    chance = np.random.default_rng(seed)
    x0, y0 = int(chance.integers(sizes[0])), int(chance.integers(sizes[1]))
    walk = [f"s{(x0 + x) % sizes[0]}_{(y0 + y) % sizes[1]}" for x, y in shape_walk(shape, size)]
    return check_faults(network, [cable_fault(pair) for pair in itertools.pairwise(walk)])
