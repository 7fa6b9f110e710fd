"""Striped files over a network of real switches: listeners, clients, circuits, faults, and the content verified after
every run.

Over several machines listeners and clients are where their hosts lie, and all clients are one group.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
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
    Direction,
    OperationRecord,
    StripingMeasurements,
)
from testbed.striping.plan import StripingPlan
from topologies import JsonObject

T = TypeVar("T")
_START_AHEAD_S = 0.15
"""Clients of several machines are told so long before they are to begin, at one moment of our clock."""
_QUIET_S = 0.1
_MIN_STALL_S, _LIMIT_S, _TIMES_LIQUID = 15.0, 600.0, 20


def emulate_striping(
    plan: StripingPlan,
    root: Path,
    *,
    report_progress: ReportProgress | None = None,
    machines: MachinesRequest | None = None,
) -> StripingMeasurements:
    """All operations of the plan on a network of its own; inside the sandbox where that is on this machine.

    ``root``: where the subfiles lie, a directory for each I/O node; over several ``machines`` each keeps its own.

    Raises CapabilityError where a network cannot be built, InputError where the file cannot be opened or for what one
    machine only can do, InvalidRunError where the network between machines was too poor, MachineDiedError where a
    machine dies.
    """
    report = report_progress or (lambda _: None)
    doing, operations = ["opening the file"], list[OperationRecord]()

    def reported(progress: Progress) -> None:
        doing[0] = progress.doing
        report(progress)

    with _network(plan, report, machines) as platform:
        with timely(platform), platform.running(lambda: _until_now(doing[0], operations)):
            own_root = root if machines is None else None
            with closing(_Run(platform, plan, own_root)) as run:
                run.carry_out(reported, operations)
        mtu = platform.network.mtu
        found = platform.report(plan.link_rate_bps / 8 / mtu)
        if found is not None:
            for record in operations:
                found.require_for(record.seconds)
    return StripingMeasurements(
        fabric="emulation",
        operations=tuple(operations),
        mtu_bytes=mtu,
        machines=found,
        faults=run.faults,
    )


def _network(
    plan: StripingPlan, report_progress: ReportProgress, machines: MachinesRequest | None
) -> AbstractContextManager[Platform]:
    impaired = any(fault.kind == "impaired" for fault in plan.faults)
    if machines is not None and (plan.coordinated or plan.killed or impaired):
        circuits = "--scheduling, --schedule and --switching circuit"
        what = "--kill" if plan.killed else "--faults with impairments" if impaired else circuits
        raise InputError(
            f"{what}: striped files over several machines know it not; leave it out, or run on one machine"
        )
    return network_up(
        machines, wire(plan.network), report_progress, mtu=MTU_BYTES, controlled=False
    )


def _until_now(doing: str, operations: Sequence[OperationRecord]) -> dict[str, object]:
    """What was going on when a machine died, and the operations that were over."""
    over = [
        {
            "direction": one.direction,
            "seconds": one.seconds,
            "bytes": one.bytes,
            "verified": one.verified,
        }
        for one in operations
    ]
    return {"doing": doing, "operations": over}


class _Run:
    """Listeners and standing rules on a network that is up."""

    def __init__(self, platform: Platform, plan: StripingPlan, root: Path | None) -> None:
        self._platform, self._plan = platform, plan
        self._circuits = plan.switching == "circuit" and bool(plan.transfers)
        key, io, compute = new_key(), plan.placement.io, plan.placement.compute
        self._shares = [
            machine_ends.Share(
                plan=plan, io=self._on(k, io), compute=self._on(k, compute), key=key, root=root
            )
            for k in range(len(platform.names))
        ]
        self._computing = [k for k, share in enumerate(self._shares) if share.compute]
        self.faults: tuple[FaultTimes, ...] = ()
        self._switchboard = CircuitSwitchboard(
            platform, [(t.source, t.sink) for t in plan.transfers]
        )
        paths = plan.placement.remote
        self._switchboard.set_paths(paths)
        self._standing = packet_switching_rules(platform.wiring, paths)
        self._switchboard.change_rules(
            (*shared_return_rules(platform.wiring, paths), *self._standing), "add"
        )
        for one in [
            platform.call(k, machine_ends.start_listeners, share)
            for k, share in enumerate(self._shares)
        ]:
            one.result()
        if self._circuits:
            self._switchboard.prepare(
                Circuit(transfer=i, path=t.path) for i, t in enumerate(plan.transfers)
            )

    def close(self) -> None:
        self._switchboard.close()

    def _on(self, machine: int, nodes: Sequence[str]) -> tuple[str, ...]:
        return tuple(node for node in nodes if self._platform.machine_of(node) == machine)

    def carry_out(self, report: ReportProgress, operations: list[OperationRecord]) -> None:
        """All operations of the plan into ``operations``; those that a fault broke once more, when it is repaired."""
        plan = self._plan
        with ExitStack() as stack:
            stack.enter_context(self._clients())
            if "write" not in plan.directions:
                self._platform.all(machine_ends.subfiles, "fill")
            for number, direction in enumerate(plan.directions):
                total_s = len(plan.directions) + 0.5
                now = Progress(done_s=number + 0.5, total_s=total_s, doing=direction)
                report(self._platform.live(read_links, now))
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
        """Clients on all machines, the file open in all of them."""
        with GroupServer(group_address(self._platform), len(self._plan.placement.compute)) as group:
            self._ask(machine_ends.start_clients, group.address)
            yield
            self._ask(machine_ends.close_clients)

    def _operate(
        self, direction: Direction, *, attempt: int, under_faults: bool
    ) -> OperationRecord:
        platform, plan = self._platform, self._plan
        faults, killed = (plan.faults, plan.killed) if under_faults else ((), ())
        names = self._plan.placement.names
        deaths = tuple((k.at_s, names[k.node]) for k in killed)
        fault_s = min(
            (*(fault.start_s for fault in faults), *(at_s for at_s, _ in deaths)), default=0.0
        )
        counters, changes = platform.network.link_counters(), self._switchboard.changes
        alone = isinstance(platform, Here)
        with machine_ends.prompt_threads(), ExitStack() as stack:
            start_s = time.monotonic() + (0.0 if alone else _START_AHEAD_S)
            schedule = stack.enter_context(FaultSchedule(platform.network, faults, start_s))
            admission = stack.enter_context(self._admitting())
            gauge = None if alone else stack.enter_context(LoadMonitor())
            done = self._ask(
                machine_ends.operate_clients, direction, fault_s, deaths, start_s=start_s
            )
        self.faults += schedule.times()
        changes = self._switchboard.changes - changes
        time.sleep(_QUIET_S)
        drops = sum(
            now[2] - counters[link][2] for link, now in platform.network.link_counters().items()
        )
        record = self._together(done, None if gauge is None else gauge.strain)
        if direction == "write":
            record = replace(record, verified=all(platform.all(machine_ends.subfiles, "verify")))
        if admission is not None:
            record = replace(
                record,
                deadlocks=len(admission.deadlocks),
                thread_delay_s=delay_by_late_threads_s(self._plan, admission.thread_delay_s),
                frame_times_s=admission.frame_times_s,
                failure=admission.failure,
            )
        changes = changes if self._circuits else 0
        return replace(
            record,
            attempt=attempt,
            under_faults=under_faults,
            rule_changes=changes,
            queue_drops=drops,
        )

    @contextmanager
    def _admitting(self) -> Iterator[TransferAdmission | None]:
        """In a coordinated operation, of one machine, transfers wait to be admitted; with circuits no other way stands
        meanwhile."""
        if not self._plan.coordinated:
            yield None
            return
        plan, (objects,) = self._plan.bulk_plan(), self._platform.all(machine_ends.occupied_of)
        if self._circuits:
            self._switchboard.change_rules(self._standing, "remove")
            self._switchboard.flush_flow_cache()
        try:
            stall_s = max(_MIN_STALL_S, 50 * plan.message_s)
            with TransferAdmission(plan, self._switchboard, stall_s=stall_s) as admission:
                objects.admission = admission
                yield admission
        finally:
            objects.admission = None
            if self._circuits:
                self._switchboard.change_rules(self._standing, "add")
                self._switchboard.flush_flow_cache()

    def _together(
        self, done: Sequence[machine_ends.Operated], strain: MachineLoad | None
    ) -> OperationRecord:
        """The records of all machines as one, from the first that began to the last that ended on our clock."""
        ours = self._platform.ours_s
        begins = [ours(k, one.began_s) for k, one in zip(self._computing, done, strict=True)]
        ends = [ours(k, one.ended_s) for k, one in zip(self._computing, done, strict=True)]
        records = [one.record for one in done]
        sums = {
            key: sum(getattr(record, key) for record in records)
            for key in ("bytes", "messages", "fragments", "requests", "disk_calls")
        }
        strains = [
            one for one in (strain, *(record.machine_load for record in records)) if one is not None
        ]
        return replace(
            records[0],
            seconds=max(ends) - min(begins),
            errors=tuple(error for record in records for error in record.errors),
            verified=all(record.verified for record in records),
            machine_load=worst_strain(strains),
            **sums,
        )

    def _ask(
        self, request: Callable[..., T], *args: object, start_s: float | None = None
    ) -> list[T]:
        """All machines with clients; ``start_s``: a moment of our clock, which each is given first, on its own."""
        moments = [
            () if start_s is None else (self._platform.theirs_s(k, start_s),)
            for k in self._computing
        ]
        requested = [
            self._platform.call(k, request, *moment, *args, lane=machine_ends.LANE_CLIENTS)
            for k, moment in zip(self._computing, moments, strict=True)
        ]
        limit_s = max(_LIMIT_S, _TIMES_LIQUID * self._plan.liquid_s)
        return [one.result(limit_s) for one in requested]


def worst_strain(strains: Sequence[MachineLoad]) -> MachineLoad | None:
    """Of each figure the worst; ``strains``: of the machines, and of the one that coordinates them. None for none."""
    if not strains:
        return None
    names = (
        "cpu_fraction",
        "stolen_fraction",
        "pressure_fraction",
        "mean_lateness_s",
        "worst_lateness_s",
    )
    known = {
        name: [value for s in strains if (value := getattr(s, name)) is not None] for name in names
    }
    worst: JsonObject = {name: max(values, default=None) for name, values in known.items()}
    return replace(max(strains, key=lambda s: s.busiest_task_fraction), **worst)
