"""A bulk run's end-point processes on one of several machines: what the coordinator asks of it.

The functions are requests (``testbed.machines.rpc``), performed in the machine's first thread, whose children the
processes are.
"""

import os
from collections.abc import Callable
from multiprocessing.connection import Connection

# A request's module is imported when it is first performed: scapy is to be there before a run, not loaded within it.
from testbed.bulk.emulated import injection as injection
from testbed.bulk.emulated.agent_process import AgentProcess
from testbed.bulk.emulated.receiver import Receiver
from testbed.bulk.emulated.sender import Sender
from testbed.bulk.messages import MessageSet
from testbed.machines.adapters.rpc_network import network_of
from testbed.machines.adapters.stream_forwarding import Opened, register_stream
from testbed.machines.rpc import MachineState


def start_agent(machine: MachineState, name: str, role: str, nodes: tuple[str, ...], messages: MessageSet) -> None:
    """Fork the process for these nodes, and let the coordinator have its pipe."""
    net = network_of(machine)
    run = Receiver(net, net.wiring, nodes, messages).run if role == "receiver" else _sender(machine, nodes, messages)
    process = AgentProcess(role, nodes, run)
    machine.objects["agent", name] = process
    machine.objects["built"].callback(process.close)

    def opened() -> Opened:
        descriptor = os.dup(process.fileno())
        return descriptor, descriptor

    register_stream(machine, f"agent {name}", opened)


def kill_agent(machine: MachineState, name: str) -> None:
    """End the process at once, as a crash would."""
    process = machine.objects["agent", name]
    assert isinstance(process, AgentProcess)
    process.kill()


def stop_agent(machine: MachineState, name: str) -> None:
    """End the process when the run is over."""
    process = machine.objects.pop(("agent", name), None)
    if process is not None:
        process.close()


def _sender(machine: MachineState, nodes: tuple[str, ...], messages: MessageSet) -> Callable[[Connection], None]:
    net = network_of(machine)
    return Sender(net, net.wiring, messages, set(nodes)).run
