"""The timeline of a session: loss and redundancy over time, faults as numbered bands, predictions as dashed lines."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.model.naming.printable import printable
from testbed.model.run_records import FaultRecord, SessionRun, TimelineRecord
from testbed.report.column_units import largest, percent, plain
from testbed.report.drawing.axes import Scale, nice_top, ticks
from testbed.report.markup import Markup, lines, svg, tag

MAX_POINTS = 1200
"""Bins drawn at most; more are drawn together, weighted by the packets sent."""
GAP_PX = 34
TOP_PX = 42
BOTTOM_PX = 36
LEFT_PX = 50
RIGHT_PX = 8


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """One of the two stacked diagrams: its scales, what it is called, the unit of its marks."""

    title: str
    across: Scale
    down: Scale
    marks: tuple[float, ...]

    @property
    def top(self) -> float:
        return self.down.stop

    @property
    def bottom(self) -> float:
        return self.down.start


def timeline_figure(run: SessionRun, *, width: int, height: int) -> Markup | None:
    """Both panels as one SVG of that size in pixels; None where the session has no timeline."""
    timeline = run.timeline
    if timeline is None or not timeline.t_s:
        return None
    series = gathered(timeline, MAX_POINTS)
    panels = _panels(run, series, width, height)
    loss, redundancy = panels
    faults = [(n, f) for n, f in enumerate(run.faults, start=1) if f.skipped is None]
    base = _base_redundancy(run)
    parts = [
        [_band(loss, redundancy, number, fault) for number, fault in faults],
        [_frame(panel, last=panel is redundancy) for panel in panels],
        _steps(loss, series.t_s, series.loss, series.bin_s, "loss"),
        _steps(redundancy, series.t_s, series.redundancy, series.bin_s, "redundancy"),
        [_prediction(loss, fault, fault.predicted_loss) for _, fault in faults],
        [_prediction(redundancy, fault, _predicted_redundancy(run, fault)) for _, fault in faults],
        [_resting(redundancy, base)] if base is not None else [],
        _band_numbers(loss, faults),
    ]
    until = plain(drawn_until_s(run), 1)
    words = f"{run.session.title}: loss and redundancy over {until} s, {len(faults)} faults"
    return svg("timeline", (width, height), words, parts)


def drawn_until_s(run: SessionRun) -> float:
    """Where the timeline's axis ends: of a run that is over when its last packet was sent or its last fault ended,
    since in its playback buffer, 8 s of slow streams, nothing is sent; of one that goes on at the end that is
    planned."""
    timeline = run.timeline
    if timeline is None or not timeline.t_s:
        return 0.0
    sent = [t for t, pps in zip(timeline.t_s, timeline.sent_pps, strict=True) if pps > 0] if run.summary else []
    return float(max([(sent or timeline.t_s)[-1] + timeline.bin_s, *(f.stop_s for f in run.faults)]))


def gathered(timeline: TimelineRecord, most: int) -> TimelineRecord:
    """The timeline in at most so many bins: neighbouring bins drawn together, each weighted by its packets."""
    size = -(-len(timeline.t_s) // most)
    if size <= 1:
        return timeline

    def mean(values: Sequence[float | None], at: int) -> float | None:
        chosen = [(v, w) for v, w in zip(values[at : at + size], timeline.sent_pps[at : at + size], strict=True)]
        weight = sum(w for v, w in chosen if v is not None)
        return sum(v * w for v, w in chosen if v is not None) / weight if weight else None

    starts = range(0, len(timeline.t_s), size)
    return TimelineRecord(
        session=timeline.session,
        bin_s=timeline.bin_s * size,
        t_s=tuple(timeline.t_s[i] for i in starts),
        sent_pps=tuple(sum(chunk) / len(chunk) for i in starts if (chunk := timeline.sent_pps[i : i + size])),
        loss=tuple(mean(timeline.loss, i) for i in starts),
        block_size=tuple(mean(timeline.block_size, i) for i in starts),
        redundancy=tuple(mean(timeline.redundancy, i) for i in starts),
    )


def source_packets(run: SessionRun) -> float | None:
    """M of the session's code, from its parameters."""
    value = run.session.parameters.get("source_packets")
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def _predicted_redundancy(run: SessionRun, fault: FaultRecord) -> float | None:
    m = source_packets(run)
    return None if m is None or fault.predicted_block_size is None else fault.predicted_block_size / m - 1


def _base_redundancy(run: SessionRun) -> float | None:
    m, base = source_packets(run), run.summary.base_block_size if run.summary else None
    return None if m is None or base is None else base / m - 1


def _panels(run: SessionRun, series: TimelineRecord, width: int, height: int) -> tuple[_Panel, _Panel]:
    across = Scale(low=0, high=drawn_until_s(run), start=LEFT_PX, stop=width - RIGHT_PX)
    room = (height - TOP_PX - BOTTOM_PX - GAP_PX) / 2
    most_loss = max(largest(series.loss), largest([f.predicted_loss for f in run.faults if f.skipped is None]), 0.01)
    most_more = max(largest(series.redundancy), largest([_predicted_redundancy(run, f) for f in run.faults]), 0.05)
    found = []
    for k, (title, most) in enumerate((("Packets lost", most_loss), ("Redundancy N/M − 1", most_more))):
        top, end_value = TOP_PX + k * (room + GAP_PX), nice_top(most, 5)
        down = Scale(low=0, high=end_value, start=top + room, stop=top)
        found.append(_Panel(title=title, across=across, down=down, marks=ticks(0, end_value, 5)))
    return found[0], found[1]


def _frame(panel: _Panel, *, last: bool) -> list[Markup]:
    left, right = panel.across.start, panel.across.stop
    parts = []
    for mark in panel.marks:
        y = panel.down(mark)
        parts.append(tag("line", class_="axis" if mark == 0 else "grid", x1=left, x2=right, y1=y, y2=y))
        parts.append(tag("text", f"{plain(mark * 100, 1)} %", class_="tick", x=left - 6, y=y, text_anchor="end"))
    # The first panel's title stands above the row of fault numbers.
    aside = 12 if last else 30
    parts.append(tag("text", panel.title, class_="axis-title", x=left, y=panel.top - aside))
    for mark in ticks(0, panel.across.high, max(4, int((right - left) / 80))):
        x = panel.across(mark)
        parts.append(tag("line", class_="axis", x1=x, x2=x, y1=panel.bottom, y2=panel.bottom + 4))
        if last:
            label = tag("text", plain(mark, 1), class_="tick", x=x, y=panel.bottom + 14, text_anchor="middle")
            parts.append(label)
    if last:
        words = "seconds since the stream’s start"
        parts.append(tag("text", words, class_="tick", x=right, y=panel.bottom + 29, text_anchor="end"))
    return parts


def _steps(
    panel: _Panel, times: Sequence[float], values: Sequence[float | None], bin_s: float, name: str
) -> list[Markup]:
    """A line of steps and the area under it, broken where there is no value."""
    pieces: list[list[str]] = []
    areas: list[str] = []
    zero = panel.down(0)
    piece: list[str] = []
    start = 0.0
    for k in range(len(times) + 1):
        value = values[k] if k < len(times) else None
        if value is None:
            if piece:
                pieces.append(piece)
                areas.append(f"M{start:.1f} {zero:.1f}V{piece[0].split(' ')[1]}{''.join(piece[1:])}V{zero:.1f}Z")
            piece = []
            continue
        x, y = panel.across(times[k]), panel.down(min(value, panel.down.high))
        if not piece:
            start = x
            piece = [f"M{x:.1f} {y:.1f}"]
        else:
            piece.append(f"V{y:.1f}")
        piece.append(f"H{panel.across(times[k] + bin_s):.1f}")
    return [
        tag("path", class_=f"area {name}", d="".join(areas)),
        tag("path", class_=f"steps {name}", d="".join("".join(p) for p in pieces)),
    ]


def _band(loss: _Panel, redundancy: _Panel, number: int, fault: FaultRecord) -> Markup:
    left, right = loss.across(fault.start_s), loss.across(fault.stop_s)
    words = (
        f"fault {number}: {printable(fault.link)} {fault.kind}, {plain(fault.start_s, 1)} s to"
        f" {plain(fault.stop_s, 1)} s\n"
        f"loss predicted {percent(fault.predicted_loss)}, measured {percent(fault.measured_loss)}"
    )
    box = {"x": left, "width": max(1.0, right - left), "y": loss.top - 4, "height": redundancy.bottom - loss.top + 4}
    return tag(
        "g", tag("title", lines(words)), tag("rect", **box), class_="band", data_fault=f"{fault.session}-{number}"
    )


def _band_numbers(panel: _Panel, faults: Sequence[tuple[int, FaultRecord]]) -> list[Markup]:
    """Each band's number above it, where it does not run into the one before."""
    parts: list[Markup] = []
    clear_from = panel.across.start - 8
    for number, fault in faults:
        middle = (panel.across(fault.start_s) + panel.across(fault.stop_s)) / 2
        half = 4.0 * len(str(number)) + 1
        y = panel.top - 11
        if middle - half < clear_from:
            continue
        name, about = "band-number" + (" bad" if fault.holds is False else ""), f"{fault.session}-{number}"
        parts.append(tag("text", number, class_=name, x=middle, y=y, data_fault=about))
        clear_from = middle + half
    return parts


def _prediction(panel: _Panel, fault: FaultRecord, value: float | None) -> Markup | None:
    if value is None:
        return None
    y = panel.down(min(value, panel.down.high))
    ends = {"x1": panel.across(fault.start_s), "x2": panel.across(fault.stop_s)}
    return tag("line", class_="predicted", y1=y, y2=y, **ends)


def _resting(panel: _Panel, value: float) -> Markup:
    y = panel.down(min(value, panel.down.high))
    return tag("line", class_="resting", x1=panel.across.start, x2=panel.across.stop, y1=y, y2=y)
