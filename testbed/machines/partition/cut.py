"""The cut of a graph of cells: METIS (Karypis and Kumar 1998) through pymetis, then whatever it left over a limit or
empty is moved where that costs least."""

from collections.abc import Sequence

from testbed.machines.partition.cells import CellGraph


def cut_by_metis(graph: CellGraph, shares: Sequence[float]) -> list[int]:
    """The machine of each cell; METIS keeps its own seed, so that the same network gives the same cut."""
    starts: list[int] = [0]
    others: list[int] = []
    heavy: list[int] = []
    for near in graph.joined:
        others += near.keys()
        heavy += near.values()
        starts.append(len(others))
    if len(shares) == 1 or not others:
        return [cell * len(shares) // len(graph.weight) for cell in range(len(graph.weight))]
    import pymetis

    _, machine_of = pymetis.part_graph(
        len(shares),
        pymetis.CSRAdjacency(starts, others),
        vweights=list(graph.weight),
        eweights=heavy,
        tpwgts=list(shares),
        recursive=len(shares) <= 8,
    )
    return list(machine_of)


def keep_limits(graph: CellGraph, machine_of: list[int], limits: Sequence[float]) -> None:
    """Move cells until no machine is empty, and none weighs more than its limit.

    There always is room: limits are at least a machine's share of everything and the heaviest cell.
    """
    cells, machines = range(len(machine_of)), range(len(limits))
    load = [sum(graph.weight[cell] for cell in cells if machine_of[cell] == machine) for machine in machines]

    def cost(cell: int, machine: int) -> int:
        near = graph.joined[cell].items()
        own = sum(heavy for other, heavy in near if machine_of[other] == machine_of[cell])
        return own - sum(heavy for other, heavy in near if machine_of[other] == machine)

    while (empty := 0 in load) or any(load[machine] > limits[machine] for machine in machines):
        several = [machine for machine in machines if machine_of.count(machine) > 1]
        giver = max(several, key=lambda machine: load[machine] / limits[machine])
        takers = [one for one in machines if one != giver and (not load[one] or not empty)]
        moves = [
            (cost(cell, taker), cell, taker)
            for cell in cells
            if machine_of[cell] == giver
            for taker in takers
            if load[taker] + graph.weight[cell] <= limits[taker]
        ]
        _, cell, taker = min(moves)
        machine_of[cell] = taker
        load[giver] -= graph.weight[cell]
        load[taker] += graph.weight[cell]
