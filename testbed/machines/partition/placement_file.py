"""``--machine-placement FILE``: where nodes lie, decided by hand: ``{"machines": [["s1", "s2"], ["s3"]]}``; hosts left
out lie with their switch."""

from testbed.errors import InputError
from testbed.machines.partition.cells import cells_of
from testbed.machines.placement import Placement
from testbed.model.schemas import refuse_unknown
from topologies.network import Network


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
