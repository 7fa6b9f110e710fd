"""``testbed.compare``: runs of one workload side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.api.run_result import RunResult, as_frame
from testbed.errors import require_type
from testbed.model.run_records import Manifest
from testbed.report.comparison import Comparison, compared
from testbed.report.sections import table
from testbed.results.run_folder import write_below

if TYPE_CHECKING:
    import pandas

    from testbed.api.runs import AnyResult


class RunComparison(Comparison):
    """Runs side by side: a notebook shows the table; ``save`` writes the page, ``frame`` gives it to pandas."""

    def save(self, path: str | Path) -> Path:
        """Write the page as one HTML file. InputError where that cannot be."""
        where = Path(path)
        write_below(where.parent, where.name, self.page().encode())
        return where

    def frame(self) -> pandas.DataFrame:
        """A row a figure and run: value, half width of its interval, prediction, difference to the first run."""
        return as_frame(
            {"figure": one["figure"], "run": run.label, **(found or {})}
            for one in self.to_json()["figures"]
            for run, found in zip(self.runs, one["runs"], strict=True)
        )

    def _repr_html_(self) -> str:
        heads = [("", ""), *((run.label, "n") for run in self.runs)]
        return table(heads, self.cells(), "Figures")

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
    named = results if isinstance(results, Mapping) else {f"run {k}": one for k, one in enumerate(results, start=1)}
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
    for field in fields(plan):
        value = getattr(plan, field.name)
        nested = field.repr and is_dataclass(value) and field.name in ("stream", "options")
        found += _options(value) if nested else [f"{field.name} {_short(value)}"] if field.repr else []
    return found


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
