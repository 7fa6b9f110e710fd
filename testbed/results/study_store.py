"""Studies on disk, which are written point by point, so that an interrupted study can be resumed.

A study has the directory ``results/<name>/<run>/``, which is called ``<run>.unfinished`` until the
study is complete, like the runs of the result store. Its files are ``manifest.json``,
``points.jsonl`` (one JSON object in each line, with the parameters and results of a point),
``verdict.json``, ``figure-*.svg`` and ``page.html``. They may be packed
(``testbed.results.compressed_files``).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from testbed.errors import InputError
from testbed.model.json_values import json_ready, parse_json
from testbed.model.run_records import Manifest
from testbed.model.stored_runs import StoredRun
from testbed.model.verdict import Verdict
from testbed.results.compressed_files import (
    MANIFEST,
    MEASUREMENTS,
    PAGE,
    POINTS,
    drawings_of,
    path_exists,
    read_lines,
    read_manifest,
    read_packed,
    read_verdict,
    runs_in,
)
from testbed.results.digests import check_digests
from testbed.results.result_store import (
    UNFINISHED,
    ResultStore,
    RunDraft,
    draft_of,
    existing,
    json_line,
    write_json,
)
from testbed.results.run_folder import refuse_link, write_below
from topologies import JsonObject

Row = JsonObject

DAMAGED = "the study is damaged, run it again"
HINT = "the stored run is damaged; remove its folder and run the study again"
# The folder of the runs that are committed, below the root of the repository.
STORED = Path("data/replication")


def is_study(directory: Path) -> bool:
    """Return whether a directory, or its unfinished form, contains the points of a study."""
    return existing(directory, POINTS, MANIFEST) is not None


class StudyRun(RunDraft[Row]):
    """A study that is being measured. ``finish`` completes it.

    Attributes:
        rows: The points that have been measured.

    Raises:
        InputError: The directory cannot be written. A run that is to be resumed does not exist, is
            finished, is being written by another process, or belongs to another study.
    """

    def __init__(self, place: Path, manifest: Manifest) -> None:
        super().__init__(place, manifest, POINTS)
        self.rows = _read_points(self.draft / POINTS)
        self._stored = self.rows
        self._repair_last_line()

    @classmethod
    def new(cls, root: Path, name: str, manifest: Manifest) -> Self:
        """Create the directory ``root/name/<time>-seed<seed>`` of a new run."""
        directory, full_manifest = ResultStore(root).claim(name, manifest)
        write_json(draft_of(directory) / MANIFEST, full_manifest.to_json())
        return cls(directory, full_manifest)

    @classmethod
    def resume(cls, directory: Path, name: str, seed: int) -> Self:
        """Resume an unfinished run.

        Args:
            directory: The final directory of the run, or the unfinished one.
            name: Name of the study, which must be that of the run.
            seed: Seed of the study, which must be that of the run.
        """
        if not directory.name:
            # The path ".".
            directory = directory.absolute()
        final = directory.parent / directory.name.removesuffix(UNFINISHED)
        draft = draft_of(final)
        if final.is_dir() or path_exists(final / MANIFEST):
            raise InputError(f"{final}: this run is finished; start a new one without --resume")
        if not (draft / POINTS).is_file():
            raise InputError(
                f"{directory}: no unfinished study there; give one of results/{name}/*{UNFINISHED}"
            )
        manifest = read_manifest(draft, DAMAGED)
        if (manifest.name, manifest.seed) != (name, seed):
            raise InputError(
                f"{directory}: holds {manifest.name} with seed {manifest.seed}, "
                f"not {name} with seed {seed}"
            )
        # The part that was killed ran from the last manifest to the last point.
        killed_s = (draft / POINTS).stat().st_mtime - (draft / MANIFEST).stat().st_mtime
        run = cls(final, manifest)
        run.count_earlier(max(0.0, killed_s))
        return run

    def add(self, row: Row) -> None:
        """Append a measured point."""
        ready = json_ready(row)
        self._append(ready, ready)

    def count_earlier(self, seconds: float) -> None:
        """Add time to the duration of the run, and store it.

        Args:
            seconds: Time that another run, or a killed part of this run, took for points of this
                one.
        """
        self._earlier_s += seconds
        # If this part is killed, it will have taken the time from this manifest to its last point.
        write_json(self.draft / MANIFEST, self._timed_manifest().to_json())

    def finish(
        self,
        rows: Sequence[Row],
        verdict: Verdict,
        figures: Mapping[str, str],
        files: Mapping[str, bytes] | None = None,
    ) -> Path:
        """Write all files of the study, and rename the directory to its final name.

        Args:
            rows: The points in their final order.
            verdict: The verdict.
            figures: SVG documents by the name of the figure.
            files: Content of further files by their names, or None.

        Returns:
            The final directory.
        """
        self.manifest = self._timed_manifest()
        for name, content in (files or {}).items():
            write_below(self.draft, name, content)
        write_below(self.draft, POINTS, "".join(map(json_line, rows)).encode())
        write_drawings(self.draft, self.manifest, rows, verdict, figures)
        return self._complete(verdict)

    def _unfinished_manifest(self, _: str) -> Manifest:
        return self._timed_manifest()

    def _repair_last_line(self) -> None:
        """Remove an incomplete last line, to which the next point would be appended."""
        complete_lines = "".join(map(json_line, self.rows))
        self._file.seek(0)
        if self._file.read() != complete_lines:
            self._file.truncate(0)
            self._file.write(complete_lines)
            self._file.flush()


def write_drawings(
    directory: Path,
    manifest: Manifest,
    rows: Sequence[Row],
    verdict: Verdict | None,
    figures: Mapping[str, str],
) -> None:
    """Write the figures ``figure-NAME.svg`` and the page of a study.

    Args:
        directory: The run's folder.
        manifest: The description of the run.
        rows: The points.
        verdict: The verdict, or None if the run is not finished.
        figures: SVG documents by the name of the figure.
    """
    # The import takes a while, and most functions of this module do not need it.
    from testbed.report.study_page import build_study_page

    for name, drawing in figures.items():
        write_below(directory, f"figure-{name}.svg", drawing.encode())
    write_below(directory, PAGE, build_study_page(manifest, rows, verdict, figures).encode())


def load_study(directory: Path) -> tuple[Path, Manifest, list[Row], Verdict | None]:
    """Read a study, finished or not.

    Args:
        directory: The final directory of the study, even if it is not finished.

    Returns:
        The directory that exists, the manifest, the rows, and the verdict or None.

    Raises:
        InputError: The directory is not that of a study, or the study is damaged.
    """
    existing_directory = existing(directory, POINTS, MANIFEST)
    if existing_directory is None:
        raise InputError(f"{directory}: no {POINTS} in it; give the directory of a study")
    if not existing_directory.name.endswith(UNFINISHED):
        check_digests(existing_directory)
    return (
        existing_directory,
        read_manifest(existing_directory, DAMAGED),
        _read_points(existing_directory / POINTS),
        read_verdict(existing_directory, DAMAGED),
    )


def _read_points(path: Path) -> list[Row]:
    """Return the points in a file. A kill may have cut the last one; it is measured again."""
    *lines, after_last_line = read_lines(path)
    rows = []
    for number, line in enumerate(lines, start=1):
        rows.append(_parse_point(line, f"{path}:{number}"))
    if after_last_line:
        with suppress(InputError):
            rows.append(_parse_point(after_last_line, f"{path}:{len(lines) + 1}"))
    return rows


def _parse_point(line: str, where: str) -> Row:
    row = parse_json(line, where, hint=DAMAGED)
    if not isinstance(row, dict):
        raise InputError(f"{where}: not a JSON object; {DAMAGED}")
    return row


def stored_runs(root: Path, name: str | None = None) -> list[StoredRun]:
    """Return the runs ``root/NAME/RUN`` of all studies or of one, by names and times.

    Args:
        root: The folder of all studies.
        name: Name of the study. None: all studies.

    Raises:
        InputError: A run is damaged. The message contains the file.
    """
    if name is not None:
        folders = [root / name]
    else:
        folders = sorted(path for path in root.glob("*") if path.is_dir())
    runs = []
    for folder in folders:
        for directory in runs_in(folder):
            runs.append(_read_run(directory))
    return runs


def _read_run(directory: Path) -> StoredRun:
    refuse_link(directory.parent)
    refuse_link(directory)
    if not directory.name.endswith(UNFINISHED):
        check_digests(directory)
    manifest = read_manifest(directory, HINT)
    if path_exists(directory / POINTS):
        points = _count_lines(directory / POINTS)
    else:
        points = _count_sessions(directory / MEASUREMENTS)
    return StoredRun(
        directory=directory,
        manifest=manifest,
        points=points,
        verdict=read_verdict(directory, HINT),
        drawings=drawings_of(directory),
    )


def _count_lines(path: Path) -> int:
    text = read_packed(path)
    count = text.count("\n")
    # The last line may be incomplete.
    if text and not text.endswith("\n"):
        count += 1
    return count


def _count_sessions(path: Path) -> int:
    if not path_exists(path):
        return 0
    count = 0
    for line in read_packed(path).splitlines():
        if '"record": "session"' in line or '"record":"session"' in line:
            count += 1
    return count
