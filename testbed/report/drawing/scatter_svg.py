"""Predicted against measured: one mark a fault, whiskers where there is an interval, the diagonal where both agree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from testbed.model.naming.printable import printable
from testbed.model.run_records import SessionRun
from testbed.report.column_units import percent, plain
from testbed.report.drawing.axes import Scale, nice_top, ticks
from testbed.report.markup import Markup, lines, svg, tag

LEFT_PX = 52
BOTTOM_PX = 40
TOP_PX = 26
RIGHT_PX = 12


@dataclass(frozen=True, kw_only=True)
class ScatterPoint:
    """One fault: predicted and measured value, where the true (or allowed) value lies, and whether both agree."""

    fault: str
    title: str
    predicted: float
    measured: float
    interval: tuple[float, float] | None
    holds: bool


def loss_points(run: SessionRun) -> tuple[ScatterPoint, ...]:
    """Loss of every fault that was measured, as fractions."""
    return tuple(
        ScatterPoint(
            fault=f"{f.session}-{n}",
            title=f"fault {n}: {printable(f.link)} {f.kind}\n"
            f"predicted {percent(f.predicted_loss)}, measured {percent(f.measured_loss)}",
            predicted=f.predicted_loss,
            measured=f.measured_loss,
            interval=f.interval,
            holds=f.loss_agrees,
        )
        for n, f in enumerate(run.faults, start=1)
        if f.measured_loss is not None and f.skipped is None
    )


def size_points(run: SessionRun) -> tuple[ScatterPoint, ...]:
    """Block size of every fault that has both; the interval is the range that the sender may settle in."""
    return tuple(
        ScatterPoint(
            fault=f"{f.session}-{n}",
            title=f"fault {n}: {printable(f.link)} {f.kind}\nN predicted {plain(f.predicted_block_size)}, "
            f"measured {plain(f.measured_block_size)}"
            + (f", allowed {plain(f.size_range[0])} to {plain(f.size_range[1])}" if f.size_range else ""),
            predicted=f.predicted_block_size,
            measured=f.measured_block_size,
            interval=f.size_range,
            holds=f.size_range is None or f.size_range[0] - 0.5 <= f.measured_block_size <= f.size_range[1] + 0.5,
        )
        for n, f in enumerate(run.faults, start=1)
        if f.measured_block_size is not None and f.predicted_block_size is not None and f.skipped is None
    )


def loss_scatter(run: SessionRun, *, side: int) -> Markup | None:
    """Losses in per cent; None where none was measured."""
    points = loss_points(run)
    if not points:
        return None
    top = nice_top(max(max(p.measured, p.predicted, p.interval[1] if p.interval else 0) for p in points), 6)
    words = f"{run.session.title}: measured loss against predicted, {len(points)} faults"
    axis = _Axis(low=0.0, high=top, quantity="loss", write=lambda v: f"{plain(v * 100, 1)} %")
    return _scatter(points, axis, side, words)


def size_scatter(run: SessionRun, *, side: int) -> Markup | None:
    """Block sizes N in packets; None where none was measured."""
    points = size_points(run)
    if not points:
        return None
    values = [v for p in points for v in (p.measured, p.predicted, *(p.interval or ()))]
    low, high = min(values), max(values)
    room = max(2.0, (high - low) * 0.08)
    words = f"{run.session.title}: measured block size against predicted, {len(points)} faults"
    axis = _Axis(low=max(0.0, low - room), high=high + room, quantity="block size N", write=lambda v: plain(v, 1))
    return _scatter(points, axis, side, words)


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Both axes of a scatter: the same range, the same quantity, its values written the same way."""

    low: float
    high: float
    quantity: str
    write: Callable[[float], str]


def _scatter(points: Sequence[ScatterPoint], axis: _Axis, side: int, words: str) -> Markup:
    low, high = axis.low, axis.high
    across = Scale(low=low, high=high, start=LEFT_PX, stop=side - RIGHT_PX)
    down = Scale(low=low, high=high, start=side - BOTTOM_PX, stop=TOP_PX)
    parts: list[Markup] = []
    for mark in ticks(low, high, 6):
        x, y = across(mark), down(mark)
        parts.append(tag("line", class_="grid", x1=across.start, x2=across.stop, y1=y, y2=y))
        parts.append(tag("line", class_="grid", x1=x, x2=x, y1=down.start, y2=down.stop))
        parts.append(tag("text", axis.write(mark), class_="tick", x=across.start - 6, y=y, text_anchor="end"))
        parts.append(tag("text", axis.write(mark), class_="tick", x=x, y=down.start + 13, text_anchor="middle"))
    diagonal = {"x1": across(low), "y1": down(low), "x2": across(high), "y2": down(high)}
    parts.append(tag("line", class_="diagonal", **diagonal))
    parts.append(tag("text", f"Measured {axis.quantity}", class_="axis-title", x=across.start, y=TOP_PX - 14))
    parts.append(tag("text", f"Predicted {axis.quantity}", class_="tick", x=across.stop, y=side - 9, text_anchor="end"))
    whiskers = [_whisker(p, across, down, (low, high)) for p in points]
    return svg("scatter", (side, side), words, parts, whiskers, [_mark(p, across, down) for p in points])


def _whisker(point: ScatterPoint, across: Scale, down: Scale, ends: tuple[float, float]) -> Markup | None:
    if point.interval is None:
        return None
    x = across(point.predicted)
    bottom, top = (down(min(max(v, ends[0]), ends[1])) for v in point.interval)
    return tag("path", class_="whisker", d=f"M{x - 3:.1f} {bottom:.1f}h6m-3 0V{top:.1f}m-3 0h6")


def _mark(point: ScatterPoint, across: Scale, down: Scale) -> Markup:
    """A disc where both agree, a cross where they do not."""
    x, y = across(point.predicted), down(point.measured)
    if point.holds:
        mark = tag("circle", cx=x, cy=y, r=4.0)
    else:
        mark = tag("path", d=f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10")
    name = "point" if point.holds else "point bad"
    return tag("g", tag("title", lines(point.title)), mark, class_=name, data_fault=point.fault)
