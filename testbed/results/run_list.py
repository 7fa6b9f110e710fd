"""Lists stored runs. Only their manifests and verdicts are read."""

from collections.abc import Callable
from pathlib import Path

from testbed.errors import InputError
from testbed.model.stored_runs import StoredRun
from testbed.results.compressed_files import (
    MEASUREMENTS,
    POINTS,
    path_exists,
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
        report_damaged: Called with a message for each run that cannot be read. Such a run is
            omitted, so that it does not prevent a list of the others.

    Raises:
        InputError: There is no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a folder of stored runs, such as results")
    folders = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    directories: list[Path] = []
    for parent in folders:
        directories += runs_in(parent)
    runs = []
    for directory in directories:
        try:
            runs.append(_read_run(directory))
        except InputError as error:
            report_damaged(f"left out: {error}")

    def by_start(run: StoredRun) -> tuple[str, str]:
        return run.manifest.started, str(run.directory)

    return tuple(sorted(runs, key=by_start))


def _read_run(directory: Path) -> StoredRun:
    refuse_link(directory.parent)
    refuse_link(directory)
    manifest = read_manifest(directory, _HINT)
    verdict = None
    if not directory.name.endswith(UNFINISHED):
        verdict = read_verdict(directory, _HINT)
    has_points = path_exists(directory / POINTS) or path_exists(directory / MEASUREMENTS)
    return StoredRun(
        directory=directory,
        manifest=manifest,
        points=int(has_points),
        verdict=verdict,
        computed=path_exists(directory / ANSWER),
    )
