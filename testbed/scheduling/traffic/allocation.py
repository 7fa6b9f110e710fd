"""The nodes of Swiss-T1 to give to a job: allocations with the highest liquid throughput.

Source: Gabrielyan 2007, section 3.8.1, Figures 40 and 41.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from testbed.errors import InputError
from topologies.swiss_t1 import NODES_PER_SWITCH, SWITCHES, bottleneck_loads

# Number of nodes of each switch.
Counts = tuple[int, ...]

# No node is occupied.
NOTHING: Counts = (0,) * SWITCHES

# A number above every bottleneck load; these are at most 256.
_MORE_THAN_ANY_LOAD = 10_000


@dataclass(frozen=True, kw_only=True)
class RatedAllocation:
    """An allocation of nodes, with the bottleneck load of its all-to-all exchange.

    Attributes:
        counts: Number of nodes of each of the eight switches.
        bottleneck_load: Number of transfers over the busiest link.
    """

    counts: Counts
    bottleneck_load: int

    @property
    def nodes(self) -> int:
        """Total number of nodes."""
        return sum(self.counts)

    @property
    def liquid_throughput(self) -> Fraction:
        """Nodes squared over the bottleneck load, in links (Gabrielyan 2007, equation 3)."""
        return Fraction(self.nodes**2, self.bottleneck_load)

    @property
    def name(self) -> str:
        """The counts as text, such as "4-4-0-0-0-0-0-0"."""
        return "-".join(map(str, self.counts))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The result of a search for allocations.

    Attributes:
        best: The best allocations.
        worst: The worst allocation.
        candidates: Number of possible allocations.
        loads: The distinct bottleneck loads in ascending order, each with the number of allocations
            that have it.
    """

    best: tuple[RatedAllocation, ...]
    worst: RatedAllocation
    candidates: int
    loads: tuple[tuple[int, int], ...]


def choose_allocations(nodes: int, *, count: int = 5, occupied: Counts = NOTHING) -> Choice:
    """Find the allocations with the highest liquid throughput of an all-to-all exchange.

    Of equal throughput, allocations on fewer switches come first, then those with more nodes on the
    lower switches. All possible allocations are rated: at most 38,165 of the 390,624.

    Args:
        nodes: Number of nodes of the job.
        count: Number of best allocations to return.
        occupied: Number of nodes of each switch that are not free.

    Raises:
        InputError: There are not enough free nodes, or an argument is invalid.
    """
    if len(occupied) != SWITCHES or not all(0 <= taken <= NODES_PER_SWITCH for taken in occupied):
        raise InputError(
            f"occupied {'-'.join(map(str, occupied))}: give {SWITCHES} counts from 0 to "
            f"{NODES_PER_SWITCH}, as in 4-4-0-0-0-0-0-0"
        )
    all_nodes = NODES_PER_SWITCH * SWITCHES
    free = all_nodes - sum(occupied)
    if not 1 <= nodes <= free:
        raise InputError(
            f"nodes {nodes}: {free} of {all_nodes} are free; give 1 or more of those, or occupy "
            "fewer"
        )
    if count < 1:
        raise InputError(f"count {count}: give 1 or more")
    table = _all_allocations()
    free_of_switch = NODES_PER_SWITCH - np.array(occupied)
    possible = (table.sum(axis=1) == nodes) & (table <= free_of_switch).all(axis=1)
    candidates = table[possible]
    loads = bottleneck_loads(candidates)
    # The last key of lexsort is the most significant one.
    more_on_lower_switches = -candidates.T[::-1]
    used_switches = (candidates > 0).sum(axis=1)
    order = np.lexsort((*more_on_lower_switches, used_switches, loads))
    distinct_loads, numbers = np.unique(loads, return_counts=True)
    return Choice(
        best=tuple(_rated(candidates[k], loads[k]) for k in order[:count]),
        worst=_rated(candidates[order[-1]], loads[order[-1]]),
        candidates=len(candidates),
        loads=tuple(zip(distinct_loads.tolist(), numbers.tolist(), strict=True)),
    )


@cache
def distinct_allocations() -> tuple[RatedAllocation, ...]:
    """Return one allocation for each pair of number of nodes and bottleneck load.

    These are the 362 traffic patterns of Gabrielyan 2007, Figure 41, sorted by the number of nodes
    and then by rising liquid throughput. Of the allocations with the same pair, the first in
    lexicographic order is returned.
    """
    table = _all_allocations()[1:]
    loads = bottleneck_loads(table)
    keys = table.sum(axis=1) * _MORE_THAN_ANY_LOAD - loads
    _, first = np.unique(keys, return_index=True)
    return tuple(_rated(table[k], loads[k]) for k in first)


def _rated(counts: NDArray[np.int64], load: np.int64) -> RatedAllocation:
    return RatedAllocation(counts=tuple(counts.tolist()), bottleneck_load=int(load))


@cache
def _all_allocations() -> NDArray[np.int64]:
    """Return all allocations in lexicographic order, shape (allocations, switches)."""
    choices = NODES_PER_SWITCH + 1
    allocations = np.unravel_index(np.arange(choices**SWITCHES), (choices,) * SWITCHES)
    return np.stack(allocations, axis=1).astype(np.int64)
