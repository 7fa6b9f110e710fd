"""Swiss-T1: eight 12-port switches in a K-ring, 32 nodes and a static routing table.

Each node has one processor that sends and one that receives. Source: Gabrielyan 2007, 3.8.1,
Figure 39 and Table 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

from topologies.builder_values import Draft, LinkValues
from topologies.errors import TopologyError, python_number
from topologies.network import Network

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The size of the machine, and the allocation of all its nodes.
SWITCHES = 8
NODES_PER_SWITCH = 4
FULL_ALLOCATION = (NODES_PER_SWITCH,) * SWITCHES
# The number of nodes that take part on each of the eight switches.
Allocation = Sequence[int]

# Gabrielyan 2007, Table 2: row i and column j have the switch (1 to 8) between the switches i and
# j. It is 0 if a link connects them directly, and for i = j.
TABLE_2 = (
    (0, 0, 2, 0, 4, 0, 8, 0),
    (0, 0, 0, 7, 0, 3, 0, 5),
    (2, 0, 0, 0, 4, 0, 8, 0),
    (0, 7, 0, 0, 0, 7, 0, 3),
    (4, 0, 4, 0, 0, 0, 6, 0),
    (0, 3, 0, 7, 0, 0, 0, 1),
    (8, 0, 8, 0, 6, 0, 0, 0),
    (0, 5, 0, 3, 0, 1, 0, 0),
)


def _core_pairs() -> Iterator[tuple[int, int]]:
    for i in range(SWITCHES):
        for j in range(SWITCHES):
            if i != j and not TABLE_2[i][j]:
                yield i, j


# The 32 directed links between switches, as pairs of indices from 0.
CORE_PAIRS = tuple(_core_pairs())


def swiss_t1(*, allocation: Allocation = FULL_ALLOCATION, **links: Unpack[LinkValues]) -> Network:
    """Return the network of the Swiss-T1 cluster.

    Its switches are s1 to s8. Node k (0 to 31) is on switch k // 4 + 1. It has the processors t<k>,
    which sends, and r<k>, which receives. Each processor has a cable of its own. The machine's
    links ran at 86 MB/s; the default capacity is lower, so that a user-space switch can shape it
    well.

    Args:
        allocation: How many nodes of each switch take part, 0 to 4. The first ones are taken.
        **links: Capacity and delay of all links.

    Raises:
        TopologyError: The allocation is not eight such counts.

    >>> net = swiss_t1(allocation=(1, 0, 0, 0, 0, 0, 0, 2))
    >>> [node.id for node in net.hosts]
    ['t0', 'r0', 't28', 'r28', 't29', 'r29']
    """
    counts = checked_allocation(allocation)
    draft = Draft(**links)
    for i in range(SWITCHES):
        draft.switch(f"s{i + 1}", _position_on_circle(i))
    for i, j in CORE_PAIRS:
        if i < j:
            draft.cable(f"s{i + 1}", f"s{j + 1}")
    for i, count in enumerate(counts):
        for k in range(NODES_PER_SWITCH * i, NODES_PER_SWITCH * i + count):
            processors(draft, k, f"s{i + 1}")
    name = "swiss-t1"
    if counts != FULL_ALLOCATION:
        name += ":allocation=" + "-".join(map(str, counts))
    return draft.network(name, routing="table", routing_table=routing_table())


def processors(draft: Draft, node: int, switch: str) -> None:
    """Add the two processors of a node to a draft, each with a cable to the switch.

    They are t<node>, which sends, and r<node>, which receives.
    """
    draft.host(f"t{node}", role="sender", node=node)
    draft.cable(f"t{node}", switch)
    draft.host(f"r{node}", role="receiver", node=node)
    draft.cable(switch, f"r{node}")


def routing_table() -> dict[str, dict[str, str]]:
    """Return Table 2 by the names of the switches: ``table[source][target]`` is the switch between.

    Pairs with a direct link are left out.
    """
    table: dict[str, dict[str, str]] = {}
    for i, row in enumerate(TABLE_2):
        table[f"s{i + 1}"] = {f"s{j + 1}": f"s{via}" for j, via in enumerate(row) if via}
    return table


def checked_allocation(allocation: Allocation) -> tuple[int, ...]:
    """Return the allocation as a tuple of Python ints.

    Raises:
        TopologyError: It is not eight counts from 0 to 4.
    """
    counts = tuple(map(python_number, allocation))
    if len(counts) != SWITCHES or not all(map(_is_node_count, counts)):
        raise TopologyError(
            f"allocation {'-'.join(map(str, counts))}: give {SWITCHES} counts from 0 to"
            f" {NODES_PER_SWITCH} joined by '-', as in 4-4-4-4-0-0-0-0"
        )
    return counts


def _is_node_count(count: object) -> bool:
    if isinstance(count, bool) or not isinstance(count, int):
        return False
    return 0 <= count <= NODES_PER_SWITCH


def bottleneck_loads(allocations: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the load of the busiest link for each allocation, in transfers.

    The traffic is all-to-all: n nodes make n * n transfers, because each node also sends to itself
    (Gabrielyan 2007, 3.8.1). The computation takes O(m), in 88 vector operations.

    Args:
        allocations: Counts from 0 to 4, shape (m, 8).

    Returns:
        The loads, shape (m,).

    >>> import numpy as np
    >>> bottleneck_loads(np.array([[4] * 8, [1] + [0] * 7])).tolist()
    [48, 1]
    """
    import numpy as np

    counts = np.asarray(allocations, dtype=np.int64)
    has_shape = counts.ndim == 2 and counts.shape[1] == SWITCHES
    if not has_shape or (counts < 0).any() or (counts > NODES_PER_SWITCH).any():
        raise TopologyError(
            f"allocations of shape {counts.shape}:"
            f" give (m, {SWITCHES}) counts from 0 to {NODES_PER_SWITCH}"
        )
    columns = [np.ascontiguousarray(counts[:, i]) for i in range(SWITCHES)]
    # The cable of each processor carries one transfer for each node.
    max_loads: NDArray[np.int64] = counts.sum(axis=1)
    for users in core_users().values():
        load = np.zeros(len(counts), np.int64)
        for i, j in users:
            load += columns[i] * columns[j]
        np.maximum(max_loads, load, out=max_loads)
    return max_loads


def core_users() -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return the pairs of switches whose messages cross each link between switches, by Table 2.

    Links and pairs are (source switch, target switch), with indices from 0.
    """
    users: dict[tuple[int, int], list[tuple[int, int]]] = {pair: [] for pair in CORE_PAIRS}
    for i in range(SWITCHES):
        for j in range(SWITCHES):
            if i == j:
                continue
            if TABLE_2[i][j]:
                via = TABLE_2[i][j] - 1
                users[i, via].append((i, j))
                users[via, j].append((i, j))
            else:
                users[i, j].append((i, j))
    return users


def _position_on_circle(i: int) -> tuple[float, float]:
    """Return the position of switch ``i``; the first is at the top, the next ones clockwise."""
    angle = math.pi / 2 - 2 * math.pi * i / SWITCHES
    return (round(math.cos(angle), 6), round(math.sin(angle), 6))
