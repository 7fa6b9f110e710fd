"""Options that stream, demo and experiments share, and their way from arguments to a session request."""

from __future__ import annotations

import argparse
from typing import Any

from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_poisson
from testbed.faults.reading import FAULT_WORDS, read_faults
from testbed.faults.schedules import PoissonFaults
from testbed.model.options import kinds
from testbed.stream.plan import LEAST_PLAYBACK_BLOCKS, LEAST_PLAYBACK_S, StreamParameters
from testbed.stream.planning import EachLink
from testbed.stream.profiles import PROFILES
from testbed.stream.session import SessionRequest
from topologies import load_network

NO_FILE = "give each-link, none, poisson:rate=R,lasts=S or a JSON file"
FAULTS_HELP = (
    "default each-link; poisson:rate=R,lasts=S: every loaded cable fails R times a second for S s, overlaps included"
)


def add_stream_options(parser: argparse.ArgumentParser) -> None:
    """Coding, pacing and reporting; defaults are those of StreamParameters."""
    usual = StreamParameters()
    add = parser.add_argument
    add(
        "--profile", action=_Profile, choices=tuple(PROFILES), help="voip, video: rate, M, symbol size, playback buffer"
    )
    add(
        "--rate-pps",
        type=kinds.rate_pps,
        default=usual.rate_pps,
        help="source packets a second (default %(default)g)",
    )
    add(
        "--m",
        type=kinds.block_packets,
        default=usual.source_packets,
        help="source packets a block (default %(default)s)",
    )
    add("--tolerance", type=kinds.share, default=usual.tolerance, help="loss tolerated at rest (default %(default)g)")
    add(
        "--der",
        type=kinds.probability,
        default=usual.decoding_error_rate,
        help="decoding error rate (default %(default)g)",
    )
    add("--labels", choices=("stratified", "random"), default=usual.labels)
    add(
        "--symbol-bytes",
        type=kinds.symbol_bytes,
        default=usual.symbol_bytes,
        help="bytes of a coded symbol (default %(default)s)",
    )
    add(
        "--playback",
        type=kinds.buffering,
        metavar="S",
        help=f"playback buffer (default {LEAST_PLAYBACK_S:g} s, or {LEAST_PLAYBACK_BLOCKS} blocks' time where that is longer)",
    )
    add(
        "--most-overhead",
        type=kinds.overhead,
        help="upper limit of (N - M) / M (default: what failures of the links can require)",
    )
    add(
        "--hold",
        type=kinds.holding,
        default=usual.hold_s,
        metavar="S",
        help="time without losses after which redundancy falls (default %(default)g s)",
    )


class _Profile(argparse.Action):
    """Sets what the profile says, but for options that were given another value already; options after it win as well."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        for name, value in PROFILES[values].items():
            if getattr(namespace, name) == parser.get_default(name):
                setattr(namespace, name, value)
        setattr(namespace, self.dest, values)


def add_fault_options(parser: argparse.ArgumentParser) -> None:
    """--faults and how each-link breaks and measures."""
    add = parser.add_argument
    add("--faults", default="each-link", metavar=f"each-link|none|poisson:...|{FAULT_WORDS}|FILE", help=FAULTS_HELP)
    add("--fault-kind", choices=("down", "blackhole", "loss"), default="down", help="of each-link (default down)")
    add(
        "--fault-loss",
        type=kinds.fraction,
        default=0.5,
        metavar="FRACTION",
        help="of --fault-kind loss (default 0.5)",
    )
    add("--one-way", action="store_true", help="each-link: break only the loaded direction")
    add(
        "--precision",
        type=kinds.points,
        default=1.0,
        metavar="POINTS",
        help="of measured loss, in points (default 1)",
    )
    add("--links", type=kinds.count, metavar="N", help="each-link: at most N links, evenly over their loads")


def stream_parameters(args: argparse.Namespace) -> StreamParameters:
    return StreamParameters(
        rate_pps=args.rate_pps,
        source_packets=args.m,
        symbol_bytes=args.symbol_bytes,
        tolerance=args.tolerance,
        decoding_error_rate=args.der,
        labels=args.labels,
        playback_s=args.playback,
        hold_s=args.hold,
        most_overhead=args.most_overhead,
    )


def session_request(args: argparse.Namespace) -> SessionRequest:
    """Raises InputError where an option or the faults' file cannot be used."""
    return SessionRequest(
        network=args.network,
        source=args.source,
        sink=args.sink,
        method=args.method,
        layers=args.layers,
        stream=stream_parameters(args),
        faults=_faults(args),
        duration_s=args.duration,
        seed=args.seed,
    )


def _faults(args: argparse.Namespace) -> EachLink | PoissonFaults | tuple[Fault, ...]:
    if args.faults.startswith("poisson:"):
        return parse_poisson(args.faults)
    if args.faults == "each-link":
        return EachLink(
            kind=args.fault_kind,
            direction="forward" if args.one_way else "both",
            loss_fraction=args.fault_loss if args.fault_kind == "loss" else 1.0,
            precision=args.precision / 100,
            most=args.links,
        )
    return read_faults(args.faults, load_network(args.network), hint=NO_FILE)
