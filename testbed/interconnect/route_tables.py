"""The routing as tables by router and target, and the dateline that breaks the cycles of rings.

*Datelines* keep a torus with virtual channels free of deadlock. The dateline of a ring is the cable
between its last and first switch. A packet that has still to cross the dateline of its ring is of
class 1, every other packet of class 0. Each class has half of the virtual channels.

*Bubble flow control* (Carrion et al. 1997): a packet that enters a ring, from a host or from
another ring, must leave one more slot free behind it. So the slots of a ring are never all taken,
and a packet in the ring can always move.

*Adaptive routing relations* have other tables. For every channel they contain the channels that
lead nearer to a router, and the distance to it. A row of these tables stands for a channel (a link
between routers and one of its lanes) over which a packet has arrived. The rows behind the channels
stand for routers at which a packet starts or a detour ends.
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

# Largest number of entries of all variants of a table together: 256 MB.
MAX_ENTRIES = 1 << 26
# Largest number of paths up a fat tree. A packet stores the number of its path in a byte.
MAX_PATHS = 256


@dataclass(frozen=True, kw_only=True)
class RouteTable:
    """Static routes in one or several variants.

    Each packet draws a variant v: a direction round each ring if both are equally long, or a path
    up a fat tree.

    Attributes:
        compact: The routes.
        lane_class: (v, router, target) 1 if the packet has still to cross a dateline. 1 x 1 x 1 if
            there are no classes.
    """

    compact: CompactRoutes
    lane_class: IntArray

    @property
    def next_link(self) -> IntArray:
        """(v, router, target): the link that leaves the router; NONE at the target's own router."""
        return self.compact.table

    @property
    def classes(self) -> int:
        """Number of classes of lanes: 2 if the dateline divides them, else 1."""
        return 2 if self.lane_class.size > 1 else 1


def searched_paths(network: Network, routing: str) -> Paths:
    """Return tables of the routing of this name ("table", "shortest-path").

    The routing that the network itself names is ignored.
    """
    attributes = {k: v for k, v in network.attributes.items() if k not in ("shape", "wraps")}
    return build_paths(replace(network, attributes={**attributes, "routing": routing}))


def check_routing(network: Network, parameters: SimulationParameters) -> None:
    """Check that the network has the requested routing, and a dateline if one is needed.

    Raises:
        InputError: The network has no such routing, or the requested virtual channels need a
            dateline and the network has none.
    """
    methods = {"dor": "dimension-order", "nca": "d-mod-k"}
    try:
        # FT-DRB works with any static routing.
        if parameters.routing != "ft-drb":
            static_routing(network, methods.get(parameters.routing, parameters.routing))
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
            f"--deadlock-avoidance virtual-channels: {network.name} has no dateline "
            "(it is no torus, mesh, ring or fat tree); use nac"
        )


def _check_up_paths(network: Network) -> None:
    """Check that the network is a k-ary n-tree with few enough paths up.

    Raises:
        InputError: It is not.
    """
    if network.attributes.get("family") != "fat-tree":
        raise InputError(
            f"--routing nca: {network.name} is no fat-tree:k,n; use d-mod-k or shortest-path"
        )
    paths = int(network.attributes["k"]) ** (int(network.attributes["n"]) - 1)
    if paths > MAX_PATHS:
        raise InputError(
            f"--routing nca: {network.name} has {paths} ways up; {MAX_PATHS} are the most: "
            "use d-mod-k"
        )


def build_routes(
    network: Network, parameters: SimulationParameters, paths: Paths
) -> tuple[RouteTable, IntArray]:
    """Return the routing tables, and the target in them that stands for each host."""
    if parameters.routing in ("dor", "ft-drb") and is_grid(network):
        # On a grid all hosts of a router share its entry.
        routers = np.arange(paths.routers, dtype=np.int32)
        bits = _variant_bits(network, parameters, paths)
        compact = grid_routes(network, (paths.link_source, paths.link_target), routers, bits)
        target = np.asarray(paths.host_router, dtype=np.int32)
    else:
        tables = up_paths(paths) if parameters.routing == "nca" else paths.next_link[None]
        compact = table_routes(tables)
        target = np.arange(paths.routers, paths.routers + len(paths.host_router), dtype=np.int32)
    classes: IntArray = np.zeros((1, 1, 1), dtype=np.uint8)
    has_rings = is_grid(network) and network.attributes["wraps"]
    if parameters.deadlock == "virtual-channels" and has_rings:
        classes = dateline_classes(network, compact.table, paths)
    return RouteTable(compact=compact, lane_class=classes), target


def _variant_bits(network: Network, parameters: SimulationParameters, paths: Paths) -> int:
    """Return the number of bits that select the direction round rings of even size.

    There is one bit per even side, unless the tables of all variants would exceed MAX_ENTRIES.
    """
    draws_direction = parameters.routing == "dor" and parameters.hop.ties == "random"
    if not draws_direction or not network.attributes["wraps"]:
        return 0
    even_sides = [size for size in network.attributes["shape"] if size % 2 == 0 and size > 2]
    max_variants = MAX_ENTRIES // paths.routers**2 or 1
    return max(1, min(len(even_sides), int(math.log2(max_variants))))


def up_paths(paths: Paths) -> IntArray:
    """Return the tables of all paths up a k-ary n-tree.

    They are d-mod-k's tables, but the ports up are the digits of the variant's number. So a packet
    that draws its variant draws each port up to the nearest common ancestor independently.

    Returns:
        An array k^(n-1) x R x (R + H) of links.
    """
    variants = paths.width
    radix = paths.radix
    level = np.arange(paths.routers) // paths.width
    up_link = np.full((paths.routers, radix), NONE, dtype=np.int32)
    for i, (a, b) in enumerate(zip(paths.link_source, paths.link_target, strict=True)):
        if min(a, b) >= 0 and level[b] > level[a]:
            up_link[a, b % paths.width // radix ** level[a] % radix] = i
    table = np.asarray(paths.next_link)
    next_router = np.where(table >= 0, np.asarray(paths.link_target)[table], NONE)
    climbs = (next_router >= 0) & (level[next_router] > level[:, None])
    ports = np.arange(variants)[:, None] // radix**level % radix
    chosen = up_link[np.arange(paths.routers), ports]
    return np.where(climbs, chosen[:, :, None], table).astype(np.int32)


def dateline_classes(network: Network, tables: IntArray, paths: Paths) -> IntArray:
    """Return the class of packets by variant, router and target.

    It is 1 if the route has still to cross the dateline of the ring that the router's next link is
    in.

    Args:
        network: A torus or ring.
        tables: (variant, router, target) The next link.
        paths: The network's static routing.
    """
    shape = [int(size) for size in network.attributes["shape"]]
    position = np.array(np.unravel_index(np.arange(paths.routers), shape))
    variants, routers, targets = tables.shape
    target_router = np.concatenate([np.arange(routers), np.asarray(paths.host_router)])[:targets]
    classes = np.zeros((variants, routers, targets), dtype=np.uint8)
    for variant in range(variants):
        table = tables[variant]
        next_router = np.where(table >= 0, np.asarray(paths.link_target)[table], 0)
        for dimension, size in enumerate(shape):
            start = position[dimension][:, None]
            goal = position[dimension][target_router][None, :]
            step = (position[dimension][next_router] - start) % size
            moves = (step != 0) & (table >= 0)
            crosses = np.where(step == 1, goal < start, goal > start)
            # A ring of two routers has no cycle of channels.
            classes[variant] |= (moves & crosses & (size > 2)).astype(np.uint8)
    return classes


def check_rings(network: Network, parameters: SimulationParameters) -> None:
    """Check that bubble flow control or recovery is possible.

    Raises:
        InputError: The routing, the virtual channels or the buffers do not allow it.
    """
    if parameters.deadlock == "bubble":
        if parameters.routing != "dor" or parameters.channels != 1:
            raise InputError(
                "--deadlock-avoidance bubble: it is for --routing dor with one virtual channel"
            )
        if parameters.slots < 2:
            raise InputError(
                "--deadlock-avoidance bubble: it needs buffers of two packets or more; "
                "give larger --buffer-size"
            )
    if parameters.deadlock == "disha" and parameters.routing != "minimal-adaptive":
        raise InputError("--deadlock-avoidance disha: it recovers --routing minimal-adaptive")


def axes(paths: Paths) -> IntArray:
    """Return the axis of each link of a grid.

    It is twice the dimension of the link, plus one if it leads in direction -. It is -1 for a link
    of a host, and for all links of other networks.
    """
    axis = np.full(len(paths.link_source), -1, dtype=np.int32)
    directions = paths.routes.links.shape[1]
    if directions > 1:
        for column in reversed(range(directions)):
            links = paths.routes.links[:, column]
            axis[links[links >= 0]] = column
    return axis


# The two switches that a cable connects.
Cable = frozenset[str]

# A choice is encoded as link << LANE_BITS | lane. ANY_LANE allows all lanes.
ANY_LANE = 15
LANE_BITS = 4

# Largest number of lanes of a routing relation, because the last code is ANY_LANE.
_MAX_LANES = 14

# Distance of a router that cannot be reached; more than any path has.
FAR = 16_000

# State of a packet under a routing relation, which is stored as its ``variant``: bound for its
# destination, bound for the router of its detour, on the lane of recovery, or not yet decided (a
# packet of UGAL that has not left its source's router).
FINAL, FIRST, RECOVERY, UNDECIDED = range(4)
DETOURS = ("", "valiant", "ugal")
NO_DETOUR, VALIANT, UGAL = range(3)


class RelationTables(NamedTuple):
    """The tables of an adaptive routing relation for R routers and L links.

    Attributes:
        lanes: Lanes of one part of a path. A detour has as many for the part to its router, which
            are the first ones.
        all_lanes: Lanes of both parts.
        detour: NO_DETOUR, VALIANT or UGAL.
        choices: [row, router] link * 16 + lane of each channel that leads nearer, then NONE. Lane
            ANY_LANE allows all lanes.
        hops: [row, router] Number of links still to cross.
        row: [link * lanes + lane] The row of a channel; NONE: a link of a host, or a dead link.
        start_row: [router] The row of a packet that starts at the router.
    """

    lanes: int
    all_lanes: int
    detour: int
    choices: IntArray
    hops: IntArray
    row: IntArray
    start_row: IntArray


def relation_of(
    network: Network, parameters: SimulationParameters, dead: Collection[Cable] = ()
) -> RoutingRelation | None:
    """Return the routing relation that packets follow, or None if each pair has one path.

    Args:
        network: The network.
        parameters: Parameters of routers and links.
        dead: Cables that the relation must not use.

    Raises:
        InputError: The relation does not fit the network, the virtual channels or the avoidance of
            deadlocks.
    """
    if parameters.routing in ("dor", "ft-drb"):
        return None
    live_links = tuple(
        link for link in network.links if frozenset((link.source, link.target)) not in dead
    )
    try:
        relation = find_relation(replace(network, links=live_links), parameters.routing)
    except TopologyError as error:
        raise InputError(f"--routing {parameters.routing}: {error}") from None
    if relation is None:
        return None
    lanes = relation.all_lanes
    avoidance = parameters.deadlock
    lanes_differ = lanes > 1 and parameters.virtual_channels not in (None, lanes)
    if lanes > _MAX_LANES or lanes_differ:
        raise InputError(
            f"--routing {parameters.routing}: it has {lanes} virtual channels on {network.name}; "
            f"{_MAX_LANES} are the most"
        )
    if avoidance == "virtual-channels" or (lanes > 1 and avoidance != "none"):
        raise InputError(
            f"--deadlock-avoidance {avoidance}: --routing {parameters.routing} has virtual "
            "channels of its own; leave it out"
        )
    return relation


def no_relation() -> RelationTables:
    """Return empty tables, for routings with one path per pair."""
    return RelationTables(
        lanes=0,
        all_lanes=0,
        detour=NO_DETOUR,
        choices=np.full((1, 1, 1), NONE, np.int32),
        hops=np.zeros((1, 1), np.int16),
        row=np.zeros(1, dtype=np.int32),
        start_row=np.zeros(1, dtype=np.int32),
    )


def build_relation_tables(
    network: Network, relation: RoutingRelation, *, spread_lanes: bool
) -> RelationTables:
    """Return the tables of a routing relation.

    Args:
        network: The network, whose numbers of links the tables use.
        relation: The relation. Its network may lack some of these links.
        spread_lanes: Whether packets may take any lane, because links have more lanes than the
            relation's only one.

    Raises:
        InputError: The relation has no path between two routers with hosts.
    """
    routers = {switch.id: i for i, switch in enumerate(network.switches)}
    links = [network.link_index[relation.network.links[i].id] for i, _ in relation.channels]
    end = np.array([routers[network.links[i].target] for i in links], dtype=np.int32)
    starts = [relation.first[switch.id] for switch in network.switches]
    following = _padded([*relation.after, *starts])
    hops_after = _hops(following[: len(links)], end, len(routers))
    # The last row is read for NONE (-1): an entry of ``following`` that is no channel.
    hops_after = np.concatenate([hops_after, np.full((1, len(routers)), FAR, np.int16)])
    hops_from_start = 1 + hops_after[following[len(links) :]].min(axis=1)
    hops_from_start[np.arange(len(routers)), np.arange(len(routers))] = 0
    hops = np.minimum(np.concatenate([hops_after[:-1], hops_from_start]), FAR).astype(np.int16)
    _check_joined(network, relation, routers, hops[len(links) :])
    row = np.full(len(network.links) * relation.lanes, NONE, dtype=np.int32)
    codes = np.full(len(links) + 1, NONE, dtype=np.int32)
    for channel, (_, lane) in enumerate(relation.channels):
        link = links[channel]
        row[link * relation.lanes + lane] = channel
        codes[channel] = link << LANE_BITS | (ANY_LANE if spread_lanes else lane)
    return RelationTables(
        lanes=relation.lanes,
        all_lanes=relation.all_lanes,
        detour=DETOURS.index(relation.detour),
        choices=_choices(following, hops_after, hops, codes),
        hops=hops,
        row=row,
        start_row=np.arange(len(links), len(links) + len(routers), dtype=np.int32),
    )


def _padded(lists: list[tuple[int, ...]]) -> IntArray:
    """Return lists as rows of equal length, filled with NONE."""
    table = np.full((len(lists), max(1, *map(len, lists))), NONE, dtype=np.int32)
    for i, items in enumerate(lists):
        table[i, : len(items)] = items
    return table


def _hops(following: IntArray, end: IntArray, routers: int) -> IntArray:
    """Return the fewest links after each channel to each router, as an array (channel, router).

    It is FAR if the relation never leads from the channel to the router.

    Args:
        following: The channels that may follow each channel, then NONE.
        end: The router at the end of each channel.
        routers: Number of routers.
    """
    hops = np.full((len(end) + 1, routers), FAR, dtype=np.int16)
    hops[np.arange(len(end)), end] = 0
    while True:
        nearer = hops[:-1].copy()
        for column in following.T:
            np.minimum(nearer, hops[column] + 1, out=nearer)
        if np.array_equal(nearer, hops[:-1]):
            return nearer
        hops[:-1] = nearer


def _choices(
    following: IntArray, hops_after: IntArray, hops: IntArray, codes: IntArray
) -> IntArray:
    """Return the channels after which a packet is one link nearer, as an array (row, router, k).

    Args:
        following: The channels that may follow in each row, then NONE.
        hops_after: (channel, router) Number of links after each channel; the last row is FAR.
        hops: (row, router) Number of links from each row.
        codes: The code of each channel; the last one is NONE.
    """
    nearer = [
        (hops_after[column] + 1 == hops) & (hops < FAR) & (column >= 0)[:, None]
        for column in following.T
    ]
    width = max(1, int(sum(chosen.astype(np.int64) for chosen in nearer).max()))
    choices = np.full((*hops.shape, width), NONE, dtype=np.int32)
    count = np.zeros(hops.shape, dtype=np.int64)
    for column, chosen in zip(following.T, nearer, strict=True):
        rows, goals = np.nonzero(chosen)
        choices[rows, goals, count[rows, goals]] = codes[column[rows]]
        count[rows, goals] += 1
    return choices


def _check_joined(
    network: Network, relation: RoutingRelation, routers: dict[str, int], hops: IntArray
) -> None:
    """Check that the relation has a path between every two routers with hosts.

    Args:
        network: The network.
        relation: The routing relation.
        routers: Number of each switch.
        hops: (router, router) Number of links, or FAR.

    Raises:
        InputError: A pair has no path.
    """
    with_hosts: set[int] = set()
    for host in network.hosts:
        with_hosts |= {routers[network.links[i].target] for i in network.out_links(host.id)}
    ordered = sorted(with_hosts)
    lost = np.argwhere(hops[np.ix_(ordered, ordered)] >= FAR)
    if len(lost):
        a, b = (network.switches[ordered[i]].id for i in lost[0])
        raise InputError(
            f"--routing {relation.method}: it has no way from {a} to {b} on what is left of "
            f"{network.name} ({len(lost)} of {len(ordered) ** 2} pairs of switches)"
        )
