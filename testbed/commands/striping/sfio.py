"""``testbed sfio``: compute nodes write and read a file striped over I/O nodes of a network; measured beside the prediction."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.commands.arguments import add_options
from testbed.commands.link_rates import add_link_rate, repeated, with_note
from testbed.commands.live import start_live
from testbed.commands.meaning import require_switches
from testbed.commands.runs import add_run_options, keep_run, show_verdict
from testbed.commands.several_machines import (
    MachineOptions,
    enter_unless_elsewhere,
    machines_request,
    said_when_lost,
)
from testbed.errors import InputError
from testbed.faults.reading import FAULT_WORDS, read_faults
from testbed.model.options import kinds

if TYPE_CHECKING:
    from testbed.striping.plan import StripingOptions, StripingPlan
    from testbed.striping.session import StripingSession
    from topologies.network import Network

DESCRIPTION = (
    "All compute nodes together write or read one file that is striped over the I/O nodes, through the network's links. "
    "The content is verified after every run, and the throughput held against what the network lets through."
)
_PAIR_BYTES, _MIN_BYTES = 200_000, 4_000_000


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser("sfio", help="striped files over an emulated network", description=DESCRIPTION)
    add = parser.add_argument
    add("network", metavar="NETWORK", help="a network with hosts (swiss-t1, crossbar:8, ...) or a file")
    add("--compute-nodes", type=kinds.some, required=True, metavar="N")
    add("--io-nodes", type=kinds.some, required=True, metavar="N")
    add("--stripe-unit", type=kinds.size_bytes, default=200, metavar="BYTES", help="default 200")
    add(
        "--file-size",
        type=kinds.size_bytes,
        metavar="SIZE",
        help="default 200 kB for each pair of hosts, 4 MB at least",
    )
    add("--operation", choices=("write", "read", "both"), default="write", help="default write")
    add("--access", choices=("contiguous", "strided", "random", "matrix-columns"), default="contiguous")
    add(
        "--block-size",
        type=kinds.size_bytes,
        default=1000,
        metavar="SIZE",
        help="of strided and random access (default 1000)",
    )
    add(
        "--optimise",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="gather the fragments of a call into one message an I/O node (default: yes)",
    )
    add(
        "--without",
        action="append",
        default=[],
        choices=("sort", "merge", "combine", "pipeline"),
        help="leave one optimisation of a call out (repeatable)",
    )
    add(
        "--schedule",
        default="none",
        metavar="none|liquid|FILE",
        help="order of the transfers (default none); a file: what testbed schedule NETWORK --pattern PAIRS --output wrote",
    )
    add(
        "--save-pattern",
        type=Path,
        metavar="FILE",
        help="write the pairs of hosts of this run for --pattern, and run nothing",
    )
    add("--switching", choices=("packet", "circuit"), help="default: circuit with a --schedule, else packet")
    add("--repeat", type=kinds.some, default=1, metavar="N", help="carry every operation out N times (default 1)")
    add_link_rate(parser)
    add("--routing", help="static routing method (default: the network's own)")
    add("--placement", choices=("first", "random"), default="first", help="which hosts take part (default first)")
    add(
        "--faults",
        "--fault",
        action="append",
        default=[],
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="cut links, as in s1->s2@0.2-3; may be repeated",
    )
    add("--kill", action="append", default=[], metavar="NODE@S", help="end a listener S seconds after the start")
    add("--root", type=Path, metavar="DIR", help="keep the subfiles there (default: they are removed)")
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
    from testbed.results.carried_load_file import chosen_rate
    from testbed.stream.session import choose_fabric
    from testbed.striping.figures import striping_figures
    from testbed.striping.planning import at_link_rate
    from testbed.striping.session import plan_session

    options = _options(args)
    plan = plan_session(args.network, options, now=time.monotonic)  # bad input is refused before anything is built
    if args.save_pattern is not None:
        return _save_pattern(args.save_pattern, plan)
    fabric = choose_fabric(args.fabric, args.network)
    require_switches(args, fabric, ("faults", "kill") if options.faults else ("kill",))
    machines = machines_request(args, fabric)
    start_live(args)
    if fabric == "emulation":
        enter_unless_elsewhere(machines)
    rate_bps, words = chosen_rate(args.link_rate, [t.path for t in plan.transfers], _frames(plan), fabric)
    plan = at_link_rate(plan, rate_bps)
    with said_when_lost(as_json=args.json and machines is not None):
        session = repeated(lambda: _session(args, plan, fabric), lambda found: found.verdict, args.repeats)
    session = replace(session, verdict=with_note(session.verdict, words))
    directory = keep_run(args, "sfio", [session.document()], session.verdict, lambda rows: striping_figures(rows[0]))
    if args.json:
        print(json.dumps(session.document() | {"results": str(directory)}))
    else:
        _show(session, directory)
    return session.verdict.exit_code


def _frames(plan: StripingPlan) -> int:
    """Time frames, or where all may go at once as many as the fullest link has transfers."""
    from testbed.bulk.planning import bottleneck_load

    return len(plan.frames) or (bottleneck_load(plan.transfers) if plan.transfers else 1)


def _session(args: argparse.Namespace, plan: StripingPlan, fabric: str) -> StripingSession:
    from testbed.live.adapters.feed import shown
    from testbed.live.scenes import network_scene
    from testbed.results.run_folder import make_directory
    from testbed.striping.emulated.scratch_folders import scratch_folder
    from testbed.striping.session import run_session

    with ExitStack() as stack:
        root = args.root
        if root is None:
            make_directory(args.results, "--results")
            root = stack.enter_context(scratch_folder(args.results))
        title = f"{plan.network.name}: striped file over {plan.options.io_nodes} I/O nodes"
        scene = partial(
            network_scene, title, plan.network, plan.link_bytes, plan.options.faults, stores=plan.placement.io
        )
        report_progress = stack.enter_context(shown("striped file", scene))
        machines = machines_request(args, fabric)
        return run_session(plan, root, fabric=fabric, report_progress=report_progress, machines=machines)


def _save_pattern(path: Path, plan: StripingPlan) -> int:
    from topologies.files.formats import write_whole

    pairs = [[t.source, t.sink] for t in plan.transfers]
    write_whole(path, json.dumps({"pairs": pairs}).encode())
    print(f"{path}: {len(pairs)} pairs")
    return 0


def _show(session: StripingSession, directory: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from testbed.report.terminal import Terminal

    found = session.document()
    console = Terminal()
    console.print(
        f"{found['network']}: {found['file_size'] / 1e6:g} MB in stripe units of {found['stripe_unit']} bytes, "
        f"{found['compute_nodes']} compute and {found['io_nodes']} I/O nodes, {found['access']} access, "
        f"{found['switching']} switching, schedule {found['schedule']}, {found['fabric']}"
    )
    if found["predicted"] is not None:
        console.print(
            f"predicted: {found['predicted']['throughput_bps'] / 1e6:.1f} Mbit/s; liquid: {found['liquid_links']:.2f} links "
            f"= {found['liquid_throughput_bps'] / 1e6:.1f} Mbit/s"
        )
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("operation", "seconds", "Mbit/s", "messages", "fragments", "disk calls", "queue drops", "verified"):
        table.add_column(heading, justify="left" if heading == "operation" else "right")
    for record in found["operations"]:
        failed = bool(record["errors"])
        table.add_row(
            record["direction"] + (" again" if record["attempt"] > 1 else " under faults" if record["faulty"] else ""),
            f"{record['seconds']:.2f}",
            "failed" if failed else f"{record['throughput_bps'] / 1e6:.1f}",
            *(str(record[key]) for key in ("messages", "fragments", "disk_calls", "queue_drops")),
            "no" if not record["verified"] else "yes",
        )
    console.print(table)
    show_verdict(session.verdict, directory)


def _options(args: argparse.Namespace) -> StripingOptions:
    from testbed.bulk.plan import KilledProcess
    from testbed.faults.grammar import parse_moment
    from testbed.model.machine.carried_load import USUAL_RATE_BPS
    from testbed.scheduling.traffic.traffic_file import read_schedule
    from testbed.striping.plan import StripingOptions
    from topologies import load_network

    size = max(_MIN_BYTES, _PAIR_BYTES * max(args.compute_nodes, 1) * max(args.io_nodes, 1))
    named = args.schedule in ("none", "liquid")
    network = load_network(args.network)
    carried = None if named else read_schedule(args.schedule, network)
    moments = [parse_moment(word, "--kill", network) for word in args.kill]
    return StripingOptions(
        compute_nodes=args.compute_nodes,
        io_nodes=args.io_nodes,
        stripe_unit=args.stripe_unit,
        file_bytes=size if args.file_size is None else args.file_size,
        operation=args.operation,
        access=args.access,
        block_bytes=args.block_size,
        optimise=args.optimise,
        without=tuple(args.without),
        schedule="file" if carried else args.schedule,
        carried=carried,
        switching=args.switching or ("packet" if args.schedule == "none" else "circuit"),
        link_rate_bps=args.link_rate or USUAL_RATE_BPS,
        routing=args.routing,
        order=args.placement,
        seed=args.seed,
        time_limit_s=args.time_limit,
        repeat=args.repeat,
        faults=_faults(args, network),
        killed=tuple(KilledProcess(node=node, at_s=at_s) for node, at_s in moments),
    )


def _faults(args: argparse.Namespace, network: Network) -> tuple[Any, ...]:
    faults = tuple(fault for word in args.faults for fault in read_faults(word, network))
    for fault in faults:
        if fault.kind == "impaired" and args.machines is None:
            continue
        if fault.kind != "down" or fault.direction != "both":
            raise InputError(
                "--faults: a striped file's links are cut both ways or, on one machine, impaired; give LINK@START-STOP, as in s1->s2@0.2-3"
            )
    return faults
