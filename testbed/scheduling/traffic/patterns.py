"""Traffics of a network: all-to-all, and listed pairs, over its static routing.

The traffics of fat trees and tori are computed by arithmetic on arrays, a million transfers at
once.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from testbed.errors import InputError
from testbed.model.json_values import is_file, read_json
from testbed.model.naming.names import read_pairs
from testbed.model.schemas import refuse_unknown
from testbed.model.traffic import IntArray, Traffic
from topologies import LinkId, Network, label_of, reverse_of
from topologies.routing_tables import balanced_parts, static_routing

# A node of a torus: a letter and its coordinates.
_TORUS_NODE = re.compile("[a-z][0-9]+(_[0-9]+)*")

# A function of source and sink that returns the links of the path.
Route = Callable[[str, str], Sequence[LinkId]]

# The letter of a torus node ("s" or "h") and its coordinates.
_TorusPosition = tuple[str, tuple[int, ...]]

Grid = npt.NDArray[np.int32]


def processors(network: Network) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the senders and the receivers, in the network's order.

    A host without a role (as in Swiss-T1, whose hosts t send and hosts r receive) is both.

    Raises:
        InputError: The network has no sender or no receiver.
    """
    senders = []
    receivers = []
    for node in network.hosts:
        role = node.attributes.get("role")
        if role != "receiver":
            senders.append(node.id)
        if role != "sender":
            receivers.append(node.id)
    if not senders or not receivers:
        raise InputError(
            f"network {network.name!r} has no host to send or receive; choose one with hosts"
        )
    return tuple(senders), tuple(receivers)


def all_to_all(network: Network, *routes: Route) -> Traffic:
    """Return the traffic from every sender to every receiver.

    A host also sends to itself, over its first switch and back, so n hosts have n * n transfers.
    The traffic of ``clos:k`` over its own routing (d-mod-k) is computed by arithmetic.

    Args:
        network: The network.
        *routes: The routes of the parts of each message; the network's static routing by default.

    Raises:
        InputError: The network has no hosts.
        NoPathError: A receiver cannot be reached.
    """
    pairs = list(itertools.product(*processors(network)))
    if network.attributes.get("family") == "clos" and not routes:
        return clos_traffic(network, pairs)
    return traffic_of(network, pairs, *routes)


def other_pairs(network: Network) -> tuple[tuple[str, str], ...]:
    """Return every pair of a sender and another receiver.

    Raises:
        InputError: The network has no hosts.
    """
    pairs = itertools.product(*processors(network))
    return tuple((source, sink) for source, sink in pairs if source != sink)


def all_to_others(network: Network, *routes: Route) -> Traffic:
    """Return the traffic of ``other_pairs``, which bulk transfers send.

    Arguments and errors are those of ``all_to_all``.
    """
    return traffic_of(network, list(other_pairs(network)), *routes)


def all_switches(network: Network, *routes: Route) -> Traffic:
    """Return the traffic from every switch to every other one.

    In contrast to ``all_to_others``, no link of a host can be the bottleneck. The arguments are
    those of ``all_to_all``.
    """
    switches = [switch.id for switch in network.switches]
    return traffic_of(network, list(itertools.permutations(switches, 2)), *routes)


# The patterns by name.
NAMED = {"all-to-all": all_to_all, "all-to-others": all_to_others, "all-switches": all_switches}


def routes_of(network: Network, routing: str | None, parts: int = 1) -> tuple[Route, ...]:
    """Return a route for each of the equal parts of every message.

    Args:
        network: The network.
        routing: "balanced", or the name of a static routing. None means the network's own routing
            for one part, and "balanced" for several.
        parts: Number of parts.
    """
    if routing == "balanced" or (routing is None and parts > 1):
        return tuple(balanced_parts(network, parts))
    return (static_routing(network, routing),) * parts


def traffic_of(network: Network, pairs: Sequence[tuple[str, str]], *routes: Route) -> Traffic:
    """Return the traffic of listed pairs.

    Each pair has one transfer over each route; they are the parts of one message. A host sends to
    itself over its first switch.

    Args:
        network: The network.
        pairs: Source and sink of each message.
        *routes: The routes; the network's static routing by default.
    """
    all_routes = routes or (static_routing(network),)
    first, *others = [_with_loops(network, route) for route in all_routes]
    return with_translations(network, Traffic.from_paths(pairs, first, label_of, *others))


def _with_loops(network: Network, route: Route) -> Route:
    """Extend a route to pairs of a host with itself, over its first switch and back."""

    def path(source: str, sink: str) -> Sequence[LinkId]:
        if source != sink:
            return route(source, sink)
        out = network.links[network.out_links(source)[0]]
        return out.id, reverse_of(out.id)

    return path


def with_translations(network: Network, traffic: Traffic) -> Traffic:
    """Add the translations of a torus to its traffic, as permutations of the links.

    The traffic remains unchanged if the network is no torus or some link has no image.
    """
    shape: object = network.attributes.get("shape")
    if not network.attributes.get("wraps") or not isinstance(shape, list):
        return traffic
    if not all(_TORUS_NODE.fullmatch(node.id) for node in network.nodes):
        return traffic
    position_of = {node.id: _torus_position(node.id) for node in network.nodes}
    node_at = {position: node for node, position in position_of.items()}
    link_number = {network.link_of_label[name]: i for i, name in enumerate(traffic.links)}
    symmetries: list[IntArray] = []
    for step in itertools.product(*map(range, shape)):
        image_of = {}
        for node, position in position_of.items():
            image_of[node] = node_at[_translated(position, step, shape)]
        images = [
            link_number.get((image_of[tail], image_of[head], key), -1)
            for tail, head, key in link_number
        ]
        if -1 in images:
            return traffic
        symmetries.append(np.array(images, dtype=np.int32))
    return replace(traffic, symmetries=tuple(symmetries), symmetry_shape=tuple(shape))


def _torus_position(node: str) -> _TorusPosition:
    """Return the letter and the coordinates in the id of a torus node, such as "s0_1"."""
    return node[0], tuple(map(int, node[1:].split("_")))


def _translated(
    position: _TorusPosition, step: Sequence[int], shape: Sequence[int]
) -> _TorusPosition:
    """Return a position on a torus, moved by a step.

    Args:
        position: The position.
        step: The step in each dimension.
        shape: Length of each side.
    """
    letter, coordinates = position
    moved = [
        (coordinate + difference) % side
        for coordinate, difference, side in zip(coordinates, step, shape, strict=True)
    ]
    return letter, tuple(moved)


def parse_pairs(document: object, network: Network, where: str) -> list[tuple[str, str]]:
    """Return the pairs of a pattern: ``[["h0", "h1"], ...]`` or ``{"pairs": [...]}``.

    Args:
        document: The JSON document.
        network: The network.
        where: The text with which messages begin.

    Raises:
        InputError: The document is invalid; the message names the pair.
        TopologyError: A node is unknown.
    """
    refuse_unknown(document, "pattern", where)
    listed = document.get("pairs") if isinstance(document, dict) else document
    if not isinstance(listed, list) or not listed:
        raise InputError(f'{where}: give {{"pairs": [["h0", "h1"], ...]}}, one pair or more')
    for number, pair in enumerate(listed):
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(isinstance(end, str) for end in pair)
        ):
            raise InputError(f"{where}: pair {number} is {str(pair)[:60]}; give two names of nodes")
        for end in pair:
            network.node(end)
    return [(source, sink) for source, sink in listed]


def read_pattern(file: str, network: Network) -> tuple[tuple[str, str], ...]:
    """Return the pairs of nodes of a ``--pattern``.

    Args:
        file: The path of a file of pairs, or the pairs themselves as ``A:B,C:D``.
        network: The network.

    Raises:
        InputError: A pair is invalid; the message names it.
        TopologyError: A node is unknown, or the file cannot be read.
    """
    where = f"--pattern {file}"
    if ":" in file and not is_file(file):
        return read_pairs(file, network, "--pattern")
    document = read_json(file, where, hint="give all-to-all, A:B,C:D or a file of pairs")
    return tuple(parse_pairs(document, network, where))


def clos_traffic(network: Network, pairs: Sequence[tuple[str, str]]) -> Traffic:
    """Return the all-to-all traffic of ``clos:k`` by arithmetic on arrays.

    A million transfers take a fraction of a second. The paths are those of d-mod-k (a test compares
    them); a host sends to itself over its switch.

    A path has up to six links: up to the edge switch, to the middle switch of the pod and to the
    top switch, and down again.

    Args:
        network: The network ``clos:k``.
        pairs: All pairs of its hosts, in the order of ``all_to_all``.
    """
    half = int(network.attributes["k"]) // 2
    hosts = len(network.hosts)
    source = np.repeat(np.arange(hosts, dtype=np.int32), hosts)
    sink = np.tile(np.arange(hosts, dtype=np.int32), hosts)
    hops = _clos_paths(_ClosLinks(network, hosts, half), source, sink, half)
    used = hops >= 0
    offsets = np.zeros(hosts * hosts + 1, dtype=np.int64)
    np.cumsum(used.sum(axis=1), out=offsets[1:])
    return Traffic(
        links=tuple(link.label for link in network.links),
        offsets=offsets,
        indices=hops[used],
        ends=pairs,
        first_node=source // half,
        last_node=sink // half,
    )


def _clos_paths(links: "_ClosLinks", source: Grid, sink: Grid, half: int) -> Grid:
    """Return the six links of each path, or -1 for links that the path does not need.

    Args:
        links: The links of the network.
        source: Number of the source of each transfer.
        sink: Number of the sink of each transfer.
        half: Number k / 2 of links up, and of links down, of each switch.
    """
    source_edge = source // half
    sink_edge = sink // half
    source_pod = source_edge // half
    sink_pod = sink_edge // half
    other_edge = source_edge != sink_edge
    other_pod = source_pod != sink_pod
    # d-mod-k: the sink decides which links up its messages take.
    first_choice = sink % half
    second_choice = sink // half % half
    source_middle = source_pod * half + first_choice
    sink_middle = sink_pod * half + first_choice
    top = first_choice * half + second_choice
    hops: Grid = np.full((len(source), 6), -1, dtype=np.int32)
    hops[:, 0] = links.host_up[source]
    hops[:, 1] = np.where(other_edge, links.edge_up[source_edge, first_choice], -1)
    hops[:, 2] = np.where(other_pod, links.middle_up[source_middle, second_choice], -1)
    hops[:, 3] = np.where(other_pod, links.top_down[top, sink_pod], -1)
    hops[:, 4] = np.where(other_edge, links.middle_down[sink_middle, sink_edge % half], -1)
    hops[:, 5] = links.host_down[sink]
    return hops


class _ClosLinks:
    """The links of a ``clos:k`` network by the numbers of their switches.

    Args:
        network: The network.
        hosts: Number of hosts.
        half: Number k / 2 of links up, and of links down, of each switch.

    Attributes:
        host_up: Link from each host to its edge switch.
        host_down: Link from the edge switch to each host.
        edge_up: Links up from each edge switch (rows).
        middle_down: Links down from each middle switch (rows).
        middle_up: Links up from each middle switch (rows).
        top_down: Link from each top switch (rows) to each pod (columns).
    """

    def __init__(self, network: Network, hosts: int, half: int) -> None:
        edges = hosts // half
        tops = half * half
        pods = hosts // tops
        index = network.link_index
        self.host_up: Grid = np.zeros(hosts, dtype=np.int32)
        self.host_down: Grid = np.zeros(hosts, dtype=np.int32)
        for host in range(hosts):
            edge_name = f"s0_{host // half}"
            self.host_up[host] = index[f"h{host}", edge_name, 0]
            self.host_down[host] = index[edge_name, f"h{host}", 0]
        self.edge_up: Grid = np.zeros((edges, half), dtype=np.int32)
        self.middle_up: Grid = np.zeros((edges, half), dtype=np.int32)
        self.middle_down: Grid = np.zeros((edges, half), dtype=np.int32)
        # There are as many middle switches as edge switches.
        for switch in range(edges):
            first_of_pod = switch // half * half
            first_top = switch % half * half
            for j in range(half):
                below = f"s0_{first_of_pod + j}"
                middle = f"s1_{first_of_pod + j}"
                top_name = f"s2_{first_top + j}"
                self.edge_up[switch, j] = index[f"s0_{switch}", middle, 0]
                self.middle_down[switch, j] = index[f"s1_{switch}", below, 0]
                self.middle_up[switch, j] = index[f"s1_{switch}", top_name, 0]
        self.top_down: Grid = np.zeros((tops, pods), dtype=np.int32)
        for top in range(tops):
            for pod in range(pods):
                self.top_down[top, pod] = index[f"s2_{top}", f"s1_{pod * half + top // half}", 0]
