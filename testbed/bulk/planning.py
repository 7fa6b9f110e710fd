"""Builds bulk plans from a network and options: transfers, static paths, and time frames."""

import itertools
from collections.abc import Callable, Sequence
from typing import get_args

from testbed.bulk.link_rates import at_rate, link_rates, refuse_impaired
from testbed.bulk.options import BulkOptions
from testbed.bulk.plan import BulkPlan, BulkTransfer, KilledProcess, Pair, Path, over_switches
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_node_time
from testbed.faults.reading import read_faults
from testbed.model.naming.names import known_network
from testbed.model.traffic import Traffic
from testbed.scheduling.baselines import Order, sending_rounds
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.traffic import patterns
from testbed.scheduling.traffic.traffic_file import CarriedSchedule, read_schedule
from topologies import LinkId, Network, NoPathError, label_of, reverse_of
from topologies.routing_tables import shortest_path_routing

# Patterns by name. Both are the same here, because no host sends to itself.
ALL_TO_ALL = ("all-to-all", "all-to-others")
# The method of a plan whose time frames are from a file.
CARRIED = "file"
# Methods that order the transfers of each sender independently. The transfers of a round may share
# links, and then circuits wait for one another.
ROUNDS: tuple[Order, ...] = get_args(Order)


def build_bulk_plan(requested: BulkOptions, *, now: Callable[[], float] | None = None) -> BulkPlan:
    """Build a plan. Links get the requested rate, or rates in proportion to the network's own.

    Args:
        requested: The options.
        now: A clock for methods that search until a time limit.

    Raises:
        InputError: There is no transfer, a node, method or routing is unknown, or a link of a path
            has no reverse link.
        TopologyError: The network is invalid.
    """
    network = known_network(requested.network)
    killed = tuple(killed_process(process, network) for process in requested.kill)
    carried = None
    if requested.schedule is not None:
        carried = read_schedule(requested.schedule, network)
    faults: tuple[Fault, ...] = ()
    if requested.faults is not None:
        faults = read_faults(requested.faults, network)
    pairs, parts = _pairs_and_parts(requested, network, carried)
    refuse_impaired(network)
    # The balanced routes of a schedule follow the links' own capacities.
    routed = network
    if carried is None and requested.link_rate_bps is not None:
        routed = at_rate(network, requested.link_rate_bps)
    transfers = transfers_of(routed, pairs, requested.routing, parts)
    used: set[LinkId] = set()
    for transfer in transfers:
        used.update(transfer.path)
    rates = link_rates(requested.network, network, used, requested.link_rate_bps)
    shaped = rates.network
    _check_failures(shaped, transfers, faults, killed)
    if carried is None:
        frames = time_frames(
            shaped,
            transfers,
            requested.scheduling,
            seed=requested.seed,
            time_limit_s=requested.solver_time_limit_s,
            now=now,
        )
    else:
        frames = schedule_frames(carried, transfers)
    switched = any(over_switches(shaped, transfer.path) for transfer in transfers)
    injects = requested.switching == "circuit" and switched
    return BulkPlan(
        network=shaped,
        transfers=transfers,
        frames=frames,
        method=requested.scheduling if carried is None else CARRIED,
        switching=requested.switching,
        barrier=requested.barrier,
        message_bytes=requested.message_bytes // parts,
        rates=rates,
        seed=requested.seed,
        injected=requested.inject_packets if injects else 0,
        faults=faults,
        killed=killed,
    )


def _pairs_and_parts(
    requested: BulkOptions, network: Network, carried: CarriedSchedule | None
) -> tuple[tuple[Pair, ...], int]:
    """Return the pairs of hosts, and the number of parts of each message."""
    pattern = requested.pattern
    if isinstance(pattern, str) and pattern not in ALL_TO_ALL:
        pattern = patterns.read_pattern(pattern, network)
    parts = requested.parts
    if carried is not None:
        pattern = tuple(dict.fromkeys(carried.pairs))
        parts = 1 + max(part for *_, part in carried.ends)
    if requested.message_bytes % parts:
        raise InputError(
            f"--message-size {requested.message_bytes}: cannot be divided into {parts} equal parts;"
            f" give a multiple of {parts}"
        )
    if isinstance(pattern, str):
        return tuple(patterns.other_pairs(network)), parts
    return _checked(network, pattern), parts


def _check_failures(
    network: Network,
    transfers: Sequence[BulkTransfer],
    faults: Sequence[Fault],
    killed: Sequence[KilledProcess],
) -> None:
    """Raise InputError for failures that nothing would notice."""
    for fault in faults:
        if not over_switches(network, (fault.link, reverse_of(fault.link))):
            raise InputError(
                f"faults: {label_of(fault.link)} connects two hosts, and no switch would report its"
                " failure; leave it out"
            )
    receivers = {transfer.sink for transfer in transfers}
    for process in killed:
        if process.node not in receivers:
            raise InputError(
                f"receiver {process.node!r} receives no message in this run; give another one, such"
                f" as {transfers[0].sink}"
            )


def killed_process(process: str | KilledProcess, network: Network) -> KilledProcess:
    """Return a killed process, which may be text such as "r1@0.5".

    Raises:
        InputError: The text has another form.
    """
    if isinstance(process, KilledProcess):
        return process
    node, at_s = parse_node_time(process, "--kill", network)
    return KilledProcess(node=node, at_s=at_s)


def _checked(network: Network, pattern: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs with the network's names of nodes; InputError if they are invalid."""
    if not pattern:
        raise InputError("pattern: it has no pair; give at least one")
    for pair in pattern:
        if len(pair) != 2:
            raise InputError(f"pattern: {pair!r} is not a pair; give (sender, receiver)")
        for node in pair:
            if network.node(node).kind != "host":
                raise InputError(f"pattern: {node!r} is a switch; messages go from host to host")
        if pair[0] == pair[1]:
            raise InputError(
                f"pattern: {pair[0]!r} is both source and destination; leave the pair out"
            )
    if len(set(map(tuple, pattern))) != len(pattern):
        duplicate = next(pair for pair in pattern if pattern.count(pair) > 1)
        raise InputError(
            f"pattern: {label_of((*duplicate, 0))} is a duplicate pair; give each pair once"
        )
    return tuple((network.node(a).id, network.node(b).id) for a, b in pattern)


def transfers_of(
    network: Network, pairs: Sequence[Pair], routing: str | None = None, parts: int = 1
) -> tuple[BulkTransfer, ...]:
    """Return a transfer for each part of each pair's message.

    Its alternative path is the shortest one that avoids all cables of its path, except the only
    cable of a host.

    Args:
        network: The network.
        pairs: The pairs of hosts.
        routing: The static routing. None: the network's own.
        parts: The number of parts of a message.
    """
    routing_without: dict[frozenset[LinkId], Callable[[str, str], Path]] = {}
    transfers = []
    routes = patterns.routes_of(network, routing, parts)
    for (part, route), (source, sink) in itertools.product(enumerate(routes), pairs):
        path = tuple(route(source, sink))
        avoided = frozenset(link for link in path if not _is_only_cable(network, link))
        if avoided not in routing_without:
            both_directions = avoided | {reverse_of(link) for link in avoided}
            routing_without[avoided] = shortest_path_routing(network, both_directions)
        try:
            alternative: Path | None = routing_without[avoided](source, sink)
        except NoPathError:
            alternative = None
        transfers.append(
            BulkTransfer(source=source, sink=sink, path=path, alternative=alternative, part=part)
        )
    return tuple(transfers)


def _is_only_cable(network: Network, link: LinkId) -> bool:
    """Return whether the link begins or ends at a host with no other link in its direction."""
    first = network.node(link[0])
    last = network.node(link[1])
    only_out = first.kind == "host" and len(network.out_links(first.id)) == 1
    only_in = last.kind == "host" and len(network.in_links(last.id)) == 1
    return only_out or only_in


def time_frames(
    network: Network,
    transfers: Sequence[BulkTransfer],
    method: str,
    *,
    seed: int,
    time_limit_s: float,
    now: Callable[[], float] | None,
) -> tuple[tuple[int, ...], ...]:
    """Return the time frames of transfers, as indices into ``transfers``.

    Args:
        network: The network.
        transfers: The transfers.
        method: The name of the scheduling method.
        seed: The seed of methods with random choices.
        time_limit_s: The time limit of methods that search.
        now: A clock for this limit.

    Raises:
        InputError: The method is unknown, or the network lacks a link of a path.
    """
    if method in ROUNDS:
        index_of = network.link_index
        paths = []
        for transfer in transfers:
            paths.append([index_of[link] for link in transfer.path])
        return sending_rounds(paths, method, seed=seed)
    schedule = schedule_by_name(
        traffic_of(network, transfers), method, seed=seed, time_limit_s=time_limit_s, now=now
    )
    return tuple(map(tuple, schedule.frames))


def schedule_frames(
    carried: CarriedSchedule, transfers: Sequence[BulkTransfer]
) -> tuple[tuple[int, ...], ...]:
    """Return the time frames of a schedule file, as indices into ``transfers``.

    Raises:
        InputError: The schedule has other pairs, or sends them over other links.
    """
    index_of = {transfer.ends: index for index, transfer in enumerate(transfers)}
    missing = index_of.keys() - set(carried.ends)
    excess = set(carried.ends) - index_of.keys()
    if missing or excess:
        source, sink, _ = min(missing or excess)
        problem = "has no transfer" if missing else "has a transfer that is not in this run:"
        raise InputError(
            f"{carried.where}: it {problem} {source} to {sink}; schedule the pairs of this run"
        )
    for number, ends in enumerate(carried.ends):
        path = transfers[index_of[ends]].path
        carried.require_path(number, list(map(label_of, path)))
    frames = []
    for frame in carried.frames:
        frames.append(tuple(index_of[carried.ends[number]] for number in frame))
    return tuple(frames)


def conflict_free_frames(plan: BulkPlan) -> int:
    """Return the number of time frames of a plan if no two transfers of a frame share a link.

    Rounds whose transfers share links are split, as in ``testbed schedule``.
    """
    if plan.method not in ROUNDS:
        return len(plan.frames)
    traffic = traffic_of(plan.network, plan.transfers)
    return schedule_by_name(traffic, plan.method, seed=plan.seed).length


def traffic_of(network: Network, transfers: Sequence[BulkTransfer]) -> Traffic:
    """Return the transfers as traffic for the schedulers."""
    paths: dict[int, dict[Pair, Path]] = {}
    for transfer in transfers:
        paths_of_part = paths.setdefault(transfer.part, {})
        paths_of_part[transfer.source, transfer.sink] = transfer.path
    routes = map(_route_by, paths.values())
    return patterns.traffic_of(network, list(paths[0]), *routes)


def _route_by(paths: dict[Pair, Path]) -> Callable[[str, str], Path]:
    """Return a routing function that looks paths up."""

    def route(source: str, sink: str) -> Path:
        return paths[source, sink]

    return route
