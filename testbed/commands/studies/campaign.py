"""``testbed campaign FILE|NAME``: a theory study over many networks, methods and tolerances on Dask workers,
resumable."""

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
    "Compute ROR for every network, seed, frame, pair of end points, method and tolerance of the campaign's file, on a "
    "local cluster of worker processes or on a Dask scheduler. All rows go into one Parquet file; a campaign that was "
    "killed goes on with --resume and gives the same file."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add = adder(parser)
    add_options(
        parser, CampaignOptions, DaskOptions, TlsOptions, ResultsOptions, TableOptions, LiveOptions
    )
    add("--list", action="store_true", help="the campaigns that come with the testbed")
    last = "go on with an unfinished run (default: the last one of this campaign)"
    add("--resume", nargs="?", const="", metavar="DIR", help=last, only=RUNNING)


def run(args: argparse.Namespace) -> Answer:
    """Run or list; with the verdict's exit code."""
    if args.list:
        return _list()
    if args.campaign is None:
        raise InputError(
            "campaign: give a file or a name; testbed campaign --list names those that come with the testbed"
        )

    campaign, security = build_campaign(read_options(args, CampaignOptions)), security_of(args)
    from testbed.campaigns.adapters.runner import RESULTS, run_campaign, write_rows

    start_live(args)
    with (
        _open(args, campaign) as store,
        points_shown(campaign.name, lambda: _found(campaign, store)) as show_points,
    ):
        rows = run_campaign(
            campaign,
            store,
            workers=args.workers,
            scheduler=args.scheduler,
            security=security,
            report_progress=show_points,
        )
        summary, verdict = summarise(rows), judge_claims(campaign, rows)
        write_rows(rows, store.draft / RESULTS)
        figures = rendered(store.manifest.name, lambda: campaign_figures(summary))
        directory = store.finish(summary, verdict, figures)
        record_page_path(directory / "page.html")
    document = {
        "campaign": campaign.name,
        "rows": len(rows),
        "summary": summary,
        "file": str(directory / RESULTS),
        "verdict": verdict.to_json(),
        "results": str(directory),
    }
    return Answer(document, partial(_show, document, verdict), verdict.exit_code)


def _found(campaign: Campaign, store: StudyRun) -> InterimResults:
    """What the units that are stored say, for the live page."""
    rows = [row for entry in store.rows for row in entry.get("rows", ())]
    outcomes = tuple((check.outcome, check.name) for check in judge_claims(campaign, rows).checks)
    summary = summarise(rows)
    return InterimResults(
        outcomes=outcomes, figures=rendered(store.manifest.name, lambda: campaign_figures(summary))
    )


def _list() -> Answer:
    listed = {}
    for name, text in shipped_campaigns().items():
        campaign = parse_campaign(tomllib.loads(text), name)
        does = text.splitlines()[0].lstrip("# ")
        listed[name] = {
            "does": does,
            "units": len(units(campaign)),
            "rows": len(units(campaign)) * campaign.rows_per_unit,
        }
    texts = [
        f"{n}\n    {one['does']}\n    {one['units']} units, {one['rows']} rows"
        for n, one in listed.items()
    ]
    return Answer({"campaigns": listed}, lambda: print(*texts, sep="\n"))


def _open(args: argparse.Namespace, campaign: Campaign) -> StudyRun:
    described = json_ready(campaign)
    stamp = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]
    name = f"campaign-{campaign.name}-{stamp}"
    if args.resume is None:
        words = f"testbed campaign {shlex.quote(args.campaign)} --workers {args.workers}"
        return StudyRun.new(args.results, name, describe_run(command=words, plans=(described,)))
    if args.resume:
        return StudyRun.resume(Path(args.resume), name, 1)
    unfinished = sorted((args.results / name).glob(f"*{UNFINISHED}"))
    if not unfinished:
        raise InputError(
            f"--resume: no unfinished run of this very campaign in {args.results / name}; leave --resume out"
        )
    for folder in (unfinished[-1].parent, unfinished[-1]):
        refuse_link(folder)
    return StudyRun.resume(unfinished[-1], name, 1)


def _show(document: JsonObject, verdict: Verdict) -> Iterator[Part]:
    rows = [
        {
            "method": row["method"],
            "tolerance": row["tolerance"],
            "labels": "any" if row["large_blocks"] else "random",
            "M": row["m"],
            "DER": row["der"],
            "equation": 29 if row["large_blocks"] else 23,
            "infinite": f"{row['infinite']} of {row['rows']}",
            "mean ROR": _mean_of(row["mean_ror"], _finite_rows(row), row["rows"]),
            "of the common rows": _mean_of(
                row["mean_ror_of_common_rows"], row["common_rows"], row["rows"]
            ),
        }
        for row in document["summary"]
    ]
    constant = {
        n: rows[0][n]
        for n in ("labels", "M", "DER", "equation")
        if len({str(row[n]) for row in rows}) == 1
    }
    shown = [{name: value for name, value in row.items() if name not in constant} for row in rows]
    title = ", ".join(f"{name} {value}" for name, value in constant.items())
    title = f"{document['campaign']}: mean ROR" + (f" ({title})" if title else "")
    if all(row["common_rows"] == row["rows"] for row in document["summary"]):
        for line in shown:
            del line["of the common rows"]
    table = table_of_rows(shown, title=title, spare=("infinite",))
    yield replace(table, data=table_of_rows(document["summary"]))
    if "of the common rows" in shown[0]:
        yield (
            "compare methods by the common rows: flows for which every method has a finite ROR "
            "(methods that never have one are left out)"
        )
    if any(not row["large_blocks"] for row in document["summary"]):
        yield (
            "random labels: equal to testbed ror --label-order random; the default there and in "
            "testbed stream, stratified labels, needs less"
        )
    yield from check_lines(verdict)
    yield f"rows:    {document['file']}"
    yield f"page:    {document['results']}/page.html"


def _finite_rows(row: Json) -> int:
    count: int = row["rows"] - row["without_path"] - row["infinite"]
    return count


def _mean_of(mean: float | None, count: int, rows: int) -> str:
    """Return a mean with the number of rows it is of, if these are not all."""
    if mean is None:
        return NOTHING
    return cell(mean) if count == rows else f"{cell(mean)} ({count} of {rows})"
