"""``testbed compare``: puts stored runs of one workload on one page, and runs nothing."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from testbed.api.workloads.registry import stored_under
from testbed.commands.answer import Answer
from testbed.commands.arguments import TableOptions, add_options
from testbed.errors import InputError
from testbed.model.options.option import flag_of, options_of
from testbed.model.run_records import record_to_json
from testbed.report.answers import Part
from testbed.report.column_units import NOTHING
from testbed.report.comparison import ComparedRun, Comparison, compared
from testbed.results.result_store import load_run
from testbed.results.study_store import is_study, load_study

DESCRIPTION = (
    "Compare stored runs of one workload: what was measured in each, its difference from the "
    "first run with the interval, and the options that differ. The exit code is 0, whatever the "
    "verdicts of the runs."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        type=Path,
        nargs="+",
        help="folders of two or more runs: results/<name>/<run>",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        default=Path("comparison.html"),
        help="file of the page (default: %(default)s)",
    )
    add_options(parser, TableOptions)


def run(args: argparse.Namespace) -> Answer:
    """Load the runs, compare them, and write the page.

    Raises:
        InputError: A folder is not a finished run, or the runs are of different workloads.
    """
    comparison = Comparison(runs=tuple(map(_loaded, args.runs)))
    comparison.save(args.output)
    document = comparison.to_json() | {"page": str(args.output)}
    return Answer(document, partial(_show, comparison, args.output))


def _show(comparison: Comparison, page: Path) -> Iterator[Part]:
    table = comparison.as_table()
    difference = "their options are the same"
    if comparison.differing:
        difference = f"they differ in {', '.join(comparison.differing)}"
    yield f"{len(comparison.runs)} runs of {comparison.runs[0].workload}; {difference}"
    yield comparison.runs_table()
    yield replace(table, wide=False, summary=False)
    if any(NOTHING in row for row in table.rows):
        yield f"{NOTHING}: not measured in that run (its stream has no such link or fault)"
    if comparison.zero_line:
        yield comparison.zero_line
    yield f"page: {page}"


def _loaded(directory: Path) -> ComparedRun:
    """Load a run.

    Raises:
        InputError: The folder is not a finished run.
    """
    routing: dict[str, str] = {}
    if is_study(directory):
        _, manifest, rows, verdict = load_study(directory)
    else:
        loaded = load_run(directory)
        manifest = loaded.manifest
        verdict = loaded.verdict
        rows = []
        for part in loaded.sessions:
            if part.summary is not None:
                rows.append(record_to_json(part.summary))
        if loaded.sessions:
            # The method was chosen when the run was planned if the option was not given.
            routing["--routing"] = loaded.sessions[0].session.method
    if verdict is None:
        raise InputError(f"{directory}: this run did not finish; compare finished runs")
    return compared(manifest, verdict, rows, defaults=_defaults(manifest.name) | routing)


def _defaults(name: str) -> dict[str, str]:
    """Return the defaults of the workload's options, by flag."""
    workload = stored_under(name)
    if workload is None or workload.options is None:
        return {}
    defaults: dict[str, str] = {}
    for option in options_of(workload.options):
        value: object = option.shown
        if value is None:
            value = option.default
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            defaults[option.flag or flag_of(option.name)] = str(value)
    return defaults
