"""An experiment: a named list of streaming sessions that answers a figure or a claim of the papers, with a verdict."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.commands.live import start_live
from testbed.commands.parsing import OneLineParser, reported
from testbed.commands.runs import add_run_options
from testbed.commands.stream.closing import show_result
from testbed.commands.studies.study import described_study
from testbed.emulation.sandbox.sandbox import enter_sandbox, in_sandbox
from testbed.stream.session import SessionRequest, choose_fabric
from testbed.stream.suite import Suite, SuiteResult, run_suite

Sessions = Sequence[tuple[str, SessionRequest]]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """``sessions(quick, seed)`` gives (title, request) pairs; ``after`` may print or draw more from the finished run.

    ``does`` and ``answers`` are one line each: what it runs, and which figure or claim of the papers it speaks to.
    """

    name: str
    does: str
    answers: str
    sessions: Callable[[bool, int], Sessions]
    after: Callable[[SuiteResult], None] | None = None
    title: str = ""
    deviations: tuple[str, ...] = ()
    chapter: int | None = None

    def main(self, argv: Sequence[str] | None = None, program: str | None = None) -> int:
        """Parse options, run, report; returns the exit code."""
        words = list(sys.argv[1:] if argv is None else argv)
        parser = OneLineParser(prog=program or f"testbed experiment run {self.name}", description=self.does)
        parser.add_argument("--quick", action="store_true", help="a small version, under a minute")
        add_run_options(parser, seeded="labels, faults and content")
        args = parser.parse_args(words)
        return reported(lambda: self._run(args, words))

    def _run(self, args: argparse.Namespace, words: list[str]) -> int:
        fabric = choose_fabric(args.fabric)
        start_live(args)
        if fabric == "emulation" and not in_sandbox():
            enter_sandbox(["experiment", "run", self.name, *words])
        pairs = self.sessions(args.quick, args.seed)
        suite = Suite(
            name=self.name,
            command=f"testbed experiment run {self.name} {' '.join(words)}".strip(),
            requests=tuple(request for _, request in pairs),
            titles=tuple(title for title, _ in pairs),
            seed=args.seed,
            repeats_if_invalid=2,
            study=described_study(self, "quick" if args.quick else "full"),
        )
        result = run_suite(suite, fabric, args.results)
        if args.json:
            print(json.dumps(self._document(fabric, result)))
        else:
            show_result(result)
            if self.after is not None:
                self.after(result)
        return result.verdict.exit_code

    def _document(self, fabric: str, result: SuiteResult) -> dict[str, Any]:
        return {
            "experiment": self.name,
            "fabric": fabric,
            "sessions": result.documents(),
            "verdict": result.verdict.to_json(),
            "results": str(result.directory),
        }
