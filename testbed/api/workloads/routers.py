"""Simulations of routers with finite buffers as a workload: in virtual time only."""

from __future__ import annotations

from typing import Any

from testbed.interconnect.experiment import SimulationPlan, judge_runs, run_seed, simulation_document
from testbed.model.progress import Progress, ReportProgress
from testbed.model.workload import Judgement, Workload

Rows = tuple[dict[str, Any], ...]


def _simulate(plan: SimulationPlan, report_progress: ReportProgress | None) -> Rows:
    """A row a seed, one after another in this process."""
    rows = []
    for number, seed in enumerate(plan.seeds):
        if report_progress is not None:
            report_progress(Progress(done_s=number, total_s=len(plan.seeds), doing=f"seed {seed}"))
        rows.append(run_seed(plan.experiment, seed))
    return tuple(rows)


def _judge(plan: SimulationPlan, rows: Rows) -> Judgement:
    verdict = judge_runs(rows)
    return Judgement(verdict=verdict, document=simulation_document(plan.experiment, rows, verdict), rows=rows)


def _small() -> SimulationPlan:
    from testbed.api.plans import simulation_plan

    return simulation_plan("mesh:3x3", rate=0.1, duration_s=0.001)


SIMULATION = Workload(name="simulation", plan=SimulationPlan, judge=_judge, simulate=_simulate, example=_small)
