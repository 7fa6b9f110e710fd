"""An adaptive routing relation as tables: from every channel the channels that lead nearer to a router, and how far it
is.

A **row** is what a packet has come over: a channel (a link between routers and one of its lanes), or, behind the
channels, the router at which it starts or where a detour ends.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from testbed.arrays import IntArray
from testbed.errors import InputError
from testbed.interconnect.parameters import SimulationParameters
from topologies import Network, TopologyError
from topologies.routing_relations import RoutingRelation
from topologies.routing_tables import find_relation

Cable = frozenset[str]
"""The two switches that a cable joins."""

NONE = -1
ANY_LANE = 15
"""A choice's lane where all will do."""
LANE_BITS = 4
FAR = 16_000
FINAL, FIRST, RECOVERY, UNDECIDED = range(4)
"""Where a packet is on its way (its ``variant``): bound for its destination; for the router of its detour; on the lane
of recovery; a packet of UGAL that has not left its source's router."""
DETOURS = ("", "valiant", "ugal")
NO_DETOUR, VALIANT, UGAL = range(3)


class RelationTables(NamedTuple):
    """For R routers and L links. ``lanes``: of one part of the way; a detour has as many for the way to its router,
    which are the first."""

    lanes: int
    all_lanes: int
    detour: int
    """NO_DETOUR, VALIANT or UGAL."""
    choices: IntArray
    """[row, router]: link * 16 + lane of each channel that leads nearer, NONE behind the last; lane ANY_LANE: any."""
    hops: IntArray
    """[row, router]: links still to cross."""
    row: IntArray
    """[link * lanes + lane]: the row of a channel; NONE: a host's link, or a dead one."""
    start_row: IntArray
    """[router]: the row of a packet that starts there."""


def relation_of(
    network: Network, parameters: SimulationParameters, dead: Collection[Cable] = ()
) -> RoutingRelation | None:
    """The relation that packets are to follow over what is left without the dead cables; None: they have one path a
    pair.

    InputError where it does not fit the network, the virtual channels or the way in which deadlocks are to be avoided.
    """
    if parameters.routing in ("dor", "ft-drb"):
        return None
    left = tuple(link for link in network.links if frozenset((link.source, link.target)) not in dead)
    try:
        relation = find_relation(replace(network, links=left), parameters.routing)
    except TopologyError as error:
        raise InputError(f"--routing {parameters.routing}: {error}") from None
    if relation is None:
        return None
    own, required, avoided = relation.all_lanes, parameters.virtual_channels, parameters.deadlock
    if own > 14 or (own > 1 and required not in (None, own)):
        raise InputError(
            f"--routing {parameters.routing}: it has {own} virtual channels on {network.name}; 14 are the most"
        )
    if avoided == "virtual-channels" or (own > 1 and avoided != "none"):
        raise InputError(
            f"--deadlock-avoidance {avoided}: --routing {parameters.routing} has virtual channels of its own; "
            "leave it out"
        )
    return relation


def no_relation() -> RelationTables:
    """What stands there for routings of one path a pair."""
    one = np.zeros(1, dtype=np.int32)
    return RelationTables(
        0, 0, NO_DETOUR, np.full((1, 1, 1), NONE, np.int32), np.zeros((1, 1), np.int16), one, one.copy()
    )


def build_relation_tables(network: Network, relation: RoutingRelation, *, spread_lanes: bool) -> RelationTables:
    """Tables over the links of ``network``, of which the relation's network may have lost some.

    ``spread_lanes``: links have more lanes than the relation's one, and all will do. InputError where hosts are left
    that the relation joins no more.
    """
    routers = {switch.id: i for i, switch in enumerate(network.switches)}
    links = [network.link_index[relation.network.links[i].id] for i, _ in relation.channels]
    lanes = [ANY_LANE if spread_lanes else lane for _, lane in relation.channels]
    end = np.array([routers[network.links[i].target] for i in links], dtype=np.int32)
    starts = [relation.first[switch.id] for switch in network.switches]
    following = _padded([*relation.after, *starts])
    hops = _hops(following[: len(links)], end, len(routers))
    farther = np.concatenate([hops, np.full((1, len(routers)), FAR, np.int16)])
    from_start = 1 + farther[following[len(links) :]].min(axis=1)
    from_start[np.arange(len(routers)), np.arange(len(routers))] = 0
    whole = np.minimum(np.concatenate([hops, from_start]), FAR).astype(np.int16)
    _check_joined(network, relation, routers, whole[len(links) :])
    row = np.full(len(network.links) * relation.lanes, NONE, dtype=np.int32)
    for c, (i, (_, lane)) in enumerate(zip(links, relation.channels, strict=True)):
        row[i * relation.lanes + lane] = c
    codes = np.array([*(i << LANE_BITS | lane for i, lane in zip(links, lanes, strict=True)), NONE], dtype=np.int32)
    return RelationTables(
        lanes=relation.lanes,
        all_lanes=relation.all_lanes,
        detour=DETOURS.index(relation.detour),
        choices=_choices(following, farther, whole, codes),
        hops=whole,
        row=row,
        start_row=np.arange(len(links), len(links) + len(routers), dtype=np.int32),
    )


def _padded(lists: list[tuple[int, ...]]) -> IntArray:
    """Lists as rows of one length, filled up by -1."""
    table = np.full((len(lists), max(1, *map(len, lists))), NONE, dtype=np.int32)
    for i, items in enumerate(lists):
        table[i, : len(items)] = items
    return table


def _hops(following: IntArray, end: IntArray, routers: int) -> IntArray:
    """[channel, router]: the fewest links after the channel, FAR where the relation never leads there."""
    hops = np.full((len(end) + 1, routers), FAR, dtype=np.int16)
    hops[np.arange(len(end)), end] = 0
    while True:
        nearer = hops[:-1].copy()
        for column in following.T:
            np.minimum(nearer, hops[column] + 1, out=nearer)
        if np.array_equal(nearer, hops[:-1]):
            return nearer
        hops[:-1] = nearer


def _choices(following: IntArray, farther: IntArray, whole: IntArray, codes: IntArray) -> IntArray:
    """[row, router, k]: the channels, as codes, after which a packet of this row is one link nearer."""
    nearer = [(farther[column] + 1 == whole) & (whole < FAR) & (column >= 0)[:, None] for column in following.T]
    most = max(1, int(sum(chosen.astype(np.int64) for chosen in nearer).max()))
    choices = np.full((*whole.shape, most), NONE, dtype=np.int32)
    count = np.zeros(whole.shape, dtype=np.int64)
    for column, chosen in zip(following.T, nearer, strict=True):
        rows, goals = np.nonzero(chosen)
        choices[rows, goals, count[rows, goals]] = codes[column[rows]]
        count[rows, goals] += 1
    return choices


def _check_joined(network: Network, relation: RoutingRelation, routers: dict[str, int], hops: IntArray) -> None:
    """InputError where the relation has no way between two routers that have hosts."""
    with_hosts = sorted(
        {routers[network.links[i].target] for host in network.hosts for i in network.out_links(host.id)}
    )
    lost = np.argwhere(hops[np.ix_(with_hosts, with_hosts)] >= FAR)
    if len(lost):
        a, b = (network.switches[with_hosts[i]].id for i in lost[0])
        raise InputError(
            f"--routing {relation.method}: it has no way from {a} to {b} on what is left of {network.name} "
            f"({len(lost)} of {len(with_hosts) ** 2} pairs of switches)"
        )
