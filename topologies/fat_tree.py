"""Fat trees: the k-ary n-tree, and the three-level Clos network of k-port switches.

Switches are s<level>_<index>, level 0 next to the hosts h0, h1, ...; their attributes ``level`` and ``index`` say so
too.
"""

from typing import Unpack

from topologies.builder_values import Draft, LinkValues, check_size, integer
from topologies.errors import TopologyError
from topologies.network import Network


def fat_tree(*, k: int = 4, n: int = 3, **links: Unpack[LinkValues]) -> Network:
    """The k-ary n-tree: k^n hosts, n levels of k^(n-1) switches with k ports down and, below the top level, k up.

    Read an index as n-1 digits to the base k: switch (l, w) is joined to the k switches of level l+1 whose indices
    differ from w in digit l alone; host p is on switch p // k. Raises TopologyError for sizes out of bounds.

    >>> net = fat_tree(k=4, n=3)
    >>> len(net.hosts), len(net.switches)
    (64, 48)
    """
    k = integer("fat-tree: k", k, 2, 50_000)
    n = integer("fat-tree: n", n, 1, 16)
    width = k ** (n - 1)
    check_size(k * width + n * width, 2 * n * k * width)
    draft = _with_hosts(Draft(**links), [width] * n, k)
    for level in range(n - 1):
        for w in range(width):
            for port in range(k):
                draft.cable(
                    switch_name(level, w), switch_name(level + 1, with_digit(w, level, port, k))
                )
    return draft.network(f"fat-tree:{k},{n}", k=k, n=n, routing="d-mod-k")


def clos(*, k: int = 4, **links: Unpack[LinkValues]) -> Network:
    """The three-level fat tree of k-port switches (k even): k pods, k^3/4 hosts, (k/2)^2 switches at the top.

    Pod p has the switches s0_<p*k/2>.. (k/2 hosts each) and s1_<p*k/2>..; the j-th of the latter in each pod is joined
    to s2_<j*k/2> .. s2_<j*k/2 + k/2 - 1>. Raises TopologyError where k is odd or out of bounds.

    >>> len(clos(k=4).hosts), len(clos(k=4).switches)
    (16, 20)
    """
    k = integer("clos: k", k, 2, 1000)
    if k % 2:
        raise TopologyError(
            f"clos: k {k} must be even: half of a switch's ports lead up, half down"
        )
    half = k // 2
    check_size(k * half * half + 5 * half * half, 6 * k * half * half)
    draft = _with_hosts(Draft(**links), [k * half, k * half, half * half], half)
    for edge in range(k * half):
        for j in range(half):
            draft.cable(f"s0_{edge}", f"s1_{edge // half * half + j}")
    for middle in range(k * half):
        for j in range(half):
            draft.cable(f"s1_{middle}", f"s2_{middle % half * half + j}")
    return draft.network(f"clos:{k}", k=k, routing="d-mod-k")


def _with_hosts(draft: Draft, counts: list[int], hosts_each: int) -> Draft:
    """The switches of every level, which say their place in their attributes too, and the hosts of level 0."""
    for level, count in enumerate(counts):
        for index in range(count):
            draft.switch(switch_name(level, index), level=level, index=index)
    for p in range(counts[0] * hosts_each):
        draft.host(f"h{p}", index=p)
        draft.cable(f"s0_{p // hosts_each}", f"h{p}")
    return draft


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
