"""Running a study: its points measured one by one or shared, stored as they come, judged and drawn at the end.

Each point is stored as it comes, so that a study that was killed goes on with ``--resume``; figures never need a new
run.
"""

from __future__ import annotations

import argparse
import json
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
    place_lines,
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
    refuse_meaningless,
)
from testbed.commands.parsing import OneLineParser, reported
from testbed.commands.several_machines import DaskOptions, TlsOptions, security_of
from testbed.emulation.machine.fabric import choose_fabric
from testbed.emulation.machine.provenance import describe_run
from testbed.emulation.sandbox.sandbox import enter_sandbox
from testbed.errors import InputError
from testbed.live.adapters.feed import points_shown, record_page_path
from testbed.live.events import InterimResults
from testbed.model.json_values import json_ready
from testbed.model.options import kinds
from testbed.model.options.option import option, options
from testbed.model.studies.study import Study
from testbed.report.drawing.svg_figures import rendered
from testbed.results.study_store import Row, StudyRun, load_study
from topologies.text.json_types import Json

if TYPE_CHECKING:
    from testbed.stream.run_in_turn import SessionStudy


@options
class SharingOptions(DaskOptions):
    """Who measures the points."""

    workers: int = option(default=1, kind=kinds.processes, help="processes that share the points")


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
    words = list(sys.argv[1:] if argv is None else argv)
    args = study_parser(study, program).parse_args(words)
    args.called = called or study.name
    run = partial(_run, study) if isinstance(study, Study) else partial(_run_sessions, study)
    return reported(partial(run, args, words))


def study_parser(study: Study | SessionStudy, program: str | None = None) -> OneLineParser:
    """The options of all studies, those of a study whose points may be shared, and its own."""
    parser = OneLineParser(
        prog=program or f"testbed experiment run {study.name}", description=study.does
    )
    add = adder(parser)
    add("--quick", action="store_true", help="a small version, under a minute")
    if not isinstance(study, Study):
        add_run_options(parser)
        return parser
    add("--seed", type=kinds.seed, default=1, help="seed of everything random (default 1)")
    add(
        "--resume",
        type=Path,
        metavar="DIR",
        help="go on with an unfinished run: results/NAME/RUN.unfinished",
    )
    extends = "begin with the points of this finished run that are this run's too, and are valid"
    add("--reuse-points", dest="extend", type=Path, metavar="DIR", help=extends)
    until = "begin no point after this number of hours; continue later with --resume"
    add("--max-hours", dest="hours", type=kinds.hours, metavar="HOURS", help=until)
    add_options(parser, ResultsOptions, JsonOptions, LiveOptions)
    if study.shared:
        add_options(parser, SharingOptions, TlsOptions)
    if study.options is not None:
        add_options(parser, study.options)
    return parser


def _run(study: Study, args: argparse.Namespace, words: list[str]) -> int:
    refuse_meaningless(args)
    if study.shared:
        security_of(args)  # what is wrong with it is said before anything begins
    own: object = None if study.options is None else read_options(args, study.options)
    start_live(args)
    if study.emulation:
        choose_fabric("emulation")
        enter_sandbox(["experiment", "run", args.called, *words])
    listed = study.points(args.quick, args.seed, *([] if own is None else [own]))
    points = [dict(json_ready(point)) for point in listed]
    size = "quick" if args.quick else "full"
    with _open(
        study, args, words, "own options" if study.options and own != study.options() else size
    ) as run:
        if args.extend is not None:
            _take_over(study, run, points, args.extend)
        rows = _measure_missing(study, run, points, args)
        if len(rows) < len(points):
            print(
                f"stopped: {len(rows)} of {len(points)} points; go on with --resume {run.draft}",
                file=sys.stderr,
            )
            return 4
        verdict = study.judged(rows)
        directory = run.finish(rows, verdict, drawn(study, rows) if verdict.checks else {})
        record_page_path(directory / "page.html")
    document = {
        "study": study.name,
        "points": rows,
        "verdict": verdict.to_json(),
    }
    document |= {"results": str(directory)}
    show = [*check_lines(verdict), *place_lines(directory)]
    return Answer(document, lambda: show, verdict.exit_code).given(args)


def _open(study: Study, args: argparse.Namespace, words: list[str], size: str) -> StudyRun:
    """The run to be measured. ``size``: ``quick``, ``full``, or ``own options`` where one of the study's own was
    given."""
    said = study.described(size)
    if args.resume is not None:
        run = StudyRun.resume(args.resume, study.name, args.seed)
        run.manifest = replace(run.manifest, study=said)
        return run
    described = replace(
        describe_run(command=_command(args.called, words), seed=args.seed), study=said
    )
    return StudyRun.new(args.results, study.name, described)


def _command(called: str, words: Sequence[str]) -> str:
    """What was requested, as a run's manifest tells it: without the place where it is kept, and when to stop."""
    said = shlex.join(["testbed", "experiment", "run", called, *words])
    return re.sub(r" --(results|max-hours|hours)[ =]('[^']*'|\S+)| --live\b", "", said)


def _take_over(study: Study, run: StudyRun, points: list[Row], directory: Path) -> None:
    """The rows of a finished run whose points are among these and not measured yet, but for those that say why they are
    invalid, and their share of the time that it took.

    Raises InputError for another study's run.
    """
    place, manifest, rows, _ = load_study(directory)
    if (manifest.name, manifest.seed) != (study.name, run.manifest.seed):
        raise InputError(
            f"{place}: holds {manifest.name} with seed {manifest.seed}, not {study.name} with seed {run.manifest.seed}"
        )
    there, requested = _by_point(run.rows, points), {_key(point) for point in points}
    taken = [
        row
        for key, row in _by_point(rows, points).items()
        if key in requested and key not in there and not row.get("invalid")
    ]
    for row in taken:
        run.add(row)
    run.count_earlier((manifest.seconds or 0.0) * len(taken) / max(len(rows), 1))


def _measure_missing(
    study: Study, run: StudyRun, points: list[Row], args: argparse.Namespace
) -> list[Row]:
    """The rows of all points in their order; of those measured within ``--max-hours``, where the time did not
    suffice."""
    until = float("inf") if args.hours is None else time.monotonic() + 3600 * args.hours
    known = _by_point(run.rows, points)
    missing = [point for point in points if _key(point) not in known]
    with points_shown(
        study.title or study.name, lambda: _found(study, list(known.values()))
    ) as show_points:
        show_points(len(points) - len(missing), len(points))
        alone = ((point, study.measure(point)) for point in missing)
        measured = _shared(study.measure, missing, args) if study.shared else alone
        for count, (point, results) in enumerate(measured, start=1):
            row = {**point, **json_ready(results)}
            known[_key(point)] = row
            run.add(row)
            show_points(len(points) - len(missing) + count, len(points))
            if time.monotonic() >= until:
                break
    return [known[_key(point)] for point in points if _key(point) in known]


def _found(study: Study, rows: Sequence[Row]) -> InterimResults:
    """What the points that are there say, for the live page."""
    outcomes = tuple((check.outcome, check.name) for check in study.judge(rows).checks)
    return InterimResults(outcomes=outcomes, figures=drawn(study, rows))


def drawn(study: Study, rows: Sequence[Row]) -> dict[str, str]:
    """The study's figures as SVG documents; the same rows give the same bytes."""
    return rendered(study.name, lambda: study.figures(rows), formulas=True)


def _by_point(rows: Sequence[Row], points: Sequence[Row]) -> dict[str, Row]:
    """The rows under the key of their point; those of other sizes' points may be among them.

    Where points differ in their parameters, a row belongs to the one with the most of those that it has.
    """
    names = {frozenset(point) for point in points}
    found = {}
    for row in rows:
        fitting = [keys for keys in names if keys <= row.keys()]
        if fitting:
            found[_key({k: row[k] for k in max(fitting, key=len)})] = row
    return found


def _shared(
    measure: Callable[[Json], Json], points: Sequence[Row], args: argparse.Namespace
) -> Iterator[tuple[Row, Json]]:
    """As they come, from Dask workers where more than one is requested."""
    if args.scheduler is None and (args.workers == 1 or len(points) < 2):
        yield from ((point, measure(point)) for point in points)
        return
    if args.called.endswith(".py"):  # a file that workers cannot import
        import cloudpickle  # type: ignore[import-untyped]

        measure = partial(_measure_pickled, cloudpickle.dumps(measure))
    with dask_client(args.workers, args.scheduler, security_of(args)) as client:
        yield from shared_out(client, measure, points, lambda point: f"point {_key(point)}")


def _measure_pickled(measure: bytes, point: Json) -> Json:
    """Measure a point with a function that was pickled by value."""
    results: Json = pickle.loads(measure)(point)
    return results


def _key(point: Json) -> str:
    return json.dumps(point, sort_keys=True)


def _run_sessions(study: SessionStudy, args: argparse.Namespace, words: list[str]) -> int:
    fabric = choose_fabric(args.fabric)
    start_live(args)
    if fabric == "emulation":
        enter_sandbox(["experiment", "run", args.called, *words])
    command = f"testbed experiment run {args.called} {' '.join(words)}".strip()
    described = study.described("quick" if args.quick else "full")
    manifest = replace(run_manifest(args), command=command, study=described)
    sessions = study.sessions(args.quick, args.seed)
    return run_streams(args, fabric, sessions, study.name, manifest, study=study.name).given(args)
