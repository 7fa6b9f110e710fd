"""A plain list of stored runs, of which only the manifests and verdicts are read."""

from collections.abc import Callable
from pathlib import Path

from testbed.errors import InputError
from testbed.model.stored_runs import StoredRun
from testbed.results.compressed_files import (
    MEASUREMENTS,
    POINTS,
    is_there,
    read_manifest,
    read_verdict,
    runs_in,
)
from testbed.results.result_store import ANSWER, UNFINISHED
from testbed.results.run_folder import refuse_link

_HINT = "remove the folder, or run the command again"


def list_runs(folder: Path, report_damaged: Callable[[str], None]) -> tuple[StoredRun, ...]:
    """Return the runs in a folder of results, or in the folder of one command, the newest last.

    Args:
        folder: The folder.
        report_damaged: Called with the reason for each run that cannot be read, which is left out,
            so that it does not hide the others.

    Raises:
        InputError: There is no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a folder of stored runs, such as results")
    folders = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    listed = []
    for place in (place for parent in folders for place in runs_in(parent)):
        try:
            listed.append(_listed(place))
        except InputError as error:
            report_damaged(f"left out: {error}")
    return tuple(sorted(listed, key=lambda run: (run.manifest.started, str(run.directory))))


def _listed(place: Path) -> StoredRun:
    for path in (place.parent, place):
        refuse_link(path)
    is_finished = not place.name.endswith(UNFINISHED)
    has_points = is_there(place / POINTS) or is_there(place / MEASUREMENTS)
    return StoredRun(
        directory=place,
        manifest=read_manifest(place, _HINT),
        points=int(has_points),
        verdict=read_verdict(place, _HINT) if is_finished else None,
        computed=is_there(place / ANSWER),
    )
