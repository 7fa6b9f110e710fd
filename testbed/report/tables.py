"""What a stream or demo closes with on the terminal: one table a network, prediction beside measurement, then the
verdict."""

from collections.abc import Callable

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
_FAULT_STYLES = {True: "green", False: "bold red", None: "dim"}


def _loss(fault: FaultRecord) -> str:
    if fault.measured_loss is None:
        return NOTHING
    half = half_width(fault.interval)
    return plain(fault.measured_loss * 100).rjust(5) + (
        "" if half is None else f" ± {half * 100:.2f}"
    )


def _reaction(fault: FaultRecord) -> str:
    if not fault.sender_reacted:
        return "none"
    if fault.reaction_s is None:
        return NOTHING
    off = f" ± {fault.reaction_uncertainty_s * 1000:.1f}" if fault.reaction_uncertainty_s else ""
    return f"{fault.reaction_s * 1000:.0f}{off}"


def _needed(fault: FaultRecord) -> str:
    """N; where labels do not lie as well as they could, with the bound and what they ask for more: "24 = 23+1"."""
    more = over_bound(fault)
    return plain(fault.predicted_block_size) + (f" = {more}" if more else "")


COLUMNS: dict[str, Callable[[FaultRecord], object]] = {
    "link": lambda f: f.link,
    "fault": lambda f: f.kind,
    "pred. %": lambda f: f"{f.predicted_loss * 100:.2f}",
    "measured %": _loss,
    "N pred.": _needed,
    "meas.": lambda f: plain(f.measured_block_size, 1),
    "react. ms": _reaction,
    "suspected": suspected_cables,
    "undec.": lambda f: f.undecodable_blocks,
    "late": lambda f: f.late_packets,
    "": lambda f: Text(fault_mark(f), _FAULT_STYLES[f.passed]),
}
SPARE = ("suspected", "late", "undec.", "fault", "react. ms", "meas.", "N pred.")


def closing_table(run: LoadedRun | SessionRun, *, width: int | None = None) -> RenderableType:
    """All streams and the run's verdict (or one stream alone), for ``rich`` to print; at most ``width`` columns wide
    (None: as wide as the terminal, without a limit in a pipe)."""
    width = width or Terminal().limit
    if isinstance(run, SessionRun):
        return _stream_table(run, width)
    return Group(*(_stream_table(part, width) for part in run.sessions), _verdict_line(run))


def _stream_table(part: SessionRun, width: int | None) -> RenderableType:
    session = part.session
    heading = Text.assemble((printable(session.title), "bold"))
    ends = f"{session.source} to {session.sink}"
    ends = "" if session.title.endswith(ends) else f"  {ends}"
    heading.append(printable(f"{ends}, {session.method}, {session.fabric}"))
    rows = [[give(fault) for give in COLUMNS.values()] for fault in part.faults]
    table = ValueTable(name="faults", headings=list(COLUMNS), rows=rows, spare=SPARE)
    packets = [Text(printable(line)) for line in packet_lines(part)]
    return Group(
        heading,
        *([lay_out(table, width)] if rows else []),
        *packets,
        _stream_line(part),
        Text(""),
    )


def _stream_line(part: SessionRun) -> Text:
    summary = part.summary
    state = state_of(summary.verdict if summary else None)
    line = Text.assemble((f"{MARKS[state]} {state.replace('-', ' ')}", f"bold {STYLES[state]}"))
    if ror_is_predicted(part):
        line.append("  ROR predicted {}, measured {}".format(*ror_words(part)))
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
