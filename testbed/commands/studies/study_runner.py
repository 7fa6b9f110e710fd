"""Runs a study: measures its points, stores them, and in the end judges and draws them.

The points are measured one by one or shared by workers. Each point is stored as soon as it is
measured, so that a study that was stopped can be resumed, and figures never need a new run.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.campaigns.adapters.dask_workers import dask_client, shared_out
from testbed.commands.answer import (
    Answer,
    add_run_options,
    check_lines,
    folder_lines,
    run_manifest,
    run_streams,
    start_live,
)
from testbed.commands.arguments import (
    JsonOptions,
    LiveOptions,
    ResultsOptions,
    add_options,
    adder,
    read_options,
    refuse_options_without_effect,
)
from testbed.commands.parsing import OneLineParser, reported
from testbed.commands.several_machines import DaskOptions, TlsOptions, security_of
from testbed.emulation.machine.fabric import choose_fabric
from testbed.emulation.machine.provenance import describe_run
from testbed.emulation.sandbox.sandbox import enter_sandbox
from testbed.errors import InputError, InvalidRunError
from testbed.live.adapters.feed import points_shown, record_page_path
from testbed.live.events import InterimResults
from testbed.model.json_values import json_ready
from testbed.model.options import kinds
from testbed.model.options.option import option, options
from testbed.model.studies.study import Study
from testbed.report.drawing.svg_figures import rendered
from testbed.results.study_store import Row, StudyRun, load_study
from topologies.text.json_types import Json, JsonObject

if TYPE_CHECKING:
    from testbed.stream.run_in_turn import SessionStudy


@options
class SharingOptions(DaskOptions):
    """The processes that measure the points of a study."""

    workers: int = option(
        default=1, kind=kinds.processes, help="number of processes that share the points"
    )


def run_study(
    study: Study | SessionStudy,
    argv: Sequence[str] | None = None,
    program: str | None = None,
    called: str | None = None,
) -> int:
    """Parse options, measure missing points, judge and draw; return the exit code.

    Args:
        study: The study.
        argv: Its options; None for those of this process.
        program: The command line before its options.
        called: Its name or file on the command line.
    """
    if argv is None:
        argv = sys.argv[1:]
    arguments = list(argv)
    args = study_parser(study, program).parse_args(arguments)
    args.called = called or study.name
    if isinstance(study, Study):
        return reported(partial(_run, study, args, arguments))
    return reported(partial(_run_sessions, study, args, arguments))


def study_parser(study: Study | SessionStudy, program: str | None = None) -> OneLineParser:
    """Return the parser of a study's options.

    Args:
        study: The study. It may have additional options, and options for workers.
        program: The command line before the options, for messages.
    """
    parser = OneLineParser(
        prog=program or f"testbed experiment run {study.name}", description=study.does
    )
    add = adder(parser)
    add(
        "--quick",
        action="store_true",
        help="run a small version, in less than a minute",
    )
    if not isinstance(study, Study):
        add_run_options(parser)
        return parser
    add(
        "--seed",
        type=kinds.seed,
        default=1,
        help="seed of all random choices (default: 1)",
    )
    add(
        "--resume",
        type=Path,
        metavar="DIR",
        help="continue an unfinished run: results/NAME/RUN.unfinished",
    )
    add(
        "--reuse-points",
        dest="extend",
        type=Path,
        metavar="DIR",
        help="copy the valid points that this finished run has in common with the new run",
    )
    add(
        "--max-hours",
        dest="hours",
        type=kinds.hours,
        metavar="HOURS",
        help="start no point after this number of hours; --resume continues the run later",
    )
    add_options(parser, ResultsOptions, JsonOptions, LiveOptions)
    if study.shared:
        add_options(parser, SharingOptions, TlsOptions)
    if study.options is not None:
        add_options(parser, study.options)
    return parser


def _run(study: Study, args: argparse.Namespace, argv: list[str]) -> int:
    """Run a study, print its answer, and return the exit code.

    Args:
        study: The study.
        args: The parsed options.
        argv: The options as they were written.
    """
    refuse_options_without_effect(args)
    if study.shared:
        # Reports a mistake in the TLS options before anything begins.
        security_of(args)
    study_options: object = None
    if study.options is not None:
        study_options = read_options(args, study.options)
    start_live(args)
    if study.emulation:
        choose_fabric("emulation")
        enter_sandbox(["experiment", "run", args.called, *argv])
    points = _points(study, args, study_options)
    with _open_run(study, args, argv, _size(study, args, study_options)) as run:
        if args.extend is not None:
            _reuse_points(study, run, points, args.extend)
        rows = _measure_missing(study, run, points, args)
        if len(rows) < len(points):
            print(
                f"stopped: {len(rows)} of {len(points)} points; go on with --resume {run.draft}",
                file=sys.stderr,
            )
            return InvalidRunError.exit_code
        verdict = study.judged(rows)
        figures = drawn(study, rows) if verdict.checks else {}
        directory = run.finish(rows, verdict, figures)
        record_page_path(directory / "page.html")
    document: JsonObject = {
        "study": study.name,
        "points": rows,
        "verdict": verdict.to_json(),
        "results": str(directory),
    }
    lines = [*check_lines(verdict), *folder_lines(directory)]
    return Answer(document, lambda: lines, verdict.exit_code).given(args)


def _points(study: Study, args: argparse.Namespace, study_options: object) -> list[Row]:
    if study_options is None:
        points = study.points(args.quick, args.seed)
    else:
        points = study.points(args.quick, args.seed, study_options)
    return [dict(json_ready(point)) for point in points]


def _size(study: Study, args: argparse.Namespace, study_options: object) -> str:
    """Return "quick", "full", or "own options" if options of the study differ from the default."""
    if study.options is not None and study_options != study.options():
        return "own options"
    return "quick" if args.quick else "full"


def _open_run(study: Study, args: argparse.Namespace, argv: list[str], size: str) -> StudyRun:
    """Open a new run, or the unfinished one that ``--resume`` names."""
    description = study.described(size)
    if args.resume is not None:
        run = StudyRun.resume(args.resume, study.name, args.seed)
        run.manifest = replace(run.manifest, study=description)
        return run
    manifest = describe_run(command=_command(args.called, argv), seed=args.seed)
    return StudyRun.new(args.results, study.name, replace(manifest, study=description))


def _command(called: str, argv: Sequence[str]) -> str:
    """Return the command line for the manifest, without options that do not affect the results."""
    command = shlex.join(["testbed", "experiment", "run", called, *argv])
    return re.sub(r" --(results|max-hours|hours)[ =]('[^']*'|\S+)| --live\b", "", command)


def _reuse_points(study: Study, run: StudyRun, points: list[Row], directory: Path) -> None:
    """Copy the rows of a finished run whose points are missing in this one.

    Rows that say why they are invalid are not copied. The time that the finished run took is
    counted in proportion.

    Args:
        study: The study.
        run: The run that gets the rows.
        points: All points of the run.
        directory: The folder of the finished run.

    Raises:
        InputError: The finished run is of another study or has another seed.
    """
    folder, manifest, rows, _ = load_study(directory)
    if (manifest.name, manifest.seed) != (study.name, run.manifest.seed):
        raise InputError(
            f"{folder}: holds {manifest.name} with seed {manifest.seed}, "
            f"not {study.name} with seed {run.manifest.seed}"
        )
    present = _by_point(run.rows, points)
    requested = {_key(point) for point in points}
    copied = 0
    for key, row in _by_point(rows, points).items():
        if key in requested and key not in present and not row.get("invalid"):
            run.add(row)
            copied += 1
    run.count_earlier((manifest.seconds or 0.0) * copied / max(len(rows), 1))


def _measure_missing(
    study: Study, run: StudyRun, points: list[Row], args: argparse.Namespace
) -> list[Row]:
    """Measure and store the points that are missing, until ``--max-hours`` have passed.

    Returns:
        The rows of all points that are measured now, in the order of the points.
    """
    until_s = math.inf
    if args.hours is not None:
        until_s = time.monotonic() + 3600 * args.hours
    row_of = _by_point(run.rows, points)
    missing = [point for point in points if _key(point) not in row_of]
    present = len(points) - len(missing)

    def interim_results() -> InterimResults:
        rows = list(row_of.values())
        outcomes = tuple((check.outcome, check.name) for check in study.judge(rows).checks)
        return InterimResults(outcomes=outcomes, figures=drawn(study, rows))

    with points_shown(study.title or study.name, interim_results) as show_points:
        show_points(present, len(points))
        if study.shared:
            measured = _measure_shared(study.measure, missing, args)
        else:
            measured = _measure_each(study.measure, missing)
        for count, (point, results) in enumerate(measured, start=1):
            row = {**point, **json_ready(results)}
            row_of[_key(point)] = row
            run.add(row)
            show_points(present + count, len(points))
            if time.monotonic() >= until_s:
                break
    return [row_of[_key(point)] for point in points if _key(point) in row_of]


def drawn(study: Study, rows: Sequence[Row]) -> dict[str, str]:
    """Return the figures of a study as SVG documents. The same rows give the same bytes."""
    return rendered(study.name, partial(study.figures, rows), formulas=True)


def _by_point(rows: Sequence[Row], points: Sequence[Row]) -> dict[str, Row]:
    """Return the rows by the key of their point.

    A row has the parameters and the results of its point. If points differ in their parameters, a
    row belongs to the kind of point with the most parameters that it has. Some rows may belong to
    points of another size of the study.
    """
    kinds_of_points = {frozenset(point) for point in points}
    row_of: dict[str, Row] = {}
    for row in rows:
        fitting = [names for names in kinds_of_points if names <= row.keys()]
        if fitting:
            parameters = max(fitting, key=len)
            row_of[_key({name: row[name] for name in parameters})] = row
    return row_of


def _measure_each(
    measure: Callable[[Json], Json], points: Sequence[Row]
) -> Iterator[tuple[Row, Json]]:
    """Measure the points one by one, and yield each with its results."""
    for point in points:
        yield point, measure(point)


def _measure_shared(
    measure: Callable[[Json], Json], points: Sequence[Row], args: argparse.Namespace
) -> Iterator[tuple[Row, Json]]:
    """Measure the points on Dask workers, and yield each with its results when it is measured."""
    if args.scheduler is None and (args.workers == 1 or len(points) < 2):
        yield from _measure_each(measure, points)
        return
    if args.called.endswith(".py"):
        # Workers cannot import the module of a file.
        import cloudpickle  # type: ignore[import-untyped]

        measure = partial(_measure_pickled, cloudpickle.dumps(measure))
    with dask_client(args.workers, args.scheduler, security_of(args)) as client:
        yield from shared_out(client, measure, points, _point_name)


def _point_name(point: Json) -> str:
    return f"point {_key(point)}"


def _measure_pickled(measure: bytes, point: Json) -> Json:
    """Measure a point with a function that was pickled by value."""
    results: Json = pickle.loads(measure)(point)
    return results


def _key(point: Json) -> str:
    return json.dumps(point, sort_keys=True)


def _run_sessions(study: SessionStudy, args: argparse.Namespace, argv: list[str]) -> int:
    """Run a study of streams, print its answer, and return the exit code."""
    fabric = choose_fabric(args.fabric)
    start_live(args)
    if fabric == "emulation":
        enter_sandbox(["experiment", "run", args.called, *argv])
    command = f"testbed experiment run {args.called} {' '.join(argv)}".strip()
    description = study.described("quick" if args.quick else "full")
    manifest = replace(run_manifest(args), command=command, study=description)
    sessions = study.sessions(args.quick, args.seed)
    return run_streams(args, fabric, sessions, study.name, manifest, study=study.name).given(args)
