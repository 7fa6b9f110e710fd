"""A bulk run from options to rows and a verdict, on either fabric, with circuit and packet switching side by side."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from testbed.bulk.coordinator import OnDeadlock
from testbed.bulk.judgement import BulkAnalysis, analyse, judge
from testbed.bulk.measurements import BulkMeasurements
from testbed.bulk.plan import SWITCHINGS, BulkPlan, Switching
from testbed.bulk.planning import ROUNDS, BulkOptions, build_bulk_plan, frames_without_conflict
from testbed.bulk.prediction import predicted_ratio
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.machines.asked import MachinesRequest
from testbed.machines.run_report import MachinesReport
from testbed.model.progress import ReportProgress
from testbed.model.verdict import Verdict
from topologies import load_network
from topologies.network import label_of


class BulkFabric(Protocol):
    """Runs bulk plans; ``name`` is "emulation" or "simulator"."""

    name: str

    def run(self, plan: BulkPlan, report_progress: ReportProgress | None = None) -> BulkMeasurements: ...


@dataclass(frozen=True, kw_only=True)
class BulkSession:
    """One finished run."""

    plan: BulkPlan
    run: BulkMeasurements
    analysis: BulkAnalysis
    verdict: Verdict

    def row(self) -> dict[str, Any]:
        """Everything that figures and tables are drawn from, JSON-ready."""
        plan, run, found = self.plan, self.run, self.analysis
        return {
            "switching": plan.switching,
            "method": plan.method,
            "barrier": plan.barrier,
            "fabric": run.fabric,
            "network": plan.network.name,
            "bytes": run.delivered * plan.message_bytes,
            "message_bytes": plan.message_bytes,
            "seconds": run.seconds,
            "throughput_bps": found.throughput_bps,
            "goodput_bps": run.goodput.alone_bps,
            "goodput_together_bps": run.goodput.together_bps,
            "link_rate_bps": plan.link_rate_bps,
            "liquid_links": float(plan.liquid_links),
            "liquid_throughput_bps": found.liquid_throughput_bps,
            "ratio": found.ratio,
            "predicted_ratio": found.predicted_ratio,
            "transfers": len(plan.transfers),
            "frames": frames_without_conflict(plan),
            "rounds": len(plan.frames) if plan.method in ROUNDS else None,
            "bottleneck_load": plan.bottleneck_load,
            "verified": found.verified == len(plan.transfers),
            "messages_verified": found.verified,
            "deadlocks": len(run.deadlocks),
            "injected": run.injected,
            "dropped": sum(run.dropped.values()),
            "queue_drops": sum(c.queue_drops for c in run.links.values()),
            "rule_changes": run.rule_changes,
            "slowest_change_s": run.slowest_change_s,
            "changing_s": run.changing_s,
            "cpu_fraction": run.cpu_fraction,
            "failure": run.failure,
            "frame_times_s": [list(times) for times in run.frame_times_s],
            "bottlenecks": [label_of(link) for link in found.busy],
            "bottleneck_busy": [[round(x, 4) for x in shares] for shares in found.busy.values()],
            "link_loads": [
                [label_of(k), load, run.links[k].bytes if k in run.links else 0] for k, load in plan.loads.items()
            ],
            "several_machines": None if run.machines is None else self._of_machines(run.machines),
            "repeated": [plan.transfers[r.transfer].name for r in run.transfers if r.attempts > 1],
        }

    def _of_machines(self, report: MachinesReport) -> dict[str, Any]:
        """``seconds`` is right to within ``seconds_uncertainty_s``; ``messages_undecided``: done so near to a fault's beginning or end
        that the clocks cannot tell on which side."""
        moments = [moment_s for fault in self.plan.faults for moment_s in (fault.start_s, fault.stop_s)]
        done = [record.done_s for record in self.run.transfers if record.done_s is not None]
        return {
            **report.to_json(),
            "seconds_uncertainty_s": report.uncertainty_s,
            "messages_undecided": report.undecided(done, moments),
        }


def plan_sides(
    network: str,
    options: BulkOptions,
    switchings: tuple[Switching, ...] = SWITCHINGS,
    *,
    now: Callable[[], float] | None = None,
) -> tuple[BulkPlan, ...]:
    """The same transfers and time frames for every switching. ``now``: a clock for methods that search against a time limit.

    Raises InputError and TopologyError for what cannot be run.
    """
    first = build_bulk_plan(load_network(network), options, switchings[0], now=now)
    injected = options.injected
    return tuple(replace(first, switching=s, injected=injected if s == "circuit" else 0) for s in switchings)


def open_bulk_fabric(
    name: str,
    stack: ExitStack,
    *,
    on_deadlock: OnDeadlock = "retreat",
    store: Path | None = None,
    calibrate: bool = True,
    machines: MachinesRequest | None = None,
) -> BulkFabric:
    """The fabric of that name; emulation must be called inside the sandbox, and is closed with ``stack``."""
    if name == "simulator":
        return SimulatedBulkFabric(on_deadlock=on_deadlock)
    if machines is not None:
        from testbed.bulk.emulated.several_machines import SeveralMachinesBulk

        return stack.enter_context(SeveralMachinesBulk(machines, on_deadlock=on_deadlock, calibrate=calibrate))
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    return stack.enter_context(EmulatedBulkFabric(on_deadlock=on_deadlock, store=store, calibrate=calibrate))


def run_side(fabric: BulkFabric, plan: BulkPlan, report_progress: ReportProgress | None = None) -> BulkSession:
    """Run, analyse, judge."""
    predicted = predicted_ratio(plan)
    run = fabric.run(plan, report_progress)
    analysis = analyse(plan, run, predicted)
    return BulkSession(plan=plan, run=run, analysis=analysis, verdict=judge(plan, run, analysis))
