"""Drawings of networks, as in ``testbed topology show --plot``.

The format is SVG, PNG or PDF, by the ending of the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.errors import InputError
from testbed.model.naming.printable import printable
from testbed.report.drawing.charts import LIGHT, bare, only_settings
from testbed.report.drawing.node_positions import Point, close_distance, place_network
from testbed.report.drawing.svg_figures import mark, saved_figure
from testbed.report.wording import counted
from topologies import JsonObject, Link, LinkId, Network, Node, label_of, reverse_of
from topologies.files.formats import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.text import Text

# Endings of files, and largest networks, that can be drawn.
PLOT_FORMATS = (".svg", ".png", ".pdf")
MAX_NODES = 20_000
# The names of nodes are written if the network has at most this number of nodes.
MAX_LABELS = 400
# Names may stand outside the marks if the network has at most this number of nodes.
MAX_OUTSIDE_LABELS = 120
# With more loaded links, no load is written beside its link.
MAX_WORDS = 40
# Smallest font, in points, in which a name is written inside the mark of its node.
MIN_FONT = 3.6
# Width and height.
Size = tuple[float, float]
# Left, bottom, right and top.
Box = tuple[float, float, float, float]
TITLE_INCHES = 0.62


@dataclass(frozen=True, kw_only=True)
class Load:
    """The load of a link.

    Attributes:
        share: The load as a share of the largest load, 0 to 1.
        words: The text beside the link.
        colour: The colour of the arrow.
        title: The tooltip.
    """

    share: float
    words: str = ""
    colour: str = LIGHT["predicted"]
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The badge on a link that fails or has failed.

    Attributes:
        words: The text on the badge.
        title: The tooltip.
        about: Identifiers of its faults, separated by spaces.
        wrong: The outcome of at least one of the faults differs from the prediction.
    """

    words: str = "×"
    title: str = ""
    about: str = ""
    wrong: bool = False


@dataclass(frozen=True, kw_only=True)
class Marks:
    """The loads and failures of a drawn network.

    Attributes:
        loads: The loads by link.
        failed: The badges by link.
        ends: Source and sink.
        legend: Colours of loads by their description.
    """

    loads: Mapping[LinkId, Load] = field(default_factory=dict)
    failed: Mapping[LinkId, Failure] = field(default_factory=dict)
    ends: tuple[str, ...] = ()
    legend: Mapping[str, str] = field(default_factory=dict)


def draw_network(network: Network, path: str | Path, marks: Marks = Marks()) -> None:
    """Write a drawing of the network to a file, completely or not at all.

    Switches are squares, hosts are dots, and parallel links and wraparound links are arcs. A line
    connects two nodes with links in both directions, and an arrow is a link in one direction.
    Thicker lines have more capacity. The same network gives the same bytes.

    Raises:
        InputError: The ending of the file is not .svg, .png or .pdf, or the network is too large
            to be drawn.
        TopologyError: The file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in PLOT_FORMATS:
        raise InputError(
            f"{path}: the ending {path.suffix!r} names no picture; use {', '.join(PLOT_FORMATS)}"
        )
    if not 0 < len(network.nodes) <= MAX_NODES:
        raise InputError(
            f"{path}: a network of {len(network.nodes)} nodes cannot be drawn; 1 to {MAX_NODES} can"
        )
    write_atomically(path, picture(network, path.suffix.lower()[1:], marks))


def picture(network: Network, picture_format: str, marks: Marks = Marks()) -> bytes:
    """Return the drawing in a format of matplotlib ("svg", "png" or "pdf")."""
    # The ids in an SVG document depend on the salt, so the same network gives the same file.
    settings = {"svg.hashsalt": network.name, "svg.fonttype": "none", "font.family": "DejaVu Sans"}
    with only_settings(settings):
        figure = network_figure(network, marks)
        return saved_figure(figure, picture_format, dpi=150, facecolor=LIGHT["paper"])


def network_figure(
    network: Network, marks: Marks = Marks(), *, titled: bool = True, least_font: float = MIN_FONT
) -> Figure:
    """Return the drawing as a matplotlib figure.

    Args:
        network: The network.
        marks: Its loads and failures.
        titled: Write the name and the size of the network above it.
        least_font: Smallest font, in points, in which a name is written inside the mark of its
            node.
    """
    ends = (marks.ends[0], marks.ends[-1]) if marks.ends else None
    places = place_network(network, ends)
    title_inches = TITLE_INCHES if titled or marks.legend else 0.0
    side_inches = 11.0 if titled else 10.0
    size, _ = _canvas(places, side_inches, title_inches)
    figure: Figure = bare(*size)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0 - title_inches / size[1]))
    draw_on(axes, network, places, marks, size, least_font)
    if titled:
        _write_title(figure, network, size)
    if marks.legend:
        handles = []
        for name, colour in marks.legend.items():
            handles += axes.plot([], [], color=colour, linewidth=4, label=name)
        figure.legend(handles=handles, loc="upper right", frameon=False, ncols=4)
    return figure


def draw_on(
    axes: Axes,
    network: Network,
    places: Mapping[str, Point],
    marks: Marks,
    size: Size,
    least_font: float = MIN_FONT,
) -> None:
    """Draw the network on existing axes.

    Args:
        axes: The axes.
        network: The network.
        places: Positions of its nodes.
        marks: Its loads and failures.
        size: Approximate size of the axes in inches.
        least_font: Smallest font, in points, in which a name is written inside the mark of its
            node.
    """
    _, box = _canvas(places, 1.0, 0.0)
    axes.set_axis_off()
    axes.set_xlim(box[0], box[2])
    axes.set_ylim(box[1], box[3])
    axes.set_aspect("equal")
    sides = _sides(network, places, size, box)
    _draw_links(axes, network, places, sides["switch"])
    _draw_marks(axes, network, places, marks, sides["switch"])
    _draw_nodes(axes, network, places, sides, marks.ends)
    if len(network.nodes) <= MAX_LABELS:
        _write_labels(axes, network, places, sides, marks.ends, least_font)


def _canvas(places: Mapping[str, Point], side: float, title: float) -> tuple[Size, Box]:
    """Return the size of a figure in inches, and the part of the plane that it shows.

    Args:
        places: Positions of the nodes.
        side: The longer side of the figure without the title, in inches.
        title: Height of the title, in inches.
    """
    xs = [x for x, _ in places.values()]
    ys = [y for _, y in places.values()]
    span = max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0
    margin = 0.07 * span
    left = min(xs) - margin
    right = max(xs) + margin
    bottom = min(ys) - margin
    top = max(ys) + margin
    width = right - left
    height = top - bottom
    # A very flat or very narrow drawing gets more room.
    if height < width * 0.4:
        extra = (width * 0.4 - height) / 2
        bottom -= extra
        top += extra
        height = width * 0.4
    if width < height * 0.6:
        extra = (height * 0.6 - width) / 2
        left -= extra
        right += extra
        width = height * 0.6
    scale = side / max(width, height)
    return (width * scale, height * scale + title), (left, bottom, right, top)


def _sides(network: Network, places: Mapping[str, Point], size: Size, box: Box) -> dict[str, float]:
    """Return the side of the marks of hosts and switches, in points.

    The marks are so small that nine in ten of a kind do not touch each other.
    """
    width = box[2] - box[0]
    height = box[3] - box[1]
    points_per_unit = 72 * size[0] / width
    room = math.sqrt(width * height / len(places)) * points_per_unit
    switch_distance = close_distance([places[node.id] for node in network.switches])
    host_distance = close_distance([places[node.id] for node in network.hosts])
    switch = min(26.0, 0.36 * room, 0.8 * points_per_unit * switch_distance)
    host = min(0.75 * switch, 0.8 * points_per_unit * host_distance)
    if not network.switches:
        host = min(20.0, 0.3 * room, host)
    return {"switch": max(2.5, switch), "host": max(2.0, host)}


def _draw_links(axes: Axes, network: Network, places: Mapping[str, Point], dot: float) -> None:
    """Draw the links; ``dot`` is the side of a switch in points."""
    from matplotlib.collections import LineCollection

    largest_bps = max((link.capacity_bps for link in network.links), default=1.0)
    hosts = {node.id for node in network.hosts}
    # Arrows are slow to draw. A large network has lines only.
    only_lines = len(network.links) > 3000
    lines: list[Sequence[Point]] = []
    widths: list[float] = []
    colours: list[str] = []
    for link, both, bend in _bends(network, places):
        ends = places[link.source], places[link.target]
        is_access = link.source in hosts or link.target in hosts
        capacity_share = link.capacity_bps / largest_bps
        width = max(0.5, min(1.8, dot / 9)) * (0.5 + 0.5 * math.sqrt(capacity_share))
        if both or only_lines:
            lines.append(_arc(*ends, bend))
            widths.append(width * 0.8 if is_access else width)
            colours.append(LIGHT["faint"] if is_access else LIGHT["soft"])
        else:
            _draw_arrow(
                axes,
                ends,
                bend,
                dot,
                mutation_scale=max(6.0, dot * 0.55),
                color=LIGHT["soft"],
                linewidth=width,
                zorder=1,
            )
    axes.add_collection(
        LineCollection(lines, linewidths=widths, colors=colours, capstyle="round", zorder=1)
    )


def _draw_arrow(
    axes: Axes, ends: tuple[Point, Point], bend: float, dot: float, **style: Any
) -> Patch:
    """Draw a curved arrow between two nodes that does not touch their marks."""
    from matplotlib.patches import FancyArrowPatch

    arrow = FancyArrowPatch(
        *ends,
        arrowstyle="-|>",
        shrinkA=dot * 0.55,
        shrinkB=dot * 0.6,
        connectionstyle=f"arc3,rad={-bend:.3f}",
        **style,
    )
    return axes.add_patch(arrow)


def _draw_marks(
    axes: Axes, network: Network, places: Mapping[str, Point], marks: Marks, dot: float
) -> None:
    """Draw an arrow on each loaded link, and a badge on each link that fails.

    The load is written beside its link if there is room.
    """
    bends: dict[LinkId, float] = {}
    for link, both, bend in _bends(network, places):
        bends[link.id] = bend
        if both:
            bends[reverse_of(link.id)] = -bend
    # Loads of both directions are drawn apart.
    for loaded in marks.loads:
        if reverse_of(loaded) in marks.loads:
            bends[loaded] += 0.12

    # Position and radius, in points, of what must not be covered by text.
    occupied = [(axes.transData.transform(place), 0.7 * dot + 9) for place in places.values()]

    def is_free(position: Any) -> bool:
        points_per_pixel = 72 / axes.figure.dpi
        for other, radius in occupied:
            if math.dist(position, other) * points_per_pixel <= radius:
                return False
        return True

    few = len(marks.loads) <= MAX_WORDS
    for loaded, load in marks.loads.items():
        ends = (places[loaded[0]], places[loaded[1]])
        style = {
            "mutation_scale": max(8.0, dot * 0.6),
            "color": load.colour,
            "linewidth": line_width(load.share),
            "zorder": 2,
        }
        arrow = _draw_arrow(axes, ends, bends[loaded], dot, **style)
        mark(arrow, "link load", title=load.title, link=label_of(loaded))
        middle = _middle(*ends, bends[loaded])
        position = axes.transData.transform(middle)
        if few and load.words and is_free(position):
            _write_on(axes, load.words, middle)
            occupied.append((position, 26.0))
    for broken, failure in marks.failed.items():
        middle = _middle(places[broken[0]], places[broken[1]], bends.get(broken, 0.0))
        mark(_write_badge(axes, failure, middle), "badge", title=failure.title, about=failure.about)


def line_width(share: float) -> float:
    """Return the width of a link's line in points.

    A width that is visible without load grows in proportion to the share of the largest load.
    """
    return 1.0 + 4.0 * share


def _write_badge(axes: Axes, failure: Failure, middle: Point) -> Text:
    """Draw a disc, which is filled if a fault differs from its prediction."""
    disc_colour = LIGHT["paper"]
    colour = LIGHT["predicted"]
    ink = colour
    if failure.wrong:
        disc_colour = LIGHT["bad"]
        colour = LIGHT["bad"]
        ink = LIGHT["paper"]
    box: JsonObject = {
        "boxstyle": "circle,pad=0.25",
        "facecolor": disc_colour,
        "edgecolor": colour,
        "linewidth": 1.6,
    }
    style: JsonObject = {
        "fontsize": 9,
        "fontweight": "bold",
        "ha": "center",
        "va": "center",
        "zorder": 5,
    }
    return axes.text(*middle, failure.words, color=ink, bbox=box, **style)


def _middle(start: Point, end: Point, bend: float) -> Point:
    """Return the middle of the line of a link."""
    return (
        (start[0] + end[0]) / 2 - bend * (end[1] - start[1]) / 2,
        (start[1] + end[1]) / 2 + bend * (end[0] - start[0]) / 2,
    )


def _write_on(axes: Axes, text: str, middle: Point) -> None:
    """Write text on a line, whose part below the text is covered."""
    patch = {"facecolor": LIGHT["paper"], "edgecolor": "none", "pad": 1.0}
    axes.text(
        *middle,
        printable(text),
        fontsize=8.5,
        color=LIGHT["ink"],
        ha="center",
        va="center",
        zorder=4,
        bbox=patch,
        parse_math=False,
    )


def _bends(network: Network, places: Mapping[str, Point]) -> list[tuple[Link, bool, float]]:
    """Return how each cable is drawn.

    Returns:
        For each cable: a link, whether the network has its reverse too, and how far the link is
        bent to its left. Bends keep parallel cables apart.
    """
    cables: dict[tuple[str, str], list[tuple[Link, bool]]] = {}
    drawn_links: set[LinkId] = set()
    for link in network.links:
        reverse = reverse_of(link.id)
        if reverse in drawn_links:
            continue
        drawn_links.add(link.id)
        pair = min(link.source, link.target), max(link.source, link.target)
        cables.setdefault(pair, []).append((link, reverse in network.link_index))
    result: list[tuple[Link, bool, float]] = []
    wraparound = _edge_links(network, places)
    for pair, parallel in cables.items():
        for index, (link, both) in enumerate(parallel):
            bend = (index - (len(parallel) - 1) / 2) * 0.22
            if pair in wraparound:
                bend += 0.16
            if link.source != pair[0]:
                bend = -bend
            result.append((link, both, bend))
    return result


def _edge_links(network: Network, places: Mapping[str, Point]) -> frozenset[tuple[str, str]]:
    """Return the pairs of switches that wraparound links of a torus connect.

    Straight lines between them would lie on the row of switches between them.
    """
    shape = network.attributes.get("shape")
    if not isinstance(shape, list) or len(shape) < 2 or not network.attributes.get("wraps"):
        return frozenset()
    pairs = set()
    for link in network.links:
        source = network.node(link.source).attributes.get("coordinates")
        target = network.node(link.target).attributes.get("coordinates")
        if not isinstance(source, list) or not isinstance(target, list):
            continue
        if len(source) != len(target):
            continue
        if any(abs(a - b) > 1 for a, b in zip(source, target, strict=True)):
            pairs.add((min(link.source, link.target), max(link.source, link.target)))
    return frozenset(pairs)


def _arc(start: Point, end: Point, bend: float) -> Sequence[Point]:
    """Return the points of a straight line or of a quadratic Bezier curve.

    The middle of the curve leaves the straight line by half of ``bend`` times its length.
    """
    if not bend:
        return (start, end)
    x0, y0 = start
    x2, y2 = end
    x1 = (x0 + x2) / 2 - bend * (y2 - y0)
    y1 = (y0 + y2) / 2 + bend * (x2 - x0)
    steps = 16
    points = []
    for step in range(steps + 1):
        t = step / steps
        x = (1 - t) ** 2 * x0 + 2 * t * (1 - t) * x1 + t**2 * x2
        y = (1 - t) ** 2 * y0 + 2 * t * (1 - t) * y1 + t**2 * y2
        points.append((x, y))
    return points


def _draw_nodes(
    axes: Axes,
    network: Network,
    places: Mapping[str, Point],
    sides: Mapping[str, float],
    ends: Sequence[str] = (),
) -> None:
    """Draw hosts as dots and switches as squares; ``ends`` have another colour."""
    for nodes, marker, fill, edge, order in (
        (network.hosts, "o", LIGHT["paper"], LIGHT["soft"], 2),
        (network.switches, "s", LIGHT["measured"], LIGHT["paper"], 3),
    ):
        if not nodes:
            continue
        side = sides[nodes[0].kind]
        axes.scatter(
            [places[node.id][0] for node in nodes],
            [places[node.id][1] for node in nodes],
            s=side**2,
            marker=marker,
            c=[LIGHT["predicted"] if node.id in ends else fill for node in nodes],
            edgecolors=edge,
            linewidths=max(0.4, side / 24),
            zorder=order,
        )


def _write_labels(
    axes: Axes,
    network: Network,
    places: Mapping[str, Point],
    sides: Mapping[str, float],
    ends: Sequence[str],
    least_font: float,
) -> None:
    """Write the id of each node inside its mark if it is legible there, else above it.

    Below a switch is the name that its file gives it (Topology Zoo, topohub). In a large network,
    only ``ends`` have text outside their marks; hosts have it only with larger fonts.
    """
    crowded = len(network.nodes) > MAX_OUTSIDE_LABELS
    for node in network.nodes:
        is_switch = node.kind == "switch"
        is_end = node.id in ends
        outside = (is_end or not crowded) and (is_switch or least_font > MIN_FONT)
        point = places[node.id]
        side = sides[node.kind]
        inside_font = min(9.0, side * 0.62, side * 0.95 / (0.62 * len(node.id)))
        if inside_font >= least_font:
            # On the colour of a switch or an end, text is light.
            ink = LIGHT["paper"] if is_switch or is_end else LIGHT["ink"]
            _write(axes, node.id, point, 0, inside_font, ink)
        elif outside:
            _write(axes, node.id, point, side * 0.6, max(6.5, least_font), LIGHT["ink"])
        name = _name(node)
        if name and outside and is_switch:
            _write(axes, name[:24], point, -side * 0.6, max(5.5, least_font), LIGHT["soft"])


def _name(node: Node) -> str:
    """Return the name of a node in its file, or nothing if it is its id or cannot be printed."""
    name = node.attributes.get("label", node.attributes.get("name"))
    if not isinstance(name, str) or not name.isprintable():
        return ""
    return "" if name.strip() in ("", "None", node.id) else name


def _write(axes: Axes, text: str, point: Point, offset: float, size: float, colour: str) -> None:
    """Write text at a position, or this number of points above it (below it if negative)."""
    alignment = "center_baseline"
    if offset > 0:
        alignment = "bottom"
    elif offset < 0:
        alignment = "top"
    axes.annotate(
        printable(text),
        point,
        xytext=(0, offset),
        textcoords="offset points",
        ha="center",
        va=alignment,
        fontsize=size,
        color=colour,
        zorder=4,
        parse_math=False,
    )


def _write_title(figure: Figure, network: Network, size: Size) -> None:
    """Write the name of the network and its numbers of nodes and links."""
    left = 0.25 / size[0]
    max_characters = int(size[0] * 8.5)
    name = printable(network.name)
    if len(name) > max_characters:
        name = name[: max_characters - 1] + "…"
    one_way = 0
    for link in network.links:
        if reverse_of(link.id) not in network.link_index:
            one_way += 1
    cables = (len(network.links) - one_way) // 2
    parts = [
        counted(len(network.switches), "switch", "switches"),
        counted(len(network.hosts), "host"),
    ]
    if cables or not one_way:
        parts.append(counted(cables, "two-way cable"))
    if one_way:
        parts.append(counted(one_way, "one-way link"))
    style: JsonObject = {"va": "center", "parse_math": False}
    title_style: JsonObject = {"fontsize": 12, "fontweight": "bold", "color": LIGHT["ink"], **style}
    figure.text(left, 1 - 0.3 / size[1], name, **title_style)
    figure.text(
        left, 1 - 0.52 / size[1], " · ".join(parts), fontsize=9, color=LIGHT["soft"], **style
    )
