"""Placement of a network's nodes on several machines, computed or read from a file.

A file (``--machine-placement FILE``) says ``{"machines": [["s1", "s2"], ["s3"]]}``.

A computed placement never separates a switch from its hosts. Such a cell (a switch with its hosts)
is a vertex of the graph that METIS partitions (Karypis and Kumar 1998, through pymetis). Then cells
move, at the lowest cost, until no machine is empty or above its limit. The weight of a cell is its
number of cable ends plus one for the switch, because the cost of a user-space switch grows with its
ports.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from testbed.errors import InputError
from testbed.model.schemas import refuse_unknown
from testbed.model.wiring import Wiring, wire
from topologies import Network

# Weight of the cable with the highest capacity in the graph that METIS cuts. The weights of the
# others are in proportion to their capacity, and at least 1.
LARGEST_WEIGHT = 10_000

# A machine may carry this fraction more than its share, plus the heaviest cell.
IMBALANCE = 0.05

# METIS recommends recursive bisection up to this number of parts, and direct k-way cuts above.
_MAX_BISECTED_PARTS = 8


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The machine of each node.

    Attributes:
        machines: Number of machines.
        machine_of: Machine of every node, from 0 to ``machines`` - 1.

    Raises:
        InputError: The number of a machine is out of range, or a machine has no node.
    """

    machines: int
    machine_of: Mapping[str, int]

    def __post_init__(self) -> None:
        for node, machine in self.machine_of.items():
            if not 0 <= machine < self.machines:
                raise InputError(
                    f"placement: node {node} on machine {machine}; "
                    f"give a machine from 0 to {self.machines - 1}"
                )
        if empty := sorted(set(range(self.machines)) - set(self.machine_of.values())):
            raise InputError(
                f"placement: machine {empty[0]} has no node; give it one, or use fewer machines"
            )

    def device_machines(self, wiring: Wiring) -> dict[str, int]:
        """Return the machine of every host and bridge of the wiring, by its name.

        A host that stands for a switch as an end point is on the machine of the switch.

        Raises:
            InputError: A node has no machine.
        """
        node_of = nodes_of_devices(wiring)
        missing = [node for node in node_of.values() if node not in self.machine_of]
        if missing:
            raise InputError(
                f"placement: node {missing[0]} has no machine; "
                f"name all nodes of {wiring.network.name}"
            )
        return {device: self.machine_of[node] for device, node in node_of.items()}

    def crossing(self, wiring: Wiring) -> tuple[int, ...]:
        """Return the indices into ``wiring.cables`` of the cables between two machines."""
        machine = self.device_machines(wiring)
        return tuple(
            i for i, cable in enumerate(wiring.cables) if machine[cable.a] != machine[cable.b]
        )


def nodes_of_devices(wiring: Wiring) -> dict[str, str]:
    """Return the node of every host and bridge of the wiring, by its name."""
    nodes = {switch.name: switch.node for switch in wiring.switches}
    for host in wiring.hosts:
        nodes[host.name] = host.node
    return nodes


@dataclass(frozen=True, kw_only=True)
class CellGraph:
    """The graph of cells that is partitioned. A cell is a switch with its hosts.

    Attributes:
        members: The nodes of each cell, in the order of the network.
        weight: The weight of each cell.
        neighbours: For each cell, its neighbours and the total weight of the cables to each.
    """

    members: tuple[tuple[str, ...], ...]
    weight: tuple[int, ...]
    neighbours: tuple[dict[int, int], ...]

    @property
    def heaviest(self) -> int:
        """Weight of the heaviest cell. No balance can be finer than it."""
        return max(self.weight, default=0)


class _Cable(NamedTuple):
    a: str
    b: str
    # Capacity of both directions together, in bits per second.
    capacity_bps: float


def cells_of(network: Network) -> CellGraph:
    """Group the nodes of a network into cells.

    A host belongs to the switch of its cable with the highest capacity; the first cable wins a tie.
    A host without a switch is a cell alone. The time is linear in nodes and links.
    """
    cables = _cables(network)
    switch_of = _switch_of_hosts(network, cables)
    cell_names = {node.id: switch_of.get(node.id, node.id) for node in network.nodes}
    number = {cell: i for i, cell in enumerate(dict.fromkeys(cell_names.values()))}
    cell_of = {node: number[cell] for node, cell in cell_names.items()}
    members: list[list[str]] = [[] for _ in number]
    weight = [1] * len(number)
    neighbours: list[dict[int, int]] = [{} for _ in number]
    for node in network.nodes:
        members[cell_of[node.id]].append(node.id)
    largest_bps = max((cable.capacity_bps for cable in cables), default=1.0)
    for cable in cables:
        a = cell_of[cable.a]
        b = cell_of[cable.b]
        weight[a] += 1
        weight[b] += 1
        if a != b:
            cable_weight = max(1, round(LARGEST_WEIGHT * cable.capacity_bps / largest_bps))
            neighbours[a][b] = neighbours[a].get(b, 0) + cable_weight
            neighbours[b][a] = neighbours[b].get(a, 0) + cable_weight
    return CellGraph(
        members=tuple(map(tuple, members)), weight=tuple(weight), neighbours=tuple(neighbours)
    )


def _cables(network: Network) -> list[_Cable]:
    wiring = wire(network)
    node_of = nodes_of_devices(wiring)
    cables: list[_Cable] = []
    for cable in wiring.cables:
        capacity_bps = 0.0
        for link in (cable.forward, cable.backward):
            if link:
                capacity_bps += network.link(*link).capacity_bps
        cables.append(_Cable(node_of[cable.a], node_of[cable.b], capacity_bps))
    return cables


def _switch_of_hosts(network: Network, cables: Sequence[_Cable]) -> dict[str, str]:
    """Return the switch that each host is attached to with the highest capacity."""
    hosts = {host.node for host in wire(network).hosts}
    switch_of: dict[str, str] = {}
    highest_bps: dict[str, float] = {}
    for a, b, capacity_bps in cables:
        for host, switch in ((a, b), (b, a)):
            attached = host in hosts and switch not in hosts
            if attached and capacity_bps > highest_bps.get(host, 0.0):
                switch_of[host] = switch
                highest_bps[host] = capacity_bps
    return switch_of


def cut_by_metis(graph: CellGraph, shares: Sequence[float]) -> list[int]:
    """Return the machine of each cell, as METIS partitions the graph.

    METIS has a fixed seed, so the same network gives the same partition.

    Args:
        graph: The cells.
        shares: The share of each machine; the sum is 1.
    """
    # Adjacency lists in one array: the neighbours of cell i are at starts[i] to starts[i + 1].
    starts: list[int] = [0]
    adjacent: list[int] = []
    edge_weights: list[int] = []
    for cable_weights in graph.neighbours:
        adjacent += cable_weights.keys()
        edge_weights += cable_weights.values()
        starts.append(len(adjacent))
    if len(shares) == 1 or not adjacent:
        return [cell * len(shares) // len(graph.weight) for cell in range(len(graph.weight))]
    import pymetis

    _, machine_of = pymetis.part_graph(
        len(shares),
        pymetis.CSRAdjacency(starts, adjacent),
        vweights=list(graph.weight),
        eweights=edge_weights,
        tpwgts=list(shares),
        recursive=len(shares) <= _MAX_BISECTED_PARTS,
    )
    return list(machine_of)


def keep_limits(graph: CellGraph, machine_of: list[int], limits: Sequence[float]) -> None:
    """Move cells until no machine is empty or above its limit.

    There is always room, because a limit is at least the machine's share of the total weight plus
    the heaviest cell.

    Args:
        graph: The cells.
        machine_of: The machine of each cell, changed in place.
        limits: The largest weight of each machine.
    """
    load = [0] * len(limits)
    for cell, machine in enumerate(machine_of):
        load[machine] += graph.weight[cell]
    while 0 in load or any(weight > limit for weight, limit in zip(load, limits, strict=True)):
        cell, taker = min(_moves(graph, machine_of, load, limits))[1:]
        giver = machine_of[cell]
        machine_of[cell] = taker
        load[giver] -= graph.weight[cell]
        load[taker] += graph.weight[cell]


def _moves(
    graph: CellGraph, machine_of: Sequence[int], load: Sequence[int], limits: Sequence[float]
) -> Iterator[tuple[int, int, int]]:
    """Yield the moves from the fullest machine: cost, cell, and the machine that takes it.

    If there are empty machines, only these may take a cell.
    """
    machines = range(len(limits))
    several_cells = [machine for machine in machines if machine_of.count(machine) > 1]
    giver = max(several_cells, key=lambda machine: load[machine] / limits[machine])
    takers = [machine for machine in machines if machine != giver]
    if 0 in load:
        takers = [machine for machine in takers if not load[machine]]
    for cell, machine in enumerate(machine_of):
        if machine != giver:
            continue
        for taker in takers:
            if load[taker] + graph.weight[cell] <= limits[taker]:
                yield _move_cost(graph, machine_of, cell, taker), cell, taker


def _move_cost(graph: CellGraph, machine_of: Sequence[int], cell: int, taker: int) -> int:
    """Return the change of the weight of all cut cables if the cell moves to ``taker``."""
    cost = 0
    for neighbour, cable_weight in graph.neighbours[cell].items():
        if machine_of[neighbour] == machine_of[cell]:
            cost += cable_weight
        if machine_of[neighbour] == taker:
            cost -= cable_weight
    return cost


def partition(network: Network, shares: Sequence[float]) -> Placement:
    """Partition a network over several machines.

    Hosts are on the machine of their switch. The same arguments give the same placement. A network
    of 10,000 nodes takes seconds.

    Args:
        network: The network.
        shares: The share of each machine, as positive numbers in any unit.

    Raises:
        InputError: A share is not positive, or there are more machines than switches.

    >>> from testbed.model.wiring import wire
    >>> from topologies import load_network
    >>> network = load_network("ring:8")
    >>> len(partition(network, [1, 1]).crossing(wire(network)))
    2
    """
    graph = cells_of(network)
    fractions = _fractions(shares, len(graph.members), network.name)
    machine_of_cell = cut_by_metis(graph, fractions)
    keep_limits(graph, machine_of_cell, machine_limits(graph, fractions))
    machine_of: dict[str, int] = {}
    for members, machine in zip(graph.members, machine_of_cell, strict=True):
        for node in members:
            machine_of[node] = machine
    return Placement(
        machines=len(fractions), machine_of={node.id: machine_of[node.id] for node in network.nodes}
    )


def machine_limits(graph: CellGraph, shares: Sequence[float]) -> tuple[float, ...]:
    """Return the largest weight of each machine; the sum of ``shares`` is 1."""
    total = sum(graph.weight)
    return tuple((1 + IMBALANCE) * share * total + graph.heaviest for share in shares)


def _fractions(shares: Sequence[float], cells: int, name: str) -> list[float]:
    """Return the shares divided by their sum."""
    invalid = [share for share in shares if not (math.isfinite(share) and share > 0)]
    if invalid or not shares:
        share = invalid[0] if invalid else "none"
        raise InputError(f"machines: a share of {share}; give each machine a positive number")
    if len(shares) > cells:
        raise InputError(
            f"{len(shares)} machines for {name}, which has {cells} switches; use at most {cells}"
        )
    return [share / sum(shares) for share in shares]


def parse_placement(
    document: object, network: Network, where: str, *, machines: int | None = None
) -> Placement:
    """Read a placement from a JSON document (``testbed schema placement``).

    Args:
        document: The parsed JSON.
        network: The network whose nodes are placed.
        where: Name of the file, for messages.
        machines: Number of machines, or None if it is not known yet.

    Raises:
        InputError: The document is not a placement, names an unknown node, names a node twice,
            or leaves one out.

    >>> from testbed.model.wiring import wire
    >>> from topologies import load_network
    >>> document = {"machines": [["s0", "s1"], ["s2"]]}
    >>> parse_placement(document, load_network("ring:3"), "place.json").machine_of
    {'s0': 0, 's1': 0, 's2': 1, 'h0': 0, 'h1': 0, 'h2': 1}
    """
    groups = _groups(document, where)
    if machines is not None and len(groups) != machines:
        raise InputError(
            f"{where}: nodes are placed on {len(groups)} machines; give lists for {machines}"
        )
    named = _named_nodes(groups, network, where)
    switch_of: dict[str, str] = {}
    for members in cells_of(network).members:
        switch = _switch_of_cell(members, network)
        switch_of.update(dict.fromkeys(members, switch))
    machine_of: dict[str, int] = {}
    for node in network.nodes:
        # A host that is not named is on the machine of its switch.
        nearest_named = node.id if node.id in named else switch_of[node.id]
        if nearest_named not in named:
            raise InputError(f"{where}: {node.kind} {node.id} has no machine; name every switch")
        machine_of[node.id] = named[nearest_named]
    return Placement(machines=len(groups), machine_of=machine_of)


def _groups(document: object, where: str) -> list[list[object]]:
    """Return the list of nodes of each machine."""
    groups = document.get("machines") if isinstance(document, dict) else None
    if (
        not isinstance(groups, list)
        or not groups
        or not all(isinstance(group, list) for group in groups)
    ):
        raise InputError(f'{where}: give {{"machines": [[node, ...], ...]}}, one list per machine')
    refuse_unknown(document, "placement", where)
    return groups


def _named_nodes(groups: list[list[object]], network: Network, where: str) -> dict[str, int]:
    """Return the machine of each node that the document names."""
    named: dict[str, int] = {}
    for machine, group in enumerate(groups):
        if not group:
            raise InputError(
                f"{where}: machine {machine} has no node; give it one, or use fewer machines"
            )
        for node in group:
            if not isinstance(node, str) or node not in network.node_index:
                raise InputError(
                    f"{where}: machine {machine}: {network.name} has no node {str(node)[:60]!r}"
                )
            if node in named:
                raise InputError(
                    f"{where}: node {node} is on machine {named[node]} and on machine {machine}; "
                    "name it once"
                )
            named[node] = machine
    return named


def _switch_of_cell(members: tuple[str, ...], network: Network) -> str:
    return next((node for node in members if network.node(node).kind == "switch"), members[0])
