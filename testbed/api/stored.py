"""``testbed.load`` and ``testbed.runs``: stored runs, read back."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from testbed.api.runs import RunResult
from testbed.errors import InputError, UsageError, require_type
from testbed.model.json_values import json_ready
from testbed.model.run_records import LoadedRun, Manifest, record_to_json
from testbed.model.stored_runs import StoredRun
from testbed.model.verdict import Verdict
from testbed.model.workload import Judgement, Row
from testbed.report.comparison import ComparedRun, compared
from testbed.results.compressed_files import MANIFEST
from testbed.results.result_store import existing, load_run
from testbed.results.run_list import list_runs
from testbed.results.study_store import is_study, load_study
from topologies import JsonObject

# What messages ask for.
_HINT = "a run such as results/stream/RUN or its RUN.zip"


class DamagedRunWarning(UserWarning):
    """A stored run cannot be read. The message says which run, and why."""


@dataclass(kw_only=True, repr=False, eq=False)
class StoredResult(RunResult[None, Any]):
    """A run that was read back from disk.

    Attributes:
        manifest: What was run, when, with which versions, on which machine.
        measurements: The records of each session of a stream, or the rows of any other run.
        unfinished: Why the run has no verdict, or None if it has one.
        compared_rows: The rows that ``testbed.compare`` compares.
    """

    manifest: Manifest
    unfinished: str | None = None
    compared_rows: Sequence[Row] = ()

    @property
    def page(self) -> Path:
        """The page of the run, one self-contained HTML file."""
        page = super().page
        if not page.exists():
            raise UsageError(f"{page}: not kept; testbed report {self.directory} draws it again")
        return page

    def save(self, directory: str | Path) -> Path:
        """Refuse to store the run a second time; copy its folder instead."""
        raise UsageError(f"this run is stored in {self.directory}; copy that folder to {directory}")

    def as_compared(self, label: str = "") -> ComparedRun:
        """Return the run as ``testbed.compare`` takes it."""
        if self.unfinished is not None:
            raise InputError(f"{self.directory}: this run did not end; there is nothing to compare")
        return compared(self.manifest, self.verdict, self.compared_rows, label)


def load(path: str | PathLike[str]) -> StoredResult:
    """Read a stored run back, as ``testbed.run`` returns one.

    Args:
        path: The folder of the run (``results/NAME/RUN``), finished or not, or its ``RUN.zip``.

    Raises:
        InputError: There is no run, or it is damaged.

    >>> import tempfile, testbed
    >>> plan = testbed.simulation_plan("ring:4", duration_s=0.001)
    >>> folder = testbed.run(plan, "simulator", results=tempfile.mkdtemp()).directory
    >>> load(folder)
    StoredResult(simulation, stored: passed, 3 of 3 checks)
    """
    directory = Path(require_type(path, (str, PathLike), "load", _HINT))
    if is_study(directory):
        return _loaded_study(directory)
    run = load_run(directory)
    folder = existing(directory, MANIFEST) or directory
    return _loaded_streams(run, folder)


def is_run(path: str | PathLike[str]) -> bool:
    """Return whether the path is a stored run, and not a folder of runs or anything else."""
    try:
        return existing(Path(path), MANIFEST) is not None
    except (OSError, ValueError):
        return False


def runs(folder: str | PathLike[str] = "results") -> tuple[StoredRun, ...]:
    """List the stored runs in a folder, the newest last, as ``testbed runs`` does.

    Args:
        folder: The folder of results, or the folder of one command in it.

    Returns:
        For each run its ``directory``, ``manifest`` (with ``command`` and ``started``) and
        ``state``: passed, failed, cannot-tell, invalid, unfinished or computed. A damaged run is
        left out, with a warning.
    """
    path = Path(require_type(folder, (str, PathLike), "runs", "a folder of results"))
    # The warning names the line that called this function, through the reader of folders.
    return list_runs(path, lambda reason: warnings.warn(DamagedRunWarning(reason), stacklevel=6))


def _loaded_study(directory: Path) -> StoredResult:
    folder, manifest, rows, verdict = load_study(directory)
    unfinished = None
    judged = verdict
    if judged is None:
        unfinished = "the run was interrupted before its end"
        judged = Verdict(checks=(), invalid=unfinished)
    fabrics = {str(row["fabric"]) for row in rows if row.get("fabric")}
    document: JsonObject = {"manifest": manifest.to_json(), "points": rows}
    document["verdict"] = verdict.to_json() if verdict else None
    return StoredResult(
        workload=manifest.name,
        fabric=" and ".join(sorted(fabrics)) or "stored",
        plan=None,
        measurements=tuple(rows),
        judgement=Judgement(verdict=judged, document=document, rows=tuple(rows)),
        document=document,
        directory=folder,
        manifest=manifest,
        unfinished=unfinished,
        compared_rows=rows,
    )


def _loaded_streams(run: LoadedRun, folder: Path) -> StoredResult:
    judged = run.verdict or Verdict(checks=(), invalid=run.unfinished)
    rows: list[Row] = []
    streams: list[JsonObject] = []
    for part in run.sessions:
        faults = [record_to_json(fault) for fault in part.faults]
        for fault in faults:
            title = {"stream": part.session.title} if len(run.sessions) > 1 else {}
            rows.append({**title, **_without(fault, ("record", "session"))})
        summary = record_to_json(part.summary) if part.summary else {}
        streams.append(
            {
                "title": part.session.title,
                "fabric": part.session.fabric,
                "per_fault": faults,
                "ror": summary.get("ror"),
                "verdict": summary.get("verdict"),
            }
        )
    document: JsonObject = {"manifest": run.manifest.to_json(), "unfinished": run.unfinished}
    document["streams"] = streams
    document["verdict"] = json_ready(run.verdict.to_json()) if run.verdict else None
    summaries = [part.summary for part in run.sessions if part.summary is not None]
    return StoredResult(
        workload=run.manifest.name,
        fabric=" and ".join(sorted({part.session.fabric for part in run.sessions})) or "stored",
        plan=None,
        measurements=run.sessions,
        judgement=Judgement(verdict=judged, document=document, rows=tuple(rows)),
        document=document,
        directory=folder,
        manifest=run.manifest,
        unfinished=run.unfinished,
        compared_rows=[record_to_json(summary) for summary in summaries],
    )


def _without(document: JsonObject, names: Sequence[str]) -> JsonObject:
    return {name: value for name, value in document.items() if name not in names}
