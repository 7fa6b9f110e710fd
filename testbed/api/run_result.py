"""A run that has ended, as the library gives it; and how runs are kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from testbed.errors import CapabilityError, UsageError
from testbed.extras import pip_command
from testbed.model.json_values import with_aliases
from testbed.model.run_records import Manifest, Record, SessionRun, record_to_json
from testbed.model.verdict import Verdict
from testbed.model.workload import Judgement, Row, Work, Workload
from topologies.text.json_types import Json, JsonObject
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
            raise UsageError("this run is not kept; call save(DIRECTORY) first, or run(..., results=DIRECTORY)")
        return self.directory / "page.html"

    def save(self, directory: str | Path) -> Path:
        """Keep it below ``directory`` as commands keep theirs (measurements, verdict, figures, page.html); the run's
        own folder. InputError where that cannot be written."""
        from testbed.api.workloads.registry import workload_of
        from testbed.emulation.machine.provenance import describe_run

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
        """``rows`` as a table of pandas; see ``testbed.data_frame``."""
        return as_frame(self.rows)

    def __repr__(self) -> str:
        holding = sum(check.passed for check in self.verdict.checks)
        state = "invalid" if self.verdict.invalid is not None else "passed" if self.passed else "not passed"
        return f"RunResult({self.workload}, {self.fabric}: {state}, {holding} of {len(self.verdict.checks)} checks)"


def as_frame(rows: Iterable[Row]) -> pandas.DataFrame:
    """Rows as a table of pandas. CapabilityError where that is not installed."""
    try:
        import pandas
    except ImportError:
        raise CapabilityError(f"pandas is not installed; {pip_command('notebooks')}") from None
    return pandas.DataFrame([dict(row) for row in rows])


AnyResult = RunResult[Any, Any]
"""One of any workload."""


def result_of(workload: Workload[P, M], plan: P, fabric: str, measured: M, results: Path | None) -> RunResult[P, M]:
    """The run that measured this, judged, and kept below ``results`` (None: not kept)."""
    judged = workload.judge(plan, measured)
    result = RunResult(
        workload=workload.name,
        fabric=fabric,
        plan=plan,
        measurements=measured,
        judgement=judged,
        document=with_aliases(judged.document, workload.former_keys),
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
    described: JsonObject = {"names": dict(workload.former_keys)}
    described |= {"title": workload.title} if workload.title else {}
    if workload.view is None:
        return replace(manifest, study=described)
    run: SessionRun = workload.view(plan)[1]().session()
    records: Sequence[Record] = (
        (run.session, *run.faults) if len(run.session.network.get("nodes", ())) <= MAX_DRAWN else ()
    )
    return replace(
        manifest, study=described | {"of": run.session.title, "drawn": [record_to_json(one) for one in records]}
    )


@contextmanager
def _keeping_rows(workload: Work, name: str, results: Path, manifest: Callable[[], Manifest]) -> Iterator[Keep]:
    def keep(found: Judgement) -> Path:
        from testbed.live.adapters.feed import record_page_path
        from testbed.report.drawing.svg_figures import rendered
        from testbed.results.study_store import StudyRun

        draw = workload.figures or (lambda _: {})
        with StudyRun.new(results, name, manifest()) as stored:
            for row in found.stored or found.rows:
                stored.add(dict(row))
            drawn = rendered(name, lambda: draw(stored.rows)) if stored.rows else {}
            directory = stored.finish(stored.rows, found.verdict, drawn, found.files)
        record_page_path(directory / "page.html")
        return directory

    yield keep
