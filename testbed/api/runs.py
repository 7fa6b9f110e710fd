"""``testbed.run``: any workload's plan carried out on either fabric, from an ordinary process."""

from pathlib import Path
from typing import Any, Literal

from testbed.api.run_result import RunResult, result_of
from testbed.api.workloads.registry import workload_of
from testbed.errors import InputError
from testbed.model.progress import ReportProgress
from testbed.model.workload import How, Work

Fabric = Literal["emulation", "simulator"]
AnyResult = RunResult[Any, Any]
"""A run of any workload."""


def run(
    plan: object,
    fabric: Fabric | None = None,
    *,
    results: str | Path | None = None,
    progress: ReportProgress | None = None,
) -> AnyResult:
    """Carry out the plan, wait, judge: its measurements and the verdict on every prediction.

    ``fabric``: "emulation" (real switches, in a sandbox process that ends with this one), "simulator", or None for the
    first of the two that can. ``results``: the folder below which the run is kept with its page (see
    ``RunResult.save``); None: it is not. ``progress`` is called, in this thread, with where the run is. Raises
    CapabilityError where the fabric cannot be had, InvalidRunError where the machine could not keep up, UsageError for
    what is no plan.

    >>> from testbed import stream_plan
    >>> plan = stream_plan("ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200)
    >>> outcome = run(plan, "simulator")
    >>> outcome.passed, outcome.document["per_fault"][0]["predicted_loss"]
    (True, 0.5)
    """
    workload = workload_of(plan)
    chosen = _fabric(workload, plan, fabric)
    measured = (
        _emulated(workload, plan, progress)
        if chosen == "emulation"
        else workload.measured(plan, How(fabric=chosen), progress)
    )
    return result_of(workload, plan, chosen, measured, None if results is None else Path(results))


def _fabric(workload: Work, plan: object, requested: Fabric | None) -> Fabric:
    from testbed.emulation.machine.fabric import choose_fabric

    if requested not in (None, "emulation", "simulator"):
        raise InputError(f"fabric {requested!r}; give emulation, simulator or None")
    if requested is None and not workload.on_switches:
        requested = "simulator"
    elif requested is None and workload.carry is None and workload.simulate is None:
        requested = "emulation"
    networks = [plan.network] if hasattr(plan, "network") else []
    return "emulation" if choose_fabric(requested, *networks, quiet=True) == "emulation" else "simulator"


def _emulated(workload: Work, plan: object, progress: ReportProgress | None) -> Any:
    """Here where this is a sandbox already, else in a process inside one."""
    from testbed.emulation.sandbox.sandbox import in_sandbox

    if in_sandbox() or not workload.on_switches:
        return workload.measured(plan, How(fabric="emulation"), progress)
    from testbed.api.emulated.sandbox_client import SandboxProcess

    with SandboxProcess({"do": "work"}, report_progress=progress) as process:
        return process.ask({"do": "run"}, plan, progress)
