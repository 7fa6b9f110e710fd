"""Fat trees: the k-ary n-tree, and the three-level Clos network of k-port switches.

Switches are s<level>_<index>. Level 0 is next to the hosts h0, h1, ... The attributes ``level`` and
``index`` of a switch have the same numbers.
"""

from typing import Unpack

from topologies.builder_values import Draft, LinkValues, check_size, integer
from topologies.errors import TopologyError
from topologies.network import Network


def fat_tree(*, k: int = 4, n: int = 3, **links: Unpack[LinkValues]) -> Network:
    """Return the k-ary n-tree, which has k^n hosts and n levels of k^(n-1) switches.

    A switch has k ports down and, below the top level, k ports up. Read the index of a switch as
    n - 1 digits to the base k: the switch w of level l is connected to the k switches of level
    l + 1 whose indices differ from w at most in digit l. Host p is on switch p // k.

    Args:
        k: Number of ports down.
        n: Number of levels of switches.
        **links: Capacity and delay of all links.

    Raises:
        TopologyError: A number is out of bounds, or the network is too large.

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
        for index in range(width):
            for port in range(k):
                upper_index = with_digit(index, level, port, k)
                draft.cable(switch_name(level, index), switch_name(level + 1, upper_index))
    return draft.network(f"fat-tree:{k},{n}", k=k, n=n, routing="d-mod-k")


def clos(*, k: int = 4, **links: Unpack[LinkValues]) -> Network:
    """Return the three-level fat tree of k-port switches, which has k^3/4 hosts.

    There are k pods of k/2 switches on each of the two lower levels, and (k/2)^2 switches at the
    top. The switches of pod p begin with s0_<p*k/2>, which has k/2 hosts, and s1_<p*k/2>. The j-th
    switch of level 1 in each pod is connected to s2_<j*k/2> .. s2_<j*k/2 + k/2 - 1>.

    Args:
        k: Number of ports of a switch; it must be even.
        **links: Capacity and delay of all links.

    Raises:
        TopologyError: ``k`` is odd or out of bounds.

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
    for lower in range(k * half):
        pod = lower // half
        for j in range(half):
            draft.cable(f"s0_{lower}", f"s1_{pod * half + j}")
    for middle in range(k * half):
        index_in_pod = middle % half
        for j in range(half):
            draft.cable(f"s1_{middle}", f"s2_{index_in_pod * half + j}")
    return draft.network(f"clos:{k}", k=k, routing="d-mod-k")


def _with_hosts(draft: Draft, switches_per_level: list[int], hosts_per_switch: int) -> Draft:
    """Add the switches of all levels and the hosts of level 0 to a draft, and return it."""
    for level, count in enumerate(switches_per_level):
        for index in range(count):
            draft.switch(switch_name(level, index), level=level, index=index)
    for host in range(switches_per_level[0] * hosts_per_switch):
        draft.host(f"h{host}", index=host)
        draft.cable(f"s0_{host // hosts_per_switch}", f"h{host}")
    return draft


def with_digit(number: int, position: int, digit: int, base: int) -> int:
    """Return a number with one of its digits replaced.

    Args:
        number: The number.
        position: Position of the digit; the lowest is 0.
        digit: The new digit.
        base: Base of the number system.

    >>> with_digit(27, 1, 0, 10)
    7
    """
    weight: int = base**position
    return number + (digit - number // weight % base) * weight


def switch_name(level: int, index: int) -> str:
    """Return the id of a switch: s<level>_<index>."""
    return f"s{level}_{index}"
