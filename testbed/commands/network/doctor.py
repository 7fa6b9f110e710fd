"""``testbed doctor``: what this machine can do for the testbed, and what to do about each lack."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from testbed.errors import CapabilityError

if TYPE_CHECKING:
    from testbed.emulation.machine.capabilities import Capability


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor", help="try out what this machine can do, and say what to do about each lack"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--strict", action="store_true", help="exit with 3 where emulation is not possible")
    parser.add_argument(
        "--compile", action="store_true", help="compile ahead what is compiled at first use (a minute, once)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code 0 whatever is missing; with --strict 3 where emulated networks cannot be run."""
    from testbed.emulation.machine.capabilities import as_document, find_capabilities, missing_for_emulation

    if args.compile:
        return _compile(args.json)
    found = find_capabilities()
    missing = missing_for_emulation(found)
    if args.json:
        print(json.dumps({"emulation": not missing, "capabilities": as_document(found)}))
    else:
        _show(found, missing)
    if missing and args.strict:
        raise CapabilityError(f"emulation is not possible here: {found[missing[0]].detail}; {found[missing[0]].mend}")
    return 0


def _compile(as_json: bool) -> int:
    """What was compiled, and how long it took: next to nothing where it had been compiled before."""
    from testbed.commands.network.kernels import compile_all

    taken = {}
    for name, seconds in compile_all():
        taken[name] = round(seconds, 3)
        if not as_json:
            print(f"{name:<22} {seconds:6.1f} s", flush=True)
    if as_json:
        print(json.dumps({"compiled": taken}))
    return 0


def _show(found: dict[str, Capability], missing: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "capability", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for name, capability in found.items():
        mark = (
            Text("ok", style="green")
            if capability.available
            else Text("--", style="red" if name in missing else "yellow")
        )
        table.add_row(mark, name, Text(capability.detail), Text(capability.mend))
    console = Console()
    console.print(table)
    if missing:
        console.print(Text(f"Emulated networks cannot be run here ({', '.join(missing)}); the simulated fabric can."))
    else:
        console.print(Text("Emulated networks can be run here."))
