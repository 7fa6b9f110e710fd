"""A capillary route of ten layers drawn over its network: bottlenecks solid by load, the rest dashed (Figure 47); and
how many bottlenecks networks of its size have."""

import math
import random
from collections.abc import Callable

from experiments.capillary.mobile_pairs import joined, outermost_pair
from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows, spread, where
from testbed.report.drawing.charts import INK, ORANGE, Axes, Figure, chart
from testbed.routing import capillary_route
from testbed.routing.capillary.certificate import check_certificate
from topologies import Link, Network, Node, NoPathError, load_network

KINDS = ("drawn", "counted")
NODES, LINKS, LAYERS = 180, 1374, 10
BOTTLENECKS = 55
"""Of the document's network in ten layers (page 68)."""


def points(quick: bool, seed: int) -> Points:
    """One network of 180 nodes and 1374 links, drawn with ten layers and with fewer; mobile networks of that size,
    topmost node to bottommost, whose bottlenecks are counted."""
    drawn = [
        {"kind": "drawn", "nodes": NODES, "links": LINKS, "layers": layers, "seed": seed}
        for layers in ((LAYERS,) if quick else (1, 3, LAYERS))
    ]
    return [*drawn, *({"kind": "counted", "seed": seed + k} for k in range(20 if quick else 60))]


def measure(point: Row) -> Results:
    """Places of the nodes and every loaded link: its ends, load and layer (0: the rest). Or bottlenecks of ten
    layers."""
    if point["kind"] == "counted":
        return _counted(point["seed"])
    network = geometric_network(point["nodes"], point["links"], point["seed"])
    ends = ("0", str(point["nodes"] - 1))
    route, full = (
        capillary_route(network, *ends, layers=point["layers"]),
        capillary_route(network, *ends),
    )
    index, links = network.node_index, network.links
    return {
        "places": [list(node.position or (0.0, 0.0)) for node in network.nodes],
        "loaded": [
            [
                index[links[i].source],
                index[links[i].target],
                float(route.loads[i]),
                route.link_layers[i],
            ]
            for i in route.loaded
        ],
        "levels": [float(layer.load) for layer in route.layers],
        "all_layers": len(full.layers),
        "certified": check_certificate(network, *ends, full.loads).valid,
        "agrees": all(
            layer == 0 or (layer == true and a == b)
            for layer, true, a, b in zip(
                route.link_layers, full.link_layers, route.loads, full.loads, strict=True
            )
        ),
    }


def geometric_network(nodes: int, links: int, seed: int) -> Network:
    """Points in the unit square, the ``links / 2`` nearest pairs joined in both directions; drawn again until the last
    node can be reached from the first."""
    generator = random.Random(f"hunting/{seed}")
    while True:
        places = [(generator.random(), generator.random()) for _ in range(nodes)]
        pairs = sorted(
            (math.dist(places[i], places[j]), i, j) for i in range(nodes) for j in range(i)
        )[: links // 2]
        network = Network(
            name=f"geometric-{nodes}-{seed}",
            nodes=tuple(
                Node(id=str(i), kind="switch", position=place) for i, place in enumerate(places)
            ),
            links=tuple(
                Link(source=str(a), target=str(b)) for _, i, j in pairs for a, b in ((i, j), (j, i))
            ),
        )
        try:
            capillary_route(network, "0", str(nodes - 1), layers=1)
        except NoPathError:
            continue
        return network


def _counted(seed: int) -> Results:
    network = load_network(f"manet:nodes={NODES},degree={LINKS / NODES:.4f},seed={seed},frame=0")
    layers = capillary_route(network, *joined(network, outermost_pair(network))).layers
    return {
        "bottlenecks": sum(len(layer.bottlenecks) for layer in layers[:LAYERS]),
        "all_layers": len(layers),
    }


def drawing_checks(rows: Rows) -> list[Check]:
    """The ten layers are those of the certified full route, which has many more; the document's 55 bottlenecks are
    nothing unusual."""
    counted = where(rows, kind="counted")
    rows = where(rows, kind="drawn")
    sound = sum(not (row["certified"] and row["agrees"]) for row in rows)
    beyond = [row["all_layers"] - LAYERS for row in counted]
    counts = [row["bottlenecks"] for row in counted]
    return [
        Claim("routes whose layers differ from the certified full route's")
        .equal(0.0, sound)
        .against(len(rows), "all: layers of another route"),
        Claim("layers beyond the tenth, mean over the counted networks")
        .at_least(20.0, spread(beyond))
        .cites("there could be tens of additional layers (page 68)")
        .against(0.0, "ten layers are all there are"),
        Claim(
            f"share of the counted networks with {BOTTLENECKS} bottleneck links in ten layers, or fewer"
        )
        .at_least(0.025, sum(count <= BOTTLENECKS for count in counts) / len(counts))
        .cites(f"{BOTTLENECKS} (page 68)")
        .against(0.0, "a number that no such network has"),
    ]


def figures(rows: Rows) -> Figures:
    """A drawing a number of layers."""
    return {f"figure-47-layers-{row['layers']}": _drawing(row) for row in where(rows, kind="drawn")}


def _drawing(row: Row) -> Figure:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm

    title = f"Capillary route, {row['layers']} of {row['all_layers']} layers: {row['nodes']} nodes, {row['links']} links"
    figure, axes = chart(
        title, size=(9.4, 8), xlabel="x (sides of the square)", ylabel="y (sides of the square)"
    )
    loads = [load for _, _, load, _ in row["loaded"]]
    # loads that are all alike are no reason for a scale that spreads their rounding
    least = min(min(loads), max(loads) / 10)
    shade = LogNorm(least, max(loads))
    # viridis' yellow is too pale
    colours = ListedColormap(colormaps["viridis_r"]([0.15 + 0.85 * k / 255 for k in range(256)]))
    _draw_links(axes, row, lambda load: colours(shade(load)))
    for node, label in ((0, "source"), (len(row["places"]) - 1, "sink")):
        axes.plot(*row["places"][node], "o", color=ORANGE, markersize=9, zorder=5)
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": ORANGE}
        axes.annotate(
            label,
            row["places"][node],
            (8, 8),
            textcoords="offset points",
            fontsize=10,
            bbox=box,
            zorder=6,
        )
    _add_legend(axes, row)
    axes.set(aspect="equal")
    bar = figure.colorbar(
        ScalarMappable(shade, colours), ax=axes, label="load: share of the flow (%)", shrink=0.8
    )
    ticks = [digit * 10**power for power in range(-6, 0) for digit in (1, 2, 3, 5)]
    bar.ax.minorticks_off()
    bar.set_ticks([t for t in ticks if least <= t <= max(loads)])
    bar.ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}")
    return figure


def _draw_links(axes: Axes, row: Row, colour: Callable[[float], object]) -> None:
    """Dots for nodes, an arrow for each loaded link, the heaviest on top; dashed where no layer holds the link."""
    places = row["places"]
    axes.plot(*zip(*places, strict=True), ".", color="#bbbbbb", markersize=4)
    heaviest = max(load for _, _, load, _ in row["loaded"])
    for a, b, load, layer in sorted(row["loaded"], key=lambda each: each[2]):
        width = 0.8 + 3.2 * (load / heaviest) ** 0.5 if layer else 0.9
        line = {
            "color": colour(load),
            "linewidth": width,
            "linestyle": "solid" if layer else (0, (4, 3)),
        }
        head = {"arrowstyle": "-|>", "shrinkA": 2, "shrinkB": 2, "mutation_scale": 8}
        axes.annotate("", places[b], places[a], arrowprops=head | line)


def _add_legend(axes: Axes, row: Row) -> None:
    bottlenecks = sum(layer > 0 for *_, layer in row["loaded"])
    layers = f"{row['layers']} layer{'s' * (row['layers'] > 1)}"
    axes.plot([], [], color=INK, linewidth=2.5, label=f"{bottlenecks} bottlenecks of {layers}")
    axes.plot(
        [], [], "--", color=INK, label=f"{len(row['loaded']) - bottlenecks} links with the rest"
    )
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.17), ncol=2)
