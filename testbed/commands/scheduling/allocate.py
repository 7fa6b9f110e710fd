"""``testbed allocate``: the nodes of Swiss-T1 to give to a job whose nodes all exchange data."""

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
    "Find the allocations of N nodes with the highest liquid throughput for an exchange of "
    "every node with every node, and the range from the best to the worst."
)
# Rate of the machine's links: 86 MB/s (Gabrielyan 2007, 3.8.1).
LINK_BPS = 86e6 * 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add = adder(parser)
    add(
        "network",
        metavar="swiss-t1",
        help="network; only swiss-t1 has allocations",
    )
    add(
        "--nodes",
        type=kinds.job_nodes,
        required=True,
        metavar="N",
        help="number of nodes that the job needs, 1 to 32",
    )
    add(
        "--list",
        dest="count",
        type=kinds.count,
        default=5,
        metavar="N",
        help="number of allocations to list (default: 5)",
    )
    add(
        "--occupied",
        default="0-0-0-0-0-0-0-0",
        metavar="COUNTS",
        help="number of occupied nodes of each switch, as in 4-4-0-0-0-0-0-0 (default: none)",
    )
    add(
        "--link-rate",
        type=kinds.rate_bps,
        default=LINK_BPS,
        metavar="RATE",
        help="rate of every link (default: 688e6)",
    )
    add_options(parser, TableOptions)


def run(args: argparse.Namespace) -> Answer:
    """Find the best allocations, and the worst."""
    if args.network != "swiss-t1":
        raise InputError(f"network {args.network!r}: it has no allocations; give swiss-t1")
    choice = choose_allocations(args.nodes, count=args.count, occupied=parse_counts(args.occupied))
    return Answer(_document(args, choice), partial(_show, args, choice))


def parse_counts(text: str) -> tuple[int, ...]:
    """Parse counts that are joined by ``-``.

    Raises:
        InputError: A part of the text is not a count.
    """
    parts = text.split("-")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(
            f"--occupied {text!r}: give eight counts from 0 to 4 joined by '-', "
            "as in 4-4-0-0-0-0-0-0"
        )
    return tuple(int(part) for part in parts)


def _document(args: argparse.Namespace, choice: Choice) -> JsonObject:
    rate_bps = args.link_rate
    return {
        "nodes": args.nodes,
        "candidates": choice.candidates,
        "allocations": [_allocation_document(best, rate_bps) for best in choice.best],
        "worst": _allocation_document(choice.worst, rate_bps),
        "bottleneck_loads": [
            {"load": load, "allocations": number} for load, number in choice.loads
        ],
    }


def _allocation_document(allocation: RatedAllocation, link_rate_bps: float) -> JsonObject:
    throughput_links = float(allocation.liquid_throughput)
    return {
        "network": f"swiss-t1:allocation={allocation.name}",
        "allocation": list(allocation.counts),
        "bottleneck_load": allocation.bottleneck_load,
        "liquid_throughput_links": throughput_links,
        "liquid_throughput_bps": throughput_links * link_rate_bps,
    }


def _show(args: argparse.Namespace, choice: Choice) -> Iterator[Part]:
    from testbed.report.wording import counted

    best = _throughput_text(choice.best[0].liquid_throughput, args.link_rate)
    worst = _throughput_text(choice.worst.liquid_throughput, args.link_rate)
    yield (
        f"{counted(args.nodes, 'node')}, {counted(choice.candidates, 'allocation')}, "
        f"{counted(len(choice.loads), 'different liquid throughput')}"
    )
    yield f"from {worst} to {best}; the last of these is the worst"
    rows: list[JsonObject] = []
    for allocation in (*choice.best, choice.worst):
        throughput_links = float(allocation.liquid_throughput)
        row = {
            "allocation": allocation.name,
            "bottleneck load": allocation.bottleneck_load,
            "links": throughput_links,
            "Gbit/s": throughput_links * args.link_rate / 1e9,
        }
        rows.append(row)
    yield table_of_rows(rows, "allocations", title="liquid throughput", spare=("bottleneck load",))


def _throughput_text(links: SupportsFloat, link_rate_bps: float) -> str:
    """Return a throughput, given as a number of links, in links and Gbit/s."""
    return f"{float(links):.2f} links ({float(links) * link_rate_bps / 1e9:.2f} Gbit/s)"
