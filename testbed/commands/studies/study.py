"""A study: points measured one by one, a verdict over them, figures drawn from them alone; the second kind of experiment.

Each point is stored as it comes, so that a study that was killed goes on with ``--resume``; figures never need a new run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from testbed.commands.parsing import OneLineParser, reported
from testbed.commands.runs import show_verdict
from testbed.errors import InputError
from testbed.model.json_values import json_ready
from testbed.model.verdict import Verdict
from testbed.report.drawing.svg_figures import rendered
from testbed.report.progress_bar import points_bar
from testbed.results.study_store import Row, StudyRun

Points = Sequence[Mapping[str, Any]]
Measure = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Study:
    """``points(quick, seed)`` lists the parameters of every point (JSON-ready, each different); ``measure(point)`` gives its
    results (JSON-ready); a row is both together. ``judge(rows)`` gives the verdict, ``figures(rows)`` matplotlib figures by name.

    ``does`` and ``answers`` are one line each: what it runs, and which figure or claim of the papers it speaks to. ``title`` names
    it in words (default: ``name``); ``deviations`` say, a sentence each, where what is run differs from the document.
    ``emulation``: points are measured on real switches, one after another, inside a sandbox; else ``--workers`` processes
    may share them (then ``measure`` must be a function of a module). ``options`` may add arguments; they reach
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
    title: str = ""
    deviations: tuple[str, ...] = ()
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
        add("--seed", type=int, default=1, help="seed of everything random (default 1)")
        add("--results", type=Path, default=Path("results"), help="where runs are kept (default results)")
        add("--resume", type=Path, metavar="DIR", help="go on with an unfinished run: results/NAME/RUN.unfinished")
        add("--json", action="store_true", help="print one JSON object on stdout")
        if not self.emulation:
            add("--workers", type=int, default=1, help="processes that share the points (default 1)")
        if self.options is not None:
            self.options(parser)
        args = parser.parse_args(words)
        return reported(lambda: self._run(args, words))

    def _run(self, args: argparse.Namespace, words: list[str]) -> int:
        if self.configure is not None:
            self.configure(args)
        if not self.emulation and args.workers < 1:
            raise InputError(f"--workers {args.workers}: give 1 or more")
        if self.emulation:
            self._enter_sandbox(words)
        points = [dict(json_ready(point)) for point in self.points(args.quick, args.seed)]
        with self._open(args, words) as run:
            rows = self._measure_missing(run, points, 1 if self.emulation else args.workers)
            verdict = self.judge(rows)
            directory = run.finish(rows, verdict, drawn(self, rows))
        self._show(args, rows, verdict, directory)
        return verdict.exit_code

    def _enter_sandbox(self, words: list[str]) -> None:
        from testbed.emulation.sandbox.sandbox import enter_sandbox, in_sandbox

        if not in_sandbox():
            from testbed.stream.session import choose_fabric

            choose_fabric("emulation")
            enter_sandbox(["experiment", "run", self.name, *words])

    def _open(self, args: argparse.Namespace, words: list[str]) -> StudyRun:
        from testbed.emulation.machine.provenance import describe_run

        if args.resume is not None:
            return StudyRun.resume(args.resume, self.name, args.seed)
        command = f"testbed experiment run {self.name} {' '.join(words)}".strip()
        described = replace(describe_run(command=command, seed=args.seed), study=self.described())
        return StudyRun.new(args.results, self.name, described)

    def described(self) -> dict[str, Any]:
        """What its page says of it."""
        return {
            "title": self.title,
            "does": self.does,
            "answers": self.answers,
            "deviations": list(self.deviations),
        }

    def _measure_missing(self, run: StudyRun, points: list[Row], workers: int) -> list[Row]:
        names = {frozenset(point) for point in points}
        known = {_key({k: row[k] for k in keys}): row for row in run.rows for keys in names if keys <= row.keys()}
        missing = [point for point in points if _key(point) not in known]
        with points_bar(self.name) as show_points:
            show_points(len(points) - len(missing), len(points))
            for count, (point, results) in enumerate(_measured(self.measure, missing, workers), start=1):
                row = {**point, **json_ready(results)}
                known[_key(point)] = row
                run.add(row)
                show_points(len(points) - len(missing) + count, len(points))
        return [known[_key(point)] for point in points]

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


def _measured(measure: Measure, points: Sequence[Row], workers: int) -> Iterator[tuple[Row, Mapping[str, Any]]]:
    if workers == 1 or len(points) < 2:
        yield from ((point, measure(point)) for point in points)
        return
    with ProcessPoolExecutor(max_workers=workers) as pool:
        futures = {pool.submit(measure, point): point for point in points}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _key(point: Mapping[str, Any]) -> str:
    return json.dumps(point, sort_keys=True)
