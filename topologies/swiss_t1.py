"""Swiss-T1: eight 12-port switches in a K-ring, 32 nodes of one sending and one receiving processor, static routing.

Source: Gabrielyan 2007, 3.8.1, Figure 39 and Table 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from topologies.builder_values import Draft, LinkValues
from topologies.errors import TopologyError, python_number
from topologies.network import Network

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SWITCHES = 8
NODES_PER_SWITCH = 4
FULL_ALLOCATION = (NODES_PER_SWITCH,) * SWITCHES
Allocation = Sequence[int]

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
"""Gabrielyan 2007, Table 2: the switch between switches i and j (1-based); 0 where a link joins them directly, and for
i = j."""

CORE_PAIRS = tuple(
    (i, j) for i in range(SWITCHES) for j in range(SWITCHES) if i != j and not TABLE_2[i][j]
)
"""(i, j), 0-based: the 32 directed links between switches."""


def swiss_t1(*, allocation: Allocation = FULL_ALLOCATION, **links: Unpack[LinkValues]) -> Network:
    """Switches s1..s8; node k (0..31), on switch k // 4 + 1, has the processors t<k> (sends) and r<k> (receives).

    ``allocation`` says how many nodes of each switch take part, 0 to 4 each: the first ones are taken. Every
    processor has a cable of its own. The machine's links ran at 86 MB/s; ``capacity_bps`` defaults to what a
    user-space switch shapes well. Raises TopologyError for a malformed allocation.

    >>> net = swiss_t1(allocation=(1, 0, 0, 0, 0, 0, 0, 2))
    >>> [node.id for node in net.hosts]
    ['t0', 'r0', 't28', 'r28', 't29', 'r29']
    """
    counts = checked_allocation(allocation)
    draft = Draft(**links)
    for i in range(SWITCHES):
        draft.switch(f"s{i + 1}", _on_circle(i))
    for i, j in CORE_PAIRS:
        if i < j:
            draft.cable(f"s{i + 1}", f"s{j + 1}")
    for i, count in enumerate(counts):
        for k in range(NODES_PER_SWITCH * i, NODES_PER_SWITCH * i + count):
            processors(draft, k, f"s{i + 1}")
    name = (
        "swiss-t1"
        if counts == FULL_ALLOCATION
        else "swiss-t1:allocation=" + "-".join(map(str, counts))
    )
    return draft.network(name, routing="table", routing_table=routing_table())


def processors(draft: Draft, node: int, switch: str) -> None:
    """The two processors of a node, t<node> that sends and r<node> that receives, each with a cable of its own."""
    draft.host(f"t{node}", role="sender", node=node)
    draft.cable(f"t{node}", switch)
    draft.host(f"r{node}", role="receiver", node=node)
    draft.cable(switch, f"r{node}")


def routing_table() -> dict[str, dict[str, str]]:
    """Table 2 by switch name: ``[from][to]`` is the switch between; pairs with a direct link are left out."""
    return {
        f"s{i + 1}": {f"s{j + 1}": f"s{via}" for j, via in enumerate(row) if via}
        for i, row in enumerate(TABLE_2)
    }


def checked_allocation(allocation: Allocation) -> tuple[int, ...]:
    """The allocation as eight counts of 0 to 4; TopologyError otherwise."""
    counts = tuple(map(python_number, allocation))
    fine = all(
        isinstance(c, int) and not isinstance(c, bool) and 0 <= c <= NODES_PER_SWITCH
        for c in counts
    )
    if len(counts) != SWITCHES or not fine:
        raise TopologyError(
            f"allocation {'-'.join(map(str, counts))}: give {SWITCHES} counts from 0 to {NODES_PER_SWITCH} joined by"
            " '-', as in 4-4-4-4-0-0-0-0"
        )
    return counts


def bottleneck_loads(allocations: NDArray[np.integer]) -> NDArray[np.int64]:
    """Bottleneck load of the all-to-all traffic of each allocation: transfers over the busiest link.

    ``allocations`` has the shape (m, 8), counts 0 to 4; returns shape (m,). n nodes make n * n transfers, a node to
    itself included (Gabrielyan 2007, 3.8.1); O(m) with 88 vector operations.

    >>> import numpy as np
    >>> bottleneck_loads(np.array([[4] * 8, [1] + [0] * 7])).tolist()
    [48, 1]
    """
    import numpy as np

    counts = np.asarray(allocations, dtype=np.int64)
    if (
        counts.ndim != 2
        or counts.shape[1] != SWITCHES
        or (counts < 0).any()
        or (counts > NODES_PER_SWITCH).any()
    ):
        raise TopologyError(
            f"allocations of shape {counts.shape}: give (m, {SWITCHES}) counts from 0 to {NODES_PER_SWITCH}"
        )
    columns = [np.ascontiguousarray(counts[:, i]) for i in range(SWITCHES)]
    worst: NDArray[np.int64] = counts.sum(axis=1)
    for users in core_users().values():
        load = np.zeros(len(counts), np.int64)
        for i, j in users:
            load += columns[i] * columns[j]
        np.maximum(worst, load, out=worst)
    return worst


def core_users() -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Link between switches -> the pairs (from switch, to switch) whose messages cross it, by Table 2; all 0-based."""
    users: dict[tuple[int, int], list[tuple[int, int]]] = {pair: [] for pair in CORE_PAIRS}
    for i in range(SWITCHES):
        for j in range(SWITCHES):
            via = TABLE_2[i][j] - 1
            if i != j:
                for hop in ((i, j),) if via < 0 else ((i, via), (via, j)):
                    users[hop].append((i, j))
    return users


def _on_circle(i: int) -> tuple[float, float]:
    angle = math.pi / 2 - 2 * math.pi * i / SWITCHES
    return (round(math.cos(angle), 6), round(math.sin(angle), 6))
