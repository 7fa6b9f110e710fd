"""Where packets go: the routing as tables by router and target, and the dateline that breaks the cycles of rings.

The dateline keeps a torus with virtual channels free of deadlock: a packet that has still to cross that of its ring
(the cable between its last and first switch) is of class 1, every other of class 0; each class has half of the virtual
channels.

Bubble flow control (Carrion et al. 1997): a packet that enters a ring, from a host or out of another ring, must leave
one more slot free behind it. So the slots of a ring are never all taken, and what is in it can always move on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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
from topologies.routing_tables import static_routing

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
    method = {"dor": "dimension-order", "ft-drb": None, "nca": "d-mod-k"}.get(parameters.routing, parameters.routing)
    try:
        if method is not None:
            static_routing(network, method)
    except TopologyError as error:
        required = "dimension order" if parameters.routing == "dor" else parameters.routing
        raise InputError(f"--routing {parameters.routing}: {network.name} has no {required}: {error}") from None
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
        raise InputError(f"--routing nca: {network.name} is no fat-tree:k,n; use d-mod-k or shortest-path")
    paths = int(network.attributes["k"]) ** (int(network.attributes["n"]) - 1)
    if paths > MAX_PATHS:
        raise InputError(f"--routing nca: {network.name} has {paths} ways up; {MAX_PATHS} are the most: use d-mod-k")


def build_routes(network: Network, parameters: SimulationParameters, paths: Paths) -> tuple[RouteTable, IntArray]:
    """The routing tables, and the target in them that stands for each host."""
    if parameters.routing in ("dor", "ft-drb") and is_grid(network):
        bits = 0
        if parameters.routing == "dor" and parameters.hop.ties == "random" and network.attributes["wraps"]:
            even = sum(size % 2 == 0 and size > 2 for size in network.attributes["shape"])
            bits = max(1, min(even, int(math.log2(MOST_ENTRIES // paths.routers**2 or 1))))
        routers = np.arange(paths.routers, dtype=np.int32)
        compact = grid_routes(network, (paths.link_source, paths.link_target), routers, bits)
        target = np.asarray(paths.host_router, dtype=np.int32)
    else:
        compact = table_routes(up_paths(paths) if parameters.routing == "nca" else paths.next_link[None])
        target = np.arange(paths.routers, paths.routers + len(paths.host_router), dtype=np.int32)
    classes: IntArray = np.zeros((1, 1, 1), dtype=np.uint8)
    if parameters.deadlock == "virtual-channels" and is_grid(network) and network.attributes["wraps"]:
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
            raise InputError("--deadlock-avoidance bubble: it is for --routing dor with one virtual channel")
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
