"""Bulk transfers as a workload."""

from __future__ import annotations

from contextlib import ExitStack

from testbed.bulk.measurements import BulkMeasurements
from testbed.bulk.plan import BulkPlan
from testbed.model.progress import ReportProgress
from testbed.model.workload import Judgement, Workload


def _simulate_bulk(plan: BulkPlan, report_progress: ReportProgress | None) -> BulkMeasurements:
    from testbed.bulk.simulated import SimulatedBulkFabric

    return SimulatedBulkFabric().run(plan, report_progress)


def _emulate_bulk(plan: BulkPlan, report_progress: ReportProgress | None) -> BulkMeasurements:
    from testbed.bulk.session import open_bulk_fabric

    with ExitStack() as stack:
        return open_bulk_fabric("emulation", stack).run(plan, report_progress)


def judge_bulk(plan: BulkPlan, run: BulkMeasurements) -> Judgement:
    """One row: all figures of the run."""
    from testbed.bulk.judgement import analyse, judge
    from testbed.bulk.prediction import predicted_ratio
    from testbed.bulk.session import BulkSession

    analysis = analyse(plan, run, predicted_ratio(plan))
    verdict = judge(plan, run, analysis)
    row = BulkSession(plan=plan, run=run, analysis=analysis, verdict=verdict).row()
    return Judgement(verdict=verdict, document={**row, "verdict": dict(verdict.to_json())}, rows=(row,))


def _small_bulk() -> BulkPlan:
    from testbed.api.plans import bulk_plan

    return bulk_plan("crossbar:3", message_bytes=100_000)


BULK = Workload(
    name="bulk",
    plan=BulkPlan,
    judge=judge_bulk,
    simulate=_simulate_bulk,
    emulate=_emulate_bulk,
    example=_small_bulk,
)
