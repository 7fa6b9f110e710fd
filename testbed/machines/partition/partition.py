"""A network cut over machines by what each says that it can carry; or by hand, by ``--machine-placement FILE``:
``{"machines": [["s1", "s2"], ["s3"]]}``."""

import math
from collections.abc import Sequence

from testbed.errors import InputError
from testbed.machines.partition.cells import CellGraph, cells_of
from testbed.machines.partition.cut import cut_by_metis, keep_limits
from testbed.machines.placement import Placement
from testbed.model.schemas import refuse_unknown
from topologies.network import Network

IMBALANCE = 0.05
"""A machine may get that fraction more than its share, and the heaviest cell on top, which cannot be cut."""


def partition(network: Network, shares: Sequence[float]) -> Placement:
    """Cut the network over ``len(shares)`` machines, each to get that much in proportion to the others (any positive
    unit).

    Hosts lie where their switch does. The same arguments give the same cut. 10,000 nodes take seconds. InputError for
    shares that are not positive or more machines than switches.

    >>> from testbed.model.wiring import wire
    >>> from topologies import load_network
    >>> network = load_network("ring:8")
    >>> len(partition(network, [1, 1]).crossing(wire(network)))
    2
    """
    graph = cells_of(network)
    parts = _fractions(shares, len(graph.members), network.name)
    cut = cut_by_metis(graph, parts)
    keep_limits(graph, cut, machine_limits(graph, parts))
    machine_of = {node: machine for members, machine in zip(graph.members, cut, strict=True) for node in members}
    return Placement(machines=len(parts), machine_of={node.id: machine_of[node.id] for node in network.nodes})


def machine_limits(graph: CellGraph, shares: Sequence[float]) -> tuple[float, ...]:
    """The most that each machine may weigh; ``shares`` sum to one."""
    total = sum(graph.weight)
    return tuple((1 + IMBALANCE) * share * total + graph.heaviest for share in shares)


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

    >>> from testbed.model.wiring import wire
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
