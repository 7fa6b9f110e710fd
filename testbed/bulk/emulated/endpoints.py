"""The processes at both ends of a bulk run: on each machine one that sends for all senders there, and one that receives
for all receivers.

A receiver that is to be killed in mid-run has a process of its own, so that its death is nobody else's. The first three
functions are requests (``testbed.machines.rpc``), performed in the machine's first thread, whose children the processes
are; their pipes are streams of the machine.
"""

import math
import os
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Literal

from testbed.bulk.coordinator import Send

# A request's module is imported when it is first performed: scapy is to be there before a run, not loaded within it.
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
Retransmissions = dict[int, TcpRetransmissions]
"""Transfer -> what TCP has sent again on its connection."""
_OFFSET_FOR_S = 1.0


def start_agent(
    machine: MachineState, name: str, role: Role, nodes: tuple[str, ...], messages: MessageSet
) -> None:
    """Start the process for these nodes, and let the coordinator have its pipe."""
    sockets = NodeSockets.of(network_of(machine), nodes)
    process = AgentProcess(role, nodes, partial(_run_agent, role, sockets, nodes, messages))
    machine.objects["agent", name] = process
    machine.objects["built"].callback(stop_agent, machine, name)

    def opened() -> Opened:
        descriptor = os.dup(process.fileno())
        return descriptor, descriptor

    register_stream(machine, f"agent {name}", opened)


def _run_agent(
    role: Role, sockets: NodeSockets, nodes: tuple[str, ...], messages: MessageSet, port: Connection
) -> None:
    ends = Receiver if role == "receiver" else Sender
    ends(sockets, nodes, messages).run(port)


def kill_agent(machine: MachineState, name: str) -> None:
    """End the process at once, as a crash would."""
    machine.objects["agent", name].kill()


def stop_agent(machine: MachineState, name: str) -> None:
    """End the process when the run is over."""
    process = machine.objects.pop(("agent", name), None)
    if process is not None:
        process.close()


class _Agent(PipeEnd):
    """A process on one of the platform's machines; what it reports of times is told on our clock."""

    def __init__(
        self, platform: Platform, machine: int, name: str, role: Role, nodes: Sequence[str]
    ) -> None:
        super().__init__(
            role, nodes, Connection(platform.open_stream(machine, f"agent {name}").detach())
        )
        self._platform, self._machine, self._name = platform, machine, name
        self._ahead_s, self._reported_s = 0.0, -math.inf

    def receive(self, timeout_s: float = ANSWER_S) -> Report:
        report = super().receive(timeout_s)
        if isinstance(report, MessageDone):
            return replace(report, at_s=report.at_s - self._offset_s())
        return report

    def _offset_s(self) -> float:
        """By how much the machine's clock is ahead: known again each second, for a clock drifts, and not for each
        message."""
        now_s = time.monotonic()
        if now_s - self._reported_s > _OFFSET_FOR_S:
            self._ahead_s, self._reported_s = (
                self._platform.theirs_s(self._machine, now_s) - now_s,
                now_s,
            )
        return self._ahead_s

    def kill(self) -> None:
        self._platform.call(self._machine, kill_agent, self._name).result(10)

    def close(self) -> None:
        self._platform.call(self._machine, stop_agent, self._name).result(10)
        self._pipe.close()


class BulkEndpoints:
    """Started, every connection of ``messages`` stands. Raises CapabilityError where a process cannot begin or
    connect."""

    def __init__(self, platform: Platform, plan: BulkPlan, messages: MessageSet) -> None:
        self._platform, self._messages = platform, messages
        with ExitStack() as stack:
            self._receiving = self._start(
                stack, "receiver", plan.receivers, [k.node for k in plan.killed]
            )
            self._sending = self._start(stack, "sender", plan.senders, [])
            self._stack = stack.pop_all()

    def _start(
        self, stack: ExitStack, role: Role, nodes: Sequence[str], killed: Sequence[str]
    ) -> list[_Agent]:
        """The processes for these nodes, ready; ``killed``: nodes that are to be killed."""
        platform = self._platform
        groups = [
            (machine, group)
            for machine in range(len(platform.names))
            for group in process_groups(
                [node for node in nodes if platform.machine_of(node) == machine], killed
            )
        ]
        named = [(f"{role} {number}", *one) for number, one in enumerate(groups)]
        requested = [
            platform.call(machine, start_agent, name, role, group, self._messages)
            for name, machine, group in named
        ]
        for one in requested:
            one.result(ANSWER_S)
        agents = [
            stack.enter_context(closing(_Agent(platform, machine, name, role, group)))
            for name, machine, group in named
        ]
        for agent in agents:
            agent.receive()
        return agents

    def close(self) -> None:
        self._stack.close()

    @property
    def processes(self) -> tuple[PipeEnd, ...]:
        return (*self._sending, *self._receiving)

    def send(self, messages: Sequence[tuple[int, int]]) -> None:
        """Send (number, attempt) of these messages now."""
        for process in self._sending:
            own = tuple(one for one in messages if self._messages.ends[one[0]][0] in process.nodes)
            if own:
                process.order(Send(messages=own))

    def completed(self, limit_s: float) -> list[MessageDone]:
        """The next messages that receivers report; empty where none came within the limit."""
        by_file = {process.fileno(): process for process in self._receiving}
        reports = [
            by_file[file].receive() for file in select.select(list(by_file), (), (), limit_s)[0]
        ]
        return [report for report in reports if isinstance(report, MessageDone)]

    def kill(self, node: str) -> None:
        """End the process of that receiver, as a crash would."""
        next(process for process in self._receiving if node in process.nodes).kill()

    def retransmitted(self) -> Retransmissions:
        """What TCP has sent again so far."""
        return {
            number: TcpRetransmissions(*counts) for number, *counts in self._counted(self._sending)
        }

    def deliveries(self) -> dict[int, int]:
        """Message -> how often its receiver delivered it, whole and verified; of receivers that live."""
        return {number: sum(times) for number, *times in self._counted(self._receiving)}

    def _counted(self, processes: Sequence[_Agent]) -> Iterator[tuple[int, ...]]:
        """What those of the processes that live have counted."""
        for process in processes:
            process.order(Count())
            with suppress(EOFError):
                while not isinstance(report := process.receive(), Counted):
                    pass  # a message that was complete, or a connection that broke, after the end
                yield from report.counts
