"""What a stream or demo closes with on the terminal: one table a network, prediction beside measurement, then the
verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.model.code_description import describe_stream_code
from testbed.model.naming.printable import printable
from testbed.model.run_records import FaultRecord, LoadedRun, SessionRun
from testbed.model.stored_runs import RunState
from testbed.report.column_units import NOTHING, half_width, plain
from testbed.report.terminal import Terminal
from testbed.report.wording import (
    MARKS,
    counted,
    fault_mark,
    over_bound,
    ror_is_predicted,
    state_of,
    suspected_cables,
    verdict_reason,
)

STYLES: dict[RunState, str] = {
    "passed": "green",
    "failed": "red",
    "cannot-tell": "yellow",
    "invalid": "yellow",
    "unfinished": "yellow",
}
_FAULT_STYLES = {True: "green", False: "bold red", None: "dim"}


@dataclass(frozen=True, kw_only=True)
class _Column:
    """One column: its heading, what it shows of a fault, and how early it goes where room is short (0: never)."""

    heading: str
    show: Callable[[FaultRecord], str]
    leaves: int = 0
    left: bool = False


def _loss(fault: FaultRecord) -> str:
    if fault.measured_loss is None:
        return NOTHING
    half = half_width(fault.interval)
    return plain(fault.measured_loss * 100).rjust(5) + ("" if half is None else f" ± {half * 100:.2f}")


def _reaction(fault: FaultRecord) -> str:
    if not fault.reacted:
        return "none"
    if fault.reaction_s is None:
        return NOTHING
    off = f" ± {fault.reaction_uncertainty_s * 1000:.1f}" if fault.reaction_uncertainty_s else ""
    return f"{fault.reaction_s * 1000:.0f}{off}"


def _needed(fault: FaultRecord) -> str:
    """N; where labels do not lie as well as they could, with the bound and what they ask for more: "24 = 23+1"."""
    more = over_bound(fault)
    return plain(fault.predicted_block_size) + (f" = {more}" if more else "")


COLUMNS = (
    _Column(heading="link", show=lambda f: f.link, left=True),
    _Column(heading="fault", show=lambda f: f.kind, left=True, leaves=3),
    _Column(heading="pred. %", show=lambda f: f"{f.predicted_loss * 100:.2f}"),
    _Column(heading="measured %", show=_loss),
    _Column(heading="N pred.", show=_needed, leaves=1),
    _Column(heading="meas.", show=lambda f: plain(f.measured_block_size, 1), leaves=1),
    _Column(heading="react. ms", show=_reaction, leaves=2),
    _Column(heading="accused", show=suspected_cables, left=True, leaves=6),
    _Column(heading="undec.", show=lambda f: str(f.undecodable_blocks), leaves=4),
    _Column(heading="late", show=lambda f: str(f.late_packets), leaves=5),
)
GAP = 2
"""Spaces between columns."""


def closing_table(run: LoadedRun | SessionRun, *, width: int | None = None) -> RenderableType:
    """All sessions and the run's verdict (or one session alone), for ``rich`` to print; at most ``width`` columns wide
    (None: as wide as the terminal).

    Columns that do not fit are left out, least important first; link and both losses always stay.
    """
    width = width or Terminal().width
    if isinstance(run, SessionRun):
        return _session(run, width)
    return Group(*(_session(part, width) for part in run.sessions), _verdict_line(run))


def fitting_columns(faults: Sequence[FaultRecord], width: int) -> tuple[list[_Column], int]:
    """The columns that fit next to the mark, and the room of the link's name (cut short where even that is too
    little)."""
    width -= max((len(fault_mark(f)) for f in faults), default=1)

    def room(column: _Column) -> int:
        return max([len(column.heading), *(len(column.show(f)) for f in faults)]) + GAP

    columns = list(COLUMNS)
    while sum(map(room, columns)) > width and any(c.leaves for c in columns):
        first = max(c.leaves for c in columns)
        columns = [c for c in columns if c.leaves != first]
    others = sum(room(c) for c in columns[1:])
    return columns, max(4, min(room(columns[0]), width - others) - GAP)


def _session(part: SessionRun, width: int) -> RenderableType:
    session = part.session
    heading = Text.assemble((printable(session.title), "bold"))
    heading.append(printable(f"  {session.source} to {session.sink}, {session.method}, {session.fabric}"))
    done = [f for f in part.faults if f.skipped is None]
    columns, link_width = fitting_columns(done, width)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    for column in columns:
        most = link_width if column is COLUMNS[0] else None
        side: JustifyMethod = "left" if column.left else "right"
        table.add_column(column.heading, justify=side, overflow="ellipsis", no_wrap=True, max_width=most)
    table.add_column("", no_wrap=True)
    for fault in done:
        mark = Text(fault_mark(fault), _FAULT_STYLES[fault.holds])
        table.add_row(*(Text(printable(column.show(fault))) for column in columns), mark)
    skipped = [f for f in part.faults if f.skipped is not None]
    lines: list[RenderableType] = [heading]
    if table.row_count:
        lines.append(table)
    if skipped:
        reasons = sorted({f.skipped or "" for f in skipped})
        lines.append(Text(f"{counted(len(skipped), 'link')} not failed: {printable('; '.join(reasons))}", "dim"))
    lines.append(_session_line(part))
    return Group(*lines, Text(""))


def _session_line(part: SessionRun) -> Text:
    summary = part.summary
    state = state_of(summary.verdict if summary else None)
    line = Text.assemble((f"{MARKS[state]} {state.replace('-', ' ')}", f"bold {STYLES[state]}"))
    if summary is not None and ror_is_predicted(part):
        infinite = summary.ror_predicted is None and summary.infinite_links
        predicted = "infinite" if infinite else plain(summary.ror_predicted)
        line.append(f"  ROR predicted {predicted}, measured {plain(summary.ror_measured)}")
        words = describe_stream_code(part.session.parameters)
        line.append(f" ({words})" if words else "")
    if state != "passed":
        line.append("\n" + printable(verdict_reason(summary.verdict if summary else None)))
    return line


def _verdict_line(run: LoadedRun) -> Text:
    state = state_of(run.verdict)
    return Text.assemble(
        (f"{MARKS[state]} {state.replace('-', ' ').upper()}", f"bold {STYLES[state]}"),
        "  " + printable(verdict_reason(run.verdict, run.unfinished)),
    )
