"""The drawing of a session's network: link loads as widths, capillary layers as colours, failed links as numbered
badges."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from testbed.model.naming.printable import printable
from testbed.model.run_records import FaultRecord, LinkLoad, SessionRun
from testbed.report.column_units import NOTHING, cell, column, percent
from testbed.report.drawing.colours import layer_class
from testbed.report.drawing.layout import (
    Box,
    Line,
    Room,
    around,
    bend_around,
    fit,
    place_badges,
    place_labels,
    push_hosts_out,
    surroundings,
)
from testbed.report.drawing.node_positions import Point, place_network
from testbed.report.markup import Markup, lines, svg, tag
from topologies.files.node_link import parse_document
from topologies.impairments import known_impairments, to_text
from topologies.text.json_types import Json

FONT_PX = 12.0
BADGE_PX = 8.5
DOT_PX = 3.5
THICKEST_PX = 8.0
THINNEST_PX = 1.4
CROWD = 60
"""Above so many nodes, marks are smaller, only the route's nodes are named, and a far corner may be left out."""


@dataclass(frozen=True, kw_only=True)
class _Drawing:
    """Everything placed: node -> pixel, loaded links with their lines, the nodes that carry the stream; and
    ``shaped_links`` of the network."""

    run: SessionRun
    shapes: Mapping[tuple[str, str, int], Json]
    width: int
    height: int
    places: Mapping[str, Point]
    hosts: frozenset[str]
    lines: tuple[tuple[LinkLoad, Line], ...]
    idle: tuple[Line, ...]
    crowded: bool

    def radius(self, node: str) -> float:
        session = self.run.session
        if node in (session.source, session.sink):
            return 9.0
        if node in self.hosts:
            return 4.0
        busy = any(node in (load.source, load.target) for load, _ in self.lines)
        return (6.5 if busy else 3.0) if not self.crowded else (4.5 if busy else 2.2)


@dataclass(frozen=True, kw_only=True)
class NetworkLayout:
    """Where the drawn nodes lie, in units of their own, and how many nodes far from the route are left out."""

    places: Mapping[str, Point]
    elsewhere: int


def lay_out(run: SessionRun) -> NetworkLayout:
    """The layout that drawings of any size share. Cost: cubic in the nodes where they have no positions."""
    session = run.session
    hosts = _drawn_hosts(run)
    drawn = [str(n["id"]) for n in session.network.get("nodes", ()) if n.get("kind") != "host" or n["id"] in hosts]
    places = place_network(parse_document(session.network), (session.source, session.sink))
    everywhere = {node: places[node] for node in drawn}
    if len(drawn) <= CROWD:
        return NetworkLayout(places=everywhere, elsewhere=0)
    busy = _busy_nodes(run)
    near = surroundings(everywhere, [n for n in drawn if n in busy])
    return NetworkLayout(places=near, elsewhere=len(everywhere) - len(near))


def network_figure(run: SessionRun, *, width: int, height: int, layout: NetworkLayout | None = None) -> Markup:
    """The drawing as one SVG of that size in pixels; every loaded link has a title with its figures."""
    drawing = _place(run, layout or lay_out(run), width, height)
    session = run.session
    ends = (session.source, session.sink)
    badges = _badges(drawing)
    return svg(
        "network",
        (width, height),
        f"{session.title}: loads of the route from {session.source} to {session.sink}",
        tag("g", [tag("path", class_="idle", d=_path(line)) for line in drawing.idle]),
        tag("g", [_link(drawing, load, line) for load, line in drawing.lines]),
        tag("g", [_node(drawing, node) for node in drawing.places if node not in ends]),
        tag("g", [mark for mark, _ in badges]),
        tag("g", [_node(drawing, node) for node in drawing.places if node in ends]),
        tag("g", _labels(drawing, [box for _, box in badges])),
    )


def hidden_hosts(run: SessionRun) -> int:
    """Hosts that carry nothing of the stream: they are left out of the drawing."""
    hosts: int = sum(n.get("kind") == "host" for n in run.session.network.get("nodes", ()))
    return hosts - len(_drawn_hosts(run))


def link_title(load: LinkLoad, faults: Sequence[tuple[int, FaultRecord]], layers: int) -> str:
    """What the pointer shows of a link: load, layer, label intervals, and each fault with both losses."""
    words = f"{printable(load.label)}: load {exact(load.load)}"
    if load.layer:
        words += f", layer {load.layer} of {layers}"
    if load.intervals:
        words += f", {len(load.intervals)} label interval{'s' if len(load.intervals) > 1 else ''}"
    for number, fault in faults:
        words += f"\nfault {number} ({fault.kind}): "
        if fault.skipped:
            words += f"skipped, {fault.skipped}"
        else:
            words += f"loss predicted {percent(fault.predicted_loss)}, measured {percent(fault.measured_loss)}"
    return words


def shape_words(link: Json) -> tuple[str, str]:
    """Capacity and delay of a link as a network's document has it, and behind the delay what impairs it."""
    capacity, delay_s = link.get("capacity_bps"), link.get("delay_s")
    heading, factor = column("capacity_bps", [capacity])
    written = NOTHING if capacity is None else f"{cell(capacity, factor)} {heading.partition('(')[2].rstrip(')')}"
    delay = "none" if not delay_s else f"{cell(1e3 * delay_s)} ms"
    impaired = link.get("impairments")
    return written, f"{delay}; {to_text(known_impairments(impaired))}" if impaired else delay


def shaped_links(network: Json) -> dict[tuple[str, str, int], Json]:
    """(source, target, key) -> the link of a network's document; in an undirected one each stands for both
    directions."""
    found = {(li["source"], li["target"], li.get("key", 0)): li for li in network.get("links", ())}
    if network.get("directed", True):
        return found
    return {(b, a, key): link for (a, b, key), link in found.items()} | found


def link_words(network: Json) -> str:
    """Capacities and delays of all links in one sentence: what they share, or from what to what they go.

    >>> link_words({"links": [{"capacity_bps": 1e7, "delay_s": 0.0}, {"capacity_bps": 2e7, "delay_s": 0.0}]})
    'Links carry 10 Mbit/s to 20 Mbit/s; delay: none.'
    """
    links = list(network.get("links", ()))
    if not links:
        return ""
    by = [sorted(links, key=lambda link: link.get(name) or 0.0) for name in ("capacity_bps", "delay_s")]
    capacity, delay = (
        list(dict.fromkeys((shape_words(one[0])[k], shape_words(one[-1])[k]))) for k, one in enumerate(by)
    )
    return f"Links carry {' to '.join(capacity)}; delay: {' to '.join(delay)}."


def exact(load: Fraction) -> str:
    """A load as a fraction where that is short, and as per cent."""
    written = f"{load.numerator}/{load.denominator}" if load.denominator > 1 else str(load.numerator)
    return f"{written} = {percent(float(load))}" if len(written) <= 11 else percent(float(load))


def _busy_nodes(run: SessionRun) -> set[str]:
    session = run.session
    return {session.source, session.sink} | {n for link in session.links for n in (link.source, link.target)}


def _drawn_hosts(run: SessionRun) -> set[str]:
    session = run.session
    busy = _busy_nodes(run)
    return {str(n["id"]) for n in session.network.get("nodes", ()) if n.get("kind") == "host" and n["id"] in busy}


def _place(run: SessionRun, layout: NetworkLayout, width: int, height: int) -> _Drawing:
    session, near = run.session, layout.places
    hosts = _drawn_hosts(run)
    links = [li for li in session.network.get("links", ()) if li["source"] in near and li["target"] in near]
    pairs = [(li["source"], li["target"]) for li in links]
    neighbour = {a: b for a, b in (*pairs, *((b, a) for a, b in pairs)) if a in hosts and b not in hosts}
    margin = 34.0 if width > 500 else 30.0
    places = fit(near, width, height, margin)
    places = push_hosts_out(places, sorted(hosts), neighbour, 26.0)
    loaded = [load for load in session.links if load.source in places and load.target in places]
    busy_pairs = {frozenset((load.source, load.target)) for load in loaded}
    idle_pairs = dict.fromkeys(frozenset((li["source"], li["target"])) for li in links)
    idle = [sorted(pair) for pair in idle_pairs if pair not in busy_pairs and len(pair) == 2]
    middle = (width / 2, height / 2)
    return _Drawing(
        run=run,
        shapes=shaped_links(session.network),
        width=width,
        height=height,
        places=places,
        hosts=frozenset(hosts),
        lines=tuple((load, bend_around(line, places.values(), middle)) for load, line in _lines(loaded, places)),
        idle=tuple(bend_around(Line(a=places[a], b=places[b]), places.values(), middle) for a, b in idle),
        crowded=len(near) > CROWD,
    )


def _lines(loads: Sequence[LinkLoad], places: Mapping[str, Point]) -> list[tuple[LinkLoad, Line]]:
    """Lines of loaded links, light ones first; those between the same two nodes lie side by side."""
    groups: dict[frozenset[str], list[LinkLoad]] = {}
    for load in loads:
        groups.setdefault(frozenset((load.source, load.target)), []).append(load)
    found = []
    for pair, members in groups.items():
        low, high = sorted(pair)
        (x0, y0), (x1, y1) = places[low], places[high]
        length = math.hypot(x1 - x0, y1 - y0) or 1.0
        normal = (-(y1 - y0) / length, (x1 - x0) / length)
        for k, load in enumerate(members):
            aside = (k - (len(members) - 1) / 2) * 11.0
            a, b = (
                (x + normal[0] * aside, y + normal[1] * aside) for x, y in (places[load.source], places[load.target])
            )
            found.append((load, Line(a=a, b=b)))
    return sorted(found, key=lambda pair: pair[0].load)


def _path(line: Line, end: Point | None = None) -> str:
    """SVG path data of a line, up to ``end`` where that is given."""
    (x0, y0), (x1, y1) = line.a, end or line.b
    bend = "L" if line.control is None else f"Q{line.control[0]:.1f} {line.control[1]:.1f} "
    return f"M{x0:.1f} {y0:.1f}{bend}{x1:.1f} {y1:.1f}"


def line_width(load: float, largest: float) -> float:
    """Pixels of a link's line: proportional to its load above a width that can be seen."""
    return THINNEST_PX + (THICKEST_PX - THINNEST_PX) * (load / largest if largest else 0.0)


def _link(drawing: _Drawing, load: LinkLoad, line: Line) -> Markup:
    session = drawing.run.session
    largest = max((float(li.load) for li in session.links), default=1.0)
    layers = max((li.layer for li in session.links), default=0)
    thick = line_width(float(load.load), largest)
    mine = [(n, f) for n, f in enumerate(drawing.run.faults, start=1) if f.link == load.label]
    arrow, end = _arrow(line.control or line.a, line.b, thick, drawing.radius(load.target))
    path = _path(line, end)
    capacity, delay = shape_words(drawing.shapes.get((load.source, load.target, load.key), {}))
    return tag(
        "g",
        tag("title", lines(f"{link_title(load, mine, layers)}\n{capacity}, delay {delay}")),
        tag("path", class_="hit", d=path),
        tag("path", class_="load", stroke_width=thick, d=path),
        arrow,
        class_=f"link {layer_class(load.layer, layers)}",
        data_link=load.label,
    )


def _arrow(a: Point, b: Point, thick: float, radius: float) -> tuple[Markup | None, Point]:
    """A triangle in front of the target's node (None where the line is too short for one), and where the line ends."""
    length = math.dist(a, b)
    size = 5.0 + thick
    if length < radius + size * 1.6:
        return None, b
    ux, uy = (b[0] - a[0]) / length, (b[1] - a[1]) / length
    tip = (b[0] - ux * (radius + 1.5), b[1] - uy * (radius + 1.5))
    back = (tip[0] - ux * size, tip[1] - uy * size)
    half = 2.4 + thick * 0.75
    points = (tip, (back[0] - uy * half, back[1] + ux * half), (back[0] + uy * half, back[1] - ux * half))
    shape = tag("polygon", class_="arrow", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points))
    return shape, (tip[0] - ux * size / 2, tip[1] - uy * size / 2)


def _node(drawing: _Drawing, node: str) -> Markup:
    session = drawing.run.session
    x, y = drawing.places[node]
    radius = drawing.radius(node)
    role = "source" if node == session.source else "sink" if node == session.sink else ""
    kind = "host" if node in drawing.hosts else "switch"
    title = tag("title", f"{kind} {node}" + (f", {role} of the stream" if role else ""))
    if role:
        size = radius * 0.9
        square = tag("rect", x=x - size, y=y - size, width=2 * size, height=2 * size, rx=2)
        return tag("g", title, square, _role_mark(role, x, y), class_=f"node {role}")
    return tag("g", title, tag("circle", cx=x, cy=y, r=radius), class_=f"node {kind}")


def _role_mark(role: str, x: float, y: float) -> Markup:
    """A triangle out of the source, a square into the sink: distinct without colour."""
    if role == "source":
        return tag("path", class_="mark", d=f"M{x - 2.5:.1f} {y - 4:.1f}l6 4l-6 4z")
    return tag("rect", class_="mark", x=x - 3, y=y - 3, width=6, height=6)


def _badges(drawing: _Drawing) -> list[tuple[Markup, Box]]:
    lines = {load.label: line for load, line in drawing.lines}
    shown: dict[str, list[tuple[int, FaultRecord]]] = {}
    for number, fault in enumerate(drawing.run.faults, start=1):
        if fault.skipped is None and fault.link in lines:
            shown.setdefault(fault.link, []).append((number, fault))
    session = drawing.run.session
    # In a crowd a badge may cover a node that is not an end of the stream; elsewhere none.
    clear = [n for n in drawing.places if not drawing.crowded or n in (session.source, session.sink)]
    taken = [around(drawing.places[n], drawing.radius(n)) for n in clear]
    points = place_badges([lines[label] for label in shown], taken, BADGE_PX)
    layers = max((li.layer for li in session.links), default=0)
    loads = {li.label: li for li in session.links}
    marks: list[tuple[Markup, Box]] = []
    for (label, faults), (at, roomy) in zip(shown.items(), points, strict=True):
        title = link_title(loads[label], faults, layers)
        mark = (_badge(faults, at, title, roomy=roomy), around(at, BADGE_PX if roomy else DOT_PX))
        marks.insert(len(marks) if roomy else 0, mark)  # rings below, numbers on top
    return marks


def _badge(faults: Sequence[tuple[int, FaultRecord]], at: Point, title: str, *, roomy: bool) -> Markup:
    """A disc with the number of the link's first fault; a dot without it where there is no room."""
    words = str(faults[0][0]) + ("+" if len(faults) > 1 else "")
    bad = any(fault.holds is False for _, fault in faults)
    number = tag("text", words, x=at[0], y=at[1], font_size=10.0 if len(words) < 3 else 8.5)
    return tag(
        "g",
        tag("title", lines(title)),
        tag("circle", cx=at[0], cy=at[1], r=BADGE_PX if roomy else DOT_PX),
        number if roomy else None,
        class_="badge" + (" bad" if bad else ""),
        data_fault=" ".join(f"{fault.session}-{n}" for n, fault in faults),
    )


def _labels(drawing: _Drawing, badges: Sequence[Box]) -> list[Markup]:
    session = drawing.run.session
    through: dict[str, float] = {}
    for load, _ in drawing.lines:
        for node in (load.source, load.target):
            through[node] = through.get(node, 0.0) + float(load.load)
    ends = (session.source, session.sink)
    ordered = [n for n in dict.fromkeys(ends) if n in drawing.places]
    ordered += sorted((n for n in through if n not in ends and n in drawing.places), key=lambda n: (-through[n], n))
    if not drawing.crowded:
        ordered += [n for n in drawing.places if n not in through and n not in ends]
    lines = [line for _, line in drawing.lines] + (list(drawing.idle) if len(drawing.idle) <= 40 else [])
    labels = place_labels(
        [(n, drawing.radius(n)) for n in ordered],
        drawing.places,
        Room(
            frame=Box(left=2, top=2, right=drawing.width - 2, bottom=drawing.height - 2),
            taken=[*(around(p, drawing.radius(n)) for n, p in drawing.places.items()), *badges],
            lines=[piece for line in lines for piece in line.segments()],
        ),
        font_px=FONT_PX,
        must=frozenset(ends),
        most_crossings=0 if drawing.crowded else 1,
    )
    return [
        tag(
            "text",
            label.node,
            x=label.at[0],
            y=label.at[1],
            text_anchor=label.anchor,
            class_="name end" if label.node in ends else "name",
        )
        for label in labels
    ]
