"""What is written or read of a striped file, and how, for the command and the library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from testbed.faults.grammar import no_faults
from testbed.faults.reading import FAULT_WORDS, FaultsLike
from testbed.model.naming.networks import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import ENDS, FAULTS, ROUTED, RUN, SENT, Only, option, options

if TYPE_CHECKING:
    from testbed.bulk.plan import KilledProcess, Switching

Access = Literal["contiguous", "strided", "random", "matrix-columns"]
Operation = Literal["write", "read", "both"]
Optimisation = Literal["sort", "merge", "combine", "pipeline"]
"""Those of the library's settings that can be left out one by one."""
Order = Literal["first", "random"]
MAX_FILE_BYTES = 1 << 31
_ONE_MACHINE = (Only(when=lambda a: a.machines is None, needs="a run on one machine, without --machines"),)


@options
class StripingOptions:
    """What a user asks for; sizes in bytes. ``file_bytes`` None: 200 kB for each pair of hosts, 4 MB at least. ``optimise`` false: one
    message a fragment. ``without``: optimisations that are left out of a call's one message. ``schedule``: "none", "liquid" or a file
    with time frames. ``repeat``: times that each operation is carried out."""

    network: NetworkLike = option(
        kw_only=False,
        positional=True,
        metavar="NETWORK",
        help="a network with hosts (swiss-t1, crossbar:8, ...) or a file",
    )
    compute_nodes: int = option(kw_only=False, kind=kinds.some, group=ENDS, metavar="N")
    io_nodes: int = option(kw_only=False, kind=kinds.some, group=ENDS, metavar="N")
    stripe_unit: int = option(
        default=200, kind=kinds.bytes_up_to(MAX_FILE_BYTES), group=SENT, metavar="BYTES", help="default {default}"
    )
    file_bytes: int | None = option(
        default=None,
        flag="--file-size",
        kind=kinds.bytes_up_to(MAX_FILE_BYTES),
        group=SENT,
        metavar="SIZE",
        help="default 200 kB for each pair of hosts, 4 MB at least",
    )
    operation: Operation = option(default="write", choices=get_args(Operation), group=SENT, help="default {default}")
    access: Access = option(default="contiguous", choices=get_args(Access), group=SENT)
    block_bytes: int = option(
        default=1000,
        flag="--block-size",
        kind=kinds.size_bytes,
        group=SENT,
        metavar="SIZE",
        help="of strided and random access (default {default})",
        only=(Only(when=lambda a: a.access in ("strided", "random"), needs="--access strided or random"),),
    )
    optimise: bool = option(
        default=True, group=ROUTED, help="gather the fragments of a call into one message an I/O node (default: yes)"
    )
    without: Sequence[Optimisation] = option(
        default=(),
        many=True,
        choices=get_args(Optimisation),
        group=ROUTED,
        help="disable one optimisation (repeatable)",
    )
    schedule: str | Path = option(
        default="none",
        group=ROUTED,
        metavar="none|liquid|FILE",
        help="order of the transfers (default {default}); a file: what testbed schedule NETWORK --pattern PAIRS --output wrote",
        only=_ONE_MACHINE,
    )
    switching: Switching | None = option(
        default=None,
        choices=("packet", "circuit"),
        group=ROUTED,
        help="default: circuit with a --schedule, else packet",
        only=_ONE_MACHINE,
    )
    repeat: int = option(
        default=1,
        kind=kinds.whole(1, 1000),
        group=SENT,
        metavar="N",
        help="carry every operation out N times (default {default})",
    )
    link_rate_bps: float | None = option(
        default=None,
        flag="--link-rate",
        kind=kinds.rate_bps,
        group=ENDS,
        metavar="RATE",
        help="of every link (default 20Mbps, or less where testbed doctor --calibrate found that this machine carries less)",
    )
    routing: str | None = option(default=None, group=ROUTED, help="static routing method (default: the network's own)")
    order: Order = option(
        default="first",
        flag="--placement",
        choices=get_args(Order),
        group=ENDS,
        help="which hosts take part (default {default})",
    )
    faults: FaultsLike = option(
        default=(),
        former=("--fault",),
        many=True,
        group=FAULTS,
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="cut links, as in s1->s2@0.2-3; may be repeated",
        switches_only=lambda words: not all(map(no_faults, words)),
    )
    killed: Sequence[str | KilledProcess] = option(
        default=(),
        flag="--kill",
        many=True,
        group=FAULTS,
        metavar="NODE@S",
        help="end a listener S seconds after the start",
        only=_ONE_MACHINE,
        switches_only=True,
    )
    time_limit_s: float = option(
        default="10",
        flag="--time-limit",
        kind=kinds.search_limit,
        group=ROUTED,
        metavar="S",
        help="of the search for a schedule (default {default})",
        only=_ONE_MACHINE,
    )
    seed: int = option(default=1, kind=kinds.seed, group=RUN, help="seed of everything random (default {default})")


@options
class StripingRunOptions:
    """Of a run of the command."""

    save_pattern: Path | None = option(
        default=None,
        group=ROUTED,
        metavar="FILE",
        help="write the pairs of hosts of this run for --pattern, and run nothing",
    )
    root: Path | None = option(
        default=None,
        group=SENT,
        metavar="DIR",
        help="keep the subfiles there (default: they are removed)",
        only=_ONE_MACHINE,
    )
