"""What all commands that run something share: their options, what is kept of a run on disk, and what is shown of its
verdict."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from testbed.commands.answer import Answer, place_lines
from testbed.commands.arguments import JsonOptions, LiveOptions, ResultsOptions, add_options
from testbed.model.options import kinds

if TYPE_CHECKING:
    from testbed.live.events import RunView
    from testbed.model.run_records import Manifest
    from testbed.model.verdict import Verdict
    from testbed.stream.run_in_turn import Titled
    from topologies.text.json_types import JsonObject


def add_run_options(parser: argparse.ArgumentParser, *, seeded: str = "everything random") -> None:
    """--fabric, --seed (of what it says), --results, --json, --live."""
    add = parser.add_argument
    add(
        "--fabric", choices=("emulation", "simulator"), help="default: emulation where this machine can, else simulator"
    )
    add("--seed", type=kinds.seed, default=1, help=f"seed of {seeded} (default 1)")
    add_options(parser, ResultsOptions, JsonOptions, LiveOptions)


def run_streams(
    args: argparse.Namespace, fabric: str, streams: Titled, name: str, manifest: Manifest, **said: str
) -> Answer:
    """Streams one after another, judged and kept together; ``said``: what their JSON begins with."""
    from testbed.stream.judgement.streams import closing_words
    from testbed.stream.run_in_turn import run_in_turn

    judged, directory = run_in_turn(streams, fabric, args.results, name, manifest)
    verdict, sessions = judged.verdict, [part.document for part in judged.parts]
    document: JsonObject = {**said, "fabric": fabric, "sessions": sessions, "streams": sessions}
    document |= {"verdict": verdict.to_json(), "results": str(directory)}
    show = chain(closing_words(judged), [verdict_line(verdict)], place_lines(directory))
    return Answer(document, lambda: show, verdict.exit_code)


def check_lines(verdict: Verdict) -> Iterator[str]:
    """Every check on a line of its own, then the verdict."""
    from testbed.report.wording import OUTCOMES, check_words

    for check in verdict.checks:
        words = check_words(check)
        yield f"{OUTCOMES[check.outcome]}: {check.name}" + (f"; {words}" if words else "")
    yield from (f"note: {note}" for note in verdict.notes)
    yield verdict_line(verdict)


def verdict_line(verdict: Verdict) -> str:
    """Passed, failed, cannot tell, or invalid with the reason; and how many checks hold."""
    from testbed.report.wording import state_of

    state = state_of(verdict).replace("-", " ") + ("" if verdict.invalid is None else f": {verdict.invalid}")
    return f"verdict: {state} ({sum(c.passed for c in verdict.checks)} of {len(verdict.checks)} checks)"


OUTCOMES = {
    0: "passed",
    1: "failed",
    2: "refused",
    3: "a required capability is missing",
    4: "invalid, the machine could not keep up",
    5: "cannot tell",
    70: "ended by an error that nobody foresaw",
}


def start_live(args: argparse.Namespace, view: Callable[[], RunView] | None = None) -> None:
    """Serve the page, which shows this view until the run begins, and print its address, where requested. To be called
    before the sandbox is entered, when bad input has been refused.

    Raises CapabilityError where the extra ``live`` is not installed.
    """
    if not args.live:
        return
    from testbed.live.adapters.feed import VARIABLE, start_server

    if VARIABLE not in os.environ:
        print(f"live: {start_server(None if view is None else view())}", file=sys.stderr, flush=True)


def end_live(code: int) -> None:
    """The command is over with this exit code."""
    from testbed.live.adapters.feed import end_feed

    end_feed(OUTCOMES.get(code, "interrupted" if code == 130 else f"exit code {code}"))
