"""``testbed doctor``: what this machine can do for the testbed, and what to do about each lack."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from testbed.commands.answer import Answer
from testbed.errors import CapabilityError, InvalidRunError

if TYPE_CHECKING:
    from testbed.emulation.machine.capabilities import Capability
    from testbed.model.machine.capacity import MachineCapacity


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    exclusive = parser.add_mutually_exclusive_group()
    exclusive.add_argument(
        "--strict", action="store_true", help="exit with 3 where emulation is not possible"
    )
    exclusive.add_argument(
        "--compile",
        action="store_true",
        help="compile ahead what is compiled at first use (a minute, once)",
    )
    exclusive.add_argument(
        "--calibrate",
        action="store_true",
        help="measure what this machine carries over real switches (a minute); default link rates follow from it",
    )


def run(args: argparse.Namespace) -> Answer:
    """Exit code 0 whatever is missing; with --strict 3 where emulated networks cannot be run."""
    from testbed.emulation.machine.capabilities import NEEDED, as_document, find_capabilities
    from testbed.results.capacity_file import load_carried

    if args.compile:
        return _compile(args.json)
    if args.calibrate:
        return _calibrate(args.json)
    found = find_capabilities()
    missing = [name for name in NEEDED if not found[name].available]
    carried = load_carried()
    document = {"emulation": not missing, "capabilities": as_document(found)}
    document |= {"capacity": None if carried is None else carried.to_json()}
    answer = Answer(document, partial(_show, found, missing, carried))
    if missing and args.strict:
        answer.given(args)
        raise CapabilityError(
            f"emulation is not possible here: {found[missing[0]].detail}; {found[missing[0]].mend}"
        )
    return answer


def _compile(as_json: bool) -> Answer:
    """What was compiled, and how long it took: next to nothing where it had been compiled before."""
    from testbed.commands.network.compile_ahead import compile_all

    taken = {}
    for name, seconds in compile_all():
        taken[name] = round(seconds, 3)
        if not as_json:
            print(f"{name:<26} {seconds:6.1f} s", flush=True)
    return Answer({"compiled": taken}, lambda: None)


def _calibrate(as_json: bool) -> Answer:
    """Raise the rate until the machine no longer keeps up; keep the last that it carried. InvalidRunError where it
    carries none."""
    from datetime import UTC, datetime

    from testbed.emulation.machine.capabilities import require_emulation
    from testbed.emulation.sandbox.sandbox import enter_sandbox
    from testbed.model.machine.capacity import MachineCapacity
    from testbed.results.capacity_file import save_carried, this_machine

    require_emulation()
    enter_sandbox(sys.argv[1:])
    carried: list[tuple[float, float]] = []
    for rate_bps in STEPS_BPS:  # up to the first that the machine does not carry
        link_bps, why = _tried(rate_bps)
        if not as_json:
            words = f"not carried: {why}" if why else "carried"
            link = f"links of {rate_bps / 1e6:>3g} Mbit/s, {link_bps / 1e6:>5.0f} over all together"
            print(f"{link}: {words}", flush=True)
        if why and not carried:
            raise InvalidRunError(
                f"this machine carries not even {rate_bps / 1e6:g} Mbit/s a link now: {why}"
            )
        if why:
            break
        carried.append((rate_bps, link_bps))
    processors, kernel = this_machine()
    load = MachineCapacity(
        link_bps=carried[-1][1],
        rate_bps=carried[-1][0],
        processors=processors,
        kernel=kernel,
        measured=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        limit_reached=len(carried) < len(STEPS_BPS),
    )
    path = save_carried(load)
    says = f"this machine carries {load.link_bps / 1e6:.0f} Mbit/s over all links together; stored in {path}"
    return Answer({"capacity": load.to_json(), "file": str(path)}, partial(print, says))


def _show(
    found: "dict[str, Capability]", missing: list[str], carried: "MachineCapacity | None"
) -> None:
    from rich.text import Text

    from testbed.report.answers import Table
    from testbed.report.terminal import Terminal

    rows = []
    for name, capability in found.items():
        lack = Text("missing", "red") if name in missing else Text("optional", "dim")
        mark = Text("ok", "green") if capability.available else lack
        rows.append((mark, name, capability.detail, capability.mend))
    headings = ("", "capability", "found", "what to do")
    console = Terminal()
    if missing:
        console.print(
            Text(
                f"Emulated networks cannot be run here ({', '.join(missing)}); the simulated fabric can."
            )
        )
    else:
        console.print(Text("Emulated networks can be run here."))
    console.show(Table(name="capabilities", headings=headings, rows=rows))
    print(
        "What it carries was never measured: testbed doctor --calibrate."
        if carried is None
        else f"It carries {carried.link_bps / 1e6:.0f} Mbit/s over all links together, measured {carried.measured}."
    )


NETWORK = "swiss-t1"
PAIRS = tuple((f"t{k}", f"r{k}") for k in range(32))
"""Each pair on one switch: no two share a link, and all send at once."""
STEPS_BPS = (2e6, 5e6, 10e6, 20e6, 40e6, 80e6)
MESSAGE_S = 0.8
"""How long each message takes."""


def _tried(rate_bps: float) -> tuple[float, str]:
    """Bits a second over all links together, and why the machine did not keep up, empty where it did: circuits for one
    time frame, and the verdict of an ordinary run. A rate that fails once is tried again."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric
    from testbed.bulk.judgement import judge_bulk
    from testbed.bulk.workload import bulk_plan
    from testbed.model.machine.capacity import busy_links

    plan = bulk_plan(
        NETWORK,
        pattern=PAIRS,
        link_rate_bps=rate_bps,
        message_bytes=round(rate_bps * MESSAGE_S / 8),
        inject_packets=0,
    )
    link_bps = rate_bps * busy_links([len(t.path) for t in plan.transfers], len(plan.frames))
    why = ""
    for _ in range(2):
        try:
            with EmulatedBulkFabric() as fabric:
                judged = judge_bulk(plan, fabric.run(plan))
        except InvalidRunError as error:
            why = str(error)
            continue
        if judged.verdict.passed:
            return link_bps, ""
        why = (
            judged.verdict.invalid or f"{judged.document['ratio']:.2f} of the predicted throughput"
        )
    return link_bps, why
