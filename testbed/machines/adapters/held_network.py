"""A network over several machines that others reach by the door of the process that coordinates it, as they reach one on one machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from testbed.emulation.held.channel import Frame, send
from testbed.emulation.held.service import DoorKeeper, Handler, StandingFaults, link_handlers
from testbed.emulation.sandbox.door import inherited_door, name_of, open_door
from testbed.errors import InputError
from testbed.machines.adapters.remote_program import RemoteProgram, attend
from testbed.machines.adapters.spread import SpreadNetwork
from testbed.machines.adapters.streams import Streams
from testbed.machines.placement import nodes_of_devices


class SpreadService:
    """The requests that a network over machines answers: describe, exec, fail, restore, faults, counters; no recordings."""

    def __init__(self, network: SpreadNetwork, streams: Streams) -> None:
        self.network, self.streams = network, streams
        self.faults = StandingFaults(network)
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
        """Where the host or switch of that name, a node's or a device's, lies. InputError where there is none."""
        node = name if name in self.network.placement.machine_of else self._nodes.get(name)
        if node is None:
            raise InputError(f"no host {name!r} in this network; it has {', '.join(list(self._nodes)[:6])} ...")
        return self.network.machine_of(node)

    def machine_name(self, node: str) -> str:
        """The name of the machine that a node lies on."""
        return self.network.machines.names[self.network.machine_of(node)]

    def _describe(self, sock: socket.socket, _: Frame) -> None:
        wiring = self.network.wiring
        hosts = [
            {"node": h.node, "device": h.name, "ip": h.ip, "outside": h.outside, "machine": self.machine_name(h.node)}
            for h in wiring.hosts
        ]
        switches = [
            {"node": s.node, "device": s.name, "dpid": s.dpid, "machine": self.machine_name(s.node)}
            for s in wiring.switches
        ]
        send(
            sock,
            {
                "network": wiring.network.name,
                "datapath": "user",
                "mtu": self.network.mtu,
                "hosts": hosts,
                "switches": switches,
                "machines": list(self.network.machines.names),
                "setup_seconds": {},
            },
        )

    def _exec(self, sock: socket.socket, request: Frame) -> None:
        try:
            if len(request.descriptors) != 3:
                raise InputError("a program needs standard input, output and error; give three descriptors")
            machine = self.machine_of(str(request.header.get("host")))
            program = RemoteProgram(self.network, self.streams, machine, request.header)
            send(sock, {"pid": 0})  # that of another machine would name another process here
            send(sock, {"code": attend(program, sock, request.descriptors)})
        finally:
            request.close()

    def _refuse_recording(self, sock: socket.socket, _: Frame) -> None:
        raise InputError("capture: links are recorded on a network on one machine; record in a host with testbed exec")


@contextmanager
def reachable_over_machines(
    network: SpreadNetwork, streams: Streams, *, inside: bool = False
) -> Iterator[tuple[str | None, Callable[[], None]]]:
    """As ``testbed.emulation.held.service.reachable``; (name, what closes the doors early). ``inside``: also from within the sandbox
    that coordinates it, whose network namespace the outer door is not in."""
    doors: Sequence[socket.socket] = [door for door in (inherited_door(),) if door is not None]
    name = name_of(doors[0]) if doors else None
    if inside and name is not None:
        doors = [*doors, open_door(name)]
    handlers = SpreadService(network, streams).handlers()
    with ExitStack() as stack:
        keepers = [DoorKeeper(door, handlers) for door in doors]
        for keeper in keepers:
            keeper.start()
            stack.callback(keeper.close)

        def close() -> None:
            for keeper in keepers:
                keeper.close()

        yield name, close
