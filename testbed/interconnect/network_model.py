"""A network as the engines see it: channels that carry packets, buffers that hold them, tables that say where to go.

Everything is arrays of whole numbers, made once a network and set of parameters; both engines read the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from testbed.errors import InputError
from testbed.interconnect.ft_drb.ft_drb import Paths, build_paths
from testbed.interconnect.parameters import SimulationParameters, ticks
from testbed.interconnect.virtual_channels import dateline_classes, grid_tables
from topologies import Network, TopologyError
from topologies.routing_tables import static_routing

NONE = -1
MAX_BUFFERS = 1 << 18


class Ports(NamedTuple):
    """Numbers of everything. L links as in ``network.links``, R routers, H hosts, W lanes (virtual channels, then ACKs).

    A **channel** carries one packet at a time to a buffer. Channel l < L is link l; where routers have output buffers,
    channel L + l is the crossbar's way into the output buffer of link l. A **buffer** is a queue: c * W + w holds what
    channel c brought on lane w (the output buffer where c >= L; nothing stays where the link ends at a host: a sink).
    Then come two queues a host (messages, ACKs), from ``source_queue``; one of notices a router, from
    ``notice_queue``; NAC's avoidance buffer of link l's input, ``spare_queue`` + l.

    ``entry[l]``: the channel that leads from a router into link l (L + l, or l without output buffers).
    ``link_from``, ``link_to``: routers at the ends (-1: a host). ``host_at[l]``: the host at the end of a link, -1.
    ``slots[q]``: packets a buffer holds (0: no limit). ``router_of[q]``: where its packets wait (-1: a host).
    ``reader[q]``: the reader it shares with the other lanes of its input; ``reader_first``, ``reader_count``: its queues.
    ``rank[q]``, ``ranks[c]``: its place among, and the number of, the queues that may ask for channel c.
    ``wait_first[c]``: where its list of askers begins. ``delay[c]``: of a head, ticks. ``slot_first[q]``: where its slots' release times
    begin. ``uplink[h]``, ``downlink[h]``: a host's links. ``inputs``: links between routers into router r, from
    ``input_first[r]``. ``hosts_first``, ``hosts_of``: hosts of a router.
    ``next_link[v, r, t]``: the link that leaves r for target t (see ``goal``) in variant v of the ties; ``lane_class``:
    its dateline class. ``goal[h]``: the target that stands for host h.
    """

    links: int
    routers: int
    hosts: int
    lanes: int
    data_lanes: int
    channels: int
    two_stages: int
    source_queue: int
    notice_queue: int
    spare_queue: int
    queues: int
    entry: Any
    link_from: Any
    link_to: Any
    host_at: Any
    slots: Any
    slot_first: Any
    router_of: Any
    reader: Any
    reader_first: Any
    reader_count: Any
    rank: Any
    ranks: Any
    wait_first: Any
    delay: Any
    uplink: Any
    downlink: Any
    input_first: Any
    inputs: Any
    hosts_first: Any
    hosts_of: Any
    next_link: Any
    lane_class: Any
    classes: int
    goal: Any
    cable: Any


@dataclass(frozen=True, kw_only=True)
class NetworkModel:
    """The ports, the paths that FT-DRB stands on, and what the network is called."""

    ports: Ports
    paths: Paths
    network: Network
    largest_side: int
    is_ring: bool


def build_model(network: Network, parameters: SimulationParameters) -> NetworkModel:
    """Numbers and tables for a network. O(routers^2) memory.

    Raises InputError where the routing does not fit the network (no dimension order), virtual channels have no dateline
    on it, a host hangs on several switches, or it is too large for the engines' keys.
    """
    _check_routing(network, parameters)
    paths = (
        build_paths(network)
        if parameters.routing in ("ft-drb", "dor", "d-mod-k")
        else build_searched(network, parameters)
    )
    tables, goal = _tables(network, parameters, paths)
    classes = _classes(network, parameters, tables, paths)
    ports = _number_ports(network, parameters, paths, tables, classes, goal)
    if ports.queues >= MAX_BUFFERS:
        raise InputError(
            f"{network.name}: {ports.queues} buffers; the simulator's keys hold {MAX_BUFFERS}: take a smaller network"
        )
    shape = network.attributes.get("shape")
    sides = [int(s) for s in shape] if isinstance(shape, list) else [paths.diameter]
    return NetworkModel(ports=ports, paths=paths, network=network, largest_side=max(sides), is_ring=len(sides) == 1)


def build_searched(network: Network, parameters: SimulationParameters) -> Paths:
    """Tables of the routing asked for by name ("table", "shortest-path")."""
    from dataclasses import replace

    named = replace(network, attributes={**_without_shape(network), "routing": parameters.routing})
    return build_paths(named)


def _without_shape(network: Network) -> dict[str, Any]:
    return {k: v for k, v in network.attributes.items() if k not in ("shape", "wraps")}


def _is_grid(network: Network) -> bool:
    return isinstance(network.attributes.get("shape"), list) and isinstance(network.attributes.get("wraps"), bool)


def _check_routing(network: Network, parameters: SimulationParameters) -> None:
    method = {"dor": "dimension-order", "ft-drb": None}.get(parameters.routing, parameters.routing)
    try:
        if method is not None:
            static_routing(network, method)
    except TopologyError as error:
        wanted = "dimension order" if parameters.routing == "dor" else parameters.routing
        raise InputError(f"--routing {parameters.routing}: {network.name} has no {wanted}: {error}") from None
    if parameters.deadlock == "virtual-channels" and not (_is_grid(network) or _is_tree(network)):
        raise InputError(
            f"--deadlock virtual-channels: {network.name} has no dateline (it is no torus, mesh, ring or fat tree); use nac"
        )


def _is_tree(network: Network) -> bool:
    return network.attributes.get("family") in ("fat-tree", "clos")


def _tables(
    network: Network, parameters: SimulationParameters, paths: Paths
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    hosts = len(paths.host_router)
    if parameters.routing == "dor" and _is_grid(network):
        table = grid_tables(network, paths, both_ties=parameters.hop.ties == "random")
        return table, np.asarray(paths.host_router, dtype=np.int32)
    table = np.ascontiguousarray(paths.next_link)[None, :, :]
    return table, np.arange(paths.routers, paths.routers + hosts, dtype=np.int32)


def _classes(
    network: Network, parameters: SimulationParameters, tables: NDArray[np.int32], paths: Paths
) -> NDArray[np.uint8]:
    if parameters.deadlock == "virtual-channels" and _is_grid(network) and network.attributes["wraps"]:
        return dateline_classes(network, tables, paths)
    return np.zeros((1, 1, 1), dtype=np.uint8)


def _lists(groups: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    first = np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int32)
    return first, np.array([item for group in groups for item in group], dtype=np.int32)


def _number_ports(
    network: Network,
    parameters: SimulationParameters,
    paths: Paths,
    tables: NDArray[np.int32],
    classes: NDArray[np.uint8],
    goal: NDArray[np.int32],
) -> Ports:
    hop = parameters.hop
    hosts_by_name = {host.id: i for i, host in enumerate(network.hosts)}
    links, routers, hosts = len(network.links), paths.routers, len(network.hosts)
    lanes = parameters.channels + (parameters.routing == "ft-drb")
    two_stages = int(hop.output_buffers)
    channels = links * (1 + two_stages)
    source_queue = channels * lanes
    notice_queue = source_queue + 2 * hosts
    spare_queue = notice_queue + routers
    queues = spare_queue + links
    link_from, link_to = np.asarray(paths.link_source), np.asarray(paths.link_target)
    host_at = np.array([hosts_by_name.get(link.target, NONE) for link in network.links], dtype=np.int32)
    uplink, downlink = np.full(hosts, NONE, np.int32), np.full(hosts, NONE, np.int32)
    for i, link in enumerate(network.links):
        if link.source in hosts_by_name:
            uplink[hosts_by_name[link.source]] = i
        if link.target in hosts_by_name:
            downlink[hosts_by_name[link.target]] = i
    entry = np.where((link_from >= 0) & (two_stages == 1), np.arange(links) + links, np.arange(links)).astype(np.int32)
    router_of = _queue_routers(links, lanes, two_stages, hosts, routers, link_from, link_to)
    slots = _queue_slots(parameters, lanes, queues, source_queue, spare_queue, links, link_to)
    reader, reader_first, reader_count = _readers(
        channels, lanes, hosts, routers, links, source_queue, notice_queue, spare_queue
    )
    rank, ranks = _ranks(router_of, channels, links, lanes, link_from, routers, queues, source_queue, notice_queue)
    delay = _delays(parameters, links, two_stages, link_from)
    input_first, inputs = _lists(_by_router(link_from, link_to, routers))
    hosts_first, hosts_of = _lists(_hosts_by_router(paths.host_router, routers))
    return Ports(
        links=links, routers=routers, hosts=hosts, lanes=lanes, data_lanes=parameters.channels, channels=channels,
        two_stages=two_stages, source_queue=source_queue, notice_queue=notice_queue, spare_queue=spare_queue, queues=queues,
        entry=entry, link_from=link_from, link_to=link_to, host_at=host_at, slots=slots,
        slot_first=np.concatenate([[0], np.cumsum(slots)]).astype(np.int32), router_of=router_of, reader=reader,
        reader_first=reader_first, reader_count=reader_count, rank=rank, ranks=ranks,
        wait_first=np.concatenate([[0], np.cumsum(ranks)]).astype(np.int32), delay=delay, uplink=uplink, downlink=downlink,
        input_first=input_first, inputs=inputs, hosts_first=hosts_first, hosts_of=hosts_of, next_link=tables,
        lane_class=classes, classes=2 if classes.size > 1 else 1, goal=goal, cable=np.asarray(paths.cable),
    )  # fmt: skip


def _by_router(link_from: NDArray[np.int32], link_to: NDArray[np.int32], routers: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(routers)]
    for link, (a, b) in enumerate(zip(link_from.tolist(), link_to.tolist(), strict=True)):
        if a >= 0 <= b:
            found[b].append(link)
    return found


def _hosts_by_router(host_router: NDArray[np.int32], routers: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(routers)]
    for host, router in enumerate(host_router.tolist()):
        found[router].append(host)
    return found


def _queue_routers(
    links: int,
    lanes: int,
    two_stages: int,
    hosts: int,
    routers: int,
    link_from: NDArray[np.int32],
    link_to: NDArray[np.int32],
) -> NDArray[np.int32]:
    parts = [np.repeat(link_to, lanes)]
    if two_stages:
        parts.append(np.repeat(link_from, lanes))
    return np.concatenate([*parts, np.full(2 * hosts, NONE), np.arange(routers), link_to]).astype(np.int32)


def _queue_slots(
    parameters: SimulationParameters, lanes: int, queues: int, source_queue: int, spare_queue: int, links: int,
    link_to: NDArray[np.int32],
) -> NDArray[np.int32]:  # fmt: skip
    slots = np.zeros(queues, dtype=np.int32)
    for lane in range(lanes):
        slots[lane:source_queue:lanes] = parameters.slots if lane < parameters.channels else parameters.ack_slots
    for link in np.nonzero(link_to < 0)[0].tolist():
        slots[link * lanes : (link + 1) * lanes] = 0
    return slots


def _readers(
    channels: int,
    lanes: int,
    hosts: int,
    routers: int,
    links: int,
    source_queue: int,
    notice_queue: int,
    spare_queue: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    reader = np.concatenate(
        [
            np.repeat(np.arange(channels), lanes),
            channels + np.repeat(np.arange(hosts), 2),
            channels + hosts + np.arange(routers + links),
        ]
    ).astype(np.int32)
    first = np.concatenate(
        [np.arange(channels) * lanes, source_queue + 2 * np.arange(hosts), notice_queue + np.arange(routers + links)]
    ).astype(np.int32)
    count = np.concatenate([np.full(channels, lanes), np.full(hosts, 2), np.ones(routers + links)]).astype(np.int32)
    return reader, first, count


def _ranks(
    router_of: NDArray[np.int32], channels: int, links: int, lanes: int, link_from: NDArray[np.int32], routers: int, queues: int,
    source_queue: int, notice_queue: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:  # fmt: skip
    """Places of queues at their router (or host), and how many places the askers of each channel have."""
    rank = np.zeros(queues, dtype=np.int32)
    seen = [0] * routers
    for queue, router in enumerate(router_of.tolist()):
        if router >= 0:
            rank[queue] = seen[router]
            seen[router] += 1
    rank[source_queue:notice_queue] = np.arange(notice_queue - source_queue) % 2
    at = np.array([*seen, 2], dtype=np.int32)
    ranks = at[link_from]
    return rank, np.concatenate([ranks, ranks[: channels - links]]).astype(np.int32)


def _delays(
    parameters: SimulationParameters, links: int, two_stages: int, link_from: NDArray[np.int32]
) -> NDArray[np.int64]:
    hop = parameters.hop
    router, wire, inject = ticks(hop.router_delay_s), ticks(hop.link_delay_s), ticks(hop.injection_delay_s)
    over_link = np.where(link_from < 0, inject, wire if two_stages else router + wire).astype(np.int64)
    return np.concatenate([over_link, np.full(links, router, np.int64)]) if two_stages else over_link


def zero_load_ticks(parameters: SimulationParameters, routers: int, size_bytes: int) -> int:
    """Of a packet over so many routers where no other is in its way."""
    hop = parameters.hop
    a_router = ticks(hop.router_delay_s) + ticks(hop.link_delay_s)
    return ticks(hop.injection_delay_s) + routers * a_router + parameters.serialization_ticks(size_bytes)
