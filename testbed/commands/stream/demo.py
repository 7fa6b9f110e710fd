"""``testbed demo``: the whole idea on three networks: Swiss-T1, an optical cloud, a frame of a mobile network."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from testbed.commands.live import start_live
from testbed.commands.runs import add_run_options, command_line

if TYPE_CHECKING:
    from testbed.stream.session import SessionRequest


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "demo", help="coded streams over capillary routes on three networks while links fail (under 2 minutes)"
    )
    parser.add_argument("--quick", action="store_true", help="two links a network instead of six")
    add_run_options(parser, seeded="labels, faults and content")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code: the verdict's."""
    from testbed.commands.stream.closing import show_result
    from testbed.emulation.sandbox.sandbox import enter_sandbox, in_sandbox
    from testbed.stream.run_batch import RunBatch, run_suite
    from testbed.stream.session import choose_fabric

    fabric = choose_fabric(args.fabric)
    start_live(args)
    if fabric == "emulation" and not in_sandbox():
        enter_sandbox(sys.argv[1:])
    rate_pps = _rate_pps(fabric)
    requests = demo_requests(quick=args.quick, seed=args.seed, rate_pps=rate_pps)
    suite = RunBatch(
        name="demo",
        command=command_line(),
        requests=tuple(r for _, r in requests),
        titles=tuple(t for t, _ in requests),
        seed=args.seed,
        repeats_if_invalid=2,
    )
    result = run_suite(suite, fabric, args.results)
    if args.json:
        failed = [c.name for c in result.verdict.checks if not c.passed]
        verdict = {"passed": result.verdict.passed, "invalid": result.verdict.invalid, "failed": failed}
        streams = result.documents()
        document = {"fabric": fabric, "sessions": streams, "streams": streams, "verdict": verdict}
        print(json.dumps(document | {"results": str(result.directory)}))
    else:
        show_result(result)
    return result.verdict.exit_code


def _rate_pps(fabric: str) -> float:
    """What this machine streams at its ease; says so in one line where that is less than usual."""
    from testbed.stream.emulated.calibration import STEPS_PPS, affordable_rate_pps

    rate_pps = affordable_rate_pps() if fabric == "emulation" else STEPS_PPS[0]
    if rate_pps < STEPS_PPS[0]:
        print(f"testbed: a slow machine: streaming {rate_pps:g} packets/s instead of {STEPS_PPS[0]:g}", file=sys.stderr)
    return rate_pps


def demo_requests(*, quick: bool, seed: int, rate_pps: float = 1000.0) -> list[tuple[str, SessionRequest]]:
    """(title, request) of the demo's sessions; six links (two when quick) fail on each network.

    Playback buffer and hold grow as the rate falls: they are told in blocks.
    """
    from testbed.stream.plan import StreamParameters
    from testbed.stream.planning import EachLink
    from testbed.stream.session import SessionRequest

    slower = 1000.0 / rate_pps
    stream = StreamParameters(rate_pps=rate_pps, playback_s=0.4 * slower, hold_s=1.0 * slower)
    faults = EachLink(most=2 if quick else 6)
    networks = (
        ("Swiss-T1", "swiss-t1", "s1", "s6"),
        ("Optical cloud (NSFNET)", "optical-cloud", "x1", "x14"),
        ("Mobile network, 40 nodes", f"manet:nodes=40,seed={seed}", "n0", "n39"),
    )
    return [
        (title, SessionRequest(network=net, source=a, sink=b, stream=stream, faults=faults, seed=seed))
        for title, net, a, b in networks
    ]
