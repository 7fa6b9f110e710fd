"""``testbed stream ... --routing ft-drb|recomputed``: a plain stream whose routing, not a code, answers failures."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.commands.runs import keep_run, show_verdict
from testbed.commands.stream.stream_options import NO_FILE
from testbed.errors import CapabilityError, InputError
from testbed.faults.reading import read_faults
from testbed.metapath.plan import MetapathPlan, default_duration_s, each_cable_faults
from testbed.metapath.source import MetapathOptions
from testbed.model.naming.printable import printable
from testbed.model.options import kinds
from topologies import load_network
from topologies.network import Network

if TYPE_CHECKING:
    from testbed.faults.fault import Fault
    from testbed.live.events import RunView
    from testbed.metapath.session import MetapathSession

STUDY_NAME = "stream-routing"


def add_routing_options(parser: argparse.ArgumentParser) -> None:
    """--routing, and FT-DRB's parameters (Zarza 2011, chapter 3; defaults in docs/workloads/ft_drb.md)."""
    usual = MetapathOptions()
    parser.add_argument(
        "--routing",
        metavar="NAME",
        help="ft-drb or recomputed (capillary, recomputed by the controller): a stream without a code (emulation); any "
        "other name is that of a --method",
    )
    add = parser.add_argument_group("--routing ft-drb").add_argument
    add("--notify", choices=("both", "controller", "header"), default=usual.notify, help="who reports a failed link")
    add("--link-up", choices=("probe", "controller"), default=usual.link_up, help="how a repair is detected")
    add(
        "--paths",
        type=kinds.metapath_paths,
        default=usual.paths,
        help="paths of a metapath at most (default %(default)s)",
    )
    add(
        "--first-paths",
        type=kinds.metapath_paths,
        default=usual.first_paths,
        help="paths with which a metapath starts (default %(default)s)",
    )
    add(
        "--notifications",
        type=kinds.occurrences,
        default=usual.notifications,
        help="number of notifications in a row that mark a cable as failed (default %(default)s)",
    )
    add(
        "--probe-every",
        type=kinds.probe_interval,
        default=usual.probe_every,
        metavar="N",
        help="one diverted packet in N tries the minimal path (default %(default)s)",
    )
    add(
        "--silence-ms",
        type=kinds.milliseconds,
        default=1e3 * usual.silence_s,
        help="time after which a packet counts as missing (default %(default)g)",
    )
    add(
        "--thl",
        type=kinds.times_zero_load,
        default=usual.threshold,
        help="target latency Thl, as a multiple of the latency without load (default %(default)g)",
    )
    add("--tol", type=kinds.share, default=usual.tolerance, help="tolerance, a fraction of Thl (default %(default)g)")
    add("--metapaths-always", action="store_true", help="use metapaths also without failures, as DRB does")


def run_reactive(args: argparse.Namespace) -> int:
    """Exit code: the verdict's. The caller has entered the sandbox."""
    from testbed.live.adapters.feed import live_progress
    from testbed.metapath.figures import metapath_figures
    from testbed.metapath.records import fault_rows
    from testbed.metapath.session import run_metapath_session

    plan = metapath_plan(args)
    title = f"{args.routing} {args.network} {args.source} to {args.sink}"
    with live_progress(title, partial(_view, plan, title)) as report_progress:
        session = run_metapath_session(plan, report_progress, repeats_if_invalid=args.repeats)
    rows = fault_rows(plan, session.run, session.analysis)
    directory = keep_run(args, STUDY_NAME, rows, session.verdict, metapath_figures)
    if args.json:
        from testbed.metapath.records import metapath_document

        document = metapath_document(plan, session.run, session.analysis, session.verdict)
        print(json.dumps(document | {"results": str(directory)}))
    else:
        _show(session, directory)
    return session.verdict.exit_code


def _view(plan: MetapathPlan, title: str) -> RunView:
    """Every link may come to carry the stream: all are drawn alike."""
    from testbed.live.run_views import network_view

    loads = {link.id: 1 for link in plan.network.links}
    more = {"source": plan.source, "sink": plan.sink, "duration_s": plan.duration_s}
    return network_view(title, plan.network, loads, plan.faults, share="stream", **more)


def check_reactive(args: argparse.Namespace, fabric: str) -> None:
    """Before the sandbox is entered. Raises InputError or CapabilityError for what this routing cannot do."""
    if fabric != "emulation":
        raise CapabilityError(
            f"--routing {args.routing} runs on switches only; the simulator's FT-DRB is testbed simulate ... --routing ft-drb"
        )
    from testbed.metapath.emulated.fabric import check_escapes

    check_escapes(metapath_plan(args))


def metapath_plan(args: argparse.Namespace) -> MetapathPlan:
    """Raises InputError or TopologyError where an option cannot be used."""
    network = load_network(args.network)
    faults = _faults(args, network)
    options = MetapathOptions(
        paths=args.paths,
        first_paths=args.first_paths,
        notifications=args.notifications,
        probe_every=args.probe_every,
        threshold=args.thl,
        tolerance=args.tol,
        silence_s=args.silence_ms / 1e3,
        notify=args.notify,
        link_up=args.link_up,
        always=args.metapaths_always,
    )
    return MetapathPlan(
        network=network,
        source=args.source,
        sink=args.sink,
        routing=args.routing,
        rate_pps=args.rate_pps,
        packet_bytes=args.symbol_bytes,
        faults=faults,
        duration_s=args.duration or default_duration_s(faults, args.rate_pps, options),
        options=options,
        seed=args.seed,
    )


def _faults(args: argparse.Namespace, network: Network) -> tuple[Fault, ...]:
    if args.faults.startswith("poisson:"):
        raise InputError(f"--faults {args.faults}: with --routing {args.routing} give each-link, none or a file")
    if args.faults != "each-link":
        return read_faults(args.faults, network, hint=NO_FILE)
    return each_cable_faults(network, args.source, args.sink, kind=args.fault_kind, most=args.links)


def _show(session: MetapathSession, directory: Path) -> None:
    print(
        "link            fault       lost  of  noticed ms  reconfigured ms  returned ms  latency ms before/during/after"
    )
    for one in session.analysis.faults:
        noticed = ", ".join(f"{cause} {1e3 * at:.0f}" for cause, at in one.noticed_s.items()) or "-"
        latency = "/".join(
            "-" if value is None else f"{value[0]:.2f}"
            for value in (one.latency_before_ms, one.latency_during_ms, one.latency_after_ms)
        )
        print(
            f"{printable(one.link):15} {one.kind:10} {one.lost:5d} {one.sent:4d}  {noticed:>10}  {_ms(one.reconfigured_s):>15}  "
            f"{_ms(one.returned_s):>11}  {latency}"
        )
    show_verdict(session.verdict, directory)


def _ms(value_s: float | None) -> str:
    return "-" if value_s is None else f"{1e3 * value_s:.0f}"
