"""``testbed stream``: one coded stream over one network, links failing, prediction against measurement."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from testbed.commands.arguments import add_options
from testbed.commands.link_rates import add_repeats
from testbed.commands.live import start_live
from testbed.commands.meaning import REACTIVE, require_switches
from testbed.commands.parsing import parse_captures, read_ends
from testbed.commands.runs import add_run_options, command_line, state_words
from testbed.commands.several_machines import (
    MachineOptions,
    enter_unless_elsewhere,
    machines_request,
    said_when_lost,
)
from testbed.commands.stream.stream_options import (
    add_fault_options,
    add_stream_options,
    session_request,
)
from testbed.commands.stream.stream_routing import add_routing_options, check_reactive, run_reactive
from testbed.model.naming.names import read_pair
from testbed.model.naming.printable import printable
from testbed.model.options import kinds
from topologies import load_network

if TYPE_CHECKING:
    from testbed.stream.fabric import EmulationOptions
    from testbed.stream.session import SessionRequest


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "stream", help="stream coded packets over a network while links fail; verdict on every prediction"
    )
    add = parser.add_argument
    add("network", metavar="NETWORK", help="catalogue name or file (testbed topology list)")
    add("--from", dest="source", required=True, metavar="NODE")
    add("--to", dest="sink", required=True, metavar="NODE")
    add(
        "--also",
        action="append",
        default=[],
        metavar="A:B",
        help="a second stream at once, from A to B; may be repeated",
    )
    add(
        "--background-mbps",
        type=kinds.background_mbps,
        default=0.0,
        help="TCP traffic between the two ends at the same time (emulation; default none)",
    )
    add(
        "--queues",
        choices=("fifo", "priority"),
        default="fifo",
        help="of every link: one for all, or streams before TCP (emulation; default %(default)s)",
    )
    add("--method", default="capillary", help="routing method (default capillary; see testbed route)")
    add("--layers", type=kinds.count, metavar="K", help="capillary: only the first K layers")
    add("--duration", type=kinds.duration, metavar="S", help="default: until the last fault has been answered")
    add("--pcap", action="append", default=[], metavar="LINK=FILE", help="record a link, a->b=FILE (emulation)")
    add("--mtu", type=kinds.mtu_bytes, default=1500, help="of every interface, bytes (default 1500)")
    add_stream_options(parser)
    add_fault_options(parser)
    add("--probe-block-size", action="store_true", help="fix N, count decoding failures at N and N-1 over --blocks")
    add("--blocks", type=kinds.blocks, default=10_000, help="of --probe-block-size, for each N (default 10000)")
    add("--probe-link", metavar="LINK", help="a->b that is down while probing (default: the most loaded one)")
    add_routing_options(parser)
    add_options(parser, MachineOptions)
    add_repeats(parser)
    add_run_options(parser, seeded="labels, faults and content")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code: the verdict's."""
    from testbed.stream.session import choose_fabric

    fabric = choose_fabric(args.fabric, args.network)
    require_switches(args, fabric, ("pcap", "mtu", "background_mbps", "queues"))
    network = load_network(args.network)
    read_ends(args, network)
    if args.routing in REACTIVE:
        check_reactive(args, fabric)
    elif args.routing is not None:
        args.method = args.routing
    # bad input is refused before the sandbox is built
    request = None if args.routing in REACTIVE else session_request(args)
    args.also = [read_pair(word, network, "--also") for word in args.also]
    start_live(args)
    machines = machines_request(args, fabric)
    if fabric == "emulation":
        enter_unless_elsewhere(machines)
    if request is None:
        return run_reactive(args)
    if args.probe_block_size:
        return _probe(args, request, fabric)
    return _stream(args, request, fabric)


def _probe(args: argparse.Namespace, request: SessionRequest, fabric_name: str) -> int:
    """Two runs at fixed block sizes, decoding failures counted against theory, printed with the verdict."""
    from testbed.report.wording import OUTCOMES
    from testbed.stream.probing.probe import probe

    steps, verdict, probed, fabric = probe(request, fabric_name, blocks=args.blocks, link=args.probe_link)
    if args.json:
        listed = [asdict(step) for step in steps]
        print(json.dumps({"fabric": fabric, "link": probed, "steps": listed, "verdict": verdict.to_json()}))
        return verdict.exit_code
    for check in verdict.checks:
        print(
            printable(
                f"{OUTCOMES[check.outcome]}: {check.name}: predicted {check.predicted:g}, "
                f"measured {check.measured:g}; {check.detail}"
            )
        )
    print(f"verdict: {state_words(verdict)} ({probed} down, {fabric})")
    return verdict.exit_code


def _stream(args: argparse.Namespace, request: SessionRequest, fabric: str) -> int:
    from testbed.commands.stream.closing import show_result
    from testbed.stream.run_batch import RunBatch, run_suite

    options: EmulationOptions = {}
    if fabric == "emulation":
        captures = parse_captures(args.pcap, load_network(args.network), named=True)
        options = {"mtu": args.mtu, "pcap": captures, "background_bps": args.background_mbps * 1e6}
        options["queues"] = args.queues
        options["machines"] = machines_request(args, fabric)
    pairs = [(args.source, args.sink), *args.also]
    suite = RunBatch(
        name="stream",
        command=command_line(),
        requests=tuple(replace(request, source=source, sink=sink) for source, sink in pairs),
        titles=tuple(f"{args.network} {source} to {sink}" for source, sink in pairs),
        seed=args.seed,
        together=len(pairs) > 1,
        repeats_if_invalid=args.repeats,
    )
    with said_when_lost(as_json=args.json and args.machines is not None):
        result = run_suite(suite, fabric, args.results, **options)
    if args.json:
        first, *others = result.documents()
        more = {"also": others} if others else {}
        print(json.dumps(first | more | {"results": str(result.directory)}))
    else:
        show_result(result)
    return result.verdict.exit_code
