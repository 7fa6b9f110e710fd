"""Which nodes of Swiss-T1 to give to a job: the allocations of highest liquid throughput, and the range of it.

Source: Gabrielyan 2007, 3.8.1, Figures 40 and 41.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from testbed.errors import InputError
from topologies.swiss_t1 import NODES_PER_SWITCH, SWITCHES, bottleneck_loads

Counts = tuple[int, ...]
NOTHING: Counts = (0,) * SWITCHES


@dataclass(frozen=True, kw_only=True)
class RatedAllocation:
    """How many nodes of each of the eight switches, and what their all-to-all exchange can get of the network."""

    counts: Counts
    bottleneck_load: int

    @property
    def nodes(self) -> int:
        return sum(self.counts)

    @property
    def liquid_throughput(self) -> Fraction:
        """In links: nodes squared over the bottleneck load (Gabrielyan 2007, eq. 3)."""
        return Fraction(self.nodes**2, self.bottleneck_load)

    @property
    def name(self) -> str:
        return "-".join(map(str, self.counts))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The ``best`` allocations, the ``worst`` one, how many there are (``candidates``), and the different bottleneck
    loads among them, ascending, with the number of allocations of each."""

    best: tuple[RatedAllocation, ...]
    worst: RatedAllocation
    candidates: int
    loads: tuple[tuple[int, int], ...]


def choose_allocations(nodes: int, *, count: int = 5, occupied: Counts = NOTHING) -> Choice:
    """The ``count`` allocations of so many nodes with the highest liquid throughput for an all-to-all exchange.

    ``occupied``: nodes of each switch that are not free. Of equal throughput, those on fewer switches come first, then
    the ones with more nodes on the lower switches. All allocations that fit are rated, at most 38,165 of the 390,624.
    Raises InputError where so many nodes are not free.
    """
    if len(occupied) != SWITCHES or not all(0 <= taken <= NODES_PER_SWITCH for taken in occupied):
        raise InputError(
            f"occupied {'-'.join(map(str, occupied))}: give {SWITCHES} counts from 0 to {NODES_PER_SWITCH}, "
            "as in 4-4-0-0-0-0-0-0"
        )
    free = NODES_PER_SWITCH * SWITCHES - sum(occupied)
    if not 1 <= nodes <= free:
        most = NODES_PER_SWITCH * SWITCHES
        raise InputError(
            f"nodes {nodes}: {free} of {most} are free; give 1 or more of those, or occupy fewer"
        )
    if count < 1:
        raise InputError(f"count {count}: give 1 or more")
    table = _all_allocations()
    fits = (table.sum(axis=1) == nodes) & (table <= NODES_PER_SWITCH - np.array(occupied)).all(
        axis=1
    )
    found = table[fits]
    loads = bottleneck_loads(found)
    order = np.lexsort((*(-found.T[::-1]), (found > 0).sum(axis=1), loads))
    different, numbers = np.unique(loads, return_counts=True)
    return Choice(
        best=tuple(_rated(found[k], loads[k]) for k in order[:count]),
        worst=_rated(found[order[-1]], loads[order[-1]]),
        candidates=len(found),
        loads=tuple(zip(different.tolist(), numbers.tolist(), strict=True)),
    )


@cache
def distinct_allocations() -> tuple[RatedAllocation, ...]:
    """One allocation for each pair of (nodes, bottleneck load): the 362 traffic patterns, by nodes and then by rising
    liquid throughput (Gabrielyan 2007, Figure 41). Of those with the same pair the first in lexicographic order stands
    for all."""
    table = _all_allocations()[1:]
    loads = bottleneck_loads(table)
    keys = table.sum(axis=1) * 10_000 - loads  # loads are at most 256
    first = np.unique(keys, return_index=True)[1]
    return tuple(_rated(table[k], loads[k]) for k in first)


def _rated(counts: NDArray[np.int64], load: np.int64) -> RatedAllocation:
    return RatedAllocation(counts=tuple(int(c) for c in counts), bottleneck_load=int(load))


@cache
def _all_allocations() -> NDArray[np.int64]:
    shape = (NODES_PER_SWITCH + 1,) * SWITCHES
    return np.stack(
        np.unravel_index(np.arange((NODES_PER_SWITCH + 1) ** SWITCHES), shape), axis=1
    ).astype(np.int64)
