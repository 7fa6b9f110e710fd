"""What is never cut apart: a switch with the hosts that are attached to it; cells are the vertices of the graph that is
cut.

A cell weighs as many cable ends as it has, and one a switch: what a user-space switch costs grows with its ports.
"""

from dataclasses import dataclass

from testbed.machines.placement import nodes_of_devices
from testbed.model.wiring import wire
from topologies.network import Network

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
        (node_of[c.a], node_of[c.b], sum(network.link(*link).capacity_bps for link in (c.forward, c.backward) if link))
        for c in wiring.cables
    ]
    home: dict[str, tuple[float, str]] = {}
    for a, b, capacity_bps in cables:
        for host, switch in ((a, b), (b, a)):
            if host in hosts and switch not in hosts and capacity_bps > home.get(host, (0.0, ""))[0]:
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
