"""Coded streams as a workload."""

from __future__ import annotations

from testbed.model.progress import ReportProgress
from testbed.model.workload import Judgement, Workload
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan


def _simulate_stream(plan: StreamPlan, report_progress: ReportProgress | None) -> StreamMeasurements:
    from testbed.stream.simulated import SimulatedStreamFabric

    return SimulatedStreamFabric().run(plan, report_progress)


def _emulate_stream(plan: StreamPlan, report_progress: ReportProgress | None) -> StreamMeasurements:
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    return EmulatedStreamFabric().run(plan, report_progress)


def judge_stream(plan: StreamPlan, run: StreamMeasurements) -> Judgement:
    """One row a fault."""
    from testbed.stream.judgement.analysis import analyse
    from testbed.stream.judgement.records import stream_document
    from testbed.stream.judgement.verdict import judge

    analysis = analyse(plan, run)
    verdict = judge(plan, run, analysis)
    document = stream_document(plan, run, analysis, verdict)
    return Judgement(verdict=verdict, document=document, rows=tuple(document["per_fault"]))


def _small_stream() -> StreamPlan:
    from testbed.api.plans import stream_plan

    return stream_plan("ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200)


STREAM = Workload(
    name="stream",
    plan=StreamPlan,
    judge=judge_stream,
    simulate=_simulate_stream,
    emulate=_emulate_stream,
    example=_small_stream,
)
