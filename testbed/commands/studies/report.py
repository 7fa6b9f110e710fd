"""``testbed report``: draws the page (and figures) of a run or a study anew from its stored records, runs nothing."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.model.run_records import LoadedRun

DESCRIPTION = (
    "Draw page.html of a stored run anew from its manifest, measurements and verdict, without running anything. "
    "The exit code is the stored verdict's: 0 passed, 1 failed, 4 invalid or not finished."
)


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser("report", help="draw a stored run's page anew", description=DESCRIPTION)
    parser.add_argument("directory", metavar="DIR", type=Path, help="a run: results/<name>/<run>")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Redraw; returns the verdict's exit code (4 where the run did not finish). InputError (2) where there is no run."""
    from testbed.errors import InvalidRunError
    from testbed.results.result_store import redraw
    from testbed.results.study_store import is_study

    if is_study(args.directory):
        return _redraw_study(args)
    found, page = redraw(args.directory)
    if args.json:
        print(json.dumps(_document(found, page)))
    else:
        _print_table(found, page)
    return found.verdict.exit_code if found.verdict else InvalidRunError.exit_code


def _redraw_study(args: argparse.Namespace) -> int:
    from testbed.commands.runs import show_checks
    from testbed.commands.studies.experiment import find_experiments
    from testbed.commands.studies.study import Study, drawn
    from testbed.errors import InputError, InvalidRunError
    from testbed.report.drawing.svg_figures import rendered
    from testbed.results.study_store import load_study, write_drawings

    place, manifest, rows, verdict = load_study(args.directory)
    study = find_experiments().get(manifest.name)
    if manifest.name.startswith("campaign-"):
        from testbed.campaigns.figures import campaign_figures

        figures = rendered(manifest.name, lambda: campaign_figures(rows)) if verdict else {}
    elif manifest.name == "bulk":
        from testbed.bulk.figures import bulk_figures

        figures = rendered(manifest.name, lambda: bulk_figures(rows)) if rows else {}
    elif manifest.name == "simulate":
        from testbed.interconnect.figures import simulation_figures

        figures = rendered(manifest.name, lambda: simulation_figures(rows)) if rows else {}
    elif manifest.name == "stream-routing":
        from testbed.metapath.figures import metapath_figures

        figures = rendered(manifest.name, lambda: metapath_figures(rows)) if rows else {}
    elif isinstance(study, Study):
        figures = drawn(study, rows) if rows else {}
    else:
        raise InputError(f"{place}: no study named {manifest.name!r} is installed that could draw it")
    try:
        write_drawings(place, manifest, rows, verdict, figures)
    except OSError as error:
        raise InputError(f"{place}: {error.strerror}; make it writable") from None
    if args.json:
        document = {"page": str(place / "page.html"), "manifest": manifest.to_json(), "points": rows}
        print(json.dumps(document | {"verdict": verdict.to_json() if verdict else None}))
    else:
        if verdict is not None:
            show_checks(verdict)
        print(f"page: {place / 'page.html'}")
    return verdict.exit_code if verdict else InvalidRunError.exit_code


def _print_table(found: LoadedRun, page: Path) -> None:
    from rich.console import Console

    from testbed.report.tables import closing_table

    console = Console(highlight=False, markup=False)
    console.print(closing_table(found))
    console.print(f"page: {page}", soft_wrap=True)


def _document(found: LoadedRun, page: Path) -> dict[str, Any]:
    from testbed.model.json_values import json_ready
    from testbed.model.record_json import record_to_json

    sessions = []
    for part in found.sessions:
        summary = record_to_json(part.summary) if part.summary else {}
        sessions.append(
            {
                "title": part.session.title,
                "fabric": part.session.fabric,
                "per_fault": [record_to_json(fault) for fault in part.faults],
                "ror": summary.get("ror"),
                "verdict": summary.get("verdict"),
            }
        )
    return {
        "page": str(page),
        "manifest": found.manifest.to_json(),
        "unfinished": found.unfinished,
        "sessions": sessions,
        "verdict": json_ready(found.verdict.to_json()) if found.verdict else None,
    }
