"""Networks of few hops between any two switches: Dragonfly (Kim, Dally, Scott, Abts 2008), HyperX (Ahn et al. 2009),
generalised Kautz graphs (Imase and Itoh 1983), bipartite graphs; and machines of GPUs.

Switches are s<group>_<place> in a Dragonfly, s<x>_<y>... in a HyperX, s0, s1, ... elsewhere; hosts are numbered h0, h1,
... switch by switch.
"""

from __future__ import annotations

import itertools
import math
from typing import Unpack

from topologies.builder_values import Draft, LinkValues, check_size, integer
from topologies.network import DEFAULT_CAPACITY_BPS, Network
from topologies.torus import Shape, checked_shape, grid_name


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
    for name, value in (("a", a), ("h", h), ("p", p)):
        integer(f"dragonfly: {name}", value, 1, 1000)
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
    integer("hyperx: p", p, 1, 1000)
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
    integer("kautz: n", n, 2, 10_000)
    integer("kautz: d", d, 1, n - 1)
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
    for name, value in (("n", n), ("m", m)):
        integer(f"bipartite: {name}", value, 1, 1000)
    check_size(2 * (n + m), 2 * (n * m + n + m))
    draft = Draft(**links)
    for i in range(n + m):
        draft.switch(f"s{i}")
    for one, other in itertools.product(range(n), range(n, n + m)):
        draft.cable(f"s{one}", f"s{other}")
    return _with_hosts(draft, 1).network(f"bipartite:{n},{m}", n=n, m=m)


def gpu_machines(
    *, m: int = 2, g: int = 8, cables: int = 8, between_bps: float | None = None, **links: Unpack[LinkValues]
) -> Network:
    """``m`` machines of ``g`` GPUs (hosts) on a switch each; between any two machines so many parallel cables of
    ``between_bps``, by default a tenth of the other links' capacity.

    >>> [link.capacity_bps for link in gpu_machines(m=2, g=1, cables=1).links]
    [1000000.0, 1000000.0, 10000000.0, 10000000.0, 10000000.0, 10000000.0]
    """
    for name, value in (("m", m), ("g", g), ("cables", cables)):
        integer(f"gpu-machines: {name}", value, 1, 1000)
    check_size(m * (1 + g), m * (m - 1) * cables + 2 * m * g)
    capacity = links.get("capacity_bps", DEFAULT_CAPACITY_BPS)
    slow: LinkValues = {**links, "capacity_bps": capacity / 10 if between_bps is None else between_bps}
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
