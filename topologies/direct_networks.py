"""Direct networks: tori, meshes, rings and networks with few hops between any two switches.

The latter are Dragonfly (Kim, Dally, Scott, Abts 2008), HyperX (Ahn et al. 2009), generalised Kautz
graphs (Imase and Itoh 1983), bipartite graphs, and machines of GPUs.

Names: the switches of a torus, a mesh or a HyperX are s<x>_<y>..., after their coordinates; tori
and meshes have one host h<x>_<y>... on each. A ring is a torus of one dimension, so its names have
one coordinate. The switches of a Dragonfly are s<group>_<index>. Elsewhere switches are s0, s1, ...
All other hosts are numbered h0, h1, ... switch by switch.
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

# Maximum number of dimensions of a grid, and of switches in one dimension.
MAX_DIMENSIONS = 10
_MAX_GRID_SIZE = 50_000
_MAX_HYPERX_SIZE = 1000
# The number of switches in each dimension.
Shape = Sequence[int]


def torus(*, shape: Shape = (8, 8), **links: Unpack[LinkValues]) -> Network:
    """Return a torus with one host on each switch.

    A dimension of two switches has one cable between them, not two.

    Args:
        shape: Number of switches in each dimension: 1 to 10 dimensions of 2 or more.
        **links: Capacity and delay of all links.

    Raises:
        TopologyError: The shape is invalid, or the network too large.

    >>> net = torus(shape=(3, 3))
    >>> net.link("s0_0", "s2_0").label, net.link("h1_2", "s1_2").label
    ('s0_0->s2_0', 'h1_2->s1_2')
    """
    return _grid("torus", shape, True, Draft(**links))


def mesh(*, shape: Shape = (8, 8), **links: Unpack[LinkValues]) -> Network:
    """Return a mesh: a torus without the cables that wrap around.

    The arguments, names and errors are those of ``torus``.
    """
    return _grid("mesh", shape, False, Draft(**links))


def ring(*, n: int = 8, **links: Unpack[LinkValues]) -> Network:
    """Return a ring of switches s0, s1, ... with one host h0, h1, ... on each.

    Args:
        n: Number of switches, at least 3.
        **links: Capacity and delay of all links.

    >>> [link.label for link in ring(n=3).links if link.source == "s0"]
    ['s0->s1', 's0->h0', 's0->s2']
    """
    n = integer("ring: the number of switches", n, 3, _MAX_GRID_SIZE)
    return _grid("ring", (n,), True, Draft(**links))


def hypercube(*, d: int = 4, **links: Unpack[LinkValues]) -> Network:
    """Return the hypercube of 2^d switches, with one host on each.

    It is the torus of two switches in each dimension; its dimension-order routing is e-cube.

    Args:
        d: Number of dimensions.
        **links: Capacity and delay of all links.

    >>> len(hypercube(d=3).links)
    40
    """
    d = integer("hypercube: the number of dimensions", d, 1, MAX_DIMENSIONS)
    return replace(_grid("torus", (2,) * d, True, Draft(**links)), name=f"hypercube:{d}")


def _grid(family: str, shape: Shape, wraps: bool, draft: Draft) -> Network:
    """Return a torus or a mesh.

    Args:
        family: Name of the family in the catalogue.
        shape: Number of switches in each dimension.
        wraps: Whether cables connect the two ends of each row.
        draft: An empty draft with the values of the links.
    """
    sizes, written = checked_shape(family, shape, _MAX_GRID_SIZE)
    count = math.prod(sizes)
    check_size(2 * count, 2 * count * (len(sizes) + 1))
    points = list(itertools.product(*map(range, sizes)))
    for point in points:
        position = (float(point[0]), float(point[1])) if len(sizes) == 2 else None
        draft.switch(grid_name("s", point), position, coordinates=list(point))
    for point in points:
        draft.host(grid_name("h", point), coordinates=list(point))
        for dimension, size in enumerate(sizes):
            coordinate = point[dimension]
            if coordinate < size - 1 or (wraps and size > 2):
                neighbour = _with_coordinate(point, dimension, (coordinate + 1) % size)
                draft.cable(grid_name("s", point), grid_name("s", neighbour))
        draft.cable(grid_name("s", point), grid_name("h", point))
    return draft.network(
        f"{family}:{written}", shape=list(sizes), wraps=wraps, routing="dimension-order"
    )


def _with_coordinate(point: tuple[int, ...], dimension: int, value: int) -> tuple[int, ...]:
    """Return a point with one of its coordinates replaced."""
    return (*point[:dimension], value, *point[dimension + 1 :])


def checked_shape(family: str, shape: Shape, limit: int) -> tuple[tuple[int, ...], str]:
    """Check the shape of a grid.

    Args:
        family: Name of the family in the catalogue, for messages.
        shape: Number of switches in each dimension.
        limit: Maximum number of switches in one dimension.

    Returns:
        The shape, and its text as in ``8x8``.

    Raises:
        TopologyError: The number of dimensions or a size is out of bounds.
    """
    sizes = tuple(shape)
    written = "x".join(map(str, sizes))
    if not 1 <= len(sizes) <= MAX_DIMENSIONS:
        example = "4x4" if family == "hyperx" else "8x8"
        raise TopologyError(
            f"{family} of {len(sizes)} dimensions; give 1 to {MAX_DIMENSIONS}, as in"
            f" {family}:{example}"
        )
    what = f"{family} {written}: the dimension"
    return tuple(integer(what, size, 2, limit) for size in sizes), written


def grid_name(letter: str, point: Sequence[int]) -> str:
    """Return the id of the switch ("s") or the host ("h") at a point of a grid.

    >>> grid_name("s", (3, 0))
    's3_0'
    """
    return letter + "_".join(map(str, point))


def dragonfly(*, a: int = 4, h: int = 2, p: int = 2, **links: Unpack[LinkValues]) -> Network:
    """Return the largest Dragonfly of switches of a given size: a * h + 1 groups.

    Every two switches of a group share a cable, and every two groups share one cable. Cable c of
    group g leads from its switch c // h to group g + c + 1 (the "palmtree" arrangement). Two
    switches are at most three links apart.

    Args:
        a: Number of switches in each group.
        h: Number of cables from each switch to other groups.
        p: Number of hosts on each switch.
        **links: Capacity and delay of all links.

    Raises:
        TopologyError: A number is less than 1, or the network is too large.

    >>> net = dragonfly(a=4, h=2, p=2)
    >>> len(net.hosts), len(net.switches), len(net.links)
    (72, 36, 324)
    """
    a = integer("dragonfly: a", a, 1, 1000)
    h = integer("dragonfly: h", h, 1, 1000)
    p = integer("dragonfly: p", p, 1, 1000)
    groups = a * h + 1
    check_size(groups * a * (1 + p), groups * a * (a - 1 + h + 2 * p))
    draft = Draft(**links)
    for group in range(groups):
        for index in range(a):
            draft.switch(f"s{group}_{index}", group=group, place=index)
        for first, second in itertools.combinations(range(a), 2):
            draft.cable(f"s{group}_{first}", f"s{group}_{second}")
    for group in range(groups):
        for cable in range(a * h):
            other_group = (group + cable + 1) % groups
            # Each cable is met from both of its groups; it is added once.
            if group < other_group:
                other_cable = (group - other_group - 1) % groups
                draft.cable(f"s{group}_{cable // h}", f"s{other_group}_{other_cable // h}")
    return _with_hosts(draft, p).network(f"dragonfly:{a},{h},{p}", a=a, h=h, p=p)


def hyperx(*, shape: Shape = (4, 4), p: int = 1, **links: Unpack[LinkValues]) -> Network:
    """Return a HyperX: a grid of switches with a cable between every two of one row.

    Two switches are in one row if they differ in one coordinate. The number of links between two
    switches is the number of coordinates in which they differ.

    Args:
        shape: Number of switches in each dimension: 1 to 10 dimensions of 2 or more.
        p: Number of hosts on each switch.
        **links: Capacity and delay of all links.

    Raises:
        TopologyError: The shape is invalid, or the network too large.

    >>> net = hyperx(shape=(4, 4), p=2)
    >>> len(net.hosts), len(net.switches), len(net.out_links("s0_0"))
    (32, 16, 8)
    """
    sizes, written = checked_shape("hyperx", shape, _MAX_HYPERX_SIZE)
    p = integer("hyperx: p", p, 1, 1000)
    count = math.prod(sizes)
    check_size(count * (1 + p), count * (sum(sizes) - len(sizes) + 2 * p))
    draft = Draft(**links)
    for point in itertools.product(*map(range, sizes)):
        draft.switch(grid_name("s", point), coordinates=list(point))
        for dimension, size in enumerate(sizes):
            for coordinate in range(point[dimension] + 1, size):
                neighbour = _with_coordinate(point, dimension, coordinate)
                draft.cable(grid_name("s", point), grid_name("s", neighbour))
    return _with_hosts(draft, p).network(f"hyperx:{written},{p}", sizes=list(sizes), p=p)


def kautz(*, n: int = 20, d: int = 4, **links: Unpack[LinkValues]) -> Network:
    """Return a generalised Kautz graph of switches with one host on each.

    One-way links lead from switch i to the switches (-d * i - a) mod n for a = 1 .. d, except to
    itself.

    Args:
        n: Number of switches.
        d: Number of links out of a switch, less than ``n``.
        **links: Capacity and delay of all links.

    >>> net = kautz(n=5, d=2)
    >>> [link.target for link in net.links if link.source == "s1" and link.target[0] == "s"]
    ['s2']
    """
    n = integer("kautz: n", n, 2, 10_000)
    d = integer("kautz: d", d, 1, n - 1)
    check_size(2 * n, n * (d + 2))
    draft = Draft(**links)
    for i in range(n):
        draft.switch(f"s{i}")
    for i in range(n):
        for target in dict.fromkeys((-d * i - a) % n for a in range(1, d + 1)):
            if target != i:
                draft.link(f"s{i}", f"s{target}")
    return _with_hosts(draft, 1).network(f"kautz:{n},{d}", n=n, d=d)


def bipartite(*, n: int = 4, m: int = 4, **links: Unpack[LinkValues]) -> Network:
    """Return a complete bipartite graph of switches with one host on each.

    A cable connects each of the first ``n`` switches, s0 to s(n - 1), with each of the ``m``
    switches after them.

    Args:
        n: Number of switches on one side.
        m: Number of switches on the other side.
        **links: Capacity and delay of all links.

    >>> len(bipartite(n=2, m=3).links)
    22
    """
    n = integer("bipartite: n", n, 1, 1000)
    m = integer("bipartite: m", m, 1, 1000)
    check_size(2 * (n + m), 2 * (n * m + n + m))
    draft = Draft(**links)
    for i in range(n + m):
        draft.switch(f"s{i}")
    for left, right in itertools.product(range(n), range(n, n + m)):
        draft.cable(f"s{left}", f"s{right}")
    return _with_hosts(draft, 1).network(f"bipartite:{n},{m}", n=n, m=m)


def gpu_machines(
    *,
    m: int = 2,
    g: int = 8,
    cables: int = 8,
    between_bps: float | None = None,
    **links: Unpack[LinkValues],
) -> Network:
    """Return machines of GPUs: each machine is a switch, and its GPUs are hosts on it.

    Args:
        m: Number of machines.
        g: Number of GPUs of each machine.
        cables: Number of parallel cables between any two machines.
        between_bps: Capacity of these cables in bits per second; by default a tenth of the
            capacity of the other links.
        **links: Capacity and delay of all other links; the delay is that of the cables too.

    >>> [link.capacity_bps for link in gpu_machines(m=2, g=1, cables=1).links]
    [1000000.0, 1000000.0, 10000000.0, 10000000.0, 10000000.0, 10000000.0]
    """
    m = integer("gpu-machines: m", m, 1, 1000)
    g = integer("gpu-machines: g", g, 1, 1000)
    cables = integer("gpu-machines: cables", cables, 1, 1000)
    check_size(m * (1 + g), m * (m - 1) * cables + 2 * m * g)
    if between_bps is None:
        between_bps = links.get("capacity_bps", DEFAULT_CAPACITY_BPS) / 10
    values_between: LinkValues = {**links, "capacity_bps": between_bps}
    draft_between = Draft(**values_between)
    draft = Draft(**links)
    for machine in range(m):
        draft.switch(f"s{machine}")
    for first, second in itertools.combinations(range(m), 2):
        for key in range(cables):
            draft_between.cable(f"s{first}", f"s{second}", key)
    draft.links += draft_between.links
    return _with_hosts(draft, g).network(f"gpu-machines:{m},{g}", m=m, g=g, cables=cables)


def _with_hosts(draft: Draft, hosts_per_switch: int) -> Draft:
    """Add hosts to each switch of a draft, in the order of the switches, and return the draft."""
    switches = tuple(draft.nodes)
    index = 0
    for switch in switches:
        for _ in range(hosts_per_switch):
            draft.host(f"h{index}", index=index)
            draft.cable(switch.id, f"h{index}")
            index += 1
    return draft
