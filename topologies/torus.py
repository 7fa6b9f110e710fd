"""Tori, meshes and rings of any dimensions: a switch s<x>_<y>... and a host h<x>_<y>... at every point of the grid.

A ring is the torus of one dimension: its names have one coordinate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from topologies.builder_values import bidirectional, check_size, integer
from topologies.errors import TopologyError
from topologies.network import DEFAULT_CAPACITY_BPS, Link, Network, Node

MAX_DIMENSIONS = 10


def torus(*, shape: Sequence[int], capacity_bps: float = DEFAULT_CAPACITY_BPS, delay_s: float = 0.0) -> Network:
    """A torus of ``shape[0]`` by ``shape[1]`` by ... switches, each with one host.

    A dimension of two switches has one cable between them, not two. Raises TopologyError for fewer than one or more
    than ten dimensions, one below 2, or a network too large.

    >>> net = torus(shape=(3, 3))
    >>> net.link("s0_0", "s2_0").label, net.link("h1_2", "s1_2").label
    ('s0_0->s2_0', 'h1_2->s1_2')
    """
    return _grid("torus", shape, wraps=True, capacity_bps=capacity_bps, delay_s=delay_s)


def mesh(*, shape: Sequence[int], capacity_bps: float = DEFAULT_CAPACITY_BPS, delay_s: float = 0.0) -> Network:
    """A mesh: the torus without the cables around its edges. Names and errors as ``torus``."""
    return _grid("mesh", shape, wraps=False, capacity_bps=capacity_bps, delay_s=delay_s)


def ring(*, switches: int, capacity_bps: float = DEFAULT_CAPACITY_BPS, delay_s: float = 0.0) -> Network:
    """A ring of three switches or more, s0, s1, ..., each with one host h0, h1, ...

    >>> [link.label for link in ring(switches=3).links if link.source == "s0"]
    ['s0->s1', 's0->h0', 's0->s2']
    """
    integer("ring: the number of switches", switches, 3, 50_000)
    return _grid("ring", (switches,), wraps=True, capacity_bps=capacity_bps, delay_s=delay_s)


def _grid(family: str, shape: Sequence[int], *, wraps: bool, capacity_bps: float, delay_s: float) -> Network:
    sizes = tuple(shape)
    written = "x".join(map(str, sizes))
    if not 1 <= len(sizes) <= MAX_DIMENSIONS:
        raise TopologyError(f"{family} of {len(sizes)} dimensions; give 1 to {MAX_DIMENSIONS}, as in {family}:8x8")
    for size in sizes:
        integer(f"{family} {written}: the dimension", size, 2, 50_000)
    points = math.prod(sizes)
    check_size(2 * points, 2 * points * (len(sizes) + 1))
    switches, hosts, links = [], [], []
    for point in itertools.product(*map(range, sizes)):
        switch, host = grid_name("s", point), grid_name("h", point)
        place = {"coordinates": list(point)}
        position = (float(point[0]), float(point[1])) if len(sizes) == 2 else None
        switches.append(Node(id=switch, kind="switch", position=position, attributes=place))
        hosts.append(Node(id=host, kind="host", attributes=place))
        links += _cables_from(point, sizes, wraps, capacity_bps, delay_s)
        links += bidirectional(switch, host, capacity_bps=capacity_bps, delay_s=delay_s)
    return Network(
        name=f"{family}:{written}",
        nodes=(*switches, *hosts),
        links=tuple(links),
        attributes={"family": family, "shape": list(sizes), "wraps": wraps, "routing": "dimension-order"},
    )


def _cables_from(
    point: tuple[int, ...], sizes: tuple[int, ...], wraps: bool, capacity_bps: float, delay_s: float
) -> list[Link]:
    """Cables from a point to its neighbour one further in each dimension."""
    links: list[Link] = []
    for dimension, size in enumerate(sizes):
        at = point[dimension]
        if at == size - 1 and (not wraps or size == 2):
            continue
        further = (*point[:dimension], (at + 1) % size, *point[dimension + 1 :])
        links += bidirectional(
            grid_name("s", point), grid_name("s", further), capacity_bps=capacity_bps, delay_s=delay_s
        )
    return links


def grid_name(letter: str, point: Sequence[int]) -> str:
    """The name of the switch ("s") or host ("h") at a point.

    >>> grid_name("s", (3, 0))
    's3_0'
    """
    return letter + "_".join(map(str, point))
