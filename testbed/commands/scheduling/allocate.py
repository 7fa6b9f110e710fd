"""``testbed allocate``: which nodes of Swiss-T1 to give to a job whose nodes all exchange data."""

import argparse
from collections.abc import Iterator
from functools import partial
from typing import SupportsFloat

from testbed.commands.answer import Answer
from testbed.commands.arguments import TableOptions, add_options, adder
from testbed.errors import InputError
from testbed.model.options import kinds
from testbed.report.answers import Part, table_of_rows
from testbed.scheduling.traffic.allocation import Choice, RatedAllocation, choose_allocations
from topologies.text.json_types import JsonObject

DESCRIPTION = (
    "The allocations of N nodes with the highest liquid throughput for an exchange of every node with every node, and "
    "the range from the best to the worst."
)
LINK_BPS = 86e6 * 8  # 86 MB/s, the machine's links (Gabrielyan 2007, 3.8.1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add = adder(parser)
    add("network", metavar="swiss-t1", help="the network, swiss-t1: no other has allocations")
    add(
        "--nodes",
        type=kinds.job_nodes,
        required=True,
        metavar="N",
        help="how many nodes the job needs, 1 to 32",
    )
    add(
        "--list",
        dest="count",
        type=kinds.count,
        default=5,
        metavar="N",
        help="how many allocations to list (default 5)",
    )
    add(
        "--occupied",
        default="0-0-0-0-0-0-0-0",
        metavar="COUNTS",
        help="nodes of each switch that are taken, as in 4-4-0-0-0-0-0-0 (default none)",
    )
    add(
        "--link-rate",
        type=kinds.rate_bps,
        default=LINK_BPS,
        metavar="RATE",
        help="of one link (default 688e6)",
    )
    add_options(parser, TableOptions)


def run(args: argparse.Namespace) -> Answer:
    """The best allocations, and the worst."""
    if args.network != "swiss-t1":
        raise InputError(f"network {args.network!r}: allocations are of swiss-t1; give swiss-t1")
    choice = choose_allocations(args.nodes, count=args.count, occupied=parse_counts(args.occupied))
    return Answer(_document(args, choice), partial(_show, args, choice))


def parse_counts(text: str) -> tuple[int, ...]:
    """Counts joined by ``-``; InputError for anything else."""
    words = text.split("-")
    if not all(word.isascii() and word.isdigit() for word in words):
        raise InputError(
            f"--occupied {text!r}: give eight counts from 0 to 4 joined by '-', as in 4-4-0-0-0-0-0-0"
        )
    return tuple(int(word) for word in words)


def _document(args: argparse.Namespace, choice: Choice) -> JsonObject:
    def entry(allocation: RatedAllocation) -> JsonObject:
        links = allocation.liquid_throughput
        return {
            "network": f"swiss-t1:allocation={allocation.name}",
            "allocation": list(allocation.counts),
            "bottleneck_load": allocation.bottleneck_load,
            "liquid_throughput_links": float(links),
            "liquid_throughput_bps": float(links) * args.link_rate,
        }

    return {
        "nodes": args.nodes,
        "candidates": choice.candidates,
        "allocations": [entry(allocation) for allocation in choice.best],
        "worst": entry(choice.worst),
        "bottleneck_loads": [
            {"load": load, "allocations": number} for load, number in choice.loads
        ],
    }


def _show(args: argparse.Namespace, choice: Choice) -> Iterator[Part]:
    from testbed.report.wording import counted

    best, worst = (one.liquid_throughput for one in (choice.best[0], choice.worst))
    yield (
        f"{counted(args.nodes, 'node')}, {counted(choice.candidates, 'allocation')}, "
        f"{counted(len(choice.loads), 'different liquid throughput')}"
    )
    yield f"from {_rate(worst, args.link_rate)} to {_rate(best, args.link_rate)}; the last of these is the worst"
    rows = [
        {
            "allocation": one.name,
            "bottleneck load": one.bottleneck_load,
            "links": float(one.liquid_throughput),
        }
        | {"Gbit/s": float(one.liquid_throughput) * args.link_rate / 1e9}
        for one in (*choice.best, choice.worst)
    ]
    yield table_of_rows(rows, "allocations", title="liquid throughput", spare=("bottleneck load",))


def _rate(links: SupportsFloat, link_rate_bps: float) -> str:
    return f"{float(links):.2f} links ({float(links) * link_rate_bps / 1e9:.2f} Gbit/s)"
