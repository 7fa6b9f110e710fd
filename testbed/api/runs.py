"""``testbed.run``: any workload's plan carried out on either fabric, from an ordinary process; the run that has ended,
how it is kept on disk, and ``testbed.compare``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from testbed.api.emulated.sandbox_client import SandboxProcess
from testbed.api.plain_tables import plain_frame
from testbed.emulation.machine.fabric import choose_fabric
from testbed.emulation.machine.provenance import describe_run
from testbed.emulation.sandbox.sandbox import in_sandbox
from testbed.errors import InputError, UsageError
from testbed.live.adapters.feed import record_page_path
from testbed.model.progress import ReportProgress
from testbed.model.run_records import Manifest, Record, SessionRun, record_to_json
from testbed.model.verdict import Verdict
from testbed.model.workload import How, Judgement, Row, Work, Workload
from testbed.report.drawing.svg_figures import rendered
from testbed.results.study_store import StudyRun
from topologies import Json, JsonObject
from topologies.text.shown import Shown

if TYPE_CHECKING:
    import pandas


P = TypeVar("P")
M = TypeVar("M")
MAX_DRAWN = 400
"""Nodes of a network that a run's page draws."""
Keep = Callable[[Judgement], Path | None]
"""Keeps what was judged; the run's folder."""


@dataclass(kw_only=True, repr=False, eq=False)
class RunResult(Shown, Generic[P, M]):
    """A run that has ended: its plan, what was measured on which fabric, and the verdict. ``document``: what ``--json``
    prints; ``rows``: one a fault, an operation, a round; ``directory``: where it is kept, None until then."""

    workload: str
    fabric: str
    plan: P
    measurements: M
    judgement: Judgement
    document: Json
    directory: Path | None = field(default=None)

    @property
    def verdict(self) -> Verdict:
        """Every check, with its prediction, measurement and outcome."""
        return self.judgement.verdict

    @property
    def rows(self) -> tuple[Row, ...]:
        """The figures of the run's table."""
        return self.judgement.rows

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return self.verdict.passed

    @property
    def page(self) -> Path:
        """The page of the run, one self-contained HTML file. UsageError for a run that is not kept."""
        if self.directory is None:
            raise UsageError(
                "this run is not kept; call save(DIRECTORY) first, or run(..., results=DIRECTORY)"
            )
        return self.directory / "page.html"

    def save(self, directory: str | Path) -> Path:
        """Keep it below ``directory`` as commands keep theirs (measurements, verdict, figures, page.html); the run's
        own folder. InputError where that cannot be written."""

        from testbed.api.workloads.registry import workload_of  # which knows every workload

        workload = workload_of(self.plan)
        seed = getattr(self.plan, "seed", 1)
        with keeping(
            workload, workload.stored_as or self.workload, Path(directory),
            lambda: describe_run(command=f"testbed.run({self.plan!r})", seed=seed), self.plan,
        ) as keep:  # fmt: skip
            self.directory = keep(self.judgement)
        if self.directory is None:
            raise UsageError(f"a run of {self.workload} cannot be kept")
        return self.directory

    def frame(self) -> pandas.DataFrame:
        """Return ``rows`` as a DataFrame of pandas with plain columns, as ``testbed.data_frame``."""
        return plain_frame(self.rows)

    def __repr__(self) -> str:
        holding = sum(check.passed for check in self.verdict.checks)
        state = "passed" if self.passed else "not passed"
        if self.verdict.invalid is not None:
            state = "invalid"
        return f"{type(self).__name__}({self.workload}, {self.fabric}: {state}, {holding} of {len(self.verdict.checks)} checks)"


AnyResult = RunResult[Any, Any]
"""One of any workload."""


def result_of(
    workload: Workload[P, M], plan: P, fabric: str, measured: M, results: Path | None
) -> RunResult[P, M]:
    """The run that measured this, judged, and kept below ``results`` (None: not kept)."""
    judged = workload.judge(plan, measured)
    result = RunResult(
        workload=workload.name,
        fabric=fabric,
        plan=plan,
        measurements=measured,
        judgement=judged,
        document=judged.document,
    )
    if results is not None:
        result.save(results)
    return result


def keeping(
    workload: Work, name: str, results: Path, manifest: Callable[[], Manifest], plan: object
) -> AbstractContextManager[Keep]:
    """What keeps a run of the plan: as the workload says, else its rows, its figures, verdict and page."""
    if workload.keeps is not None:
        return workload.keeps(results, name, manifest())
    return _keeping_rows(workload, name, results, lambda: _described(workload, plan, manifest()))


def _described(workload: Work, plan: object, manifest: Manifest) -> Manifest:
    """With what heads the page: the run's title, and its network with what was planned on it."""
    described: JsonObject = {"title": workload.title} if workload.title else {}
    if workload.view is None:
        return replace(manifest, study=described)
    run: SessionRun = workload.view(plan)[1]().session()
    records: Sequence[Record] = (
        (run.session, *run.faults) if len(run.session.network.get("nodes", ())) <= MAX_DRAWN else ()
    )
    return replace(
        manifest,
        study=described
        | {"of": run.session.title, "drawn": [record_to_json(one) for one in records]},
    )


@contextmanager
def _keeping_rows(
    workload: Work, name: str, results: Path, manifest: Callable[[], Manifest]
) -> Iterator[Keep]:
    began_s = time.monotonic()

    def keep(found: Judgement) -> Path:
        draw = workload.figures or (lambda _: {})
        with StudyRun.new(results, name, manifest()) as stored:
            stored.count_earlier(time.monotonic() - began_s)
            for row in found.stored or found.rows:
                stored.add(dict(row))
            drawn = rendered(name, lambda: draw(stored.rows)) if stored.rows else {}
            directory = stored.finish(stored.rows, found.verdict, drawn, found.files)
        record_page_path(directory / "page.html")
        return directory

    yield keep


Fabric = Literal["emulation", "simulator"]


def run(
    plan: object,
    fabric: Fabric | None = None,
    *,
    results: str | Path | None = None,
    progress: ReportProgress | None = None,
) -> AnyResult:
    """Carry out a plan, wait until it has ended, and judge it.

    Args:
        plan: What one of the functions ``testbed.NAME_plan`` returns.
        fabric: "emulation" (real switches, in a sandbox process that ends with this one),
            "simulator", or None for the first of the two that is available.
        results: The folder in which the run is stored with its page (see ``RunResult.save``), or
            None to store nothing.
        progress: Called in this thread with the state of the run.

    Raises:
        CapabilityError: The fabric is not available.
        InvalidRunError: The machine could not keep up.
        UsageError: The value is no plan.

    >>> from testbed import stream_plan
    >>> plan = stream_plan("ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200)
    >>> outcome = run(plan, "simulator")
    >>> outcome.passed, outcome.document["per_fault"][0]["predicted_loss"]
    (True, 0.5)
    """
    from testbed.api.workloads.registry import workload_of

    workload = workload_of(plan)
    chosen = _fabric(workload, plan, fabric)
    measured = (
        _emulated(workload, plan, progress)
        if chosen == "emulation"
        else workload.measured(plan, How(fabric=chosen), progress)
    )
    return result_of(workload, plan, chosen, measured, None if results is None else Path(results))


def _fabric(workload: Work, plan: object, requested: Fabric | None) -> Fabric:
    if requested not in (None, "emulation", "simulator"):
        raise InputError(f"fabric {requested!r}; give emulation, simulator or None")
    if requested is None and not workload.on_switches:
        requested = "simulator"
    elif requested is None and workload.carry is None and workload.simulate is None:
        requested = "emulation"
    networks = [plan.network] if hasattr(plan, "network") else []
    return (
        "emulation"
        if choose_fabric(requested, *networks, quiet=True) == "emulation"
        else "simulator"
    )


def _emulated(workload: Work, plan: object, progress: ReportProgress | None) -> Any:
    """Here where this is a sandbox already, else in a process inside one."""
    if in_sandbox() or not workload.on_switches:
        return workload.measured(plan, How(fabric="emulation"), progress)

    with SandboxProcess({"do": "work"}, report_progress=progress) as process:
        return process.measured({"do": "run"}, plan, progress)


def shortened(value: object, most: int) -> str:
    """What the value shows of itself, cut to so many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
