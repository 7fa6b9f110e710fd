"""Networks of few hops between any two switches: Dragonfly (Kim, Dally, Scott, Abts 2008) and HyperX (Ahn et al. 2009).

Switches are s<group>_<place> in a Dragonfly, and s<x>_<y>... in a HyperX; hosts are numbered h0, h1, ... switch by switch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from topologies.builder_values import bidirectional, check_size, integer
from topologies.errors import TopologyError
from topologies.network import DEFAULT_CAPACITY_BPS, Link, Network, Node
from topologies.torus import MAX_DIMENSIONS, grid_name


def dragonfly(*, a: int, h: int, p: int, capacity_bps: float = DEFAULT_CAPACITY_BPS, delay_s: float = 0.0) -> Network:
    """The largest Dragonfly of these numbers: a h + 1 groups of ``a`` switches, each with ``p`` hosts and ``h`` cables to other groups.

    Within a group every two switches share a cable, and every two groups share one: cable c of group g leads to group (g + c + 1),
    from its switch c // h (the "palmtree" arrangement). Three links at most between two switches. Raises TopologyError for
    numbers below 1 or a network too large.

    >>> net = dragonfly(a=4, h=2, p=2)
    >>> len(net.hosts), len(net.switches), len(net.links)
    (72, 36, 324)
    """
    for name, value in (("a", a), ("h", h), ("p", p)):
        integer(f"dragonfly: {name}", value, 1, 1000)
    groups = a * h + 1
    check_size(groups * a * (1 + p), groups * a * (a - 1 + h + 2 * p))
    switches = [
        Node(id=f"s{g}_{place}", kind="switch", attributes={"group": g, "place": place})
        for g in range(groups)
        for place in range(a)
    ]
    pairs = [
        (f"s{g}_{one}", f"s{g}_{other}") for g in range(groups) for one, other in itertools.combinations(range(a), 2)
    ]
    for g in range(groups):
        for c in range(a * h):
            there = (g + c + 1) % groups
            if g < there:
                back = (g - there - 1) % groups
                pairs.append((f"s{g}_{c // h}", f"s{there}_{back // h}"))
    attributes = {"family": "dragonfly", "a": a, "h": h, "p": p, "routing": "shortest-path"}
    return _direct(f"dragonfly:{a},{h},{p}", switches, pairs, attributes, capacity_bps, delay_s)


def hyperx(
    *, shape: Sequence[int], p: int = 1, capacity_bps: float = DEFAULT_CAPACITY_BPS, delay_s: float = 0.0
) -> Network:
    """A HyperX: a grid of switches in which every two that differ in one coordinate share a cable; ``p`` hosts a switch.

    As many links between two switches as coordinates in which they differ. Raises TopologyError for fewer than one or more than
    ten dimensions, one below 2, or a network too large.

    >>> net = hyperx(shape=(4, 4), p=2)
    >>> len(net.hosts), len(net.switches), len(net.out_links("s0_0"))
    (32, 16, 8)
    """
    sizes = tuple(shape)
    written = "x".join(map(str, sizes))
    if not 1 <= len(sizes) <= MAX_DIMENSIONS:
        raise TopologyError(f"hyperx of {len(sizes)} dimensions; give 1 to {MAX_DIMENSIONS}, as in hyperx:4x4")
    for size in sizes:
        integer(f"hyperx {written}: the dimension", size, 2, 1000)
    integer("hyperx: p", p, 1, 1000)
    count = math.prod(sizes)
    check_size(count * (1 + p), count * (sum(sizes) - len(sizes) + 2 * p))
    points = list(itertools.product(*map(range, sizes)))
    switches = [Node(id=grid_name("s", x), kind="switch", attributes={"coordinates": list(x)}) for x in points]
    pairs = []
    for point in points:
        for dimension, size in enumerate(sizes):
            for further in range(point[dimension] + 1, size):
                there = (*point[:dimension], further, *point[dimension + 1 :])
                pairs.append((grid_name("s", point), grid_name("s", there)))
    attributes = {"family": "hyperx", "sizes": list(sizes), "p": p, "routing": "shortest-path"}
    return _direct(f"hyperx:{written},{p}", switches, pairs, attributes, capacity_bps, delay_s)


def _direct(
    name: str,
    switches: Sequence[Node],
    pairs: Sequence[tuple[str, str]],
    attributes: dict[str, Any],
    capacity_bps: float,
    delay_s: float,
) -> Network:
    """Switches, each with as many hosts as the attribute ``p`` says, and the cables between them."""
    p = int(attributes["p"])
    links: list[Link] = []
    for one, other in pairs:
        links += bidirectional(one, other, capacity_bps=capacity_bps, delay_s=delay_s)
    hosts = [Node(id=f"h{i}", kind="host", attributes={"index": i}) for i in range(len(switches) * p)]
    for i, host in enumerate(hosts):
        links += bidirectional(switches[i // p].id, host.id, capacity_bps=capacity_bps, delay_s=delay_s)
    return Network(name=name, nodes=(*switches, *hosts), links=tuple(links), attributes=attributes)
