"""Builds the plan of striped-file accesses from options.

This includes the placement, the blocks, the transfers that they make, and the order of transfers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from testbed.bulk.link_rates import LinkRates, at_rate, link_rates, refuse_impaired
from testbed.bulk.options import MAX_MESSAGE_BYTES
from testbed.bulk.plan import BulkTransfer, KilledProcess, Pair
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
from testbed.striping.access import (
    ELEMENT_BYTES,
    Blocks,
    access_blocks,
    bytes_per_subfile,
    matrix_side,
)
from testbed.striping.options import StripingOptions
from testbed.striping.placement import Placement, place
from testbed.striping.plan import Schedule, StripingPlan
from topologies import Network, label_of, reverse_of

# The default size of a file: large enough for every process to send to every I/O node.
_BYTES_PER_PAIR = 200_000
_MIN_DEFAULT_BYTES = 4_000_000


def build_striping(
    requested: StripingOptions, *, now: Callable[[], float] | None = None
) -> StripingPlan:
    """Build a plan. Links get the requested rate, or rates in proportion to the network's own.

    Args:
        requested: The options.
        now: A clock for the time limit of the search for a schedule.

    Raises:
        InputError: The options contradict each other or do not fit the network.
        TopologyError: The network is invalid.
    """
    network = known_network(requested.network)
    carried = None
    if requested.schedule is not None:
        carried = read_schedule(str(requested.schedule), network)
    schedule = _schedule_kind(requested)
    switching = requested.switching or ("packet" if schedule == "none" else "circuit")
    faults = _faults(requested.faults, network)
    killed = tuple(killed_process(process, network) for process in requested.kill)
    _check(
        requested,
        failing=bool(faults or killed),
        plain=schedule == "none" and switching == "packet",
    )
    refuse_impaired(network)
    placement = _place(requested, network)
    _check_killed(killed, placement)
    file_bytes = _file_bytes(requested)
    blocks = access_blocks(
        requested.access,
        file_bytes,
        requested.compute_nodes,
        block_bytes=requested.access_block_bytes,
        seed=requested.seed,
    )
    volumes = _volumes(requested, placement, blocks)
    if max(volumes.values()) > MAX_MESSAGE_BYTES:
        raise InputError(
            f"--file-size {file_bytes}: more than {MAX_MESSAGE_BYTES} bytes between two hosts"
        )
    plan = StripingPlan(
        options=requested,
        placement=placement,
        file_bytes=file_bytes,
        blocks=blocks,
        volumes=volumes,
        transfers=_transfers(placement, volumes, requested.routing),
        frames=(),
        schedule=schedule,
        switching=switching,
        faults=faults,
        killed=killed,
    )
    rates = link_rates(requested.network, network, plan.link_bytes, requested.link_rate_bps)
    plan = at_rates(plan, rates)
    _check_directions(plan)
    return replace(plan, frames=_frames(plan, carried, now))


def at_rates(plan: StripingPlan, rates: LinkRates) -> StripingPlan:
    """Return the same blocks, transfers and time frames over links of other rates."""
    placement = replace(plan.placement, network=rates.network)
    return replace(plan, placement=placement, rates=rates)


def _schedule_kind(requested: StripingOptions) -> Schedule:
    if requested.schedule is not None:
        return "file"
    return "liquid" if requested.scheduling == "liquid" else "none"


def _place(requested: StripingOptions, network: Network) -> Placement:
    if requested.link_rate_bps is not None:
        network = at_rate(network, requested.link_rate_bps)
    return place(
        network,
        requested.compute_nodes,
        requested.io_nodes,
        routing=requested.routing,
        order=requested.host_selection,
        seed=requested.seed,
    )


def _file_bytes(requested: StripingOptions) -> int:
    """Return the size of the file; a matrix is made square."""
    pairs = requested.compute_nodes * requested.io_nodes
    default_bytes = max(_MIN_DEFAULT_BYTES, _BYTES_PER_PAIR * pairs)
    file_bytes = requested.file_bytes or default_bytes
    if requested.access == "matrix-columns":
        return matrix_side(file_bytes) ** 2 * ELEMENT_BYTES
    return file_bytes


def _volumes(
    requested: StripingOptions, placement: Placement, blocks: Sequence[Blocks]
) -> dict[Pair, int]:
    """Return the bytes between each compute and I/O node, without pairs that have none."""
    volumes: dict[Pair, int] = {}
    for source, blocks_of_source in zip(placement.compute, blocks, strict=True):
        shares = bytes_per_subfile(blocks_of_source, requested.stripe_unit, requested.io_nodes)
        for sink, share in zip(placement.io, shares.tolist(), strict=True):
            if share:
                volumes[source, sink] = share
    return volumes


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
                f"--operation {plan.options.operation}: {label_of(link)} and {label_of(back)}"
                " differ in rate, and no throughput of reads is predicted over them; give both"
                " directions one rate, write only, or give all links one rate with --link-rate"
            )


def _transfers(
    placement: Placement, volumes: Mapping[Pair, int], routing: str | None
) -> tuple[BulkTransfer, ...]:
    """Return the transfers in rounds.

    In the first round each process starts at its own position in the circle of I/O nodes. In each
    further round it advances by one, so that no round has two processes at the same node if there
    are as many nodes as processes.
    """
    circle = len(placement.io)
    pairs = []
    for step in range(circle):
        for rank, source in enumerate(placement.compute):
            pair = (source, placement.io[(rank + step) % circle])
            if pair in volumes and placement.paths[pair]:
                pairs.append(pair)
    return transfers_of(placement.network, pairs, routing)


def _frames(
    plan: StripingPlan, carried: CarriedSchedule | None, now: Callable[[], float] | None
) -> tuple[tuple[int, ...], ...]:
    """Return the time frames of the plan.

    They are those of the file, or of a liquid schedule. If circuits are requested without a
    schedule, they are rounds in which each process sends to one I/O node.
    """
    if not plan.transfers:
        return ()
    if carried is not None:
        return schedule_frames(carried, plan.transfers)
    if plan.schedule == "liquid":
        return time_frames(
            plan.network,
            plan.transfers,
            "liquid",
            seed=plan.options.seed,
            time_limit_s=plan.options.solver_time_limit_s,
            now=now,
        )
    if plan.switching == "packet":
        return ()
    return time_frames(
        plan.network, plan.transfers, "round-robin", seed=1, time_limit_s=1, now=None
    )


def _faults(requested: FaultsLike, network: Network) -> tuple[Fault, ...]:
    sources = [requested] if isinstance(requested, (str, Path)) else requested
    faults: list[Fault] = []
    for source in sources:
        if isinstance(source, str | Path):
            faults += read_faults(source, network)
        else:
            faults += read_faults([source], network)
    for fault in faults:
        cut_both_ways = fault.kind == "down" and fault.direction == "both"
        if fault.kind != "impaired" and not cut_both_ways:
            raise InputError(
                "--faults: links of striped files can be cut in both directions or, on one machine,"
                " be impaired; give LINK@START-STOP, as in s1-s2@0.2-3"
            )
    return tuple(faults)


def _check_killed(killed: Sequence[KilledProcess], placement: Placement) -> None:
    for process in killed:
        if process.node not in placement.names:
            raise InputError(
                f"{process.node!r} is not an I/O node of this run; give one of"
                f" {', '.join(placement.io)}"
            )


def _check(requested: StripingOptions, *, failing: bool, plain: bool) -> None:
    """Raise InputError for options that contradict each other.

    Args:
        requested: The options.
        failing: Whether there are faults or killed processes.
        plain: Whether transfers have neither a schedule nor circuits.
    """
    if not requested.optimise and not plain:
        raise InputError(
            "--no-optimise sends one message per fragment, which cannot be scheduled; leave out"
            " --scheduling, --schedule and --switching"
        )
    if requested.disable and not (requested.optimise and plain):
        raise InputError(
            "--disable needs packet switching, no schedule, and one call per operation; leave out"
            " --no-optimise, --scheduling, --schedule and --switching"
        )
    if failing and not plain:
        raise InputError(
            "--faults and --kill need packet switching without a schedule; leave out --scheduling,"
            " --schedule and --switching, or the faults"
        )
