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
    """Runs side by side: a notebook shows the table; ``save`` writes the page, ``frame`` gives it to pandas."""

    def frame(self) -> pandas.DataFrame:
        """Return ``rows`` as a DataFrame of pandas."""
        return plain_frame(self.rows)

    @property
    def rows(self) -> list[Json]:
        """A row for each figure and run: value, half width of its interval, prediction, difference."""
        rows: list[Json] = []
        for figure in self.to_json()["figures"]:
            for run, measured in zip(self.runs, figure["runs"], strict=True):
                rows.append({"figure": figure["figure"], "run": run.label, **(measured or {})})
        return rows

    def _repr_html_(self) -> str:
        return table_section(self.as_table())

    def __repr__(self) -> str:
        return f"RunComparison({len(self.runs)} runs of {self.runs[0].workload}, {len(self.names)} figures)"


def compare(
    results: Iterable[AnyResult | str | PathLike[str]]
    | Mapping[str, AnyResult | str | PathLike[str]],
) -> RunComparison:
    """Compare runs of one workload side by side; the others are compared with the first.

    Args:
        results: Runs as ``testbed.run`` or ``testbed.load`` returns them, or the folders of stored
            runs. A dictionary names them.

    Raises:
        InputError: There are fewer than two, or they are runs of different workloads.
        UsageError: A value is no run.

    >>> from testbed import run, stream_plan
    >>> plans = [stream_plan("ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=r) for r in (200, 400)]
    >>> compare({"slow": run(plans[0], "simulator"), "fast": run(plans[1], "simulator")})
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


_RUNS = "as testbed.run(...) and testbed.load(...) return them, or folders of stored runs"


def _compared(run: object, name: str) -> ComparedRun:
    """Return a run as it is compared; the path of a stored run is read."""
    if isinstance(run, str) and not is_run(run):
        raise UsageError(f"compare: {run[:80]!r} is no stored run; give runs, {_RUNS}")
    result = load(run) if isinstance(run, (str, PathLike)) else run
    require_type(result, RunResult, "compare", f"runs, {_RUNS}")
    assert isinstance(result, RunResult)
    if isinstance(result, StoredResult):
        return result.as_compared(name)
    manifest = Manifest(name=result.workload, command="", seed=getattr(result.plan, "seed", 1))
    rows = result.judgement.stored or result.rows
    return compared(manifest, result.verdict, rows, name, _options(result.plan))


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
