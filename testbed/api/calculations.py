"""Networks, routes, traffics, schedules and block sizes by one call each, without a run.

Errors are the testbed's own: UsageError for a value of the wrong kind; InputError, FecError and
TopologyError for a value that cannot be used. Each says in one line what to give instead.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from testbed.errors import InputError, UsageError, require_type
from testbed.model.naming.names import NetworkLike, NodeName, known_network, known_node
from topologies import CatalogueEntry, Network, catalogue
from topologies.errors import python_number

if TYPE_CHECKING:
    from testbed.model.routes import SplitRoute
    from testbed.model.schedule import Schedule
    from testbed.model.traffic import Traffic

Labels = Literal["random", "stratified"]


def network(name: NetworkLike) -> Network:
    """Return the network of a name, a file or a value.

    Args:
        name: A catalogue name, a file, a networkx graph, a Mininet Topo, a node-link document or
            another dictionary (docs/reference/networks.md). A network is returned as it is.

    Raises:
        TopologyError: The value makes no network.
        UsageError: The value is of another kind.

    >>> swiss_t1 = network("swiss-t1")
    >>> len(swiss_t1.switches), len(swiss_t1.hosts), len(swiss_t1.links)
    (8, 64, 160)
    """
    return known_network(name)


def networks() -> dict[str, CatalogueEntry]:
    """Return the families of the catalogue by name, as ``testbed topology list`` lists them.

    >>> networks()["ring"].pattern
    'ring:n'
    """
    return {entry.name: entry for entry in catalogue()}


def route(
    network: NetworkLike,
    source: NodeName,
    sink: NodeName,
    method: str = "capillary",
    *,
    routing: str | None = None,
    layers: int | None = None,
) -> SplitRoute:
    """Compute what fraction of one flow each directed link carries, exactly.

    Args:
        network: A network, or anything that ``testbed.network`` takes.
        source: The node where the flow starts: its id, or the node of a networkx graph.
        sink: The node where it ends.
        method: The routing method, as for ``testbed route --routing``; plug-ins add to them.
        routing: Another name of ``method``, as on the command line.
        layers: Only the first layers of capillary routing; None for all.

    Raises:
        InputError: The method or a node is unknown.
        NoPathError: No path leads from the source to the sink.

    >>> split = route("ring:4", "s0", "s2")
    >>> {split.network.links[i].label: str(split.loads[i]) for i in split.loaded}
    {'s0->s1': '1/2', 's1->s2': '1/2', 's3->s2': '1/2', 's0->s3': '1/2'}
    """
    from testbed.routing.methods import route_by_name

    if routing is not None and method not in ("capillary", routing):
        raise InputError(
            f"route: routing {routing!r} and method {method!r} differ; give one of them"
        )
    chosen = method if routing is None else routing
    require_type(chosen, str, "method", 'the name of a routing method, such as "capillary"')
    layers = require_type(layers, (int, type(None)), "layers", "a whole number, or None for all")
    resolved = known_network(network)
    source_id = known_node(source, resolved)
    sink_id = known_node(sink, resolved)
    return route_by_name(resolved, source_id, sink_id, chosen, layers)


def traffic(
    network: NetworkLike, pattern: str | Sequence[tuple[NodeName, NodeName]] = "all-to-all"
) -> Traffic:
    """Return the transfers of a network over its static paths.

    Args:
        network: A network, or anything that ``testbed.network`` takes.
        pattern: "all-to-all", or pairs of sender and receiver.

    >>> transfers = traffic("crossbar:4", [("t0", "r1"), ("t0", "r2")])
    >>> len(transfers), transfers.bottleneck_load
    (2, 2)
    """
    from testbed.scheduling.traffic.patterns import all_to_all, parse_pairs, traffic_of

    resolved = known_network(network)
    if isinstance(pattern, str):
        if pattern != "all-to-all":
            raise InputError(f"pattern {pattern!r}: give all-to-all or pairs of nodes")
        return all_to_all(resolved)
    require_type(pattern, Sequence, "pattern", '"all-to-all" or pairs of nodes')
    pairs = [list(_pair(pair, resolved)) for pair in pattern]
    return traffic_of(resolved, parse_pairs(pairs, resolved, "pattern"))


def schedule(
    transfers: Traffic | NetworkLike,
    method: str = "liquid",
    *,
    scheduling: str | None = None,
    seed: int = 1,
    time_limit_s: float = 60.0,
) -> Schedule:
    """Compute time frames in which no two transfers share a link.

    The independent checker checks the schedule before it is returned.

    Args:
        transfers: A traffic, or a network for its all-to-all traffic.
        method: The scheduling method, as for ``testbed schedule --scheduling``.
        scheduling: Another name of ``method``, as on the command line.
        seed: Seed of the search.
        time_limit_s: Seconds after which the search ends.

    Raises:
        InputError: The method is unknown.
        UsageError: The transfers are a list; make a traffic of it (``Traffic.from_transfers``).

    >>> frames = schedule("crossbar:4")
    >>> frames.length, frames.bottleneck_load, frames.proved
    (4, 4, 'liquid')
    """
    from testbed.model.traffic import Traffic
    from testbed.scheduling.methods import schedule_by_name
    from testbed.scheduling.options import SearchOptions

    if isinstance(transfers, (list, tuple)):
        raise UsageError(
            "schedule: got a list; give a Traffic (Traffic.from_transfers) or a network"
        )
    if scheduling is not None and method not in ("liquid", scheduling):
        raise InputError(
            f"schedule: scheduling {scheduling!r} and method {method!r} differ; give one of them"
        )
    chosen = method if scheduling is None else scheduling
    search = SearchOptions(method=chosen, seed=seed, time_limit_s=time_limit_s)
    resolved = transfers if isinstance(transfers, Traffic) else traffic(transfers)
    result = schedule_by_name(
        resolved, chosen, seed=search.seed, time_limit_s=search.time_limit_s, now=time.monotonic
    )
    return replace(result, traffic=resolved)


def block_size(
    source_packets: int,
    loss: float | Fraction | str | Sequence[tuple[int, int]],
    decoding_error_rate: float | Fraction | str = 1e-5,
    *,
    labels: Labels = "random",
) -> int:
    """Return the packets of a block that decodes while a share of the packets is lost.

    With random labels this is the smallest N that fails at most at the decoding error rate
    (Gabrielyan 2007, eq. 24 and 25). With stratified labels it is the smallest N that never fails.

    Args:
        source_packets: The packets M that are coded.
        loss: The share that is lost, or for stratified labels the lost intervals [start, stop).
        decoding_error_rate: How often a block with random labels may fail.
        labels: The order of labels, "random" or "stratified".

    Raises:
        FecError: A value is outside its range.

    >>> block_size(20, 0.1), block_size(20, 0.1, labels="stratified")
    (32, 24)
    >>> block_size(20, [(0, 32768)], labels="stratified")
    42
    """
    from fec.redundancy.block_size import (
        fec_block_size,
        stratified_block_size,
        stratified_tolerance_block_size,
    )

    source_packets = require_type(source_packets, int, "source_packets", "a whole number")
    if labels not in ("random", "stratified"):
        raise InputError(f"labels {labels!r}; give random or stratified")
    kinds = (int, float, Fraction, str, Sequence)
    loss = require_type(loss, kinds, "loss", "a fraction of the packets, or label intervals")
    if isinstance(loss, (int, float, Fraction, str)):
        if labels == "stratified":
            return stratified_tolerance_block_size(loss, source_packets)
        return fec_block_size(source_packets, loss, decoding_error_rate)
    if labels == "random":
        raise InputError(
            "loss: label intervals are for stratified labels; give a fraction of the packets"
        )
    return stratified_block_size([_interval(interval) for interval in loss], source_packets)


def _pair(pair: object, network: Network) -> tuple[str, str]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"pattern: {str(pair)[:60]} is no pair; give (sender, receiver)")
    return known_node(pair[0], network), known_node(pair[1], network)


def _interval(interval: object) -> tuple[int, int]:
    ends = list(map(python_number, interval)) if isinstance(interval, (tuple, list)) else []
    if len(ends) == 2 and all(isinstance(end, int) for end in ends):
        start, stop = ends
        if 0 <= start < stop <= 65536:
            return start, stop
    raise InputError(
        f"loss: {str(interval)[:60]} is no interval of labels; give (start, stop) within 0 to 65536"
    )
