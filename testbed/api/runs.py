"""``testbed.run``: carries out the plan of any workload, and the result, which can be stored.

The plan runs on the simulator in this process, or on real switches in a sandbox process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
# The page of a run does not draw networks with more nodes.
MAX_DRAWN = 400
# Stores a judged run and returns its folder, or None if the workload does not store this run.
Keep = Callable[[Judgement], Path | None]
Fabric = Literal["emulation", "simulator"]


@dataclass(kw_only=True, repr=False, eq=False)
class RunResult(Shown, Generic[P, M]):
    """A run that has ended, with its plan, its measurements and its verdict.

    Attributes:
        workload: The name of the workload, such as "stream".
        fabric: The fabric that carried out the plan, "emulation" or "simulator".
        plan: The plan.
        measurements: The measurements; their class depends on the workload.
        judgement: The comparison of the measurements with the predictions.
        document: The object that the command prints with ``--json``.
        directory: The folder in which the run is stored, or None.
    """

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
        """The rows of the run's table: one per fault, operation or round."""
        return self.judgement.rows

    @property
    def passed(self) -> bool:
        """True if every check holds."""
        return self.verdict.passed

    @property
    def page(self) -> Path:
        """The page of the run, one self-contained HTML file.

        Raises:
            UsageError: The run is not stored.
        """
        if self.directory is None:
            raise UsageError(
                "this run is not kept; call save(DIRECTORY) first, or run(..., results=DIRECTORY)"
            )
        return self.directory / "page.html"

    def save(self, directory: str | Path) -> Path:
        """Store the run as the commands do: measurements, verdict, figures and page.html.

        Args:
            directory: The folder of results, in which the run gets a folder.

        Returns:
            The folder of the run.

        Raises:
            InputError: The folder cannot be written.
            UsageError: Runs of this workload cannot be stored.
        """
        # The import of the registry imports every workload.
        from testbed.api.workloads.registry import workload_of

        workload = workload_of(self.plan)
        name = workload.stored_as or self.workload
        seed = getattr(self.plan, "seed", 1)

        def manifest() -> Manifest:
            return describe_run(command=f"testbed.run({self.plan!r})", seed=seed)

        with keeping(workload, name, Path(directory), manifest, self.plan) as keep:
            self.directory = keep(self.judgement)
        if self.directory is None:
            raise UsageError(f"a run of {self.workload} cannot be kept")
        return self.directory

    def frame(self) -> pandas.DataFrame:
        """Return ``rows`` as a DataFrame of pandas, as ``testbed.data_frame`` does."""
        return plain_frame(self.rows)

    def __repr__(self) -> str:
        checks = self.verdict.checks
        holding = len([check for check in checks if check.passed])
        if self.verdict.invalid is not None:
            state = "invalid"
        elif self.passed:
            state = "passed"
        else:
            state = "not passed"
        kind = type(self).__name__
        fabric = self.fabric
        return f"{kind}({self.workload}, {fabric}: {state}, {holding} of {len(checks)} checks)"


# A run of any workload.
AnyResult = RunResult[Any, Any]


def result_of(
    workload: Workload[P, M], plan: P, fabric: str, measured: M, results: str | Path | None
) -> RunResult[P, M]:
    """Judge the measurements of a plan and return the run.

    Args:
        workload: The workload of the plan.
        plan: The plan.
        fabric: The fabric that carried out the plan.
        measured: The measurements.
        results: The folder of results in which the run is stored, or None.
    """
    judgement = workload.judge(plan, measured)
    result = RunResult(
        workload=workload.name,
        fabric=fabric,
        plan=plan,
        measurements=measured,
        judgement=judgement,
        document=judgement.document,
    )
    if results is not None:
        result.save(results)
    return result


def keeping(
    workload: Work, name: str, results: Path, manifest: Callable[[], Manifest], plan: object
) -> AbstractContextManager[Keep]:
    """Return a context manager for the duration of a run.

    Its value is a function that stores the run, after the run was judged. It is entered before the
    run begins, so that the stored duration includes the run. A workload may define the context
    manager (``Workload.keeps``). By default, rows, figures, verdict and page are stored.

    Args:
        workload: The workload of the run.
        name: The folder in ``results`` for runs of this kind.
        results: The folder of results.
        manifest: Returns the manifest of the run.
        plan: The plan of the run.
    """
    if workload.keeps is not None:
        return workload.keeps(results, name, manifest())

    def described_manifest() -> Manifest:
        return _described(workload, plan, manifest())

    return _keeping_rows(workload, name, results, described_manifest)


def _described(workload: Work, plan: object, manifest: Manifest) -> Manifest:
    """Return the manifest with what the page shows first: title, network and planned faults."""
    study: JsonObject = {}
    if workload.title:
        study["title"] = workload.title
    if workload.view is not None:
        make_view = workload.view(plan)[1]
        run: SessionRun = make_view().session()
        records: Sequence[Record] = ()
        if len(run.session.network.get("nodes", ())) <= MAX_DRAWN:
            records = (run.session, *run.faults)
        study["of"] = run.session.title
        study["drawn"] = [record_to_json(record) for record in records]
    return replace(manifest, study=study)


@contextmanager
def _keeping_rows(
    workload: Work, name: str, results: Path, manifest: Callable[[], Manifest]
) -> Iterator[Keep]:
    """Yield the function that stores the rows, figures, verdict and page of a run."""
    began_s = time.monotonic()
    make_figures = workload.figures

    def keep(judgement: Judgement) -> Path:
        with StudyRun.new(results, name, manifest()) as stored:
            stored.count_earlier(time.monotonic() - began_s)
            for row in judgement.stored or judgement.rows:
                stored.add(dict(row))
            figures: Mapping[str, str] = {}
            if stored.rows and make_figures is not None:
                figures = rendered(name, lambda: make_figures(stored.rows))
            directory = stored.finish(stored.rows, judgement.verdict, figures, judgement.files)
        record_page_path(directory / "page.html")
        return directory

    yield keep


def run(
    plan: object,
    fabric: Fabric | None = None,
    *,
    results: str | Path | None = None,
    progress: ReportProgress | None = None,
) -> AnyResult:
    """Carry out a plan, wait until it has ended, and judge it.

    Args:
        plan: A plan, as one of the functions ``testbed.NAME_plan`` returns.
        fabric: "emulation" (real switches, in a sandbox process that ends with this one),
            "simulator", or None for the first of the two that is available.
        results: The folder in which the run is stored with its page (see ``RunResult.save``), or
            None to store nothing.
        progress: Called in this thread with the state of the run.

    Raises:
        CapabilityError: The fabric is not available.
        InvalidRunError: The machine could not keep up.
        UsageError: The value is not a plan.

    >>> from testbed import stream_plan
    >>> plan = stream_plan("ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200)
    >>> outcome = run(plan, "simulator")
    >>> outcome.passed, outcome.document["per_fault"][0]["predicted_loss"]
    (True, 0.5)
    """
    from testbed.api.workloads.registry import workload_of

    workload = workload_of(plan)
    chosen = _chosen_fabric(workload, plan, fabric)
    if chosen == "emulation":
        measured = _emulated(workload, plan, progress)
    else:
        measured = workload.measured(plan, How(fabric=chosen), progress)
    return result_of(workload, plan, chosen, measured, results)


def _chosen_fabric(workload: Work, plan: object, requested: Fabric | None) -> Fabric:
    """Return the requested fabric, or the first available one that the workload supports."""
    if requested not in (None, "emulation", "simulator"):
        raise InputError(f"fabric {requested!r}; give emulation, simulator or None")
    if requested is None and not workload.on_switches:
        requested = "simulator"
    elif requested is None and workload.carry is None and workload.simulate is None:
        requested = "emulation"
    networks = [plan.network] if hasattr(plan, "network") else []
    chosen = choose_fabric(requested, *networks, quiet=True)
    if chosen == "emulation":
        return "emulation"
    return "simulator"


def _emulated(workload: Work, plan: object, progress: ReportProgress | None) -> Any:
    """Carry out the plan in this process if it is inside a sandbox, else in a sandbox process."""
    if in_sandbox() or not workload.on_switches:
        return workload.measured(plan, How(fabric="emulation"), progress)

    with SandboxProcess({"do": "work"}, report_progress=progress) as process:
        return process.measured({"do": "run"}, plan, progress)


def shortened(value: object, max_characters: int) -> str:
    """Return the repr of a value, cut to a number of characters."""
    text = repr(value)
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"
