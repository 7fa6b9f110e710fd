"""``testbed.run``: any workload's plan carried out on either fabric, from an ordinary process; the run that has ended,
how it is kept on disk, and ``testbed.compare``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from testbed.api.emulated.sandbox_client import SandboxProcess
from testbed.emulation.machine.fabric import choose_fabric
from testbed.emulation.machine.provenance import describe_run
from testbed.emulation.sandbox.sandbox import in_sandbox
from testbed.errors import CapabilityError, InputError, UsageError, require_type
from testbed.extras import pip_command
from testbed.live.adapters.feed import record_page_path
from testbed.model.json_values import with_aliases
from testbed.model.progress import ReportProgress
from testbed.model.routes import SplitRoute
from testbed.model.run_records import Manifest, Record, SessionRun, network_document, record_to_json
from testbed.model.verdict import Verdict
from testbed.model.workload import How, Judgement, Row, Work, Workload
from testbed.report.answers import table_section
from testbed.report.comparison import Comparison, compared
from testbed.report.drawing.svg_figures import rendered
from testbed.results.study_store import StudyRun
from topologies import Json, JsonObject, Network, link_fields
from topologies.text.shown import Shown

if TYPE_CHECKING:
    import pandas

    from testbed.model.schedule import Schedule

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
        """``rows`` as a table of pandas; see ``testbed.data_frame``."""
        return as_frame(self.rows)

    def __repr__(self) -> str:
        holding = sum(check.passed for check in self.verdict.checks)
        state = (
            "invalid"
            if self.verdict.invalid is not None
            else "passed"
            if self.passed
            else "not passed"
        )
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


def data_frame(result: object) -> pandas.DataFrame:
    """The table of a result: a route (a row a loaded link), a schedule (a row a transfer), a run (a row a fault, an
    operation, a round), a session's counters (a row a link), a network (a row a link).

    Raises CapabilityError where pandas is not installed, UsageError for what has no table.

    >>> import testbed
    >>> data_frame(testbed.route("ring:4", "s0", "s2")).load_float.tolist()  # doctest: +SKIP
    [0.5, 0.5, 0.5, 0.5]
    """
    return as_frame(rows_of(result))


def rows_of(result: object) -> list[Json]:
    """The table's rows, without pandas.

    >>> import testbed
    >>> sorted(row["frame"] for row in rows_of(testbed.schedule("crossbar:2")))
    [0, 0, 1, 1]
    """
    from testbed.model.schedule import Schedule

    if isinstance(result, RunResult):
        return list(result.rows)
    if isinstance(result, SplitRoute):
        return [_load_row(result, i) for i in result.loaded]
    if isinstance(result, Schedule):
        return [_transfer_row(result, i) for i in range(len(result.frame_of))]
    if isinstance(result, Network):
        return list(network_document(result)["links"])
    if isinstance(result, Mapping) and all(
        isinstance(key, tuple) and len(key) == 3 for key in result
    ):
        return [{**link_fields(link), **vars(count)} for link, count in result.items()]
    raise UsageError(
        f"data_frame: a {type(result).__name__} has no table; give a route, a schedule, a run or counters"
    )


def _transfer_row(schedule: Schedule, transfer: int) -> Json:
    row: dict[str, object] = {"transfer": transfer}
    if schedule.ends:
        source, destination = schedule.ends[transfer]
        row["source"] = source
        row["destination"] = destination
    row["frame"] = int(schedule.frame_of[transfer])
    return row


def _load_row(route: SplitRoute, index: int) -> Json:
    link, load = route.network.links[index], route.loads[index]
    layer = route.link_layers[index] if route.link_layers else 0
    return {**link_fields(link.id), "load": load, "load_float": float(load), "layer": layer}


Fabric = Literal["emulation", "simulator"]


def run(
    plan: object,
    fabric: Fabric | None = None,
    *,
    results: str | Path | None = None,
    progress: ReportProgress | None = None,
) -> AnyResult:
    """Carry out the plan, wait, judge: its measurements and the verdict on every prediction.

    ``fabric``: "emulation" (real switches, in a sandbox process that ends with this one), "simulator", or None for the
    first of the two that can. ``results``: the folder below which the run is kept with its page (see
    ``RunResult.save``); None: it is not. ``progress`` is called, in this thread, with where the run is. Raises
    CapabilityError where the fabric cannot be had, InvalidRunError where the machine could not keep up, UsageError for
    what is no plan.

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


class RunComparison(Comparison):
    """Runs side by side: a notebook shows the table; ``save`` writes the page, ``frame`` gives it to pandas."""

    def frame(self) -> pandas.DataFrame:
        """A row a figure and run: value, half width of its interval, prediction, difference to the first run."""
        return as_frame(
            {"figure": one["figure"], "run": run.label, **(found or {})}
            for one in self.to_json()["figures"]
            for run, found in zip(self.runs, one["runs"], strict=True)
        )

    def _repr_html_(self) -> str:
        return table_section(self.as_table())

    def __repr__(self) -> str:
        return f"RunComparison({len(self.runs)} runs of {self.runs[0].workload}, {len(self.names)} figures)"


def compare(results: Iterable[AnyResult] | Mapping[str, AnyResult]) -> RunComparison:
    """Runs of one workload side by side, the first being what the others are held against. A mapping names them.

    Raises InputError for fewer than two, or runs of different workloads; UsageError for what is no run.

    >>> from testbed import run, stream_plan
    >>> plans = [stream_plan("ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=r) for r in (200, 400)]
    >>> compare({"slow": run(plans[0], "simulator"), "fast": run(plans[1], "simulator")})
    RunComparison(2 runs of stream, 13 figures)
    """
    require_type(results, Iterable, "compare", "runs, as testbed.run(...) returns them")
    named = (
        results
        if isinstance(results, Mapping)
        else {f"run {k}": one for k, one in enumerate(results, start=1)}
    )
    for one in named.values():
        require_type(one, RunResult, "compare", "runs, as testbed.run(...) returns them")
    return RunComparison(runs=tuple(
        compared(
            Manifest(name=one.workload, command="", seed=getattr(one.plan, "seed", 1)),
            one.verdict, one.judgement.stored or one.rows, name, _options(one.plan),
        )
        for name, one in named.items()
    ))  # fmt: skip


def _options(plan: object) -> list[str]:
    """The fields of a plan, and of the values in it that are made of fields."""
    if not is_dataclass(plan):
        return [repr(plan)]
    found = []
    for one in fields(plan):
        value = getattr(plan, one.name)
        nested = one.repr and is_dataclass(value) and one.name in ("stream", "options")
        found += (
            _options(value)
            if nested
            else [f"{one.name} {shortened(value, 60)}"]
            if one.repr
            else []
        )
    return found


def shortened(value: object, most: int) -> str:
    """What the value shows of itself, cut to so many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
