"""The stored runs of studies below one folder: which there are, whole, in part or invalid."""

from pathlib import Path

from testbed.model.stored_runs import StoredRun
from testbed.results.compressed_files import (
    MEASUREMENTS,
    POINTS,
    drawings_of,
    is_there,
    read_manifest,
    read_packed,
    read_verdict,
    runs_in,
)
from testbed.results.run_folder import refuse_link

STORED = Path("data/replication")
"""Where the runs are that are committed, below the root of the repository."""
HINT = "the stored run is damaged; remove its folder and run the study again"


def stored_runs(root: Path, name: str | None = None) -> list[StoredRun]:
    """Every run ``root/NAME/RUN``, or those of one study, by names and times. Raises InputError, naming the file, for a
    damaged one."""
    folders = [root / name] if name is not None else sorted(path for path in root.glob("*") if path.is_dir())
    return [_stored(place) for folder in folders for place in runs_in(folder)]


def _stored(place: Path) -> StoredRun:
    for folder in (place.parent, place):
        refuse_link(folder)
    return StoredRun(
        directory=place,
        manifest=read_manifest(place, HINT),
        points=_lines(place / POINTS) if is_there(place / POINTS) else _sessions(place / MEASUREMENTS),
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
