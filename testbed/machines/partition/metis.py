"""A cut by METIS (Karypis and Kumar 1998) through pymetis, where that is installed: better on large networks, and as
deterministic."""

from collections.abc import Sequence

from testbed.extras import installed
from testbed.machines.partition.cells import CellGraph


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
