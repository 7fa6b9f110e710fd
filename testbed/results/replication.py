"""The stored runs of studies below one folder: which there are, whole, in part or invalid."""

from __future__ import annotations

from pathlib import Path

from testbed.model.json_values import from_json
from testbed.model.record_json import manifest_from_json
from testbed.model.stored_runs import StoredRun
from testbed.model.verdict import Verdict
from testbed.results.packed_files import MEASUREMENTS, POINTS, drawings_of, is_there, read_packed
from testbed.results.result_store import MANIFEST, VERDICT
from testbed.results.run_folder import is_there as is_plainly_there
from testbed.results.run_folder import read_json_below, refuse_link

MEND = "the stored run is damaged; remove its folder and run the study again"


def stored_runs(root: Path, name: str | None = None) -> list[StoredRun]:
    """Every run ``root/NAME/RUN``, or those of one study, by names and times. Raises InputError, naming the file, for a damaged one."""
    below = root if name is None else root / name
    return [_stored(file.parent) for file in sorted(below.glob(f"{'*/' if name is None else ''}*/{MANIFEST}"))]


def _stored(place: Path) -> StoredRun:
    for folder in (place.parent, place):
        refuse_link(folder)
    file = place / VERDICT
    return StoredRun(
        place=place,
        manifest=manifest_from_json(read_json_below(place / MANIFEST, MEND), str(place / MANIFEST)),
        points=_lines(place / POINTS) if is_there(place / POINTS) else _sessions(place / MEASUREMENTS),
        verdict=from_json(Verdict, read_json_below(file, MEND), str(file)) if is_plainly_there(file) else None,
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
