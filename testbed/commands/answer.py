"""What a command that only computes has found: one JSON object, CSV, or what people are shown of it; its picture and
its page."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.errors import InputError

if TYPE_CHECKING:
    from testbed.model.run_records import Manifest
    from testbed.model.stored_runs import RunState
    from testbed.report.answers import Part


@dataclass(frozen=True)
class Answer:
    """``document``: what ``--json`` prints, with its keys of 0.2 (``former``: key -> present one); ``show`` gives the
    lines and tables that people are shown, or prints them itself; ``exit_code``: the command's. ``title`` heads its
    page, on which ``figures`` (name -> figure) are drawn."""

    document: Mapping[str, Any]
    show: Callable[[], "Iterable[Part] | object"]
    exit_code: int = 0
    former: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    figures: Callable[[], Mapping[str, Any]] | None = None

    def given(self, args: argparse.Namespace) -> int:
        """Print it as the command line asks for it, drawn and kept where it asks so; the exit code."""
        from testbed.model.json_values import with_aliases  # what says --help does without

        document, parts = with_aliases(self.document, self.former), None
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
            print(json.dumps(document))
        elif parts is not None:
            show_parts(parts, as_csv=getattr(args, "csv", False))
        return self.exit_code

    def _plot(self, path: Path) -> None:
        from testbed.report.drawing.svg_figures import write_figure

        if self.figures is None:
            raise InputError(f"--plot {path}: there is nothing to be drawn here; leave it out")
        write_figure(path, self.title, self.figures)

    def _keep(self, args: argparse.Namespace, parts: "list[Part]", document: Mapping[str, Any]) -> Path:
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


def command_line() -> str:
    """The command as it was given, for a run's manifest."""
    return "testbed " + " ".join(sys.argv[1:])


def run_manifest(args: argparse.Namespace) -> "Manifest":
    """Of a run that starts now."""
    from testbed.emulation.machine.provenance import describe_run

    return describe_run(command=command_line(), seed=getattr(args, "seed", 1))


def place_lines(directory: Path | None) -> list[str]:
    """Where a run and its page lie, if it is kept."""
    return [] if directory is None else [f"results: {directory}", f"page:    {directory / 'page.html'}"]


def show_parts(parts: Iterable[Any], *, as_csv: bool = False) -> None:
    """Print lines, facts, tables and what ``rich`` prints; ``as_csv``: the tables of the first name alone, as CSV."""
    from testbed.model.naming.printable import printable

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
