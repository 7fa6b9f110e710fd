"""Options of bulk transfers, for the command and the library."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from testbed.bulk.coordinator import OnDeadlock
from testbed.bulk.plan import SWITCHINGS, KilledProcess, Pair, Switching
from testbed.faults.grammar import no_faults
from testbed.faults.reading import FAULT_WORDS, FaultsLike
from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import (
    Only,
    failing,
    link_rate,
    option,
    options,
    routed,
    running,
    sent,
    sought,
)

# The largest size of a message that can be requested.
MAX_MESSAGE_BYTES = 1 << 30
# Pairs of hosts, or text: "all-to-all", pairs such as "A:B,C:D", or a file of pairs.
PatternLike = str | Sequence[Pair]
# Processes that are killed; as text, "NODE@TIME".
KilledLike = Sequence[str | KilledProcess]


def _without_schedule(arguments: Namespace) -> bool:
    return arguments.schedule is None


def _without_faults(arguments: Namespace) -> bool:
    faultless = arguments.faults is None or no_faults(arguments.faults)
    return not arguments.kill and faultless


def _runs_circuits(arguments: Namespace) -> bool:
    return not (arguments.no_comparison and arguments.switching == "packet")


def _on_one_machine(arguments: Namespace) -> bool:
    return arguments.machines is None


_UNSCHEDULED = Only(when=_without_schedule, needs="a run without --schedule")


@options
class BulkOptions:
    """Options of a plan (``BulkPlan``).

    Attributes:
        network: The network.
        scheduling: The method that orders the transfers.
        pattern: The pairs of hosts.
        parts: The number of parts of a message, each with its own route.
        schedule: A file with pairs and time frames, used instead of ``pattern``, ``parts`` and
            ``scheduling``.
        message_bytes: The size of a message.
        link_rate_bps: The rate of every link. None: rates in proportion to the network's own.
        switching: Whether transfers wait for circuits.
        no_comparison: Only for the command: do not run the other switching too.
        barrier: Whether a time frame waits for all messages of the frame before it.
        routing: The static routing. None: the network's own.
        inject_packets: The number of packets that are sent without a circuit.
        faults: The link failures.
        kill: The receivers that are killed.
        solver_time_limit_s: The time limit of the search for a schedule.
        seed: The seed of all random choices.
    """

    network: NetworkLike = option(
        kw_only=False,
        positional=True,
        metavar="NETWORK",
        help="network with hosts: a catalogue name (swiss-t1, ...) or a file",
    )
    scheduling: str = routed(
        default="liquid",
        metavar="METHOD",
        help="scheduling method: liquid, round-robin, random, identical, dsatur, ...",
        only=(_UNSCHEDULED,),
    )
    pattern: PatternLike = sent(
        default="all-to-all",
        metavar="PATTERN",
        help='transfers: all-to-all, all-to-others, pairs A:B,C:D, or a file: {"pairs": [["t0", '
        '"r5"], ...]}',
        only=(_UNSCHEDULED,),
    )
    parts: int = sent(
        default=1,
        kind=kinds.whole(1, 64),
        metavar="K",
        help="number of equal parts of every message, each on its own route (balanced routes by "
        "default)",
        only=(_UNSCHEDULED,),
    )
    schedule: str | None = routed(
        default=None,
        metavar="FILE",
        help="pairs and time frames, as written by testbed schedule NETWORK --output",
    )
    message_bytes: int = sent(
        default="1MB", kind=kinds.bytes_up_to(MAX_MESSAGE_BYTES), help="size of every message"
    )
    link_rate_bps: float | None = link_rate()
    switching: Switching = routed(
        default="circuit", choices=SWITCHINGS, help="kind of switching that the verdict is about"
    )
    no_comparison: bool = routed(
        default=False,
        help="do not run the other kind of switching for comparison",
        only=(
            Only(
                when=_without_faults,
                needs="a run without faults (under faults one switching always runs alone)",
            ),
        ),
    )
    barrier: bool = routed(
        default=True, help="wait at a barrier between time frames (default: yes)"
    )
    routing: str | None = routed(
        default=None, metavar="METHOD", help="static routing method (default: the network's method)"
    )
    inject_packets: int = sent(
        default=20,
        kind=kinds.few,
        help="number of packets without a circuit that are sent during the run",
        only=(Only(when=_runs_circuits, needs="circuit switching"),),
        switches_only=True,
    )
    faults: FaultsLike | None = failing(
        default=None,
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="links that fail, as in s1-s2@1-3, or a JSON file as for testbed stream",
    )
    kill: KilledLike = failing(
        default=(),
        many=True,
        metavar="NODE@TIME",
        help="kill the process of this receiver TIME seconds after the start",
        switches_only=True,
    )
    solver_time_limit_s: float = sought(
        help="time limit of the search for a schedule, in seconds", only=(_UNSCHEDULED,)
    )
    seed: int = running(default=1, kind=kinds.seed, help="seed of all random choices")


@options
class BulkRunOptions:
    """Options of the command that a plan does not have.

    Attributes:
        on_deadlock: What happens when a cycle of waiting transfers closes.
        save_messages: The directory in which complete messages are stored.
    """

    on_deadlock: OnDeadlock = routed(
        default="retreat",
        choices=get_args(OnDeadlock),
        help="reaction to a cycle of transfers that wait for each other",
    )
    save_messages: Path | None = sent(
        default=None,
        metavar="DIR",
        help="store every message that arrived completely in this directory",
        only=(Only(when=_on_one_machine, needs="a run on one machine, without --machines"),),
        switches_only=True,
    )
