"""Networks of few hops between any two switches: Dragonfly (Kim, Dally, Scott, Abts 2008) and HyperX (Ahn et al. 2009).

Switches are s<group>_<place> in a Dragonfly, and s<x>_<y>... in a HyperX; hosts are numbered h0, h1, ... switch by
switch.
"""

from __future__ import annotations

import itertools
import math
from typing import Unpack

from topologies.builder_values import Draft, LinkValues, check_size, integer
from topologies.network import Network
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


def _with_hosts(draft: Draft, hosts_each: int) -> Draft:
    """The draft with as many hosts on each of its switches, in their order."""
    for number, switch in enumerate(tuple(draft.nodes)):
        for index in range(number * hosts_each, (number + 1) * hosts_each):
            draft.host(f"h{index}", index=index)
            draft.cable(switch.id, f"h{index}")
    return draft
