"""Striped files over a network of switches: listeners, clients, circuits, faults, and verification.

Over several machines, listeners and clients run on the machines of their hosts, and all clients are
one group.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from sfio_emu.adapters.key_files import new_key
from sfio_emu.adapters.peers.group_server import GroupServer
from testbed.bulk.circuit_rules import packet_switching_rules, shared_return_rules
from testbed.bulk.coordinator import Circuit
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.machine.load_monitor import LoadMonitor
from testbed.errors import InputError
from testbed.faults.fault import FaultTimes
from testbed.machines.adapters.platform import Here, Platform, network_up, timely
from testbed.machines.adapters.rpc_network import read_links
from testbed.machines.machines_request import MachinesRequest
from testbed.model.machine.load import MachineLoad
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import wire
from testbed.striping.emulated import machine_ends
from testbed.striping.emulated.admission import TransferAdmission
from testbed.striping.emulated.program_run import group_address
from testbed.striping.judgement import delay_by_late_threads_s
from testbed.striping.measurements import (
    MTU_BYTES,
    ClientError,
    Direction,
    OperationRecord,
    StripingMeasurements,
)
from testbed.striping.plan import StripingPlan
from topologies import JsonObject

T = TypeVar("T")
# Several machines get the request this long before their clients begin, so that all clients begin
# at the same moment.
_START_AHEAD_S = 0.15
# Before counters are read, the last acknowledgements need this time to arrive.
_QUIET_S = 0.1
# An operation with time frames or circuits fails if no transfer ends for this time, or for the
# duration of this number of messages if that is longer.
_MIN_STALL_S = 15.0
_STALL_MESSAGES = 50
# The time limit of an operation is the larger one of this time, and this number of times the
# duration at the liquid throughput.
_LIMIT_S = 600.0
_LIMIT_TIMES_LIQUID = 20
# Counts of which the sum over all machines is recorded.
_SUMMED_FIELDS = ("bytes", "messages", "fragments", "requests", "disk_calls")
# The index of the queue drops in the counters of a link.
_QUEUE_DROPS = 2


def emulate_striping(
    plan: StripingPlan,
    root: Path,
    *,
    report_progress: ReportProgress | None = None,
    machines: MachinesRequest | None = None,
) -> StripingMeasurements:
    """Carry out all operations of a plan on a new network.

    If the network is on this machine, the caller must be inside the sandbox.

    Args:
        plan: The plan.
        root: The directory of the subfiles, with a folder for each I/O node.
        report_progress: Called with the progress of the run.
        machines: The machines. Each stores its own subfiles, and ``root`` is not used. None: this
            machine alone.

    Raises:
        CapabilityError: The network cannot be built.
        InputError: The file cannot be opened, or several machines cannot run the plan.
        InvalidRunError: The network between the machines was too slow.
        MachineDiedError: A machine died.
    """
    report = report_progress or (lambda _: None)
    doing = "opening the file"
    operations: list[OperationRecord] = []

    def reported(progress: Progress) -> None:
        nonlocal doing
        doing = progress.doing
        report(progress)

    def until_now() -> dict[str, object]:
        return _until_now(doing, operations)

    with _network(plan, report, machines) as platform:
        with timely(platform), platform.running(until_now):
            local_root = root if machines is None else None
            with closing(_Run(platform, plan, local_root)) as run:
                run.carry_out(reported, operations)
        mtu_bytes = platform.network.mtu
        machines_report = platform.report(plan.link_rate_bps / 8 / mtu_bytes)
        if machines_report is not None:
            for record in operations:
                machines_report.require_for(record.seconds)
    return StripingMeasurements(
        fabric="emulation",
        operations=tuple(operations),
        mtu_bytes=mtu_bytes,
        machines=machines_report,
        faults=run.faults,
    )


def _network(
    plan: StripingPlan, report_progress: ReportProgress, machines: MachinesRequest | None
) -> AbstractContextManager[Platform]:
    if machines is not None:
        _check_machines(plan)
    return network_up(
        machines, wire(plan.network), report_progress, mtu=MTU_BYTES, controlled=False
    )


def _check_machines(plan: StripingPlan) -> None:
    """Raise InputError for what only one machine can do."""
    if plan.killed:
        option = "--kill"
    elif any(fault.kind == "impaired" for fault in plan.faults):
        option = "--faults with impairments"
    elif plan.coordinated:
        option = "--scheduling, --schedule and --switching circuit"
    else:
        return
    raise InputError(
        f"{option}: not supported for striped files over several machines; leave it out, or run on"
        " one machine"
    )


def _until_now(doing: str, operations: Sequence[OperationRecord]) -> dict[str, object]:
    """Return what a machine interrupted when it died, and the operations before it."""
    completed = []
    for record in operations:
        figures = {
            "direction": record.direction,
            "seconds": record.seconds,
            "bytes": record.bytes,
            "verified": record.verified,
        }
        completed.append(figures)
    return {"doing": doing, "operations": completed}


class _Run:
    """Listeners and standing rules on a network that is up.

    Attributes:
        faults: When faults were active, in seconds since the start of their operation.
    """

    def __init__(self, platform: Platform, plan: StripingPlan, root: Path | None) -> None:
        self._platform = platform
        self._plan = plan
        self._circuits = plan.switching == "circuit" and bool(plan.transfers)
        self._shares = self._shares_of_machines(root)
        self._computing = [k for k, share in enumerate(self._shares) if share.compute]
        self.faults: tuple[FaultTimes, ...] = ()
        self._switchboard = CircuitSwitchboard(
            platform, [(t.source, t.sink) for t in plan.transfers]
        )
        paths = plan.placement.remote
        self._switchboard.set_paths(paths)
        # In circuit switching, these rules are removed during each operation.
        self._standing = packet_switching_rules(platform.wiring, paths)
        return_rules = shared_return_rules(platform.wiring, paths)
        self._switchboard.change_rules((*return_rules, *self._standing), "add")
        self._start_listeners()
        if self._circuits:
            self._switchboard.prepare(
                Circuit(transfer=i, path=t.path) for i, t in enumerate(plan.transfers)
            )

    def _shares_of_machines(self, root: Path | None) -> list[machine_ends.Share]:
        """Return each machine's part of the run."""
        key = new_key()
        placement = self._plan.placement
        shares = []
        for machine in range(len(self._platform.names)):
            share = machine_ends.Share(
                plan=self._plan,
                io=self._on(machine, placement.io),
                compute=self._on(machine, placement.compute),
                key=key,
                root=root,
            )
            shares.append(share)
        return shares

    def _on(self, machine: int, nodes: Sequence[str]) -> tuple[str, ...]:
        return tuple(node for node in nodes if self._platform.machine_of(node) == machine)

    def _start_listeners(self) -> None:
        requests = []
        for machine, share in enumerate(self._shares):
            requests.append(self._platform.call(machine, machine_ends.start_listeners, share))
        for request in requests:
            request.result()

    def close(self) -> None:
        """Close the connections to the switches."""
        self._switchboard.close()

    def carry_out(self, report: ReportProgress, operations: list[OperationRecord]) -> None:
        """Carry out all operations of the plan.

        An operation that a fault broke is repeated when the fault is over.

        Args:
            report: Called with the progress.
            operations: The list to which the records are added.
        """
        plan = self._plan
        with ExitStack() as stack:
            stack.enter_context(self._clients())
            if "write" not in plan.directions:
                self._platform.all(machine_ends.fill_subfiles)
            for number, direction in enumerate(plan.directions):
                total_s = len(plan.directions) + 0.5
                progress = Progress(done_s=number + 0.5, total_s=total_s, doing=direction)
                report(self._platform.live(read_links, progress))
                under_faults = number == 0 and bool(plan.faults or plan.killed)
                operations.append(self._operate(direction, attempt=1, under_faults=under_faults))
                if operations[-1].errors:
                    stack.close()
                    self._platform.all(machine_ends.restart_listeners)
                    self._switchboard.flush_flow_cache()
                    stack.enter_context(self._clients())
                    operations.append(self._operate(direction, attempt=2, under_faults=False))
                if operations[-1].errors:
                    break

    @contextmanager
    def _clients(self) -> Iterator[None]:
        """Start the clients of all machines, which open the file together."""
        with GroupServer(group_address(self._platform), len(self._plan.placement.compute)) as group:
            self._ask(machine_ends.start_clients, group.address)
            yield
            self._ask(machine_ends.close_clients)

    def _operate(
        self, direction: Direction, *, attempt: int, under_faults: bool
    ) -> OperationRecord:
        """Carry out one operation."""
        platform = self._platform
        faults = self._plan.faults if under_faults else ()
        deaths = self._deaths() if under_faults else ()
        begins_s = [fault.start_s for fault in faults] + [at_s for at_s, _ in deaths]
        drops_before = self._queue_drops()
        changes_before = self._switchboard.changes
        alone = isinstance(platform, Here)
        with machine_ends.prompt_threads(), ExitStack() as stack:
            start_s = time.monotonic() + (0.0 if alone else _START_AHEAD_S)
            schedule = stack.enter_context(FaultSchedule(platform.network, faults, start_s))
            admission = stack.enter_context(self._admitting())
            # The load of this machine alone is measured with its clients.
            monitor = None if alone else stack.enter_context(LoadMonitor())
            results = self._ask(
                machine_ends.operate_clients,
                direction,
                min(begins_s, default=0.0),
                deaths,
                start_s=start_s,
            )
        self.faults += schedule.times()
        rule_changes = self._switchboard.changes - changes_before if self._circuits else 0
        time.sleep(_QUIET_S)
        queue_drops = self._queue_drops() - drops_before
        record = self._joined(results, None if monitor is None else monitor.strain)
        if direction == "write":
            record = replace(record, verified=all(platform.all(machine_ends.verify_subfiles)))
        if admission is not None:
            record = replace(
                record,
                deadlocks=len(admission.deadlocks),
                thread_delay_s=delay_by_late_threads_s(self._plan, admission.thread_delay_s),
                frame_times_s=admission.frame_times_s,
                failure=admission.failure,
            )
        return replace(
            record,
            attempt=attempt,
            under_faults=under_faults,
            rule_changes=rule_changes,
            queue_drops=queue_drops,
        )

    def _deaths(self) -> tuple[tuple[float, str], ...]:
        """Return when listeners are killed, and their nodes."""
        nodes_by_name = self._plan.placement.names
        return tuple((killed.at_s, nodes_by_name[killed.node]) for killed in self._plan.killed)

    def _queue_drops(self) -> int:
        counters = self._platform.network.link_counters()
        return sum(counts[_QUEUE_DROPS] for counts in counters.values())

    @contextmanager
    def _admitting(self) -> Iterator[TransferAdmission | None]:
        """Let transfers wait until they are admitted, if the operation is coordinated.

        Coordinated operations run on one machine. With circuits, all other rules for data are
        removed for the duration of the block.
        """
        if not self._plan.coordinated:
            yield None
            return
        plan = self._plan.bulk_plan()
        (objects,) = self._platform.all(machine_ends.objects_of)
        if self._circuits:
            self._switchboard.change_rules(self._standing, "remove")
            self._switchboard.flush_flow_cache()
        try:
            stall_s = max(_MIN_STALL_S, _STALL_MESSAGES * plan.message_s)
            with TransferAdmission(plan, self._switchboard, stall_s=stall_s) as admission:
                objects.admission = admission
                yield admission
        finally:
            objects.admission = None
            if self._circuits:
                self._switchboard.change_rules(self._standing, "add")
                self._switchboard.flush_flow_cache()

    def _joined(
        self, results: Sequence[machine_ends.ClientsResult], strain: MachineLoad | None
    ) -> OperationRecord:
        """Return the records of all machines as one.

        It lasts from the first start to the last end, on the clock of this machine.

        Args:
            results: The results of the machines with clients.
            strain: The load of this machine if others have the clients, or None.
        """
        begins_s = []
        ends_s = []
        errors: list[ClientError] = []
        sums: JsonObject = dict.fromkeys(_SUMMED_FIELDS, 0)
        strains = [] if strain is None else [strain]
        for machine, result in zip(self._computing, results, strict=True):
            begins_s.append(self._platform.ours_s(machine, result.began_s))
            ends_s.append(self._platform.ours_s(machine, result.ended_s))
            errors += result.record.errors
            for name in _SUMMED_FIELDS:
                sums[name] += getattr(result.record, name)
            if result.record.machine_load is not None:
                strains.append(result.record.machine_load)
        return replace(
            results[0].record,
            seconds=max(ends_s) - min(begins_s),
            errors=tuple(errors),
            verified=all(result.record.verified for result in results),
            machine_load=worst_strain(strains),
            **sums,
        )

    def _ask(
        self, request: Callable[..., T], *args: object, start_s: float | None = None
    ) -> list[T]:
        """Send a request to all machines with clients, and return their answers.

        Args:
            request: The request.
            *args: Its arguments.
            start_s: A moment of this machine's clock. Each machine gets the same moment of its own
                clock as the first argument.
        """
        requests = []
        for machine in self._computing:
            moment: tuple[float, ...] = ()
            if start_s is not None:
                moment = (self._platform.theirs_s(machine, start_s),)
            requests.append(
                self._platform.call(
                    machine, request, *moment, *args, lane=machine_ends.LANE_CLIENTS
                )
            )
        limit_s = max(_LIMIT_S, _LIMIT_TIMES_LIQUID * self._plan.liquid_s)
        return [pending.result(limit_s) for pending in requests]


def worst_strain(strains: Sequence[MachineLoad]) -> MachineLoad | None:
    """Return a load that has the highest value of each figure, or None if there is no load.

    Args:
        strains: The loads of the machines with clients, and of the machine that coordinates them.
    """
    if not strains:
        return None
    names = (
        "cpu_fraction",
        "stolen_fraction",
        "pressure_fraction",
        "mean_lateness_s",
        "worst_lateness_s",
    )
    worst: JsonObject = {}
    for name in names:
        values = [getattr(strain, name) for strain in strains]
        worst[name] = max((value for value in values if value is not None), default=None)
    return replace(max(strains, key=attrgetter("busiest_task_fraction")), **worst)
