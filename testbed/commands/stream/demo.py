"""``testbed demo``: streams on three networks: Swiss-T1, an optical cloud and a mobile network."""

import argparse
import sys
from typing import TYPE_CHECKING

from testbed.commands.answer import Answer, add_run_options, run_manifest, run_streams, start_live
from testbed.emulation.machine.fabric import choose_fabric
from testbed.emulation.sandbox.sandbox import enter_sandbox

if TYPE_CHECKING:
    from testbed.stream.run_in_turn import Titled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--quick",
        action="store_true",
        help="let two links fail on each network, instead of six",
    )
    add_run_options(parser)


def run(args: argparse.Namespace) -> Answer:
    """Run the streams, and return their verdict."""
    fabric = choose_fabric(args.fabric)
    start_live(args)
    if fabric == "emulation":
        enter_sandbox(sys.argv[1:])
    streams = demo_streams(quick=args.quick, seed=args.seed, rate_pps=_rate_pps(fabric))
    return run_streams(args, fabric, streams, "demo", run_manifest(args))


def _rate_pps(fabric: str) -> float:
    """Return the packet rate that this machine supports, and report a rate below the usual one."""
    from testbed.stream.emulated.calibration import STEPS_PPS, affordable_rate_pps

    rate_pps = STEPS_PPS[0]
    if fabric == "emulation":
        rate_pps = affordable_rate_pps()
    if rate_pps < STEPS_PPS[0]:
        message = f"streaming {rate_pps:g} packets/s instead of {STEPS_PPS[0]:g}"
        print(f"testbed: a slow machine: {message}", file=sys.stderr)
    return rate_pps


def demo_streams(*, quick: bool, seed: int, rate_pps: float = 1000.0) -> "Titled":
    """Return the streams of the demo and their titles.

    The playback delay and the time until a sender reduces its redundancy are numbers of blocks, so
    that they grow as the rate falls.

    Args:
        quick: Whether two links fail on each network, instead of six.
        seed: The seed of the streams and of the mobile network.
        rate_pps: The packet rate of each stream.
    """
    from testbed.stream.workload import stream_plan

    slower = 1000.0 / rate_pps
    links = 6
    if quick:
        links = 2
    networks = (
        ("Swiss-T1", "swiss-t1", "s1", "s6"),
        ("Optical cloud (NSFNET)", "optical-cloud", "x1", "x14"),
        ("Mobile network, 40 nodes", f"manet:nodes=40,seed={seed}", "n0", "n39"),
    )
    streams = []
    for title, network, source, sink in networks:
        plan = stream_plan(
            network,
            source,
            sink,
            rate_pps=rate_pps,
            playback_s=0.4 * slower,
            hold_s=1.0 * slower,
            links=links,
            seed=seed,
        )
        streams.append((title, plan))
    return streams
