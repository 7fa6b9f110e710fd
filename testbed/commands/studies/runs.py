"""``testbed runs``: the stored runs in a folder; runs nothing."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from testbed.commands.answer import Answer
from testbed.commands.arguments import TableOptions, add_options
from testbed.model.stored_runs import StoredRun
from testbed.report.answers import Part, table_of_rows
from testbed.report.streams import complain
from testbed.results.run_list import list_runs
from topologies import JsonObject

DESCRIPTION = (
    "List stored runs, the newest last: when they started, their verdict, their folder and the "
    "command. Read one back in Python with testbed.load, or draw its page with testbed report."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        type=Path,
        nargs="?",
        default=Path("results"),
        help="a folder of results, or that of one command in it (default %(default)s)",
    )
    add_options(parser, TableOptions)


def run(args: argparse.Namespace) -> Answer:
    """List the runs; InputError if there is no such folder."""
    listed = list_runs(args.folder, lambda reason: complain(f"note: {reason}"))

    def show() -> Iterator[Part]:
        if not listed:
            yield f"no run is stored in {args.folder}"
            return
        yield table_of_rows([_row(each) for each in listed], "runs", spare=("command",))

    return Answer({"runs": [_document(each) for each in listed]}, show)


def _document(each: StoredRun) -> JsonObject:
    verdict = None if each.state == "computed" else each.state
    return {
        "path": str(each.directory),
        "command": each.manifest.command,
        "verdict": verdict,
        "started": each.manifest.started,
    }


def _row(each: StoredRun) -> JsonObject:
    started = each.manifest.started.replace("T", " ").removesuffix("+00:00")
    return {
        "started (UTC)": started,
        "outcome": each.state,
        "run": str(each.directory),
        "command": each.manifest.command,
    }
