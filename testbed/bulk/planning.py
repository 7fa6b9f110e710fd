"""From a network and options to a bulk plan: who sends to whom, over which static path, in which time frames."""

import itertools
from collections.abc import Callable, Sequence
from typing import get_args

from testbed.bulk.link_rates import at_rate, link_rates, refuse_impaired
from testbed.bulk.options import BulkOptions
from testbed.bulk.plan import BulkPlan, BulkTransfer, KilledProcess, Pair, Path, over_switches
from testbed.errors import InputError
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

ALL_TO_ALL = ("all-to-all", "all-to-others")
"""Patterns in words: the same here, where no host sends to itself."""
CARRIED = "file"
"""The method of a plan whose time frames were given."""
ROUNDS: tuple[Order, ...] = get_args(Order)
"""Orders of the senders alone: their rounds may congest, which is what circuits then wait for."""


def build_bulk_plan(requested: BulkOptions, *, now: Callable[[], float] | None = None) -> BulkPlan:
    """The plan; links get the rate requested, or rates in proportion to the network's own. ``now``: a clock for methods
    that search against a time limit.

    Raises InputError and TopologyError for what cannot be run: no transfer, an unknown node, method or routing, a path
    over a link that has none back.
    """
    network = known_network(requested.network)
    killed = tuple(killed_process(one, network) for one in requested.kill)
    pattern = requested.pattern
    if isinstance(pattern, str) and pattern not in ALL_TO_ALL:
        pattern = patterns.read_pattern(pattern, network)
    carried = None if requested.schedule is None else read_schedule(requested.schedule, network)
    faults = () if requested.faults is None else read_faults(requested.faults, network)
    parts = requested.parts
    if carried is not None:
        pattern, parts = (
            tuple(dict.fromkeys(carried.pairs)),
            1 + max(part for *_, part in carried.ends),
        )
    if requested.message_bytes % parts:
        raise InputError(
            f"--message-size {requested.message_bytes}: not in {parts} equal parts; give a multiple of {parts}"
        )
    pairs = (
        patterns.other_pairs(network) if isinstance(pattern, str) else _checked(network, pattern)
    )
    refuse_impaired(network)
    if carried is None and requested.link_rate_bps is not None:
        routed = at_rate(network, requested.link_rate_bps)
    else:
        # The balanced routes of a schedule go by the links' own capacities.
        routed = network
    transfers = transfers_of(routed, pairs, requested.routing, parts)
    used = {link for transfer in transfers for link in transfer.path}
    rates = link_rates(requested.network, network, used, requested.link_rate_bps)
    shaped = rates.network
    switched = any(over_switches(shaped, t.path) for t in transfers)
    for fault in faults:
        if not over_switches(shaped, (fault.link, reverse_of(fault.link))):
            raise InputError(
                f"faults: {label_of(fault.link)} joins two hosts, and no switch reports it; leave it out"
            )
    for node in {k.node for k in killed} - {t.sink for t in transfers}:
        raise InputError(
            f"receiver {node!r} gets no message in this run; name one of {transfers[0].sink}, ..."
        )
    if carried is None:
        method, limit_s = requested.scheduling, requested.solver_time_limit_s
        frames = time_frames(
            shaped, transfers, method, seed=requested.seed, time_limit_s=limit_s, now=now
        )
    else:
        frames = schedule_frames(carried, transfers)
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
        injected=requested.inject_packets if requested.switching == "circuit" and switched else 0,
        faults=faults,
        killed=killed,
    )


def killed_process(one: str | KilledProcess, network: Network) -> KilledProcess:
    """What ``--kill NODE@S`` means; InputError for another text."""
    if isinstance(one, KilledProcess):
        return one
    node, at_s = parse_node_time(one, "--kill", network)
    return KilledProcess(node=node, at_s=at_s)


def _checked(network: Network, pattern: Sequence[Pair]) -> tuple[Pair, ...]:
    if not pattern:
        raise InputError("pattern: it has no pair; give at least one")
    for pair in pattern:
        if len(pair) != 2:
            raise InputError(f"pattern: {pair!r} is no pair; give (sender, receiver)")
        for node in pair:
            if network.node(node).kind != "host":
                raise InputError(f"pattern: {node!r} is a switch; messages go from host to host")
        if pair[0] == pair[1]:
            raise InputError(
                f"pattern: {pair[0]!r} is both source and destination; leave the pair out"
            )
    if len(set(map(tuple, pattern))) != len(pattern):
        twice = next(p for p in pattern if pattern.count(p) > 1)
        raise InputError(
            f"pattern: {label_of((*twice, 0))} is a duplicate pair; one message per pair"
        )
    return tuple((network.node(a).id, network.node(b).id) for a, b in pattern)


def transfers_of(
    network: Network, pairs: Sequence[Pair], routing: str | None = None, parts: int = 1
) -> tuple[BulkTransfer, ...]:
    """Each part of each pair's message with its static path, and the shortest path that avoids all cables of the first
    but a host's only one."""
    others: dict[frozenset[LinkId], Callable[[str, str], Path]] = {}
    transfers = []
    routes = patterns.routes_of(network, routing, parts)
    for (part, route), (source, sink) in itertools.product(enumerate(routes), pairs):
        path = tuple(route(source, sink))
        core = frozenset(link for link in path if not _is_only_cable(network, link))
        if core not in others:
            others[core] = shortest_path_routing(
                network, core | {(b, a, key) for a, b, key in core}
            )
        try:
            other: Path | None = others[core](source, sink)
        except NoPathError:
            other = None
        transfers.append(
            BulkTransfer(source=source, sink=sink, path=path, alternative=other, part=part)
        )
    return tuple(transfers)


def _is_only_cable(network: Network, link: LinkId) -> bool:
    """Whether the link belongs to a host that has no other one its way."""
    first, last = network.node(link[0]), network.node(link[1])
    out, into = len(network.out_links(first.id)), len(network.in_links(last.id))
    return (first.kind == "host" and out == 1) or (last.kind == "host" and into == 1)


def time_frames(
    network: Network,
    transfers: Sequence[BulkTransfer],
    method: str,
    *,
    seed: int,
    time_limit_s: float,
    now: Callable[[], float] | None,
) -> tuple[tuple[int, ...], ...]:
    """Indices of ``transfers``, frame by frame. ``now``: a clock for methods that search against the time limit.

    InputError for an unknown method, or a network of which a path has no link.
    """
    if method in ROUNDS:
        index = network.link_index
        return sending_rounds(
            [[index[link] for link in t.path] for t in transfers], method, seed=seed
        )
    schedule = schedule_by_name(
        traffic_of(network, transfers), method, seed=seed, time_limit_s=time_limit_s, now=now
    )
    return tuple(tuple(frame) for frame in schedule.frames)


def schedule_frames(
    carried: CarriedSchedule, transfers: Sequence[BulkTransfer]
) -> tuple[tuple[int, ...], ...]:
    """The schedule's time frames as indices of ``transfers``. InputError where one of the two has a pair that the other
    has not, or sends it over other links."""
    number_of = {t.ends: i for i, t in enumerate(transfers)}
    ends = carried.ends
    missing, more = number_of.keys() - set(ends), set(ends) - number_of.keys()
    if missing or more:
        source, sink, _ = min(missing or more)
        what = "has no transfer" if missing else "has a transfer that this run has not,"
        raise InputError(
            f"{carried.where}: it {what} {source} to {sink}; schedule the pairs of this run"
        )
    for number, own in enumerate(ends):
        carried.require_path(number, [label_of(link) for link in transfers[number_of[own]].path])
    return tuple(tuple(number_of[ends[i]] for i in frame) for frame in carried.frames)


def conflict_free_frames(plan: BulkPlan) -> int:
    """The time frames of a plan in which no two transfers share a link: rounds that congest are split, as ``testbed
    schedule`` does."""
    if plan.method not in ROUNDS:
        return len(plan.frames)
    return schedule_by_name(
        traffic_of(plan.network, plan.transfers), plan.method, seed=plan.seed
    ).length


def traffic_of(network: Network, transfers: Sequence[BulkTransfer]) -> Traffic:
    """The same transfers as the schedulers know them."""
    paths: dict[int, dict[Pair, Path]] = {}
    for t in transfers:
        paths.setdefault(t.part, {})[t.source, t.sink] = t.path
    routes = [lambda a, b, own=own: own[a, b] for own in paths.values()]
    return patterns.traffic_of(network, list(paths[0]), *routes)
