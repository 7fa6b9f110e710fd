"""A network over several machines that others reach by the door of the process that coordinates it, as they reach one
on one machine."""

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
    """The requests that a network over machines answers: describe, exec and those about links; no recordings."""

    def __init__(self, network: DistributedNetwork) -> None:
        self.network = network
        self.faults = ManualFaults(network)
        self._nodes = nodes_of_devices(network.wiring)

    def handlers(self) -> dict[str, Handler]:
        """By the request's ``do``."""
        return {
            "describe": self._describe,
            "exec": self._exec,
            "capture": self._refuse_recording,
            **link_handlers(self.network, self.faults),
        }

    def machine_of(self, name: str) -> int:
        """Where the host or switch of that name lies. InputError where there is none."""
        node = name if name in self.network.placement.machine_of else self._nodes.get(name)
        if node is None:
            raise InputError(f"no host {name!r} in this network; {nearest(name, self._nodes)}")
        return self.network.machine_of(node)

    def _describe(self, sock: socket.socket, request: Frame) -> None:
        document = wiring_document(self.network.wiring, cables=bool(request.header.get("cables")))
        machines = list(self.network.machines.names)
        for one in (*document["hosts"], *document["switches"]):
            one["machine"] = machines[self.network.machine_of(one["node"])]
        reported = {
            "datapath": "user",
            "mtu": self.network.mtu,
            "machines": machines,
            "setup_seconds": {},
        }
        send(sock, {**reported, **document})

    def _exec(self, sock: socket.socket, request: Frame) -> None:
        try:
            if len(request.descriptors) != 3:
                raise InputError(
                    "a program needs standard input, output and error; give three descriptors"
                )
            machine = self.machine_of(str(request.header.get("host")))
            program = RemoteProgram(self.network, machine, request.header)
            send(sock, {"pid": 0})  # that of another machine would name another process here
            send(sock, {"code": attend_here(program, sock, request.descriptors)})
        finally:
            request.close()

    def _refuse_recording(self, sock: socket.socket, _: Frame) -> None:
        raise InputError(
            "capture: links are recorded on a network on one machine; record in a host with testbed exec"
        )
