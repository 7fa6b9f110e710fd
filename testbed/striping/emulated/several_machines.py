"""Striped files on a network over several machines: listeners and clients where their hosts lie, one group, one clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

from sfio_emu.adapters.key_files import new_key
from sfio_emu.adapters.process_group import GroupServer
from testbed.bulk.circuit_rules import shared_return_rules, standing_rules
from testbed.bulk.emulated.several_machines import MachineLinks
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.machine.machine_strain import StrainGauge
from testbed.errors import InputError
from testbed.machines.adapters.cluster import Pending, machines_up
from testbed.machines.adapters.relays import own_address
from testbed.machines.adapters.spread import SpreadNetwork, named_when_lost, placed, report_of, spread_network
from testbed.machines.asked import MachinesRequest
from testbed.model.machine.strain import Strain
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import wire
from testbed.striping.emulated.machine_ends import (
    LANE_CLIENTS,
    Operated,
    Share,
    close_clients,
    operate_clients,
    start_clients,
    start_listeners,
    subfiles,
)
from testbed.striping.measurements import Direction, OperationRecord, StripingMeasurements
from testbed.striping.plan import StripingPlan

_START_AHEAD_S = 0.15
"""All clients are told so long before they are to begin, at one moment of our clock."""
_QUIET_S = 0.1
_LIMIT_S = 600.0


def run_over_machines(
    plan: StripingPlan,
    asked: MachinesRequest,
    *,
    mtu: int,
    timeout_s: float,
    report_progress: ReportProgress | None = None,
) -> StripingMeasurements:
    """The plan over the machines that are asked for. ``mtu``: at most; ``timeout_s`` as of ``EmulatedStriping``.

    Raises InputError for what one machine only can do, InvalidRunError where the network between the machines was too poor,
    MachineLostError where a machine dies.
    """
    if plan.coordinated or plan.options.killed:
        what = "--kill" if plan.options.killed else "--schedule and --switching circuit"
        raise InputError(
            f"{what}: striped files over several machines know it not; leave it out, or run on one machine"
        )
    report = report_progress or (lambda _: None)
    report(Progress(done_s=0, total_s=1, doing="starting the machines"))
    with machines_up(asked) as machines:
        wiring = wire(plan.network)
        mtu = min(mtu, machines.widest_mtu)
        report(Progress(done_s=0, total_s=1, doing="building the network"))
        placement = placed(machines, wiring, asked)
        with spread_network(machines, wiring, placement, mtu=mtu, controlled=False) as network:
            start_s, operations, now = time.monotonic(), list[OperationRecord](), ["opening the file"]

            def told(progress: Progress) -> None:
                now[0] = progress.doing
                report(progress)

            with named_when_lost(machines, lambda: _until_now(now[0], operations)):
                with closing(_SpreadRun(network, plan, timeout_s)) as run:
                    run.carry_out(told, operations)
                time.sleep(_QUIET_S)
            found = report_of(network, start_s, plan.options.link_rate_bps / 8 / mtu)
            for record in operations:
                found.require_for(record.seconds)
    return StripingMeasurements(fabric="emulation", operations=tuple(operations), mtu_bytes=mtu, machines=found)


def _until_now(doing: str, operations: Sequence[OperationRecord]) -> dict[str, object]:
    """What was going on when a machine died, and the operations that were over."""
    over = [
        {"direction": one.direction, "seconds": one.seconds, "bytes": one.bytes, "verified": one.verified}
        for one in operations
    ]
    return {"doing": doing, "operations": over}


class _SpreadRun:
    """Listeners and standing rules on a network that is up."""

    def __init__(self, network: SpreadNetwork, plan: StripingPlan, timeout_s: float) -> None:
        self._network, self._machines, self._plan = network, network.machines, plan
        key = new_key()
        self._shares = [
            Share(plan=plan, io=self._on(k, plan.placement.io), compute=self._on(k, plan.placement.compute), key=key, timeout_s=timeout_s)
            for k in range(len(self._machines))
        ]  # fmt: skip
        self._computing = [k for k, share in enumerate(self._shares) if share.compute]
        reach = MachineLinks(network).reach()
        self._switchboard = CircuitSwitchboard(network.wiring, (), reach.connect, reach.forget)
        paths = plan.placement.remote
        rules = (*shared_return_rules(network.wiring, paths), *standing_rules(network.wiring, paths))
        self._switchboard.change_rules(rules, "add")
        for one in [self._machines.call(k, start_listeners, share) for k, share in enumerate(self._shares)]:
            one.result()

    def close(self) -> None:
        self._switchboard.close()

    def _on(self, machine: int, nodes: Sequence[str]) -> tuple[str, ...]:
        return tuple(node for node in nodes if self._network.machine_of(node) == machine)

    def carry_out(self, report: ReportProgress, operations: list[OperationRecord]) -> None:
        """All operations of the plan into ``operations``; those that a fault broke once more, when it is mended."""
        options = self._plan.options
        with ExitStack() as stack:
            stack.enter_context(self._clients())
            if "write" not in options.directions:
                self._machines.all(subfiles, "fill")
            for number, direction in enumerate(options.directions):
                total_s = len(options.directions) + 0.5
                report(Progress(done_s=number + 0.5, total_s=total_s, doing=direction, ask=self._network.reading))
                operations.append(self._operate(direction, attempt=1, faulty=number == 0 and bool(options.faults)))
                if operations[-1].errors:
                    stack.close()
                    self._switchboard.forget_flows()
                    stack.enter_context(self._clients())
                    operations.append(self._operate(direction, attempt=2, faulty=False))
                if operations[-1].errors:
                    break

    @contextmanager
    def _clients(self) -> Iterator[None]:
        """Clients on all machines, the file open in all of them."""
        address = own_address(self._machines.facts[0].address)
        with GroupServer(f"tcp:{address}:0", len(self._plan.placement.compute)) as group:
            for one in [self._ask(k, start_clients, group.address) for k in self._computing]:
                one.result()
            yield
            for one in [self._ask(k, close_clients) for k in self._computing]:
                one.result()

    def _operate(self, direction: Direction, *, attempt: int, faulty: bool) -> OperationRecord:
        faults = self._plan.options.faults if faulty else ()
        fault_s = min((fault.start_s for fault in faults), default=0.0)
        before = self._network.link_counters()
        with StrainGauge() as gauge:
            start_s = time.monotonic() + _START_AHEAD_S
            schedule = FaultSchedule(self._network, faults, start_s)
            asked = [
                self._ask(k, operate_clients, direction, self._machines.theirs_s(k, start_s), fault_s)
                for k in self._computing
            ]
            schedule.start()
            try:
                done: list[Operated] = [one.result(_LIMIT_S) for one in asked]
            finally:
                schedule.stop()
        time.sleep(_QUIET_S)
        drops = sum(now[2] - before[link][2] for link, now in self._network.link_counters().items())
        record = self._together(done, gauge.strain)
        if direction == "write":
            record = replace(record, verified=all(self._machines.all(subfiles, "verify")))
        return replace(record, attempt=attempt, faulty=faulty, queue_drops=drops)

    def _together(self, done: Sequence[Operated], strain: Strain | None) -> OperationRecord:
        """The records of all machines as one, from the first that began to the last that ended on our clock."""
        ours = self._machines.ours_s
        begins = [ours(k, one.began_s) for k, one in zip(self._computing, done, strict=True)]
        ends = [ours(k, one.ended_s) for k, one in zip(self._computing, done, strict=True)]
        records = [one.record for one in done]
        sums = {
            key: sum(getattr(record, key) for record in records)
            for key in ("bytes", "messages", "fragments", "requests", "disk_calls")
        }
        strains = [one for one in (strain, *(record.strain for record in records)) if one is not None]
        return replace(
            records[0],
            seconds=max(ends) - min(begins),
            errors=tuple(error for record in records for error in record.errors),
            verified=all(record.verified for record in records),
            strain=worst_strain(strains),
            **sums,
        )

    def _ask(self, machine: int, function: Callable[..., Any], *args: Any) -> Pending:
        return self._machines.call(machine, function, *args, lane=LANE_CLIENTS)


def worst_strain(strains: Sequence[Strain]) -> Strain | None:
    """Of each figure the worst; ``strains``: of the machines, and of the one that coordinates them. None for none."""
    if not strains:
        return None
    busiest = max(strains, key=lambda s: s.busiest_task_fraction)
    stalled = [s.stalled_fraction for s in strains if s.stalled_fraction is not None]
    return replace(
        busiest,
        cpu_fraction=max(s.cpu_fraction for s in strains),
        stolen_fraction=max(s.stolen_fraction for s in strains),
        stalled_fraction=max(stalled, default=None),
        mean_lateness_s=max(s.mean_lateness_s for s in strains),
        worst_lateness_s=max(s.worst_lateness_s for s in strains),
    )
