"""The ``testbed`` command.

It parses the arguments and runs one of ``testbed.commands``. An error becomes one line and an exit
code.
"""

from __future__ import annotations

# This must be imported before every module that takes long to import or opens files.
from testbed.commands import early  # noqa: F401

# isort: split
import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from testbed.api.compile_notice import announce_compilation
from testbed.api.workloads import LISTED, load
from testbed.commands.answer import Answer, end_live
from testbed.commands.arguments import refuse_options_without_effect
from testbed.commands.command_list import COMMANDS, COMMANDS_OF_COMMANDS
from testbed.commands.heartbeat import heartbeat
from testbed.commands.interrupts import exit_interrupted, install_interrupt_handler
from testbed.commands.notes import notes_on_stderr
from testbed.commands.parsing import INTERRUPTED, OneLineParser, reported
from testbed.commands.unforeseen import UNFORESEEN, exit_code_with_threads, install_thread_handler
from testbed.report.streams import make_printable


def build_parser(chosen: str | None) -> OneLineParser:
    """Return the parser of one command or of all commands.

    Args:
        chosen: Name of the command. Only its module is imported. None: all commands.
    """
    parser, subparsers = _outer_parser()
    names = COMMANDS if chosen is None else (chosen,)
    for name in names:
        if name in LISTED:
            from testbed.commands.workload_command import add_parser

            add_parser(subparsers, name, load(name))
            continue
        module = importlib.import_module(f"testbed.commands.{COMMANDS[name].folder}.{name}")
        command_parser = subparsers.add_parser(
            name, description=getattr(module, "DESCRIPTION", None)
        )
        # If the command has subcommands, these have the function.
        command_parser.set_defaults(run=getattr(module, "run", None))
        module.add_arguments(command_parser)
    return parser


def outline_parser() -> OneLineParser:
    """Return a parser of all commands without their options.

    It suffices for the general help and for errors about unknown commands.
    """
    parser, subparsers = _outer_parser()
    for name in COMMANDS:
        subparsers.add_parser(name)
    return parser


def _parser_of(chosen: str | None) -> OneLineParser:
    if chosen in COMMANDS:
        return build_parser(chosen)
    return outline_parser()


def _outer_parser() -> tuple[OneLineParser, argparse._SubParsersAction[OneLineParser]]:
    parser = OneLineParser(prog="testbed", description="A testbed for parallel communications.")
    parser.add_argument(
        "-V", "--version", action=_Version, nargs=0, help="show the version and exit"
    )
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "fish", "tcsh"),
        help=(
            "print the completion code for this shell and exit (installation: "
            "docs/reference/commands.md)"
        ),
    )
    parser.hints = COMMANDS_OF_COMMANDS
    subparsers = parser.add_subparsers(
        dest="command",
        metavar="COMMAND",
        required=True,
        parser_class=OneLineParser,
        action=_Commands,
    )
    return parser, subparsers


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The command line without the program's name. None: that of the process.

    Returns:
        The exit code. 0: passed. 1: failed. 2: invalid input. 3: a required capability is missing.
        4: invalid run. 5: the run cannot tell. 70: unexpected error.
    """
    command_line = list(argv or ())
    if argv is None:
        command_line = sys.argv[1:]
        install_interrupt_handler()
        install_thread_handler()
        make_printable()
    code = exit_code_with_threads(reported(partial(_run, command_line)))
    if "--live" in command_line:
        end_live(code)
    if argv is None and code in (INTERRUPTED, UNFORESEEN):
        exit_interrupted(code)
    if argv is None:
        # The process ends. Without this, the last garbage collection takes a third of a second.
        gc.freeze()
    return code


def _run(command_line: list[str]) -> int:
    """Parse the command line and run the command, with a sign of life on a terminal.

    Args:
        command_line: The arguments. ``help COMMAND`` means ``COMMAND --help``, and no argument
            means ``--help``.

    Returns:
        The exit code, also if argparse ends the program after the help or an error.
    """
    if "_ARGCOMPLETE" in os.environ:
        from testbed.commands.completion import complete

        complete(_parser_of)
    if not command_line:
        command_line = ["--help"]
    elif command_line[0] == "help":
        command_line = [*command_line[1:2], "--help"]
    if _is_version_request(command_line):
        command_line = ["--version"]
    chosen = next((word for word in command_line if not word.startswith("-")), None)
    with heartbeat(chosen), notes_on_stderr():
        try:
            args = _parser_of(chosen).parse_args(command_line)
            refuse_options_without_effect(args)
            if command_line == sys.argv[1:] and hasattr(args, "enter"):
                args.enter(args)
            announce_compilation()
            result = args.run(args)
            if isinstance(result, Answer):
                return result.given(args)
            return int(result)
        except SystemExit as end:
            if end.code is None:
                return 0
            return end.code if isinstance(end.code, int) else 1


def _is_version_request(command_line: Sequence[str]) -> bool:
    """Return whether a command line is a command or subcommand with ``--version``."""
    # The rest of these command lines is a program with its own options.
    takes_a_program = command_line[:1] in (["run"], ["exec"], ["python"])
    return not takes_a_program and len(command_line) in (2, 3) and command_line[-1] == "--version"


# The class is generic only in the stub of argparse.
class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Commands with their summaries."""

    def add_parser(self, name: str, **options: Any) -> Any:
        """Return a new parser for a command."""
        command = COMMANDS[name]
        parser = super().add_parser(name, **{"help": command.summary, **options})
        if command.folder:
            parser.example = f"testbed {name} {command.example}".strip()
        return parser


class _Completion(argparse.Action):
    """Prints the code with which a shell asks the command for completions, and exits."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: object, values: object, *__: object
    ) -> None:
        import argcomplete

        print(argcomplete.shellcode(["testbed"], shell=str(values)))
        parser.exit(0)


class _Version(argparse.Action):
    """Prints the version and exits. The version is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print("testbed " + version("parallel-communications-testbed"))
        except PackageNotFoundError:
            print("testbed (not installed)")
        parser.exit(0)


if __name__ == "__main__":
    sys.exit(main())
