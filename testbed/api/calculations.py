"""Networks, routes, traffics, schedules and block sizes by one call each: values in, values out, nothing is run.

Errors are the testbed's own: UsageError for a value of the wrong kind, InputError, FecError and TopologyError for one
that cannot be used; each says in one line what to give instead.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Literal

from testbed.errors import InputError, require_type
from testbed.model.naming.names import NetworkLike, known_network, node_named
from topologies import Network
from topologies.errors import python_number

if TYPE_CHECKING:
    from testbed.model.routes import SplitRoute
    from testbed.model.schedule import Schedule
    from testbed.model.traffic import Traffic

Labels = Literal["random", "stratified"]


def network(name: NetworkLike) -> Network:
    """The network of a catalogue name, of a file, or of a value: a networkx graph, a Mininet Topo, a node-link document
    or another dictionary (docs/reference/networks.md); a network is returned as it is.

    Raises TopologyError for what makes no network, UsageError for what is none of these.

    >>> found = network("swiss-t1")
    >>> len(found.switches), len(found.hosts), len(found.links)
    (8, 64, 160)
    """
    return known_network(name)


def route(
    network: NetworkLike,
    source: str,
    sink: str,
    method: str = "capillary",
    *,
    layers: int | None = None,
) -> SplitRoute:
    """What fraction of one flow each directed link carries, exactly. ``layers``: of capillary routing, the first so
    many.

    ``method``: as of ``testbed route --routing``; plug-ins add to them. Raises InputError, NoPathError and
    TopologyError.

    >>> found = route("ring:4", "s0", "s2")
    >>> {found.network.links[i].label: str(found.loads[i]) for i in found.loaded}
    {'s0->s1': '1/2', 's1->s2': '1/2', 's3->s2': '1/2', 's0->s3': '1/2'}
    """
    from testbed.routing.methods import route_by_name

    _require_nodes(source, sink)
    require_type(method, str, "method", 'the name of a routing method, such as "capillary"')
    layers = require_type(layers, (int, type(None)), "layers", "a whole number, or None for all")
    value = known_network(network)
    ends = [node_named(node, value) or node for node in (source, sink)]
    return route_by_name(value, ends[0], ends[1], method, layers)


def traffic(
    network: NetworkLike, pattern: str | Sequence[tuple[str, str]] = "all-to-all"
) -> Traffic:
    """The transfers of a network over its static paths: all to all, or the pairs (sender, receiver) of ``pattern``.

    >>> found = traffic("crossbar:4", [("t0", "r1"), ("t0", "r2")])
    >>> len(found), found.bottleneck_load
    (2, 2)
    """
    from testbed.scheduling.traffic.patterns import all_to_all, parse_pairs, traffic_of

    found = known_network(network)
    if isinstance(pattern, str):
        if pattern != "all-to-all":
            raise InputError(f"pattern {pattern!r}: give all-to-all or pairs of nodes")
        return all_to_all(found)
    require_type(pattern, Sequence, "pattern", '"all-to-all" or pairs of nodes')
    return traffic_of(found, parse_pairs([list(_pair(pair)) for pair in pattern], found, "pattern"))


def schedule(
    transfers: Traffic | NetworkLike,
    method: str = "liquid",
    *,
    seed: int = 1,
    time_limit_s: float = 60.0,
) -> Schedule:
    """Time frames in which no two transfers share a link; checked by the independent checker before it is returned.

    ``transfers``: a traffic, or a network whose all-to-all is meant. ``method``: as of ``testbed schedule
    --scheduling``. Raises InputError for an unknown method, UsageError for lists: make a traffic of them
    (``Traffic.from_transfers``).

    >>> found = schedule("crossbar:4")
    >>> found.length, found.bottleneck_load, found.proved
    (4, 4, 'liquid')
    """
    from testbed.model.traffic import Traffic
    from testbed.scheduling.methods import schedule_by_name
    from testbed.scheduling.options import SearchOptions

    require_type(
        transfers,
        (Traffic, Network, str, PathLike),
        "schedule",
        "a Traffic (Traffic.from_transfers) or a network",
    )
    search = SearchOptions(method=method, seed=seed, time_limit_s=time_limit_s)
    found = transfers if isinstance(transfers, Traffic) else traffic(transfers)
    return schedule_by_name(
        found, method, seed=search.seed, time_limit_s=search.time_limit_s, now=time.monotonic
    )


def block_size(
    source_packets: int,
    loss: float | Fraction | str | Sequence[tuple[int, int]],
    decoding_error_rate: float | Fraction | str = 1e-5,
    *,
    labels: Labels = "random",
) -> int:
    """Packets a block needs, so that M source packets are decoded while this share of the packets is lost.

    Random labels: the smallest N that fails at most at the decoding error rate (Gabrielyan 2007, eq. 24 and 25).
    Stratified labels: the smallest N that never fails, for any one interval of that share, or for the label intervals
    [start, stop) that are given as ``loss``. Raises FecError for values outside their ranges.

    >>> block_size(20, 0.1), block_size(20, 0.1, labels="stratified"), block_size(20, [(0, 32768)], labels="stratified")
    (32, 24, 42)
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
    return stratified_block_size([_interval(one) for one in loss], source_packets)


def _require_nodes(*nodes: str) -> None:
    for node in nodes:
        require_type(node, str, "node", "the id of a node, which is text")


def _pair(pair: object) -> tuple[str, str]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"pattern: {str(pair)[:60]} is no pair; give (sender, receiver)")
    _require_nodes(*pair)
    return pair[0], pair[1]


def _interval(one: object) -> tuple[int, int]:
    ends = list(map(python_number, one)) if isinstance(one, (tuple, list)) else []
    if len(ends) == 2 and all(isinstance(end, int) for end in ends):
        start, stop = ends
        if 0 <= start < stop <= 65536:
            return start, stop
    raise InputError(
        f"loss: {str(one)[:60]} is no interval of labels; give (start, stop) within 0 to 65536"
    )
