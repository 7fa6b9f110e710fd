"""``testbed bulk``: every sending host sends a message to every receiving one, frame by frame; measured beside the prediction."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.commands.arguments import add_options
from testbed.commands.link_rates import add_link_rate, chosen_rate, repeated, with_note
from testbed.commands.live import start_live
from testbed.commands.meaning import require_switches
from testbed.commands.parsing import read_pattern, read_schedule
from testbed.commands.runs import add_run_options, keep_run, make_directory, show_verdict
from testbed.commands.several_machines import (
    MachineOptions,
    enter_unless_elsewhere,
    machines_request,
    said_when_lost,
)
from testbed.faults.reading import FAULT_WORDS, read_faults
from testbed.model.options import kinds

if TYPE_CHECKING:
    from testbed.bulk.plan import BulkPlan, Switching
    from testbed.bulk.planning import BulkOptions
    from testbed.bulk.session import BulkSession

DESCRIPTION = (
    "Send a message from every sending to every receiving host, in the time frames of a method. With circuit switching a "
    "transfer holds every link of its path while it sends, and its circuit is in the switches; with packet switching "
    "congestion is left to them. Both are run and reported side by side; --switching says which one the verdict is about."
)


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser("bulk", help="bulk transfers frame by frame over circuits", description=DESCRIPTION)
    add = parser.add_argument
    add("network", metavar="NETWORK", help="a network with hosts (swiss-t1, ...) or a file")
    add("--method", default="liquid", help="liquid, round-robin, random, identical, dsatur, ... (default liquid)")
    add(
        "--pattern",
        default="all-to-all",
        metavar="all-to-all|A:B,...|FILE",
        help='pairs of nodes, or a file: {"pairs": [["t0", "r5"], ...]}',
    )
    add("--schedule", metavar="FILE", help="the pairs and time frames that testbed schedule NETWORK --output wrote")
    add("--message-size", type=kinds.size_bytes, default="1MB", metavar="SIZE", help="of every message (default 1MB)")
    add_link_rate(parser)
    add("--switching", choices=("circuit", "packet"), default="circuit", help="which the verdict is about (circuit)")
    add("--alone", action="store_true", help="do not run the other switching beside it")
    add("--barrier", action=argparse.BooleanOptionalAction, default=True, help="between time frames (default: yes)")
    add("--routing", help="static routing method (default: the network's own)")
    add("--inject", type=kinds.few, default=20, metavar="N", help="packets without a circuit, in mid-run (default 20)")
    add(
        "--faults",
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="links to cut while it runs, as in s1->s2@1-3, or a JSON file as for testbed stream",
    )
    add(
        "--kill",
        action="append",
        default=[],
        metavar="NODE@S",
        help="end a receiver's process S seconds after the start",
    )
    add("--deadlock", choices=("retreat", "fail"), default="retreat", help="what ends a circle of waiting transfers")
    add("--store", type=Path, metavar="DIR", help="keep every message that arrived whole")
    add(
        "--time-limit",
        type=kinds.search_limit,
        default=10.0,
        metavar="S",
        help="of the search for a schedule (default 10)",
    )
    add_options(parser, MachineOptions)
    add_run_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code: the verdict's."""
    from testbed.bulk.figures import bulk_figures
    from testbed.bulk.planning import at_rate
    from testbed.bulk.session import plan_sides
    from testbed.stream.session import choose_fabric

    options = _options(args)
    plans = plan_sides(
        args.network, options, _switchings(args, options), now=time.monotonic
    )  # bad input is refused first
    fabric = choose_fabric(args.fabric, args.network)
    require_switches(args, fabric, ("store", "inject", "kill"))
    machines = machines_request(args, fabric)
    start_live(args)
    if fabric == "emulation":
        enter_unless_elsewhere(machines)
    paths = [transfer.path for transfer in plans[0].transfers]
    rate_bps, words = chosen_rate(args.link_rate, paths, len(plans[0].frames), fabric)
    plans = tuple(replace(p, network=at_rate(p.network, rate_bps), link_rate_bps=rate_bps) for p in plans)
    with said_when_lost(as_json=args.json and machines is not None):
        sessions = [replace(s, verdict=with_note(s.verdict, words)) for s in _sessions(args, plans, fabric)]
    chosen = sessions[0]
    directory = keep_run(args, "bulk", [session.row() for session in sessions], chosen.verdict, bulk_figures)
    if args.json:
        print(json.dumps(document(sessions) | {"results": str(directory)}))
    else:
        _show(sessions, directory)
    return chosen.verdict.exit_code


def _sessions(args: argparse.Namespace, plans: Sequence[BulkPlan], fabric_name: str) -> list[BulkSession]:
    from testbed.bulk.session import open_bulk_fabric, run_side
    from testbed.live.adapters.feed import shown
    from testbed.live.scenes import network_scene

    if args.store is not None:
        make_directory(args.store, "--store")
    sessions = []
    with ExitStack() as stack:
        fabric = open_bulk_fabric(
            fabric_name,
            stack,
            on_deadlock=args.deadlock,
            store=args.store,
            machines=machines_request(args, fabric_name),
        )
        for plan in plans:
            title = f"{plan.network.name}: bulk transfers, {plan.switching} switching, {plan.method}"
            scene = partial(network_scene, title, plan.network, plan.loads, plan.faults)
            with shown(f"{plan.switching} switching", scene) as report_progress:
                once = partial(run_side, fabric, plan, report_progress)
                sessions.append(repeated(once, lambda session: session.verdict, args.repeats))
    return sessions


def document(sessions: list[BulkSession]) -> dict[str, Any]:
    """What --json prints: the chosen switching's figures, and those of the other under ``beside``."""
    chosen, *others = sessions
    row = chosen.row()
    return {
        **row,
        "verdict": dict(chosen.verdict.to_json()),
        "beside": {s.plan.switching: {**s.row(), "verdict": dict(s.verdict.to_json())} for s in others},
    }


def _show(sessions: list[BulkSession], directory: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from testbed.report.terminal import Terminal
    from testbed.report.wording import state_of

    first = sessions[0].row()
    barrier = "with a barrier" if first["barrier"] else "without a barrier"
    frames = f"{first['frames']} time frames"
    if first["rounds"] is not None:
        frames = f"{first['rounds']} rounds ({frames} without conflict)"
    console = Terminal()
    console.print(
        f"{first['network']}: {first['transfers']} messages of {first['message_bytes'] / 1e6:g} MB, {first['method']}, "
        f"{frames} {barrier} (bottleneck load {first['bottleneck_load']}), {first['fabric']}"
    )
    console.print(
        f"predicted: {first['liquid_links']:.2f} links x {first['goodput_bps'] / 1e6:.2f} Mbit/s of goodput = "
        f"{first['liquid_throughput_bps'] / 1e6:.1f} Mbit/s"
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in (
        "switching",
        "seconds",
        "Mbit/s",
        "of liquid",
        "virtual time",
        "verified",
        "queue drops",
        "verdict",
    ):
        table.add_column(heading, justify="left" if heading in ("switching", "verdict") else "right")
    for session in sessions:
        row = session.row()
        table.add_row(
            row["switching"],
            f"{row['seconds']:.2f}",
            f"{row['throughput_bps'] / 1e6:.1f}",
            f"{row['ratio']:.3f}",
            f"{row['predicted_ratio']:.3f}",
            f"{row['messages_verified']}/{row['transfers']}",
            str(row["queue_drops"]),
            state_of(session.verdict).replace("-", " "),
        )
    console.print(table)
    show_verdict(sessions[0].verdict, directory)


def _switchings(args: argparse.Namespace, options: BulkOptions) -> tuple[Switching, ...]:
    chosen: Switching = args.switching
    other: Switching = "packet" if chosen == "circuit" else "circuit"
    return (chosen,) if args.alone or options.killed or options.faults else (chosen, other)


def _options(args: argparse.Namespace) -> BulkOptions:
    from testbed.bulk.plan import KilledProcess
    from testbed.bulk.planning import BulkOptions
    from testbed.faults.grammar import parse_moment
    from testbed.model.machine.carried_load import USUAL_RATE_BPS
    from topologies import load_network

    network = cache(partial(load_network, args.network))  # read once, where a word names nodes or links
    moments = [parse_moment(word, "--kill", network()) for word in args.kill]
    return BulkOptions(
        method=args.method,
        message_bytes=args.message_size,
        link_rate_bps=args.link_rate or USUAL_RATE_BPS,
        barrier=args.barrier,
        pattern=args.pattern
        if args.pattern in ("all-to-all", "all-to-others")
        else read_pattern(args.pattern, network()),
        carried=None if args.schedule is None else read_schedule(args.schedule, network()),
        routing=args.routing,
        seed=args.seed,
        time_limit_s=args.time_limit,
        injected=args.inject,
        faults=() if args.faults is None else read_faults(args.faults, network()),
        killed=tuple(KilledProcess(node=node, at_s=at_s) for node, at_s in moments),
    )
