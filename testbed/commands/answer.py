"""The answer of a command, and how it is printed, drawn and stored.

The module also contains what all commands that run something share.
"""

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
    """The answer of a command.

    Attributes:
        document: The object that ``--json`` prints.
        show: Returns the lines and tables for a terminal, or prints them and returns None.
        exit_code: The exit code of the command.
        title: The heading of its page; "" for an answer that is not stored.
        figures: Returns the figures of the page by name, or None.
    """

    document: Json
    show: Callable[[], Iterable[Part] | object]
    exit_code: int = 0
    title: str = ""
    figures: Callable[[], Mapping[str, Figure]] | None = None

    def given(self, args: argparse.Namespace) -> int:
        """Print the answer, draw it and store it as the options say, and return the exit code."""
        # Imported here so that --help starts fast.
        from testbed.model.json_values import json_pieces

        document = dict(self.document)
        parts = None
        stores = bool(self.title) and getattr(args, "results", None) is not None
        if stores or not args.json:
            shown = self.show()
            parts = list(shown) if isinstance(shown, Iterable) else []
        path = getattr(args, "plot", None)
        if path is not None:
            self._plot(path)
            if parts is not None:
                parts.append(f"drawn in {path}")
        if parts is not None and stores:
            folder = self._store(args, parts, document)
            document["results"] = str(folder)
            parts += folder_lines(folder)
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

    def _store(self, args: argparse.Namespace, parts: list[Part], document: Json) -> Path:
        """Store the document, the tables as CSV, the figures and the page in a new folder."""
        from testbed.report.answers import build_answer_page, csv_files
        from testbed.report.drawing.svg_figures import rendered
        from testbed.results.result_store import ANSWER, keep_files

        figures: Mapping[str, str] = {}
        if self.figures is not None:
            figures = rendered(self.title, self.figures)
        state: RunState = "failed" if self.exit_code else "passed"
        data = {ANSWER: json.dumps(document, indent=1) + "\n", **csv_files(parts)}

        def files(manifest: Manifest) -> dict[str, str]:
            page = build_answer_page(manifest, self.title, state, parts, figures)
            return {**data, "page.html": page}

        return keep_files(args.results, args.command, run_manifest(args), files)


def run_manifest(args: argparse.Namespace) -> Manifest:
    """Return the manifest of a run that starts now."""
    from testbed.emulation.machine.provenance import describe_run

    command = shlex.join(["testbed", *sys.argv[1:]])
    return describe_run(command=command, seed=getattr(args, "seed", 1))


def folder_lines(directory: Path | None) -> list[str]:
    """Return the lines that name the folder of a run and its page; none if it is not stored."""
    if directory is None:
        return []
    return [f"results: {directory}", f"page:    {directory / 'page.html'}"]


def show_parts(parts: Iterable[object], *, as_csv: bool = False) -> None:
    """Print the parts of an answer.

    Args:
        parts: Lines, dictionaries of facts, tables, and values that ``rich`` prints.
        as_csv: Whether only the first table is printed, as CSV.
    """
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
    """Add the options of commands that run streams: fabric, seed, results, json and live."""
    add = parser.add_argument
    add(
        "--fabric",
        choices=("emulation", "simulator"),
        help="fabric to run on (default: emulation if this machine supports it, otherwise the "
        "simulator)",
    )
    add(
        "--seed",
        type=kinds.seed,
        default=1,
        help="seed of labels, faults and packet contents (default: 1)",
    )
    add_options(parser, ResultsOptions, JsonOptions, LiveOptions)


def run_streams(
    args: argparse.Namespace,
    fabric: str,
    streams: Titled,
    name: str,
    manifest: Manifest,
    **head: str,
) -> Answer:
    """Run streams one after the other, and judge and store them together.

    Args:
        args: The options of the command, of which ``results`` is used.
        fabric: "emulation" or "simulator".
        streams: The plans and their titles.
        name: The name under which the run is stored.
        manifest: The manifest of the run.
        head: The first fields of the answer's document.
    """
    from testbed.stream.judgement.closing_lines import closing_words
    from testbed.stream.run_in_turn import run_in_turn

    judged, directory = run_in_turn(streams, fabric, args.results, name, manifest)
    verdict = judged.verdict
    documents = [part.document for part in judged.parts]
    document: JsonObject = {**head, "fabric": fabric, "streams": documents}
    document |= {"verdict": verdict.to_json(), "results": str(directory)}
    show = chain(closing_words(judged), [verdict_line(verdict)], folder_lines(directory))
    return Answer(document, lambda: show, verdict.exit_code)


def check_lines(verdict: Verdict) -> Iterator[str]:
    """Yield one line per check, then the notes and the verdict."""
    from testbed.report.wording import OUTCOMES, check_words

    for check in verdict.checks:
        line = f"{OUTCOMES[check.outcome]}: {check.name}"
        figures = check_words(check)
        yield f"{line}: {figures}" if figures else line
    for note in verdict.notes:
        yield f"note: {note}"
    yield verdict_line(verdict)


def verdict_line(verdict: Verdict) -> str:
    """Return the line with the verdict, the reason if it is invalid, and the number of checks."""
    from testbed.report.wording import state_of

    state = state_of(verdict).replace("-", " ")
    if verdict.invalid is not None:
        state += f": {verdict.invalid}"
    holding = len([check for check in verdict.checks if check.passed])
    return f"verdict: {state} ({holding} of {len(verdict.checks)} checks)"


# The outcome of a command for each exit code, as the live page shows it.
OUTCOMES = {
    0: "passed",
    1: "failed",
    2: "refused",
    3: "a required capability is missing",
    4: "invalid, the machine could not keep up",
    5: "cannot tell",
    70: "ended by an error that nobody foresaw",
    # Ctrl-C, as in a shell.
    130: "interrupted",
}


def start_live(args: argparse.Namespace, view: Callable[[], RunView] | None = None) -> None:
    """Serve the live page if ``--live`` requests it, and print its address.

    Call this after bad input was refused and before the sandbox is entered, because the page is
    served from outside.

    Args:
        args: The options of the command.
        view: Returns the view that the page shows until the run begins.

    Raises:
        CapabilityError: The extra ``live`` is not installed.
    """
    if not args.live:
        return
    from testbed.live.adapters.feed import VARIABLE, start_server

    # The variable is set if the command has started itself again and the page is served already.
    if VARIABLE not in os.environ:
        first_view = None
        if view is not None:
            first_view = view()
        address = start_server(first_view)
        print(f"live: {address}", file=sys.stderr, flush=True)


def end_live(code: int) -> None:
    """Show on the live page that the command has ended with this exit code."""
    from testbed.live.adapters.feed import end_feed

    end_feed(OUTCOMES.get(code, f"exit code {code}"))
