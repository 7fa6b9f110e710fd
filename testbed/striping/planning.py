"""From options to a plan of striped-file accesses: placement, blocks, what they put on the network, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from testbed.bulk.options import MAX_MESSAGE_BYTES
from testbed.bulk.plan import BulkTransfer, Pair
from testbed.bulk.planning import at_rate, carried_frames, time_frames, transfers_of
from testbed.errors import InputError
from testbed.striping.access import access_blocks, matrix_side, subfile_shares
from testbed.striping.placement import Placement, place
from testbed.striping.plan import OPTIMISATIONS, StripingOptions, StripingPlan
from topologies.network import Network

MAX_FILE_BYTES = 1 << 31


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


def at_link_rate(plan: StripingPlan, link_rate_bps: float) -> StripingPlan:
    """The same blocks, transfers and time frames over links of another rate."""
    network = at_rate(plan.placement.network, link_rate_bps)
    options = replace(plan.options, link_rate_bps=link_rate_bps)
    return replace(plan, options=options, placement=replace(plan.placement, network=network))


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
    if options.carried is not None:
        return carried_frames(options.carried, transfers)
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
    for option, size_bytes in (("--stripe-unit", options.stripe_unit), ("--file-size", options.file_bytes)):
        if not 1 <= size_bytes <= MAX_FILE_BYTES:
            raise InputError(f"{option} {size_bytes}: give bytes, 1 to {MAX_FILE_BYTES}")
    if not options.link_rate_bps > 0:
        raise InputError(f"--link-rate {options.link_rate_bps:g}: give bits a second, more than 0")
    if options.schedule not in ("none", "liquid", "file"):
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
    if unknown := [name for name in options.without if name not in OPTIMISATIONS]:
        raise InputError(f"--without {unknown[0]!r}: give {', '.join(OPTIMISATIONS)}")
    if options.without and (not options.optimise or options.schedule != "none" or options.switching != "packet"):
        raise InputError(
            "--without is for one call an operation in packets; leave out --no-optimise, --schedule and --switching"
        )
    if (options.faults or options.killed) and (options.schedule != "none" or options.switching != "packet"):
        raise InputError(
            "--faults and --kill are for packet switching without a schedule; leave out --schedule and --switching, or the faults"
        )
