"""How a drawing uses its room: nodes fitted into it, lines bent, labels and badges placed; pure and deterministic, in
pixels.

Where nodes lie relative to each other is decided in ``node_places``.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.report.drawing.node_positions import Point

MAX_STRETCH = 4.0
"""How much wider than high (or the reverse) the drawing may be pulled to use the room that there is."""
CHARACTER_WIDTH = 0.58
"""Mean width of a character over its font size, on the generous side."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle in pixels: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def holds(self, other: "Box") -> bool:
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )


def around(at: Point, radius: float) -> Box:
    """The square of that half side around a point."""
    return Box(left=at[0] - radius, top=at[1] - radius, right=at[0] + radius, bottom=at[1] + radius)


@dataclass(frozen=True, kw_only=True)
class Line:
    """From ``a`` to ``b``, straight, or bent towards ``control`` (a quadratic Bezier curve)."""

    a: Point
    b: Point
    control: Point | None = None

    def at(self, t: float) -> Point:
        """The point at t in [0, 1]."""
        c = self.control or ((self.a[0] + self.b[0]) / 2, (self.a[1] + self.b[1]) / 2)
        u = 1 - t
        return tuple(u * u * p + 2 * u * t * q + t * t * r for p, q, r in zip(self.a, c, self.b, strict=True))  # type: ignore[return-value]

    def segments(self) -> tuple[tuple[Point, Point], ...]:
        """The line as straight pieces."""
        if self.control is None:
            return ((self.a, self.b),)
        points = [self.at(k / 8) for k in range(9)]
        return tuple(itertools.pairwise(points))


def bend_around(line: Line, nodes: Iterable[Point], middle: Point) -> Line:
    """The line bent away from the drawing's middle where another node is on it (wrap-around links of a torus), so that
    it is not taken for links from node to node."""
    (x0, y0), (x1, y1) = line.a, line.b
    length = math.dist(line.a, line.b)
    if length < 1 or not any(_lies_on(node, line, length) for node in nodes):
        return line
    normal = (-(y1 - y0) / length, (x1 - x0) / length)
    half = ((x0 + x1) / 2, (y0 + y1) / 2)
    outwards = normal[0] * (half[0] - middle[0]) + normal[1] * (half[1] - middle[1])
    # The same side for both directions of a link through the middle: the sign of the normal alone would swap it.
    side = math.copysign(1.0, outwards) if abs(outwards) > 1 else math.copysign(1.0, normal[0] + normal[1] / 2)
    reach = side * min(0.2 * length, 46.0)
    return Line(a=line.a, b=line.b, control=(half[0] + normal[0] * reach, half[1] + normal[1] * reach))


def _lies_on(node: Point, line: Line, length: float) -> bool:
    dx, dy = (line.b[0] - line.a[0]) / length, (line.b[1] - line.a[1]) / length
    px, py = node[0] - line.a[0], node[1] - line.a[1]
    along = px * dx + py * dy
    return 3 < along < length - 3 and abs(px * dy - py * dx) < 2.5


def fit(places: Mapping[str, Point], width: float, height: float, margin: float) -> dict[str, Point]:
    """Scaled into the box with y downwards; one axis is pulled at most ``MAX_STRETCH`` times more than the other."""
    if not places:
        return {}
    xs, ys = [p[0] for p in places.values()], [p[1] for p in places.values()]
    spans = (max(xs) - min(xs), max(ys) - min(ys))
    rooms = (width - 2 * margin, height - 2 * margin)
    tiny = 1e-9
    scales = [room / span if span > tiny else math.inf for room, span in zip(rooms, spans, strict=True)]
    least = min(scales)
    if not math.isfinite(least):
        least = 1.0
    across, down = (min(s, least * MAX_STRETCH) for s in scales)
    middle = ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
    return {
        i: (width / 2 + (x - middle[0]) * across, height / 2 - (y - middle[1]) * down) for i, (x, y) in places.items()
    }


def surroundings(places: Mapping[str, Point], route: Iterable[str]) -> dict[str, Point]:
    """The nodes in and near the box that the route's nodes span; all of them where that box is most of the drawing."""
    on_route = [places[n] for n in route if n in places]
    if not on_route:
        return dict(places)
    retained = dict(places)
    bounds, spans, wholes = [], [], []
    for axis in (0, 1):
        ours, all_of_them = [p[axis] for p in on_route], [p[axis] for p in places.values()]
        bounds.append((min(ours), max(ours)))
        spans.append(max(ours) - min(ours))
        wholes.append(max(all_of_them) - min(all_of_them))
    room = max(spans) * 0.4
    if max(spans) <= 0 or all(s + 2 * room > 0.75 * w for s, w in zip(spans, wholes, strict=True)):
        return retained
    return {
        n: p
        for n, p in retained.items()
        if all(low - room <= p[k] <= high + room for k, (low, high) in enumerate(bounds))
    }


def push_hosts_out(
    places: Mapping[str, Point], hosts: Iterable[str], neighbour: Mapping[str, str], reach: float
) -> dict[str, Point]:
    """Hosts that lie on their switch are moved ``reach`` pixels off it, away from the drawing's middle, fanned out."""
    moved = dict(places)
    if not places:
        return moved
    middle = (sum(x for x, _ in places.values()) / len(places), sum(y for _, y in places.values()) / len(places))
    fans: dict[str, int] = {}
    for host in hosts:
        switch = neighbour.get(host)
        if switch is None or math.dist(places[host], places[switch]) > reach / 2:
            continue
        x, y = places[switch]
        turn = fans.get(switch, 0)
        fans[switch] = turn + 1
        angle = math.atan2(y - middle[1], x - middle[0]) + (-1) ** turn * ((turn + 1) // 2) * 0.7
        moved[host] = (x + reach * math.cos(angle), y + reach * math.sin(angle))
    return moved


def text_box(at: Point, words: str, font_px: float, anchor: str) -> Box:
    """The room that a line of text takes whose middle height is at ``at``; anchor is start, middle or end."""
    wide, high = len(words) * font_px * CHARACTER_WIDTH, font_px * 1.1
    left = at[0] - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
    return Box(left=left, top=at[1] - high / 2, right=left + wide, bottom=at[1] + high / 2)


@dataclass(frozen=True, kw_only=True)
class Label:
    """A node's name where it fits: the text's anchor point (vertical middle) and SVG ``text-anchor``."""

    node: str
    at: Point
    anchor: str


@dataclass(frozen=True, kw_only=True)
class Room:
    """Where labels may go: inside ``frame``, on none of the boxes that are ``taken``, and rather not over ``lines``."""

    frame: Box
    taken: Sequence[Box]
    lines: Sequence[tuple[Point, Point]]


def place_labels(
    required: Sequence[tuple[str, float]],
    places: Mapping[str, Point],
    room: Room,
    *,
    font_px: float,
    must: frozenset[str] = frozenset(),
    most_crossings: int = 1,
) -> tuple[Label, ...]:
    """Labels for the nodes (id, radius) in order of importance, none over another, a node or a badge.

    A label may cross at most ``most_crossings`` lines, else it is left out; those in ``must`` are drawn all the same.
    Cost: nodes x 8 places x (taken + lines).
    """
    busy = list(room.taken)
    placed: list[Label] = []
    for node, radius in required:
        best: tuple[tuple[bool, int, int], Label, Box] | None = None
        for rank, (at, anchor) in enumerate(_candidates(places[node], radius + 4)):
            box = text_box(at, node, font_px, anchor)
            clash = not room.frame.holds(box) or any(box.meets(other) for other in busy)
            crossings = sum(_crosses(box, line) for line in room.lines)
            key = (clash, crossings, rank)
            if best is None or key < best[0]:
                best = (key, Label(node=node, at=at, anchor=anchor), box)
            if not clash and not crossings:
                break
        assert best is not None
        (clash, crossings, _), label, box = best
        if node in must or (not clash and crossings <= most_crossings):
            placed.append(label)
            busy.append(box)
    return tuple(placed)


def _candidates(at: Point, gap: float) -> tuple[tuple[Point, str], ...]:
    x, y = at
    slant = gap * 0.75
    return (
        ((x, y - gap - 5), "middle"),
        ((x, y + gap + 5), "middle"),
        ((x + gap, y), "start"),
        ((x - gap, y), "end"),
        ((x + slant, y - slant - 2), "start"),
        ((x - slant, y - slant - 2), "end"),
        ((x + slant, y + slant + 2), "start"),
        ((x - slant, y + slant + 2), "end"),
    )


def _crosses(box: Box, line: tuple[Point, Point]) -> bool:
    """Whether a segment passes through the box (Liang and Barsky's clipping)."""
    (x0, y0), (x1, y1) = line
    dx, dy = x1 - x0, y1 - y0
    enter, leave = 0.0, 1.0
    for p, q in ((-dx, x0 - box.left), (dx, box.right - x0), (-dy, y0 - box.top), (dy, box.bottom - y0)):
        if p == 0:
            if q < 0:
                return False
            continue
        at = q / p
        if p < 0:
            enter = max(enter, at)
        else:
            leave = min(leave, at)
    return enter <= leave


def place_badges(lines: Sequence[Line], taken: Sequence[Box], radius: float) -> tuple[tuple[Point, bool], ...]:
    """One point on each line, near its middle, and whether a badge of that radius has room there; deterministic."""
    busy = list(taken)
    found: list[tuple[Point, bool]] = []
    for line in lines:
        options = [line.at(t) for t in (0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.26, 0.74)]
        at = next((p for p in options if not any(around(p, radius).meets(b) for b in busy)), None)
        found.append((options[0] if at is None else at, at is not None))
        if at is not None:
            busy.append(around(at, radius))
    return tuple(found)
