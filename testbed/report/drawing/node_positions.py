"""Where the nodes of a whole network go in a drawing, in units of their own with y upwards; pure and deterministic.

Positions that nodes have, rows for fat trees, a projected grid for tori, a circle for rings, else by path lengths.
"""

import math
from collections.abc import Mapping, Sequence

from topologies import Network, lists_by_key

Point = tuple[float, float]
MAX_BY_PATH_LENGTHS = 250
"""Above so many nodes springs take the place of Kamada-Kawai, which is cubic."""
MAX_ON_CIRCLE = 12


def place_network(network: Network, ends: tuple[str, str] | None = None) -> dict[str, Point]:
    """Node id -> (x, y) for every node; hosts without a position of their own fan out from their switch.

    ``ends``: source and sink of what is to be shown. Where neither positions nor a shape say which way is up, the
    drawing is turned so that the sink lies to the right of the source, at its height.

    >>> from topologies import load_network
    >>> sorted(place_network(load_network("ring:3"))) == ["h0", "h1", "h2", "s0", "s1", "s2"]
    True
    """
    levels = {n.id: n.attributes.get("level") for n in network.switches}
    if levels and all(isinstance(level, int) for level in levels.values()):
        return _in_rows(network)
    given = {n.id: n.position for n in network.nodes if n.position is not None}
    places = given or _on_grid(network) or _turned(_by_shape(network), network, ends)
    _fan_out(network, places)
    return places


def _turned(
    places: dict[str, Point], network: Network, ends: tuple[str, str] | None
) -> dict[str, Point]:
    """Turned about the origin so that the second end (or its switch) lies straight to the right of the first."""
    switch_of = {k.source: k.target for k in network.links} | {
        k.target: k.source for k in network.links
    }
    at = [places.get(end, places.get(switch_of.get(end, ""))) for end in ends or ()]
    if len(at) < 2 or at[0] is None or at[1] is None:
        return places
    angle = -math.atan2(at[1][1] - at[0][1], at[1][0] - at[0][0])
    c, s = math.cos(angle), math.sin(angle)
    return {node: (x * c - y * s, x * s + y * c) for node, (x, y) in places.items()}


def _in_rows(network: Network) -> dict[str, Point]:
    """Fat trees: hosts below, one row a level, each row as wide as the hosts', indices from left to right."""
    rows = lists_by_key(
        (int(node.attributes["level"]) if node.kind == "switch" else -1, node.id)
        for node in network.nodes
    )
    width = max(len(row) for row in rows.values())
    height = max(1.0, width / 2.0 / max(1, len(rows) - 1))
    return {
        node: ((i + 0.5) * width / len(row), level * height * (0.45 if level < 0 else 1.0))
        for level, row in rows.items()
        for i, node in enumerate(row)
    }


def _on_grid(network: Network) -> dict[str, Point]:
    """Switches with ``coordinates``: a circle for one dimension, else a grid; a third one and on shift it aslant."""
    points = {n.id: n.attributes.get("coordinates") for n in network.switches}
    shape = network.attributes.get("shape")
    if (
        not points
        or not isinstance(shape, list)
        or not all(isinstance(p, list) and p for p in points.values())
    ):
        return {}
    if len(shape) == 1 and network.attributes.get("wraps"):
        return _circle(list(points))
    places: dict[str, Point] = {}
    for node, point in points.items():
        x, y = 0.0, 0.0
        stride_x, stride_y = 1.0, 1.0
        for dimension, at in enumerate(point or ()):
            if dimension % 2 == 0:
                x, y = x + at * stride_x, y + at * stride_x * (0.35 if dimension else 0.0)
                stride_x *= 0.38 if dimension == 0 else shape[dimension] * 0.5
            else:
                y -= at * stride_y
                stride_y *= (shape[dimension] + 1.5) if dimension == 1 else shape[dimension]
        places[node] = (x, y)
    return places


def _by_shape(network: Network) -> dict[str, Point]:
    """No positions at all: a circle where few switches are all joined, else by path lengths, part beside part."""
    import networkx as nx  # takes long to import; most networks say where their nodes are

    core = [n.id for n in network.switches] or [n.id for n in network.nodes]
    graph = nx.Graph()
    graph.add_nodes_from(core)
    inside = set(core)
    graph.add_edges_from(
        (k.source, k.target) for k in network.links if k.source in inside and k.target in inside
    )
    if (
        len(core) <= MAX_ON_CIRCLE
        and 2 * graph.number_of_edges() > len(core) * (len(core) - 1) * 0.7
    ):
        return _circle(core)
    places: dict[str, Point] = {}
    offset = 0.0
    for part in sorted(
        nx.connected_components(graph), key=lambda c: (-len(c), core.index(min(c, key=core.index)))
    ):
        members = [node for node in core if node in part]
        piece = nx.Graph()
        piece.add_nodes_from(members)
        piece.add_edges_from((a, b) for a, b in graph.edges if a in part)
        if len(members) > MAX_BY_PATH_LENGTHS:
            raw = nx.spring_layout(piece, seed=1, iterations=60)
        else:
            raw = nx.kamada_kawai_layout(piece)
        scale = math.sqrt(len(members))
        left = min(float(p[0]) for p in raw.values()) * scale
        for node, p in raw.items():
            places[node] = (float(p[0]) * scale - left + offset, float(p[1]) * scale)
        offset = max(x for x, _ in places.values()) + 1.0
    return places


def _circle(nodes: Sequence[str]) -> dict[str, Point]:
    radius = max(1.0, len(nodes) / 2 / math.pi) if len(nodes) > 1 else 0.0
    angles = (math.pi / 2 - 2 * math.pi * i / len(nodes) for i in range(len(nodes)))
    return {
        n: (radius * math.cos(a), radius * math.sin(a)) for n, a in zip(nodes, angles, strict=True)
    }


def _fan_out(network: Network, places: dict[str, Point]) -> None:
    """Place the nodes that have no place around a neighbour that has one, in its widest free angle, ring by ring."""
    neighbours: dict[str, dict[str, None]] = {n.id: {} for n in network.nodes}
    for link in network.links:
        neighbours[link.source][link.target] = None
        neighbours[link.target][link.source] = None
    reach = (0.46 if network.attributes.get("shape") is None else 0.38) * _usual_distance(places)
    while True:
        children: dict[str, list[str]] = {}
        for node in network.nodes:
            parent = next((n for n in neighbours[node.id] if n in places), None)
            if node.id not in places and parent is not None:
                children.setdefault(parent, []).append(node.id)
        if not children:
            break
        fresh: dict[str, Point] = {}
        for parent, fan in children.items():
            angles = [
                _angle(places[parent], places[n])
                for n in neighbours[parent]
                if n in places and n != parent
            ]
            fresh |= _fan(places[parent], angles, fan, reach)
        places |= fresh
        reach *= 0.8
    lonely = [n.id for n in network.nodes if n.id not in places]
    bottom = min((y for _, y in places.values()), default=0.0) - 3 * reach
    left = min((x for x, _ in places.values()), default=0.0)
    places |= {node: (left + 2 * reach * i, bottom) for i, node in enumerate(lonely)}


def _fan(
    centre: Point, taken: Sequence[float], fan: Sequence[str], reach: float
) -> dict[str, Point]:
    """The fan's nodes in the widest angle between the taken ones, farther out the more there are."""
    around = sorted(taken)
    gaps = (
        [(b - a, a) for a, b in zip(around, [*around[1:], around[0] + 2 * math.pi], strict=True)]
        if around
        else []
    )
    width, start = (
        max(gaps, key=lambda g: (round(g[0], 6), -g[1])) if gaps else (2 * math.pi, math.pi / 2)
    )
    used = min(width, math.radians(205), math.radians(26) * (len(fan) + 1)) if taken else width
    first = start + (width - used) / 2
    steps = len(fan) + 1 if taken else len(fan)
    far = reach * max(1.0, len(fan) * 0.24 / used * 1.7)
    return {
        node: (centre[0] + far * math.cos(a), centre[1] + far * math.sin(a))
        for i, node in enumerate(fan)
        for a in [first + used * (i + 1) / steps]
    }


def _angle(a: Point, b: Point) -> float:
    return math.atan2(b[1] - a[1], b[0] - a[0]) % (2 * math.pi)


def _usual_distance(places: Mapping[str, Point]) -> float:
    """The median distance from a node to its nearest other; 1 where there is one node."""
    nearest = _nearest_distances(list(places.values()))
    return nearest[len(nearest) // 2] if nearest else 1.0


def close_distance(points: Sequence[Point]) -> float:
    """The distance to the nearest other point that nine points in ten exceed; infinite for fewer than two points."""
    nearest = _nearest_distances(points)
    return nearest[len(nearest) // 10] if nearest else math.inf


def _nearest_distances(points: Sequence[Point]) -> list[float]:
    """Ascending distances from each point to its nearest other one."""
    import numpy as np

    apart = np.array(sorted(set(points)))
    if len(apart) < 2:
        return []
    return sorted(float(np.partition(np.hypot(*(apart - point).T), 1)[1]) for point in apart)
