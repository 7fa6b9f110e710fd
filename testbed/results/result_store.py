"""Runs on disk: ``results/<name>/<run>/`` with manifest, measurements, verdict and page.

Layout of a run's directory (format 1):

- ``manifest.json``: ``format`` and the fields of ``testbed.model.run_records.Manifest``;
- ``measurements.jsonl``: one JSON object in each line. ``record`` is its kind (session, fault,
  timeline, summary). The other keys are the fields of the record's class in
  ``testbed.model.run_records`` (summary: ``ror: {predicted, measured}``);
- ``verdict.json``: ``passed``, ``invalid``, ``failed``, ``checks``, ``notes``;
- ``SHA256SUMS``: the digests of these three (``testbed.results.digests``);
- ``page.html``: the report, drawn from the first three.

A run is written to ``<run>.unfinished`` beside its final directory, which is renamed when it is
complete. A directory with that name was interrupted, or is still being written. Then its writer
holds a lock on ``measurements.jsonl``.
"""

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Generic, Self, TypeVar

from testbed.errors import InputError, unwritable
from testbed.model.json_values import parse_json, prefix_errors
from testbed.model.run_records import (
    LoadedRun,
    Manifest,
    Record,
    combined_verdict,
    group_sessions,
    record_from_json,
    record_to_json,
)
from testbed.model.verdict import Verdict
from testbed.report.page import build_page
from testbed.results.compressed_files import (
    MANIFEST,
    MEASUREMENTS,
    PAGE,
    VERDICT,
    named_run,
    path_exists,
    read_lines,
    read_manifest,
    read_verdict,
    runs_in,
)
from testbed.results.digests import check_digests, write_digests
from testbed.results.run_folder import open_plain, open_to_append, refuse_link, write_below
from topologies import Json

S = TypeVar("S")

UNFINISHED = ".unfinished"
# Name of the file with the result of a command that computes without a run.
ANSWER = "answer.json"
# Largest number of runs that begin in the same second with the same seed.
MAX_TRIES = 10_000
DAMAGED = "the run is damaged, run it again"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ResultStore:
    """All runs in one directory, which is created when the first run begins.

    Args:
        root: The directory.
        now: Returns the time in UTC.

    >>> import tempfile
    >>> from testbed.model.verdict import Verdict
    >>> store = ResultStore(Path(tempfile.mkdtemp()))
    >>> with store.new_run("try", Manifest(command="testbed stream")) as run:
    ...     directory = run.finish(Verdict(checks=()))
    >>> load_run(directory).verdict.passed
    False
    """

    def __init__(self, root: Path, *, now: Callable[[], datetime] = _utc_now) -> None:
        self.root = root
        self._now = now

    def new_run(self, name: str, manifest: Manifest) -> "OpenRun":
        """Create the directory of a run that begins now.

        The name of the directory is the time in UTC and the seed. A number is added if there is
        such a directory.

        Args:
            name: The name under which runs of this kind are stored.
            manifest: The description of the run.

        Raises:
            InputError: The name is not a plain directory name, or the directory cannot be written.
        """
        directory, full_manifest = self.claim(name, manifest)
        return OpenRun(directory, full_manifest)

    def claim(self, name: str, manifest: Manifest) -> tuple[Path, Manifest]:
        """Create the directory ``<run>.unfinished`` of a new run.

        Returns:
            The final directory, and the manifest with name, run and start.
        """
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) or name.endswith(UNFINISHED):
            raise InputError(
                f"result name {name!r}: use letters, digits, dots, dashes and underscores"
            )
        if "\0" in str(self.root):
            raise InputError(
                f"results in {str(self.root)!r}: no path has a NUL character; "
                "choose another directory"
            )
        started = self._now()
        stem = f"{started:%Y%m%dT%H%M%SZ}-seed{manifest.seed}"
        try:
            run = self._claim(self.root / name, stem)
        except OSError as error:
            raise unwritable(
                error,
                f"results in {self.root}: {error.strerror}; choose a directory that can be written",
            ) from None
        full_manifest = replace(
            manifest,
            name=name,
            run=run,
            started=started.isoformat(timespec="seconds"),
            seconds=None,
        )
        return self.root / name / run, full_manifest

    @staticmethod
    def _claim(parent: Path, stem: str) -> str:
        """Create ``<run>.unfinished`` for the first free name of a run, and return this name.

        If several processes try this at the same time, mkdir succeeds for one of them only.
        """
        refuse_link(parent)
        parent.mkdir(parents=True, exist_ok=True)
        for count in range(1, MAX_TRIES):
            run = stem if count == 1 else f"{stem}-{count}"
            draft = draft_of(parent / run)
            try:
                draft.mkdir()
            except FileExistsError:
                continue
            # This is checked after the mkdir, because another process may have finished its run
            # under this name in the meantime.
            if not (parent / run).exists() and not path_exists(parent / run / MANIFEST):
                return run
            draft.rmdir()
        raise InputError(f"results in {parent}: {MAX_TRIES} runs named {stem}; remove some")


def keep_files(
    root: Path, name: str, manifest: Manifest, make: Callable[[Manifest], Mapping[str, str]]
) -> Path:
    """Store the files of a command that computes without a run, with their manifest.

    Args:
        root: The directory of all runs.
        name: The name under which runs of this kind are stored.
        manifest: The description of the run.
        make: Returns the text of each file by its name, given the manifest with name and start.

    Returns:
        The new directory.

    Raises:
        InputError: The directory cannot be written.
    """
    directory, full_manifest = ResultStore(root).claim(name, manifest)
    manifest_text = json.dumps(full_manifest.to_json(), indent=1) + "\n"
    texts = {MANIFEST: manifest_text, **make(full_manifest)}
    draft = draft_of(directory)
    for file, text in texts.items():
        write_below(draft, file, text.encode())
    draft.rename(directory)
    return directory


class RunDraft(Generic[S]):
    """A run that is being written line by line to an unfinished directory.

    If the run is left before it is finished, the directory remains, but it is removed if nothing
    was measured.

    Attributes:
        place: The final directory.
        draft: The directory until then.
        manifest: The description of the run.

    Args:
        place: The final directory.
        manifest: The description of the run.
        lines: Name of the file to which measurements are appended, one line each.

    Raises:
        InputError: The directory cannot be written, or another process writes it.
    """

    def __init__(self, place: Path, manifest: Manifest, lines: str) -> None:
        self.place = place
        self.manifest = manifest
        self.draft = draft_of(place)
        self._lines_name = lines
        self._file: IO[str] = open_to_append(self.draft / lines)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{self.draft}: another process is writing it; wait for it or stop it"
            ) from None
        self._stored: list[S] = []
        self._finished = False
        # Seconds that earlier parts of the run took, and when this part began.
        self._earlier_s = manifest.seconds or 0.0
        self._began_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._finished and not self._stored:
            shutil.rmtree(self.draft, ignore_errors=True)
        elif not self._finished:
            reason = "no verdict was given"
            if kind is not None:
                reason = f"{kind.__name__}: {error}".rstrip(": ")
            write_json(self.draft / MANIFEST, self._unfinished_manifest(reason).to_json())
        self._file.close()

    def _unfinished_manifest(self, reason: str) -> Manifest:
        """Return the manifest of a run that was left before it was finished.

        Args:
            reason: Why it was left.
        """
        return replace(self.manifest, interrupted=reason)

    def _timed_manifest(self) -> Manifest:
        """Return the manifest with the seconds that all parts of the run have taken until now.

        A part that was killed is counted from its start to its last line.
        """
        seconds = self._earlier_s + time.monotonic() - self._began_s
        return replace(self.manifest, seconds=round(seconds, 3))

    def _append(self, stored: S, document: Json) -> None:
        """Append a line, which is given to the operating system before this returns."""
        self._stored.append(stored)
        self._file.write(json_line(document))
        self._file.flush()

    def _complete(self, verdict: Verdict) -> Path:
        """Write manifest, verdict and digests, and rename the directory to its final name."""
        write_json(self.draft / MANIFEST, self.manifest.to_json())
        write_json(self.draft / VERDICT, verdict.to_json())
        write_digests(self.draft, (MANIFEST, VERDICT, self._lines_name))
        # The directory must not have its final name before the lines are on the disk.
        os.fsync(self._file.fileno())
        self.draft.rename(self.place)
        self._finished = True
        return self.place


class OpenRun(RunDraft[Record]):
    """A run of streams that is being written as the records of their sessions.

    ``finish`` completes it.
    """

    def __init__(self, place: Path, manifest: Manifest) -> None:
        super().__init__(place, manifest, MEASUREMENTS)
        write_json(self.draft / MANIFEST, manifest.to_json())

    def add(self, record: Record) -> None:
        """Append a record."""
        self._append(record, record_to_json(record))

    def finish(self, verdict: Verdict | None = None) -> Path:
        """Write manifest, verdict and page, and rename the directory to its final name.

        Args:
            verdict: The verdict. None: the verdicts in the summaries of all sessions together.

        Returns:
            The final directory.
        """
        sessions = group_sessions(self._stored)
        if verdict is None:
            verdict = combined_verdict(sessions)
        self.manifest = self._timed_manifest()
        page = build_page(LoadedRun(manifest=self.manifest, sessions=sessions, verdict=verdict))
        write_below(self.draft, PAGE, page.encode())
        return self._complete(verdict)


def load_run(directory: Path) -> LoadedRun:
    """Read a run, finished or not.

    The last line of an unfinished run may be incomplete, and is ignored.

    Args:
        directory: The final directory of the run, even if it is not finished, or the unfinished
            one.

    Raises:
        InputError: There is no run, it has another format, or it is damaged. The message contains
            file, line and key.
    """
    directory = _find(directory)
    unfinished = _why_unfinished(directory)
    if unfinished is None:
        check_digests(directory)
    manifest = read_manifest(directory, DAMAGED)
    if path_exists(directory / ANSWER):
        raise InputError(
            f"{directory}: an answer, and no run; its page is {PAGE}; "
            f"draw it again by {manifest.command}"
        )
    measurements = directory / MEASUREMENTS
    verdict = None
    if unfinished is None:
        records = _read_records(measurements, last_line_may_be_incomplete=False)
        verdict = read_verdict(directory, DAMAGED)
    else:
        if manifest.interrupted is not None:
            unfinished = f"the run was interrupted ({manifest.interrupted})"
        records = _read_records(measurements, last_line_may_be_incomplete=True)
    with prefix_errors(str(measurements)):
        sessions = group_sessions(records)
    return LoadedRun(manifest=manifest, sessions=sessions, verdict=verdict, unfinished=unfinished)


def redraw(directory: Path) -> tuple[LoadedRun, Path]:
    """Load a run and write its page again. Return the run and the path of the page."""
    run = load_run(directory)
    page = _find(directory) / PAGE
    write_below(page.parent, PAGE, build_page(run).encode())
    return run, page


def draft_of(directory: Path) -> Path:
    """Return the directory in which a run is written until it is complete."""
    if not directory.name:
        return directory
    return directory.with_name(directory.name + UNFINISHED)


def existing(directory: Path, *files: str) -> Path | None:
    """Return the directory of the run, finished or unfinished, that contains all of these files.

    Args:
        directory: The final directory of the run, or its archive.
        *files: Plain names of the files.

    Returns:
        None if there is none.
    """
    directory = named_run(directory)
    for candidate in (directory, draft_of(directory)):
        if all(path_exists(candidate / name) for name in files):
            return candidate
    return None


def _find(directory: Path) -> Path:
    """Return the directory of a run, finished or unfinished; InputError if there is none."""
    existing_directory = existing(directory, MANIFEST)
    if existing_directory is not None:
        return existing_directory
    directory = named_run(directory)
    if not directory.exists():
        raise InputError(f"{directory}: no such directory; give one of results/<name>/<run>")
    if not directory.is_dir():
        raise InputError(f"{directory}: not a directory; give one of results/<name>/<run>")
    runs = runs_in(directory)
    hint = "give one of results/<name>/<run>"
    if runs:
        hint = f"it holds runs, give one of them, the last is {runs[-1]}"
    raise InputError(f"{directory}: no {MANIFEST} in it; {hint}")


def _why_unfinished(directory: Path) -> str | None:
    """Return why a run has no verdict or no final name, or None for a complete run."""
    if not directory.resolve().name.endswith(UNFINISHED) and path_exists(directory / VERDICT):
        return None
    if _is_locked(directory / MEASUREMENTS):
        return "the run is still going on"
    return "the run was interrupted before its end"


def _is_locked(path: Path) -> bool:
    try:
        with open_plain(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, InputError):
        # A file that cannot be opened is reported when it is read.
        return False
    return False


def _read_records(path: Path, *, last_line_may_be_incomplete: bool) -> list[Record]:
    try:
        *lines, after_last_line = read_lines(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; {DAMAGED}") from None
    if after_last_line and not last_line_may_be_incomplete:
        lines.append(after_last_line)
    records = []
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        records.append(record_from_json(parse_json(line, where, hint=DAMAGED), where))
    return records


def json_line(document: Json) -> str:
    """Return a line of a run's file."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n"


def write_json(path: Path, document: Json) -> None:
    """Write a JSON document of a run completely or not at all."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    write_below(path.parent, path.name, text.encode())
