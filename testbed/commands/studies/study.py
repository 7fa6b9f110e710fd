"""A study: points measured one by one, a verdict over them, figures drawn from them alone; the second kind of experiment.

Each point is stored as it comes, so that a study that was killed goes on with ``--resume``; figures never need a new run.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from testbed.commands import numbers
from testbed.commands.dask_link import add_tls, security_of
from testbed.commands.live import add_live, start_live
from testbed.commands.parsing import OneLineParser, reported
from testbed.commands.runs import show_verdict
from testbed.errors import InputError
from testbed.live.adapters.feed import note_page
from testbed.live.adapters.studies import points_shown
from testbed.live.events import Findings
from testbed.model.json_values import json_ready
from testbed.model.verdict import Verdict
from testbed.report.drawing.svg_figures import rendered
from testbed.results.study_store import Row, StudyRun, load_study

Points = Sequence[Mapping[str, Any]]
Measure = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Study:
    """``points(quick, seed)`` lists the parameters of every point (JSON-ready, each different); ``measure(point)`` gives its
    results (JSON-ready); a row is both together. ``judge(rows)`` gives the verdict, ``figures(rows)`` matplotlib figures by name.

    ``does`` and ``answers`` are one line each: what it runs, and which figure or claim of the papers it speaks to. ``title`` names
    it in words (default: ``name``); ``deviations`` say, a sentence each, where what is run differs from the document. ``ror_code``: the
    code that every ROR of the study belongs to (``testbed.model.code_words``), which its page shows.
    ``emulation``: points are measured on real switches, one after another, inside a sandbox; ``timed``: one after another, for
    the clock is what is measured; else ``--workers`` processes may share them (then ``measure`` must be a function of a
    module). ``chapter``: that of our documents where it is not its folder's. ``options`` may add arguments; they reach
    ``points`` through ``configure(args)``, called once after parsing. Rows keep the order of ``points``.
    """

    name: str
    does: str
    answers: str
    points: Callable[[bool, int], Points]
    measure: Measure
    judge: Callable[[Sequence[Row]], Verdict]
    figures: Callable[[Sequence[Row]], Mapping[str, Any]]
    emulation: bool = False
    timed: bool = False
    chapter: int | None = None
    title: str = ""
    deviations: tuple[str, ...] = ()
    ror_code: str = ""
    options: Callable[[argparse.ArgumentParser], None] | None = None
    configure: Callable[[argparse.Namespace], None] | None = None

    @classmethod
    def of_module(cls, module: str, **values: Any) -> Self:
        """The study whose functions are those of a module (its ``__name__``): ``points``, ``measure``, ``judge``, ``figures``
        and, where it has them, ``add_options`` (for ``options``) and ``configure``. ``values`` are the other fields, or
        a function that has another name. Raises TypeError where one is missing.
        """
        own = vars(sys.modules[module])
        names = {name: name for name in ("points", "measure", "judge", "figures", "configure")} | {
            "options": "add_options"
        }
        return cls(**{field: own[name] for field, name in names.items() if name in own} | values)

    def main(self, argv: Sequence[str] | None = None, program: str | None = None) -> int:
        """Parse options, measure what is missing, judge, draw; returns the exit code."""
        words = list(sys.argv[1:] if argv is None else argv)
        parser = OneLineParser(prog=program or f"testbed experiment run {self.name}", description=self.does)
        add = parser.add_argument
        add("--quick", action="store_true", help="a small version, under a minute")
        add("--seed", type=numbers.seed, default=1, help="seed of everything random (default 1)")
        add("--results", type=Path, default=Path("results"), help="where runs are kept (default results)")
        add("--resume", type=Path, metavar="DIR", help="go on with an unfinished run: results/NAME/RUN.unfinished")
        add(
            "--extend",
            type=Path,
            metavar="DIR",
            help="begin with the points of this finished run that are this run's too, and are valid",
        )
        add(
            "--hours",
            type=numbers.hours,
            metavar="H",
            help="begin no point after so many hours; go on later with --resume",
        )
        add("--json", action="store_true", help="print one JSON object on stdout")
        add_live(parser)
        if self.shared:
            add("--workers", type=numbers.processes, default=1, help="processes that share the points (default 1)")
            add("--scheduler", metavar="ADDRESS", help="a Dask scheduler whose workers share the points instead")
            add_tls(parser)
        if self.options is not None:
            self.options(parser)
        args = parser.parse_args(words)
        return reported(lambda: self._run(args, words))

    def _run(self, args: argparse.Namespace, words: list[str]) -> int:
        if self.shared:
            security_of(args)  # what is wrong with it is said before anything begins
        if self.configure is not None:
            self.configure(args)
        start_live(args)
        if self.emulation:
            self._enter_sandbox(words)
        points = [dict(json_ready(point)) for point in self.points(args.quick, args.seed)]
        with self._open(args, words) as run:
            if args.extend is not None:
                self._take_over(run, points, args.extend)
            rows = self._measure_missing(run, points, args)
            if len(rows) < len(points):
                return _stopped(run, len(rows), len(points))
            verdict = self.judged(rows)
            directory = run.finish(rows, verdict, drawn(self, rows) if verdict.checks else {})
            note_page(directory / "page.html")
        self._show(args, rows, verdict, directory)
        return verdict.exit_code

    def judged(self, rows: Sequence[Row]) -> Verdict:
        """The verdict on these points, with a key for each check. Where there is no point, or ``judge`` does not find in them what it
        compares (a mean of nothing, a ratio to nought, no valid run of a kind), it has no check, and a note says why: it cannot tell."""
        if not rows:
            return Verdict(checks=(), notes=("no point was measured",))
        try:
            return self.judge(rows).keyed()
        except InputError:
            raise
        except (ArithmeticError, LookupError, ValueError) as error:
            why = f"the points lack what the checks compare ({type(error).__name__}: {error})"
            return Verdict(checks=(), notes=(why,))

    def _enter_sandbox(self, words: list[str]) -> None:
        from testbed.emulation.sandbox.sandbox import enter_sandbox, in_sandbox

        if not in_sandbox():
            from testbed.stream.session import choose_fabric

            choose_fabric("emulation")
            enter_sandbox(["experiment", "run", self.name, *words])

    def _open(self, args: argparse.Namespace, words: list[str]) -> StudyRun:
        from testbed.emulation.machine.provenance import describe_run

        study = described_study(self, self._size(args))
        if args.resume is not None:
            run = StudyRun.resume(args.resume, self.name, args.seed)
            run.manifest = replace(run.manifest, study=study)
            return run
        described = replace(describe_run(command=self._command(words), seed=args.seed), study=study)
        return StudyRun.new(args.results, self.name, described)

    def _command(self, words: Sequence[str]) -> str:
        """What was asked for, as a run's manifest tells it: without the place where it is kept, and when to stop."""
        said = " ".join(["testbed experiment run", self.name, *words])
        return re.sub(r" --(results|hours)[ =]\S+| --live\b", "", said)

    def _size(self, args: argparse.Namespace) -> str:
        """``quick``, ``full``, or ``own options`` where one of the study's own was given."""
        own = OneLineParser(prog=self.name)
        if self.options is not None:
            self.options(own)
        if any(getattr(args, name) != default for name, default in vars(own.parse_args([])).items()):
            return "own options"
        return "quick" if args.quick else "full"

    @property
    def shared(self) -> bool:
        """Whether several processes may share the points."""
        return not (self.emulation or self.timed)

    def _take_over(self, run: StudyRun, points: list[Row], directory: Path) -> None:
        """The rows of a finished run whose points are among these and not measured yet, but for those that say why they are invalid,
        and their share of the time that it took.

        Raises InputError for another study's run.
        """
        place, manifest, rows, _ = load_study(directory)
        if (manifest.name, manifest.seed) != (self.name, run.manifest.seed):
            raise InputError(
                f"{place}: holds {manifest.name} with seed {manifest.seed}, not {self.name} with seed {run.manifest.seed}"
            )
        there, asked = _by_point(run.rows, points), {_key(point) for point in points}
        taken = [
            row
            for key, row in _by_point(rows, points).items()
            if key in asked and key not in there and not row.get("invalid")
        ]
        for row in taken:
            run.add(row)
        run.count_earlier((manifest.seconds or 0.0) * len(taken) / max(len(rows), 1))

    def _measure_missing(self, run: StudyRun, points: list[Row], args: argparse.Namespace) -> list[Row]:
        """The rows of all points in their order; of those measured within ``--hours``, where the time did not suffice."""
        until = float("inf") if args.hours is None else time.monotonic() + 3600 * args.hours
        known = _by_point(run.rows, points)
        missing = [point for point in points if _key(point) not in known]
        with points_shown(self.title or self.name, lambda: self._found(list(known.values()))) as show_points:
            show_points(len(points) - len(missing), len(points))
            measured = _shared(self.measure, missing, args) if self.shared else _one_by_one(self.measure, missing)
            for count, (point, results) in enumerate(measured, start=1):
                row = {**point, **json_ready(results)}
                known[_key(point)] = row
                run.add(row)
                show_points(len(points) - len(missing) + count, len(points))
                if time.monotonic() >= until:
                    break
        return [known[_key(point)] for point in points if _key(point) in known]

    def _found(self, rows: Sequence[Row]) -> Findings:
        """What the points that are there say, for the live page."""
        outcomes = tuple((check.outcome, check.name) for check in self.judge(rows).checks)
        return Findings(outcomes=outcomes, figures=drawn(self, rows))

    def _show(self, args: argparse.Namespace, rows: Sequence[Row], verdict: Verdict, directory: Path) -> None:
        if args.json:
            document = {
                "experiment": self.name,
                "points": list(rows),
                "verdict": verdict.to_json(),
                "results": str(directory),
            }
            print(json.dumps(document))
            return
        show_verdict(verdict, directory)


def drawn(study: Study, rows: Sequence[Row]) -> dict[str, str]:
    """The study's figures as SVG documents; the same rows give the same bytes."""
    return rendered(study.name, lambda: study.figures(rows))


def described_study(study: Any, size: str) -> dict[str, Any]:
    """``title``, ``does``, ``answers``, ``deviations`` of a study or experiment, and the ``size`` of a run of it."""
    named = {name: getattr(study, name) for name in ("title", "does", "answers")}
    code = {"ror_code": study.ror_code} if getattr(study, "ror_code", "") else {}
    return {**named, **code, "deviations": list(study.deviations), "size": size}


def _stopped(run: StudyRun, done: int, count: int) -> int:
    """Say how to go on; the exit code."""
    print(f"stopped: {done} of {count} points; go on with --resume {run.draft}", file=sys.stderr)
    return 4


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


def _one_by_one(measure: Measure, points: Sequence[Row]) -> Iterator[tuple[Row, Mapping[str, Any]]]:
    yield from ((point, measure(point)) for point in points)


def _shared(
    measure: Measure, points: Sequence[Row], args: argparse.Namespace
) -> Iterator[tuple[Row, Mapping[str, Any]]]:
    """As they come, from Dask workers where more than one is asked for."""
    if args.scheduler is None and (args.workers == 1 or len(points) < 2):
        yield from _one_by_one(measure, points)
        return
    from distributed import as_completed

    from testbed.campaigns.adapters.workers import dask_client

    with dask_client(args.workers, args.scheduler, security_of(args)) as client:
        futures = dict(zip(client.map(measure, points, pure=False, retries=0), points, strict=True))
        try:
            for future in as_completed(list(futures)):
                yield futures[future], future.result()
        finally:
            client.cancel(list(futures))


def _key(point: Mapping[str, Any]) -> str:
    return json.dumps(point, sort_keys=True)
