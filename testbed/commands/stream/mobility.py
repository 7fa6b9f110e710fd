"""``testbed mobility``: a coded stream while the nodes of a network move, links come and go, and others fail at random."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from testbed.commands.arguments import add_options
from testbed.commands.link_rates import add_repeats
from testbed.commands.live import start_live
from testbed.commands.parsing import read_ends
from testbed.commands.runs import add_run_options, command_line
from testbed.commands.several_machines import (
    MachineOptions,
    enter_unless_elsewhere,
    machines_request,
    said_when_lost,
)
from testbed.commands.stream.stream_options import (
    add_stream_options,
    stream_parameters,
)
from testbed.errors import InputError
from testbed.faults.grammar import no_faults, parse_poisson
from testbed.model.options import kinds
from topologies import load_network

if TYPE_CHECKING:
    from testbed.stream.session import MobilityRequest

USUAL_RATE_PPS = 1000.0
"""At this rate the playback buffer and the hold are the stream's usual ones; they are told in blocks, and grow as it falls."""

LATE_PER_SOURCE = 3
"""Late parity goes out so many times as fast as the source: a hundred switches in user space carry a few hundred packets a second."""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "mobility", help="stream while nodes move; routes are recomputed for each frame and replaced without loss"
    )
    add = parser.add_argument
    add("network", nargs="+", metavar="NETWORK", help="a mobile network (manet:...), or one file for each frame")
    add("--from", dest="source", required=True, metavar="NODE")
    add("--to", dest="sink", required=True, metavar="NODE")
    add("--frames", type=kinds.some, default=20, help="of a mobile network (default 20)")
    add("--frame-s", type=kinds.answering, default=5.0, metavar="S", help="how long each lasts (default 5)")
    add("--method", default="capillary", help="routing method (default capillary; see testbed route)")
    add("--layers", type=kinds.few, default=3, metavar="K", help="capillary: the first K layers (default 3; 0: all)")
    add(
        "--handover",
        choices=("after", "before"),
        default="after",
        help="the plan is replaced after links vanished without warning (default), or before they do",
    )
    add(
        "--faults",
        default="none",
        metavar="none|poisson:rate=R,lasts=S",
        help="random failures in addition (default none)",
    )
    add_stream_options(parser)
    add_options(parser, MachineOptions)
    add_repeats(parser)
    add_run_options(parser, seeded="labels, faults and content")
    parser.set_defaults(run=run, rate_pps=50.0, playback=None, hold=2.0)


def run(args: argparse.Namespace) -> int:
    """Exit code: the verdict's."""
    from testbed.commands.stream.closing import show_result
    from testbed.stream.run_batch import RunBatch, run_suite
    from testbed.stream.session import choose_fabric

    fabric = choose_fabric(args.fabric, *args.network)
    start_live(args)
    machines = machines_request(args, fabric)
    if fabric == "emulation":
        enter_unless_elsewhere(machines)
    request = mobility_request(args)
    suite = RunBatch(
        name="mobility",
        command=command_line(),
        requests=(request,),
        titles=(f"{args.network[0]} {args.source} to {args.sink}, moving",),
        seed=args.seed,
        repeats_if_invalid=args.repeats,
    )
    with said_when_lost(as_json=args.json and machines is not None):
        result = run_suite(suite, fabric, args.results, machines=machines)
    if args.json:
        print(json.dumps(result.documents()[0] | {"results": str(result.directory)}))
    else:
        show_result(result)
    return result.verdict.exit_code


def mobility_request(args: argparse.Namespace) -> MobilityRequest:
    """Raises InputError where an option cannot be used."""
    from testbed.stream.mobility import Movement, frame_names
    from testbed.stream.session import MobilityRequest

    if not no_faults(args.faults) and not args.faults.startswith("poisson:"):
        raise InputError(f"faults {args.faults!r}: give none or poisson:rate=R,lasts=S")
    playback = args.playback if args.playback is not None else 0.4 * max(1.0, USUAL_RATE_PPS / args.rate_pps)
    stream = stream_parameters(argparse.Namespace(**vars(args) | {"playback": playback}))
    frames = frame_names(args.network, args.frames)
    read_ends(args, load_network(frames[0]))
    return MobilityRequest(
        networks=frames,
        source=args.source,
        sink=args.sink,
        movement=Movement(method=args.method, layers=args.layers or None, frame_s=args.frame_s, handover=args.handover),
        stream=replace(stream, late_pps=LATE_PER_SOURCE * args.rate_pps),
        faults=() if no_faults(args.faults) else parse_poisson(args.faults),
        seed=args.seed,
    )
