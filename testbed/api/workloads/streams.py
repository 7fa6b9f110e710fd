"""Coded streams, and plain ones whose routing answers failures, as workloads."""

from __future__ import annotations

from testbed.errors import CapabilityError
from testbed.metapath.plan import MetapathPlan, MetapathRun
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


def _simulate_metapaths(plan: MetapathPlan, report_progress: ReportProgress | None) -> MetapathRun:
    raise CapabilityError(
        f"routing {plan.routing} of a stream runs on switches only; the simulator's FT-DRB is testbed simulate --routing ft-drb"
    )


def _emulate_metapaths(plan: MetapathPlan, report_progress: ReportProgress | None) -> MetapathRun:
    from testbed.metapath.emulated.fabric import run_metapath_stream

    return run_metapath_stream(plan, report_progress)


def _judge_metapaths(plan: MetapathPlan, run: MetapathRun) -> Judgement:
    from testbed.metapath.analysis import analyse_metapaths
    from testbed.metapath.judgement import judge_metapaths
    from testbed.metapath.records import metapath_document

    analysis = analyse_metapaths(plan, run)
    verdict = judge_metapaths(plan, run, analysis)
    document = metapath_document(plan, run, analysis, verdict)
    return Judgement(verdict=verdict, document=document, rows=tuple(document["per_fault"]))


STREAM = Workload(
    name="stream", plan=StreamPlan, judge=judge_stream, simulate=_simulate_stream, emulate=_emulate_stream
)
METAPATH = Workload(
    name="metapath",
    plan=MetapathPlan,
    judge=_judge_metapaths,
    simulate=_simulate_metapaths,
    emulate=_emulate_metapaths,
)
