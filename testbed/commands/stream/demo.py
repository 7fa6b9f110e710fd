"""``testbed demo``: the whole idea on three networks: Swiss-T1, an optical cloud, a frame of a mobile network."""

import argparse
import sys
from typing import TYPE_CHECKING

from testbed.commands.answer import Answer, add_run_options, run_manifest, run_streams, start_live
from testbed.emulation.machine.fabric import choose_fabric
from testbed.emulation.sandbox.sandbox import enter_sandbox

if TYPE_CHECKING:
    from testbed.stream.run_in_turn import Titled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="two links a network instead of six")
    add_run_options(parser)


def run(args: argparse.Namespace) -> Answer:
    """With the verdict's exit code."""
    fabric = choose_fabric(args.fabric)
    start_live(args)
    if fabric == "emulation":
        enter_sandbox(sys.argv[1:])
    streams = demo_streams(quick=args.quick, seed=args.seed, rate_pps=_rate_pps(fabric))
    return run_streams(args, fabric, streams, "demo", run_manifest(args))


def _rate_pps(fabric: str) -> float:
    """What this machine streams at its ease; says so in one line where that is less than usual."""
    from testbed.stream.emulated.calibration import STEPS_PPS, affordable_rate_pps

    rate_pps = affordable_rate_pps() if fabric == "emulation" else STEPS_PPS[0]
    if rate_pps < STEPS_PPS[0]:
        print(
            f"testbed: a slow machine: streaming {rate_pps:g} packets/s instead of {STEPS_PPS[0]:g}",
            file=sys.stderr,
        )
    return rate_pps


def demo_streams(*, quick: bool, seed: int, rate_pps: float = 1000.0) -> "Titled":
    """The demo's streams; six links (two when quick) fail on each network.

    Playback buffer and hold grow as the rate falls: they are told in blocks.
    """
    from testbed.stream.workload import stream_plan

    slower = 1000.0 / rate_pps
    networks = (
        ("Swiss-T1", "swiss-t1", "s1", "s6"),
        ("Optical cloud (NSFNET)", "optical-cloud", "x1", "x14"),
        ("Mobile network, 40 nodes", f"manet:nodes=40,seed={seed}", "n0", "n39"),
    )
    return [
        (
            title,
            stream_plan(
                network,
                source,
                sink,
                rate_pps=rate_pps,
                playback_s=0.4 * slower,
                hold_s=1.0 * slower,
                links=2 if quick else 6,
                seed=seed,
            ),
        )
        for title, network, source, sink in networks
    ]
