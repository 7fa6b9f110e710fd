"""Tori, meshes and rings of any dimensions, and networks of few hops between any two switches: Dragonfly (Kim, Dally,
Scott, Abts 2008), HyperX (Ahn et al. 2009), generalised Kautz graphs (Imase and Itoh 1983), bipartite graphs; and
machines of GPUs.

Switches are s<x>_<y>... at the points of a torus, mesh (each with a host h<x>_<y>...) or HyperX, s<group>_<place> in a
Dragonfly, s0, s1, ... elsewhere; other hosts are numbered h0, h1, ... switch by switch. A ring is the torus of one
dimension: its names have one coordinate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from topologies.builder_values import Draft, LinkValues, check_size, integer
from topologies.errors import TopologyError
from topologies.network import DEFAULT_CAPACITY_BPS, Network

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
    n = integer("ring: the number of switches", n, 3, 50_000)
    return _grid("ring", (n,), True, Draft(**links))


def hypercube(*, d: int = 4, **links: Unpack[LinkValues]) -> Network:
    """The hypercube of 2^d switches: the torus of two in each of ``d`` dimensions, whose dimension order is e-cube.

    >>> len(hypercube(d=3).links)
    40
    """
    d = integer("hypercube: the number of dimensions", d, 1, MAX_DIMENSIONS)
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
    return draft.network(
        f"{family}:{written}", shape=list(sizes), wraps=wraps, routing="dimension-order"
    )


def checked_shape(family: str, shape: Shape, most: int) -> tuple[tuple[int, ...], str]:
    """The sizes of a grid's dimensions, as numbers and as written; TopologyError for what is no grid."""
    sizes = tuple(shape)
    written = "x".join(map(str, sizes))
    if not 1 <= len(sizes) <= MAX_DIMENSIONS:
        example = f"{family}:{'4x4' if family == 'hyperx' else '8x8'}"
        raise TopologyError(
            f"{family} of {len(sizes)} dimensions; give 1 to {MAX_DIMENSIONS}, as in {example}"
        )
    return tuple(
        integer(f"{family} {written}: the dimension", size, 2, most) for size in sizes
    ), written


def grid_name(letter: str, point: Sequence[int]) -> str:
    """The name of the switch ("s") or host ("h") at a point.

    >>> grid_name("s", (3, 0))
    's3_0'
    """
    return letter + "_".join(map(str, point))


def dragonfly(*, a: int = 4, h: int = 2, p: int = 2, **links: Unpack[LinkValues]) -> Network:
    """The largest Dragonfly of these numbers: a h + 1 groups of ``a`` switches, each with ``p`` hosts and ``h`` cables
    to other groups.

    Within a group every two switches share a cable, and every two groups share one: cable c of group g leads to group
    (g + c + 1), from its switch c // h (the "palmtree" arrangement). Three links at most between two switches. Raises
    TopologyError for numbers below 1 or a network too large.

    >>> net = dragonfly(a=4, h=2, p=2)
    >>> len(net.hosts), len(net.switches), len(net.links)
    (72, 36, 324)
    """
    a, h, p = (
        integer(f"dragonfly: {name}", value, 1, 1000)
        for name, value in (("a", a), ("h", h), ("p", p))
    )
    groups = a * h + 1
    check_size(groups * a * (1 + p), groups * a * (a - 1 + h + 2 * p))
    draft = Draft(**links)
    for g in range(groups):
        for place in range(a):
            draft.switch(f"s{g}_{place}", group=g, place=place)
        for one, other in itertools.combinations(range(a), 2):
            draft.cable(f"s{g}_{one}", f"s{g}_{other}")
    for g in range(groups):
        for c in range(a * h):
            there = (g + c + 1) % groups
            if g < there:
                back = (g - there - 1) % groups
                draft.cable(f"s{g}_{c // h}", f"s{there}_{back // h}")
    return _with_hosts(draft, p).network(f"dragonfly:{a},{h},{p}", a=a, h=h, p=p)


def hyperx(*, shape: Shape = (4, 4), p: int = 1, **links: Unpack[LinkValues]) -> Network:
    """A HyperX: a grid of switches in which every two that differ in one coordinate share a cable; ``p`` hosts a
    switch.

    As many links between two switches as coordinates in which they differ. Raises TopologyError for fewer than one or
    more than ten dimensions, one below 2, or a network too large.

    >>> net = hyperx(shape=(4, 4), p=2)
    >>> len(net.hosts), len(net.switches), len(net.out_links("s0_0"))
    (32, 16, 8)
    """
    sizes, written = checked_shape("hyperx", shape, 1000)
    p = integer("hyperx: p", p, 1, 1000)
    count = math.prod(sizes)
    check_size(count * (1 + p), count * (sum(sizes) - len(sizes) + 2 * p))
    draft = Draft(**links)
    for point in itertools.product(*map(range, sizes)):
        draft.switch(grid_name("s", point), coordinates=list(point))
        for dimension, size in enumerate(sizes):
            for further in range(point[dimension] + 1, size):
                there = (*point[:dimension], further, *point[dimension + 1 :])
                draft.cable(grid_name("s", point), grid_name("s", there))
    return _with_hosts(draft, p).network(f"hyperx:{written},{p}", sizes=list(sizes), p=p)


def kautz(*, n: int = 20, d: int = 4, **links: Unpack[LinkValues]) -> Network:
    """A generalised Kautz graph of ``n`` switches with a host each: one-way links lead from switch i to
    (-d i - a) mod n for a = 1 .. d, but not to itself.

    >>> [link.target for link in kautz(n=5, d=2).links if link.source == "s1" and link.target[0] == "s"]
    ['s2']
    """
    n = integer("kautz: n", n, 2, 10_000)
    d = integer("kautz: d", d, 1, n - 1)
    check_size(2 * n, n * (d + 2))
    draft = Draft(**links)
    for i in range(n):
        draft.switch(f"s{i}")
    for i in range(n):
        for there in dict.fromkeys((-d * i - a) % n for a in range(1, d + 1)):
            if there != i:
                draft.link(f"s{i}", f"s{there}")
    return _with_hosts(draft, 1).network(f"kautz:{n},{d}", n=n, d=d)


def bipartite(*, n: int = 4, m: int = 4, **links: Unpack[LinkValues]) -> Network:
    """The complete bipartite graph: a cable between each of the switches s0 to s(n - 1) and each of the ``m`` that
    follow, one host each.

    >>> len(bipartite(n=2, m=3).links)
    22
    """
    n, m = (integer(f"bipartite: {name}", value, 1, 1000) for name, value in (("n", n), ("m", m)))
    check_size(2 * (n + m), 2 * (n * m + n + m))
    draft = Draft(**links)
    for i in range(n + m):
        draft.switch(f"s{i}")
    for one, other in itertools.product(range(n), range(n, n + m)):
        draft.cable(f"s{one}", f"s{other}")
    return _with_hosts(draft, 1).network(f"bipartite:{n},{m}", n=n, m=m)


def gpu_machines(
    *,
    m: int = 2,
    g: int = 8,
    cables: int = 8,
    between_bps: float | None = None,
    **links: Unpack[LinkValues],
) -> Network:
    """``m`` machines of ``g`` GPUs (hosts) on a switch each; between any two machines so many parallel cables of
    ``between_bps``, by default a tenth of the other links' capacity.

    >>> [link.capacity_bps for link in gpu_machines(m=2, g=1, cables=1).links]
    [1000000.0, 1000000.0, 10000000.0, 10000000.0, 10000000.0, 10000000.0]
    """
    counts = (("m", m), ("g", g), ("cables", cables))
    m, g, cables = (integer(f"gpu-machines: {name}", value, 1, 1000) for name, value in counts)
    check_size(m * (1 + g), m * (m - 1) * cables + 2 * m * g)
    capacity = links.get("capacity_bps", DEFAULT_CAPACITY_BPS)
    slow: LinkValues = {
        **links,
        "capacity_bps": capacity / 10 if between_bps is None else between_bps,
    }
    between, draft = Draft(**slow), Draft(**links)
    for machine in range(m):
        draft.switch(f"s{machine}")
    for one, other in itertools.combinations(range(m), 2):
        for key in range(cables):
            between.cable(f"s{one}", f"s{other}", key)
    draft.links += between.links
    return _with_hosts(draft, g).network(f"gpu-machines:{m},{g}", m=m, g=g, cables=cables)


def _with_hosts(draft: Draft, hosts_each: int) -> Draft:
    """The draft with as many hosts on each of its switches, in their order."""
    for number, switch in enumerate(tuple(draft.nodes)):
        for index in range(number * hosts_each, (number + 1) * hosts_each):
            draft.host(f"h{index}", index=index)
            draft.cable(switch.id, f"h{index}")
    return draft
