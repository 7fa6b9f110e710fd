"""``testbed report``: draws the page and the figures of a stored run again, and runs nothing."""

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
from topologies.text.json_types import Json, JsonObject

Row = JsonObject

DESCRIPTION = (
    "Draw page.html of a stored run again from its manifest, measurements and verdict, and run "
    "nothing. The exit code is that of the stored verdict: 0 passed, 1 failed, 4 invalid or not "
    "finished, 5 cannot tell."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add = parser.add_argument
    add(
        "directory",
        metavar="DIR",
        type=Path,
        help="folder of a run: results/<name>/<run>",
    )
    add(
        "--figures",
        action="store_true",
        help="also write every figure for a paper: DIR/figures/NAME.svg and .pdf with text as "
        "text, and captions.md",
    )
    add(
        "--study",
        metavar="FILE.py",
        type=Path,
        help="file of the study of this run, if the study is not installed",
    )
    add(
        "--json",
        action="store_true",
        help="print one JSON object instead of the table",
    )


def run(args: argparse.Namespace) -> Answer:
    """Draw the page again.

    The exit code is that of the stored verdict, or 4 if the run did not finish.

    Raises:
        InputError: The folder is not a run.
    """
    if is_study(args.directory):
        return _redraw_study(args)
    loaded, page = redraw(args.directory)
    if args.figures:
        _write_figures(page.parent, run_figures(loaded), loaded.manifest.name)
    document = _document(loaded, page)
    return Answer(document, partial(_show, loaded, page), _exit_code(loaded.verdict))


def _exit_code(verdict: Verdict | None) -> int:
    return InvalidRunError.exit_code if verdict is None else verdict.exit_code


def run_figures(loaded: LoadedRun) -> Mapping[str, FigureFiles]:
    """Return the figures of every stream of a run, by name."""
    return figures_with_text(loaded.manifest.name, partial(_draw_streams, loaded))


def _draw_streams(loaded: LoadedRun) -> JsonObject:
    figures: JsonObject = {}
    for number, part in enumerate(loaded.sessions, start=1):
        prefix = f"stream-{number}-" if len(loaded.sessions) > 1 else ""
        for name, figure in stream_figures(part).items():
            figure.set_label(f"{figure.get_label()} {stream_sentence(part)}")
            figures[prefix + name] = figure
    return figures


def _redraw_study(args: argparse.Namespace) -> Answer:
    folder, manifest, rows, verdict = load_study(args.directory)
    manifest = _completed(manifest)
    if args.study is None:
        draw = _drawer(folder, manifest.name, rows, verdict)
    else:
        draw = _drawer_of_file(args.study, manifest.name, rows)
    # Only figures of our studies may contain formulas.
    formulas = manifest.name in find_experiments()
    figures: dict[str, str] = {}
    try:
        if draw is not None:
            figures = rendered(manifest.name, draw, formulas=formulas)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{folder}: holds points that {manifest.name} cannot draw ({reason}); "
            "restore its files, or run it again"
        ) from None
    write_drawings(folder, manifest, rows, verdict, figures)
    if args.figures and draw is not None:
        paper_figures = figures_with_text(manifest.name, draw, formulas=formulas)
        _write_figures(folder, paper_figures, study_title(manifest))
    page = str(folder / "page.html")
    document: JsonObject = {
        "page": page,
        "manifest": manifest.to_json(),
        "points": rows,
        "verdict": None,
    }
    lines: list[str] = []
    if verdict is not None:
        document["verdict"] = verdict.to_json()
        lines += check_lines(verdict)
    lines.append(f"page: {page}")
    return Answer(document, lambda: lines, _exit_code(verdict))


def _completed(manifest: Manifest) -> Manifest:
    """Add what a manifest of an older version lacks: the title of a command, the code of a ROR."""
    from testbed.api.workloads.registry import stored_under

    workload = stored_under(manifest.name)
    if workload is not None:
        return replace(manifest, study={"title": workload.title, **manifest.study})
    ror_code = getattr(find_experiments().get(manifest.name), "ror_code", "")
    if ror_code and manifest.study:
        return replace(manifest, study={"ror_code": ror_code, **manifest.study})
    return manifest


def _drawer(folder: Path, name: str, rows: Sequence[Row], verdict: Verdict | None) -> Draw | None:
    """Return the function that draws the figures of a stored run.

    Args:
        folder: The folder of the run, for the message.
        name: The name of the workload, campaign or study.
        rows: The stored rows.
        verdict: The stored verdict.

    Returns:
        The function, or None if there is nothing to draw.

    Raises:
        InputError: The study is not installed.
    """
    from testbed.api.workloads.registry import stored_under

    workload = stored_under(name)
    if workload is not None and workload.figures is not None:
        return partial(workload.figures, rows) if rows else None
    if name.startswith("campaign-"):
        return partial(campaign_figures, rows) if verdict else None
    study = find_experiments().get(name)
    if not isinstance(study, Study):
        raise InputError(
            f"{folder}: no study named {name!r} is installed; give its file (--study FILE.py)"
        )
    return partial(study.figures, rows) if rows else None


def _drawer_of_file(file: Path, name: str, rows: Sequence[Row]) -> Draw | None:
    """Return the function that draws figures of the study in a file, or None without rows."""
    study = study_of_file(file)
    if not isinstance(study, Study) or study.name != name:
        raise InputError(f"--study {file}: this is a run of {name}, and the file's is {study.name}")
    return partial(study.figures, rows) if rows else None


def _write_figures(folder: Path, figures: Mapping[str, FigureFiles], title: str) -> None:
    """Write the figures and their captions into ``figures`` in the folder of a run.

    Raises:
        InputError: A file cannot be written.
    """
    lines = [f"# {title}", ""]
    for name, figure in figures.items():
        write_below(folder, f"figures/{name}.svg", figure.svg)
        if figure.pdf:
            write_below(folder, f"figures/{name}.pdf", figure.pdf)
        lines.append(f"- `{name}`: {figure.caption}")
    captions = "".join(f"{printable(line)}\n" for line in lines)
    write_below(folder, "figures/captions.md", captions.encode())
    print(f"figures: {folder / 'figures'}", file=sys.stderr)


def _show(loaded: LoadedRun, page: Path) -> Iterator[object]:
    from testbed.report.tables import closing_table

    yield closing_table(loaded)
    yield f"page: {page}"


def _document(loaded: LoadedRun, page: Path) -> JsonObject:
    streams: list[JsonObject] = []
    for part in loaded.sessions:
        summary: Json = {}
        if part.summary:
            summary = record_to_json(part.summary)
        stream = {
            "title": part.session.title,
            "fabric": part.session.fabric,
            "per_fault": [record_to_json(fault) for fault in part.faults],
            "ror": summary.get("ror"),
            "verdict": summary.get("verdict"),
        }
        streams.append(stream)
    document: JsonObject = {
        "page": str(page),
        "manifest": loaded.manifest.to_json(),
        "unfinished": loaded.unfinished,
        "streams": streams,
        "verdict": None,
    }
    if loaded.verdict:
        document["verdict"] = json_ready(loaded.verdict.to_json())
    return document
