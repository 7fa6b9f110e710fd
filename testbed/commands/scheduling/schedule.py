"""``testbed schedule``: time frames in which no two transfers share a link, as few as the bottleneck allows where one
is found."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.commands.arguments import add_options, adder
from testbed.commands.scheduling.schedule_extras import (
    add_extras,
    check_extras,
    chunks_document,
    draw,
    show_extras,
    split_traffic,
    wormhole_document,
)
from testbed.errors import InputError
from testbed.model.json_values import read_json
from testbed.model.options.option import ROUTED, RUN, SENT, Only
from testbed.report.progress_bar import spinner
from testbed.scheduling.options import SearchOptions

if TYPE_CHECKING:
    from testbed.model.schedule import Schedule
    from testbed.model.traffic import Traffic

DESCRIPTION = (
    "Schedule the transfers of a network (all-to-all by default) or of a traffic file. A liquid schedule has as many "
    "frames as the most loaded link has transfers: none can be shorter. 'proved' is 'no-liquid-schedule' only after an "
    "exhausted search or an infeasible model. Every schedule passes an independent checker."
)


def add_parser(subparsers: Any) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser("schedule", description=DESCRIPTION)
    add, sent, routed, running = (adder(parser, group) for group in (None, SENT, ROUTED, RUN))
    add("network", metavar="NETWORK", nargs="?", help="catalogue name or file")
    sent(
        "--pattern",
        default="all-to-all",
        metavar="PATTERN",
        help="all-to-all or all-to-others of hosts (all-to-all: to themselves too), pairs of nodes, or a JSON file of "
        "pairs",
        only=Only(
            when=lambda a: a.network is not None, needs="NETWORK, whose nodes it names (files have their transfers)"
        ),
    )
    sent("--traffic", type=Path, metavar="FILE", help='instead of a network: {"transfers": [[link, ...], ...]}')
    routed("--verify", dest="check", type=Path, metavar="FILE", help='only check a file with "transfers" and "frames"')
    add_options(parser, SearchOptions)
    add_extras(parser)
    running(
        "--output",
        type=Path,
        metavar="FILE",
        help="write transfers and frames as JSON; FILE.xml: an algorithm of MSCCL",
    )
    running("--json", action="store_true", help="print one JSON object on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Schedule (or check) and show; 0 unless the input is bad."""
    check_extras(args)
    extras: dict[str, Any] = {}
    traffic, schedule = _checked(args) if args.check else _scheduled(args, extras)
    if args.wormhole:
        extras["wormhole"] = wormhole_document(
            traffic, schedule, "none" if args.remedy == "report" else args.remedy, args.seed
        )
    if args.draw is not None:
        draw(args.draw, traffic, schedule, None if args.unequal else args.network)
    if args.output is not None:
        extras |= _write(args.output, traffic, schedule)
    if args.json:
        print(json.dumps({**schedule_document(traffic, schedule), **extras}))
    else:
        _show(traffic, schedule)
        show_extras(extras)
    return 0


def traffic_of_options(network: str | None, pattern: str, file: Path | None) -> Traffic:
    """The traffic that NETWORK with --pattern, or --traffic, names. Raises InputError or TopologyError."""
    from testbed.scheduling.traffic.traffic_file import parse_traffic

    if (network is None) == (file is None):
        raise InputError("give either NETWORK or --traffic FILE")
    if file is not None:
        return parse_traffic(read_json(file), str(file))
    from testbed.scheduling.traffic.patterns import all_to_all, all_to_others, read_pattern, traffic_of
    from topologies.catalog import load_network

    assert network is not None
    found = load_network(network)
    if pattern == "all-to-all":
        return all_to_all(found)
    if pattern == "all-to-others":
        return all_to_others(found)
    return traffic_of(found, read_pattern(pattern, found))


def schedule_document(traffic: Traffic, schedule: Schedule) -> dict[str, Any]:
    """The object of ``testbed schedule --json``."""
    return {
        "method": schedule.method,
        "transfers": _transfers(traffic),
        "frames": schedule.frames,
        "length": schedule.length,
        "bottleneck_load": schedule.bottleneck_load,
        "liquid_throughput": traffic.liquid_throughput,
        "liquid": schedule.liquid,
        "proved": schedule.proved,
        "optimal": schedule.optimal,
        "detail": schedule.detail,
        "seconds": schedule.seconds,
    }


def _transfers(traffic: Traffic) -> list[tuple[str, ...]]:
    return [tuple(traffic.links[link] for link in path) for path in traffic.paths()]


def _checked(args: argparse.Namespace) -> tuple[Traffic, Schedule]:
    from testbed.scheduling.traffic.traffic_file import parse_frames, parse_traffic

    if args.network is not None or args.traffic is not None:
        raise InputError(
            "--verify FILE cannot be combined with a network or --traffic: the file has the transfers and the frames"
        )
    document = read_json(args.check)
    traffic = parse_traffic(document, str(args.check))
    return traffic, parse_frames(document, traffic, str(args.check))


def _scheduled(args: argparse.Namespace, extras: dict[str, Any]) -> tuple[Traffic, Schedule]:
    from testbed.scheduling.methods import schedule_by_name

    traffic = traffic_of_options(args.network, args.pattern, args.traffic)
    if args.unequal is not None:
        traffic, chunks = split_traffic(read_json(args.unequal), str(args.unequal), traffic, args.network)
        extras["chunks"] = chunks_document(chunks)
    with spinner(f"{args.method}: {len(traffic)} transfers, bottleneck load {traffic.bottleneck_load}"):
        return traffic, schedule_by_name(
            traffic, args.method, seed=args.seed, time_limit_s=args.time_limit_s, now=time.perf_counter
        )


def _show(traffic: Traffic, schedule: Schedule) -> None:
    ratio = schedule.length / schedule.bottleneck_load
    print(f"transfers          {len(traffic)} over {len(traffic.links)} links")
    print(f"bottleneck load    {traffic.bottleneck_load} ({len(traffic.bottlenecks)} bottleneck links)")
    print(f"liquid throughput  {traffic.liquid_throughput:.3f} links")
    print(f"length             {schedule.length} frames ({ratio:.3f} of the bottleneck load)")
    best = {True: "optimal", False: "not optimal", None: "not known to be optimal"}[schedule.optimal]
    print(f"proved             {schedule.proved}, {best}" + (f" ({schedule.detail})" if schedule.detail else ""))
    if schedule.seconds is not None:
        print(f"seconds            {schedule.seconds:.3f}")


def _write(path: Path, traffic: Traffic, schedule: Schedule) -> Mapping[str, Any]:
    """In the format that the name's ending asks for, or as JSON; what the format adds to the JSON object."""
    from testbed.model.file_formats import SCHEDULE_FORMATS, find_format
    from topologies.files.formats import write_atomically

    added: Mapping[str, Any] = {}
    if (written := find_format(SCHEDULE_FORMATS, str(path))) is None:
        content = json.dumps({"transfers": _transfers(traffic), "frames": schedule.frames}).encode()
    else:
        content, added = written(traffic, schedule)
    write_atomically(path, content)
    return added
