"""Requests of other processes to a network over several machines.

They arrive at the socket of the process that coordinates the network, like the requests to a
network on one machine.
"""

import socket

from testbed.emulation.attach.protocol import Frame, send
from testbed.emulation.attach.server import Handler, ManualFaults, link_handlers
from testbed.errors import InputError
from testbed.machines.adapters.distributed_network import DistributedNetwork
from testbed.machines.adapters.remote_program import RemoteProgram, attend_here
from testbed.machines.partition import nodes_of_devices
from testbed.model.wiring import wiring_document
from topologies import nearest


class DistributedHandlers:
    """The handlers of all requests to a network over several machines.

    They answer ``describe``, ``exec`` and the requests about links. ``capture`` is refused.
    """

    def __init__(self, network: DistributedNetwork) -> None:
        self.network = network
        self.faults = ManualFaults(network)
        self._nodes = nodes_of_devices(network.wiring)

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by the request's field ``do``."""
        return {
            "describe": self._describe,
            "exec": self._exec,
            "capture": self._refuse_recording,
            **link_handlers(self.network, self.faults),
        }

    def machine_of(self, name: str) -> int:
        """Return the machine of the host or switch with this name.

        Raises:
            InputError: The network has no such host or switch.
        """
        node = name if name in self.network.placement.machine_of else self._nodes.get(name)
        if node is None:
            raise InputError(f"no host {name!r} in this network; {nearest(name, self._nodes)}")
        return self.network.machine_of(node)

    def _describe(self, sock: socket.socket, request: Frame) -> None:
        document = wiring_document(self.network.wiring, cables=bool(request.header.get("cables")))
        machines = list(self.network.machines.names)
        for device in (*document["hosts"], *document["switches"]):
            device["machine"] = machines[self.network.machine_of(device["node"])]
        network = {
            "datapath": "user",
            "mtu": self.network.mtu,
            "machines": machines,
            "setup_seconds": {},
        }
        send(sock, {**network, **document})

    def _exec(self, sock: socket.socket, request: Frame) -> None:
        try:
            if len(request.descriptors) != 3:
                raise InputError(
                    "a program needs standard input, output and error; give three descriptors"
                )
            machine = self.machine_of(str(request.header.get("host")))
            program = RemoteProgram(self.network, machine, request.header)
            # A process id is meaningless on another machine.
            send(sock, {"pid": 0})
            send(sock, {"code": attend_here(program, sock, request.descriptors)})
        finally:
            request.close()

    def _refuse_recording(self, sock: socket.socket, _: Frame) -> None:
        raise InputError(
            "capture: links can be recorded on one machine only; record in a host with testbed exec"
        )
