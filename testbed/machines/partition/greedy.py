"""Cuts of a network: by METIS (Karypis and Kumar 1998) through pymetis, where that is installed, better on large
networks and as deterministic; without it machines are filled one after another with the cells that are attached to
what they have already.

Plain graph growing; the passes of ``refinement`` do the rest.
"""

import heapq
from collections.abc import Sequence

from testbed.extras import installed
from testbed.machines.partition.cells import CellGraph


def grow(graph: CellGraph, quotas: Sequence[float]) -> list[int]:
    """The machine of each cell: each machine takes, until its quota is full, the free cell that it is joined to most
    next to what that cell is joined to free ones; the last takes the rest. It starts at the free cell farthest from
    where the one before started.

    O(cables log cables). Deterministic: ties go to the lowest cell.
    """
    machine_of = [-1] * len(graph.weight)
    start = _farthest(graph, machine_of, 0)
    for machine, quota in enumerate(quotas[:-1]):
        load, later = 0.0, len(quotas) - machine - 1
        free = machine_of.count(-1)
        taken = [0] * len(graph.weight)
        queue: list[tuple[int, int, int]] = []
        start = _farthest(graph, machine_of, start)
        while free > later and (load == 0 or load + min(graph.weight) / 2 <= quota):
            cell = _next(queue, machine_of, taken)
            if cell is None:
                cell = start if machine_of[start] < 0 else machine_of.index(-1)
            if load and load + graph.weight[cell] / 2 > quota:
                break
            machine_of[cell] = machine
            load += graph.weight[cell]
            free -= 1
            for other, heavy in graph.joined[cell].items():
                if machine_of[other] < 0:
                    taken[other] += heavy
                    to_free = sum(w for far, w in graph.joined[other].items() if machine_of[far] < 0)
                    heapq.heappush(queue, (to_free - taken[other], other, taken[other]))
    return [len(quotas) - 1 if machine < 0 else machine for machine in machine_of]


def _next(queue: list[tuple[int, int, int]], machine_of: Sequence[int], taken: Sequence[int]) -> int | None:
    while queue:
        _, cell, known = heapq.heappop(queue)
        if machine_of[cell] < 0 and known == taken[cell]:
            return cell
    return None


def _farthest(graph: CellGraph, machine_of: Sequence[int], start: int) -> int:
    """The free cell most cables away from ``start`` (one that cannot be reached, if there is one; else ties: the
    lowest)."""
    hops, queue = {start: 0}, [start]
    for cell in queue:
        for other in graph.joined[cell]:
            if other not in hops:
                hops[other] = hops[cell] + 1
                queue.append(other)
    free = [cell for cell, machine in enumerate(machine_of) if machine < 0]
    return max(free, key=lambda cell: (hops.get(cell, len(machine_of)), -cell), default=start)


def has_metis() -> bool:
    """Whether pymetis can be imported."""
    return installed("pymetis")


def cut_by_metis(graph: CellGraph, shares: Sequence[float]) -> list[int]:
    """The machine of each cell; METIS keeps its own seed, so that the same network gives the same cut."""
    import pymetis

    starts: list[int] = [0]
    others: list[int] = []
    heavy: list[int] = []
    for near in graph.joined:
        others += near.keys()
        heavy += near.values()
        starts.append(len(others))
    if len(shares) == 1 or not others:
        return [cell * len(shares) // len(graph.weight) for cell in range(len(graph.weight))]
    _, machine_of = pymetis.part_graph(
        len(shares),
        pymetis.CSRAdjacency(starts, others),
        vweights=list(graph.weight),
        eweights=heavy,
        tpwgts=list(shares),
        recursive=len(shares) <= 8,
    )
    return list(machine_of)
