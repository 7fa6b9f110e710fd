"""``testbed attach [NAME]``: a prompt on a running network; without a name, the list of them."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from testbed.commands.answer import Answer

if TYPE_CHECKING:
    from testbed.report.answers import Part
    from topologies import JsonObject

DESCRIPTION = (
    "Open the prompt of a network that is running in testbed up, testbed run or a Python "
    "session. The network goes on when the prompt is left. Without NAME, list the running "
    "networks with their age, size and owner."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="name of a running network (default: list the running networks)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the list of running networks as one JSON object (without NAME)",
    )


def run(args: argparse.Namespace) -> Answer | int:
    """Give the prompt, or list the networks; exit code 2 if a line from a pipe was wrong."""
    from testbed.emulation.attach.prompt import give_prompt
    from testbed.emulation.attach.running import running_networks

    if args.name is None:
        running = running_networks()
        document = {"networks": [row["name"] for row in running], "running": running}
        return Answer(document, partial(_show, running))
    # At the prompt Ctrl-C ends a line or a program, as often as the user presses it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return give_prompt(args.name, sign=f"{args.name}> ")


def _show(running: list[JsonObject]) -> Iterator[Part]:
    from testbed.report.answers import Table

    if not running:
        yield "no network is up"
        return
    headings = ("name", "age", "switches", "hosts", "cables", "owner", "process")
    rows = []
    for row in running:
        size = [row["switches"], row["hosts"], row["cables"]]
        rows.append([row["name"], _age(row["age_s"]), *size, row["owner"], row["pid"]])
    yield Table(name="networks", headings=headings, rows=rows)


def _age(seconds: float | None) -> str:
    """Return a duration in one or two units.

    >>> _age(4.2), _age(754), _age(93784), _age(None)
    ('4 s', '12 min 34 s', '1 d 2 h', '-')
    """
    if seconds is None:
        return "-"
    remaining = int(seconds)
    parts: list[str] = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, remaining = divmod(remaining, length)
        if number or (unit == "s" and not parts):
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])
