"""The processes at both ends of a bulk run: one that sends for all senders, one that receives for all receivers.

A receiver that is to be killed in mid-run has a process of its own, so that its death is nobody else's.
"""

import select
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

from testbed.bulk.coordinator import Send
from testbed.bulk.emulated.agent_process import AgentProcess, PipeEnd, process_groups
from testbed.bulk.emulated.receiver import Receiver
from testbed.bulk.emulated.sender import Sender
from testbed.bulk.measurements import TcpRetransmissions
from testbed.bulk.messages import Count, Delivered, MessageDone, MessageSet, Retransmitted
from testbed.bulk.plan import BulkPlan
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.model.wiring import Wiring

Retransmissions = dict[int, TcpRetransmissions]
"""Transfer -> what TCP has sent again on its connection."""


StartAgents = Callable[[str, Sequence[str], Sequence[str]], Sequence[PipeEnd]]
"""(role, nodes, those that are to be killed) -> the processes, started."""


def agents_here(net: EmulatedNetwork, wiring: Wiring, messages: MessageSet) -> StartAgents:
    """Processes of this machine: one a group of receivers, one for all senders."""

    def start(role: str, nodes: Sequence[str], killed: Sequence[str]) -> Sequence[PipeEnd]:
        if role == "sender":
            return [AgentProcess(role, nodes, Sender(net, wiring, messages).run)]
        return [
            AgentProcess(role, group, Receiver(net, wiring, group, messages).run)
            for group in process_groups(nodes, killed)
        ]

    return start


class BulkEndpoints:
    """Started, every connection of ``messages`` stands. Raises CapabilityError where a process cannot begin or
    connect."""

    def __init__(self, start: StartAgents, plan: BulkPlan, messages: MessageSet) -> None:
        self._ends = messages.ends
        with ExitStack() as stack:
            killed = [k.node for k in plan.killed]
            self._receiving = [stack.enter_context(closing(p)) for p in start("receiver", plan.receivers, killed)]
            for process in self._receiving:
                process.receive()
            self._sending = [stack.enter_context(closing(p)) for p in start("sender", plan.senders, [])]
            for process in self._sending:
                process.receive()
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    @property
    def processes(self) -> tuple[PipeEnd, ...]:
        return (*self._sending, *self._receiving)

    def send(self, messages: Sequence[tuple[int, int]]) -> None:
        """Send (number, attempt) of these messages now."""
        for process in self._sending:
            own = tuple(one for one in messages if self._ends[one[0]][0] in process.nodes)
            if own:
                process.order(Send(messages=own))

    def completed(self, limit_s: float) -> list[MessageDone]:
        """The next messages that receivers report; empty where none came within the limit."""
        by_file = {process.fileno(): process for process in self._receiving}
        reports = [by_file[file].receive() for file in select.select(list(by_file), (), (), limit_s)[0]]
        return [report for report in reports if isinstance(report, MessageDone)]

    def kill(self, node: str) -> None:
        """End the process of that receiver, as a crash would."""
        next(process for process in self._receiving if node in process.nodes).kill()

    def retransmitted(self) -> Retransmissions:
        """What TCP has sent again so far."""
        found: Retransmissions = {}
        for process in self._sending:
            process.order(Count())
            while not isinstance(report := process.receive(), Retransmitted):
                pass  # a connection that broke after the end
            found.update({number: TcpRetransmissions(*counts) for number, *counts in report.counts})
        return found

    def deliveries(self) -> dict[int, int]:
        """Message -> how often its receiver delivered it, whole and verified; of receivers that live."""
        found: dict[int, int] = {}
        for process in self._receiving:
            process.order(Count())
            try:
                while not isinstance(report := process.receive(), Delivered):
                    pass  # a message that was complete after the end
            except EOFError:
                continue
            found.update(report.counts)
        return found
