"""One command for every workload: its arguments are the options that the workload declares, its run and its results the
same for all."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from testbed.api.runs import keeping
from testbed.commands.answer import (
    Answer,
    check_lines,
    place_lines,
    run_manifest,
    show_parts,
    start_live,
    verdict_line,
)
from testbed.commands.arguments import (
    LiveOptions,
    ResultsOptions,
    TableOptions,
    add_answer_options,
    add_options,
    read_options,
    require_switches,
)
from testbed.commands.parsing import Subparsers
from testbed.commands.several_machines import (
    MachineOptions,
    enter_at_once,
    enter_unless_elsewhere,
    machines_request,
    said_when_lost,
)
from testbed.emulation.machine.fabric import choose_fabric
from testbed.errors import InputError
from testbed.live.adapters.feed import live_progress
from testbed.model.options import kinds
from testbed.model.options.option import RUNNING, Option, options, options_of, running
from testbed.model.verdict import repeated
from testbed.model.workload import Carry, How, Judgement, Work
from testbed.report.answers import table_of_rows
from testbed.report.drawing.stream_figures import route_figure
from testbed.report.streams import complain


@options
class FabricOptions:
    """Where a run goes on, and how often."""

    retries: int = running(
        default=1,
        kind=kinds.whole(0, 20),
        help="repeat a run that this machine could not carry, at most N times",
        only=(RUNNING,),
    )
    fabric: str | None = running(
        default=None,
        choices=("emulation", "simulator"),
        help="default: emulation where this machine can, else simulator",
    )


@options
class SwitchesOptions(FabricOptions):
    """Of a workload that the simulated fabric cannot carry."""

    fabric: str | None = running(
        default=None, choices=("emulation",), help="it runs on real switches only"
    )


@options
class FabricOrNoneOptions(FabricOptions):
    """Where a plan that is an answer by itself is carried out, if anywhere."""

    fabric: str = running(
        default="none",
        choices=("none", "emulation", "simulator"),
        help="where to carry the plan out (default {default}: it is shown, and nothing is kept)",
    )


def add_parser(subparsers: Subparsers, name: str, workload: Work) -> None:
    """Adds the command of a workload to the parser."""
    parser = subparsers.add_parser(name, description=workload.description)
    parser.example = workload.command
    add_options(parser, *_declared(workload))
    if workload.answer is not None:
        add_answer_options(parser)
    parser.set_defaults(run=partial(run, name, workload))
    if (
        workload.on_switches and workload.instead is None
    ):  # what it does instead of a run belongs outside a sandbox
        parser.set_defaults(enter=enter_at_once)


def _declared(workload: Work) -> list[type]:
    fabrics = FabricOptions if workload.answer is None else FabricOrNoneOptions
    if workload.emulate is not None and workload.simulate is None and not workload.others:
        fabrics = SwitchesOptions
    every = (
        workload.options,
        workload.run_options,
        fabrics if workload.on_switches else None,
        *((ResultsOptions, TableOptions) if workload.answer is None else ()),
        LiveOptions,
        MachineOptions if workload.spreads else None,
    )
    return [kind for kind in every if kind is not None]


def run(name: str, workload: Work, args: argparse.Namespace) -> int:
    """Plan, choose the fabric, run, judge, keep; the verdict's exit code. Bad input is refused before anything is
    built."""
    assert workload.options is not None and workload.build is not None
    requested: object = read_options(args, workload.options)
    plan = workload.build(requested)
    plans = [plan, *(workload.variants(requested, plan) if workload.variants is not None else ())]
    own = None if workload.run_options is None else read_options(args, workload.run_options)
    said = None if workload.instead is None else workload.instead(plan, own)
    if said is not None:
        print(said)
        return 0
    if workload.answer is not None and args.fabric == "none":
        return _answer(workload, plan).given(args)
    args.results = args.results or Path("results")
    fabric = _fabric(args, workload, plan)
    runs = next(one for one in (workload, *workload.others) if isinstance(plan, one.plan))
    machines = machines_request(args, fabric) if workload.spreads else None
    if machines is not None and not runs.spreads:
        raise InputError("--machines: this run goes on one machine only; leave it out")
    start_live(args, None if runs.view is None else runs.view(plan)[1])
    if fabric == "emulation":
        enter_unless_elsewhere(machines)
    notes = [""] * len(plans)
    if workload.fitted is not None:
        plans, notes = map(
            list, zip(*(workload.fitted(requested, one, fabric) for one in plans), strict=True)
        )
    for line in () if runs.foreseen is None else runs.foreseen(plans[0]):
        complain(f"this run cannot tell: {line}")
    how = How(fabric=fabric, options=own, machines=machines, results=args.results)
    alone = nullcontext(lambda plan, report_progress: runs.measured(plan, how, report_progress))
    with (
        said_when_lost(as_json=args.json and machines is not None),
        keeping(
            runs, runs.stored_as or name, args.results, lambda: run_manifest(args), plans[0]
        ) as keep,
        runs.opened(how) if runs.opened else alone as carry,
    ):
        judged = [_judged(runs, one, carry, getattr(args, "retries", 0)) for one in plans]
        judged = [_noted(one, note) for one, note in zip(judged, notes, strict=True)]
        found = judged[0] if runs.together is None else runs.together(judged)
        directory = keep(found)
    return _report(args, runs, found, directory)


def _fabric(args: argparse.Namespace, workload: Work, plan: object) -> str:
    """Where the plan is carried out; options that only switches can carry out are refused elsewhere."""
    networks = [plan.network] if hasattr(plan, "network") else []
    fabric = choose_fabric(getattr(args, "fabric", "simulator"), *networks, quiet=args.json)
    every = [one for kind in _declared(workload) for one in options_of(kind)]
    require_switches(
        args,
        fabric,
        [one.name for one in every if _on_switches(one, getattr(args, one.name, None))],
    )
    return fabric


def _on_switches(one: Option, value: object) -> bool:
    return one.switches_only(value) if callable(one.switches_only) else one.switches_only


def _noted(judged: Judgement, note: str) -> Judgement:
    """With one more note in the verdict, the first."""
    if not note:
        return judged
    verdict = replace(judged.verdict, notes=(note, *judged.verdict.notes))
    said = {"verdict": dict(verdict.to_json())}
    stored = tuple(row | said if "verdict" in row else row for row in map(dict, judged.stored))
    return replace(judged, verdict=verdict, document={**judged.document, **said}, stored=stored)


def _judged(workload: Work, plan: object, carry: Carry[Any, Any], repeats: int) -> Judgement:
    """Carried out and judged, again while the machine could not keep up."""

    def once() -> Judgement:
        with (
            nullcontext()
            if workload.view is None
            else live_progress(*workload.view(plan)) as report_progress
        ):
            return workload.judge(plan, carry(plan, report_progress))

    return repeated(once, lambda judged: judged.verdict.invalid, repeats, complain)


def _report(
    args: argparse.Namespace, workload: Work, found: Judgement, directory: Path | None
) -> int:
    """Print the document, or what a terminal is shown of the run."""
    document = {**found.document, **({} if directory is None else {"results": str(directory)})}
    if args.json:
        print(json.dumps(document))
    elif args.csv:
        show_parts([table_of_rows(found.rows or found.stored)], as_csv=True)
    elif workload.closing is not None:
        show_parts([*workload.closing(found), verdict_line(found.verdict), *place_lines(directory)])
    else:
        shown = () if workload.shown is None else workload.shown(document)
        show_parts([*shown, *check_lines(found.verdict), *place_lines(directory)])
    return found.verdict.exit_code


def _answer(workload: Work, plan: object) -> Answer:
    """What a plan says by itself; its page is drawn from its live view."""
    assert workload.answer is not None and workload.view is not None
    document, view = workload.answer(plan), workload.view(plan)[1]()
    show = partial(workload.shown or (lambda _: ()), document)
    figures = partial(lambda: {"network": route_figure(view.session())})
    return Answer(document, show, title=view.title, figures=figures)
