"""Every table that a command prints can be read at 60, 80 and 120 columns and in a pipe.

The commands are the recorded invocations and some that print tables of their own. Each runs once;
its tables are laid out at every width.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Group
from rich.text import Text

from testbed.cli import main
from testbed.commands.answer import show_parts
from testbed.metapath.workload import METAPATH
from testbed.report import tables, terminal
from testbed.report.answers import Table, table_section
from tests.helpers import sample_runs
from tests.helpers.paths import ROOT
from tests.recorded.invocations import JSON, write_files

WIDTHS = (60, 80, 120)
# Words of this length may be broken at 60 columns, where names of links can be longer than a column.
BREAKABLE = 16
FURTHER = {
    "topology-list": "topology list",
    "doctor": "doctor",
    "route-two": "route torus:3x3 --flow s0_0:s1_1 --flow s1_0:s2_2",
    "demands-links": "demands ring:4 --routing ecmp --routing capillary --show-links",
    "schedule": "schedule swiss-t1 --pattern all-to-all",
    "campaign": "campaign quick --workers 1 --results results",
    "wavelengths": "wavelengths optical-cloud --pattern x1:x14,x2:x5",
    "ror-links": "ror optical-cloud --from x1 --to x11 --routing single --routing ecmp --show-links",
    "compare": "compare one/sfio/run two/sfio/run",
    "compare-methods": "ror swiss-t1 --from s1 --to s6 --routing single --routing ecmp",
}


#: One command of each kind whose calculation takes long; `make soak` tries the others, too.
SLOW = ("stream-", "bulk-", "download-", "sfio-", "simulate-", "campaign", "compare")
SHORT = {"stream-none", "bulk-faults", "sfio-both", "simulate-rates", "compare"}


def _commands() -> dict[str, str]:
    shown = {
        name: words.replace(" --json", "")
        for name, words in JSON.items()
        if not words.startswith(("schema", "plugins", "experiment"))
    }
    return shown | FURTHER


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables")
    write_files(path)
    return path


@cache
def _printed_tables(words: str, folder: Path) -> list[Table]:
    """Return the tables that the command lays out for the terminal."""
    laid_out: list[Table] = []
    original = terminal.lay_out

    def recorded(table: Table, width: int | None) -> Group:
        laid_out.append(table)
        return original(table, width)

    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(terminal, "lay_out", recorded)
        patch.setattr(tables, "lay_out", recorded)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if words.startswith("compare "):
                _store_two_runs()
            assert main(shlex.split(words)) in {0, 1, 3}
    return laid_out


def _store_two_runs() -> None:
    for name, nodes in (("one", 2), ("two", 3)):
        if Path(name).exists():
            continue
        command = f"sfio crossbar:4 --compute-nodes {nodes} --io-nodes 2 --fabric simulator"
        assert main([*command.split(), "--results", name]) == 0
        (run,) = Path(name, "sfio").iterdir()
        run.rename(Path(name, "sfio", "run"))


def _lines(table: Table, width: int | None) -> list[str]:
    lines = []
    for line in terminal.lay_out(table, width).renderables:
        assert isinstance(line, Text)
        lines.append(line.plain)
    return lines


def _texts(table: Table) -> list[str]:
    """Return all texts of the table: headings and cells."""
    headings = [] if table.blocks else list(table.headings)
    return [*headings, *(text for row in table.words() for text in row)]


def _assert_readable(table: Table, width: int) -> None:
    lines = _lines(table, width)
    assert max(map(len, lines)) <= width, lines
    words = {word for text in [*_texts(table), table.title] for word in text.split()}
    note = next((at for at, line in enumerate(lines) if line.startswith("not shown in")), None)
    notes = " ".join(lines[note:] if note is not None else [])
    for line in lines if note is None else lines[:note]:
        for word in line.split():
            broken = any(word in long for long in words if len(long) > BREAKABLE)
            assert word in words or word in {"and", "|", "cat"} or broken, (word, lines)
    if not table.blocks:
        for heading in table.headings:
            shown = all(word in " ".join(lines).split() for word in heading.split())
            assert shown or heading in notes, (heading, lines)


def _assert_complete(table: Table) -> None:
    """In a pipe every row of a table is one line with all of its cells."""
    lines = _lines(table, None)
    first = 1 if table.title else 0
    if table.blocks:
        assert all(any(text in line for line in lines) for text in _texts(table) if text)
        return
    headings = any(table.headings)
    assert len(lines) == first + headings + len(table.rows)
    for row, line in zip(table.words(), lines[first + headings :], strict=True):
        assert all(" ".join(text.split()) in " ".join(line.split()) for text in row)


def _some(names: Iterable[str]) -> list[object]:
    """Return the names as parameters, slow commands for `make soak` alone."""
    long = [name for name in names if name.startswith(SLOW) and name not in SHORT]
    marks = {name: [pytest.mark.long] for name in long}
    return [pytest.param(name, marks=marks.get(name, [])) for name in names]


@pytest.mark.parametrize("name", _some(_commands()))
def test_tables_can_be_read_at_every_width(name: str, folder: Path) -> None:
    for table in _printed_tables(_commands()[name], folder):
        for width in WIDTHS:
            _assert_readable(table, width)
        _assert_complete(table)


@pytest.mark.parametrize("name", _some([name for name in FURTHER if name != "compare-methods"]))
def test_these_commands_print_tables(name: str, folder: Path) -> None:
    """The test above would pass if it met no table."""
    assert _printed_tables(_commands()[name], folder)


def test_closing_table_of_a_run_can_be_read_at_every_width() -> None:
    for session in sample_runs.sample_run(wrong=True).sessions:
        rows = [[give(fault) for give in tables.COLUMNS.values()] for fault in session.faults]
        table = Table(name="f", headings=list(tables.COLUMNS), rows=rows, spare=tables.SPARE)
        for width in WIDTHS:
            _assert_readable(table, width)
        _assert_complete(table)


def test_table_of_a_reacting_stream_can_be_read_at_every_width() -> None:
    """Only real switches carry these streams, so the table is made from a document."""
    fault = {"link": "s0_0->s0_1", "kind": "blackhole", "lost": 123, "sent": 4567}
    fault |= {"detected_s": {"carrier": 0.012, "timeout": 0.345}, "reconfigured_s": 0.123}
    fault |= {"returned_s": None, "latency_before_ms": [0.1, 0.2], "latency_during_ms": None}
    document = {"per_fault": [fault | {"latency_after_ms": [0.3, 0.4]}] * 3}
    assert METAPATH.shown is not None
    for table in METAPATH.shown(document):
        assert isinstance(table, Table)
        for width in WIDTHS:
            _assert_readable(table, width)
        _assert_complete(table)


SAMPLES: dict[str, tuple[tuple[str, ...], tuple[object, ...]]] = {
    "text": (("name", "number", "text"), ("a", 1, "a long sentence about something " * 5)),
    "two texts": (("name", "first", "second"), ("a", "one two three " * 20, "four five six " * 20)),
    "numbers": (tuple(f"heading {k}" for k in range(20)), tuple(range(20))),
    "names": (("link", "load"), ("abcdefgh" * 12 + "->" + "ijklmnop" * 12, 0.25)),
    "wide characters": (("名前", "text"), ("東京", "東京 大阪 " * 30)),
    "one heading": (("a heading of several words",), (1,)),
}


@pytest.mark.parametrize("width", [40, *WIDTHS])
@pytest.mark.parametrize("name", SAMPLES)
def test_any_table_can_be_read(name: str, width: int) -> None:
    headings, row = SAMPLES[name]
    table = Table(name="t", headings=headings, rows=[row, row], title="A title of the table")
    _assert_readable(table, width)
    _assert_complete(table)


@pytest.mark.parametrize("blocks", [False, True])
def test_no_column_has_one_letter_a_line(blocks: bool) -> None:
    row = ("manet", "parameter=1 " * 20, "What it is, in a sentence of a dozen words and more.")
    table = Table(name="t", headings=("name", "p", "text"), rows=[row], blocks=blocks)
    for width in WIDTHS:
        assert len(_lines(table, width)) <= 12


def test_table_without_rows_has_its_headings() -> None:
    table = Table(name="t", headings=("link", "load"), rows=[])
    assert _lines(table, None) == ["link  load"]
    assert "<th" in str(table_section(table))


def test_title_is_not_wrapped_to_the_width_of_the_table() -> None:
    table = Table(name="t", headings=("a",), rows=[(1,)], title="capillary route s1 -> s6")
    assert _lines(table, 80)[0] == "capillary route s1 -> s6"


def test_rows_beyond_the_limit_are_counted_on_a_terminal_and_piped_in_full() -> None:
    rows = [(k,) for k in range(9)]
    table = Table(name="t", headings=("number",), rows=rows, most=4)
    assert _lines(table, 80)[-1] == "and 5 more; add | cat to see all"
    _assert_complete(table)


def test_pipe_has_no_width_and_columns_sets_one() -> None:
    """The same command prints lines of any length into a pipe, unless COLUMNS is set."""
    table = "Table(name='t', headings=('a', 'b'), rows=[('word ' * 50, 'x' * 90)])"
    code = (
        "from testbed.report.answers import Table\nfrom testbed.commands.answer import show_parts\n"
        f"show_parts([{table}])"
    )
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}

    def longest_line(**more: str) -> int:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=environment | more,
            capture_output=True,
            text=True,
            check=True,
        )
        return max(map(len, done.stdout.splitlines()))

    assert longest_line() > 300
    assert longest_line(COLUMNS="70") <= 70


@pytest.mark.parametrize("length", [299, 300, 301])
def test_only_cells_longer_than_the_limit_are_shortened(length: int) -> None:
    table = Table(name="t", headings=("a", "b"), rows=[("x", "y" * length)])
    text = "\n".join(str(line) for line in terminal.lay_out(table, width=500).renderables)
    assert text.count("y") == min(length, terminal.MAX_CELL_CHARACTERS)
    assert ("…" in text) == (length > terminal.MAX_CELL_CHARACTERS)


def test_tables_are_printed_by_one_layout_alone() -> None:
    """A table that rich lays out breaks words and cuts cells in a pipe."""
    users = [
        str(path.relative_to(ROOT))
        for package in ("testbed", "plugins", "experiments")
        for path in (ROOT / package).rglob("*.py")
        if "rich.table" in path.read_text()
    ]
    assert users == []


def test_wide_tables_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    parts: list[Any] = [Table(name="t", headings=("a",), rows=[(1,)], wide=True)]
    show_parts(parts)
    assert capsys.readouterr().out == ""
