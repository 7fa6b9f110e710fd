"""The processes at both ends of a bulk run.

On each machine, one process sends for all senders there, and one receives for all receivers. A
receiver that is killed during the run has a separate process, so that no other receiver dies with
it. The functions with a ``MachineState`` are requests (``testbed.machines.rpc``). They are executed
in the machine's first thread, whose children the processes are. Their pipes are streams of the
machine.
"""

import math
import os
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Literal

from testbed.bulk.coordinator import Send

# A request's module is imported when it is first executed. This one imports scapy, which must not
# happen during a run.
from testbed.bulk.emulated import injection as injection
from testbed.bulk.emulated.agent_process import (
    ANSWER_S,
    AgentProcess,
    NodeSockets,
    PipeEnd,
    process_groups,
)
from testbed.bulk.emulated.receiver import Receiver
from testbed.bulk.emulated.sender import Sender
from testbed.bulk.measurements import TcpRetransmissions
from testbed.bulk.messages import Count, Counted, MessageDone, MessageSet, Report
from testbed.bulk.plan import BulkPlan
from testbed.machines.adapters.platform import Platform
from testbed.machines.adapters.rpc_network import network_of
from testbed.machines.adapters.stream_forwarding import Opened, register_stream
from testbed.machines.rpc import MachineState

Role = Literal["sender", "receiver"]
# The retransmissions of TCP, by the first transfer that uses the connection.
Retransmissions = dict[int, TcpRetransmissions]
# A measured clock offset is used for this time, because clocks drift.
_OFFSET_FOR_S = 1.0
# How long a process may take to end.
_END_S = 10.0


def start_agent(
    machine: MachineState, name: str, role: Role, nodes: tuple[str, ...], messages: MessageSet
) -> None:
    """Start a process, and register its pipe for the coordinator.

    Args:
        machine: The machine.
        name: The name of the process.
        role: Whether it sends or receives.
        nodes: The nodes whose sockets it has.
        messages: All messages of the run.
    """
    sockets = NodeSockets.of(network_of(machine), nodes)
    process = AgentProcess(role, nodes, partial(_run_agent, role, sockets, nodes, messages))
    machine.objects["agent", name] = process
    machine.objects["built"].callback(stop_agent, machine, name)

    def opened() -> Opened:
        descriptor = os.dup(process.fileno())
        return descriptor, descriptor

    register_stream(machine, f"agent {name}", opened)


def _run_agent(
    role: Role, sockets: NodeSockets, nodes: tuple[str, ...], messages: MessageSet, pipe: Connection
) -> None:
    agent = Receiver if role == "receiver" else Sender
    agent(sockets, nodes, messages).run(pipe)


def kill_agent(machine: MachineState, name: str) -> None:
    """End a process at once, like a crash."""
    machine.objects["agent", name].kill()


def stop_agent(machine: MachineState, name: str) -> None:
    """End a process when the run is over."""
    process = machine.objects.pop(("agent", name), None)
    if process is not None:
        process.close()


@dataclass(frozen=True)
class _AgentSpec:
    """The name, the machine, the role and the nodes of a process."""

    name: str
    machine: int
    role: Role
    nodes: tuple[str, ...]


class _Agent(PipeEnd):
    """A process on one of the machines; times in its reports are converted to our clock."""

    def __init__(self, platform: Platform, spec: _AgentSpec) -> None:
        stream = platform.open_stream(spec.machine, f"agent {spec.name}")
        super().__init__(spec.role, spec.nodes, Connection(stream.detach()))
        self._platform = platform
        self._machine = spec.machine
        self._name = spec.name
        self._offset_s = 0.0
        self._measured_s = -math.inf

    def receive(self, timeout_s: float = ANSWER_S) -> Report:
        report = super().receive(timeout_s)
        if isinstance(report, MessageDone):
            return replace(report, at_s=report.at_s - self._clock_offset_s())
        return report

    def _clock_offset_s(self) -> float:
        """Return the time by which the machine's clock is ahead of ours.

        It is measured once a second instead of once per message.
        """
        now_s = time.monotonic()
        if now_s - self._measured_s > _OFFSET_FOR_S:
            self._offset_s = self._platform.theirs_s(self._machine, now_s) - now_s
            self._measured_s = now_s
        return self._offset_s

    def kill(self) -> None:
        """End the process at once, like a crash."""
        self._platform.call(self._machine, kill_agent, self._name).result(_END_S)

    def close(self) -> None:
        """End the process, and close the pipe."""
        self._platform.call(self._machine, stop_agent, self._name).result(_END_S)
        self._pipe.close()


class BulkEndpoints:
    """All processes of a run."""

    def __init__(self, platform: Platform, plan: BulkPlan, messages: MessageSet) -> None:
        """Start the processes, and establish every connection of the messages.

        Raises:
            CapabilityError: A process cannot start or connect.
        """
        self._platform = platform
        self._messages = messages
        killed = [process.node for process in plan.killed]
        with ExitStack() as stack:
            self._receiving = self._start(stack, "receiver", plan.receivers, killed)
            self._sending = self._start(stack, "sender", plan.senders, [])
            self._stack = stack.pop_all()

    def _start(
        self, stack: ExitStack, role: Role, nodes: Sequence[str], killed: Sequence[str]
    ) -> list[_Agent]:
        """Start the processes for these nodes, and wait until they are ready.

        Args:
            stack: Closes the processes.
            role: Whether they send or receive.
            nodes: The nodes.
            killed: The nodes whose process is killed during the run.
        """
        specs = self._specs(role, nodes, killed)
        requests = []
        for spec in specs:
            requests.append(
                self._platform.call(
                    spec.machine, start_agent, spec.name, role, spec.nodes, self._messages
                )
            )
        for request in requests:
            request.result(ANSWER_S)
        agents = []
        for spec in specs:
            agents.append(stack.enter_context(closing(_Agent(self._platform, spec))))
        for agent in agents:
            agent.receive()
        return agents

    def _specs(self, role: Role, nodes: Sequence[str], killed: Sequence[str]) -> list[_AgentSpec]:
        specs: list[_AgentSpec] = []
        for machine in range(len(self._platform.names)):
            local = [node for node in nodes if self._platform.machine_of(node) == machine]
            for group in process_groups(local, killed):
                specs.append(_AgentSpec(f"{role} {len(specs)}", machine, role, group))
        return specs

    def close(self) -> None:
        """End all processes."""
        self._stack.close()

    @property
    def processes(self) -> tuple[PipeEnd, ...]:
        """All processes."""
        return (*self._sending, *self._receiving)

    def send(self, messages: Sequence[tuple[int, int]]) -> None:
        """Send messages now.

        Args:
            messages: The number and the attempt of each message.
        """
        for process in self._sending:
            of_process = []
            for number, attempt in messages:
                source = self._messages.ends[number][0]
                if source in process.nodes:
                    of_process.append((number, attempt))
            if of_process:
                process.order(Send(messages=tuple(of_process)))

    def completed(self, limit_s: float) -> list[MessageDone]:
        """Return the next messages that receivers report, or none if none arrives in time."""
        process_of = {process.fileno(): process for process in self._receiving}
        readable, _, _ = select.select(list(process_of), (), (), limit_s)
        completed = []
        for file in readable:
            report = process_of[file].receive()
            if isinstance(report, MessageDone):
                completed.append(report)
        return completed

    def kill(self, node: str) -> None:
        """End the process of a receiver at once, like a crash."""
        next(process for process in self._receiving if node in process.nodes).kill()

    def retransmitted(self) -> Retransmissions:
        """Return the retransmissions of TCP so far."""
        return {
            number: TcpRetransmissions(*counts) for number, *counts in self._counted(self._sending)
        }

    def deliveries(self) -> dict[int, int]:
        """Return how often each message was delivered; receivers that died are missing."""
        return {number: sum(times) for number, *times in self._counted(self._receiving)}

    def _counted(self, processes: Sequence[_Agent]) -> Iterator[tuple[int, ...]]:
        """Yield the counts of all processes that are alive."""
        for process in processes:
            process.order(Count())
            with suppress(EOFError):
                report = process.receive()
                # Messages may have been completed, or connections broken, after the run.
                while not isinstance(report, Counted):
                    report = process.receive()
                yield from report.counts
