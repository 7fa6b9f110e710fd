"""``testbed doctor``: lists this machine's capabilities, with a remedy for each missing one."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from testbed.commands.answer import Answer
from testbed.errors import CapabilityError, InvalidRunError
from topologies.text.json_types import JsonObject

if TYPE_CHECKING:
    from testbed.emulation.machine.capabilities import Capability
    from testbed.model.machine.capacity import MachineCapacity


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object on stdout",
    )
    exclusive = parser.add_mutually_exclusive_group()
    exclusive.add_argument(
        "--strict",
        action="store_true",
        help="exit with code 3 if this machine does not support emulation",
    )
    exclusive.add_argument(
        "--compile",
        action="store_true",
        help="compile all code that is otherwise compiled at its first use (takes a minute, once)",
    )
    exclusive.add_argument(
        "--calibrate",
        action="store_true",
        help="measure the rate that this machine supports over real switches (takes a minute); "
        "it limits the default link rates",
    )


def run(args: argparse.Namespace) -> Answer:
    """Return the capabilities of this machine.

    Raises:
        CapabilityError: With ``--strict``, if this machine does not support emulation.
    """
    from testbed.emulation.machine.capabilities import NEEDED, as_document, find_capabilities
    from testbed.results.capacity_file import load_carried

    if args.compile:
        return _compile(args.json)
    if args.calibrate:
        return _calibrate(args.json)
    capabilities = find_capabilities()
    missing = [name for name in NEEDED if not capabilities[name].available]
    capacity = load_carried()
    document: JsonObject = {
        "emulation": not missing,
        "capabilities": as_document(capabilities),
        "capacity": None,
    }
    if capacity is not None:
        document["capacity"] = capacity.to_json()
    answer = Answer(document, partial(_show, capabilities, missing, capacity))
    if missing and args.strict:
        answer.given(args)
        first = capabilities[missing[0]]
        raise CapabilityError(f"emulation is not possible here: {first.detail}; {first.mend}")
    return answer


def _compile(as_json: bool) -> Answer:
    """Compile all code ahead, and return the duration of each task in seconds."""
    from testbed.commands.network.compile_ahead import compile_all

    duration_s = {}
    for name, seconds in compile_all():
        duration_s[name] = round(seconds, 3)
        if not as_json:
            print(f"{name:<26} {seconds:6.1f} s", flush=True)
    return Answer({"compiled": duration_s}, lambda: None)


def _calibrate(as_json: bool) -> Answer:
    """Raise the link rate until the machine no longer keeps up, and store the last that it carried.

    Raises:
        InvalidRunError: The machine does not carry the lowest rate.
    """
    from datetime import UTC, datetime

    from testbed.emulation.machine.capabilities import require_emulation
    from testbed.emulation.sandbox.sandbox import enter_sandbox
    from testbed.model.machine.capacity import MachineCapacity
    from testbed.results.capacity_file import save_carried, this_machine

    require_emulation()
    enter_sandbox(sys.argv[1:])
    carried: list[tuple[float, float]] = []
    for rate_bps in STEPS_BPS:
        link_bps, problem = _try_rate(rate_bps)
        if not as_json:
            outcome = "carried"
            if problem:
                outcome = f"not carried: {problem}"
            link = f"links of {rate_bps / 1e6:>3g} Mbit/s, {link_bps / 1e6:>5.0f} over all together"
            print(f"{link}: {outcome}", flush=True)
        if problem and not carried:
            raise InvalidRunError(
                f"this machine carries not even {rate_bps / 1e6:g} Mbit/s a link now: {problem}"
            )
        if problem:
            break
        carried.append((rate_bps, link_bps))
    processors, kernel = this_machine()
    capacity = MachineCapacity(
        link_bps=carried[-1][1],
        rate_bps=carried[-1][0],
        processors=processors,
        kernel=kernel,
        measured=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        limit_reached=len(carried) < len(STEPS_BPS),
    )
    path = save_carried(capacity)
    message = (
        f"this machine carries {capacity.link_bps / 1e6:.0f} Mbit/s over all links together; "
        f"stored in {path}"
    )
    return Answer({"capacity": capacity.to_json(), "file": str(path)}, partial(print, message))


def _show(
    capabilities: "dict[str, Capability]", missing: list[str], capacity: "MachineCapacity | None"
) -> None:
    from rich.text import Text

    from testbed.report.answers import Table
    from testbed.report.terminal import Terminal

    rows = []
    for name, capability in capabilities.items():
        if capability.available:
            mark = Text("ok", "green")
        elif name in missing:
            mark = Text("missing", "red")
        else:
            mark = Text("optional", "dim")
        rows.append((mark, name, capability.detail, capability.mend))
    headings = ("", "capability", "found", "what to do")
    console = Terminal()
    if missing:
        state = (
            f"Emulated networks cannot be run here ({', '.join(missing)}); "
            "the simulated fabric can."
        )
    else:
        state = "Emulated networks can be run here."
    console.print(Text(state))
    console.show(Table(name="capabilities", headings=headings, rows=rows))
    if capacity is None:
        print("What it carries was never measured: testbed doctor --calibrate.")
    else:
        print(
            f"It carries {capacity.link_bps / 1e6:.0f} Mbit/s over all links together, "
            f"measured {capacity.measured}."
        )


NETWORK = "swiss-t1"
# The two hosts of a pair are on the same switch. No two pairs share a link, so all send together.
PAIRS = tuple((f"t{k}", f"r{k}") for k in range(32))
# The link rates of the calibration.
STEPS_BPS = (2e6, 5e6, 10e6, 20e6, 40e6, 80e6)
# Duration of each message.
MESSAGE_S = 0.8


def _try_rate(rate_bps: float) -> tuple[float, str]:
    """Send over circuits for one time frame at a link rate, and judge the run as usual.

    A rate that fails once is tried again.

    Returns:
        The bits per second over all links together, and why the machine did not keep up, or "".
    """
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
    problem = ""
    for _ in range(2):
        try:
            with EmulatedBulkFabric() as fabric:
                judgement = judge_bulk(plan, fabric.run(plan))
        except InvalidRunError as error:
            problem = str(error)
            continue
        if judgement.verdict.passed:
            return link_bps, ""
        ratio = judgement.document["ratio"]
        problem = judgement.verdict.invalid or f"{ratio:.2f} of the predicted throughput"
    return link_bps, problem
