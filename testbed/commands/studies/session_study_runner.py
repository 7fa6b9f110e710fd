"""Running a study of streaming sessions, on switches or simulated."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from testbed.commands.live import start_live
from testbed.commands.parsing import OneLineParser, reported
from testbed.commands.runs import add_run_options
from testbed.commands.stream.closing import show_result
from testbed.emulation.sandbox.sandbox import enter_sandbox, in_sandbox
from testbed.stream.run_batch import RunBatch, run_suite
from testbed.stream.session import choose_fabric
from testbed.stream.session_study import SessionStudy


def run_session_study(study: SessionStudy, argv: Sequence[str] | None = None, program: str | None = None) -> int:
    """Parse options, run, report; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = OneLineParser(prog=program or f"testbed experiment run {study.name}", description=study.does)
    parser.add_argument("--quick", action="store_true", help="a small version, under a minute")
    add_run_options(parser, seeded="labels, faults and content")
    args = parser.parse_args(words)
    return reported(lambda: _run(study, args, words))


def _run(study: SessionStudy, args: argparse.Namespace, words: list[str]) -> int:
    fabric = choose_fabric(args.fabric)
    start_live(args)
    if fabric == "emulation" and not in_sandbox():
        enter_sandbox(["experiment", "run", study.name, *words])
    titles, requests = zip(*study.sessions(args.quick, args.seed), strict=True)
    suite = RunBatch(
        name=study.name,
        command=f"testbed experiment run {study.name} {' '.join(words)}".strip(),
        requests=requests,
        titles=titles,
        seed=args.seed,
        repeats_if_invalid=2,
        study=study.described("quick" if args.quick else "full"),
    )
    result = run_suite(suite, fabric, args.results)
    if args.json:
        streams = result.documents()
        document = {
            "experiment": study.name,
            "study": study.name,
            "fabric": fabric,
            "sessions": streams,
            "streams": streams,
        }
        print(json.dumps({**document, "verdict": result.verdict.to_json(), "results": str(result.directory)}))
    else:
        show_result(result)
    return result.verdict.exit_code
