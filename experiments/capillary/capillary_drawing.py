"""Figure 47: a capillary route of ten layers drawn over its network, and counts of bottlenecks.

Bottlenecks are solid and coloured by load; the other loaded links are dashed. The bottlenecks of
mobile networks of the same size are counted. The points are part of the study
``bottleneck_hunting``.
"""

import math
import random
from collections.abc import Callable

from experiments.capillary.mobile_pairs import joined, outermost_pair
from testbed.model.routes import SplitRoute
from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows, spread, where
from testbed.report.drawing.charts import INK, ORANGE, Axes, Figure, chart
from testbed.routing import capillary_route
from testbed.routing.capillary.certificate import check_certificate
from topologies import Link, Network, Node, NoPathError, load_network

KINDS = ("drawn", "counted")
NODES = 180
LINKS = 1374
LAYERS = 10

# Bottlenecks in ten layers on the document's network (page 68).
BOTTLENECKS = 55

# A loaded link in a row: source and sink (indices of nodes), load, and layer (0: none).
LoadedLink = tuple[int, int, float, int]


def points(quick: bool, seed: int) -> Points:
    """Return the points of Figure 47.

    One network of 180 nodes and 1374 links is drawn with one, three and ten layers (``quick``: with
    ten). The bottlenecks of 60 (``quick``: 20) mobile networks of that size are counted.
    """
    layer_counts = (LAYERS,) if quick else (1, 3, LAYERS)
    result: Points = []
    for layers in layer_counts:
        result.append(
            {"kind": "drawn", "nodes": NODES, "links": LINKS, "layers": layers, "seed": seed}
        )
    for k in range(20 if quick else 60):
        result.append({"kind": "counted", "seed": seed + k})
    return result


def measure(point: Row) -> Results:
    """Measure a route that is drawn, or count the bottlenecks of one.

    Returns:
        The positions of the nodes; each ``LoadedLink``; the load of each layer; the number of
        layers of the full route; whether the full route is certified; and whether the drawn layers
        agree with it. For a counted network: its bottlenecks in ten layers, and all layers.
    """
    if point["kind"] == "counted":
        return _count_bottlenecks(point["seed"])
    network = geometric_network(point["nodes"], point["links"], point["seed"])
    source = "0"
    sink = str(point["nodes"] - 1)
    route = capillary_route(network, source, sink, layers=point["layers"])
    full = capillary_route(network, source, sink)
    return {
        "places": [list(node.position or (0.0, 0.0)) for node in network.nodes],
        "loaded": _loaded_links(network, route),
        "levels": [float(layer.load) for layer in route.layers],
        "all_layers": len(full.layers),
        "certified": check_certificate(network, source, sink, full.loads).valid,
        "agrees": _agrees(route, full),
    }


def _loaded_links(network: Network, route: SplitRoute) -> list[list[float]]:
    """Return the fields of each ``LoadedLink``."""
    loaded = []
    for index in route.loaded:
        link = network.links[index]
        loaded.append(
            [
                network.node_index[link.source],
                network.node_index[link.target],
                float(route.loads[index]),
                route.link_layers[index],
            ]
        )
    return loaded


def _agrees(route: SplitRoute, full: SplitRoute) -> bool:
    """Return whether the links in layers of a route have the layer and load of the full route."""
    for index, layer in enumerate(route.link_layers):
        if layer == 0:
            continue
        same_load = route.loads[index] == full.loads[index]
        if layer != full.link_layers[index] or not same_load:
            return False
    return True


def geometric_network(nodes: int, links: int, seed: int) -> Network:
    """Return a network of random points in the unit square, the nearest pairs of which are linked.

    Networks are drawn until the last node can be reached from the first.

    Args:
        nodes: Number of nodes.
        links: Number of links. ``links / 2`` pairs have a link in both directions.
        seed: Seed of the points.
    """
    rng = random.Random(f"hunting/{seed}")
    while True:
        network = _draw_network(nodes, links, seed, rng)
        try:
            capillary_route(network, "0", str(nodes - 1), layers=1)
        except NoPathError:
            continue
        return network


def _draw_network(nodes: int, links: int, seed: int, rng: random.Random) -> Network:
    positions = [(rng.random(), rng.random()) for _ in range(nodes)]
    pairs = []
    for i in range(nodes):
        for j in range(i):
            pairs.append((math.dist(positions[i], positions[j]), i, j))
    pairs.sort()
    network_links = []
    for _, i, j in pairs[: links // 2]:
        network_links.append(Link(source=str(i), target=str(j)))
        network_links.append(Link(source=str(j), target=str(i)))
    switches = []
    for number, position in enumerate(positions):
        switches.append(Node(id=str(number), kind="switch", position=position))
    return Network(
        name=f"geometric-{nodes}-{seed}", nodes=tuple(switches), links=tuple(network_links)
    )


def _count_bottlenecks(seed: int) -> Results:
    network = load_network(f"manet:nodes={NODES},degree={LINKS / NODES:.4f},seed={seed},frame=0")
    source, sink = joined(network, outermost_pair(network))
    layers = capillary_route(network, source, sink).layers
    return {
        "bottlenecks": sum(len(layer.bottlenecks) for layer in layers[:LAYERS]),
        "all_layers": len(layers),
    }


def drawing_checks(rows: Rows) -> list[Check]:
    """Return the checks of Figure 47.

    The ten layers must be the first ones of the certified full route, which has many more. The
    document's 55 bottlenecks must not be unusual.
    """
    drawn = where(rows, kind="drawn")
    counted = where(rows, kind="counted")
    different = 0
    for row in drawn:
        if not (row["certified"] and row["agrees"]):
            different += 1
    further_layers = []
    as_few = 0
    for row in counted:
        further_layers.append(row["all_layers"] - LAYERS)
        if row["bottlenecks"] <= BOTTLENECKS:
            as_few += 1
    return [
        Claim("routes whose layers differ from the certified full route's")
        .equal(0.0, different)
        .against(len(drawn), "all: layers of another route"),
        Claim("layers beyond the tenth, mean over the counted networks")
        .at_least(20.0, spread(further_layers))
        .cites("there could be tens of additional layers (page 68)")
        .against(0.0, "ten layers are all there are"),
        Claim(
            f"share of the counted networks with {BOTTLENECKS} bottleneck links in ten layers, "
            "or fewer"
        )
        .at_least(0.025, as_few / len(counted))
        .cites(f"{BOTTLENECKS} (page 68)")
        .against(0.0, "a number that no such network has"),
    ]


def figures(rows: Rows) -> Figures:
    """Draw each number of layers."""
    drawings = {}
    for row in where(rows, kind="drawn"):
        drawings[f"figure-47-layers-{row['layers']}"] = _draw_route(row)
    return drawings


def _draw_route(row: Row) -> Figure:
    figure, axes = chart(
        f"Capillary route, {row['layers']} of {row['all_layers']} layers: "
        f"{row['nodes']} nodes, {row['links']} links",
        size=(9.4, 8),
        xlabel="x (sides of the square)",
        ylabel="y (sides of the square)",
    )
    loads = list(map(_load, row["loaded"]))
    # Equal loads must not get a scale that spreads their rounding errors.
    lowest = min(min(loads), max(loads) / 10)
    _draw_loads(figure, axes, row, lowest, max(loads))
    _draw_end(axes, row["places"][0], "source")
    _draw_end(axes, row["places"][-1], "sink")
    _add_legend(axes, row)
    axes.set(aspect="equal")
    return figure


def _draw_loads(figure: Figure, axes: Axes, row: Row, lowest: float, highest: float) -> None:
    """Draw the links, and a colour bar of their loads.

    Args:
        figure: The figure.
        axes: Its axes.
        row: The row of the route.
        lowest: Load at the lower end of the colour bar.
        highest: Load at its upper end.
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm

    shade = LogNorm(lowest, highest)
    # The first 15 % of viridis are too pale a yellow.
    shades = [0.15 + 0.85 * k / 255 for k in range(256)]
    colours = ListedColormap(colormaps["viridis_r"](shades))
    _draw_links(axes, row, lambda load: colours(shade(load)))
    bar = figure.colorbar(
        ScalarMappable(shade, colours), ax=axes, label="load: share of the flow (%)", shrink=0.8
    )
    bar.ax.minorticks_off()
    bar.set_ticks(_load_ticks(lowest, highest))
    bar.ax.yaxis.set_major_formatter(_format_percentage)


def _load_ticks(lowest: float, highest: float) -> list[float]:
    ticks = []
    for power in range(-6, 0):
        for digit in (1, 2, 3, 5):
            tick = digit * 10**power
            if lowest <= tick <= highest:
                ticks.append(tick)
    return ticks


def _format_percentage(fraction: float, _position: object) -> str:
    return f"{100 * fraction:g}"


def _draw_end(axes: Axes, position: tuple[float, float], label: str) -> None:
    """Mark an end point of the route."""
    axes.plot(*position, "o", color=ORANGE, markersize=9, zorder=5)
    axes.annotate(
        label,
        position,
        (8, 8),
        textcoords="offset points",
        fontsize=10,
        bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": ORANGE},
        zorder=6,
    )


def _draw_links(axes: Axes, row: Row, colour: Callable[[float], object]) -> None:
    """Draw nodes as dots and loaded links as arrows, dashed if no layer contains the link.

    The links with the largest loads are drawn last, above the others.

    Args:
        axes: The axes.
        row: The row of the route.
        colour: Returns the colour of a load.
    """
    positions = row["places"]
    axes.plot(*zip(*positions, strict=True), ".", color="#bbbbbb", markersize=4)
    largest_load = max(map(_load, row["loaded"]))
    for source, sink, load, layer in sorted(row["loaded"], key=_load):
        arrow = {
            "arrowstyle": "-|>",
            "shrinkA": 2,
            "shrinkB": 2,
            "mutation_scale": 8,
            "color": colour(load),
        }
        if layer:
            arrow["linewidth"] = 0.8 + 3.2 * (load / largest_load) ** 0.5
            arrow["linestyle"] = "solid"
        else:
            arrow["linewidth"] = 0.9
            arrow["linestyle"] = (0, (4, 3))
        axes.annotate("", positions[sink], positions[source], arrowprops=arrow)


def _load(link: LoadedLink) -> float:
    return link[2]


def _add_legend(axes: Axes, row: Row) -> None:
    bottlenecks = 0
    for *_, layer in row["loaded"]:
        if layer > 0:
            bottlenecks += 1
    remaining = len(row["loaded"]) - bottlenecks
    layers = f"{row['layers']} layers" if row["layers"] > 1 else f"{row['layers']} layer"
    axes.plot([], [], color=INK, linewidth=2.5, label=f"{bottlenecks} bottlenecks of {layers}")
    axes.plot([], [], "--", color=INK, label=f"{remaining} links with the rest")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.17), ncol=2)
