"""Studies on disk: points as they are measured, so that a study killed in the middle goes on where it was.

``results/<name>/<run>/``: ``manifest.json``, ``points.jsonl`` (or packed, see ``packed_files``; one JSON object a
point, parameters and results together), ``verdict.json``, ``figure-*.svg``, ``page.html``; ``<run>.unfinished`` until
it is whole, as the runs of the result store.
"""

from collections.abc import Mapping, Sequence
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
    is_there,
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

DAMAGED = "the study is damaged, run it again"
Row = JsonObject


def is_study(directory: Path) -> bool:
    """Whether the directory (or its unfinished form) holds the points of a study."""
    return existing(directory, POINTS, MANIFEST) is not None


class StudyRun(RunDraft[Row]):
    """One study being measured. ``rows`` are the points that are there already; leave it by ``finish``. ``draft`` is
    where it is written until then.

    Raises InputError where the directory cannot be written, or where a run to resume is none, is finished, is being
    written by another process, or belongs to another study.
    """

    def __init__(self, place: Path, manifest: Manifest) -> None:
        super().__init__(place, manifest, POINTS)
        self._stored = self.rows = _read_points(self.draft / POINTS)
        self._repair_last_line()

    @classmethod
    def new(cls, root: Path, name: str, manifest: Manifest) -> Self:
        """Claim ``root/name/<time>-seed<seed>``."""
        place, described = ResultStore(root).claim(name, manifest)
        write_json(draft_of(place) / MANIFEST, described.to_json())
        return cls(place, described)

    @classmethod
    def resume(cls, directory: Path, name: str, seed: int) -> Self:
        """Go on with an unfinished run of the same study and seed."""
        directory = directory if directory.name else directory.absolute()  # "."
        bare = directory.parent / directory.name.removesuffix(UNFINISHED)
        draft = draft_of(bare)
        if bare.is_dir() or is_there(bare / MANIFEST):
            raise InputError(f"{bare}: this run is finished; start a new one without --resume")
        if not (draft / POINTS).is_file():
            raise InputError(
                f"{directory}: no unfinished study there; give one of results/{name}/*{UNFINISHED}"
            )
        manifest = read_manifest(draft, DAMAGED)
        if (manifest.name, manifest.seed) != (name, seed):
            raise InputError(
                f"{directory}: holds {manifest.name} with seed {manifest.seed}, not {name} with seed {seed}"
            )
        killed_s = (draft / POINTS).stat().st_mtime - (draft / MANIFEST).stat().st_mtime
        run = cls(bare, manifest)
        run.count_earlier(max(0.0, killed_s))
        return run

    def add(self, row: Row) -> None:
        """Append one measured point."""
        ready = json_ready(row)
        self._append(ready, ready)

    def count_earlier(self, seconds: float) -> None:
        """What points took that were added as another run measured them, or that a part measured which was killed."""
        self._earlier_s += (
            seconds  # what is killed later has taken that, and from then on to the last point
        )
        write_json(self.draft / MANIFEST, self._described().to_json())

    def finish(
        self,
        rows: Sequence[Row],
        verdict: Verdict,
        figures: Mapping[str, str],
        files: Mapping[str, bytes] | None = None,
    ) -> Path:
        """Write the rows in their final order, verdict, figures, page and what lies beside it, and give the run its
        name."""
        self.manifest = self._described()
        for name, content in (files or {}).items():
            write_below(self.draft, name, content)
        write_below(self.draft, POINTS, "".join(map(json_line, rows)).encode())
        write_drawings(self.draft, self.manifest, rows, verdict, figures)
        return self._named(verdict)

    def _left(self, _: str) -> Manifest:
        return self._described()

    def _repair_last_line(self) -> None:
        """A line cut short by a kill would swallow the next point."""
        whole = "".join(map(json_line, self.rows))
        self._file.seek(0)
        if self._file.read() != whole:
            self._file.truncate(0)
            self._file.write(whole)
            self._file.flush()


def write_drawings(
    directory: Path,
    manifest: Manifest,
    rows: Sequence[Row],
    verdict: Verdict | None,
    figures: Mapping[str, str],
) -> None:
    """Write ``figure-NAME.svg`` and the page; ``figures`` are SVG documents."""
    from testbed.report.study_page import build_study_page

    for name, drawing in figures.items():
        write_below(directory, f"figure-{name}.svg", drawing.encode())
    write_below(directory, PAGE, build_study_page(manifest, rows, verdict, figures).encode())


def load_study(directory: Path) -> tuple[Path, Manifest, list[Row], Verdict | None]:
    """Where it lies, manifest, rows, verdict (None where unfinished). Raises InputError for what is no study."""
    place = existing(directory, POINTS, MANIFEST)
    if place is None:
        raise InputError(f"{directory}: no {POINTS} in it; give the directory of a study")
    if not place.name.endswith(UNFINISHED):
        check_digests(place)
    return (
        place,
        read_manifest(place, DAMAGED),
        _read_points(place / POINTS),
        read_verdict(place, DAMAGED),
    )


def _read_points(path: Path) -> list[Row]:
    rows: list[Row] = []
    *lines, cut_short = read_lines(path)
    for number, line in enumerate([*lines, *([cut_short] if cut_short else [])], start=1):
        try:
            row = parse_json(line, f"{path}:{number}", hint=DAMAGED)
            if not isinstance(row, dict):
                raise InputError(f"{path}:{number}: not a JSON object; {DAMAGED}")
            rows.append(row)
        except InputError:
            if number > len(lines):
                break  # cut short by a kill: measured again
            raise
    return rows


STORED = Path("data/replication")
"""Where the runs are that are committed, below the root of the repository."""
HINT = "the stored run is damaged; remove its folder and run the study again"


def stored_runs(root: Path, name: str | None = None) -> list[StoredRun]:
    """Every run ``root/NAME/RUN``, or those of one study, by names and times. Raises InputError, naming the file, for a
    damaged one."""
    folders = (
        [root / name]
        if name is not None
        else sorted(path for path in root.glob("*") if path.is_dir())
    )
    return [_stored(place) for folder in folders for place in runs_in(folder)]


def _stored(place: Path) -> StoredRun:
    for folder in (place.parent, place):
        refuse_link(folder)
    if not place.name.endswith(UNFINISHED):
        check_digests(place)
    return StoredRun(
        directory=place,
        manifest=read_manifest(place, HINT),
        points=_lines(place / POINTS)
        if is_there(place / POINTS)
        else _sessions(place / MEASUREMENTS),
        verdict=read_verdict(place, HINT),
        drawings=drawings_of(place),
    )


def _lines(path: Path) -> int:
    text = read_packed(path)
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def _sessions(path: Path) -> int:
    if not is_there(path):
        return 0
    lines = read_packed(path).splitlines()
    return sum('"record": "session"' in line or '"record":"session"' in line for line in lines)
