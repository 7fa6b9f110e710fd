"""``testbed campaign FILE|NAME``: computes ROR for many networks, methods and tolerances.

Dask workers share the work. A campaign that was stopped can be resumed.
"""

import argparse
import hashlib
import json
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from testbed.campaigns.description import Campaign, parse_campaign, units
from testbed.campaigns.loader import CampaignOptions, build_campaign, shipped_campaigns
from testbed.campaigns.summary import campaign_figures, judge_claims, summarise
from testbed.commands.answer import Answer, check_lines, start_live
from testbed.commands.arguments import (
    LiveOptions,
    ResultsOptions,
    TableOptions,
    add_options,
    adder,
    read_options,
)
from testbed.commands.several_machines import DaskOptions, TlsOptions, security_of
from testbed.emulation.machine.provenance import describe_run
from testbed.errors import InputError
from testbed.live.adapters.feed import points_shown, record_page_path
from testbed.live.events import InterimResults
from testbed.model.json_values import json_ready
from testbed.model.options.option import RUNNING
from testbed.model.verdict import Verdict
from testbed.report.answers import Part, table_of_rows
from testbed.report.column_units import NOTHING, cell
from testbed.report.drawing.svg_figures import rendered
from testbed.results.result_store import UNFINISHED
from testbed.results.run_folder import refuse_link
from testbed.results.study_store import StudyRun
from topologies.text.json_types import Json, JsonObject

DESCRIPTION = (
    "Compute the ROR for every network, seed, frame, pair of end points, method and tolerance "
    "of a campaign's file. The work is shared by processes on this machine, or by the workers "
    "of a Dask scheduler. All rows go into one Parquet file. A campaign that was stopped can be "
    "continued with --resume, and gives the same file."
)
# Columns of the summary that are put into the title if all rows agree.
_CONSTANT_COLUMNS = ("labels", "M", "DER", "equation")
# Heading of the means over the common rows (see ``testbed.campaigns.summary``).
_COMMON_ROWS = "of the common rows"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add_options(
        parser, CampaignOptions, DaskOptions, TlsOptions, ResultsOptions, TableOptions, LiveOptions
    )
    add = adder(parser)
    add(
        "--list",
        action="store_true",
        help="list the campaigns that come with the testbed",
    )
    add(
        "--resume",
        nargs="?",
        const="",
        metavar="DIR",
        help="continue an unfinished run (default: the last one of this campaign)",
        only=RUNNING,
    )


def run(args: argparse.Namespace) -> Answer:
    """Run a campaign, or list the campaigns."""
    if args.list:
        return _list()
    if args.campaign is None:
        raise InputError(
            "campaign: give a file or a name; testbed campaign --list names those that come with "
            "the testbed"
        )
    campaign = build_campaign(read_options(args, CampaignOptions))
    security = security_of(args)
    from testbed.campaigns.adapters.runner import RESULTS, run_campaign, write_rows

    start_live(args)
    with (
        _open_run(args, campaign) as store,
        points_shown(campaign.name, partial(_interim_results, campaign, store)) as show_points,
    ):
        rows = run_campaign(
            campaign,
            store,
            workers=args.workers,
            scheduler=args.scheduler,
            security=security,
            report_progress=show_points,
        )
        summary = summarise(rows)
        verdict = judge_claims(campaign, rows)
        write_rows(rows, store.draft / RESULTS)
        figures = rendered(store.manifest.name, partial(campaign_figures, summary))
        directory = store.finish(summary, verdict, figures)
        record_page_path(directory / "page.html")
    document: JsonObject = {
        "campaign": campaign.name,
        "rows": len(rows),
        "summary": summary,
        "file": str(directory / RESULTS),
        "verdict": verdict.to_json(),
        "results": str(directory),
    }
    return Answer(document, partial(_show, document, verdict), verdict.exit_code)


def _interim_results(campaign: Campaign, store: StudyRun) -> InterimResults:
    """Judge and draw the rows that are stored so far, for the live page."""
    rows: list[Json] = []
    for unit in store.rows:
        rows += unit.get("rows", ())
    outcomes = tuple((check.outcome, check.name) for check in judge_claims(campaign, rows).checks)
    figures = rendered(store.manifest.name, partial(campaign_figures, summarise(rows)))
    return InterimResults(outcomes=outcomes, figures=figures)


def _list() -> Answer:
    """List the campaigns that come with the testbed.

    The first line of the file of a campaign, a comment, says what the campaign does.
    """
    documents: JsonObject = {}
    lines: list[str] = []
    for name, text in shipped_campaigns().items():
        campaign = parse_campaign(tomllib.loads(text), name)
        does = text.splitlines()[0].lstrip("# ")
        unit_count = len(units(campaign))
        row_count = unit_count * campaign.rows_per_unit
        documents[name] = {"does": does, "units": unit_count, "rows": row_count}
        lines += [name, f"    {does}", f"    {unit_count} units, {row_count} rows"]
    return Answer({"campaigns": documents}, partial(print, *lines, sep="\n"))


def _open_run(args: argparse.Namespace, campaign: Campaign) -> StudyRun:
    """Open a new run, or the unfinished one that ``--resume`` names.

    The name of a run contains a digest of the campaign, so that only runs of the same campaign are
    resumed.
    """
    description = json_ready(campaign)
    content = json.dumps(description, sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()[:12]
    name = f"campaign-{campaign.name}-{digest}"
    if args.resume is None:
        command = f"testbed campaign {shlex.quote(args.campaign)} --workers {args.workers}"
        manifest = describe_run(command=command, plans=(description,))
        return StudyRun.new(args.results, name, manifest)
    if args.resume:
        return StudyRun.resume(Path(args.resume), name, 1)
    unfinished = sorted((args.results / name).glob(f"*{UNFINISHED}"))
    if not unfinished:
        raise InputError(
            f"--resume: no unfinished run of this campaign in {args.results / name}; "
            "leave --resume out"
        )
    last = unfinished[-1]
    # These folders were found, not named by the user, so a link in their place is suspicious.
    for folder in (last.parent, last):
        refuse_link(folder)
    return StudyRun.resume(last, name, 1)


def _show(document: JsonObject, verdict: Verdict) -> Iterator[Part]:
    summary = document["summary"]
    rows = [_table_row(row) for row in summary]
    if all(row["common_rows"] == row["rows"] for row in summary):
        for row in rows:
            del row[_COMMON_ROWS]
    has_common_rows = _COMMON_ROWS in rows[0]
    constants: list[str] = []
    for column in _CONSTANT_COLUMNS:
        if len({str(row[column]) for row in rows}) == 1:
            constants.append(f"{column} {rows[0][column]}")
            for row in rows:
                del row[column]
    title = f"{document['campaign']}: mean ROR"
    if constants:
        title += f" ({', '.join(constants)})"
    table = table_of_rows(rows, title=title, spare=("infinite",))
    yield replace(table, data=table_of_rows(summary))
    if has_common_rows:
        yield (
            "compare methods by the common rows: flows for which every method has a finite ROR "
            "(methods that never have one are left out)"
        )
    if any(not row["large_blocks"] for row in summary):
        yield (
            "random labels: equal to testbed ror --label-order random; the default there and in "
            "testbed stream, stratified labels, needs less"
        )
    yield from check_lines(verdict)
    yield f"rows:    {document['file']}"
    yield f"page:    {document['results']}/page.html"


def _table_row(row: Json) -> JsonObject:
    """Return the cells of a row of the summary, by heading."""
    finite_rows = row["rows"] - row["without_path"] - row["infinite"]
    common_mean = row["mean_ror_of_common_rows"]
    return {
        "method": row["method"],
        "tolerance": row["tolerance"],
        "labels": "any" if row["large_blocks"] else "random",
        "M": row["m"],
        "DER": row["der"],
        "equation": 29 if row["large_blocks"] else 23,
        "infinite": f"{row['infinite']} of {row['rows']}",
        "mean ROR": _mean_text(row["mean_ror"], finite_rows, row["rows"]),
        _COMMON_ROWS: _mean_text(common_mean, row["common_rows"], row["rows"]),
    }


def _mean_text(mean: float | None, count: int, rows: int) -> str:
    """Return a mean, with the number of rows that it includes if these are not all."""
    if mean is None:
        return NOTHING
    return cell(mean) if count == rows else f"{cell(mean)} ({count} of {rows})"
