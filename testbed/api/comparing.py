"""``testbed.compare``: runs of one workload side by side, new ones and stored ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import TYPE_CHECKING

from testbed.api.plain_tables import plain_frame
from testbed.api.runs import AnyResult, RunResult, shortened
from testbed.api.stored import StoredResult, is_run, load
from testbed.errors import UsageError, require_type
from testbed.model.run_records import Manifest
from testbed.report.answers import table_section
from testbed.report.comparison import ComparedRun, Comparison, compared
from topologies import Json

if TYPE_CHECKING:
    import pandas


class RunComparison(Comparison):
    """Runs of one workload side by side.

    A figure is here a number of a run: the measured value of a check, or a value of its rows.
    A notebook shows the table. ``save`` writes a page, and ``frame`` returns a DataFrame of pandas.
    """

    def frame(self) -> pandas.DataFrame:
        """Return ``rows`` as a DataFrame of pandas."""
        return plain_frame(self.rows)

    @property
    def rows(self) -> list[Json]:
        """One row per figure and run: value, half width of its interval, prediction, difference."""
        rows: list[Json] = []
        for figure in self.to_json()["figures"]:
            for run, measured in zip(self.runs, figure["runs"], strict=True):
                rows.append({"figure": figure["figure"], "run": run.label, **(measured or {})})
        return rows

    def _repr_html_(self) -> str:
        return table_section(self.as_table())

    def __repr__(self) -> str:
        runs = f"{len(self.runs)} runs of {self.runs[0].workload}"
        return f"RunComparison({runs}, {len(self.names)} figures)"


def compare(
    results: Iterable[AnyResult | str | PathLike[str]]
    | Mapping[str, AnyResult | str | PathLike[str]],
) -> RunComparison:
    """Compare runs of one workload: each run with the first one.

    Args:
        results: Runs as ``testbed.run`` or ``testbed.load`` returns them, or the folders of stored
            runs. The keys of a dictionary are the names of the runs.

    Raises:
        InputError: There are fewer than two runs, or their workloads differ.
        UsageError: A value is not a run.

    >>> from testbed import run, stream_plan
    >>> options = {"faults": ["s0->s1@2-3"], "duration_s": 4}
    >>> slow = run(stream_plan("ring:4", "s0", "s2", rate_pps=200, **options), "simulator")
    >>> fast = run(stream_plan("ring:4", "s0", "s2", rate_pps=400, **options), "simulator")
    >>> compare({"slow": slow, "fast": fast})
    RunComparison(2 runs of stream, 15 figures)
    """
    if isinstance(results, str):
        raise UsageError(f"compare: got the text {results[:60]!r}; give two runs or more, {_RUNS}")
    require_type(results, Iterable, "compare", f"runs, {_RUNS}")
    if isinstance(results, Mapping):
        return RunComparison(runs=tuple(_compared(run, name) for name, run in results.items()))
    return RunComparison(
        runs=tuple(_compared(run, f"run {number}") for number, run in enumerate(results, start=1))
    )


# The accepted runs, for messages.
_RUNS = "as testbed.run(...) and testbed.load(...) return them, or folders of stored runs"


def _compared(run: object, name: str) -> ComparedRun:
    """Return a run in the form that can be compared, after reading it if it is a path."""
    if isinstance(run, str) and not is_run(run):
        raise UsageError(f"compare: {run[:80]!r} is no stored run; give runs, {_RUNS}")
    result = run
    if isinstance(run, (str, PathLike)):
        result = load(run)
    require_type(result, RunResult, "compare", f"runs, {_RUNS}")
    assert isinstance(result, RunResult)
    if isinstance(result, StoredResult):
        return result.as_compared(name)
    manifest = Manifest(name=result.workload, command="", seed=getattr(result.plan, "seed", 1))
    rows = result.judgement.stored or result.rows
    return compared(manifest, result.verdict, rows, name, _options(result.plan))


def _options(plan: object) -> list[str]:
    """Return the fields of a plan as "name value", with the fields of its nested options."""
    if not is_dataclass(plan):
        return [repr(plan)]
    options = []
    for plan_field in fields(plan):
        if not plan_field.repr:
            continue
        name = plan_field.name
        value = getattr(plan, name)
        if is_dataclass(value) and name in ("stream", "options"):
            options += _options(value)
        else:
            options.append(f"{name} {shortened(value, 60)}")
    return options
