"""Tori, meshes and rings of any dimensions: a switch s<x>_<y>... and a host h<x>_<y>... at every point of the grid.

A ring is the torus of one dimension: its names have one coordinate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from topologies.builder_values import Draft, LinkValues, check_size, integer
from topologies.errors import TopologyError
from topologies.network import Network

MAX_DIMENSIONS = 10
Shape = Sequence[int]
"""Switches in each dimension."""


def torus(*, shape: Shape = (8, 8), **links: Unpack[LinkValues]) -> Network:
    """A torus of ``shape[0]`` by ``shape[1]`` by ... switches, each with one host.

    A dimension of two switches has one cable between them, not two. Raises TopologyError for fewer than one or more
    than ten dimensions, one below 2, or a network too large.

    >>> net = torus(shape=(3, 3))
    >>> net.link("s0_0", "s2_0").label, net.link("h1_2", "s1_2").label
    ('s0_0->s2_0', 'h1_2->s1_2')
    """
    return _grid("torus", shape, True, Draft(**links))


def mesh(*, shape: Shape = (8, 8), **links: Unpack[LinkValues]) -> Network:
    """A mesh: the torus without the cables around its edges. Names and errors as ``torus``."""
    return _grid("mesh", shape, False, Draft(**links))


def ring(*, n: int = 8, **links: Unpack[LinkValues]) -> Network:
    """A ring of three switches or more, s0, s1, ..., each with one host h0, h1, ...

    >>> [link.label for link in ring(n=3).links if link.source == "s0"]
    ['s0->s1', 's0->h0', 's0->s2']
    """
    integer("ring: the number of switches", n, 3, 50_000)
    return _grid("ring", (n,), True, Draft(**links))


def hypercube(*, d: int = 4, **links: Unpack[LinkValues]) -> Network:
    """The hypercube of 2^d switches: the torus of two in each of ``d`` dimensions, whose dimension order is e-cube.

    >>> len(hypercube(d=3).links)
    40
    """
    integer("hypercube: the number of dimensions", d, 1, MAX_DIMENSIONS)
    return replace(_grid("torus", (2,) * d, True, Draft(**links)), name=f"hypercube:{d}")


def _grid(family: str, shape: Shape, wraps: bool, draft: Draft) -> Network:
    sizes, written = checked_shape(family, shape, 50_000)
    count = math.prod(sizes)
    check_size(2 * count, 2 * count * (len(sizes) + 1))
    points = list(itertools.product(*map(range, sizes)))
    for point in points:
        position = (float(point[0]), float(point[1])) if len(sizes) == 2 else None
        draft.switch(grid_name("s", point), position, coordinates=list(point))
    for point in points:
        draft.host(grid_name("h", point), coordinates=list(point))
        for dimension, size in enumerate(sizes):
            at = point[dimension]
            if at < size - 1 or (wraps and size > 2):
                further = (*point[:dimension], (at + 1) % size, *point[dimension + 1 :])
                draft.cable(grid_name("s", point), grid_name("s", further))
        draft.cable(grid_name("s", point), grid_name("h", point))
    return draft.network(f"{family}:{written}", shape=list(sizes), wraps=wraps, routing="dimension-order")


def checked_shape(family: str, shape: Shape, most: int) -> tuple[tuple[int, ...], str]:
    """The sizes of a grid's dimensions, as numbers and as written; TopologyError for what is no grid."""
    sizes = tuple(shape)
    written = "x".join(map(str, sizes))
    if not 1 <= len(sizes) <= MAX_DIMENSIONS:
        example = f"{family}:{'4x4' if family == 'hyperx' else '8x8'}"
        raise TopologyError(f"{family} of {len(sizes)} dimensions; give 1 to {MAX_DIMENSIONS}, as in {example}")
    for size in sizes:
        integer(f"{family} {written}: the dimension", size, 2, most)
    return sizes, written


def grid_name(letter: str, point: Sequence[int]) -> str:
    """The name of the switch ("s") or host ("h") at a point.

    >>> grid_name("s", (3, 0))
    's3_0'
    """
    return letter + "_".join(map(str, point))
