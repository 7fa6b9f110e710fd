"""The command of a workload, made from the workload's declaration.

The arguments are the options that the workload declares. The order of a run and the form of its
results are the same for all workloads.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.api.runs import keeping
from testbed.commands.answer import (
    Answer,
    check_lines,
    folder_lines,
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
    report_invalid_run,
)
from testbed.emulation.machine.fabric import choose_fabric
from testbed.errors import InputError
from testbed.live.adapters.feed import live_progress
from testbed.model.options import kinds
from testbed.model.options.option import RUNNING, Option, options, options_of, running
from testbed.model.progress import ReportProgress
from testbed.model.verdict import repeated
from testbed.model.workload import Carry, How, Judgement, Row, Work
from testbed.report.answers import table_of_rows
from testbed.report.drawing.stream_figures import route_figure
from testbed.report.streams import complain

if TYPE_CHECKING:
    from testbed.live.events import RunView
    from testbed.report.drawing.charts import Figure


@options
class FabricOptions:
    """The options for the fabric of a run and its repetition."""

    retries: int = running(
        default=1,
        kind=kinds.whole(0, 20),
        help="repeat a run at most N times if this machine was too busy for it",
        only=(RUNNING,),
    )
    fabric: str | None = running(
        default=None,
        choices=("emulation", "simulator"),
        help="fabric to run on (default: emulation if this machine supports it, otherwise the "
        "simulator)",
    )


@options
class SwitchesOptions(FabricOptions):
    """The options for a workload that runs on switches only."""

    fabric: str | None = running(
        default=None,
        choices=("emulation",),
        help="fabric to run on; only emulation (real switches) is supported",
    )


@options
class FabricOrNoneOptions(FabricOptions):
    """The options for a workload whose command prints the plan, and runs it only on request."""

    fabric: str = running(
        default="none",
        choices=("none", "emulation", "simulator"),
        help="fabric to run the plan on (default: {default}; the plan is shown, not stored)",
    )


def add_parser(subparsers: Subparsers, name: str, workload: Work) -> None:
    """Add the command of a workload to the parser.

    Args:
        subparsers: The commands of the parser.
        name: The name of the command.
        workload: The workload.
    """
    parser = subparsers.add_parser(name, description=workload.description)
    parser.example = workload.command
    add_options(parser, *_declared(workload))
    if workload.answer is not None:
        add_answer_options(parser)
    parser.set_defaults(run=partial(run, name, workload))
    # What a workload does instead of a run belongs outside a sandbox.
    if workload.on_switches and workload.instead is None:
        parser.set_defaults(enter=enter_at_once)


def _declared(workload: Work) -> list[type]:
    """Return the options classes of the command, in the order of its help page."""
    kinds: list[type | None] = [workload.options, workload.run_options]
    if workload.on_switches:
        if workload.emulate is not None and workload.simulate is None and not workload.others:
            kinds.append(SwitchesOptions)
        elif workload.answer is None:
            kinds.append(FabricOptions)
        else:
            kinds.append(FabricOrNoneOptions)
    if workload.answer is None:
        kinds += [ResultsOptions, TableOptions]
    kinds.append(LiveOptions)
    if workload.spreads:
        kinds.append(MachineOptions)
    return [kind for kind in kinds if kind is not None]


def _live_view(workload: Work, plan: object) -> Callable[[], RunView] | None:
    """Return the function that makes the first view of the live page, or None."""
    if workload.view is None:
        return None
    _, make_view = workload.view(plan)
    return make_view


def run(name: str, workload: Work, args: argparse.Namespace) -> int:
    """Run the command of a workload: plan, run, judge, store and print.

    Bad input is refused before anything is built.

    Args:
        name: The name of the command.
        workload: The workload.
        args: The options on the command line.

    Returns:
        The exit code of the verdict.
    """
    assert workload.options is not None and workload.build is not None
    requested: object = read_options(args, workload.options)
    plan = workload.build(requested)
    plans = [plan]
    if workload.variants is not None:
        plans += workload.variants(requested, plan)
    run_options: object = None
    if workload.run_options is not None:
        run_options = read_options(args, workload.run_options)
    if workload.instead is not None:
        message = workload.instead(plan, run_options)
        if message is not None:
            print(message)
            return 0
    if workload.answer is not None and args.fabric == "none":
        return _answer(workload, plan).given(args)
    args.results = args.results or Path("results")
    fabric = _checked_fabric(args, workload, plan)
    # The options may have chosen a plan of another workload.
    runner = next(each for each in (workload, *workload.others) if isinstance(plan, each.plan))
    machines = machines_request(args, fabric) if workload.spreads else None
    if machines is not None and not runner.spreads:
        raise InputError("--machines: this run goes on one machine only; leave it out")
    start_live(args, _live_view(runner, plan))
    if fabric == "emulation":
        enter_unless_elsewhere(machines)
    notes = [""] * len(plans)
    if workload.fitted is not None:
        fitted = [workload.fitted(requested, each, fabric) for each in plans]
        plans = [fitted_plan for fitted_plan, _ in fitted]
        notes = [note for _, note in fitted]
    if runner.foreseen is not None:
        for line in runner.foreseen(plans[0]):
            complain(f"this run cannot tell: {line}")
    how = How(fabric=fabric, options=run_options, machines=machines, results=args.results)
    judgement, directory = _carry_out(name, runner, plans, notes, how, args)
    return _report(args, runner, judgement, directory)


def _carry_out(
    name: str,
    workload: Work,
    plans: Sequence[object],
    notes: Sequence[str],
    how: How,
    args: argparse.Namespace,
) -> tuple[Judgement, Path | None]:
    """Carry out the plans, judge them together and store the run.

    Args:
        name: The name of the command.
        workload: The workload of the plans.
        plans: The plan and its variants.
        notes: A note for the verdict of each plan, or "".
        how: The fabric and the machines of the run.
        args: The options on the command line.

    Returns:
        The judgement, and the folder of the run or None if it is not stored.
    """

    def carry_alone(plan: object, report_progress: ReportProgress | None) -> object:
        return workload.measured(plan, how, report_progress)

    def opened() -> AbstractContextManager[Carry[Any, Any]]:
        if workload.opened is not None:
            return workload.opened(how)
        return nullcontext(carry_alone)

    retries = getattr(args, "retries", 0)
    folder_name = workload.stored_as or name
    with (
        report_invalid_run(as_json=args.json and how.machines is not None),
        keeping(workload, folder_name, args.results, lambda: run_manifest(args), plans[0]) as keep,
        opened() as carry,
    ):
        judgements = [_judged(workload, plan, carry, retries) for plan in plans]
        judgements = [
            _with_note(judgement, note) for judgement, note in zip(judgements, notes, strict=True)
        ]
        judgement = judgements[0]
        if workload.together is not None:
            judgement = workload.together(judgements)
        directory = keep(judgement)
    return judgement, directory


def _checked_fabric(args: argparse.Namespace, workload: Work, plan: object) -> str:
    """Choose the fabric; refuse options that need switches if it is the simulator."""
    networks = [plan.network] if hasattr(plan, "network") else []
    fabric = choose_fabric(getattr(args, "fabric", "simulator"), *networks, quiet=args.json)
    names: list[str] = []
    for kind in _declared(workload):
        for option in options_of(kind):
            if _needs_switches(option, getattr(args, option.name, None)):
                names.append(option.name)
    require_switches(args, fabric, names)
    return fabric


def _needs_switches(option: Option, value: object) -> bool:
    """Return whether the option needs switches, which may depend on its value."""
    if callable(option.switches_only):
        return option.switches_only(value)
    return option.switches_only


def _with_note(judgement: Judgement, note: str) -> Judgement:
    """Return the judgement with this note before the others of its verdict, unless it is ""."""
    if not note:
        return judgement
    verdict = replace(judgement.verdict, notes=(note, *judgement.verdict.notes))
    document = {**judgement.document, "verdict": dict(verdict.to_json())}
    stored: list[Row] = []
    for row in judgement.stored:
        if "verdict" in row:
            stored.append({**row, "verdict": dict(verdict.to_json())})
        else:
            stored.append(dict(row))
    return replace(judgement, verdict=verdict, document=document, stored=tuple(stored))


def _judged(workload: Work, plan: object, carry: Carry[Any, Any], repeats: int) -> Judgement:
    """Carry out a plan and judge it, and repeat this while the machine could not keep up."""

    def carry_and_judge() -> Judgement:
        if workload.view is None:
            return workload.judge(plan, carry(plan, None))
        with live_progress(*workload.view(plan)) as report_progress:
            return workload.judge(plan, carry(plan, report_progress))

    return repeated(carry_and_judge, lambda judgement: judgement.verdict.invalid, repeats, complain)


def _report(
    args: argparse.Namespace, workload: Work, judgement: Judgement, directory: Path | None
) -> int:
    """Print the run as the options say, and return the exit code of its verdict."""
    document = dict(judgement.document)
    if directory is not None:
        document["results"] = str(directory)
    verdict = judgement.verdict
    if args.json:
        print(json.dumps(document))
    elif args.csv:
        show_parts([table_of_rows(judgement.rows or judgement.stored)], as_csv=True)
    elif workload.closing is not None:
        closing = workload.closing(judgement)
        show_parts([*closing, verdict_line(verdict), *folder_lines(directory)])
    else:
        if workload.shown is not None:
            show_parts(workload.shown(document))
        show_parts([*check_lines(verdict), *folder_lines(directory)])
    return verdict.exit_code


def _answer(workload: Work, plan: object) -> Answer:
    """Return what the command prints and draws for a plan that is not run."""
    assert workload.answer is not None and workload.view is not None
    document = workload.answer(plan)
    make_view = workload.view(plan)[1]
    view = make_view()

    def show() -> Iterable[object]:
        return () if workload.shown is None else workload.shown(document)

    def figures() -> dict[str, Figure]:
        return {"network": route_figure(view.session())}

    return Answer(document, show, title=view.title, figures=figures)
