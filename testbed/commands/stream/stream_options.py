"""Options that stream, demo and experiments share, and their way from arguments to a session request."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.fault_files import parse_faults
from testbed.faults.fault_schedules import PoissonFaults
from testbed.stream.plan import StreamParameters
from testbed.stream.planning import EachLink
from testbed.stream.profiles import PROFILES
from testbed.stream.session import SessionRequest
from topologies import load_network

FABRICS = ("emulation", "simulator")
FAULTS_HELP = (
    "default each-link; poisson:rate=R,lasts=S: every loaded cable fails R times a second for S s, overlaps included"
)
_POISSON = {
    "rate": "rate_per_s",
    "lasts": "lasts_s",
    "start": "start_s",
    "lengths": "lengths",
    "kind": "kind",
    "loss": "loss_fraction",
}


def add_fabric_options(parser: argparse.ArgumentParser) -> None:
    """--fabric, --seed, --results, --json."""
    parser.add_argument("--fabric", choices=FABRICS, help="default: emulation where this machine can, else simulator")
    parser.add_argument("--seed", type=int, default=1, help="seed of labels, faults and content (default 1)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where runs are kept (default results)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")


def add_stream_options(parser: argparse.ArgumentParser) -> None:
    """Coding, pacing and reporting; defaults are those of StreamParameters."""
    usual = StreamParameters()
    add = parser.add_argument
    add(
        "--profile", action=_Profile, choices=tuple(PROFILES), help="voip, video: rate, M, symbol size, playback buffer"
    )
    add("--rate-pps", type=float, default=usual.rate_pps, help="source packets a second (default %(default)g)")
    add("--m", type=int, default=usual.source_packets, help="source packets a block (default %(default)s)")
    add("--tolerance", type=float, default=usual.tolerance, help="loss tolerated at rest (default %(default)g)")
    add("--der", type=float, default=usual.decoding_error_rate, help="decoding error rate (default %(default)g)")
    add("--labels", choices=("stratified", "random"), default=usual.labels)
    add("--symbol-bytes", type=int, default=usual.symbol_bytes, help="bytes of a coded symbol (default %(default)s)")
    add("--playback", type=float, default=usual.playback_s, metavar="S", help="playback buffer (default %(default)g s)")
    add("--most-overhead", type=float, help="cap of (N - M) / M (default: what the links can call for)")
    add("--hold", type=float, default=usual.hold_s, metavar="S", help="before redundancy falls (default %(default)g s)")


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
    add("--faults", default="each-link", metavar="each-link|none|poisson:...|FILE", help=FAULTS_HELP)
    add("--fault-kind", choices=("down", "blackhole", "loss"), default="down", help="of each-link (default down)")
    add("--fault-loss", type=float, default=0.5, metavar="FRACTION", help="of --fault-kind loss (default 0.5)")
    add("--one-way", action="store_true", help="each-link: break only the loaded direction")
    add("--precision", type=float, default=1.0, metavar="POINTS", help="of measured loss, in points (default 1)")
    add("--links", type=int, metavar="N", help="each-link: at most N links, evenly over their loads")


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


def poisson_faults_of(text: str) -> PoissonFaults:
    """``poisson:rate=0.01,lasts=1`` with start, lengths (fixed, exponential), kind and loss; InputError naming the wrong word."""
    values: dict[str, Any] = {}
    for word in text.partition(":")[2].split(","):
        name, _, value = word.partition("=")
        if name not in _POISSON:
            raise InputError(f"faults {text!r}: {word!r} is none of {', '.join(f'{key}=' for key in _POISSON)}")
        try:
            values[_POISSON[name]] = value if name in ("lengths", "kind") else float(value)
        except ValueError:
            raise InputError(f"faults {text!r}: {value!r} is no number") from None
    missing = [key for key in ("rate", "lasts") if _POISSON[key] not in values]
    if missing:
        raise InputError(f"faults {text!r}: {missing[0]}= is missing; write poisson:rate=0.01,lasts=1")
    faults = PoissonFaults(**values)
    Fault(link=("a", "b", 0), start_s=0, stop_s=1, kind=faults.kind, loss_fraction=faults.loss_fraction)
    return faults


def _faults(args: argparse.Namespace) -> EachLink | PoissonFaults | tuple[Fault, ...]:
    if args.faults == "none":
        return ()
    if args.faults.startswith("poisson:"):
        return poisson_faults_of(args.faults)
    if args.faults == "each-link":
        if args.links is not None and args.links < 1:
            raise InputError(f"--links {args.links}: give 1 or more")
        return EachLink(
            kind=args.fault_kind,
            direction="forward" if args.one_way else "both",
            loss_fraction=args.fault_loss if args.fault_kind == "loss" else 1.0,
            precision=args.precision / 100,
            most=args.links,
        )
    try:
        document = json.loads(Path(args.faults).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"faults {args.faults!r}: {error.strerror}; give each-link, none or a JSON file") from None
    except ValueError as error:
        raise InputError(f"faults {args.faults!r}: not JSON ({error})") from None
    return parse_faults(document, load_network(args.network), f"faults {args.faults!r}")
