"""A network cut over machines by what each says that it can carry; or by hand, by ``--machine-placement FILE``:
``{"machines": [["s1", "s2"], ["s3"]]}``.

Never cut apart is a switch with the hosts that are attached to it: such cells are the vertices of the graph that is
cut, by METIS (Karypis and Kumar 1998) through pymetis. What it left over a limit or empty is moved where that costs
least. A cell weighs as many cable ends as it has, and one a switch: what a user-space switch costs grows with its
ports.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import InputError
from testbed.model.schemas import refuse_unknown
from testbed.model.wiring import Wiring, wire
from topologies import Network


@dataclass(frozen=True, kw_only=True)
class Placement:
    """``machine_of``: the machine of every node, 0 to ``machines`` - 1. InputError where one is out of range, or a
    machine empty."""

    machines: int
    machine_of: Mapping[str, int]

    def __post_init__(self) -> None:
        for node, machine in self.machine_of.items():
            if not 0 <= machine < self.machines:
                raise InputError(
                    f"place: node {node} on machine {machine}; there are {self.machines}, from 0"
                )
        if empty := sorted(set(range(self.machines)) - set(self.machine_of.values())):
            raise InputError(
                f"place: no node is on machine {empty[0]}; give each a node, or take fewer machines"
            )

    def device_machines(self, wiring: Wiring) -> dict[str, int]:
        """The machine of every host and bridge, by the wiring's names; an outside host lies where its switch does."""
        node_of = nodes_of_devices(wiring)
        missing = [node for node in node_of.values() if node not in self.machine_of]
        if missing:
            raise InputError(
                f"place: node {missing[0]} is on no machine; name all nodes of {wiring.network.name}"
            )
        return {device: self.machine_of[node] for device, node in node_of.items()}

    def crossing(self, wiring: Wiring) -> tuple[int, ...]:
        """Indices into ``wiring.cables`` of those whose ends lie on two machines, in order."""
        machine = self.device_machines(wiring)
        return tuple(
            i for i, cable in enumerate(wiring.cables) if machine[cable.a] != machine[cable.b]
        )


def nodes_of_devices(wiring: Wiring) -> dict[str, str]:
    """Name of a host or bridge of the wiring -> the node that it is or stands for."""
    return {s.name: s.node for s in wiring.switches} | {h.name: h.node for h in wiring.hosts}


LARGEST_WEIGHT = 10_000
"""Of the fattest cable; the others in proportion, and one at least."""


@dataclass(frozen=True, kw_only=True)
class CellGraph:
    """``members``: the nodes of each cell, in the network's order. ``weight``: of each cell. ``joined``: of each cell,
    the cells that it has cables to, and their weight together (both directions of a cable; a fat cable weighs more)."""

    members: tuple[tuple[str, ...], ...]
    weight: tuple[int, ...]
    joined: tuple[dict[int, int], ...]

    @property
    def heaviest(self) -> int:
        """Weight of the heaviest cell, which no balance can be finer than."""
        return max(self.weight, default=0)


def cells_of(network: Network) -> CellGraph:
    """Each switch with the hosts whose widest cable leads to it (ties: the first cable); a host between hosts is a cell
    of its own.

    Linear in nodes and links.
    """
    wiring = wire(network)
    node_of = nodes_of_devices(wiring)
    hosts = {host.node for host in wiring.hosts}
    cables = [
        (
            node_of[c.a],
            node_of[c.b],
            sum(network.link(*link).capacity_bps for link in (c.forward, c.backward) if link),
        )
        for c in wiring.cables
    ]
    home: dict[str, tuple[float, str]] = {}
    for a, b, capacity_bps in cables:
        for host, switch in ((a, b), (b, a)):
            if (
                host in hosts
                and switch not in hosts
                and capacity_bps > home.get(host, (0.0, ""))[0]
            ):
                home[host] = capacity_bps, switch
    of_cell = {node.id: home[node.id][1] if node.id in home else node.id for node in network.nodes}
    number = {cell: i for i, cell in enumerate(dict.fromkeys(of_cell.values()))}
    members: list[list[str]] = [[] for _ in number]
    weight = [1] * len(number)
    joined: list[dict[int, int]] = [{} for _ in number]
    for node in network.nodes:
        members[number[of_cell[node.id]]].append(node.id)
    widest = max((capacity for *_, capacity in cables), default=1.0)
    for a, b, capacity_bps in cables:
        one, other = number[of_cell[a]], number[of_cell[b]]
        weight[one] += 1
        weight[other] += 1
        if one != other:
            heavy = max(1, round(LARGEST_WEIGHT * capacity_bps / widest))
            joined[one][other] = joined[one].get(other, 0) + heavy
            joined[other][one] = joined[other].get(one, 0) + heavy
    return CellGraph(members=tuple(map(tuple, members)), weight=tuple(weight), joined=tuple(joined))


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
    load = [
        sum(graph.weight[cell] for cell in cells if machine_of[cell] == machine)
        for machine in machines
    ]

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
    machine_of = {
        node: machine
        for members, machine in zip(graph.members, cut, strict=True)
        for node in members
    }
    return Placement(
        machines=len(parts), machine_of={node.id: machine_of[node.id] for node in network.nodes}
    )


def machine_limits(graph: CellGraph, shares: Sequence[float]) -> tuple[float, ...]:
    """The most that each machine may weigh; ``shares`` sum to one."""
    total = sum(graph.weight)
    return tuple((1 + IMBALANCE) * share * total + graph.heaviest for share in shares)


def _fractions(shares: Sequence[float], cells: int, name: str) -> list[float]:
    wrong = [share for share in shares if not (math.isfinite(share) and share > 0)]
    if wrong or not shares:
        raise InputError(
            f"machines: a share of {wrong[0] if wrong else 'none'}; give each machine a positive number"
        )
    if len(shares) > cells:
        raise InputError(
            f"{len(shares)} machines for {name}, which has {cells} switches; take at most {cells}"
        )
    return [share / sum(shares) for share in shares]


def parse_placement(
    document: object, network: Network, where: str, *, machines: int | None = None
) -> Placement:
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
    if (
        not isinstance(groups, list)
        or not groups
        or not all(isinstance(group, list) for group in groups)
    ):
        raise InputError(f'{where}: give {{"machines": [[node, ...], ...]}}, one list a machine')
    refuse_unknown(document, "placement", where)
    if machines is not None and len(groups) != machines:
        raise InputError(
            f"{where}: it places nodes on {len(groups)} machines, and there are {machines}"
        )
    named: dict[str, int] = {}
    for machine, group in enumerate(groups):
        if not group:
            raise InputError(
                f"{where}: no node is on machine {machine}; give each a node, or take fewer machines"
            )
        for node in group:
            if not isinstance(node, str) or node not in network.node_index:
                raise InputError(
                    f"{where}: machine {machine}: {network.name} has no node {str(node)[:60]!r}"
                )
            if node in named:
                raise InputError(
                    f"{where}: node {node} lies on machine {named[node]} and on machine {machine}"
                )
            named[node] = machine
    switch_of = {
        node: _switch(members, network) for members in cells_of(network).members for node in members
    }
    for one in network.nodes:
        if one.id not in named and switch_of[one.id] not in named:
            raise InputError(f"{where}: {one.kind} {one.id} is on no machine; name every switch")
    return Placement(
        machines=len(groups),
        machine_of={
            one.id: named.get(one.id, named.get(switch_of[one.id], 0)) for one in network.nodes
        },
    )


def _switch(members: tuple[str, ...], network: Network) -> str:
    return next((node for node in members if network.node(node).kind == "switch"), members[0])
