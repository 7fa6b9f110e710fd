"""A run of striped-file accesses as a value: placement, blocks, the transfers they make, their order and the predicted throughput."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from testbed.bulk.frames import time_frames
from testbed.bulk.plan import BulkPlan, BulkTransfer, Switching
from testbed.bulk.planning import MAX_MESSAGE_BYTES, at_rate, bottleneck_load, transfers_of
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.striping.access import Access, Blocks, access_blocks, matrix_side, subfile_shares
from testbed.striping.placement import Order, Pair, Placement, place
from topologies.network import LinkId, Network

Schedule = Literal["none", "liquid"]
Operation = Literal["write", "read", "both"]
MAX_FILE_BYTES = 1 << 31
HEADERS_BYTES = 52
"""IPv4 and TCP with time stamps."""
FRAMING_BYTES = 14
"""Ethernet, counted by the links' shapers."""


@dataclass(frozen=True, kw_only=True)
class KilledListener:
    """The listener of an I/O node is ended ``at_s`` seconds after the start of the first operation."""

    node: str
    at_s: float


@dataclass(frozen=True, kw_only=True)
class StripingOptions:
    """What a user asks for; sizes in bytes. ``optimise`` false: one message a fragment. ``repeat``: times that each operation
    is carried out."""

    compute_nodes: int
    io_nodes: int
    stripe_unit: int = 200
    file_bytes: int = 4_000_000
    operation: Operation = "write"
    access: Access = "contiguous"
    block_bytes: int = 1000
    optimise: bool = True
    schedule: Schedule = "none"
    switching: Switching = "packet"
    link_rate_bps: float = 20e6
    routing: str | None = None
    order: Order = "first"
    seed: int = 1
    time_limit_s: float = 10.0
    repeat: int = 1
    faults: tuple[Fault, ...] = ()
    killed: tuple[KilledListener, ...] = ()

    @property
    def directions(self) -> tuple[Literal["write", "read"], ...]:
        """Every operation in order, each as often as asked."""
        once: tuple[Literal["write", "read"], ...] = ("write", "read")
        if self.operation != "both":
            once = (self.operation,)
        return tuple(direction for direction in once for _ in range(self.repeat))


@dataclass(frozen=True, kw_only=True, eq=False)
class StripingPlan:
    """``blocks[k]``: what compute process ``k`` accesses; ``volumes``: pair -> bytes between them, pairs with none left out.

    ``transfers`` are those between different hosts, in the time frames ``frames`` (none where all may go at any time).
    """

    options: StripingOptions
    placement: Placement
    file_bytes: int
    blocks: tuple[Blocks, ...]
    volumes: Mapping[Pair, int]
    transfers: tuple[BulkTransfer, ...]
    frames: tuple[tuple[int, ...], ...]

    @property
    def network(self) -> Network:
        return self.placement.network

    @property
    def coordinated(self) -> bool:
        """Whether transfers wait for their turn: for a circuit, for their time frame, or for both."""
        return bool(self.frames)

    @cached_property
    def link_bytes(self) -> Mapping[LinkId, int]:
        """Link -> bytes of the file over it."""
        found: dict[LinkId, int] = {}
        for pair, volume in self.volumes.items():
            for link in self.placement.paths[pair]:
                found[link] = found.get(link, 0) + volume
        return found

    @property
    def liquid_links(self) -> float:
        """Liquid throughput of these volumes in links: bytes of the file over those of the busiest link (thesis, Section 3.3)."""
        busiest = max(self.link_bytes.values(), default=0)
        return self.file_bytes / busiest if busiest else float("inf")

    def goodput_bps(self, mtu_bytes: int) -> float:
        """Bits of data a second over a full link, without the headers of its packets."""
        return self.options.link_rate_bps * (mtu_bytes - HEADERS_BYTES) / (mtu_bytes + FRAMING_BYTES)

    def bulk_plan(self) -> BulkPlan:
        """The transfers as bulk messages of their mean size: what the coordinator and the simulated fabric take.

        Raises InputError where nothing crosses the network.
        """
        options = self.options
        most = bottleneck_load(self.transfers)
        return BulkPlan(
            network=self.network,
            transfers=self.transfers,
            frames=self.frames or (tuple(range(len(self.transfers))),),
            method=options.schedule,
            switching=options.switching,
            barrier=options.schedule != "none" or not self.frames,
            message_bytes=max(1, sum(self.volumes[t.source, t.sink] for t in self.transfers) // len(self.transfers)),
            link_rate_bps=options.link_rate_bps,
            liquid_links=Fraction(len(self.transfers), most),
            bottleneck_load=most,
            seed=options.seed,
        )


def build_striping_plan(
    network: Network, options: StripingOptions, *, now: Callable[[], float] | None = None
) -> StripingPlan:
    """Every link gets the rate asked for. ``now``: a clock for the search for a schedule.

    Raises InputError and TopologyError for what cannot be run.
    """
    _check(options)
    shaped = at_rate(network, options.link_rate_bps)
    placement = place(
        shaped, options.compute_nodes, options.io_nodes, routing=options.routing, order=options.order, seed=options.seed
    )
    for killed in options.killed:
        if killed.node not in placement.names:
            raise InputError(f"{killed.node!r} is no I/O node of this run; they are {', '.join(placement.io)}")
    file_bytes = options.file_bytes
    if options.access == "matrix-columns":
        file_bytes = matrix_side(file_bytes) ** 2 * 8
    blocks = access_blocks(
        options.access, file_bytes, options.compute_nodes, block_bytes=options.block_bytes, seed=options.seed
    )
    volumes: dict[Pair, int] = {}
    for source, own in zip(placement.compute, blocks, strict=True):
        shares = subfile_shares(own, options.stripe_unit, options.io_nodes)
        volumes |= {(source, sink): int(v) for sink, v in zip(placement.io, shares, strict=True) if v}
    if max(volumes.values()) > MAX_MESSAGE_BYTES:
        raise InputError(f"--file-size {options.file_bytes}: more than {MAX_MESSAGE_BYTES} bytes between two hosts")
    transfers = _transfers(placement, volumes, options.routing)
    return StripingPlan(
        options=options,
        placement=placement,
        file_bytes=file_bytes,
        blocks=blocks,
        volumes=volumes,
        transfers=transfers,
        frames=_frames(placement, transfers, options, now),
    )


def _transfers(placement: Placement, volumes: Mapping[Pair, int], routing: str | None) -> tuple[BulkTransfer, ...]:
    """In rounds: first every process with its own place in the circle of I/O nodes, then with the next one, and so on."""
    circle = len(placement.io)
    pairs = [
        (source, placement.io[(k + step) % circle])
        for step in range(circle)
        for k, source in enumerate(placement.compute)
    ]
    return transfers_of(placement.network, [p for p in pairs if p in volumes and placement.paths[p]], routing)


def _frames(
    placement: Placement,
    transfers: tuple[BulkTransfer, ...],
    options: StripingOptions,
    now: Callable[[], float] | None,
) -> tuple[tuple[int, ...], ...]:
    """A liquid schedule; or, where circuits are asked for as they come, rounds in which every process serves one I/O node."""
    if not transfers:
        return ()
    if options.schedule == "liquid":
        return time_frames(
            placement.network,
            transfers,
            "liquid",
            seed=options.seed,
            time_limit_s=options.time_limit_s,
            now=now,
        )
    if options.switching == "packet":
        return ()
    return time_frames(placement.network, transfers, "round-robin", seed=1, time_limit_s=1, now=None)


def _check(options: StripingOptions) -> None:
    if not 1 <= options.stripe_unit <= MAX_FILE_BYTES:
        raise InputError(f"--stripe-unit {options.stripe_unit}: give bytes, 1 to {MAX_FILE_BYTES}")
    if not 1 <= options.file_bytes <= MAX_FILE_BYTES:
        raise InputError(f"--file-size {options.file_bytes}: give bytes, 1 to {MAX_FILE_BYTES}")
    if not options.link_rate_bps > 0:
        raise InputError(f"--link-rate {options.link_rate_bps:g}: give bits a second, more than 0")
    if options.schedule not in ("none", "liquid"):
        raise InputError(f"--schedule {options.schedule!r}: give none or liquid")
    if options.switching not in ("packet", "circuit"):
        raise InputError(f"--switching {options.switching!r}: give packet or circuit")
    if not 1 <= options.repeat <= 1000:
        raise InputError(f"--repeat {options.repeat}: give 1 to 1000")
    if options.operation not in ("write", "read", "both"):
        raise InputError(f"--operation {options.operation!r}: give write, read or both")
    if not options.optimise and (options.schedule != "none" or options.switching != "packet"):
        raise InputError(
            "--no-optimise sends a message a fragment, which has no place in a schedule; leave out --schedule and --switching"
        )
    if (options.faults or options.killed) and (options.schedule != "none" or options.switching != "packet"):
        raise InputError(
            "--fault and --kill are for packet switching without a schedule; leave out --schedule and --switching, or the faults"
        )
