"""A network cut over machines by what each says that it can carry: METIS or the greedy cut, then refined and kept
within bounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.errors import CapabilityError, InputError
from testbed.extras import EXTRA_OF, pip_command
from testbed.machines.partition.cells import CellGraph, cells_of
from testbed.machines.partition.greedy import grow
from testbed.machines.partition.metis import cut_by_metis, has_metis
from testbed.machines.partition.refinement import Cut, refine
from testbed.machines.placement import Placement
from testbed.model.wiring import wire
from topologies.network import Network

Method = Literal["metis", "greedy"]
METHODS: tuple[Method, ...] = ("metis", "greedy")
IMBALANCE = 0.05
"""A machine may get that fraction more than its share, and the heaviest cell on top, which cannot be cut."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A placement and what it is worth. ``crossing_bps``: capacity of the crossing cables, each way counted.

    ``loads``: weight of each machine (cable ends and switches); ``limits``: the most that its share allows.
    """

    placement: Placement
    method: str
    crossing_cables: int
    cables: int
    crossing_bps: float
    loads: tuple[int, ...]
    limits: tuple[float, ...]


def partition(network: Network, shares: Sequence[float], *, method: Method | None = None) -> Partition:
    """Cut the network over ``len(shares)`` machines, each to get that much in proportion to the others (any positive
    unit).

    ``method`` None: METIS where it is installed. Hosts lie where their switch does. The same arguments give the same
    cut. 10,000 nodes take seconds. InputError for shares that are not positive or more machines than switches,
    CapabilityError where METIS is requested and missing.

    >>> from topologies import load_network
    >>> found = partition(load_network("ring:8"), [1, 1], method="greedy")
    >>> found.crossing_cables, found.loads
    (2, (20, 20))
    """
    if method == "metis" and not has_metis():
        raise CapabilityError(f"the Python package pymetis is not installed; {pip_command(EXTRA_OF['pymetis'])}")
    graph = cells_of(network)
    parts = _fractions(shares, len(graph.members), network.name)
    chosen: Method = method or ("metis" if has_metis() else "greedy")
    total = sum(graph.weight)
    first = cut_by_metis(graph, parts) if chosen == "metis" else grow(graph, [part * total for part in parts])
    cut = Cut(graph, first, machine_limits(graph, parts))
    refine(cut)
    machine_of = {
        node: machine for members, machine in zip(graph.members, cut.machine_of, strict=True) for node in members
    }
    ordered = {node.id: machine_of[node.id] for node in network.nodes}
    return describe(network, Placement(machines=len(parts), machine_of=ordered), shares, chosen)


def machine_limits(graph: CellGraph, shares: Sequence[float]) -> tuple[float, ...]:
    """The most that each machine may weigh; ``shares`` sum to one."""
    total = sum(graph.weight)
    return tuple((1 + IMBALANCE) * share * total + graph.heaviest for share in shares)


def describe(network: Network, placement: Placement, shares: Sequence[float], method: str) -> Partition:
    """What a placement, whoever made it, costs."""
    wiring, graph = wire(network), cells_of(network)
    crossing = placement.crossing(wiring)
    loads = [0] * placement.machines
    for node in network.switches:
        loads[placement.machine_of[node.id]] += 1
    machine = placement.device_machines(wiring)
    for cable in wiring.cables:
        loads[machine[cable.a]] += 1
        loads[machine[cable.b]] += 1
    links = [link for i in crossing for link in (wiring.cables[i].forward, wiring.cables[i].backward) if link]
    total = sum(shares)
    return Partition(
        placement=placement,
        method=method,
        crossing_cables=len(crossing),
        cables=len(wiring.cables),
        crossing_bps=sum(network.link(*link).capacity_bps for link in links),
        loads=tuple(loads),
        limits=machine_limits(graph, [share / total for share in shares]),
    )


def _fractions(shares: Sequence[float], cells: int, name: str) -> list[float]:
    wrong = [share for share in shares if not (math.isfinite(share) and share > 0)]
    if wrong or not shares:
        raise InputError(f"machines: a share of {wrong[0] if wrong else 'none'}; give each machine a positive number")
    if len(shares) > cells:
        raise InputError(f"{len(shares)} machines for {name}, which has {cells} switches; take at most {cells}")
    return [share / sum(shares) for share in shares]
