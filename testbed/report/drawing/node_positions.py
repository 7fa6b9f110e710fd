"""Positions of all nodes of a network in a drawing, in arbitrary units with y upwards.

Positions that the network contains are used. Otherwise, fat trees are drawn in rows, tori as a
projected grid, rings and small dense networks on a circle, and other networks by path lengths. The
same network always gets the same positions.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from topologies import Network, lists_by_key

if TYPE_CHECKING:
    from networkx import Graph

Point = tuple[float, float]
# Largest number of nodes whose positions follow from path lengths (Kamada-Kawai, which takes cubic
# time). Larger networks are laid out by forces between nodes.
MAX_BY_PATH_LENGTHS = 250
# Largest number of densely connected nodes that are placed on a circle.
MAX_ON_CIRCLE = 12


def place_network(network: Network, ends: tuple[str, str] | None = None) -> dict[str, Point]:
    """Return the position (x, y) of every node by node id.

    Hosts without a position are placed around their switch. If neither positions nor a shape
    determine which side is up, the drawing is turned until the sink is to the right of the source,
    at its height.

    Args:
        network: The network.
        ends: Source and sink of the stream that is shown.

    >>> from topologies import load_network
    >>> sorted(place_network(load_network("ring:3"))) == ["h0", "h1", "h2", "s0", "s1", "s2"]
    True
    """
    levels = [node.attributes.get("level") for node in network.switches]
    if levels and all(isinstance(level, int) for level in levels):
        return _in_rows(network)
    positions = {node.id: node.position for node in network.nodes if node.position is not None}
    if not positions:
        positions = _on_grid(network)
    if not positions:
        positions = _turned(_by_shape(network), network, ends)
    _fan_out(network, positions)
    return positions


def _turned(
    positions: dict[str, Point], network: Network, ends: tuple[str, str] | None
) -> dict[str, Point]:
    """Turn the positions about the origin so that the second end is to the right of the first.

    A host that has no position yet is represented by its switch.
    """
    if ends is None:
        return positions
    neighbour_of: dict[str, str] = {}
    for link in network.links:
        neighbour_of[link.source] = link.target
    for link in network.links:
        neighbour_of[link.target] = link.source

    def position_of(end: str) -> Point | None:
        return positions.get(end, positions.get(neighbour_of.get(end, "")))

    source = position_of(ends[0])
    sink = position_of(ends[1])
    if source is None or sink is None:
        return positions
    angle = -math.atan2(sink[1] - source[1], sink[0] - source[0])
    cos = math.cos(angle)
    sin = math.sin(angle)
    turned = {}
    for node, (x, y) in positions.items():
        turned[node] = (x * cos - y * sin, x * sin + y * cos)
    return turned


def _in_rows(network: Network) -> dict[str, Point]:
    """Return the positions in a fat tree: a row for each level above the row of hosts.

    Every row is as wide as the widest, and indices increase from left to right.
    """
    host_level = -1
    levels = []
    for node in network.nodes:
        level = int(node.attributes["level"]) if node.kind == "switch" else host_level
        levels.append((level, node.id))
    rows = lists_by_key(levels)
    width = max(len(row) for row in rows.values())
    height = max(1.0, width / 2.0 / max(1, len(rows) - 1))
    positions = {}
    for level, row in rows.items():
        # Hosts are closer to their switches than levels of switches to each other.
        y = level * height * (0.45 if level == host_level else 1.0)
        for index, name in enumerate(row):
            positions[name] = ((index + 0.5) * width / len(row), y)
    return positions


def _on_grid(network: Network) -> dict[str, Point]:
    """Return the positions of switches with ``coordinates``, or nothing if they have none.

    A ring becomes a circle and two dimensions a grid. Each further dimension shifts the grid: odd
    ones to the right and upwards, even ones downwards.
    """
    points = {node.id: node.attributes.get("coordinates") for node in network.switches}
    shape = network.attributes.get("shape")
    if not points or not isinstance(shape, list):
        return {}
    if not all(isinstance(point, list) and point for point in points.values()):
        return {}
    if len(shape) == 1 and network.attributes.get("wraps"):
        return _circle(list(points))
    positions: dict[str, Point] = {}
    for node, point in points.items():
        positions[node] = _grid_position(point or (), shape)
    return positions


def _grid_position(point: Sequence[float], shape: Sequence[float]) -> Point:
    x = 0.0
    y = 0.0
    stride_x = 1.0
    stride_y = 1.0
    for dimension, coordinate in enumerate(point):
        if dimension == 0:
            x += coordinate
            stride_x = 0.38
        elif dimension % 2 == 0:
            x += coordinate * stride_x
            y += coordinate * stride_x * 0.35
            stride_x *= shape[dimension] * 0.5
        else:
            y -= coordinate * stride_y
            # The gap between copies of the grid is 1.5.
            stride_y *= shape[dimension] + 1.5 if dimension == 1 else shape[dimension]
    return (x, y)


def _by_shape(network: Network) -> dict[str, Point]:
    """Return positions that follow from the links of a network alone.

    They are the positions of its switches, or of all nodes if it has no switches. A few densely
    connected nodes are placed on a circle. Otherwise each connected component is laid out by path
    lengths, one to the right of the other.
    """
    # networkx takes long to import, and most networks have positions.
    import networkx as nx

    core = [node.id for node in network.switches] or [node.id for node in network.nodes]
    inside = set(core)
    graph = nx.Graph()
    graph.add_nodes_from(core)
    for link in network.links:
        if link.source in inside and link.target in inside:
            graph.add_edge(link.source, link.target)
    pairs = len(core) * (len(core) - 1)
    dense = 2 * graph.number_of_edges() > pairs * 0.7
    if dense and len(core) <= MAX_ON_CIRCLE:
        return _circle(core)

    components = []
    for component in nx.connected_components(graph):
        components.append([node for node in core if node in component])
    # The largest first; components of equal size in the order of their first nodes.
    components.sort(key=lambda members: (-len(members), core.index(members[0])))
    positions: dict[str, Point] = {}
    left_edge = 0.0
    for members in components:
        for node, (x, y) in _component_layout(graph, members).items():
            positions[node] = (x + left_edge, y)
        left_edge = max(x for x, _ in positions.values()) + 1.0
    return positions


def _component_layout(graph: "Graph[str]", members: Sequence[str]) -> dict[str, Point]:
    """Return the layout of a connected component, whose leftmost node has x = 0."""
    import networkx as nx

    member_set = set(members)
    # Nodes are added in a fixed order, because the layouts depend on it.
    component = nx.Graph()
    component.add_nodes_from(members)
    component.add_edges_from((a, b) for a, b in graph.edges if a in member_set)
    if len(members) > MAX_BY_PATH_LENGTHS:
        layout = nx.spring_layout(component, seed=1, iterations=60)
    else:
        layout = nx.kamada_kawai_layout(component)
    # The layouts have unit size. Larger components get more room.
    scale = math.sqrt(len(members))
    left = min(float(point[0]) for point in layout.values()) * scale
    positions = {}
    for node, point in layout.items():
        positions[node] = (float(point[0]) * scale - left, float(point[1]) * scale)
    return positions


def _circle(nodes: Sequence[str]) -> dict[str, Point]:
    """Return positions on a circle about the origin, clockwise from the top."""
    radius = max(1.0, len(nodes) / 2 / math.pi) if len(nodes) > 1 else 0.0
    positions = {}
    for index, node in enumerate(nodes):
        angle = math.pi / 2 - 2 * math.pi * index / len(nodes)
        positions[node] = (radius * math.cos(angle), radius * math.sin(angle))
    return positions


def _fan_out(network: Network, positions: dict[str, Point]) -> None:
    """Add positions for the nodes without one, around a neighbour in its widest free angle.

    Neighbours of placed nodes are placed first, then their neighbours, and so on. Nodes without a
    path to a placed node are put in a row below the drawing.
    """
    # Dictionaries without values keep the order of the links, so the result is always the same.
    neighbours: dict[str, dict[str, None]] = {node.id: {} for node in network.nodes}
    for link in network.links:
        neighbours[link.source][link.target] = None
        neighbours[link.target][link.source] = None
    spread = 0.46 if network.attributes.get("shape") is None else 0.38
    distance = spread * _usual_distance(positions)
    while True:
        children: dict[str, list[str]] = {}
        for node in network.nodes:
            parent = next((name for name in neighbours[node.id] if name in positions), None)
            if node.id not in positions and parent is not None:
                children.setdefault(parent, []).append(node.id)
        if not children:
            break
        # Nodes of one round do not influence each other.
        new_positions: dict[str, Point] = {}
        for parent, fan in children.items():
            angles = []
            for name in neighbours[parent]:
                if name in positions and name != parent:
                    angles.append(_angle(positions[parent], positions[name]))
            new_positions |= _fan(positions[parent], angles, fan, distance)
        positions |= new_positions
        distance *= 0.8
    isolated = [node.id for node in network.nodes if node.id not in positions]
    bottom = min((y for _, y in positions.values()), default=0.0) - 3 * distance
    left = min((x for x, _ in positions.values()), default=0.0)
    for index, name in enumerate(isolated):
        positions[name] = (left + 2 * distance * index, bottom)


def _fan(
    centre: Point, occupied_angles: Sequence[float], fan: Sequence[str], distance: float
) -> dict[str, Point]:
    """Return positions of nodes in the widest free angle around the centre.

    Args:
        centre: Position of the common neighbour.
        occupied_angles: Directions of its placed neighbours, in radians.
        fan: The nodes.
        distance: Distance of a single node from the centre; more nodes are farther away.
    """
    if occupied_angles:
        gap, start = _widest_gap(occupied_angles)
        # The fan is at most 205 degrees wide, and 26 degrees per node.
        used_angle = min(gap, math.radians(205), math.radians(26) * (len(fan) + 1))
        steps = len(fan) + 1
    else:
        gap = 2 * math.pi
        start = math.pi / 2
        used_angle = gap
        steps = len(fan)
    first = start + (gap - used_angle) / 2
    radius = distance * max(1.0, len(fan) * 0.24 / used_angle * 1.7)
    positions = {}
    for index, node in enumerate(fan):
        angle = first + used_angle * (index + 1) / steps
        x = centre[0] + radius * math.cos(angle)
        y = centre[1] + radius * math.sin(angle)
        positions[node] = (x, y)
    return positions


def _widest_gap(angles: Sequence[float]) -> tuple[float, float]:
    """Return width and start of the widest gap between directions around a point, in radians.

    Among gaps of equal width (up to rounding), the one with the smallest start is returned.
    """
    in_order = sorted(angles)
    in_order.append(in_order[0] + 2 * math.pi)
    gaps = [(end - start, start) for start, end in pairwise(in_order)]
    return max(gaps, key=lambda gap: (round(gap[0], 6), -gap[1]))


def _angle(a: Point, b: Point) -> float:
    return math.atan2(b[1] - a[1], b[0] - a[0]) % (2 * math.pi)


def _usual_distance(positions: Mapping[str, Point]) -> float:
    """Return the median distance from a node to its nearest neighbour; 1 if there is only one."""
    nearest = _nearest_distances(list(positions.values()))
    return nearest[len(nearest) // 2] if nearest else 1.0


def close_distance(points: Sequence[Point]) -> float:
    """Return the 10th percentile of the distances from each point to its nearest neighbour.

    It is infinite for fewer than two points.
    """
    nearest = _nearest_distances(points)
    return nearest[len(nearest) // 10] if nearest else math.inf


def _nearest_distances(points: Sequence[Point]) -> list[float]:
    """Return the distances from each point to the nearest other point, in ascending order."""
    import numpy as np

    distinct = np.array(sorted(set(points)))
    if len(distinct) < 2:
        return []
    distances = []
    for point in distinct:
        from_point = np.hypot(*(distinct - point).T)
        # The smallest distance is 0, from the point to itself.
        distances.append(float(np.partition(from_point, 1)[1]))
    return sorted(distances)
