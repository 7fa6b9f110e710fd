"""Wavelength rounds as a workload."""

from __future__ import annotations

from testbed.model.progress import ReportProgress
from testbed.model.workload import Judgement, Workload
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan

PACKETS, WRONG = 20, 2
"""Over each lightpath, and on wrong wavelengths: the defaults of ``testbed wavelengths``."""
Rounds = tuple[RoundMeasurements, ...]


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


def _small_rounds() -> WavelengthPlan:
    from testbed.api.plans import wavelength_plan

    return wavelength_plan("optical-cloud:graph=ring:4,wavelengths=2")


WAVELENGTHS = Workload(
    name="wavelengths",
    plan=WavelengthPlan,
    judge=_judge_rounds,
    simulate=_simulate_rounds,
    emulate=_emulate_rounds,
    example=_small_rounds,
)
