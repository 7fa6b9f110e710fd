"""``testbed report``: draws the page (and figures) of a run or a study again from its stored records, runs nothing."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from testbed.campaigns.summary import campaign_figures
from testbed.commands.answer import Answer, check_lines
from testbed.commands.studies.experiment import find_experiments, study_of_file
from testbed.errors import InputError, InvalidRunError
from testbed.model.json_values import json_ready
from testbed.model.naming.printable import printable
from testbed.model.run_records import LoadedRun, Manifest, record_to_json
from testbed.model.studies.study import Study
from testbed.model.verdict import Verdict
from testbed.report.drawing.stream_figures import stream_figures
from testbed.report.drawing.svg_figures import Draw, FigureFiles, figures_with_text, rendered
from testbed.report.study_page import study_title
from testbed.report.wording import stream_sentence
from testbed.results.result_store import redraw
from testbed.results.run_folder import write_below
from testbed.results.study_store import is_study, load_study, write_drawings
from topologies.text.json_types import JsonObject

Row = JsonObject

DESCRIPTION = (
    "Draw page.html of a stored run anew from its manifest, measurements and verdict, without running anything. "
    "The exit code is the stored verdict's: 0 passed, 1 failed, 4 invalid or not finished, 5 cannot tell."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="a run: results/<name>/<run>")
    parser.add_argument(
        "--figures",
        action="store_true",
        help="also write every figure for a paper, DIR/figures/NAME.svg and .pdf with vector text, and captions.md",
    )
    parser.add_argument(
        "--study",
        metavar="FILE.py",
        type=Path,
        help="the file of a study of your own that is not installed, whose run this is",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of the table"
    )


def run(args: argparse.Namespace) -> Answer:
    """Redraw; with the verdict's exit code (4 where the run did not finish). InputError (2) where there is no
    run."""
    if is_study(args.directory):
        return _redraw_study(args)
    found, page = redraw(args.directory)
    if args.figures:
        _keep(page.parent, run_figures(found), found.manifest.name)
    code = found.verdict.exit_code if found.verdict else InvalidRunError.exit_code
    return Answer(_document(found, page), partial(_show, found, page), code)


def run_figures(found: LoadedRun) -> Mapping[str, FigureFiles]:
    """Name -> figure, for every stream of the run."""

    def draw() -> JsonObject:
        drawn = {}
        for number, part in enumerate(found.sessions, start=1):
            before = f"stream-{number}-" if len(found.sessions) > 1 else ""
            for name, figure in stream_figures(part).items():
                figure.set_label(f"{figure.get_label()} {stream_sentence(part)}")
                drawn[before + name] = figure
        return drawn

    return figures_with_text(found.manifest.name, draw)


def _redraw_study(args: argparse.Namespace) -> Answer:
    place, manifest, rows, verdict = load_study(args.directory)
    manifest = _described(manifest)
    if args.study is None:
        draw = _drawer(place, manifest.name, rows, verdict)
    else:
        draw = _drawer_of_file(args.study, manifest.name, rows)
    formulas = manifest.name in find_experiments()  # their authors may write some
    try:
        figures = {} if draw is None else rendered(manifest.name, draw, formulas=formulas)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        words = f"points that {manifest.name} cannot draw ({type(error).__name__}: {error})"
        raise InputError(f"{place}: holds {words}; restore its files, or run it again") from None
    write_drawings(place, manifest, rows, verdict, figures)
    if args.figures and draw is not None:
        _keep(
            place, figures_with_text(manifest.name, draw, formulas=formulas), study_title(manifest)
        )
    page = str(place / "page.html")
    document = {"page": page, "manifest": manifest.to_json(), "points": rows}

    lines = [*(() if verdict is None else check_lines(verdict)), f"page: {page}"]
    code = verdict.exit_code if verdict else InvalidRunError.exit_code
    return Answer(
        document | {"verdict": verdict.to_json() if verdict else None}, lambda: lines, code
    )


def _described(manifest: Manifest) -> Manifest:
    """A run that was stored before studies said which code their ROR belongs to gets it from the study that is
    installed, and the run of a command its title."""
    from testbed.api.workloads.registry import stored_under

    if (workload := stored_under(manifest.name)) is not None:
        return replace(manifest, study={"title": workload.title, **manifest.study})
    code = getattr(find_experiments().get(manifest.name), "ror_code", "")
    return (
        replace(manifest, study={"ror_code": code, **manifest.study})
        if code and manifest.study
        else manifest
    )


def _drawer(place: Path, name: str, rows: Sequence[Row], verdict: Verdict | None) -> Draw | None:
    """What draws the figures of a stored run of that name; None where nothing is there to be drawn. InputError for an
    unknown one."""
    from testbed.api.workloads.registry import stored_under

    if (workload := stored_under(name)) is not None and (figures := workload.figures) is not None:
        return (lambda: figures(rows)) if rows else None
    if name.startswith("campaign-"):
        return (lambda: campaign_figures(rows)) if verdict else None
    study = find_experiments().get(name)
    if not isinstance(study, Study):
        raise InputError(
            f"{place}: no study named {name!r} is installed; give its file (--study FILE.py)"
        )
    return (lambda: study.figures(rows)) if rows else None


def _drawer_of_file(file: Path, name: str, rows: Sequence[Row]) -> Draw | None:
    """Return what draws the figures of a run of the study in a file, or None if it has no rows."""
    study = study_of_file(file)
    if not isinstance(study, Study) or study.name != name:
        raise InputError(f"--study {file}: this is a run of {name}, and the file's is {study.name}")
    return (lambda: study.figures(rows)) if rows else None


def _keep(place: Path, figures: Mapping[str, FigureFiles], title: str) -> None:
    """Write the figures next to the page, and their captions. InputError where they cannot be written."""
    for name, figure in figures.items():
        write_below(place, f"figures/{name}.svg", figure.svg)
        if figure.pdf:
            write_below(place, f"figures/{name}.pdf", figure.pdf)
    lines = [
        f"# {title}",
        "",
        *(f"- `{name}`: {figure.caption}" for name, figure in figures.items()),
    ]
    lines = [printable(line) for line in lines]
    write_below(place, "figures/captions.md", ("\n".join(lines) + "\n").encode())
    print(f"figures: {place / 'figures'}", file=sys.stderr)


def _show(found: LoadedRun, page: Path) -> Iterator[object]:
    from testbed.report.tables import closing_table

    yield closing_table(found)
    yield f"page: {page}"


def _document(found: LoadedRun, page: Path) -> JsonObject:
    streams = []
    for part in found.sessions:
        summary = record_to_json(part.summary) if part.summary else {}
        streams.append(
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
        "streams": streams,
        "verdict": json_ready(found.verdict.to_json()) if found.verdict else None,
    }
