"""``testbed runs``: lists the stored runs in a folder."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from testbed.commands.answer import Answer
from testbed.commands.arguments import TableOptions, add_options
from testbed.model.stored_runs import StoredRun
from testbed.report.answers import Part, table_of_rows
from testbed.report.streams import complain
from testbed.results.run_list import list_runs
from topologies import JsonObject

DESCRIPTION = (
    "List stored runs, the newest last, with their start, verdict, folder and command. "
    "testbed.load reads a run in Python, and testbed report draws its page."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        type=Path,
        nargs="?",
        default=Path("results"),
        help="folder of results, or the folder of one command in it (default: %(default)s)",
    )
    add_options(parser, TableOptions)


def run(args: argparse.Namespace) -> Answer:
    """List the runs.

    Raises:
        InputError: There is no such folder.
    """
    runs = list_runs(args.folder, _complain_of)
    return Answer({"runs": [_document(run) for run in runs]}, partial(_show, runs, args.folder))


def _complain_of(reason: str) -> None:
    """Print why a run cannot be read."""
    complain(f"note: {reason}")


def _show(runs: Sequence[StoredRun], folder: Path) -> Iterator[Part]:
    if not runs:
        yield f"no run is stored in {folder}"
        return
    yield table_of_rows([_row(run) for run in runs], "runs", spare=("command",))


def _document(run: StoredRun) -> JsonObject:
    # A run that only computes has no verdict.
    verdict = None if run.state == "computed" else run.state
    return {
        "path": str(run.directory),
        "command": run.manifest.command,
        "verdict": verdict,
        "started": run.manifest.started,
    }


def _row(run: StoredRun) -> JsonObject:
    started = run.manifest.started.replace("T", " ").removesuffix("+00:00")
    return {
        "started (UTC)": started,
        "outcome": run.state,
        "run": str(run.directory),
        "command": run.manifest.command,
    }
