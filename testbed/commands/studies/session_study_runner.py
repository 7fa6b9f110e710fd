"""Running a study of streaming sessions, on switches or simulated."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from testbed.commands.live import start_live
from testbed.commands.parsing import OneLineParser, reported
from testbed.commands.runs import add_run_options, run_manifest, show_closing
from testbed.emulation.machine.fabric import choose_fabric
from testbed.emulation.sandbox.sandbox import enter_sandbox, in_sandbox
from testbed.stream.judgement.streams import closing_words
from testbed.stream.run_in_turn import SessionStudy, run_in_turn
from topologies.text.json_types import JsonObject


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
    command = f"testbed experiment run {study.name} {' '.join(words)}".strip()
    described = study.described("quick" if args.quick else "full")
    manifest = replace(run_manifest(args), command=command, study=described)
    sessions = study.sessions(args.quick, args.seed)
    judged, directory = run_in_turn(sessions, fabric, args.results, study.name, manifest)
    if args.json:
        streams = [part.document for part in judged.parts]
        document: JsonObject = {"experiment": study.name, "study": study.name, "fabric": fabric}
        document |= {"sessions": streams, "streams": streams, "verdict": judged.verdict.to_json()}
        print(json.dumps({**document, "results": str(directory)}))
    else:
        show_closing(closing_words(judged), judged.verdict, directory)
    return judged.verdict.exit_code
