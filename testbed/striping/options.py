"""What is written or read of a striped file, and how, for the command and the library."""

from __future__ import annotations

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
Optimisation = Literal["sort", "merge", "combine", "pipeline"]
"""Those of the library's settings that can be left out one by one."""
Order = Literal["first", "random"]
MAX_FILE_BYTES = 1 << 31
_ONE_MACHINE = (
    Only(when=lambda a: a.machines is None, needs="a run on one machine, without --machines"),
)


@options
class StripingOptions:
    """What a user asks for; sizes in bytes. ``file_bytes`` None: 200 kB for each pair of hosts, 4 MB at least.
    ``optimise`` false: one message a fragment. ``disable``: optimisations that are left out of a call's one message.
    ``schedule``: a file with time frames, in place of ``scheduling``. ``repetitions``: times that each operation is
    carried out."""

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
        only=(
            Only(
                when=lambda a: a.access in ("strided", "random"), needs="--access strided or random"
            ),
        ),
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
            Only(when=lambda a: a.schedule is None, needs="a run without --schedule"),
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
        switches_only=lambda words: not all(map(no_faults, words)),
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
    """Of a run of the command."""

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
