"""``testbed download``: a file over many paths to a host behind a slow last kilometre, which is kept full while links fail."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from testbed.commands.link_rates import add_repeats, repeated
from testbed.commands.live import start_live
from testbed.commands.parsing import FAULT_WORDS, read_ends, read_faults
from testbed.commands.runs import add_run_options, keep_run, show_verdict
from testbed.errors import InputError
from testbed.model.naming.printable import printable
from testbed.model.options import kinds

if TYPE_CHECKING:
    from testbed.download.judgement import DownloadMeasurements
    from testbed.download.plan import DownloadPlan

DESCRIPTION = (
    "Send a file in large coded blocks from one node to a host behind a last kilometre of the given rate (Gabrielyan 2007, section 4.3.3). The sender "
    "raises its rate by what the failing links lose, so that the last kilometre stays full wherever a path is left. By default the "
    "most loaded link is down for the middle half of the download."
)


def add_parser(subparsers: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "download", help="a file over many paths, the last kilometre kept full", description=DESCRIPTION
    )
    add = parser.add_argument
    add("network", metavar="NETWORK", help="catalogue name or file")
    add("--from", dest="source", required=True, metavar="NODE")
    add("--to", dest="sink", required=True, metavar="NODE", help="the switch where the last kilometre begins")
    add("--size", type=kinds.size_bytes, default="4MB", metavar="SIZE", help="of the file (default %(default)s)")
    add(
        "--last-rate",
        type=kinds.rate_bps,
        default="8Mbps",
        metavar="RATE",
        help="of the last kilometre (default %(default)s)",
    )
    add("--method", default="capillary", help="as of testbed route (default %(default)s)")
    add("--code", default="raptorq", help="raptorq, reed-solomon or rlc, or a plug-in's (default %(default)s)")
    add(
        "--block-symbols",
        type=kinds.large_block_packets,
        metavar="M",
        help="source symbols a block (default 500, Reed-Solomon 128)",
    )
    add(
        "--constant-rate",
        action="store_true",
        help="the rival: a sender that never raises its rate; judged against what a sender that does would take",
    )
    add(
        "--faults",
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="as in s1->s2@1-3, or a JSON file as of testbed stream",
    )
    add_repeats(parser)
    add_run_options(parser, seeded="labels, faults and content")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan, download, judge; the verdict's exit code."""
    from testbed.download.figures import download_figures
    from testbed.download.judgement import download_document, download_row, judge_download
    from testbed.stream.session import choose_fabric

    plan = _plan(args)
    fabric = choose_fabric(args.fabric, args.network, quiet=args.json)
    start_live(args)
    if fabric == "emulation":
        from testbed.emulation.sandbox.sandbox import enter_sandbox, in_sandbox

        if not in_sandbox():
            enter_sandbox(sys.argv[1:])
    measured = repeated(partial(_run, plan, fabric), partial(judge_download, plan), args.repeats)
    verdict = judge_download(plan, measured)
    document = download_document(plan, measured, verdict)
    directory = keep_run(args, "download", [download_row(plan, measured, verdict)], verdict, download_figures)
    if args.json:
        print(json.dumps(document | {"results": str(directory)}))
    else:
        _show(document)
        show_verdict(verdict, directory)
    return verdict.exit_code


def _plan(args: argparse.Namespace) -> DownloadPlan:
    from fec.errors import FecError
    from testbed.download.planning import DownloadOptions, build_download
    from topologies.catalog import load_network

    network = load_network(args.network)
    read_ends(args, network)
    faults = None if args.faults is None else read_faults(args.faults, network)
    try:
        options = DownloadOptions(
            file_bytes=args.size,
            last_rate_bps=args.last_rate,
            method=args.method,
            code=args.code,
            block_symbols=args.block_symbols,
            seed=args.seed,
            constant_rate=args.constant_rate,
        )
        plan = build_download(network, args.source, args.sink, options, faults)
        plan.sender()  # refuses blocks that the code, or the payload id, cannot have
    except FecError as error:
        raise InputError(str(error)) from None
    return plan


def _run(plan: DownloadPlan, fabric: str) -> DownloadMeasurements:
    from testbed.live.adapters.feed import shown
    from testbed.live.scenes import network_scene

    if fabric == "simulator":
        from testbed.download.simulated import simulate_download

        return simulate_download(plan)
    from testbed.download.emulated import emulate_download

    forward, network = plan.forward, plan.network
    loads = {network.links[i].id: forward.load(i) for i in forward.loaded}
    title = f"{network.name}: download from {plan.source} to {plan.sink}"
    scene = partial(network_scene, title, network, loads, plan.faults, source=plan.source, sink=plan.sink)
    with shown(f"{plan.method}, {plan.code}", scene) as report_progress:
        return emulate_download(plan, report_progress)


def _show(document: dict[str, Any]) -> None:
    seconds, sent = document["seconds"], document["packets"]["sent"]
    measured = "never" if seconds["measured"] is None else f"{seconds['measured']:.2f} s"
    rate = ", rate never raised" * document["constant_rate"]
    print(f"{document['bytes']} bytes, {document['code']}, {document['method']}{rate}, {document['fabric']}")
    for fault in document["faults"]:
        print(f"  {printable(fault['link'])} {fault['kind']} from {fault['start_s']:.2f} to {fault['stop_s']:.2f} s")
    print(
        f"there after   {measured} (predicted {seconds['predicted']:.2f} s, {document['idle_s']:.2f} s without a path)"
    )
    print(f"goodput       {document['goodput_bps'] / 1e6:.2f} Mbit/s, {document['ratio']:.1%} of the last kilometre")
    print(
        f"packets sent  {sent['measured']} (predicted {sent['predicted']:.0f}, needed {document['packets']['needed']})"
    )
