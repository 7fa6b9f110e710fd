"""A probe of a block size as a workload of the command ``stream``; nothing of it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from testbed.model.progress import ReportProgress
from testbed.model.workload import How, Judgement, Workload
from testbed.stream.probing.plan import ProbePlan

if TYPE_CHECKING:
    from testbed.stream.probing.probe import ProbeRun


def _carry(probe: ProbePlan, how: How, report_progress: ReportProgress | None) -> ProbeRun:
    from testbed.stream.probing.probe import carry_probe

    return carry_probe(probe, how, report_progress)


def _judge(probe: ProbePlan, run: ProbeRun) -> Judgement:
    from testbed.stream.probing.probe import judged_probe

    return judged_probe(probe, run)


def _view(probe: ProbePlan) -> tuple[str, Callable[[], Any]]:
    from testbed.stream.live_view import stream_view

    title = f"{probe.blocks} blocks of fixed size, twice"
    return title, partial(stream_view, probe.plan, title)


def _shown(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"{document['link']} down, {document['fabric']}"


PROBE = Workload(
    name="probe",
    plan=ProbePlan,
    carry=_carry,
    judge=_judge,
    view=_view,
    shown=_shown,
    keeps=lambda *_: nullcontext(lambda _: None),
)
