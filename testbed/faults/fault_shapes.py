"""Spatial fault patterns on a 2-D torus (document 003, 5.6.2): line and square (convex), L and U (concave).

A shape is a walk over neighbouring switches; the cables along the walk fail, so no switch is ever cut off.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from testbed.errors import InputError
from testbed.faults.link_faults import LinkFault, check_faults
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


def shape_faults(
    network: Network,
    shape: str,
    *,
    size: int,
    corner: tuple[int, int] | None = None,
    seed: int | Sequence[int] = 1,
    down_s: float = 0.0,
    up_s: float | None = None,
) -> tuple[LinkFault, ...]:
    """The faults of a shape whose walk starts at ``corner`` (None: drawn from the seed).

    Raises InputError for a network that is no 2-D torus, and a shape that does not fit in it.
    """
    sizes = network.attributes.get("shape")
    if not (isinstance(sizes, list) and len(sizes) == 2 and network.attributes.get("wraps") is True):
        raise InputError(f"fault shape {shape}: {network.name} is no 2-D torus; take one, as torus:8x8")
    if size >= min(sizes):
        raise InputError(f"fault shape {shape}: legs of {size} links do not fit in {network.name}; give fewer")
    chance = np.random.default_rng(seed)
    x0, y0 = corner if corner is not None else (int(chance.integers(sizes[0])), int(chance.integers(sizes[1])))
    walk = [f"s{(x0 + x) % sizes[0]}_{(y0 + y) % sizes[1]}" for x, y in shape_walk(shape, size)]
    faults = [LinkFault(first=a, second=b, down_s=down_s, up_s=up_s) for a, b in itertools.pairwise(walk)]
    return check_faults(network, faults)
