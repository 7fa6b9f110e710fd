"""Rows of a study, as they were measured or spoilt, and what a verdict says of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from testbed.model.stored_runs import StoredRun, representative_run
from testbed.model.verdict import Verdict
from testbed.results.study_store import STORED, load_study, stored_runs
from tests.helpers.paths import ROOT

Rows = list[dict[str, Any]]
Change = Callable[[dict[str, Any]], dict[str, Any]]


def published(name: str) -> Rows:
    """The points of the committed run that speaks for a study: of its full size where there is one."""
    return [dict(row) for row in _rows(name)]


@cache
def _rows(name: str) -> Rows:
    run = published_run(name)
    assert run is not None, name
    return load_study(Path(run.directory))[2]


@cache
def published_run(name: str) -> StoredRun | None:
    """The committed run that speaks for a study; None where there is none."""
    return representative_run(stored_runs(ROOT / STORED, name))


def failed(verdict: Verdict) -> str:
    """The names of the checks that failed, in one text."""
    return "; ".join(check.name for check in verdict.checks if not check.passed)


def spoilt(rows: Rows, at: int | None, change: Change) -> Rows:
    """The rows, with the fields that ``change`` gives for a row in the place of its own: in row ``at``, or in all
    (None)."""
    places = range(len(rows)) if at is None else [at % len(rows)]
    return [row | change(row) if k in places else row for k, row in enumerate(rows)]
