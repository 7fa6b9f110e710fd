"""The network as the engines see it: channels, buffers and routing tables.

Channels carry packets, and buffers hold them. Everything is in arrays of integers, built once for a
network and its parameters. Both engines read the same arrays. L is the number of links, R of
routers, H of hosts, and W of lanes: the virtual channels and, with FT-DRB, one for ACKs.

A **channel** carries one packet at a time to a buffer. Channel l < L is link l. If routers have
output buffers, channel L + l is the path through the crossbar into the output buffer of link l.

A **queue** holds packets in order. Queue c * W + w is the buffer that channel c fills on lane w:
the input buffer behind link c or, if c >= L, the output buffer of a link. A link that ends at a
host ends in a sink, which stores nothing. The next queues are two per host (messages, ACKs), one of
notices per router, and the deadlock avoidance buffer of NAC for the input behind each link.

A **reader** takes packets out of an input, one at a time from all its lanes together.
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
from topologies.routing_relations import RoutingRelation

# The engines' keys have 18 bits for the number of the queue that an event concerns.
MAX_QUEUES = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The numbers of links, routers, hosts and lanes, which determine those of channels and queues.

    Attributes:
        links: Number of links.
        routers: Number of routers.
        hosts: Number of hosts.
        lanes: Number of lanes of each channel.
        data_lanes: Number of lanes for data, the virtual channels. ACKs of FT-DRB have one more
            lane or, if ``lanes`` is not larger, share these.
        output_buffers: Whether routers have output buffers.
    """

    links: int
    routers: int
    hosts: int
    lanes: int
    data_lanes: int
    output_buffers: bool

    @property
    def channels(self) -> int:
        """Number of links, and of paths through crossbars into output buffers if there are any."""
        return self.links * (2 if self.output_buffers else 1)

    @property
    def source_queue(self) -> int:
        """The first queue of host 0.

        Queue ``source_queue`` + 2 h holds the messages of host h, and the next one its ACKs.
        """
        return self.channels * self.lanes

    @property
    def notice_queue(self) -> int:
        """The queue of notices that router 0 sends."""
        return self.source_queue + 2 * self.hosts

    @property
    def avoidance_queue(self) -> int:
        """The deadlock avoidance buffer of the input behind link 0."""
        return self.notice_queue + self.routers

    @property
    def queues(self) -> int:
        """Number of all queues."""
        return self.avoidance_queue + self.links


@dataclass(frozen=True, kw_only=True)
class LinkTable:
    """The links, with one entry per link in each array.

    Attributes:
        start: The router where it begins; NONE: a host.
        end: The router where it ends; NONE: a host.
        host: The host where it ends; NONE: a router.
        entry: The channel that leads from a router into the link: the path into its output buffer,
            or the link itself.
        cable: Its cable, which has a link in each direction; NONE: a link of a host, which never
            fails.
    """

    start: IntArray
    end: IntArray
    host: IntArray
    entry: IntArray
    cable: IntArray


@dataclass(frozen=True, kw_only=True)
class ChannelTable:
    """The channels, with one entry per channel in each array.

    Attributes:
        delay: Ticks that a packet's head takes over it.
        stores: 1 if a packet may leave the buffer behind the channel when its last byte has arrived
            (store and forward); 0 if when its first byte has.
        ranks: Number of queues that may request it.
    """

    delay: IntArray
    stores: IntArray
    ranks: IntArray


@dataclass(frozen=True, kw_only=True)
class QueueTable:
    """The queues, with one entry per queue in each array.

    Attributes:
        slots: Number of packets that it holds; 0: no limit.
        router: The router where its packets wait; NONE: a host.
        rank: Its position among the queues of its router or host, for arbitration.
    """

    slots: IntArray
    router: IntArray
    rank: IntArray


@dataclass(frozen=True, kw_only=True)
class HostTable:
    """The hosts, with one entry per host in each array.

    Attributes:
        uplink: The link from it.
        downlink: The link to it.
        target: Its target in the routing tables: the host itself, or on a grid its router.
    """

    uplink: IntArray
    downlink: IntArray
    target: IntArray


@dataclass(frozen=True, kw_only=True)
class RouterTable:
    """Lists of inputs and hosts, grouped by router.

    Attributes:
        input_first: The inputs of router r are ``inputs[input_first[r]]`` until
            ``inputs[input_first[r + 1] - 1]``.
        inputs: Links from other routers.
        host_first: The hosts of router r are found in ``hosts`` likewise.
        hosts: Numbers of hosts.
    """

    input_first: IntArray
    inputs: IntArray
    host_first: IntArray
    hosts: IntArray


@dataclass(frozen=True, kw_only=True)
class NetworkModel:
    """The tables of a network, and the paths that FT-DRB uses.

    Attributes:
        layout: Numbers of everything.
        links: The links.
        channels: The channels.
        queues: The queues.
        hosts: The hosts.
        routers: Inputs and hosts by router.
        routes: The static routing.
        paths: The paths between routers.
        relation: The routing relation; ``no_relation()`` if each pair has one path.
        axes: The ring that each link is in, for bubble flow control.
        dead: Cables that the relation does not use.
        network: The network.
        largest_side: Largest side of a torus, mesh or ring; the diameter of other networks.
        is_ring: Whether the network has one dimension, or none.
    """

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
    dead: frozenset[route_tables.Cable]
    network: Network
    largest_side: int
    is_ring: bool

    @property
    def cables(self) -> int:
        """Number of cables between routers."""
        return int(self.links.cable.max()) + 1


def build_model(
    network: Network,
    parameters: SimulationParameters,
    dead: Collection[route_tables.Cable] = frozenset(),
) -> NetworkModel:
    """Return the tables of a network. They need O(routers^2) memory.

    Args:
        network: The network.
        parameters: Parameters of routers and links.
        dead: Cables that an adaptive routing must not use.

    Raises:
        InputError: The routing does not fit the network, virtual channels need a dateline that it
            does not have, a host is attached to several switches, or the network is too large for
            the engines' keys.
    """
    relation = route_tables.relation_of(network, parameters, dead)
    if relation is None:
        route_tables.check_routing(network, parameters)
    route_tables.check_rings(network, parameters)
    data_lanes = parameters.channels
    if relation is not None and relation.all_lanes > 1:
        data_lanes = relation.all_lanes
    paths = _paths(network, parameters, relation)
    sides = _sides(network, parameters, paths)
    layout = _layout(network, parameters, paths, data_lanes)
    routes, target = route_tables.build_routes(network, parameters, paths)
    relation_tables = route_tables.no_relation()
    if relation is not None:
        target = np.asarray(paths.host_router, dtype=np.int32)
        relation_tables = route_tables.build_relation_tables(
            network, relation, spread_lanes=relation.all_lanes < data_lanes
        )
    links, hosts = _links_and_hosts(network, layout, paths, target)
    queue_router, rank, queues_of_router = _queue_positions(layout, links)
    return NetworkModel(
        layout=layout,
        links=links,
        channels=_channels(layout, links, parameters, queues_of_router),
        queues=_queues(layout, links, parameters, queue_router, rank),
        hosts=hosts,
        routers=_routers(layout, links, paths),
        routes=routes,
        paths=paths,
        relation=relation_tables,
        axes=route_tables.axes(paths),
        dead=frozenset(dead),
        network=network,
        largest_side=max(sides),
        is_ring=len(sides) == 1,
    )


def _paths(
    network: Network, parameters: SimulationParameters, relation: RoutingRelation | None
) -> Paths:
    """Return the network's own paths, or those of a routing that is not its own."""
    own_routings = ("ft-drb", "dor", "d-mod-k", "nca")
    if relation is not None or parameters.routing in own_routings:
        return build_paths(network)
    return route_tables.searched_paths(network, parameters.routing)


def _sides(network: Network, parameters: SimulationParameters, paths: Paths) -> list[int]:
    """Return the sides of a torus, mesh or ring, or the diameter of another network.

    Raises:
        InputError: NAC is used, and a ring is longer than an identification packet can be.
    """
    shape = network.attributes.get("shape")
    sides = [int(size) for size in shape] if isinstance(shape, list) else [paths.diameter]
    if parameters.deadlock == "nac" and max(sides) >= MAX_CYCLE:
        raise InputError(
            f"--deadlock-avoidance nac: {network.name} has rings of {max(sides)} routers; NAC's "
            f"identification packets name at most {MAX_CYCLE - 1}: take a smaller network"
        )
    return sides


def _layout(
    network: Network, parameters: SimulationParameters, paths: Paths, data_lanes: int
) -> Layout:
    """Return the numbers of links, routers, hosts and lanes.

    Raises:
        InputError: There are more queues than the engines' keys have room for.
    """
    lanes = data_lanes
    has_ack_lane = parameters.routing == "ft-drb" and not parameters.shares_ack_buffers
    if has_ack_lane or parameters.deadlock == "disha":
        lanes += 1
    layout = Layout(
        links=len(network.links),
        routers=paths.routers,
        hosts=len(network.hosts),
        lanes=lanes,
        data_lanes=data_lanes,
        output_buffers=parameters.hop.output_buffers,
    )
    if layout.queues >= MAX_QUEUES:
        raise InputError(
            f"{network.name}: {layout.queues} buffers; the simulator's keys hold {MAX_QUEUES}: "
            "take a smaller network"
        )
    return layout


def zero_load_ticks(parameters: SimulationParameters, routers: int, size_bytes: int) -> int:
    """Return the latency of a packet over this number of routers in an empty network, in ticks."""
    hop = parameters.hop
    serialization = parameters.serialization_ticks(size_bytes)
    per_router = ticks(hop.router_delay_s) + ticks(hop.link_delay_s)
    if parameters.stores:
        per_router += serialization
    return ticks(hop.injection_delay_s) + routers * per_router + serialization


def _links_and_hosts(
    network: Network, layout: Layout, paths: Paths, target: IntArray
) -> tuple[LinkTable, HostTable]:
    """Return the tables of links and hosts; ``target`` is the routing target of each host."""
    host_number = {host.id: i for i, host in enumerate(network.hosts)}
    uplink = np.full(layout.hosts, NONE, np.int32)
    downlink = np.full(layout.hosts, NONE, np.int32)
    for i, link in enumerate(network.links):
        if link.source in host_number:
            uplink[host_number[link.source]] = i
        if link.target in host_number:
            downlink[host_number[link.target]] = i
    start = np.asarray(paths.link_source)
    entry = np.arange(layout.links)
    if layout.output_buffers:
        entry = np.where(start >= 0, entry + layout.links, entry)
    end_hosts = [host_number.get(link.target, NONE) for link in network.links]
    links = LinkTable(
        start=start,
        end=np.asarray(paths.link_target),
        host=np.array(end_hosts, dtype=np.int32),
        entry=entry.astype(np.int32),
        cable=np.asarray(paths.cable),
    )
    return links, HostTable(uplink=uplink, downlink=downlink, target=target)


def _queue_positions(layout: Layout, links: LinkTable) -> tuple[IntArray, IntArray, list[int]]:
    """Return the router of each queue, its rank there, and the number of queues of each router.

    The two queues of a host have the ranks 0 and 1.
    """
    parts: list[NDArray[Any]] = [np.repeat(links.end, layout.lanes)]
    if layout.output_buffers:
        parts.append(np.repeat(links.start, layout.lanes))
    parts.append(np.full(2 * layout.hosts, NONE))
    parts.append(np.arange(layout.routers))
    parts.append(links.end)
    queue_router = np.concatenate(parts).astype(np.int32)
    rank = np.zeros(layout.queues, dtype=np.int32)
    count = [0] * layout.routers
    for queue, router in enumerate(queue_router.tolist()):
        if router >= 0:
            rank[queue] = count[router]
            count[router] += 1
    rank[layout.source_queue : layout.notice_queue] = np.arange(2 * layout.hosts) % 2
    return queue_router, rank, count


def _channels(
    layout: Layout,
    links: LinkTable,
    parameters: SimulationParameters,
    queues_of_router: Sequence[int],
) -> ChannelTable:
    """Return the delays of the channels, and who may request them.

    With output buffers, the router's delay is that of the channel into the output buffer. Without
    them, it is part of the link's delay.
    """
    hop = parameters.hop
    router_delay = ticks(hop.router_delay_s)
    link_delay = ticks(hop.link_delay_s)
    if not layout.output_buffers:
        link_delay += router_delay
    injection_delay = ticks(hop.injection_delay_s)
    delay = np.where(links.start < 0, injection_delay, link_delay).astype(np.int64)
    stores = np.where(links.end < 0, 0, int(parameters.stores)).astype(np.int32)
    # The last entry, of the two queues of a host, is read for NONE (-1).
    ranks = np.array([*queues_of_router, 2], dtype=np.int32)[links.start]
    if layout.output_buffers:
        delay = np.concatenate([delay, np.full(layout.links, router_delay, np.int64)])
        ranks = np.concatenate([ranks, ranks])
        stores = np.concatenate([stores, np.zeros_like(stores)])
    return ChannelTable(delay=delay, stores=stores, ranks=ranks)


def _queues(
    layout: Layout,
    links: LinkTable,
    parameters: SimulationParameters,
    router: IntArray,
    rank: IntArray,
) -> QueueTable:
    """Return the sizes of the queues; ``router`` and ``rank`` are from ``_queue_positions``."""
    lanes = layout.lanes
    buffers = layout.source_queue
    slots = np.zeros(layout.queues, dtype=np.int32)
    for_data = np.arange(buffers) % lanes < layout.data_lanes
    slots[:buffers] = np.where(for_data, parameters.slots, parameters.last_lane_slots)
    # A host takes every packet at once.
    slots[: layout.links * lanes][np.repeat(links.end < 0, lanes)] = 0
    return QueueTable(slots=slots, router=router, rank=rank)


def _routers(layout: Layout, links: LinkTable, paths: Paths) -> RouterTable:
    """Return the inputs and the hosts of each router."""
    between_routers = np.nonzero((links.start >= 0) & (links.end >= 0))[0].tolist()
    inputs_by_router = [(int(links.end[i]), i) for i in between_routers]
    hosts_by_router = [(router, host) for host, router in enumerate(paths.host_router.tolist())]
    input_first, inputs = by_router(layout.routers, inputs_by_router)
    host_first, hosts = by_router(layout.routers, hosts_by_router)
    return RouterTable(input_first=input_first, inputs=inputs, host_first=host_first, hosts=hosts)
