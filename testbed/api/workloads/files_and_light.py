"""Striped files and wavelength rounds as workloads."""

from __future__ import annotations

import tempfile
from pathlib import Path

from testbed.model.progress import ReportProgress
from testbed.model.workload import Judgement, Workload
from testbed.striping.measurements import StripingMeasurements
from testbed.striping.plan import StripingPlan
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan

PACKETS, WRONG = 20, 2
"""Over each lightpath, and on wrong wavelengths: the defaults of ``testbed wavelengths``."""
Rounds = tuple[RoundMeasurements, ...]


def _simulate_striping(plan: StripingPlan, report_progress: ReportProgress | None) -> StripingMeasurements:
    return _striped(plan, "simulator", report_progress)


def _emulate_striping(plan: StripingPlan, report_progress: ReportProgress | None) -> StripingMeasurements:
    return _striped(plan, "emulation", report_progress)


def _striped(plan: StripingPlan, fabric: str, report_progress: ReportProgress | None) -> StripingMeasurements:
    """Subfiles go to a temporary directory and are removed."""
    from testbed.striping.session import run_session

    with tempfile.TemporaryDirectory(prefix="subfiles-") as root:
        return run_session(plan, Path(root), fabric=fabric, report_progress=report_progress).run


def _judge_striping(plan: StripingPlan, run: StripingMeasurements) -> Judgement:
    from testbed.striping.judgement import judge
    from testbed.striping.prediction import predict
    from testbed.striping.session import MTU_BYTES, TIMEOUT_S, StripingSession

    prediction = predict(plan, MTU_BYTES)
    verdict = judge(plan, run, prediction, timeout_s=TIMEOUT_S)
    document = StripingSession(plan=plan, run=run, prediction=prediction, verdict=verdict).document()
    return Judgement(verdict=verdict, document=document, rows=tuple(document["operations"]))


def _simulate_rounds(plan: WavelengthPlan, _: ReportProgress | None) -> Rounds:
    from testbed.wavelengths.simulated import simulate_plan

    return simulate_plan(plan, packets=PACKETS, wrong=WRONG)


def _emulate_rounds(plan: WavelengthPlan, report_progress: ReportProgress | None) -> Rounds:
    from testbed.wavelengths.emulated import run_wavelengths

    return run_wavelengths(plan, packets=PACKETS, wrong=WRONG, report_progress=report_progress)


def _judge_rounds(plan: WavelengthPlan, run: Rounds) -> Judgement:
    from testbed.wavelengths.judgement import judge_rounds

    verdict = judge_rounds(plan, run)
    rows = tuple(one.to_json() for one in run)
    document = {**plan.to_json(), "per_round": list(rows), "verdict": dict(verdict.to_json())}
    return Judgement(verdict=verdict, document=document, rows=rows)


def _small_striping() -> StripingPlan:
    from testbed.api.plans import striping_plan

    return striping_plan("crossbar:4", 2, 2, file_bytes=200_000)


def _small_rounds() -> WavelengthPlan:
    from testbed.api.plans import wavelength_plan

    return wavelength_plan("optical-cloud:graph=ring:4,wavelengths=2")


STRIPING = Workload(
    name="striping",
    plan=StripingPlan,
    judge=_judge_striping,
    simulate=_simulate_striping,
    emulate=_emulate_striping,
    example=_small_striping,
)
WAVELENGTHS = Workload(
    name="wavelengths",
    plan=WavelengthPlan,
    judge=_judge_rounds,
    simulate=_simulate_rounds,
    emulate=_emulate_rounds,
    example=_small_rounds,
)
