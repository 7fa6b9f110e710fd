"""Options of striped files, for the command and the library."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from testbed.faults.grammar import no_faults
from testbed.faults.reading import FAULT_WORDS, FaultsLike
from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import (
    Only,
    ends,
    failing,
    link_rate,
    option,
    options,
    routed,
    running,
    sent,
    sought,
)

if TYPE_CHECKING:
    from testbed.bulk.plan import KilledProcess, Switching

Access = Literal["contiguous", "strided", "random", "matrix-columns"]
Operation = Literal["write", "read", "both"]
# The optimisations of the library that can be disabled one by one.
Optimisation = Literal["sort", "merge", "combine", "pipeline"]
Order = Literal["first", "random"]
# The largest file that can be requested.
MAX_FILE_BYTES = 1 << 31


def _on_one_machine(arguments: Namespace) -> bool:
    return arguments.machines is None


def _has_blocks(arguments: Namespace) -> bool:
    return arguments.access in ("strided", "random")


def _without_schedule(arguments: Namespace) -> bool:
    return arguments.schedule is None


def _has_faults(texts: Sequence[str]) -> bool:
    return not all(no_faults(text) for text in texts)


_ONE_MACHINE = (Only(when=_on_one_machine, needs="a run on one machine, without --machines"),)


@options
class StripingOptions:
    """Options of a plan. Sizes are in bytes.

    Attributes:
        network: The network.
        compute_nodes: The number of hosts that write or read.
        io_nodes: The number of hosts that store the subfiles.
        stripe_unit: The size of a stripe unit.
        file_bytes: The size of the file. None: 200 kB for each pair of hosts, and at least 4 MB.
        operation: Whether the file is written, read, or both.
        access: The blocks of each process (``access_blocks``).
        access_block_bytes: The size of a block of strided and random access.
        optimise: False: one message per fragment.
        disable: Optimisations that the library does not use.
        scheduling: How the transfers are ordered.
        schedule: A file with time frames, used instead of ``scheduling``.
        switching: Whether each transfer waits for its circuit.
        repetitions: How often each operation is carried out.
        link_rate_bps: The rate of every link. None: rates in proportion to the network's own.
        routing: The static routing. None: the network's own.
        host_selection: Which hosts take part.
        faults: The link failures and impairments.
        kill: The listeners that are killed.
        solver_time_limit_s: The time limit of the search for a schedule.
        seed: The seed of all random choices.
    """

    network: NetworkLike = option(
        kw_only=False,
        positional=True,
        metavar="NETWORK",
        help="network with hosts: a catalogue name (swiss-t1, crossbar:8, ...) or a file",
    )
    compute_nodes: int = ends(
        kw_only=False, kind=kinds.some, help="number of hosts that write or read"
    )
    io_nodes: int = ends(kw_only=False, kind=kinds.some, help="number of hosts that store the file")
    stripe_unit: int = sent(
        default=200,
        kind=kinds.bytes_up_to(MAX_FILE_BYTES),
        help="size of a stripe unit, in bytes",
    )
    file_bytes: int | None = sent(
        default=None,
        kind=kinds.bytes_up_to(MAX_FILE_BYTES),
        help="size of the file (default: 200 kB for each pair of hosts, at least 4 MB)",
    )
    operation: Operation = sent(
        default="write", choices=get_args(Operation), help="operations on the file"
    )
    access: Access = sent(
        default="contiguous",
        choices=get_args(Access),
        help="parts of the file that each host accesses",
    )
    access_block_bytes: int = sent(
        default=1000,
        kind=kinds.size_bytes,
        help="block size of strided and random access",
        only=(Only(when=_has_blocks, needs="--access strided or random"),),
    )
    optimise: bool = routed(
        default=True,
        help="collect the fragments of a call in one message per I/O node (default: yes)",
    )
    disable: Sequence[Optimisation] = routed(
        default=(),
        many=True,
        choices=get_args(Optimisation),
        help="disable one optimisation (repeatable)",
    )
    scheduling: str = routed(
        default="none",
        choices=("none", "liquid"),
        metavar="METHOD",
        help="order of the transfers",
        only=(
            *_ONE_MACHINE,
            Only(when=_without_schedule, needs="a run without --schedule"),
        ),
    )
    schedule: str | Path | None = routed(
        default=None,
        metavar="FILE",
        help="pairs and time frames, as written by testbed schedule NETWORK --pattern PAIRS "
        "--output",
        only=_ONE_MACHINE,
    )
    switching: Switching | None = routed(
        default=None,
        choices=("packet", "circuit"),
        help="kind of switching (default: circuit if transfers are scheduled, otherwise packet)",
        only=_ONE_MACHINE,
    )
    repetitions: int = sent(
        default=1,
        kind=kinds.whole(1, 1000),
        help="number of times that each operation is carried out",
    )
    link_rate_bps: float | None = link_rate()
    routing: str | None = routed(
        default=None, metavar="METHOD", help="static routing method (default: the network's method)"
    )
    host_selection: Order = ends(
        default="first", choices=get_args(Order), help="choice of the hosts that take part"
    )
    faults: FaultsLike = failing(
        default=(),
        many=True,
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="links that fail, as in s1-s2@0.2-3 (repeatable)",
        switches_only=_has_faults,
    )
    kill: Sequence[str | KilledProcess] = failing(
        default=(),
        many=True,
        metavar="NODE@TIME",
        help="kill the listener of this node TIME seconds after the start",
        only=_ONE_MACHINE,
        switches_only=True,
    )
    solver_time_limit_s: float = sought(
        help="time limit of the search for a schedule, in seconds", only=_ONE_MACHINE
    )
    seed: int = running(default=1, kind=kinds.seed, help="seed of all random choices")


@options
class StripingRunOptions:
    """Options of the command that the library does not have.

    Attributes:
        write_pattern: The file to which the pairs of hosts are written, instead of a run.
        subfile_dir: The directory that keeps the subfiles.
    """

    write_pattern: Path | None = routed(
        default=None,
        metavar="FILE",
        help="write the pairs of hosts of this run to a file for --pattern, and run nothing",
    )
    subfile_dir: Path | None = sent(
        default=None,
        metavar="DIR",
        help="store the subfiles in this directory (default: they are removed)",
        only=_ONE_MACHINE,
    )
