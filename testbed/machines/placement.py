"""Which machine holds which nodes of a network, and which cables therefore cross from one to another; pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.errors import InputError
from testbed.model.wiring import Wiring


@dataclass(frozen=True, kw_only=True)
class Placement:
    """``machine_of``: the machine of every node, 0 to ``machines`` - 1. InputError where one is out of range, or a
    machine empty."""

    machines: int
    machine_of: Mapping[str, int]

    def __post_init__(self) -> None:
        for node, machine in self.machine_of.items():
            if not 0 <= machine < self.machines:
                raise InputError(f"place: node {node} on machine {machine}; there are {self.machines}, from 0")
        if empty := sorted(set(range(self.machines)) - set(self.machine_of.values())):
            raise InputError(f"place: no node is on machine {empty[0]}; give each a node, or take fewer machines")

    def device_machines(self, wiring: Wiring) -> dict[str, int]:
        """The machine of every host and bridge, by the wiring's names; an outside host lies where its switch does."""
        node_of = nodes_of_devices(wiring)
        missing = [node for node in node_of.values() if node not in self.machine_of]
        if missing:
            raise InputError(f"place: node {missing[0]} is on no machine; name all nodes of {wiring.network.name}")
        return {device: self.machine_of[node] for device, node in node_of.items()}

    def crossing(self, wiring: Wiring) -> tuple[int, ...]:
        """Indices into ``wiring.cables`` of those whose ends lie on two machines, in order."""
        machine = self.device_machines(wiring)
        return tuple(i for i, cable in enumerate(wiring.cables) if machine[cable.a] != machine[cable.b])


def nodes_of_devices(wiring: Wiring) -> dict[str, str]:
    """Name of a host or bridge of the wiring -> the node that it is or stands for."""
    return {s.name: s.node for s in wiring.switches} | {h.name: h.node for h in wiring.hosts}
