"""Fat trees: the k-ary n-tree, and the three-level Clos network of k-port switches.

Switches are s<level>_<index>, level 0 next to the hosts h0, h1, ...; their attributes ``level`` and ``index`` say so too.
"""

from __future__ import annotations

from topologies.builder_values import bidirectional, check_size, integer
from topologies.errors import TopologyError
from topologies.network import DEFAULT_CAPACITY_BPS, Link, Network, Node


def fat_tree(*, k: int, n: int, capacity_bps: float = DEFAULT_CAPACITY_BPS, delay_s: float = 0.0) -> Network:
    """The k-ary n-tree: k^n hosts, n levels of k^(n-1) switches with k ports down and, below the top level, k up.

    Read an index as n-1 digits to the base k: switch (l, w) is joined to the k switches of level l+1 whose indices
    differ from w in digit l alone; host p is on switch p // k. Raises TopologyError for sizes out of bounds.

    >>> net = fat_tree(k=4, n=3)
    >>> len(net.hosts), len(net.switches)
    (64, 48)
    """
    integer("fat-tree: k", k, 2, 50_000)
    integer("fat-tree: n", n, 1, 16)
    width = k ** (n - 1)
    check_size(k * width + n * width, 2 * n * k * width)
    nodes = [switch_node(level, w) for level in range(n) for w in range(width)]
    links: list[Link] = []
    for p in range(k * width):
        nodes.append(_host_node(p))
        links += bidirectional(f"s0_{p // k}", f"h{p}", capacity_bps=capacity_bps, delay_s=delay_s)
    for level in range(n - 1):
        for w in range(width):
            for port in range(k):
                above = with_digit(w, level, port, k)
                links += bidirectional(
                    switch_name(level, w), switch_name(level + 1, above), capacity_bps=capacity_bps, delay_s=delay_s
                )
    return Network(
        name=f"fat-tree:{k},{n}",
        nodes=tuple(nodes),
        links=tuple(links),
        attributes={"family": "fat-tree", "k": k, "n": n, "routing": "d-mod-k"},
    )


def clos(*, k: int, capacity_bps: float = DEFAULT_CAPACITY_BPS, delay_s: float = 0.0) -> Network:
    """The three-level fat tree of k-port switches (k even): k pods, k^3/4 hosts, (k/2)^2 switches at the top.

    Pod p has the switches s0_<p*k/2>.. (k/2 hosts each) and s1_<p*k/2>..; the j-th of the latter in each pod is joined
    to s2_<j*k/2> .. s2_<j*k/2 + k/2 - 1>. Raises TopologyError where k is odd or out of bounds.

    >>> len(clos(k=4).hosts), len(clos(k=4).switches)
    (16, 20)
    """
    integer("clos: k", k, 2, 1000)
    if k % 2:
        raise TopologyError(f"clos: k {k} must be even: half of a switch's ports lead up, half down")
    half = k // 2
    check_size(k * half * half + 5 * half * half, 6 * k * half * half)
    nodes = [
        switch_node(level, w) for level, count in enumerate((k * half, k * half, half * half)) for w in range(count)
    ]
    links: list[Link] = []
    for p in range(k * half * half):
        nodes.append(_host_node(p))
        links += bidirectional(f"s0_{p // half}", f"h{p}", capacity_bps=capacity_bps, delay_s=delay_s)
    for edge in range(k * half):
        for j in range(half):
            middle = edge // half * half + j
            links += bidirectional(f"s0_{edge}", f"s1_{middle}", capacity_bps=capacity_bps, delay_s=delay_s)
    for middle in range(k * half):
        for j in range(half):
            top = middle % half * half + j
            links += bidirectional(f"s1_{middle}", f"s2_{top}", capacity_bps=capacity_bps, delay_s=delay_s)
    return Network(
        name=f"clos:{k}",
        nodes=tuple(nodes),
        links=tuple(links),
        attributes={"family": "clos", "k": k, "routing": "d-mod-k"},
    )


def with_digit(number: int, place: int, digit: int, base: int) -> int:
    """The number with the digit at that place (0 the lowest) replaced.

    >>> with_digit(27, 1, 0, 10)
    7
    """
    weight: int = base**place
    return number + (digit - number // weight % base) * weight


def switch_name(level: int, index: int) -> str:
    """The id of a switch: s<level>_<index>."""
    return f"s{level}_{index}"


def switch_node(level: int, index: int) -> Node:
    """A switch that says its place in its attributes too."""
    return Node(id=switch_name(level, index), kind="switch", attributes={"level": level, "index": index})


def _host_node(p: int) -> Node:
    return Node(id=f"h{p}", kind="host", attributes={"index": p})
