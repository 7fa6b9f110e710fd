"""The ``testbed`` command: parses arguments, runs one of ``testbed.commands``, turns errors into one line and an exit
code."""

from __future__ import annotations

from testbed.commands import early  # noqa: F401 - before everything that takes time or descriptors

# isort: split
import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from testbed.api.compile_notice import announce_compilation
from testbed.api.workloads import LISTED, load
from testbed.commands.answer import Answer, end_live
from testbed.commands.arguments import refuse_meaningless
from testbed.commands.command_list import COMMANDS, COMMANDS_OF_COMMANDS
from testbed.commands.heartbeat import heartbeat
from testbed.commands.interrupts import exit_interrupted, install_interrupt_handler
from testbed.commands.notes import notes_on_stderr
from testbed.commands.parsing import INTERRUPTED, OneLineParser, reported
from testbed.commands.unforeseen import UNFORESEEN, exit_code_with_threads, install_thread_handler
from testbed.report.streams import make_printable


def build_parser(chosen: str | None) -> OneLineParser:
    """The parser of the chosen command, whose module alone is imported; None: of all of them."""
    parser, subparsers = _outer_parser()
    for name in COMMANDS if chosen is None else (chosen,):
        if name in LISTED:
            from testbed.commands.workload_command import add_parser

            add_parser(subparsers, name, load(name))
            continue
        module = importlib.import_module(f"testbed.commands.{COMMANDS[name].folder}.{name}")
        made = subparsers.add_parser(name, description=getattr(module, "DESCRIPTION", None))
        made.set_defaults(
            run=getattr(module, "run", None)
        )  # of a command that has commands: theirs
        module.add_arguments(made)
    return parser


def outline_parser() -> OneLineParser:
    """Every command with one line and no options: what --help and a wrong command's name need."""
    parser, subparsers = _outer_parser()
    for name in COMMANDS:
        subparsers.add_parser(name)
    return parser


def _parser_of(chosen: str | None) -> OneLineParser:
    return build_parser(chosen) if chosen in COMMANDS else outline_parser()


def _outer_parser() -> tuple[OneLineParser, argparse._SubParsersAction[OneLineParser]]:
    parser = OneLineParser(prog="testbed", description="A testbed for parallel communications.")
    parser.add_argument(
        "-V", "--version", action=_Version, nargs=0, help="show program's version number and exit"
    )
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "fish", "tcsh"),
        help="print what completes testbed's words in that shell; docs/reference/commands.md says where to put it",
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
    """Run one command; returns its exit code: 0 passed, 1 failed, 2 bad input, 3 a required capability is missing,
    4 run invalid, 5 cannot tell, 70 an error that nobody foresaw."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        install_interrupt_handler()
        install_thread_handler()
        make_printable()
    code = exit_code_with_threads(reported(lambda: _run(words)))
    if "--live" in words:
        end_live(code)
    if argv is None and code in (INTERRUPTED, UNFORESEEN):
        exit_interrupted(code)
    if argv is None:
        gc.freeze()  # the process ends: no garbage is looked for, which takes a third of a second among many modules
    return code


def _run(words: list[str]) -> int:
    """Parse and run, with a sign of life on a terminal. ``help COMMAND`` is ``COMMAND --help``, no word ``--help``;
    argparse ends the program after that and after bad input, which is an exit code here."""
    if "_ARGCOMPLETE" in os.environ:
        from testbed.commands.completion import complete

        complete(_parser_of)
    words = [*words[1:2], "--help"] if words[:1] == ["help"] else words or ["--help"]
    words = ["--version"] if _is_version_request(words) else words
    chosen = next((w for w in words if not w.startswith("-")), None)
    with heartbeat(chosen), notes_on_stderr():
        try:
            args = _parser_of(chosen).parse_args(words)
            refuse_meaningless(args)
            if words == sys.argv[1:] and hasattr(args, "enter"):
                args.enter(args)
            announce_compilation()
            found = args.run(args)
            return found.given(args) if isinstance(found, Answer) else int(found)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0 if end.code is None else 1


def _is_version_request(words: Sequence[str]) -> bool:
    """Return whether the words are a command, or a command of a command, and ``--version``."""
    takes_a_program = words[:1] in (["run"], ["exec"], ["python"])
    return not takes_a_program and len(words) in (2, 3) and words[-1] == "--version"


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]  # generic in its stub alone
    """Commands, each with its summary."""

    def add_parser(self, name: str, **said: Any) -> Any:
        command = COMMANDS[name]
        parser = super().add_parser(name, **{"help": command.summary, **said})
        if command.folder:
            parser.example = f"testbed {name} {command.example}".strip()
        return parser


class _Completion(argparse.Action):
    """Prints what makes a shell ask the command for completions, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: object, values: object, *__: object
    ) -> None:
        import argcomplete

        print(argcomplete.shellcode(["testbed"], shell=str(values)))
        parser.exit(0)


class _Version(argparse.Action):
    """Prints the version and ends; it is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print("testbed " + version("parallel-communications-testbed"))
        except PackageNotFoundError:
            print("testbed (not installed)")
        parser.exit(0)


if __name__ == "__main__":
    sys.exit(main())
