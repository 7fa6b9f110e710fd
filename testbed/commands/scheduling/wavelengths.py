"""``testbed wavelengths``: lightpaths into rounds of W wavelengths, beside greedy assignments; and the rounds on real switches."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from testbed.errors import CapabilityError, InputError
from testbed.model.options import kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testbed.model.verdict import Verdict
    from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan
    from topologies.network import Network

DESCRIPTION = (
    "Light a path for every pair, in as few rounds as can be: wavelength assignment as liquid scheduling. With wsxc switches a "
    "path keeps one wavelength; wixc switches may change it. With --fabric the rounds are set up on switches (a wavelength is a "
    "VLAN), packets are sent over every path and on wrong wavelengths, and a verdict says what became of them."
)
FABRICS = ("none", "simulator", "emulation")


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "wavelengths", help="assign wavelengths in an optical cloud", description=DESCRIPTION
    )
    add = parser.add_argument
    add("network", metavar="NETWORK", help="a catalogue name (optical-cloud, ring:5, ...) or a file")
    add("--pattern", default="all-to-all", metavar="all-to-all|FILE", help='a file: {"pairs": [["e1", "e2"], ...]}')
    add("--wavelengths", type=kinds.some, metavar="W", help="per fibre (default: the network's own)")
    add(
        "--switching",
        choices=("wsxc", "wixc"),
        help="keep or change wavelengths (default: the network's own, else wsxc)",
    )
    add("--method", default="liquid", help="liquid, first-fit, random-fit, most-used or longest-first (default liquid)")
    add("--time-limit", type=kinds.search_limit, default=10.0, metavar="S", help="of the search (default 10)")
    add("--fabric", choices=FABRICS, default="none", help="where to run the rounds (default none)")
    add("--packets", type=kinds.some, default=20, help="over each path in a run (default 20)")
    add("--wrong", type=kinds.few, default=2, help="on wrong wavelengths, twice this number per path (default 2)")
    add("--seed", type=kinds.seed, default=1, help="seed of everything random (default 1)")
    add("--json", action="store_true", help="print one JSON object on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; with a fabric the verdict's."""
    from topologies import load_network

    network = load_network(args.network)
    began = time.monotonic()
    plan, others = _plans(args, network)
    seconds = time.monotonic() - began
    document = {**plan.to_json(), "pattern": args.pattern, "seconds": seconds, "baselines": others}
    verdict: Verdict | None = None
    if args.fabric != "none":
        rounds = _run(args, plan)
        from testbed.wavelengths.judgement import judge_rounds

        verdict = judge_rounds(plan, rounds)
        document |= {
            "fabric": args.fabric,
            "per_round": [r.to_json() for r in rounds],
            "verdict": dict(verdict.to_json()),
        }
    if args.json:
        print(json.dumps(document))
    else:
        _print(plan, others, document.get("per_round"), verdict)
    return 0 if verdict is None else verdict.exit_code


def _plans(args: argparse.Namespace, network: Network) -> tuple[WavelengthPlan, dict[str, int]]:
    """The plan requested, and the rounds that every other method needs."""
    from testbed.scheduling.traffic.patterns import read_pattern
    from testbed.wavelengths.assignment import METHODS, Effort, all_to_all, assign_wavelengths, lightpaths_between
    from testbed.wavelengths.plan import Switching

    pairs = all_to_all(network) if args.pattern == "all-to-all" else read_pattern(args.pattern, network)
    paths = lightpaths_between(network, pairs)
    wavelengths = args.wavelengths if args.wavelengths is not None else network.attributes.get("wavelengths")
    if not isinstance(wavelengths, int):
        raise InputError(f"network {network.name!r} does not say how many wavelengths a fibre has; give --wavelengths")
    switching: Switching = args.switching or ("wixc" if network.attributes.get("conversion") == "wixc" else "wsxc")

    def assigned(method: str) -> WavelengthPlan:
        return assign_wavelengths(
            network,
            paths,
            wavelengths=wavelengths,
            switching=switching,
            method=method,
            effort=Effort(seed=args.seed, time_limit_s=args.time_limit, now=time.monotonic),
        )

    plan = assigned(args.method)
    others = {m: len(assigned(m).rounds) for m in METHODS if m not in ("liquid", args.method)}
    return plan, others


def _run(args: argparse.Namespace, plan: WavelengthPlan) -> Sequence[RoundMeasurements]:
    """The rounds on the fabric that was requested; enters the sandbox for emulation."""
    from testbed.wavelengths.rules import MAX_FABRIC_WAVELENGTHS

    if plan.wavelengths > MAX_FABRIC_WAVELENGTHS:
        raise InputError(
            f"--wavelengths {plan.wavelengths}: on a fabric give at most {MAX_FABRIC_WAVELENGTHS} (VLAN ids)"
        )
    if args.fabric == "simulator":
        from testbed.wavelengths.simulated import simulate_plan

        return simulate_plan(plan, packets=args.packets, wrong=args.wrong, seed=args.seed)
    from testbed.emulation.machine.capabilities import emulation_problem
    from testbed.emulation.sandbox.sandbox import enter_sandbox, in_sandbox
    from testbed.report.progress_bar import progress_bar

    if not in_sandbox():
        obstacle = emulation_problem()
        if obstacle is not None:
            raise CapabilityError(f"emulation is not possible here: {obstacle}; use --fabric simulator")
        enter_sandbox(sys.argv[1:])
    from testbed.wavelengths.emulated import run_wavelengths

    with progress_bar("wavelengths") as report_progress:
        return run_wavelengths(
            plan, packets=args.packets, wrong=args.wrong, seed=args.seed, report_progress=report_progress
        )


def _print(
    plan: WavelengthPlan, others: dict[str, int], rounds: Sequence[dict[str, Any]] | None, verdict: Verdict | None
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from testbed.report.terminal import Terminal

    console = Terminal()
    frames = "" if plan.frames is None else f", {plan.frames} frames"
    proved = "optimal" if plan.optimal else f"at least {plan.bound} are needed"
    console.print(
        f"{plan.network.name}: {len(plan.lightpaths)} lightpaths, bottleneck load {plan.bottleneck_load}, "
        f"{plan.wavelengths} wavelengths, {plan.switching}"
    )
    console.print(f"{plan.method}: {len(plan.rounds)} rounds ({proved}){frames}, {plan.conversions} conversions")
    console.print("beside it: " + ", ".join(f"{method} {count}" for method, count in others.items()))
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("round", "paths", "fibres", "full"):
        table.add_column(heading, justify="right")
    if rounds is not None:
        for heading in ("sent", "arrived", "astray", "wrong", "dropped", "set up"):
            table.add_column(heading, justify="right")
    for number, lit_paths in enumerate(plan.rounds):
        lit = plan.lit_wavelengths(number)
        cells = [
            str(number + 1),
            str(len(lit_paths)),
            str(len(lit)),
            f"{max(map(len, lit.values()))}/{plan.wavelengths}",
        ]
        if rounds is not None:
            r = rounds[number]
            cells += [str(r[name]) for name in ("sent", "delivered", "strays", "injected", "dropped")]
            cells.append(f"{r['setup_s']:.2f} s")
        table.add_row(*cells)
    console.print(table)
    if verdict is not None:
        from testbed.commands.runs import show_checks

        show_checks(verdict)
