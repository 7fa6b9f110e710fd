"""Runs on disk: ``results/<name>/<run>/`` with manifest, measurements, verdict and page; whole or marked unfinished.

Layout of a run's directory (format 1):

- ``manifest.json``: ``format`` and the fields of ``testbed.model.run_records.Manifest``;
- ``measurements.jsonl``: one JSON object a line; ``record`` names its kind (session, fault, timeline, summary), the
  other keys are the fields of that record's class in ``testbed.model.run_records`` (summary: ``ror: {predicted,
  measured}``);
- ``verdict.json``: ``passed``, ``invalid``, ``failed``, ``checks``, ``notes``;
- ``SHA256SUMS``: the digests of these three (``testbed.results.digests``);
- ``page.html``: the report, drawn from the first three.

A run is written to ``<run>.unfinished`` next to its place and renamed when it is whole. What is left under that name
was interrupted, or is still being written (then its writer holds a lock on ``measurements.jsonl``).
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
from testbed.model.json_values import located, parse_json
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
    is_there,
    named_run,
    read_lines,
    read_manifest,
    read_verdict,
    runs_in,
)
from testbed.results.digests import check_digests, write_digests
from testbed.results.run_folder import open_plain, open_to_append, refuse_link, write_below
from topologies import Json

UNFINISHED = ".unfinished"
MAX_TRIES = 10_000
S = TypeVar("S")
DAMAGED = "the run is damaged, run it again"


class ResultStore:
    """All runs under one directory (made when the first run starts). ``now`` gives the time in UTC.

    >>> import tempfile
    >>> from testbed.model.verdict import Verdict
    >>> with ResultStore(Path(tempfile.mkdtemp())).new_run("try", Manifest(command="testbed stream")) as run:
    ...     place = run.finish(Verdict(checks=()))
    >>> load_run(place).verdict.passed
    False
    """

    def __init__(
        self, root: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.root = root
        self._now = now

    def new_run(self, name: str, manifest: Manifest) -> "OpenRun":
        """A place of its own for a run that starts now; its id is the UTC time and the seed (and a count where taken).

        Raises InputError for a name that is no plain directory name, and where the directory cannot be written.
        """
        place, described = self.claim(name, manifest)
        return OpenRun(place, described)

    def claim(self, name: str, manifest: Manifest) -> tuple[Path, Manifest]:
        """Make the working directory of a new run (``<place>.unfinished``); returns its final place and full
        manifest."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) or name.endswith(UNFINISHED):
            raise InputError(
                f"result name {name!r}: use letters, digits, dots, dashes and underscores"
            )
        if "\0" in str(self.root):
            raise InputError(
                f"results in {str(self.root)!r}: no path has a NUL character; choose another directory"
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
        described = replace(
            manifest,
            name=name,
            run=run,
            started=started.isoformat(timespec="seconds"),
            seconds=None,
        )
        return self.root / name / run, described

    @staticmethod
    def _claim(parent: Path, stem: str) -> str:
        """Make ``<run>.unfinished`` for the first free run id: mkdir succeeds for one of any number of writers only."""
        refuse_link(parent)
        parent.mkdir(parents=True, exist_ok=True)
        for count in range(1, MAX_TRIES):
            run = stem if count == 1 else f"{stem}-{count}"
            draft = draft_of(parent / run)
            try:
                draft.mkdir()
            except FileExistsError:
                continue
            if not (
                (parent / run).exists() or is_there(parent / run / MANIFEST)
            ):  # looked at after the claim: a finished run never loses its name
                return run
            draft.rmdir()
        raise InputError(f"results in {parent}: {MAX_TRIES} runs named {stem}; remove some")


ANSWER = "answer.json"
"""What is there of a command that only computes."""


def keep_files(
    root: Path, name: str, manifest: Manifest, make: Callable[[Manifest], Mapping[str, str]]
) -> Path:
    """A folder of its own for what was computed at once: the files (name -> text) that ``make`` gives for the full
    manifest, and that. Raises InputError where the folder cannot be written."""
    place, described = ResultStore(root).claim(name, manifest)
    for file, text in {
        MANIFEST: json.dumps(described.to_json(), indent=1) + "\n",
        **make(described),
    }.items():
        write_below(draft_of(place), file, text.encode())
    draft_of(place).rename(place)
    return place


class RunDraft(Generic[S]):
    """A run being written to ``draft``, line by line, until it is given its name; left before that it stays behind as
    unfinished.

    (Where nothing was kept, nothing was measured and the directory is removed.) Raises InputError where the directory
    cannot be written, or another process writes it.
    """

    def __init__(self, place: Path, manifest: Manifest, lines: str) -> None:
        self.place, self.manifest, self.draft = place, manifest, draft_of(place)
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
        self._earlier_s, self._began_s = manifest.seconds or 0.0, time.monotonic()

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
            why = (
                f"{kind.__name__}: {error}".rstrip(": ")
                if kind is not None
                else "no verdict was given"
            )
            write_json(self.draft / MANIFEST, self._left(why).to_json())
        self._file.close()

    def _left(self, why: str) -> Manifest:
        """What the manifest says of a run that was left unfinished."""
        return replace(self.manifest, interrupted=why)

    def _described(self) -> Manifest:
        """The manifest with the seconds that all parts took so far; of a part that was killed, up to its last line."""
        return replace(
            self.manifest, seconds=round(self._earlier_s + time.monotonic() - self._began_s, 3)
        )

    def _append(self, stored: S, document: Json) -> None:
        """One line more; it is on its way to the disk when this returns."""
        self._stored.append(stored)
        self._file.write(json_line(document))
        self._file.flush()

    def _named(self, verdict: Verdict) -> Path:
        """Write manifest and verdict, and give the run its name; returns its directory."""
        write_json(self.draft / MANIFEST, self.manifest.to_json())
        write_json(self.draft / VERDICT, verdict.to_json())
        write_digests(self.draft, (MANIFEST, VERDICT, self._lines_name))
        os.fsync(self._file.fileno())
        self.draft.rename(self.place)
        self._finished = True
        return self.place


class OpenRun(RunDraft[Record]):
    """Streams being run: the records of their sessions. Leave it by ``finish``."""

    def __init__(self, place: Path, manifest: Manifest) -> None:
        super().__init__(place, manifest, MEASUREMENTS)
        write_json(self.draft / MANIFEST, manifest.to_json())

    def add(self, record: Record) -> None:
        """Append one record."""
        self._append(record, record_to_json(record))

    def finish(self, verdict: Verdict | None = None) -> Path:
        """Write manifest, verdict and page, then give the run its name; returns its directory. ``verdict`` None
        combines those of the sessions' summaries."""
        sessions = group_sessions(self._stored)
        final = combined_verdict(sessions) if verdict is None else verdict
        self.manifest = self._described()
        page = build_page(LoadedRun(manifest=self.manifest, sessions=sessions, verdict=final))
        write_below(self.draft, PAGE, page.encode())
        return self._named(final)


def load_run(directory: Path) -> LoadedRun:
    """Read a run's directory, finished or not (the name without ``.unfinished`` finds either).

    Raises InputError, naming file, line and key, where there is no run, or one of another format, or a damaged one.
    The last line of an unfinished run may be cut short; it is left out.
    """
    place = _find(directory)
    unfinished = _why_unfinished(place)
    if unfinished is None:
        check_digests(place)
    manifest = read_manifest(place, DAMAGED)
    if is_there(place / ANSWER):
        raise InputError(
            f"{place}: an answer, and no run; its page is {PAGE}; draw it again by {manifest.command}"
        )
    if unfinished is not None and manifest.interrupted is not None:
        unfinished = f"the run was interrupted ({manifest.interrupted})"
    records = _read_records(place / MEASUREMENTS, cut_short_allowed=unfinished is not None)
    verdict = read_verdict(place, DAMAGED) if unfinished is None else None
    with located(f"{place / MEASUREMENTS}"):
        sessions = group_sessions(records)
    return LoadedRun(manifest=manifest, sessions=sessions, verdict=verdict, unfinished=unfinished)


def redraw(directory: Path) -> tuple[LoadedRun, Path]:
    """Load the run and write its page again (whole or not at all); returns the run and the page's path."""
    run = load_run(directory)
    page = _find(directory) / PAGE
    write_below(page.parent, PAGE, build_page(run).encode())
    return run, page


def draft_of(place: Path) -> Path:
    """Where the run is written until it is whole."""
    return place.with_name(place.name + UNFINISHED) if place.name else place


def existing(directory: Path, *files: str) -> Path | None:
    """Where the run lies that has these files: the directory, or its unfinished form; None where neither has."""
    directory = named_run(directory)
    places = (directory, draft_of(directory))
    return next((place for place in places if all(is_there(place / name) for name in files)), None)


def _find(directory: Path) -> Path:
    if (place := existing(directory, MANIFEST)) is not None:
        return place
    directory = named_run(directory)
    if not directory.exists():
        raise InputError(f"{directory}: no such directory; give one of results/<name>/<run>")
    if not directory.is_dir():
        raise InputError(f"{directory}: not a directory; give one of results/<name>/<run>")
    inside = runs_in(directory)
    hint = f"; it holds runs, give one of them, the last is {inside[-1]}" if inside else ""
    raise InputError(
        f"{directory}: no {MANIFEST} in it{hint or '; give one of results/<name>/<run>'}"
    )


def _why_unfinished(place: Path) -> str | None:
    """Words for a run that has no verdict or still has its working name; None for a whole one."""
    if not place.resolve().name.endswith(UNFINISHED) and is_there(place / VERDICT):
        return None
    return (
        "the run is still going on"
        if _is_locked(place / MEASUREMENTS)
        else "the run was interrupted before its end"
    )


def _is_locked(path: Path) -> bool:
    try:
        with open_plain(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, InputError):
        return False
    return False


def _read_records(path: Path, *, cut_short_allowed: bool) -> list[Record]:
    try:
        *lines, cut_short = read_lines(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; {DAMAGED}") from None
    if cut_short and not cut_short_allowed:
        lines.append(cut_short)
    numbered = [(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]
    return [
        record_from_json(parse_json(line, where, hint=DAMAGED), where) for line, where in numbered
    ]


def json_line(document: Json) -> str:
    """A line of a run's file."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n"


def write_json(path: Path, document: Json) -> None:
    """Write a document of a run, whole or not at all."""
    write_below(
        path.parent, path.name, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()
    )
