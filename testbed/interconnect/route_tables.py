"""Where packets go: the routing as tables by router and target, and the dateline that breaks the cycles of rings.

The dateline keeps a torus with virtual channels free of deadlock: a packet that has still to cross that of its ring (the cable
between its last and first switch) is of class 1, every other of class 0; each class has half of the virtual channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from testbed.errors import InputError
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.static_paths import Paths, build_paths, grid_table, is_grid
from topologies import Network, TopologyError
from topologies.routing_tables import static_routing


@dataclass(frozen=True, kw_only=True)
class RouteTable:
    """Where packets go. Variant v of the tables is 0, or 1 for those that take the other way where both are as long."""

    next_link: NDArray[np.int32]
    """(v, router, target): the link that leaves the router; NONE at the target's own router."""
    lane_class: NDArray[np.uint8]
    """(v, router, target): 1 where the packet has still to cross a dateline; 1 x 1 x 1 where there are no classes."""

    @property
    def classes(self) -> int:
        """2 where lanes are divided by the dateline, else 1."""
        return 2 if self.lane_class.size > 1 else 1


def searched_paths(network: Network, routing: str) -> Paths:
    """Tables of the routing asked for by name ("table", "shortest-path"), whatever the network itself names."""
    attributes = {k: v for k, v in network.attributes.items() if k not in ("shape", "wraps")}
    return build_paths(replace(network, attributes={**attributes, "routing": routing}))


def check_routing(network: Network, parameters: SimulationParameters) -> None:
    """Raise InputError where the network has no such routing, or no dateline for the virtual channels that are asked for."""
    method = {"dor": "dimension-order", "ft-drb": None}.get(parameters.routing, parameters.routing)
    try:
        if method is not None:
            static_routing(network, method)
    except TopologyError as error:
        wanted = "dimension order" if parameters.routing == "dor" else parameters.routing
        raise InputError(f"--routing {parameters.routing}: {network.name} has no {wanted}: {error}") from None
    is_tree = network.attributes.get("family") in ("fat-tree", "clos")
    if parameters.deadlock == "virtual-channels" and not (is_grid(network) or is_tree):
        raise InputError(
            f"--deadlock virtual-channels: {network.name} has no dateline (it is no torus, mesh, ring or fat tree); use nac"
        )


def build_routes(
    network: Network, parameters: SimulationParameters, paths: Paths
) -> tuple[RouteTable, NDArray[np.int32]]:
    """The routing tables, and the target in them that stands for each host."""
    if parameters.routing in ("dor", "ft-drb") and is_grid(network):
        plus = np.ascontiguousarray(paths.next_link[:, : paths.routers])
        tables = plus[None, :, :]
        if parameters.routing == "dor" and parameters.hop.ties == "random" and network.attributes["wraps"]:
            minus = grid_table(network, paths.link_source, paths.link_target, ties_to_plus=False)
            tables = np.stack([plus, minus])
        target = np.asarray(paths.host_router, dtype=np.int32)
    else:
        tables = np.ascontiguousarray(paths.next_link)[None, :, :]
        target = np.arange(paths.routers, paths.routers + len(paths.host_router), dtype=np.int32)
    classes = np.zeros((1, 1, 1), dtype=np.uint8)
    if parameters.deadlock == "virtual-channels" and is_grid(network) and network.attributes["wraps"]:
        classes = dateline_classes(network, tables, paths)
    return RouteTable(next_link=tables, lane_class=classes), target


def dateline_classes(network: Network, tables: NDArray[np.int32], paths: Paths) -> NDArray[np.uint8]:
    """V x R x T: 1 where the way from router r to target t has still to cross the dateline of the ring that it is in."""
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
