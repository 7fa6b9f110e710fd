"""Bulk transfers on a network over several machines: the same run, its sockets and pipes reached over the machines'
link."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection

from testbed.bulk.emulated.agent_process import ANSWER_S, PipeEnd, process_groups
from testbed.bulk.emulated.endpoints import StartAgents
from testbed.bulk.emulated.machine_ends import kill_agent, start_agent, stop_agent
from testbed.bulk.emulated.measured_run import MTU_BYTES, run_on
from testbed.bulk.emulated.run import RunOptions
from testbed.bulk.measurements import BulkMeasurements
from testbed.bulk.messages import MessageDone, MessageSet, Order, Report
from testbed.bulk.plan import BulkPlan
from testbed.machines.adapters.cluster import Machines
from testbed.machines.adapters.distributed_network import (
    DistributedNetwork,
    distributed_network,
    machines_report,
    naming_dead_machine,
    placement_of,
)
from testbed.machines.machines_request import MachinesRequest
from testbed.model.progress import Progress, ReadCounters, ReportProgress
from testbed.model.wiring import wire

_OFFSET_FOR_S = 1.0


def run_over(
    machines: Machines,
    requested: MachinesRequest,
    plan: BulkPlan,
    report_progress: ReportProgress,
    options: RunOptions,
) -> BulkMeasurements:
    """The plan over these machines, on a network of its own. Errors as of ``EmulatedBulkFabric.run``."""
    wiring = wire(plan.network)
    mtu = min(MTU_BYTES, machines.widest_mtu)
    report_progress(Progress(done_s=0, total_s=1, doing="building the network"))
    placement = placement_of(machines, wiring, requested)
    with distributed_network(machines, wiring, placement, mtu=mtu, controlled=False) as network:
        last = LastProgress(report_progress, network.reading)
        start_s = time.monotonic()
        with naming_dead_machine(machines, last.to_json):
            measured = run_on(network, plan, last, options, partial(agents_over, network))
        found = machines_report(network, start_s, plan.link_rate_bps / 8 / mtu)
        found.require_for(measured.seconds)
        return replace(measured, machines=found)


class LastProgress:
    """Passes progress on and keeps what was said last: what a machine that dies leaves to tell.

    ``ask``: what the links carry, to be asked from when messages are sent: not while machines fork processes.
    """

    def __init__(self, report_progress: ReportProgress, ask: ReadCounters | None = None) -> None:
        self._report_progress, self._ask = report_progress, ask
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        if progress.total_s:
            self._last = progress
        self._report_progress(replace(progress, read_remote=self._ask) if progress.reading is not None else progress)

    def to_json(self) -> dict[str, object]:
        """What was going on; messages that were whole by then."""
        last = self._last
        if last is None:
            return {"doing": "connecting", "messages": 0}
        whole = last.done_s if last.reading is not None else 0
        return {"doing": last.doing, "messages": int(whole)}


def agents_over(network: DistributedNetwork, messages: MessageSet) -> StartAgents:
    """Processes on the machines where the nodes lie, one a group."""

    def opened(machine: int, name: str) -> Connection:
        """The pipe's far end: what multiprocessing frames on one side it reads on the other, whatever is between."""
        return Connection(network.open_stream(machine, f"agent {name}").detach())

    def start(role: str, nodes: Sequence[str], killed: Sequence[str]) -> Sequence[PipeEnd]:
        groups = [
            (k, group)
            for k in range(len(network.machines))
            for group in process_groups([n for n in nodes if network.machine_of(n) == k], killed)
            if all(network.machine_of(n) == k for n in group)
        ]
        names = [f"{role} {number}" for number in range(len(groups))]
        requested = [
            network.call(k, start_agent, name, role, group, messages)
            for name, (k, group) in zip(names, groups, strict=True)
        ]
        for one in requested:
            one.result(ANSWER_S)
        return [
            _RemoteAgent(network.machines, k, name, role, group, opened(k, name))
            for name, (k, group) in zip(names, groups, strict=True)
        ]

    return start


class _RemoteAgent(PipeEnd):
    """A process on another machine; what it reports of times is told on our clock."""

    def __init__(
        self, machines: Machines, machine: int, name: str, role: str, nodes: Sequence[str], pipe: Connection
    ) -> None:
        super().__init__(role, nodes, pipe)
        self._machines, self._machine, self._name = machines, machine, name
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
            self._ahead_s, self._reported_s = self._machines.theirs_s(self._machine, now_s) - now_s, now_s
        return self._ahead_s

    def order(self, order: Order) -> None:
        self._machines.check()
        super().order(order)

    def kill(self) -> None:
        self._machines.call(self._machine, kill_agent, self._name).result(10)

    def close(self) -> None:
        self._machines.call(self._machine, stop_agent, self._name).result(10)
        self._pipe.close()
