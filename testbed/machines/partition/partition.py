"""A network cut over machines by what each says that it can carry: METIS or the greedy cut, then refined and kept
within bounds; or by hand, by ``--machine-placement FILE``: ``{"machines": [["s1", "s2"], ["s3"]]}``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.errors import CapabilityError, InputError
from testbed.extras import EXTRA_OF, pip_command
from testbed.machines.partition.cells import CellGraph, cells_of
from testbed.machines.partition.greedy import cut_by_metis, grow, has_metis
from testbed.machines.partition.refinement import Cut, refine
from testbed.machines.placement import Placement
from testbed.model.schemas import refuse_unknown
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


def parse_placement(document: object, network: Network, where: str, *, machines: int | None = None) -> Placement:
    """The placement of a document (``testbed schema placement``). ``machines``: how many there are, where that is
    known.

    InputError names the file and what is wrong in it: a node that there is not, that lies twice, or nowhere.

    >>> from topologies import load_network
    >>> found = parse_placement({"machines": [["s0", "s1"], ["s2"]]}, load_network("ring:3"), "place.json")
    >>> found.machine_of
    {'s0': 0, 's1': 0, 's2': 1, 'h0': 0, 'h1': 0, 'h2': 1}
    """
    groups = document.get("machines") if isinstance(document, dict) else None
    if not isinstance(groups, list) or not groups or not all(isinstance(group, list) for group in groups):
        raise InputError(f'{where}: give {{"machines": [[node, ...], ...]}}, one list a machine')
    refuse_unknown(document, "placement", where)
    if machines is not None and len(groups) != machines:
        raise InputError(f"{where}: it places nodes on {len(groups)} machines, and there are {machines}")
    named: dict[str, int] = {}
    for machine, group in enumerate(groups):
        if not group:
            raise InputError(f"{where}: no node is on machine {machine}; give each a node, or take fewer machines")
        for node in group:
            if not isinstance(node, str) or node not in network.node_index:
                raise InputError(f"{where}: machine {machine}: {network.name} has no node {str(node)[:60]!r}")
            if node in named:
                raise InputError(f"{where}: node {node} lies on machine {named[node]} and on machine {machine}")
            named[node] = machine
    switch_of = {node: _switch(members, network) for members in cells_of(network).members for node in members}
    for one in network.nodes:
        if one.id not in named and switch_of[one.id] not in named:
            raise InputError(f"{where}: {one.kind} {one.id} is on no machine; name every switch")
    return Placement(
        machines=len(groups),
        machine_of={one.id: named.get(one.id, named.get(switch_of[one.id], 0)) for one in network.nodes},
    )


def _switch(members: tuple[str, ...], network: Network) -> str:
    return next((node for node in members if network.node(node).kind == "switch"), members[0])
