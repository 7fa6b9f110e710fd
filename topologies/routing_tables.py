"""Static single-path routing: one path for each pair of source and destination.

The methods are a table, dimension order, d-mod-k, shortest paths and balanced paths; all are
deterministic. ``static_routing(network)`` uses the method that the network names.
"""

import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from topologies import routing_relations
from topologies.direct_networks import grid_name
from topologies.errors import NoPathError, TopologyError
from topologies.fat_tree import switch_name, with_digit
from topologies.network import Link, LinkId, Network, Node, label_of
from topologies.registry import Registry, function_check
from topologies.routing.balanced_trees import BalancedTrees

# The ids of the links of a path, in order.
Path = tuple[LinkId, ...]
# Decides a tie of dimension-order routing: it takes the coordinates of the current switch, those of
# the destination, and the dimension, and returns whether to go in the direction of +.
Tie = Callable[[Sequence[int], Sequence[int], int], bool]


@dataclass(frozen=True, kw_only=True)
class StaticRouting:
    """A routing of one network. Call it with a source and a destination to get the path.

    The path from a node to itself is empty.

    Attributes:
        method: Name of the method.
        network: The network.
        find: Returns the path between two different nodes.

    Raises:
        TopologyError: A node is unknown.
        NoPathError: The destination cannot be reached.

    >>> from topologies import load_network
    >>> [f"{s}->{t}" for s, t, _ in static_routing(load_network("swiss-t1"))("t0", "r8")]
    ['t0->s1', 's1->s2', 's2->s3', 's3->r8']
    """

    method: str
    network: Network
    find: Callable[[str, str], Path] = field(repr=False, hash=False, compare=False)

    def __call__(self, source: str, destination: str) -> Path:
        """Return the path from a source to a destination, as the ids of its links in order."""
        # Raises TopologyError if a node is unknown.
        self.network.node(source)
        self.network.node(destination)
        if source == destination:
            return ()
        return self.find(source, destination)


def static_routing(network: Network, method: str | None = None) -> StaticRouting:
    """Return a static routing of a network.

    Args:
        network: The network.
        method: Name of the method: table, dimension-order, d-mod-k, shortest-path, balanced, a
            routing relation, or a plug-in. If None, the network's attribute ``routing`` names the
            method; without such an attribute it is shortest-path.

    Raises:
        TopologyError: The method is unknown, or the network lacks the data that it needs.
    """
    if method is None:
        method = "shortest-path"
        named = network.attributes.get("routing")
        if isinstance(named, str) and STATIC_ROUTINGS.find(named) is not None:
            method = named
    build = STATIC_ROUTINGS.find(method)
    if build is None:
        raise TopologyError(f"routing {method!r} is unknown; {STATIC_ROUTINGS.nearest(method)}")
    routing = build(network)
    if isinstance(routing, StaticRouting):
        return routing
    if isinstance(routing, routing_relations.RoutingRelation):
        return StaticRouting(method=method, network=network, find=routing.path)
    # A plug-in may return a plain function of source and destination.
    return StaticRouting(method=method, network=network, find=routing)


def shortest_path_routing(network: Network, without: Collection[LinkId] = ()) -> StaticRouting:
    """Return a routing over paths with the fewest links.

    Of several next nodes that are equally near to the destination, the first one in the order of
    the network is taken; of parallel links, the one with the lowest key. Hosts forward nothing
    unless they have the attribute ``forwarding``. The next node depends on the node and the
    destination alone, so the paths to a destination form a tree. The first path to a destination
    takes O(nodes + links), each further one O(path).

    Args:
        network: The network.
        without: Links that no path takes.
    """
    distances: dict[str, dict[str, int]] = {}
    trees: dict[str, dict[str, Link]] = {}

    def next_link(node: str, destination: str) -> Link:
        distance = distances[destination]
        usable = []
        for i in network.out_links(node):
            link = network.links[i]
            if link.id in without or distance.get(link.target) != distance[node] - 1:
                continue
            if link.target == destination or network.node(link.target).forwards:
                usable.append(link)
        return min(usable, key=lambda link: (network.node_index[link.target], link.key))

    def find(source: str, destination: str) -> Path:
        if destination not in distances:
            distances[destination] = distances_to(network, destination, without)
            trees[destination] = {}
        if source not in distances[destination]:
            raise NoPathError(
                f"no path from {source!r} to {destination!r} in network {network.name!r};"
                " connect them with links"
            )
        tree = trees[destination]
        path: list[LinkId] = []
        node = source
        while node != destination:
            if node not in tree:
                tree[node] = next_link(node, destination)
            path.append(tree[node].id)
            node = tree[node].target
        return tuple(path)

    return StaticRouting(method="shortest-path", network=network, find=find)


def distances_to(
    network: Network, destination: str, without: Collection[LinkId] = ()
) -> dict[str, int]:
    """Return the number of links from each node to the destination.

    The search goes breadth first and against the direction of the links, through nodes that
    forward.

    Args:
        network: The network.
        destination: Id of the destination.
        without: Links that no path takes.

    Returns:
        The distance of each node from which there is a path.
    """
    distance = {destination: 0}
    reached = [destination]
    for node in reached:
        if node != destination and not network.node(node).forwards:
            continue
        for i in network.in_links(node):
            source = network.links[i].source
            if source not in distance and network.links[i].id not in without:
                distance[source] = distance[node] + 1
                reached.append(source)
    return distance


def table_routing(
    network: Network, via: Mapping[str, Mapping[str, str]] | None = None
) -> StaticRouting:
    """Return a routing by table, as Table 2 of Gabrielyan 2007.

    Hosts use the switch that they are on.

    Args:
        network: The network.
        via: ``via[i][j]`` is the switch between the switches i and j. A pair without an entry has a
            direct link. If None, the table is the network's attribute ``routing_table``.

    Raises:
        TopologyError: There is no table, or it names an unknown switch.
    """
    table = network.attributes.get("routing_table") if via is None else via
    if not isinstance(table, Mapping) or not all(
        isinstance(row, Mapping) for row in table.values()
    ):
        raise TopologyError(
            f"network {network.name!r} has no routing_table of the form {{from: {{to: via}}}};"
            " give one"
        )
    for start, row in table.items():
        for end, middle in row.items():
            for switch in (start, end, middle):
                if switch not in network.switch_ids:
                    raise TopologyError(
                        f"routing_table[{start!r}][{end!r}]: {switch!r} is not a switch of"
                        f" {network.name!r}; correct it"
                    )

    def between(first: str, last: str) -> Sequence[str]:
        middle = table.get(first, {}).get(last)
        return (first, last) if middle is None else (first, middle, last)

    return StaticRouting(method="table", network=network, find=_over_switches(network, between))


def dimension_order_routing(network: Network, upwards: Tie | None = None) -> StaticRouting:
    """Return dimension-order routing on a torus, a mesh or a ring.

    A path takes first all steps in dimension 0, then all in dimension 1, and so on. On a torus it
    goes the shorter way round.

    Args:
        network: The network, whose attributes ``shape`` and ``wraps`` are read.
        upwards: Decides the direction if both ways round have the same length. If None, the
            direction is +.

    Raises:
        TopologyError: The attributes are missing.
    """
    shape: Any = network.attributes.get("shape")
    wraps = network.attributes.get("wraps")
    sizes_fit = isinstance(shape, list) and all(
        isinstance(size, int) and size >= 1 for size in shape
    )
    if not sizes_fit or not isinstance(wraps, bool):
        raise TopologyError(
            f"network {network.name!r} is not a torus, mesh or ring; use the routing shortest-path"
        )

    def between(first: str, last: str) -> Sequence[str]:
        position = [*_coordinates(first, len(shape))]
        goal = _coordinates(last, len(shape))
        path = [first]
        for dimension, size in enumerate(shape):
            difference = goal[dimension] - position[dimension]
            if wraps:
                steps_up = difference % size
                is_up = 2 * steps_up <= size
                if upwards is not None and 2 * steps_up == size:
                    is_up = upwards(position, goal, dimension)
                steps = steps_up if is_up else size - steps_up
            else:
                is_up = difference >= 0
                steps = abs(difference)
            step = 1 if is_up else -1
            for _ in range(steps):
                position[dimension] = (position[dimension] + step) % size
                path.append(grid_name("s", position))
        return path

    return StaticRouting(
        method="dimension-order", network=network, find=_over_switches(network, between)
    )


@functools.lru_cache(maxsize=4096)
def _coordinates(switch: str, dimensions: int) -> tuple[int, ...]:
    """Return the coordinates in the id of a switch, such as (3, 0) for s3_0."""
    parts = switch[1:].split("_")
    if len(parts) != dimensions or not all(part.isdigit() for part in parts):
        raise TopologyError(
            f"switch {switch!r} is not a point of a grid of {dimensions} dimensions;"
            " use the routing shortest-path"
        )
    return tuple(map(int, parts))


def balanced_routing(network: Network) -> StaticRouting:
    """Return a routing that loads the most loaded link little if all nodes send to all.

    It is ``balanced_parts`` for messages that are not divided.
    """
    return balanced_parts(network, 1)[0]


def balanced_parts(network: Network, parts: int) -> list[StaticRouting]:
    """Return one routing for each part of a message.

    Together they load the most loaded link little. The traffic is all-to-all, and the parts of a
    message are equal.

    On a torus or a ring, each routing is dimension order, and a rule decides between two ways round
    of the same length. Paths from even positions go up and those from odd positions down; odd parts
    do the opposite. If the number of parts is even, even parts go up and odd parts down instead,
    whatever the position is. The exception are tori whose sizes all are the same power of two, on
    which the positions alone balance the load.

    Other networks use trees (``topologies.routing.balanced_trees``).

    Args:
        network: The network.
        parts: Number of parts of each message.
    """
    shape: Any = network.attributes.get("shape")
    if not network.attributes.get("wraps") or not isinstance(shape, list):
        return _balanced_tree_routings(network, parts)
    ignores_position = parts % 2 == 0 and not equal_powers(shape)

    def upwards(part: int, position: Sequence[int], goal: Sequence[int], dimension: int) -> bool:
        if ignores_position:
            return part % 2 == 0
        parity = part + position[dimension]
        # If the size is not a multiple of 4, the position alone would load the links of the
        # dimension unequally, so the other coordinates of the destination decide too.
        if shape[dimension] % 4:
            parity += sum(goal) - goal[dimension]
        return parity % 2 == 0

    routings = []
    for part in range(parts):
        routing = dimension_order_routing(network, functools.partial(upwards, part))
        routings.append(replace(routing, method="balanced"))
    return routings


def _balanced_tree_routings(network: Network, parts: int) -> list[StaticRouting]:
    host_trees = BalancedTrees(network, parts, "host")
    switch_trees = BalancedTrees(network, parts, "switch")

    def find(part: int, source: str, destination: str) -> Path:
        if network.node(destination).kind == "host":
            return host_trees.path(source, destination, part)
        return switch_trees.path(source, destination, part)

    return [
        StaticRouting(method="balanced", network=network, find=functools.partial(find, part))
        for part in range(parts)
    ]


def equal_powers(shape: Sequence[int]) -> bool:
    """Return whether all sizes are the same power of two, 4 or more."""
    return len(set(shape)) == 1 and shape[0] >= 4 and shape[0] & (shape[0] - 1) == 0


def d_mod_k_routing(network: Network) -> StaticRouting:
    """Return d-mod-k routing on a fat tree.

    A path to host d goes up to the nearest level that also leads down to d, and then down. At
    level l it goes up by the port whose number is digit l of d, so that all paths to one host share
    one switch of each level. The digits are to the base k on ``fat-tree:k,n``, and to the base k/2
    on ``clos:k``. Paths between switches, and from a host to a switch, are shortest paths.

    Raises:
        TopologyError: The network is no fat tree of the catalogue.
    """
    family = network.attributes.get("family")
    k = network.attributes.get("k")
    if family not in ("fat-tree", "clos") or not isinstance(k, int) or k < 2:
        raise TopologyError(
            f"network {network.name!r} is not a fat tree; use the routing shortest-path"
        )
    hosts_per_switch = k if family == "fat-tree" else k // 2
    positions_between = _positions_in_tree if family == "fat-tree" else _positions_in_clos
    shortest = shortest_path_routing(network)
    links = _links_with_lowest_keys(network)

    def find(source: str, destination: str) -> Path:
        goal = network.node(destination)
        start = network.node(source)
        if goal.kind != "host":
            return shortest.find(source, destination)
        index = _attribute(start, "index")
        if start.kind == "host":
            nodes = [source]
            level = 0
            index //= hosts_per_switch
        else:
            nodes = []
            level = _attribute(start, "level")
        for position in positions_between(level, index, _attribute(goal, "index"), k):
            nodes.append(switch_name(*position))
        return _links_along(network, links, [*nodes, destination])

    return StaticRouting(method="d-mod-k", network=network, find=find)


def _positions_in_tree(level: int, index: int, host: int, k: int) -> list[tuple[int, int]]:
    """Return the switches on the path to a host in the k-ary n-tree.

    Args:
        level: Level of the first switch.
        index: Index of the first switch in its level.
        host: Index of the host.
        k: Number of ports down.

    Returns:
        The level and the index of each switch, from the first one to the host's own.
    """
    leaf = host // k
    positions = [(level, index)]
    while index // k**level != leaf // k**level:
        index = with_digit(index, level, host // k**level % k, k)
        level += 1
        positions.append((level, index))
    while level:
        level -= 1
        index = with_digit(index, level, leaf // k**level % k, k)
        positions.append((level, index))
    return positions


def _positions_in_clos(level: int, index: int, host: int, k: int) -> list[tuple[int, int]]:
    """Return the switches on the path to a host in the three-level tree of k-port switches.

    The arguments and the result are those of ``_positions_in_tree``.
    """
    half = k // 2
    leaf = host // half
    pod = host // half**2
    positions = [(level, index)]
    if level == 0 and index != leaf:
        level = 1
        index = index // half * half + host % half
        positions.append((level, index))
    if level == 1 and index // half != pod:
        level = 2
        index = index % half * half + host // half % half
        positions.append((level, index))
    if level == 2:
        level = 1
        index = pod * half + index // half
        positions.append((level, index))
    if level == 1:
        positions.append((0, leaf))
    return positions


def _attribute(node: Node, name: str) -> int:
    value = node.attributes.get(name)
    if not isinstance(value, int):
        raise TopologyError(
            f"node {node.id!r} has no whole-number attribute {name!r}; d-mod-k needs it"
        )
    return value


def _over_switches(
    network: Network, between: Callable[[str, str], Sequence[str]]
) -> Callable[[str, str], Path]:
    """Return a search that leads over the switch of the source and the switch of the destination.

    Args:
        network: A network whose hosts are on one switch each.
        between: Returns the switches from one switch to another, both included.
    """
    links = _links_with_lowest_keys(network)

    def find(source: str, destination: str) -> Path:
        nodes: list[str] = []
        if network.node(source).kind == "host":
            nodes.append(source)
        first = _switch_of(network, source, outwards=True)
        last = _switch_of(network, destination, outwards=False)
        if first == last:
            nodes.append(first)
        else:
            nodes += between(first, last)
        if network.node(destination).kind == "host":
            nodes.append(destination)
        return _links_along(network, links, nodes)

    return find


def _switch_of(network: Network, node_id: str, *, outwards: bool) -> str:
    """Return the one neighbour of a host; a switch is returned itself.

    Args:
        network: The network.
        node_id: Id of the host or switch.
        outwards: Whether the links out of the host count, or those into it.

    Raises:
        NoPathError: The host has no neighbour, or several.
    """
    if network.node(node_id).kind == "switch":
        return node_id
    if outwards:
        neighbours = {network.links[i].target for i in network.out_links(node_id)}
    else:
        neighbours = {network.links[i].source for i in network.in_links(node_id)}
    if len(neighbours) != 1:
        direction = "out of" if outwards else "into"
        raise NoPathError(
            f"host {node_id!r} has {len(neighbours)} neighbours on links {direction} it in network"
            f" {network.name!r}; it needs one"
        )
    return neighbours.pop()


def _links_along(
    network: Network, links: Mapping[tuple[str, str], LinkId], nodes: Sequence[str]
) -> Path:
    """Return the links between consecutive nodes.

    Args:
        network: The network, for messages.
        links: The link to use between each source and target.
        nodes: The nodes of the path.

    Raises:
        NoPathError: There is no link between two consecutive nodes.
    """
    try:
        return tuple([links[pair] for pair in itertools.pairwise(nodes)])
    except KeyError as error:
        source, target = error.args[0]
        raise NoPathError(
            f"no path from {nodes[0]!r} to {nodes[-1]!r} in network {network.name!r}: "
            f"its routing takes the link {label_of((source, target, 0))}, which does not exist"
        ) from error


def _links_with_lowest_keys(network: Network) -> dict[tuple[str, str], LinkId]:
    """Return, for each source and target, the link with the lowest key between them."""
    links: dict[tuple[str, str], LinkId] = {}
    for link in network.links:
        previous = links.get((link.source, link.target))
        if previous is None or link.key < previous[2]:
            links[link.source, link.target] = link.id
    return links


def find_relation(network: Network, method: str) -> routing_relations.RoutingRelation | None:
    """Return the routing relation of a method on a network.

    Returns:
        None if the method has one path for each pair of nodes, or is unknown.

    Raises:
        TopologyError: The method does not fit the network.
    """
    build = STATIC_ROUTINGS.find(method)
    if build is None:
        return None
    routing = build(network)
    if not isinstance(routing, routing_relations.RoutingRelation):
        return None
    return routing


Builder = Callable[
    [Network], StaticRouting | routing_relations.RoutingRelation | Callable[[str, str], Path]
]
# The builder of each routing method. It takes the network, and raises TopologyError if the network
# lacks the data that the method needs.
STATIC_ROUTINGS: Registry[Builder] = Registry(
    "testbed.interconnect_routings", "static routing", function_check("a network")
)
_BUILTIN_ROUTINGS: dict[str, Builder] = {
    "table": table_routing,
    "dimension-order": dimension_order_routing,
    "d-mod-k": d_mod_k_routing,
    "shortest-path": shortest_path_routing,
    "balanced": balanced_routing,
    "minimal-adaptive": routing_relations.minimal_adaptive,
    "up-down": routing_relations.up_down,
    "odd-even": routing_relations.odd_even,
    "dateline": routing_relations.dateline,
    "distance-classes": routing_relations.distance_classes,
    "valiant": functools.partial(routing_relations.detouring, detour="valiant"),
    "ugal": functools.partial(routing_relations.detouring, detour="ugal"),
}
for _name, _builder in _BUILTIN_ROUTINGS.items():
    STATIC_ROUTINGS.register(_name, _builder)
