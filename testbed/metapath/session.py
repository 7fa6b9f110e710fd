"""One plain stream from plan to verdict, repeated where the machine could not keep up; what the command and the study share."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.metapath.analysis import MetapathAnalysis, analyse_metapaths
from testbed.metapath.emulated.fabric import run_metapath_stream
from testbed.metapath.judgement import judge_metapaths
from testbed.metapath.plan import MetapathPlan, MetapathRun
from testbed.model.progress import ReportProgress
from testbed.model.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class MetapathSession:
    """A finished run. ``attempts`` counts those that were invalid and repeated too."""

    plan: MetapathPlan
    run: MetapathRun
    analysis: MetapathAnalysis
    verdict: Verdict
    attempts: int


def run_metapath_session(
    plan: MetapathPlan, report_progress: ReportProgress | None = None, *, repeats_if_invalid: int = 0
) -> MetapathSession:
    """Inside the sandbox. An invalid run is repeated at most so many times."""
    attempt = 0
    while True:
        attempt += 1
        run = run_metapath_stream(plan, report_progress)
        analysis = analyse_metapaths(plan, run)
        verdict = judge_metapaths(plan, run, analysis)
        if verdict.invalid is None or attempt > repeats_if_invalid:
            return MetapathSession(plan=plan, run=run, analysis=analysis, verdict=verdict, attempts=attempt)
