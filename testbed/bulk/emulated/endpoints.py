"""The processes at both ends of a bulk run: one that sends for all senders, one that receives for all receivers.

A receiver that is to be killed in mid-run has a process of its own, so that its death is nobody else's.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from contextlib import ExitStack, closing

from testbed.bulk.agent_messages import Count, Delivered, MessageDone, Retransmitted, SendMessages
from testbed.bulk.emulated.agent_process import AgentProcess, process_groups
from testbed.bulk.emulated.receiver import Receiver
from testbed.bulk.emulated.sender import Sender
from testbed.bulk.messages import MessageSet
from testbed.bulk.plan import BulkPlan
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.model.wiring import Wiring

Retransmissions = dict[int, tuple[int, int]]
"""Transfer -> (bytes, packets)."""


class BulkEndpoints:
    """Started, every connection of ``messages`` stands. Raises CapabilityError where a process cannot begin or connect."""

    def __init__(self, net: EmulatedNetwork, wiring: Wiring, plan: BulkPlan, messages: MessageSet) -> None:
        groups = process_groups(plan.receivers, [k.node for k in plan.killed])
        with ExitStack() as stack:
            self._receiving = [
                stack.enter_context(
                    closing(AgentProcess("receiver", group, Receiver(net, wiring, group, messages).run))
                )
                for group in groups
            ]
            for process in self._receiving:
                process.receive()
            sender = AgentProcess("sender", plan.senders, Sender(net, wiring, messages).run)
            self._sending = stack.enter_context(closing(sender))
            self._sending.receive()
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    @property
    def processes(self) -> tuple[AgentProcess, ...]:
        return (self._sending, *self._receiving)

    def send(self, messages: Sequence[tuple[int, int]]) -> None:
        """Send (number, attempt) of these messages now."""
        self._sending.order(SendMessages(messages=tuple(messages)))

    def completed(self, limit_s: float) -> list[MessageDone]:
        """The next messages that receivers report; empty where none came within the limit."""
        by_file = {process.fileno(): process for process in self._receiving}
        reports = [by_file[file].receive() for file in select.select(list(by_file), (), (), limit_s)[0]]
        return [report for report in reports if isinstance(report, MessageDone)]

    def kill(self, node: str) -> None:
        """End the process of that receiver, as a crash would."""
        next(process for process in self._receiving if node in process.nodes).kill()

    def retransmitted(self) -> Retransmissions:
        """Transfer -> (bytes, packets) that TCP has sent again on its connection so far."""
        self._sending.order(Count())
        while not isinstance(report := self._sending.receive(), Retransmitted):
            pass  # a connection that broke after the end
        return {number: (octets, packets) for number, octets, packets in report.counts}

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
