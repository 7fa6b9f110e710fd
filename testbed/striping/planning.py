"""From options to a plan of striped-file accesses: placement, blocks, what they put on the network, and in which
order."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from testbed.bulk.link_rates import LinkRates, at_rate, link_rates, refuse_impaired
from testbed.bulk.options import MAX_MESSAGE_BYTES
from testbed.bulk.plan import BulkTransfer, Pair
from testbed.bulk.planning import (
    killed_process,
    schedule_frames,
    time_frames,
    transfers_of,
)
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.reading import FaultsLike, read_faults
from testbed.model.naming.names import known_network
from testbed.scheduling.traffic.traffic_file import CarriedSchedule, read_schedule
from testbed.striping.access import access_blocks, bytes_per_subfile, matrix_side
from testbed.striping.options import StripingOptions
from testbed.striping.placement import Placement, place
from testbed.striping.plan import Schedule, StripingPlan
from topologies import Network, label_of, reverse_of


def build_striping(
    requested: StripingOptions, *, now: Callable[[], float] | None = None
) -> StripingPlan:
    """The plan; links get the rate requested, or rates in proportion to the network's own. ``now``: a clock for the
    search for a schedule.

    Raises InputError and TopologyError for what cannot be run.
    """
    network = known_network(requested.network)
    carried = (
        None if requested.schedule is None else read_schedule(str(requested.schedule), network)
    )
    schedule: Schedule = (
        "file" if carried is not None else "liquid" if requested.scheduling == "liquid" else "none"
    )
    switching = requested.switching or ("packet" if schedule == "none" else "circuit")
    faults = _faults(requested.faults, network)
    killed = tuple(killed_process(one, network) for one in requested.kill)
    _check(requested, bool(faults or killed), schedule == "none" and switching == "packet")
    refuse_impaired(network)
    alike_bps = requested.link_rate_bps
    placement = place(
        network if alike_bps is None else at_rate(network, alike_bps),
        requested.compute_nodes,
        requested.io_nodes,
        routing=requested.routing,
        order=requested.host_selection,
        seed=requested.seed,
    )
    for one in killed:
        if one.node not in placement.names:
            raise InputError(
                f"{one.node!r} is no I/O node of this run; they are {', '.join(placement.io)}"
            )
    file_bytes = requested.file_bytes or max(
        4_000_000, 200_000 * requested.compute_nodes * requested.io_nodes
    )
    if requested.access == "matrix-columns":
        file_bytes = matrix_side(file_bytes) ** 2 * 8
    blocks = access_blocks(
        requested.access,
        file_bytes,
        requested.compute_nodes,
        block_bytes=requested.access_block_bytes,
        seed=requested.seed,
    )
    volumes: dict[Pair, int] = {}
    for source, own in zip(placement.compute, blocks, strict=True):
        shares = bytes_per_subfile(own, requested.stripe_unit, requested.io_nodes)
        volumes |= {
            (source, sink): int(v) for sink, v in zip(placement.io, shares, strict=True) if v
        }
    if max(volumes.values()) > MAX_MESSAGE_BYTES:
        raise InputError(
            f"--file-size {file_bytes}: more than {MAX_MESSAGE_BYTES} bytes between two hosts"
        )
    transfers = _transfers(placement, volumes, requested.routing)
    plan = StripingPlan(
        options=requested,
        placement=placement,
        file_bytes=file_bytes,
        blocks=blocks,
        volumes=volumes,
        transfers=transfers,
        frames=(),
        schedule=schedule,
        switching=switching,
        faults=faults,
        killed=killed,
    )
    plan = at_rates(plan, link_rates(requested.network, network, plan.link_bytes, alike_bps))
    _check_directions(plan)
    return replace(plan, frames=_frames(plan, carried, now))


def at_rates(plan: StripingPlan, rates: LinkRates) -> StripingPlan:
    """Return the same blocks, transfers and time frames over links of other rates."""
    placement = replace(plan.placement, network=rates.network)
    return replace(plan, placement=placement, rates=rates)


def _check_directions(plan: StripingPlan) -> None:
    """Refuse to read over a cable whose directions differ in rate.

    A read is predicted as a write in the other direction.
    """
    if plan.options.operation == "write":
        return
    for link in plan.link_bytes:
        back = reverse_of(link)
        if plan.rates_bps.get(back, plan.rates_bps[link]) != plan.rates_bps[link]:
            raise InputError(
                f"--operation {plan.options.operation}: {label_of(link)} and {label_of(back)} differ in rate, and no"
                " throughput of reads is predicted over them; give both directions one rate, write only, or give all"
                " links one rate with --link-rate"
            )


def _transfers(
    placement: Placement, volumes: Mapping[Pair, int], routing: str | None
) -> tuple[BulkTransfer, ...]:
    """In rounds: first every process with its own place in the circle of I/O nodes, then with the next one, and so
    on."""
    circle = len(placement.io)
    pairs = [
        (source, placement.io[(k + step) % circle])
        for step in range(circle)
        for k, source in enumerate(placement.compute)
    ]
    return transfers_of(
        placement.network, [p for p in pairs if p in volumes and placement.paths[p]], routing
    )


def _frames(
    plan: StripingPlan, carried: CarriedSchedule | None, now: Callable[[], float] | None
) -> tuple[tuple[int, ...], ...]:
    """A liquid schedule; or, where circuits are requested as they come, rounds in which every process serves one I/O
    node."""
    if not plan.transfers:
        return ()
    if carried is not None:
        return schedule_frames(carried, plan.transfers)
    if plan.schedule == "liquid":
        seed, time_limit_s = plan.options.seed, plan.options.solver_time_limit_s
        return time_frames(
            plan.network, plan.transfers, "liquid", seed=seed, time_limit_s=time_limit_s, now=now
        )
    if plan.switching == "packet":
        return ()
    return time_frames(
        plan.network, plan.transfers, "round-robin", seed=1, time_limit_s=1, now=None
    )


def _faults(requested: FaultsLike, network: Network) -> tuple[Fault, ...]:
    words = [requested] if isinstance(requested, (str, Path)) else requested
    faults = tuple(
        f
        for one in words
        for f in read_faults(one if isinstance(one, str | Path) else [one], network)
    )
    if any(f.kind != "impaired" and (f.kind != "down" or f.direction != "both") for f in faults):
        raise InputError(
            "--faults: a striped file's links are cut both ways or, on one machine, impaired; give LINK@START-STOP,"
            " as in s1-s2@0.2-3"
        )
    return faults


def _check(requested: StripingOptions, failing: bool, plain: bool) -> None:
    """What does not go together. ``plain``: packets without a schedule."""
    if not requested.optimise and not plain:
        raise InputError(
            "--no-optimise sends a message a fragment, which has no place in a schedule; leave out --scheduling,"
            " --schedule and --switching"
        )
    if requested.disable and not (requested.optimise and plain):
        raise InputError(
            "--disable is for one call an operation in packets; leave out --no-optimise, --scheduling, --schedule and"
            " --switching"
        )
    if failing and not plain:
        raise InputError(
            "--faults and --kill are for packet switching without a schedule; leave out --scheduling, --schedule and"
            " --switching, or the faults"
        )
