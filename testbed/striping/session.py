"""A striped-file run from options to measurements and verdict, on either fabric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.faults.fault import in_words
from testbed.machines.asked import MachinesRequest
from testbed.machines.run_report import MachinesReport
from testbed.model.progress import ReportProgress
from testbed.model.verdict import Verdict
from testbed.striping.emulated.loopback import run_over_loopback
from testbed.striping.judgement import judge, typical_throughput
from testbed.striping.measurements import StripingMeasurements
from testbed.striping.plan import StripingOptions, StripingPlan
from testbed.striping.planning import build_striping_plan
from testbed.striping.prediction import Prediction, predict
from topologies import load_network
from topologies.network import label_of

MTU_BYTES = 9000
TIMEOUT_S = 2.0


@dataclass(frozen=True, kw_only=True)
class StripingSession:
    """One finished run."""

    plan: StripingPlan
    run: StripingMeasurements
    prediction: Prediction | None
    verdict: Verdict

    def document(self) -> dict[str, Any]:
        """What ``--json`` prints, and tables and figures are drawn from: sums over the operations that came to their end, and
        each of them."""
        plan, run, prediction = self.plan, self.run, self.prediction
        ended = [record for record in run.operations if not record.errors]
        total, seconds = sum(r.bytes for r in ended), sum(r.seconds for r in ended)
        options = plan.options
        return {
            "network": plan.network.name,
            "fabric": run.fabric,
            "compute_nodes": options.compute_nodes,
            "io_nodes": options.io_nodes,
            "stripe_unit": options.stripe_unit,
            "file_size": plan.file_bytes,
            "operation": options.operation,
            "access": options.access,
            "optimise": options.optimise,
            "without": list(options.without),
            "schedule": options.schedule,
            "switching": options.switching,
            "link_rate_bps": options.link_rate_bps,
            "bytes": total,
            "seconds": seconds,
            "throughput_bps": total * 8 / seconds if seconds > 0 else 0.0,
            "messages": sum(r.messages for r in ended),
            "fragments": sum(r.fragments for r in ended),
            "disk_calls": sum(r.disk_calls for r in ended),
            "verified": bool(ended) and all(r.verified for r in ended),
            "liquid_links": plan.liquid_links if plan.transfers else None,
            "liquid_throughput_bps": None if prediction is None else prediction.liquid_throughput_bps,
            "predicted": None if prediction is None else {"throughput_bps": prediction.throughput_bps, "seconds": prediction.seconds},
            "frames": len(plan.frames),
            "killed": [[killed.node, killed.at_s] for killed in options.killed],
            "cut": [[label_of(fault.link), fault.start_s, fault.stop_s] for fault in options.faults if fault.kind == "down"],
            "impaired": [[in_words(fault), fault.start_s, fault.stop_s] for fault in options.faults if fault.kind != "down"],
            "several_machines": None if run.machines is None else _of_machines(run, run.machines),
            "typical_throughput_bps": typical_throughput(run),
            "operations": [record.to_json() for record in run.operations],
            "verdict": dict(self.verdict.to_json()),
        }  # fmt: skip


def _of_machines(run: StripingMeasurements, report: MachinesReport) -> dict[str, Any]:
    """An operation's ``seconds`` lie between the stamps of two machines and are right to within ``seconds_uncertainty_s``;
    ``errors_undecided``: calls that failed so near to the beginning of a fault that the clocks cannot tell whether before it."""
    failed = [error.since_fault_s for record in run.operations for error in record.errors]
    return {
        **report.to_json(),
        "seconds_uncertainty_s": 2 * report.uncertainty_s,
        "errors_undecided": report.undecided(failed, [0.0]),
    }


def plan_session(network: str, options: StripingOptions, *, now: Callable[[], float] | None = None) -> StripingPlan:
    """The plan of that network (catalogue name or file). ``now``: a clock for the search for a schedule.

    Raises InputError and TopologyError for what cannot be run.
    """
    return build_striping_plan(load_network(network), options, now=now)


def run_session(
    plan: StripingPlan,
    root: Path,
    *,
    fabric: str = "emulation",
    mtu: int = MTU_BYTES,
    report_progress: ReportProgress | None = None,
    machines: MachinesRequest | None = None,
) -> StripingSession:
    """Run it; ``root`` gets the subfiles, a directory for each I/O node; over several ``machines`` each keeps those of its own I/O
    nodes, until the run is over. Emulation must be called inside the sandbox.

    Raises InputError where ``root`` cannot be written, CapabilityError where the network cannot be built.
    """
    from sfio_emu.errors import SfioError

    if machines is None:
        _claim(root, plan)
    try:
        if machines is None and fabric == "simulator":
            run = run_over_loopback(plan, root, mtu=MTU_BYTES)
        else:
            from testbed.striping.emulated.fabric import emulate_striping

            run = emulate_striping(
                plan,
                root,
                mtu=MTU_BYTES if machines is None else mtu,
                timeout_s=TIMEOUT_S,
                report_progress=report_progress,
                machines=machines,
            )
    except SfioError as error:
        raise InputError(f"the striped file could not be opened: {error}") from None
    prediction = predict(plan, run.mtu_bytes)
    verdict = judge(plan, run, prediction, timeout_s=TIMEOUT_S)
    return StripingSession(plan=plan, run=run, prediction=prediction, verdict=verdict)


def _claim(root: Path, plan: StripingPlan) -> None:
    """Directories of the I/O nodes, without the subfiles of an earlier run."""
    try:
        for node in plan.placement.io:
            (root / node).mkdir(parents=True, exist_ok=True)
            (root / node / "data").unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"--root {root}: {error.strerror}; choose a directory that can be written") from None
