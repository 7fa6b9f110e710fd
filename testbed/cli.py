"""The ``testbed`` command: parses arguments, runs one of ``testbed.commands``, turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from testbed.commands.meaning import refuse_meaningless
from testbed.commands.parsing import OneLineParser, reported

COMMANDS = {
    "topology": "network",
    "route": "routing",
    "ror": "routing",
    "demands": "routing",
    "stream": "stream",
    "mobility": "stream",
    "download": "stream",
    "schedule": "scheduling",
    "bulk": "scheduling",
    "demo": "stream",
    "experiment": "studies",
    "campaign": "studies",
    "replicate": "studies",
    "report": "studies",
    "allocate": "scheduling",
    "wavelengths": "scheduling",
    "simulate": "interconnect",
    "up": "network",
    "exec": "network",
    "attach": "network",
    "run": "striping",
    "sfio": "striping",
    "schema": "network",
    "plugins": "network",
    "doctor": "network",
}
"""Each command and the folder of ``testbed.commands`` in which it lies, in the order of --help."""


def build_parser(chosen: str | None) -> OneLineParser:
    """The whole parser; only the chosen command's module is imported (all of them for --help)."""
    parser = OneLineParser(prog="testbed", description="A testbed for parallel communications.")
    parser.add_argument("--version", action="version", version=_version())
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=OneLineParser)
    for name in COMMANDS if chosen not in COMMANDS else (chosen,):
        importlib.import_module(f"testbed.commands.{COMMANDS[name]}.{name}").add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (0 passed, 1 failed, 2 bad input, 3 machine lacks something, 4 run invalid)."""
    words = list(sys.argv[1:] if argv is None else argv)
    return reported(lambda: _run(words))


def _run(words: list[str]) -> int:
    """Parse and run; argparse ends the program after --help and bad input, which is an exit code here."""
    chosen = next((w for w in words if not w.startswith("-")), None)
    try:
        args = build_parser(chosen).parse_args(words)
        refuse_meaningless(args.command, args)
        return int(args.run(args))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return "testbed " + version("parallel-communications-testbed")
    except PackageNotFoundError:
        return "testbed (not installed)"


if __name__ == "__main__":
    sys.exit(main())
