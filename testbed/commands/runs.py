"""What all commands that run something share: their options, what is kept of a run on disk, and what is shown of its
verdict."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.commands.answer import Answer
from testbed.commands.arguments import JsonOptions, LiveOptions, ResultsOptions, add_options
from testbed.model.naming.printable import printable
from testbed.model.options import kinds

if TYPE_CHECKING:
    from testbed.model.run_records import Manifest
    from testbed.model.verdict import Verdict
    from testbed.stream.run_in_turn import Titled

Row = Mapping[str, Any]


def add_run_options(parser: argparse.ArgumentParser, *, seeded: str = "everything random") -> None:
    """--fabric, --seed (of what it says), --results, --json, --live."""
    add = parser.add_argument
    add(
        "--fabric", choices=("emulation", "simulator"), help="default: emulation where this machine can, else simulator"
    )
    add("--seed", type=kinds.seed, default=1, help=f"seed of {seeded} (default 1)")
    add_options(parser, ResultsOptions, JsonOptions, LiveOptions)


def command_line() -> str:
    """The command as it was given, for a run's manifest."""
    return "testbed " + " ".join(sys.argv[1:])


def run_manifest(args: argparse.Namespace) -> Manifest:
    """Of a run that starts now."""
    from testbed.emulation.machine.provenance import describe_run

    return describe_run(command=command_line(), seed=getattr(args, "seed", 1))


def show_verdict(verdict: Verdict, directory: Path | None) -> None:
    """Every check on a line of its own, then the verdict, and where the run lies, if it is kept."""
    show_checks(verdict)
    show_place(directory)


def show_closing(closing: Iterable[object], verdict: Verdict, directory: Path | None) -> None:
    """Lines and what ``rich`` prints, for a reader at a terminal or in a log; then the verdict, and where the run
    lies."""
    from testbed.report.terminal import Terminal

    console = Terminal()
    for one in closing:
        if isinstance(one, str):
            print(printable(one))
        else:
            console.print(one)
    print(verdict_line(verdict))
    show_place(directory)
    sys.stdout.flush()


def run_streams(
    args: argparse.Namespace, fabric: str, streams: Titled, name: str, manifest: Manifest, **said: str
) -> Answer:
    """Streams one after another, judged and kept together; ``said``: what their JSON begins with."""
    from testbed.stream.judgement.streams import closing_words
    from testbed.stream.run_in_turn import run_in_turn

    judged, directory = run_in_turn(streams, fabric, args.results, name, manifest)
    verdict, sessions = judged.verdict, [part.document for part in judged.parts]
    document: dict[str, Any] = {**said, "fabric": fabric, "sessions": sessions, "streams": sessions}
    document |= {"verdict": verdict.to_json(), "results": str(directory)}
    return Answer(document, lambda: show_closing(closing_words(judged), verdict, directory), verdict.exit_code)


def show_checks(verdict: Verdict) -> None:
    """Every check on a line of its own, then the verdict."""
    from testbed.report.wording import OUTCOMES, check_words

    for check in verdict.checks:
        words = check_words(check)
        print(printable(f"{OUTCOMES[check.outcome]}: {check.name}" + (f"; {words}" if words else "")))
    for note in verdict.notes:
        print(printable(f"note: {note}"))
    print(verdict_line(verdict))


def verdict_line(verdict: Verdict) -> str:
    """The state, and how many checks hold."""
    return f"verdict: {state_words(verdict)} ({sum(c.passed for c in verdict.checks)} of {len(verdict.checks)} checks)"


def state_words(verdict: Verdict) -> str:
    """passed, failed, cannot tell, or invalid with the reason."""
    from testbed.report.wording import state_of

    return state_of(verdict).replace("-", " ") + (
        printable(f": {verdict.invalid}") if verdict.invalid is not None else ""
    )


def show_place(directory: Path | None) -> None:
    """Where a run and its page lie."""
    if directory is None:
        return
    print(f"results: {directory}")
    print(f"page:    {directory / 'page.html'}")


OUTCOMES = {
    0: "passed",
    1: "failed",
    2: "refused",
    3: "a required capability is missing",
    4: "invalid, the machine could not keep up",
    5: "cannot tell",
    70: "ended by an error that nobody foresaw",
}


def start_live(args: argparse.Namespace) -> None:
    """Serve the page, and print its address, where requested. To be called before the sandbox is entered, when bad
    input has been refused.

    Raises CapabilityError where the extra ``live`` is not installed.
    """
    if not args.live:
        return
    from testbed.live.adapters.feed import VARIABLE, start_server

    if VARIABLE not in os.environ:
        print(f"live: {start_server()}", file=sys.stderr, flush=True)


def end_live(code: int) -> None:
    """The command is over with this exit code."""
    from testbed.live.adapters.feed import end_feed

    end_feed(OUTCOMES.get(code, "interrupted" if code == 130 else f"exit code {code}"))
