"""The network's static routing as tables: the minimal segments that every routing of the simulator is made of.

Dimension order on tori, meshes and rings, d-mod-k on fat trees, else what the network names. ``Paths`` also knows which
links are one cable (they fail together) and which routers are near each other: the supernodes from which FT-DRB takes
its intermediate routers (Zarza 2011, section 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from testbed.arrays import IntArray
from testbed.errors import InputError
from testbed.jit import inline
from topologies import Network
from topologies.routing_tables import static_routing

NONE = -1
"""No router, link, channel or packet."""
LARGE = 1 << 17
"""Bytes: smaller tables stay in the cache as they are."""


class CompactRoutes(NamedTuple):
    """The table by variant v, router r and target t, or D > 0 dimensions, of which the first that is not done
    decides."""

    dimensions: int
    """D; 0: the table is to be read."""
    table: IntArray
    """(v, r, t): the link that leaves router r for target t; NONE at the target's own router."""
    place: IntArray
    """(t, D): coordinates of routers and other targets."""
    turn: IntArray
    """(v, D, here, there): which of its router's links leads from the one coordinate to the other."""
    links: IntArray
    """(r, k): link k of a router."""
    length: IntArray
    """(r, t): links between routers from one to the other."""
    distance: IntArray
    """(D, here, there): the same between coordinates."""


class Paths(NamedTuple):
    """Static routing over R routers and H hosts. Links are numbered as ``network.links``; target t < R is router t, R +
    h host h.

    Links of a router, and routers near it, are slices of one list: those of router r from ``..._first[r]`` until
    ``..._first[r + 1]``.
    """

    routers: int
    """How many routers: R."""
    next_link: IntArray
    """R x (R + H): the link that leaves router r for target t; NONE at the target's own router."""
    link_source: IntArray
    """The router where a link begins; NONE: a host."""
    link_target: IntArray
    """The router where a link ends; NONE: a host."""
    cable: IntArray
    """The cable of a link: both directions of a pair of switches are one; NONE: a host's link."""
    host_router: IntArray
    """The router of each host."""
    out_first: IntArray
    """Where a router's part of ``out_link`` begins."""
    out_link: IntArray
    """Links from a router to other routers, in order."""
    near_first: IntArray
    """Where a router's part of ``near`` begins."""
    near: IntArray
    """The supernode around a router: the routers one hop away in the order of its links, then those of two."""
    near_hops: IntArray
    """How far each of ``near`` is: 1 or 2 hops."""
    radix: int
    """k of a k-ary n-tree, whose router of level l and place w is l * ``width`` + w; 0: no tree."""
    width: int
    """Switches on a level of a k-ary n-tree; 0: no tree."""
    diameter: int
    """The longest static path between routers, in links."""
    length: IntArray
    """R x (R + H): links between routers on the static path from router r to target t."""
    routes: CompactRoutes
    """``next_link`` and ``length`` once more, in as few numbers as there may be: for compiled steps."""


def build_paths(network: Network) -> Paths:
    """The network's own static routing as tables, routers and hosts numbered as in ``switches`` and ``hosts``.

    Dimension order on tori, meshes and rings, d-mod-k on fat trees, else what the network names. O(routers^2) memory.
    Raises InputError where a host is attached to no switch or several, or the network has fewer than two switches.
    """
    routers = {switch.id: i for i, switch in enumerate(network.switches)}
    hosts = {host.id: i for i, host in enumerate(network.hosts)}
    if len(routers) < 2 or not hosts:
        raise InputError(
            f"{network.name}: {len(routers)} switches and {len(hosts)} hosts; give a network with both"
        )
    source = np.array([routers.get(link.source, NONE) for link in network.links], dtype=np.int32)
    target = np.array([routers.get(link.target, NONE) for link in network.links], dtype=np.int32)
    host_router = _host_routers(network, routers, hosts)
    if is_grid(network):
        at = np.concatenate([np.arange(len(routers), dtype=np.int32), host_router])
        routes = grid_routes(network, (source, target), at)
    else:
        searched = _searched_table(network, routers)
        routes = table_routes(searched[None], _lengths(searched, target))
    inner = (
        (a, i)
        for i, (a, b) in enumerate(zip(source.tolist(), target.tolist(), strict=True))
        if a >= 0 <= b
    )
    out_first, out_link = by_router(len(routers), inner)
    near_first, near, near_hops = _supernodes(len(routers), out_first, out_link, target)
    is_tree = network.attributes.get("family") == "fat-tree"
    radix = int(network.attributes["k"]) if is_tree else 0
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
        width=radix ** (int(network.attributes["n"]) - 1) if is_tree else 0,
        diameter=int(routes.length.max()),
        length=routes.length,
        routes=routes,
    )


def is_grid(network: Network) -> bool:
    """Whether the network is a torus, mesh or ring: it has a shape and says whether it wraps."""
    return isinstance(network.attributes.get("shape"), list) and isinstance(
        network.attributes.get("wraps"), bool
    )


def table_routes(tables: IntArray, length: IntArray | None = None) -> CompactRoutes:
    """Routes of which nothing but the tables (v, r, t) is known."""
    none = np.zeros((1, 1), dtype=np.int16)
    return CompactRoutes(
        dimensions=0, table=tables, place=none, turn=none[None, None], links=np.zeros((1, 1), dtype=np.int32),
        length=none if length is None else length, distance=none[None],
    )  # fmt: skip


def grid_routes(
    network: Network, ends: tuple[IntArray, IntArray], at: IntArray, bits: int = 0
) -> CompactRoutes:
    """Dimension order, the shorter way round each ring. Where both are as long: +, or - where the variant's number has
    the bit of that even side; with fewer ``bits`` several sides share one.

    ``ends``: the routers that each link joins; ``at``: the router of each target (itself, or a host's).
    """
    shape, wraps = tuple(network.attributes["shape"]), bool(network.attributes["wraps"])
    place = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1).astype(np.int16)
    even = [k for k, size in enumerate(shape) if size % 2 == 0 and size > 2]
    sides = (len(shape), max(shape), max(shape))
    turn, distance = np.zeros((1 << bits, *sides), dtype=np.int16), np.zeros(sides, dtype=np.int16)
    for k, size in enumerate(shape):
        here, there = np.ogrid[:size, :size]
        ahead = (there - here) % size if wraps else there - here
        distance[k, :size, :size] = np.minimum(ahead, size - ahead) if wraps else np.abs(ahead)
        for variant in range(1 << bits):
            minus = bool(bits and k in even and variant >> even.index(k) % bits & 1)
            plus = (2 * ahead + minus <= size) if wraps else ahead > 0
            turn[variant, k, :size, :size] = np.where(plus, 2 * k, 2 * k + 1)
    links = _links_by_direction(place, shape, ends)
    table = np.full((1 << bits, len(place), len(at)), NONE, dtype=np.int32)
    length = np.zeros(table.shape[1:], dtype=np.int16)
    for k in reversed(range(len(shape))):
        start, goal = place[:, k][:, None], place[at, k][None, :]
        length += distance[k, start, goal]
        for variant in range(1 << bits):
            onward = links[np.arange(len(place))[:, None], turn[variant, k, start, goal]]
            table[variant] = np.where(start != goal, onward, table[variant])
    dimensions = len(shape) if table.nbytes >= LARGE else 0
    return CompactRoutes(
        dimensions, table, np.ascontiguousarray(place[at]), turn, links, length, distance
    )


def _links_by_direction(
    place: IntArray, shape: tuple[int, ...], ends: tuple[IntArray, IntArray]
) -> IntArray:
    """(r, 2 k and 2 k + 1): the first link of a router to its neighbour ahead and behind in dimension k."""
    number = {
        (int(a), int(b)): i for i, (a, b) in reversed(list(enumerate(zip(*ends, strict=True))))
    }
    links = np.full((len(place), 2 * len(shape)), NONE, dtype=np.int32)
    for column in range(2 * len(shape)):
        there = place.copy()
        there[:, column // 2] = (there[:, column // 2] + (-1) ** column) % shape[column // 2]
        neighbours = np.ravel_multi_index(tuple(there.T), shape)
        links[:, column] = [number.get(pair, NONE) for pair in enumerate(neighbours.tolist())]
    return links


def _searched_table(network: Network, routers: Mapping[str, int]) -> IntArray:
    """R x (R + H): the first link of the path that the network's static routing finds from each router."""
    routing = static_routing(network)
    targets = [switch.id for switch in network.switches] + [host.id for host in network.hosts]
    table = np.full((len(routers), len(targets)), NONE, dtype=np.int32)
    for switch, r in routers.items():
        for t, goal in enumerate(targets):
            path = routing(switch, goal)
            if path and path[0][1] in routers:
                table[r, t] = network.link_index[path[0]]
    return table


def _host_routers(
    network: Network, routers: Mapping[str, int], hosts: Mapping[str, int]
) -> IntArray:
    """The one router of each host; InputError where a host has none, or several."""
    found = np.full(len(hosts), NONE, dtype=np.int32)
    for host, number in hosts.items():
        ends = {network.links[i].target for i in network.out_links(host)}
        if not ends and network.in_links(host):
            raise InputError(
                f"{network.name}: host {host!r} has no link that leaves it; the simulator needs"
                " links both ways"
            )
        if len(ends) != 1 or next(iter(ends)) not in routers:
            raise InputError(
                f"{network.name}: host {host!r} is joined to {len(ends)} nodes; it needs one switch"
            )
        found[number] = routers[ends.pop()]
    return found


def _cables(source: IntArray, target: IntArray) -> IntArray:
    """One number a pair of switches, in the order of the links; parallel links share their cable's fate."""
    numbers: dict[tuple[int, int], int] = {}
    found = np.full(len(source), NONE, dtype=np.int32)
    for i, (a, b) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        if a >= 0 and b >= 0:
            found[i] = numbers.setdefault((min(a, b), max(a, b)), len(numbers))
    return found


def by_router(routers: int, items: Iterable[tuple[int, int]]) -> tuple[IntArray, IntArray]:
    """Pairs of router and item as one list by router, and where each router's part begins."""
    found: list[list[int]] = [[] for _ in range(routers)]
    for router, item in items:
        found[router].append(item)
    first = np.cumsum([0, *map(len, found)], dtype=np.int32)
    return first, np.array([i for part in found for i in part], dtype=np.int32)


def _supernodes(
    routers: int, out_first: IntArray, out_link: IntArray, target: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Around every router: those of 1 hop in the order of its links, then those of 2."""

    def neighbours(router: int) -> list[int]:
        return [int(target[link]) for link in out_link[out_first[router] : out_first[router + 1]]]

    first, near, hops = [0], [], []
    for router in range(routers):
        ones = list(dict.fromkeys(neighbours(router)))
        twos = [n for one in ones for n in neighbours(one)]
        others = [n for n in dict.fromkeys(twos) if n != router and n not in ones]
        near += ones + others
        hops += [1] * len(ones) + [2] * len(others)
        first.append(len(near))
    return (
        np.array(first, dtype=np.int32),
        np.array(near, dtype=np.int32),
        np.array(hops, dtype=np.int32),
    )


def _lengths(table: IntArray, target: IntArray) -> IntArray:
    """By router and target: links until the table names none; all paths are followed at once."""
    length = np.zeros(table.shape, dtype=np.int16)
    router, goal = np.nonzero(table != NONE)
    at: IntArray = router
    for _ in range(len(table)):
        if not len(at):
            break
        length[router, goal] += 1
        at = target[table[at, goal]]
        on = table[at, goal] != NONE
        router, goal, at = router[on], goal[on], at[on]
    return length


def next_link(routes: CompactRoutes, variant: int, router: int, target: int) -> int:
    """The link that leaves the router for the target; NONE at the target's own router."""
    if routes.dimensions == 0:
        return int(routes.table[variant, router, target])
    for k in range(routes.dimensions):
        here, there = routes.place[router, k], routes.place[target, k]
        if here != there:
            return int(routes.links[router, routes.turn[variant, k, here, there]])
    return NONE


@inline
def links_between(routes: CompactRoutes, router: int, target: int) -> int:
    """Links between routers on the path from the router to the target."""
    if routes.dimensions == 0:
        return int(routes.length[router, target])
    links = 0
    for k in range(routes.dimensions):
        links += routes.distance[k, routes.place[router, k], routes.place[target, k]]
    return int(links)
