"""The ``testbed`` command: parses arguments, runs one of ``testbed.commands``, turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

COMMANDS = ("topology", "route", "stream", "demo", "experiment", "report", "up", "doctor")


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line on stderr and exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """The whole parser; only the chosen command's module is imported (all of them for --help)."""
    parser = OneLineParser(prog="testbed", description="A testbed for parallel communications.")
    parser.add_argument("--version", action="version", version=_version())
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=OneLineParser)
    for name in COMMANDS if chosen not in COMMANDS else (chosen,):
        importlib.import_module(f"testbed.commands.{name}").add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (0 passed, 1 failed, 2 bad input, 3 machine lacks something, 4 run invalid)."""
    from testbed.errors import TestbedError
    from topologies.errors import TopologyError

    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((w for w in words if not w.startswith("-")), None)
    args = build_parser(chosen).parse_args(words)
    try:
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except TestbedError as error:
        return _complain(str(error), error.exit_code)
    except TopologyError as error:
        return _complain(str(error), 2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _complain("interrupted", 130)


def _complain(message: str, code: int) -> int:
    print("testbed: " + " ".join(message.split()), file=sys.stderr)
    return code


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return "testbed " + version("parallel-communications-testbed")
    except PackageNotFoundError:
        return "testbed (not installed)"


if __name__ == "__main__":
    sys.exit(main())
