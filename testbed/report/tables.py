"""The closing tables of a stream or demo on the terminal: prediction, measurement and verdict."""

from collections.abc import Callable
from operator import attrgetter

from rich.console import Group, RenderableType
from rich.text import Text

from testbed.model.code_description import describe_stream_code
from testbed.model.naming.printable import printable
from testbed.model.run_records import FaultRecord, LoadedRun, SessionRun
from testbed.model.stored_runs import RunState
from testbed.report.answers import Table as ValueTable
from testbed.report.column_units import NOTHING, half_width, plain
from testbed.report.terminal import Terminal, lay_out
from testbed.report.wording import (
    MARKS,
    fault_mark,
    over_bound,
    packet_lines,
    ror_is_predicted,
    ror_words,
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
# By the outcome of a fault: passed, failed, not judged.
_FAULT_STYLES = {True: "green", False: "bold red", None: "dim"}


def _loss(fault: FaultRecord) -> str:
    if fault.measured_loss is None:
        return NOTHING
    text = plain(fault.measured_loss * 100).rjust(5)
    half = half_width(fault.interval)
    if half is not None:
        text += f" ± {half * 100:.2f}"
    return text


def _reaction(fault: FaultRecord) -> str:
    if not fault.sender_reacted:
        return "none"
    if fault.reaction_s is None:
        return NOTHING
    text = f"{fault.reaction_s * 1000:.0f}"
    if fault.reaction_uncertainty_s:
        text += f" ± {fault.reaction_uncertainty_s * 1000:.1f}"
    return text


def _block_size(fault: FaultRecord) -> str:
    """Return the predicted N, with the bound and the excess if it exceeds it: "24 = 23+1"."""
    text = plain(fault.predicted_block_size)
    excess = over_bound(fault)
    return f"{text} = {excess}" if excess else text


# Heading -> contents of its column. The last column is the outcome of the fault's checks.
COLUMNS: dict[str, Callable[[FaultRecord], object]] = {
    "link": attrgetter("link"),
    "fault": attrgetter("kind"),
    "pred. %": lambda fault: f"{fault.predicted_loss * 100:.2f}",
    "measured %": _loss,
    "N pred.": _block_size,
    "meas.": lambda fault: plain(fault.measured_block_size, 1),
    "react. ms": _reaction,
    "suspected": suspected_cables,
    "undec.": attrgetter("undecodable_blocks"),
    "late": attrgetter("late_packets"),
    "": lambda fault: Text(fault_mark(fault), _FAULT_STYLES[fault.passed]),
}
# Columns that are left out first if the terminal is too narrow.
SPARE = ("suspected", "late", "undec.", "fault", "react. ms", "meas.", "N pred.")


def closing_table(run: LoadedRun | SessionRun, *, width: int | None = None) -> RenderableType:
    """Return the tables of all streams and the verdict of the run, for ``rich`` to print.

    Args:
        run: A run, or one stream of it, whose table alone is returned.
        width: Largest width in columns. By default it is the width of the terminal, and without
            limit in a pipe.
    """
    limit = width or Terminal().limit
    if isinstance(run, SessionRun):
        return _stream_table(run, limit)
    tables = [_stream_table(part, limit) for part in run.sessions]
    return Group(*tables, _verdict_line(run))


def _stream_table(part: SessionRun, width: int | None) -> RenderableType:
    session = part.session
    ends = f"{session.source} to {session.sink}"
    details = f"{session.method}, {session.fabric}"
    # A stream whose title is not chosen is named by its end points.
    details = f", {details}" if session.title.endswith(ends) else f"  {ends}, {details}"
    heading = Text.assemble((printable(session.title), "bold"))
    heading.append(printable(details))

    parts: list[RenderableType] = [heading]
    if part.faults:
        rows = []
        for fault in part.faults:
            rows.append([contents(fault) for contents in COLUMNS.values()])
        table = ValueTable(name="faults", headings=list(COLUMNS), rows=rows, spare=SPARE)
        parts.append(lay_out(table, width))
    parts += [Text(printable(line)) for line in packet_lines(part)]
    parts += [_stream_line(part), Text("")]
    return Group(*parts)


def _stream_line(part: SessionRun) -> Text:
    verdict = part.summary.verdict if part.summary else None
    state = state_of(verdict)
    line = Text.assemble((f"{MARKS[state]} {state.replace('-', ' ')}", f"bold {STYLES[state]}"))
    if ror_is_predicted(part):
        predicted, measured = ror_words(part)
        line.append(f"  ROR predicted {predicted}, measured {measured}")
        code = describe_stream_code(part.session.parameters)
        if code:
            line.append(f" ({code})")
    if state != "passed":
        line.append("\n" + printable(verdict_reason(verdict)))
    return line


def _verdict_line(run: LoadedRun) -> Text:
    state = state_of(run.verdict)
    return Text.assemble(
        (f"{MARKS[state]} {state.replace('-', ' ').upper()}", f"bold {STYLES[state]}"),
        "  " + printable(verdict_reason(run.verdict, run.unfinished)),
    )
