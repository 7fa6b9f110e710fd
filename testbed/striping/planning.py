"""From options to a plan of striped-file accesses: placement, blocks, what they put on the network, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from testbed.bulk.options import MAX_MESSAGE_BYTES
from testbed.bulk.plan import BulkTransfer, KilledProcess, Pair
from testbed.bulk.planning import at_rate, carried_frames, time_frames, transfers_of
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_moment
from testbed.faults.reading import FaultsLike, read_faults
from testbed.model.machine.carried_load import USUAL_RATE_BPS
from testbed.model.naming.networks import known_network
from testbed.scheduling.traffic.traffic_file import CarriedSchedule, read_schedule
from testbed.striping.access import access_blocks, matrix_side, subfile_shares
from testbed.striping.options import StripingOptions
from testbed.striping.placement import Placement, place
from testbed.striping.plan import Schedule, StripingPlan
from topologies.network import Network


def build_striping(asked: StripingOptions, *, now: Callable[[], float] | None = None) -> StripingPlan:
    """The plan, every link of the rate asked for. ``now``: a clock for the search for a schedule.

    Raises InputError and TopologyError for what cannot be run.
    """
    network = known_network(asked.network)
    carried = None if asked.schedule in ("none", "liquid") else read_schedule(str(asked.schedule), network)
    schedule: Schedule = "file" if carried is not None else "liquid" if asked.schedule == "liquid" else "none"
    switching = asked.switching or ("packet" if schedule == "none" else "circuit")
    faults = _faults(asked.faults, network)
    killed = tuple(_killed(one, network) for one in asked.killed)
    _check(asked, bool(faults or killed), schedule == "none" and switching == "packet")
    rate_bps = USUAL_RATE_BPS if asked.link_rate_bps is None else asked.link_rate_bps
    placement = place(
        at_rate(network, rate_bps),
        asked.compute_nodes,
        asked.io_nodes,
        routing=asked.routing,
        order=asked.order,
        seed=asked.seed,
    )
    for one in killed:
        if one.node not in placement.names:
            raise InputError(f"{one.node!r} is no I/O node of this run; they are {', '.join(placement.io)}")
    file_bytes = asked.file_bytes or max(4_000_000, 200_000 * asked.compute_nodes * asked.io_nodes)
    if asked.access == "matrix-columns":
        file_bytes = matrix_side(file_bytes) ** 2 * 8
    blocks = access_blocks(
        asked.access, file_bytes, asked.compute_nodes, block_bytes=asked.block_bytes, seed=asked.seed
    )
    volumes: dict[Pair, int] = {}
    for source, own in zip(placement.compute, blocks, strict=True):
        shares = subfile_shares(own, asked.stripe_unit, asked.io_nodes)
        volumes |= {(source, sink): int(v) for sink, v in zip(placement.io, shares, strict=True) if v}
    if max(volumes.values()) > MAX_MESSAGE_BYTES:
        raise InputError(f"--file-size {file_bytes}: more than {MAX_MESSAGE_BYTES} bytes between two hosts")
    transfers = _transfers(placement, volumes, asked.routing)
    plan = StripingPlan(
        options=asked,
        placement=placement,
        file_bytes=file_bytes,
        blocks=blocks,
        volumes=volumes,
        transfers=transfers,
        frames=(),
        schedule=schedule,
        switching=switching,
        link_rate_bps=rate_bps,
        faults=faults,
        killed=killed,
    )
    return replace(plan, frames=_frames(plan, carried, now))


def at_link_rate(plan: StripingPlan, link_rate_bps: float) -> StripingPlan:
    """The same blocks, transfers and time frames over links of another rate."""
    network = at_rate(plan.placement.network, link_rate_bps)
    return replace(plan, link_rate_bps=link_rate_bps, placement=replace(plan.placement, network=network))


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
    plan: StripingPlan, carried: CarriedSchedule | None, now: Callable[[], float] | None
) -> tuple[tuple[int, ...], ...]:
    """A liquid schedule; or, where circuits are asked for as they come, rounds in which every process serves one I/O node."""
    if not plan.transfers:
        return ()
    if carried is not None:
        return carried_frames(carried, plan.transfers)
    if plan.schedule == "liquid":
        seed, time_limit_s = plan.options.seed, plan.options.time_limit_s
        return time_frames(plan.network, plan.transfers, "liquid", seed=seed, time_limit_s=time_limit_s, now=now)
    if plan.switching == "packet":
        return ()
    return time_frames(plan.network, plan.transfers, "round-robin", seed=1, time_limit_s=1, now=None)


def _faults(asked: FaultsLike, network: Network) -> tuple[Fault, ...]:
    words = [asked] if isinstance(asked, (str, Path)) else asked
    faults = tuple(f for one in words for f in read_faults(one if isinstance(one, str | Path) else [one], network))
    if any(f.kind != "impaired" and (f.kind != "down" or f.direction != "both") for f in faults):
        raise InputError(
            "--faults: a striped file's links are cut both ways or, on one machine, impaired; give LINK@START-STOP, as in s1->s2@0.2-3"
        )
    return faults


def _killed(one: str | KilledProcess, network: Network) -> KilledProcess:
    if isinstance(one, KilledProcess):
        return one
    node, at_s = parse_moment(one, "--kill", network)
    return KilledProcess(node=node, at_s=at_s)


def _check(asked: StripingOptions, failing: bool, plain: bool) -> None:
    """What does not go together. ``plain``: packets without a schedule."""
    if not asked.optimise and not plain:
        raise InputError(
            "--no-optimise sends a message a fragment, which has no place in a schedule; leave out --schedule and --switching"
        )
    if asked.without and not (asked.optimise and plain):
        raise InputError(
            "--without is for one call an operation in packets; leave out --no-optimise, --schedule and --switching"
        )
    if failing and not plain:
        raise InputError(
            "--faults and --kill are for packet switching without a schedule; leave out --schedule and --switching, or the faults"
        )
