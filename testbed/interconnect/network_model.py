"""A network as the engines see it: channels that carry packets, buffers that hold them, tables that say where to go.

Everything is arrays of whole numbers, made once for a network and its parameters; both engines read the same ones. L is
the number of links, R of routers, H of hosts, W of lanes (virtual channels, then one for FT-DRB's ACKs).

A **channel** carries one packet at a time to a buffer. Channel l < L is link l; where routers have output buffers,
channel L + l is the crossbar's way into the output buffer of link l. A **queue** holds packets one behind another.
Queue c * W + w is the buffer that channel c fills on lane w: the input buffer after link c, or (c >= L) the output
buffer of a link. A link that ends at a host ends in a sink, where nothing stays. Then come two queues a host (messages,
ACKs), one of notices a router, and NAC's deadlock avoidance buffer of each link's input. A **reader** is what takes
packets out of an input: one at a time from all its lanes together.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.arrays import IntArray
from testbed.errors import InputError
from testbed.interconnect import route_tables
from testbed.interconnect.parameters import MAX_CYCLE, SimulationParameters, ticks
from testbed.interconnect.static_paths import NONE, Paths, build_paths, by_router
from topologies import Network

MAX_QUEUES = 1 << 18
"""The numbers of what an event concerns have 18 bits."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many there are of everything, and so how channels and queues are numbered."""

    links: int
    routers: int
    hosts: int
    lanes: int
    data_lanes: int
    """Lanes for data: the virtual channels. ACKs of FT-DRB have one more, or (``lanes`` is as many) share these."""
    output_buffers: bool

    @property
    def channels(self) -> int:
        """Links, then crossbar ways into output buffers where there are any."""
        return self.links * (2 if self.output_buffers else 1)

    @property
    def source_queue(self) -> int:
        """The first queue of host 0: queue ``source_queue`` + 2 h holds the messages of host h, the next its ACKs."""
        return self.channels * self.lanes

    @property
    def notice_queue(self) -> int:
        """The queue of notices that router 0 sends."""
        return self.source_queue + 2 * self.hosts

    @property
    def avoidance_queue(self) -> int:
        """The deadlock avoidance buffer of the input after link 0."""
        return self.notice_queue + self.routers

    @property
    def queues(self) -> int:
        """All of them."""
        return self.avoidance_queue + self.links


@dataclass(frozen=True, kw_only=True)
class LinkTable:
    """One entry a link."""

    start: IntArray
    """The router where it begins; NONE: a host."""
    end: IntArray
    """The router where it ends; NONE: a host."""
    host: IntArray
    """The host where it ends; NONE: a router."""
    entry: IntArray
    """The channel that leads from a router into it: the way into its output buffer, or the link itself."""
    cable: IntArray
    """Its cable (both directions are one); NONE: a host's link, which never fails."""


@dataclass(frozen=True, kw_only=True)
class ChannelTable:
    """One entry a channel."""

    delay: IntArray
    """Ticks that a head takes over it."""
    stores: IntArray
    """1: a packet may leave the buffer behind it when its last byte is there (store and forward); 0: its first."""
    ranks: IntArray
    """How many queues may ask for it."""


@dataclass(frozen=True, kw_only=True)
class QueueTable:
    """One entry a queue."""

    slots: IntArray
    """Packets that it holds; 0: no limit."""
    router: IntArray
    """The router where its packets wait; NONE: a host."""
    rank: IntArray
    """Its place among the queues of its router or host, for arbitration."""


@dataclass(frozen=True, kw_only=True)
class HostTable:
    """One entry a host."""

    uplink: IntArray
    """The link from it."""
    downlink: IntArray
    """The link to it."""
    target: IntArray
    """What stands for it in the routing tables: itself, or on a grid its router."""


@dataclass(frozen=True, kw_only=True)
class RouterTable:
    """Lists by router: those of router r are ``inputs[input_first[r]]`` until ``inputs[input_first[r + 1] - 1]``, hosts
    likewise."""

    input_first: IntArray
    inputs: IntArray
    """Links from other routers."""
    host_first: IntArray
    hosts: IntArray


@dataclass(frozen=True, kw_only=True)
class NetworkModel:
    """The network's tables, and the paths that FT-DRB stands on."""

    layout: Layout
    links: LinkTable
    channels: ChannelTable
    queues: QueueTable
    hosts: HostTable
    routers: RouterTable
    routes: route_tables.RouteTable
    paths: Paths
    relation: route_tables.RelationTables
    axes: IntArray
    """By link: the ring that it is in, for bubble flow control."""
    dead: frozenset[route_tables.Cable]
    """Cables that were left out when the relation was made."""
    network: Network
    largest_side: int
    """Of a torus, mesh or ring; else the diameter."""
    is_ring: bool

    @property
    def cables(self) -> int:
        """How many cables there are between routers."""
        return int(self.links.cable.max()) + 1


def build_model(
    network: Network,
    parameters: SimulationParameters,
    dead: Collection[route_tables.Cable] = frozenset(),
) -> NetworkModel:
    """IntArray and tables for a network. O(routers^2) memory. ``dead``: cables that an adaptive routing is to do
    without.

    Raises InputError where the routing does not fit the network (no dimension order), virtual channels have no dateline
    on it, a host is attached to several switches, or it is too large for the engines' keys.
    """
    relation = route_tables.relation_of(network, parameters, dead)
    if relation is None:
        route_tables.check_routing(network, parameters)
    route_tables.check_rings(network, parameters)
    data_lanes = (
        relation.all_lanes
        if relation is not None and relation.all_lanes > 1
        else parameters.channels
    )
    if relation is not None or parameters.routing in ("ft-drb", "dor", "d-mod-k", "nca"):
        paths = build_paths(network)
    else:
        paths = route_tables.searched_paths(network, parameters.routing)
    shape = network.attributes.get("shape")
    sides = [int(s) for s in shape] if isinstance(shape, list) else [paths.diameter]
    if parameters.deadlock == "nac" and max(sides) >= MAX_CYCLE:
        raise InputError(
            f"--deadlock-avoidance nac: {network.name} has rings of {max(sides)} routers; NAC's identification packets "
            f"name at most {MAX_CYCLE - 1}: take a smaller network"
        )
    has_ack_lane = parameters.routing == "ft-drb" and not parameters.shares_ack_buffers
    layout = Layout(
        links=len(network.links),
        routers=paths.routers,
        hosts=len(network.hosts),
        lanes=data_lanes + (has_ack_lane or parameters.deadlock == "disha"),
        data_lanes=data_lanes,
        output_buffers=parameters.hop.output_buffers,
    )
    if layout.queues >= MAX_QUEUES:
        raise InputError(
            f"{network.name}: {layout.queues} buffers; the simulator's keys hold {MAX_QUEUES}: take a smaller network"
        )
    routes, target = route_tables.build_routes(network, parameters, paths)
    if relation is not None:
        target = np.asarray(paths.host_router, dtype=np.int32)
    links, hosts = _links_and_hosts(network, layout, paths, target)
    queue_router, rank, seen = _places(layout, links)
    return NetworkModel(
        layout=layout,
        links=links,
        channels=_channels(layout, links, parameters, seen),
        queues=_queues(layout, links, parameters, queue_router, rank),
        hosts=hosts,
        routers=_routers(layout, links, paths),
        routes=routes,
        paths=paths,
        relation=route_tables.no_relation()
        if relation is None
        else route_tables.build_relation_tables(
            network, relation, spread_lanes=relation.all_lanes < data_lanes
        ),
        axes=route_tables.axes(paths),
        dead=frozenset(dead),
        network=network,
        largest_side=max(sides),
        is_ring=len(sides) == 1,
    )


def zero_load_ticks(parameters: SimulationParameters, routers: int, size_bytes: int) -> int:
    """Latency of a packet over so many routers where no other is in its way."""
    hop = parameters.hop
    whole = parameters.serialization_ticks(size_bytes)
    a_router = ticks(hop.router_delay_s) + ticks(hop.link_delay_s) + parameters.stores * whole
    return ticks(hop.injection_delay_s) + routers * a_router + whole


def _links_and_hosts(
    network: Network, layout: Layout, paths: Paths, target: IntArray
) -> tuple[LinkTable, HostTable]:
    number = {host.id: i for i, host in enumerate(network.hosts)}
    uplink, downlink = np.full(layout.hosts, NONE, np.int32), np.full(layout.hosts, NONE, np.int32)
    for i, link in enumerate(network.links):
        if link.source in number:
            uplink[number[link.source]] = i
        if link.target in number:
            downlink[number[link.target]] = i
    plain = np.arange(layout.links)
    start = np.asarray(paths.link_source)
    links = LinkTable(
        start=start,
        end=np.asarray(paths.link_target),
        host=np.array([number.get(link.target, NONE) for link in network.links], dtype=np.int32),
        entry=np.where((start >= 0) & layout.output_buffers, plain + layout.links, plain).astype(
            np.int32
        ),
        cable=np.asarray(paths.cable),
    )
    return links, HostTable(uplink=uplink, downlink=downlink, target=target)


def _places(layout: Layout, links: LinkTable) -> tuple[IntArray, IntArray, list[int]]:
    """(router of each queue, its rank there, queues of each router). A host's two queues have ranks 0 and 1."""
    parts: list[NDArray[Any]] = [np.repeat(links.end, layout.lanes)]
    if layout.output_buffers:
        parts.append(np.repeat(links.start, layout.lanes))
    parts += [np.full(2 * layout.hosts, NONE), np.arange(layout.routers), links.end]
    router = np.concatenate(parts).astype(np.int32)
    rank = np.zeros(layout.queues, dtype=np.int32)
    seen = [0] * layout.routers
    for queue, place in enumerate(router.tolist()):
        if place >= 0:
            rank[queue] = seen[place]
            seen[place] += 1
    rank[layout.source_queue : layout.notice_queue] = np.arange(2 * layout.hosts) % 2
    return router, rank, seen


def _channels(
    layout: Layout,
    links: LinkTable,
    parameters: SimulationParameters,
    queues_of_router: Sequence[int],
) -> ChannelTable:
    hop = parameters.hop
    router, wire, inject = (
        ticks(hop.router_delay_s),
        ticks(hop.link_delay_s),
        ticks(hop.injection_delay_s),
    )
    delay = np.where(
        links.start < 0, inject, wire if layout.output_buffers else router + wire
    ).astype(np.int64)
    stores = np.where(links.end < 0, 0, int(parameters.stores)).astype(np.int32)
    ranks = np.array([*queues_of_router, 2], dtype=np.int32)[links.start]
    if layout.output_buffers:
        delay = np.concatenate([delay, np.full(layout.links, router, np.int64)])
        ranks, stores = (
            np.concatenate([ranks, ranks]),
            np.concatenate([stores, np.zeros_like(stores)]),
        )
    return ChannelTable(delay=delay, stores=stores, ranks=ranks)


def _queues(
    layout: Layout,
    links: LinkTable,
    parameters: SimulationParameters,
    router: IntArray,
    rank: IntArray,
) -> QueueTable:
    lanes, buffers = layout.lanes, layout.source_queue
    slots = np.zeros(layout.queues, dtype=np.int32)
    for_data = np.arange(buffers) % lanes < layout.data_lanes
    slots[:buffers] = np.where(for_data, parameters.slots, parameters.last_lane_slots)
    slots[: layout.links * lanes][np.repeat(links.end < 0, lanes)] = 0
    return QueueTable(slots=slots, router=router, rank=rank)


def _routers(layout: Layout, links: LinkTable, paths: Paths) -> RouterTable:
    ends = zip(links.start.tolist(), links.end.tolist(), strict=True)
    inner = ((b, i) for i, (a, b) in enumerate(ends) if a >= 0 <= b)
    input_first, inputs = by_router(layout.routers, inner)
    host_first, hosts = by_router(
        layout.routers, ((r, h) for h, r in enumerate(paths.host_router.tolist()))
    )
    return RouterTable(input_first=input_first, inputs=inputs, host_first=host_first, hosts=hosts)
