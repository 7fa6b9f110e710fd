"""What a command has found: one JSON object, CSV, or what people are shown of it, its picture and its page; and what
all commands that run something share."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.commands.arguments import JsonOptions, LiveOptions, ResultsOptions, add_options
from testbed.errors import InputError
from testbed.model.naming.printable import printable
from testbed.model.options import kinds

if TYPE_CHECKING:
    from testbed.live.events import RunView
    from testbed.model.run_records import Manifest
    from testbed.model.stored_runs import RunState
    from testbed.model.verdict import Verdict
    from testbed.report.answers import Part
    from testbed.report.drawing.charts import Figure
    from testbed.stream.run_in_turn import Titled
    from topologies.text.json_types import Json, JsonObject


@dataclass(frozen=True)
class Answer:
    """``document``: what ``--json`` prints; ``show`` gives the lines and tables that people are shown, or prints them
    itself; ``exit_code``: the command's. ``title`` heads its page, on which ``figures`` (name -> figure) are drawn."""

    document: Json
    show: Callable[[], Iterable[Part] | object]
    exit_code: int = 0
    title: str = ""
    figures: Callable[[], Mapping[str, Figure]] | None = None

    def given(self, args: argparse.Namespace) -> int:
        """Print it as the command line asks for it, drawn and kept where it asks so; the exit code."""
        from testbed.model.json_values import json_pieces  # what says --help does without

        document, parts = dict(self.document), None
        stores = bool(self.title) and getattr(args, "results", None) is not None
        if stores or not args.json:
            found = self.show()
            parts = list(found) if isinstance(found, Iterable) else []
        if (path := getattr(args, "plot", None)) is not None:
            self._plot(path)
            parts = None if parts is None else [*parts, f"drawn in {path}"]
        if parts is not None and stores:
            place = self._keep(args, parts, document)
            document["results"] = str(place)
            parts += place_lines(place)
        if args.json:
            sys.stdout.writelines(json_pieces(document))
            print()
        elif parts is not None:
            show_parts(parts, as_csv=getattr(args, "csv", False))
        return self.exit_code

    def _plot(self, path: Path) -> None:
        from testbed.report.drawing.svg_figures import write_figure

        if self.figures is None:
            raise InputError(f"--plot {path}: there is nothing to be drawn here; leave it out")
        write_figure(path, self.title, self.figures)

    def _keep(self, args: argparse.Namespace, parts: list[Part], document: Json) -> Path:
        """In a folder of its own below ``--results``: the JSON object, each table as CSV, figures and the page."""
        from testbed.report.answers import build_answer_page, csv_files
        from testbed.report.drawing.svg_figures import rendered
        from testbed.results.result_store import ANSWER, keep_files

        drawn = {} if self.figures is None else rendered(self.title, self.figures)
        state: RunState = "failed" if self.exit_code else "passed"
        data = {ANSWER: json.dumps(document, indent=1) + "\n", **csv_files(parts)}
        return keep_files(
            args.results, args.command, run_manifest(args),
            lambda manifest: data | {"page.html": build_answer_page(manifest, self.title, state, parts, drawn)},
        )  # fmt: skip


def run_manifest(args: argparse.Namespace) -> Manifest:
    """Of a run that starts now."""
    from testbed.emulation.machine.provenance import describe_run

    return describe_run(
        command=shlex.join(["testbed", *sys.argv[1:]]), seed=getattr(args, "seed", 1)
    )


def place_lines(directory: Path | None) -> list[str]:
    """Where a run and its page lie, if it is kept."""
    return (
        []
        if directory is None
        else [f"results: {directory}", f"page:    {directory / 'page.html'}"]
    )


def show_parts(parts: Iterable[object], *, as_csv: bool = False) -> None:
    """Print lines, facts, tables and what ``rich`` prints; ``as_csv``: the tables of the first name alone, as CSV."""
    if as_csv:
        from testbed.report.answers import csv_files

        print(next(iter(csv_files(parts).values()), ""), end="")
        return
    for part in parts:
        if isinstance(part, str):
            print(printable(part))
        elif isinstance(part, Mapping):
            for name, value in part.items():
                print(printable(f"{name:<18} {value}"))
        elif not getattr(part, "wide", False):
            from testbed.report.terminal import Terminal

            Terminal().show(part)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """--fabric, --seed, --results, --json, --live: of streams."""
    add = parser.add_argument
    add(
        "--fabric",
        choices=("emulation", "simulator"),
        help="default: emulation where this machine can, else simulator",
    )
    add("--seed", type=kinds.seed, default=1, help="seed of labels, faults and content (default 1)")
    add_options(parser, ResultsOptions, JsonOptions, LiveOptions)


def run_streams(
    args: argparse.Namespace,
    fabric: str,
    streams: Titled,
    name: str,
    manifest: Manifest,
    **said: str,
) -> Answer:
    """Streams one after another, judged and kept together; ``said``: what their JSON begins with."""
    from testbed.stream.judgement.closing_lines import closing_words
    from testbed.stream.run_in_turn import run_in_turn

    judged, directory = run_in_turn(streams, fabric, args.results, name, manifest)
    verdict = judged.verdict
    documents = [part.document for part in judged.parts]
    document: JsonObject = {**said, "fabric": fabric, "streams": documents}
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

    state = state_of(verdict).replace("-", " ") + (
        "" if verdict.invalid is None else f": {verdict.invalid}"
    )
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
        print(
            f"live: {start_server(None if view is None else view())}", file=sys.stderr, flush=True
        )


def end_live(code: int) -> None:
    """The command is over with this exit code."""
    from testbed.live.adapters.feed import end_feed

    end_feed(OUTCOMES.get(code, "interrupted" if code == 130 else f"exit code {code}"))
