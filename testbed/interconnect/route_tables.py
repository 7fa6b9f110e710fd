"""Where packets go: the routing as tables by router and target, and the dateline that breaks the cycles of rings.

The dateline keeps a torus with virtual channels free of deadlock: a packet that has still to cross that of its ring
(the cable between its last and first switch) is of class 1, every other of class 0; each class has half of the virtual
channels.

Bubble flow control (Carrion et al. 1997): a packet that enters a ring, from a host or out of another ring, must leave
one more slot free behind it. So the slots of a ring are never all taken, and what is in it can always move on.

An adaptive routing relation has tables of its own: from every channel the channels that lead nearer to a router, and
how far it is. A **row** is what a packet has come over: a channel (a link between routers and one of its lanes), or,
behind the channels, the router at which it starts or where a detour ends.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from testbed.arrays import IntArray
from testbed.errors import InputError
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.static_paths import (
    NONE,
    CompactRoutes,
    Paths,
    build_paths,
    grid_routes,
    is_grid,
    table_routes,
)
from topologies import Network, TopologyError
from topologies.routing_relations import RoutingRelation
from topologies.routing_tables import find_relation, static_routing

MOST_ENTRIES = 1 << 26
"""Of the tables of either way round together: 256 MB."""
MAX_PATHS = 256
"""Ways up a fat tree: a packet keeps the number of its own in a byte."""


@dataclass(frozen=True, kw_only=True)
class RouteTable:
    """Where packets go. Each packet draws one of the variants v: of both ways round a ring where they are as long, or
    of the ways up a fat tree."""

    compact: CompactRoutes
    lane_class: IntArray
    """(v, router, target): 1 where the packet has still to cross a dateline; 1 x 1 x 1 where there are no classes."""

    @property
    def next_link(self) -> IntArray:
        """(v, router, target): the link that leaves the router; NONE at the target's own router."""
        return self.compact.table

    @property
    def classes(self) -> int:
        """2 where lanes are divided by the dateline, else 1."""
        return 2 if self.lane_class.size > 1 else 1


def searched_paths(network: Network, routing: str) -> Paths:
    """Tables of the routing requested by name ("table", "shortest-path"), whatever the network itself names."""
    attributes = {k: v for k, v in network.attributes.items() if k not in ("shape", "wraps")}
    return build_paths(replace(network, attributes={**attributes, "routing": routing}))


def check_routing(network: Network, parameters: SimulationParameters) -> None:
    """Raise InputError where the network has no such routing, or no dateline for the virtual channels that are
    requested."""
    method = {"dor": "dimension-order", "ft-drb": None, "nca": "d-mod-k"}.get(
        parameters.routing, parameters.routing
    )
    try:
        if method is not None:
            static_routing(network, method)
    except TopologyError as error:
        required = "dimension order" if parameters.routing == "dor" else parameters.routing
        raise InputError(
            f"--routing {parameters.routing}: {network.name} has no {required}: {error}"
        ) from None
    if parameters.routing == "nca":
        _check_up_paths(network)
    is_tree = network.attributes.get("family") in ("fat-tree", "clos")
    if parameters.deadlock == "virtual-channels" and not (is_grid(network) or is_tree):
        raise InputError(
            f"--deadlock-avoidance virtual-channels: {network.name} has no dateline (it is no torus, mesh, ring or fat "
            "tree); use nac"
        )


def _check_up_paths(network: Network) -> None:
    if network.attributes.get("family") != "fat-tree":
        raise InputError(
            f"--routing nca: {network.name} is no fat-tree:k,n; use d-mod-k or shortest-path"
        )
    paths = int(network.attributes["k"]) ** (int(network.attributes["n"]) - 1)
    if paths > MAX_PATHS:
        raise InputError(
            f"--routing nca: {network.name} has {paths} ways up; {MAX_PATHS} are the most: use d-mod-k"
        )


def build_routes(
    network: Network, parameters: SimulationParameters, paths: Paths
) -> tuple[RouteTable, IntArray]:
    """The routing tables, and the target in them that stands for each host."""
    if parameters.routing in ("dor", "ft-drb") and is_grid(network):
        bits = 0
        if (
            parameters.routing == "dor"
            and parameters.hop.ties == "random"
            and network.attributes["wraps"]
        ):
            even = sum(size % 2 == 0 and size > 2 for size in network.attributes["shape"])
            bits = max(1, min(even, int(math.log2(MOST_ENTRIES // paths.routers**2 or 1))))
        routers = np.arange(paths.routers, dtype=np.int32)
        compact = grid_routes(network, (paths.link_source, paths.link_target), routers, bits)
        target = np.asarray(paths.host_router, dtype=np.int32)
    else:
        compact = table_routes(
            up_paths(paths) if parameters.routing == "nca" else paths.next_link[None]
        )
        target = np.arange(paths.routers, paths.routers + len(paths.host_router), dtype=np.int32)
    classes: IntArray = np.zeros((1, 1, 1), dtype=np.uint8)
    if (
        parameters.deadlock == "virtual-channels"
        and is_grid(network)
        and network.attributes["wraps"]
    ):
        classes = dateline_classes(network, compact.table, paths)
    return RouteTable(compact=compact, lane_class=classes), target


def up_paths(paths: Paths) -> IntArray:
    """k^(n-1) x R x (R + H): d-mod-k's tables, but up by the ports that are the digits of the variant's number.

    So a packet that draws its variant draws every port up to the nearest common ancestor, each by itself.
    """
    variants, radix = paths.width, paths.radix
    level = np.arange(paths.routers) // paths.width
    up = np.full((paths.routers, radix), NONE, dtype=np.int32)
    for i, (a, b) in enumerate(zip(paths.link_source, paths.link_target, strict=True)):
        if min(a, b) >= 0 and level[b] > level[a]:
            up[a, b % paths.width // radix ** level[a] % radix] = i
    table = np.asarray(paths.next_link)
    there = np.where(table >= 0, np.asarray(paths.link_target)[table], NONE)
    climbs = (there >= 0) & (level[there] > level[:, None])
    ports = np.arange(variants)[:, None] // radix**level % radix
    chosen = up[np.arange(paths.routers), ports]
    return np.where(climbs, chosen[:, :, None], table).astype(np.int32)


def dateline_classes(network: Network, tables: IntArray, paths: Paths) -> IntArray:
    """V x R x T: 1 where the way from router r to target t has still to cross the dateline of the ring that it is
    in."""
    shape = [int(size) for size in network.attributes["shape"]]
    place = np.array(np.unravel_index(np.arange(paths.routers), shape))
    variants, routers, targets = tables.shape
    at_router = np.concatenate([np.arange(routers), np.asarray(paths.host_router)])[:targets]
    classes = np.zeros((variants, routers, targets), dtype=np.uint8)
    for variant in range(variants):
        there = np.where(tables[variant] >= 0, np.asarray(paths.link_target)[tables[variant]], 0)
        for dimension, size in enumerate(shape):
            here = place[dimension][:, None]
            step = (place[dimension][there] - here) % size
            moves = (step != 0) & (tables[variant] >= 0)
            goal = place[dimension][at_router][None, :]
            forward = step == 1
            crosses = np.where(forward, goal < here, goal > here)
            classes[variant] |= (moves & crosses & (size > 2)).astype(np.uint8)
    return classes


def check_rings(network: Network, parameters: SimulationParameters) -> None:
    """InputError where bubble flow control or recovery does not go with the routing, the network or the buffers."""
    if parameters.deadlock == "bubble":
        if parameters.routing != "dor" or parameters.channels != 1:
            raise InputError(
                "--deadlock-avoidance bubble: it is for --routing dor with one virtual channel"
            )
        if parameters.slots < 2:
            raise InputError(
                "--deadlock-avoidance bubble: it needs buffers of two packets or more; give larger --buffer-size"
            )
    if parameters.deadlock == "disha" and parameters.routing != "minimal-adaptive":
        raise InputError("--deadlock-avoidance disha: it recovers --routing minimal-adaptive")


def axes(paths: Paths) -> IntArray:
    """By link of a grid: twice its dimension, and one more where it leads towards -; -1: a host's link, or no grid."""
    found = np.full(len(paths.link_source), -1, dtype=np.int32)
    if paths.routes.links.shape[1] > 1:
        for column in reversed(range(paths.routes.links.shape[1])):
            leading = paths.routes.links[:, column]
            found[leading[leading >= 0]] = column
    return found


Cable = frozenset[str]
"""The two switches that a cable joins."""

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
    left = tuple(
        link for link in network.links if frozenset((link.source, link.target)) not in dead
    )
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
        0,
        0,
        NO_DETOUR,
        np.full((1, 1, 1), NONE, np.int32),
        np.zeros((1, 1), np.int16),
        one,
        one.copy(),
    )


def build_relation_tables(
    network: Network, relation: RoutingRelation, *, spread_lanes: bool
) -> RelationTables:
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
    codes = np.array(
        [*(i << LANE_BITS | lane for i, lane in zip(links, lanes, strict=True)), NONE],
        dtype=np.int32,
    )
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
    nearer = [
        (farther[column] + 1 == whole) & (whole < FAR) & (column >= 0)[:, None]
        for column in following.T
    ]
    most = max(1, int(sum(chosen.astype(np.int64) for chosen in nearer).max()))
    choices = np.full((*whole.shape, most), NONE, dtype=np.int32)
    count = np.zeros(whole.shape, dtype=np.int64)
    for column, chosen in zip(following.T, nearer, strict=True):
        rows, goals = np.nonzero(chosen)
        choices[rows, goals, count[rows, goals]] = codes[column[rows]]
        count[rows, goals] += 1
    return choices


def _check_joined(
    network: Network, relation: RoutingRelation, routers: dict[str, int], hops: IntArray
) -> None:
    """InputError where the relation has no way between two routers that have hosts."""
    with_hosts = sorted(
        {
            routers[network.links[i].target]
            for host in network.hosts
            for i in network.out_links(host.id)
        }
    )
    lost = np.argwhere(hops[np.ix_(with_hosts, with_hosts)] >= FAR)
    if len(lost):
        a, b = (network.switches[with_hosts[i]].id for i in lost[0])
        raise InputError(
            f"--routing {relation.method}: it has no way from {a} to {b} on what is left of {network.name} "
            f"({len(lost)} of {len(with_hosts) ** 2} pairs of switches)"
        )
