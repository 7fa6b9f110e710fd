"""The network's static routing as tables, from which the simulator's routings take their segments.

The routing is dimension order on tori, meshes and rings, d-mod-k on fat trees, and otherwise what
the network names. ``Paths`` also contains which links belong to one cable (they fail together) and
which routers are near each other: the supernodes from which FT-DRB takes its intermediate routers
(Zarza 2011, section 3.2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from testbed.arrays import IntArray
from testbed.errors import InputError
from testbed.jit import inline
from topologies import Network
from topologies.routing_tables import static_routing

# No router, link, channel or packet.
NONE = -1
# Tables of fewer bytes than this are read directly, because they stay in the processor's cache.
LARGE = 1 << 17


class CompactRoutes(NamedTuple):
    """Static routes as a table, or by coordinates if a table would be large.

    With D > 0 dimensions, the first dimension in which router and target differ determines the next
    link. The indices are variant v, router r, target t, dimension k of D, and the coordinates
    ``here`` and ``there`` of router and target.

    Attributes:
        dimensions: D; 0 if the table is to be read.
        table: (v, r, t) The link that leaves router r for target t; NONE at the target's own
            router.
        place: (t, D) Coordinates of routers and other targets.
        turn: (v, D, here, there) Which of the router's ``links`` leads from one coordinate to the
            other.
        links: (r, k) Link k of a router.
        length: (r, t) Number of links between routers from router r to target t.
        distance: (D, here, there) Number of links from one coordinate to the other.
    """

    dimensions: int
    table: IntArray
    place: IntArray
    turn: IntArray
    links: IntArray
    length: IntArray
    distance: IntArray


class Paths(NamedTuple):
    """Static routing over R routers and H hosts.

    Links are numbered as in ``network.links``. Target t < R is router t, and target R + h is host
    h. The links of a router, and the routers near it, are slices of one list: those of router r are
    from ``..._first[r]`` until ``..._first[r + 1]``.

    Attributes:
        routers: Number of routers, R.
        next_link: R x (R + H): the link that leaves router r for target t; NONE at the target's own
            router.
        link_source: The router where each link begins; NONE: a host.
        link_target: The router where each link ends; NONE: a host.
        cable: The cable of each link. The links of both directions between two switches are one
            cable. NONE: a link of a host.
        host_router: The router of each host.
        out_first: Index in ``out_link`` at which the links of each router begin.
        out_link: Links from a router to other routers, in order of their numbers.
        near_first: Index in ``near`` at which the routers near each router begin.
        near: The supernode around each router: first the routers one hop away in the order of its
            links, then those two hops away.
        near_hops: Distance of each router of ``near``: 1 or 2 hops.
        radix: k of a k-ary n-tree, whose router at position w of level l is l * ``width`` + w; 0:
            no tree.
        width: Number of switches on a level of a k-ary n-tree; 0: no tree.
        diameter: Length of the longest static path between routers, in links.
        length: R x (R + H): number of links between routers on the static path from router r to
            target t.
        routes: ``next_link`` and ``length`` in compact form, for compiled steps.
    """

    routers: int
    next_link: IntArray
    link_source: IntArray
    link_target: IntArray
    cable: IntArray
    host_router: IntArray
    out_first: IntArray
    out_link: IntArray
    near_first: IntArray
    near: IntArray
    near_hops: IntArray
    radix: int
    width: int
    diameter: int
    length: IntArray
    routes: CompactRoutes


def build_paths(network: Network) -> Paths:
    """Return the network's own static routing as tables.

    Routers and hosts are numbered as in ``network.switches`` and ``network.hosts``. The tables need
    O(routers^2) memory.

    Raises:
        InputError: A host is not attached to exactly one switch, or the network has no switch or
            no host.
    """
    routers = {switch.id: i for i, switch in enumerate(network.switches)}
    if not routers or not network.hosts:
        missing = "host" if routers else "switch"
        raise InputError(f"{network.name}: no {missing}; give a network with switches and hosts")
    source = np.array([routers.get(link.source, NONE) for link in network.links], dtype=np.int32)
    target = np.array([routers.get(link.target, NONE) for link in network.links], dtype=np.int32)
    host_router = _host_routers(network, routers)
    routes = _static_routes(network, routers, host_router, (source, target))
    between_routers = np.nonzero((source >= 0) & (target >= 0))[0].tolist()
    out_first, out_link = by_router(len(routers), [(int(source[i]), i) for i in between_routers])
    near_first, near, near_hops = _supernodes(len(routers), out_first, out_link, target)
    radix, width = _tree_shape(network)
    return Paths(
        routers=len(routers),
        next_link=routes.table[0],
        link_source=source,
        link_target=target,
        cable=_cables(source, target),
        host_router=host_router,
        out_first=out_first,
        out_link=out_link,
        near_first=near_first,
        near=near,
        near_hops=near_hops,
        radix=radix,
        width=width,
        diameter=int(routes.length.max()),
        length=routes.length,
        routes=routes,
    )


def _static_routes(
    network: Network,
    routers: Mapping[str, int],
    host_router: IntArray,
    ends: tuple[IntArray, IntArray],
) -> CompactRoutes:
    """Return the routes of the network's static routing, in dimension order on a grid.

    Args:
        network: The network.
        routers: Number of each switch.
        host_router: The router of each host.
        ends: The source routers and the target routers of all links.
    """
    if is_grid(network):
        target_router = np.concatenate([np.arange(len(routers), dtype=np.int32), host_router])
        return grid_routes(network, ends, target_router)
    table = _searched_table(network, routers)
    return table_routes(table[None], _lengths(table, ends[1]))


def _tree_shape(network: Network) -> tuple[int, int]:
    """Return k and the number of switches on a level of a k-ary n-tree; (0, 0) for others."""
    if network.attributes.get("family") != "fat-tree":
        return 0, 0
    radix = int(network.attributes["k"])
    return radix, radix ** (int(network.attributes["n"]) - 1)


def is_grid(network: Network) -> bool:
    """Return whether the network is a torus, mesh or ring.

    Such a network has the attributes ``shape`` and ``wraps``.
    """
    return isinstance(network.attributes.get("shape"), list) and isinstance(
        network.attributes.get("wraps"), bool
    )


def table_routes(tables: IntArray, length: IntArray | None = None) -> CompactRoutes:
    """Return routes that are known only as tables.

    Args:
        tables: (v, r, t) The link that leaves router r for target t.
        length: (r, t) Number of links between routers; None if nothing reads it.
    """
    none = np.zeros((1, 1), dtype=np.int16)
    if length is None:
        length = none
    return CompactRoutes(
        dimensions=0,
        table=tables,
        place=none,
        turn=none[None, None],
        links=np.zeros((1, 1), dtype=np.int32),
        length=length,
        distance=none[None],
    )


def grid_routes(
    network: Network,
    ends: tuple[IntArray, IntArray],
    target_router: IntArray,
    bits: int = 0,
) -> CompactRoutes:
    """Return routes in dimension order, which take the shorter direction round each ring.

    If both directions are equally long, a route takes direction + unless the variant's number has
    the bit of that even side. If there are more even sides than bits, several sides share a bit.

    Args:
        network: A torus, mesh or ring.
        ends: The source routers and the target routers of all links.
        target_router: The router of each target: itself, or the router of a host.
        bits: Number of bits of the variant's number; there are 2^bits variants.
    """
    shape = tuple(network.attributes["shape"])
    wraps = bool(network.attributes["wraps"])
    routers = math.prod(shape)
    position = np.stack(np.unravel_index(np.arange(routers), shape), axis=1).astype(np.int16)
    turn, distance = _turns(shape, wraps, bits)
    links = _links_by_direction(position, shape, ends)
    table = np.full((1 << bits, routers, len(target_router)), NONE, dtype=np.int32)
    length = np.zeros(table.shape[1:], dtype=np.int16)
    # The first dimension is written last, so that its link replaces those of the others.
    for k in reversed(range(len(shape))):
        start = position[:, k][:, None]
        goal = position[target_router, k][None, :]
        length += distance[k, start, goal]
        for variant in range(1 << bits):
            onward = links[np.arange(routers)[:, None], turn[variant, k, start, goal]]
            table[variant] = np.where(start != goal, onward, table[variant])
    dimensions = len(shape) if table.nbytes >= LARGE else 0
    return CompactRoutes(
        dimensions=dimensions,
        table=table,
        place=np.ascontiguousarray(position[target_router]),
        turn=turn,
        links=links,
        length=length,
        distance=distance,
    )


def _turns(shape: tuple[int, ...], wraps: bool, bits: int) -> tuple[IntArray, IntArray]:
    """Return the tables ``turn`` and ``distance`` of ``CompactRoutes``.

    Args:
        shape: Number of routers in each dimension.
        wraps: Whether each dimension is a ring.
        bits: Number of bits of the variant's number.
    """
    even_sides = [k for k, size in enumerate(shape) if size % 2 == 0 and size > 2]
    table_shape = (len(shape), max(shape), max(shape))
    turn = np.zeros((1 << bits, *table_shape), dtype=np.int16)
    distance = np.zeros(table_shape, dtype=np.int16)
    for k, size in enumerate(shape):
        start, goal = np.ogrid[:size, :size]
        if wraps:
            ahead = (goal - start) % size
            distance[k, :size, :size] = np.minimum(ahead, size - ahead)
        else:
            ahead = goal - start
            distance[k, :size, :size] = np.abs(ahead)
        for variant in range(1 << bits):
            minus_if_equal = 0
            if bits and k in even_sides:
                minus_if_equal = variant >> even_sides.index(k) % bits & 1
            if wraps:
                plus = 2 * ahead + minus_if_equal <= size
            else:
                plus = ahead > 0
            turn[variant, k, :size, :size] = np.where(plus, 2 * k, 2 * k + 1)
    return turn, distance


def _links_by_direction(
    position: IntArray, shape: tuple[int, ...], ends: tuple[IntArray, IntArray]
) -> IntArray:
    """Return the link of each router to each neighbour, as an array (router, direction).

    Columns 2 k and 2 k + 1 are the neighbours ahead and behind in dimension k. Of parallel links
    the first is taken.

    Args:
        position: Coordinates of the routers.
        shape: Number of routers in each dimension.
        ends: The source routers and the target routers of all links.
    """
    link_between: dict[tuple[int, int], int] = {}
    for i, (a, b) in enumerate(zip(*ends, strict=True)):
        link_between.setdefault((int(a), int(b)), i)
    links = np.full((len(position), 2 * len(shape)), NONE, dtype=np.int32)
    for column in range(2 * len(shape)):
        dimension = column // 2
        step = 1 if column % 2 == 0 else -1
        beside = position.copy()
        beside[:, dimension] = (beside[:, dimension] + step) % shape[dimension]
        neighbours = np.ravel_multi_index(tuple(beside.T), shape)
        links[:, column] = [link_between.get(pair, NONE) for pair in enumerate(neighbours.tolist())]
    return links


def _searched_table(network: Network, routers: Mapping[str, int]) -> IntArray:
    """Return the first link of the network's static path from each router to each target.

    The shape is R x (R + H).
    """
    routing = static_routing(network)
    targets = [switch.id for switch in network.switches] + [host.id for host in network.hosts]
    table = np.full((len(routers), len(targets)), NONE, dtype=np.int32)
    for switch, r in routers.items():
        for t, goal in enumerate(targets):
            path = routing(switch, goal)
            if path and path[0][1] in routers:
                table[r, t] = network.link_index[path[0]]
    return table


def _host_routers(network: Network, routers: Mapping[str, int]) -> IntArray:
    """Return the router of each host.

    Raises:
        InputError: A host is not attached to exactly one router, in both directions.
    """
    host_router = np.full(len(network.hosts), NONE, dtype=np.int32)
    for number, host in enumerate(node.id for node in network.hosts):
        ends = {network.links[i].target for i in network.out_links(host)}
        origins = {network.links[i].source for i in network.in_links(host)}
        if len(ends | origins) == 1 and ends != origins:
            only = "sends" if ends else "receives"
            raise InputError(
                f"{network.name}: host {host!r} only {only}; the router simulator needs hosts that "
                "send and receive"
            )
        if len(ends) != 1 or next(iter(ends)) not in routers:
            raise InputError(
                f"{network.name}: host {host!r} is joined to {len(ends)} nodes; it needs one switch"
            )
        host_router[number] = routers[ends.pop()]
    return host_router


def _cables(source: IntArray, target: IntArray) -> IntArray:
    """Return the cable of each link: one number per pair of switches, in the order of the links.

    Parallel links belong to the same cable, so they fail together.
    """
    numbers: dict[tuple[int, int], int] = {}
    cable = np.full(len(source), NONE, dtype=np.int32)
    for i, (a, b) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        if a >= 0 and b >= 0:
            cable[i] = numbers.setdefault((min(a, b), max(a, b)), len(numbers))
    return cable


def by_router(routers: int, items: Iterable[tuple[int, int]]) -> tuple[IntArray, IntArray]:
    """Group items by router.

    Args:
        routers: Number of routers.
        items: Pairs of router and item.

    Returns:
        The index at which the items of each router begin, and the list of all items.
    """
    items_of_router: list[list[int]] = [[] for _ in range(routers)]
    for router, item in items:
        items_of_router[router].append(item)
    first = np.cumsum([0, *map(len, items_of_router)], dtype=np.int32)
    return first, np.array([*itertools.chain.from_iterable(items_of_router)], dtype=np.int32)


def _supernodes(
    routers: int, out_first: IntArray, out_link: IntArray, target: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the supernode around every router: routers one hop away, then those two hops away.

    Returns:
        The arrays ``near_first``, ``near`` and ``near_hops`` of ``Paths``.
    """

    def neighbours(router: int) -> list[int]:
        return [int(target[link]) for link in out_link[out_first[router] : out_first[router + 1]]]

    first = [0]
    near: list[int] = []
    hops: list[int] = []
    for router in range(routers):
        one_hop = list(dict.fromkeys(neighbours(router)))
        reached: list[int] = []
        for neighbour in one_hop:
            reached += neighbours(neighbour)
        two_hops = [n for n in dict.fromkeys(reached) if n not in (router, *one_hop)]
        near += one_hop + two_hops
        hops += [1] * len(one_hop) + [2] * len(two_hops)
        first.append(len(near))
    return (
        np.array(first, dtype=np.int32),
        np.array(near, dtype=np.int32),
        np.array(hops, dtype=np.int32),
    )


def _lengths(table: IntArray, target: IntArray) -> IntArray:
    """Return the number of links from each router to each target.

    Follows all paths at once, until the table has no next link.
    """
    length = np.zeros(table.shape, dtype=np.int16)
    router, goal = np.nonzero(table != NONE)
    at: IntArray = router
    for _ in range(len(table)):
        if not len(at):
            break
        length[router, goal] += 1
        at = target[table[at, goal]]
        unfinished = table[at, goal] != NONE
        router = router[unfinished]
        goal = goal[unfinished]
        at = at[unfinished]
    return length


def next_link(routes: CompactRoutes, variant: int, router: int, target: int) -> int:
    """Return the link on which a router forwards packets for a target, or NONE at the target."""
    if routes.dimensions == 0:
        return int(routes.table[variant, router, target])
    for k in range(routes.dimensions):
        coordinate = routes.place[router, k]
        target_coordinate = routes.place[target, k]
        if coordinate != target_coordinate:
            return int(routes.links[router, routes.turn[variant, k, coordinate, target_coordinate]])
    return NONE


@inline
def links_between(routes: CompactRoutes, router: int, target: int) -> int:
    """Return the number of links between routers on the path from a router to a target."""
    if routes.dimensions == 0:
        return int(routes.length[router, target])
    links = 0
    for k in range(routes.dimensions):
        links += routes.distance[k, routes.place[router, k], routes.place[target, k]]
    return int(links)
