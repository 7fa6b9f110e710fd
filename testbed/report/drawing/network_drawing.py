"""A network as a picture for ``testbed topology show --plot``: SVG, PNG or PDF by the file's ending."""

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

PLOT_FORMATS = (".svg", ".png", ".pdf")
MAX_NODES = 20_000
MAX_LABELS = 400
MAX_OUTSIDE_LABELS = 120
MAX_WORDS = 40
"""So many loads at most have their words."""
LEAST_FONT = 3.6
Size = tuple[float, float]
Box = tuple[float, float, float, float]
TITLE_INCHES = 0.62


@dataclass(frozen=True, kw_only=True)
class Load:
    """What goes over a link: its share of the largest load, 0 to 1, the words beside it and those at the pointer."""

    share: float
    words: str = ""
    colour: str = LIGHT["predicted"]
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The badge on a link that is or was broken; ``about``: the faults that it stands for, ``wrong``: one of them did
    not do as predicted."""

    words: str = "×"
    title: str = ""
    about: str = ""
    wrong: bool = False


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What happens on a drawn network; ``ends``: nodes between which it goes, ``legend``: words -> colour of a load."""

    loads: Mapping[LinkId, Load] = field(default_factory=dict)
    failed: Mapping[LinkId, Failure] = field(default_factory=dict)
    ends: tuple[str, ...] = ()
    legend: Mapping[str, str] = field(default_factory=dict)


def draw_network(network: Network, path: str | Path, marks: Marks = Marks()) -> None:
    """Write the drawing whole or not at all; the same network gives the same bytes.

    Switches are squares, hosts dots, parallel and round-the-edge links arcs; a line joins two nodes with links both
    ways, an arrow shows a link one way; thicker lines have more capacity. Raises InputError for an ending other than
    .svg, .png and .pdf, for a network too large to draw, TopologyError where the file cannot be written.
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
    """The drawing in matplotlib's format of that name ("svg", "png" or "pdf")."""
    # No date and a fixed salt: the same network gives the same file.
    with only_settings(
        {"svg.hashsalt": network.name, "svg.fonttype": "none", "font.family": "DejaVu Sans"}
    ):
        figure = network_figure(network, marks)
        return saved_figure(figure, picture_format, dpi=150, facecolor=LIGHT["paper"])


def network_figure(
    network: Network, marks: Marks = Marks(), *, titled: bool = True, least_font: float = LEAST_FONT
) -> Figure:
    """The drawing; names inside a mark are written where ``least_font`` fits there."""
    places = place_network(network, (marks.ends[0], marks.ends[-1]) if marks.ends else None)
    above = TITLE_INCHES if titled or marks.legend else 0.0
    size, _ = _canvas(places, 11.0 if titled else 10.0, above)
    figure: Figure = bare(*size)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0 - above / size[1]))
    draw_on(axes, network, places, marks, size, least_font)
    if titled:
        _write_title(figure, network, size)
    if marks.legend:
        handles = [
            axes.plot([], [], color=colour, linewidth=4, label=name)[0]
            for name, colour in marks.legend.items()
        ]
        figure.legend(handles=handles, loc="upper right", frameon=False, ncols=4)
    return figure


def draw_on(
    axes: Axes,
    network: Network,
    places: Mapping[str, Point],
    marks: Marks,
    size: Size,
    least_font: float = LEAST_FONT,
) -> None:
    """The network on axes of about that size in inches."""
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
        for node in network.nodes:
            font = (
                least_font
                if len(network.nodes) <= MAX_OUTSIDE_LABELS or node.id in marks.ends
                else -least_font
            )
            ink = LIGHT["paper" if node.kind == "switch" or node.id in marks.ends else "ink"]
            _write_label(axes, node, places[node.id], sides[node.kind], font, ink)


def _canvas(places: Mapping[str, Point], side: float, title: float) -> tuple[Size, Box]:
    """Figure size in inches, its longer ``side`` without the title, and the box (left, bottom, right, top) that it
    shows."""
    xs, ys = [p[0] for p in places.values()], [p[1] for p in places.values()]
    span = max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0
    margin = 0.07 * span
    left, right = min(xs) - margin, max(xs) + margin
    bottom, top = min(ys) - margin, max(ys) + margin
    width, height = right - left, top - bottom
    if height < width * 0.4:
        bottom, top = bottom - (width * 0.4 - height) / 2, top + (width * 0.4 - height) / 2
        height = width * 0.4
    if width < height * 0.6:
        left, right = left - (height * 0.6 - width) / 2, right + (height * 0.6 - width) / 2
        width = height * 0.6
    scale = side / max(width, height)
    return (width * scale, height * scale + title), (left, bottom, right, top)


def _sides(network: Network, places: Mapping[str, Point], size: Size, box: Box) -> dict[str, float]:
    """Node kind -> the side of its mark in points: small enough that nine in ten of its kind stay apart."""
    points_per_unit = 72 * size[0] / (box[2] - box[0])
    room = math.sqrt((box[2] - box[0]) * (box[3] - box[1]) / len(places)) * points_per_unit
    switch = min(
        26.0,
        0.36 * room,
        0.8 * points_per_unit * close_distance([places[n.id] for n in network.switches]),
    )
    host = min(
        0.75 * switch, 0.8 * points_per_unit * close_distance([places[n.id] for n in network.hosts])
    )
    if not network.switches:
        host = min(20.0, 0.3 * room, host)
    return {"switch": max(2.5, switch), "host": max(2.0, host)}


def _draw_links(axes: Axes, network: Network, places: Mapping[str, Point], dot: float) -> None:
    from matplotlib.collections import LineCollection

    largest = max((link.capacity_bps for link in network.links), default=1.0)
    hosts = {node.id for node in network.hosts}
    lines: list[Sequence[Point]] = []
    widths: list[float] = []
    colours: list[str] = []
    for link, both, bend in _bends(network, places):
        ends = places[link.source], places[link.target]
        access = link.source in hosts or link.target in hosts
        width = max(0.5, min(1.8, dot / 9)) * (0.5 + 0.5 * math.sqrt(link.capacity_bps / largest))
        colour = LIGHT["faint"] if access else LIGHT["soft"]
        if both or len(network.links) > 3000:
            lines.append(_arc(*ends, bend))
            widths.append(width * (0.8 if access else 1.0))
            colours.append(colour)
        else:
            tip = max(6.0, dot * 0.55)
            _draw_arrow(
                axes,
                ends,
                bend,
                dot,
                mutation_scale=tip,
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
    """From node to node, bent, clear of the marks of both."""
    from matplotlib.patches import FancyArrowPatch

    curve = f"arc3,rad={-bend:.3f}"
    return axes.add_patch(
        FancyArrowPatch(
            *ends,
            arrowstyle="-|>",
            shrinkA=dot * 0.55,
            shrinkB=dot * 0.6,
            connectionstyle=curve,
            **style,
        )
    )


def _draw_marks(
    axes: Axes, network: Network, places: Mapping[str, Point], marks: Marks, dot: float
) -> None:
    """Loaded links as arrows by their load, with words where there is room; a badge on each broken cable."""
    bends: dict[LinkId, float] = {}
    for link, both, bend in _bends(network, places):
        bends[link.id] = bend
        if both:
            bends[reverse_of(link.id)] = -bend
    for loaded in marks.loads:
        bends[loaded] += 0.12 if reverse_of(loaded) in marks.loads else 0.0
    few = len(marks.loads) <= MAX_WORDS
    taken = [(axes.transData.transform(place), 0.7 * dot + 9) for place in places.values()]
    for loaded, load in marks.loads.items():
        ends, tip, width = (
            (places[loaded[0]], places[loaded[1]]),
            max(8.0, dot * 0.6),
            line_width(load.share),
        )
        style = {"mutation_scale": tip, "color": load.colour, "linewidth": width, "zorder": 2}
        arrow = _draw_arrow(axes, ends, bends[loaded], dot, **style)
        mark(arrow, "link load", title=load.title, link=label_of(loaded))
        middle = _middle(*ends, bends[loaded])
        at = axes.transData.transform(middle)
        room = all(math.dist(at, other) * 72 / axes.figure.dpi > points for other, points in taken)
        if few and load.words and room:
            _write_on(axes, load.words, middle)
            taken.append((at, 26.0))
    for broken, failure in marks.failed.items():
        place = _middle(places[broken[0]], places[broken[1]], bends.get(broken, 0.0))
        mark(_write_badge(axes, failure, place), "badge", title=failure.title, about=failure.about)


def line_width(share: float) -> float:
    """Points of a link's line: proportional to its share of the largest load above a width that can be seen."""
    return 1.0 + 4.0 * share


def _write_badge(axes: Axes, failure: Failure, place: Point) -> Text:
    """A disc, filled where a fault did not do as predicted."""
    colour = LIGHT["bad" if failure.wrong else "predicted"]
    disc = {"boxstyle": "circle,pad=0.25", "facecolor": colour if failure.wrong else LIGHT["paper"]}
    ink = LIGHT["paper"] if failure.wrong else colour
    box: JsonObject = {**disc, "edgecolor": colour, "linewidth": 1.6}
    style: JsonObject = {
        "fontsize": 9,
        "fontweight": "bold",
        "ha": "center",
        "va": "center",
        "zorder": 5,
    }
    return axes.text(*place, failure.words, color=ink, bbox=box, **style)


def _middle(start: Point, end: Point, bend: float) -> Point:
    """The middle of the link's line."""
    return (
        (start[0] + end[0]) / 2 - bend * (end[1] - start[1]) / 2,
        (start[1] + end[1]) / 2 + bend * (end[0] - start[0]) / 2,
    )


def _write_on(axes: Axes, text: str, place: Point) -> None:
    """Text on a line, on a patch of paper."""
    patch = {"facecolor": LIGHT["paper"], "edgecolor": "none", "pad": 1.0}
    axes.text(
        *place,
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
    """(link, whether its reverse is there too, bend): one entry a cable; bends keep parallel cables apart."""
    cables: dict[tuple[str, str], list[tuple[Link, bool]]] = {}
    shown: set[tuple[str, str, int]] = set()
    for link in network.links:
        back = reverse_of(link.id)
        if back in shown:
            continue
        shown.add(link.id)
        a, b = min(link.source, link.target), max(link.source, link.target)
        cables.setdefault((a, b), []).append((link, back in network.link_index))
    found: list[tuple[Link, bool, float]] = []
    round_the_edge = _edge_links(network, places)
    for pair, together in cables.items():
        for i, (link, both) in enumerate(together):
            bend = (i - (len(together) - 1) / 2) * 0.22
            if pair in round_the_edge:
                bend += 0.16
            found.append((link, both, bend if link.source == pair[0] else -bend))
    return found


def _edge_links(network: Network, places: Mapping[str, Point]) -> frozenset[tuple[str, str]]:
    """Pairs of switches that a torus joins around its edge: drawn straight they would lie on the row between."""
    shape = network.attributes.get("shape")
    if not isinstance(shape, list) or len(shape) < 2 or not network.attributes.get("wraps"):
        return frozenset()
    pairs = set()
    for link in network.links:
        one = network.node(link.source).attributes.get("coordinates")
        other = network.node(link.target).attributes.get("coordinates")
        if not (isinstance(one, list) and isinstance(other, list) and len(one) == len(other)):
            continue
        if any(abs(a - b) > 1 for a, b in zip(one, other, strict=True)):
            pairs.add((min(link.source, link.target), max(link.source, link.target)))
    return frozenset(pairs)


def _arc(start: Point, end: Point, bend: float) -> Sequence[Point]:
    """A straight line, or the quadratic curve whose middle leaves it by half of ``bend`` times its length."""
    if not bend:
        return (start, end)
    (x0, y0), (x2, y2) = start, end
    x1, y1 = (x0 + x2) / 2 - bend * (y2 - y0), (y0 + y2) / 2 + bend * (x2 - x0)
    steps = 16
    weights = [i / steps for i in range(steps + 1)]
    return [
        (
            (1 - t) ** 2 * x0 + 2 * t * (1 - t) * x1 + t**2 * x2,
            (1 - t) ** 2 * y0 + 2 * t * (1 - t) * y1 + t**2 * y2,
        )
        for t in weights
    ]


def _draw_nodes(
    axes: Axes,
    network: Network,
    places: Mapping[str, Point],
    sides: Mapping[str, float],
    ends: Sequence[str] = (),
) -> None:
    for nodes, marker, fill, edge, order in (
        (network.hosts, "o", LIGHT["paper"], LIGHT["soft"], 2),
        (network.switches, "s", LIGHT["measured"], LIGHT["paper"], 3),
    ):
        if nodes:
            side = sides[nodes[0].kind]
            xs, ys = zip(*(places[n.id] for n in nodes), strict=True)
            line = max(0.4, side / 24)
            fills = [LIGHT["predicted"] if n.id in ends else fill for n in nodes]
            axes.scatter(
                xs,
                ys,
                s=side**2,
                marker=marker,
                c=fills,
                edgecolors=edge,
                linewidths=line,
                zorder=order,
            )


def _write_label(
    axes: Axes, node: Node, place: Point, side: float, least_font: float, ink: str
) -> None:
    """The id inside its mark where it is legible there, else above it, else (a host, or, where ``least_font`` is
    negative, in a crowd) not at all; below a switch what its file calls it as well (Topology Zoo, topohub)."""
    inside = min(9.0, side * 0.62, side * 0.95 / (0.62 * len(node.id)))
    outside = least_font > 0 and (node.kind == "switch" or least_font > LEAST_FONT)
    if inside >= abs(least_font):
        _write(axes, node.id, place, 0, inside, ink)
    elif outside:
        _write(axes, node.id, place, side * 0.6, max(6.5, least_font), LIGHT["ink"])
    other = node.attributes.get("label", node.attributes.get("name"))
    named = (
        isinstance(other, str)
        and other.isprintable()
        and other.strip() not in ("", "None", node.id)
    )
    if named and outside and node.kind == "switch":
        _write(axes, str(other)[:24], place, -side * 0.6, max(5.5, least_font), LIGHT["soft"])


def _write(axes: Axes, text: str, place: Point, offset: float, size: float, colour: str) -> None:
    """Text in the middle of a place, or points above (below) it."""
    axes.annotate(
        printable(text),
        place,
        xytext=(0, offset),
        textcoords="offset points",
        ha="center",
        va="center_baseline" if not offset else "bottom" if offset > 0 else "top",
        fontsize=size,
        color=colour,
        zorder=4,
        parse_math=False,
    )


def _write_title(figure: Figure, network: Network, size: Size) -> None:
    inset = 0.25 / size[0]
    most = int(size[0] * 8.5)
    name = printable(network.name)
    name = name if len(name) <= most else name[: most - 1] + "…"
    one_way = sum(reverse_of(k.id) not in network.link_index for k in network.links)
    cables = (len(network.links) - one_way) // 2
    parts = [
        counted(len(network.switches), "switch", "switches"),
        counted(len(network.hosts), "host"),
    ]
    parts += [counted(cables, "two-way cable")] if cables or not one_way else []
    parts += [counted(one_way, "one-way link")] if one_way else []
    style: JsonObject = {"va": "center", "parse_math": False}
    figure.text(
        inset, 1 - 0.3 / size[1], name, fontsize=12, fontweight="bold", color=LIGHT["ink"], **style
    )
    figure.text(
        inset, 1 - 0.52 / size[1], " · ".join(parts), fontsize=9, color=LIGHT["soft"], **style
    )
