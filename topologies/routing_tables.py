"""Static single-path routing: one path for each (source, destination), by table, dimension order, d-mod-k or distance.

``static_routing(network)`` takes the one that the network names; all are deterministic.
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
from topologies.network import Link, LinkId, Network, label_of
from topologies.registry import Registry, function_check
from topologies.routing.balanced_trees import BalancedTrees

Path = tuple[LinkId, ...]
Tie = Callable[[Sequence[int], Sequence[int], int], bool]


@dataclass(frozen=True, kw_only=True)
class StaticRouting:
    """A routing of one network: call it with source and destination for the path, the ids of its links in order.

    The path of a node to itself is empty. Raises TopologyError for an unknown node, NoPathError where none leads.

    >>> from topologies import load_network
    >>> [f"{s}->{t}" for s, t, _ in static_routing(load_network("swiss-t1"))("t0", "r8")]
    ['t0->s1', 's1->s2', 's2->s3', 's3->r8']
    """

    method: str
    network: Network
    find: Callable[[str, str], Path] = field(repr=False, hash=False, compare=False)

    def __call__(self, source: str, destination: str) -> Path:
        for end in (source, destination):
            self.network.node(end)
        return () if source == destination else self.find(source, destination)


def static_routing(network: Network, method: str | None = None) -> StaticRouting:
    """The routing of that method, or the network's own (its attribute ``routing``; shortest paths where it names none).

    Methods: table, dimension-order, d-mod-k, shortest-path, balanced, and relations. Raises TopologyError for another,
    or one that the network has no data for.
    """
    if method is None:
        named = network.attributes.get("routing")
        method = (
            named
            if isinstance(named, str) and STATIC_ROUTINGS.find(named) is not None
            else "shortest-path"
        )
    build = STATIC_ROUTINGS.find(method)
    if build is None:
        raise TopologyError(f"routing {method!r} is unknown; {STATIC_ROUTINGS.nearest(method)}")
    found = build(network)  # plug-ins may give a plain function of source and destination
    if isinstance(found, StaticRouting):
        return found
    find = found.path if isinstance(found, routing_relations.RoutingRelation) else found
    return StaticRouting(method=method, network=network, find=find)


def shortest_path_routing(network: Network, without: Collection[LinkId] = ()) -> StaticRouting:
    """Fewest links; of equals, at every node the next node that comes first in the network's order, then the lowest
    key.

    Hosts forward nothing unless they are ``forwarding``. The next node depends on node and destination alone, so the
    paths to a destination form a tree. O(nodes + links) for the first path to a destination, O(path) after it. No path
    takes a link of ``without``.
    """
    distances: dict[str, dict[str, int]] = {}
    trees: dict[str, dict[str, Link]] = {}

    def find(source: str, destination: str) -> Path:
        if destination not in distances:
            distances[destination], trees[destination] = (
                distances_to(network, destination, without),
                {},
            )
        left, tree = distances[destination], trees[destination]
        if source not in left:
            raise NoPathError(
                f"no path from {source!r} to {destination!r} in network {network.name!r}; join them by links"
            )
        path: list[LinkId] = []
        at = source
        while at != destination:
            if at not in tree:
                onward = (
                    link
                    for i in network.out_links(at)
                    if (link := network.links[i]).id not in without
                )
                closer = (link for link in onward if left.get(link.target) == left[at] - 1)
                usable = (
                    link
                    for link in closer
                    if link.target == destination or network.node(link.target).forwards
                )
                tree[at] = min(usable, key=lambda link: (network.node_index[link.target], link.key))
            path.append(tree[at].id)
            at = tree[at].target
        return tuple(path)

    return StaticRouting(method="shortest-path", network=network, find=find)


def distances_to(
    network: Network, destination: str, without: Collection[LinkId] = ()
) -> dict[str, int]:
    """Links to the destination from every node that reaches it over nodes that forward; breadth first, backwards."""
    distance, reached = {destination: 0}, [destination]
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
    """By table (Gabrielyan 2007, Table 2): from switch i to switch j through ``via[i][j]``, or directly where there is
    no entry.

    Without ``via``, the network's attribute ``routing_table``. Hosts use the switch that they are on. Raises
    TopologyError for a table that names an unknown switch.
    """
    table = network.attributes.get("routing_table") if via is None else via
    if not isinstance(table, Mapping) or not all(
        isinstance(row, Mapping) for row in table.values()
    ):
        raise TopologyError(
            f"network {network.name!r} has no routing_table of the form {{from: {{to: via}}}}; give one"
        )
    for start, row in table.items():
        for end, middle in row.items():
            for switch in (start, end, middle):
                if switch not in network.switch_ids:
                    raise TopologyError(
                        f"routing_table[{start!r}][{end!r}]: {switch!r} is no switch of {network.name!r}; correct it"
                    )

    def between(first: str, last: str) -> Sequence[str]:
        middle = table.get(first, {}).get(last)
        return (first, last) if middle is None else (first, middle, last)

    return StaticRouting(method="table", network=network, find=_over_switches(network, between))


def dimension_order_routing(network: Network, upwards: Tie | None = None) -> StaticRouting:
    """On tori, meshes and rings: first all steps of dimension 0, then of 1, ...; the shorter way round, ties to +, or
    where ``upwards`` says so of place, goal and dimension.

    Reads the network's attributes ``shape`` and ``wraps``. Raises TopologyError where they are missing.
    """
    shape: Any = network.attributes.get("shape")
    wraps = network.attributes.get("wraps")
    sizes_fit = isinstance(shape, list) and all(
        isinstance(size, int) and size >= 1 for size in shape
    )
    if not sizes_fit or not isinstance(wraps, bool):
        raise TopologyError(
            f"network {network.name!r} is no torus, mesh or ring; route it by shortest-path"
        )

    def between(first: str, last: str) -> Sequence[str]:
        at, goal = [*_coordinates(first, len(shape))], _coordinates(last, len(shape))
        walked = [first]
        for dimension, size in enumerate(shape):
            ahead = (goal[dimension] - at[dimension]) % size
            forward = 2 * ahead <= size if wraps else goal[dimension] >= at[dimension]
            if upwards is not None and 2 * ahead == size:
                forward = upwards(at, goal, dimension)
            steps = (
                abs(goal[dimension] - at[dimension])
                if not wraps
                else ahead
                if forward
                else size - ahead
            )
            for _ in range(steps):
                at[dimension] = (at[dimension] + (1 if forward else -1)) % size
                walked.append(grid_name("s", at))
        return walked

    return StaticRouting(
        method="dimension-order", network=network, find=_over_switches(network, between)
    )


@functools.lru_cache(maxsize=4096)
def _coordinates(switch: str, dimensions: int) -> tuple[int, ...]:
    parts = switch[1:].split("_")
    if len(parts) != dimensions or not all(part.isdigit() for part in parts):
        raise TopologyError(
            f"switch {switch!r} is no point of a grid of {dimensions} dimensions; route by shortest-path"
        )
    return tuple(map(int, parts))


def balanced_routing(network: Network) -> StaticRouting:
    """Paths that load the fullest link little where all send to all: ``balanced_parts`` of whole messages."""
    return balanced_parts(network, 1)[0]


def balanced_parts(network: Network, parts: int) -> list[StaticRouting]:
    """A routing for each of the equal parts of a message, which together load the fullest link little.

    On tori and rings dimension order: ties go up from even places and down from odd ones, the other way in odd parts.
    An even number of parts goes each way in turn, unless the sides are equal powers of two, where places balance alone.
    Elsewhere trees (``topologies.routing.balanced_trees``).
    """
    shape: Any = network.attributes.get("shape")
    if not network.attributes.get("wraps") or not isinstance(shape, list):
        trees = {kind: BalancedTrees(network, parts, kind) for kind in ("host", "switch")}
        return [
            StaticRouting(
                method="balanced",
                network=network,
                find=lambda a, b, part=part: trees[network.node(b).kind].path(a, b, part),  # type: ignore[misc]
            )
            for part in range(parts)
        ]
    in_turn = parts % 2 == 0 and not equal_powers(shape)

    def upwards(part: int, at: Sequence[int], goal: Sequence[int], dimension: int) -> bool:
        others = sum(goal) - goal[dimension] if shape[dimension] % 4 else 0
        return (part + (0 if in_turn else at[dimension] + others)) % 2 == 0

    return [
        replace(
            dimension_order_routing(network, functools.partial(upwards, part)), method="balanced"
        )
        for part in range(parts)
    ]


def equal_powers(shape: Sequence[int]) -> bool:
    """Whether all sides are the same power of two, 4 or more."""
    return len(set(shape)) == 1 and shape[0] >= 4 and shape[0] & (shape[0] - 1) == 0


def d_mod_k_routing(network: Network) -> StaticRouting:
    """On fat trees: up to the nearest level that holds host d too, by the port that is digit l of d at level l; then
    down.

    So all paths to one host share one switch of each level. Digits are to the base k on ``fat-tree:k,n``, k/2 on
    ``clos:k``. Between switches, and up to one, the path is the shortest. Raises TopologyError for another network.
    """
    family, k = network.attributes.get("family"), network.attributes.get("k")
    if family not in ("fat-tree", "clos") or not isinstance(k, int) or k < 2:
        raise TopologyError(f"network {network.name!r} is no fat tree; route it by shortest-path")
    climb = _climb_tree if family == "fat-tree" else _climb_clos
    shortest, joins = shortest_path_routing(network), _lowest_keys(network)

    def find(source: str, destination: str) -> Path:
        goal, start = network.node(destination), network.node(source)
        if goal.kind != "host":
            return shortest.find(source, destination)
        on_host = start.kind == "host"
        radix = k if family == "fat-tree" else k // 2
        index = _attribute(start, "index")
        level, index = (0, index // radix) if on_host else (_attribute(start, "level"), index)
        walked = [source] if on_host else []
        walked += [
            switch_name(*place) for place in climb(level, index, _attribute(goal, "index"), k)
        ]
        return _links_along(network, joins, [*walked, destination])

    return StaticRouting(method="d-mod-k", network=network, find=find)


def _climb_tree(level: int, index: int, host: int, k: int) -> list[tuple[int, int]]:
    """Places (level, index) from a switch of the k-ary n-tree to the host's own, both included."""
    leaf = host // k
    places = [(level, index)]
    while index // k**level != leaf // k**level:
        index = with_digit(index, level, host // k**level % k, k)
        level += 1
        places.append((level, index))
    while level:
        level -= 1
        index = with_digit(index, level, leaf // k**level % k, k)
        places.append((level, index))
    return places


def _climb_clos(level: int, index: int, host: int, k: int) -> list[tuple[int, int]]:
    """Places (level, index) from a switch of the three-level tree to the host's own, both included."""
    half = k // 2
    leaf, pod = host // half, host // half**2
    places = [(level, index)]
    if level == 0 and index != leaf:
        level, index = 1, index // half * half + host % half
        places.append((level, index))
    if level == 1 and index // half != pod:
        level, index = 2, index % half * half + host // half % half
        places.append((level, index))
    if level == 2:
        level, index = 1, pod * half + index // half
        places.append((level, index))
    if level == 1:
        places.append((0, leaf))
    return places


def _attribute(node: Any, name: str) -> int:
    value = node.attributes.get(name)
    if not isinstance(value, int):
        raise TopologyError(
            f"node {node.id!r} has no whole-number attribute {name!r}; d-mod-k needs it"
        )
    return value


def _over_switches(
    network: Network, between: Callable[[str, str], Sequence[str]]
) -> Callable[[str, str], Path]:
    """A search that takes each end's switch and the switches between the two; hosts are attached to one switch each
    way."""
    joins = _lowest_keys(network)

    def find(source: str, destination: str) -> Path:
        walked: list[str] = [source] if network.node(source).kind == "host" else []
        first = _switch_of(network, source, outwards=True)
        last = _switch_of(network, destination, outwards=False)
        walked += between(first, last) if first != last else (first,)
        if network.node(destination).kind == "host":
            walked.append(destination)
        return _links_along(network, joins, walked)

    return find


def _switch_of(network: Network, node_id: str, *, outwards: bool) -> str:
    if network.node(node_id).kind == "switch":
        return node_id
    links = [
        network.links[i]
        for i in (network.out_links(node_id) if outwards else network.in_links(node_id))
    ]
    ends = {link.target if outwards else link.source for link in links}
    if len(ends) != 1:
        way = "out of" if outwards else "into"
        raise NoPathError(
            f"host {node_id!r} has {len(ends)} neighbours on links {way} it in network {network.name!r}; it needs one"
        )
    return ends.pop()


def _links_along(
    network: Network, joins: Mapping[tuple[str, str], LinkId], nodes: Sequence[str]
) -> Path:
    """The links between each node and the next; NoPathError where there is none."""
    try:
        return tuple([joins[pair] for pair in itertools.pairwise(nodes)])
    except KeyError as error:
        source, target = error.args[0]
        raise NoPathError(
            f"no path from {nodes[0]!r} to {nodes[-1]!r} in network {network.name!r}: "
            f"its routing takes the link {label_of((source, target, 0))}, which is not there"
        ) from error


def _lowest_keys(network: Network) -> dict[tuple[str, str], LinkId]:
    """(source, target) -> the lowest-keyed link between the two."""
    joins: dict[tuple[str, str], LinkId] = {}
    for link in network.links:
        known = joins.get((link.source, link.target))
        if known is None or link.key < known[2]:
            joins[link.source, link.target] = link.id
    return joins


def find_relation(network: Network, method: str) -> routing_relations.RoutingRelation | None:
    """The relation that this method is on the network; None where it has one path a pair. TopologyError where it does
    not fit."""
    build = STATIC_ROUTINGS.find(method)
    found = None if build is None else build(network)
    return found if isinstance(found, routing_relations.RoutingRelation) else None


Builder = Callable[
    [Network], StaticRouting | routing_relations.RoutingRelation | Callable[[str, str], Path]
]
STATIC_ROUTINGS: Registry[Builder] = Registry(
    "testbed.interconnect_routings", "static routing", function_check("a network")
)
"""Routing method -> its builder, which takes the network; raises TopologyError for a network that it has no data
for."""
_OURS: dict[str, Builder] = {
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
for _name, _builder in _OURS.items():
    STATIC_ROUTINGS.register(_name, _builder)
