"""What a command that only computes says, as lines and tables, and the page made of them: one self-contained file."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.model.naming.printable import printable
from testbed.model.run_records import Manifest
from testbed.model.stored_runs import RunState
from testbed.report import page
from testbed.report.column_units import cell
from testbed.report.drawing.svg_figures import caption_in
from testbed.report.markup import Markup, join, tag
from testbed.report.sections import table
from testbed.report.wording import counted
from topologies import Json, lists_by_key

MAX_ROWS = 500
"""Of a table on a page; its CSV file beside the page has them all."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Values below their headings. ``name``: of its CSV file, shared by tables of several things, which ``title`` tells
    apart; ``spare``: headings of the columns that go first where room is short; ``summary``: it sums up others;
    ``wide``: it is for a page, not for a terminal; ``most``: rows that a terminal is shown (None: all); ``blocks``: a
    terminal prints each row as its first cell and below it the other cells, each on lines of its own; ``data``: the
    table that CSV has instead, if cells hold more than one value."""

    name: str
    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    spare: Sequence[str] = ()
    summary: bool = False
    wide: bool = False
    most: int | None = None
    blocks: bool = False
    data: "Table | None" = None

    def words(self) -> list[list[str]]:
        """Its cells as they are read."""
        return [[cell(value) for value in row] for row in self.rows]

    def numeric(self) -> list[bool]:
        """Of each column, whether it holds numbers and fractions, which stand on the right."""
        if not self.rows:
            return [False] * len(self.headings)
        return [
            not any(isinstance(v, str) and v[:1] not in "0123456789-–" for v in column)
            for column in zip(*self.rows, strict=True)
        ]


Part = str | Table | Mapping[str, str]
"""A line, a table, or names with what is said of each."""


def table_of_rows(
    rows: Sequence[Json],
    name: str = "rows",
    *,
    title: str = "",
    spare: Sequence[str] = (),
    summary: bool = False,
) -> Table:
    """A table of rows that are objects: their keys are its headings."""
    keys = list(dict.fromkeys(key for row in rows for key in row if key != "verdict"))
    cells = [[row.get(key) for key in keys] for row in rows]
    return Table(name=name, headings=keys, rows=cells, title=title, spare=spare, summary=summary)


def csv_files(parts: Iterable[object]) -> dict[str, str]:
    """File -> CSV of the tables so called, numbers in full; where they are several, their titles are the first
    column. Those that sum up others come last."""
    tables = [part for part in parts if isinstance(part, Table)]
    tables.sort(key=lambda each: each.summary)
    return {
        f"{name}.csv": _csv(own)
        for name, own in lists_by_key((one.name, one) for one in tables).items()
    }


def _csv(tables: Sequence[Table]) -> str:
    tables = [table.data or table for table in tables]
    text = io.StringIO()
    writer, several = csv.writer(text, lineterminator="\n"), len(tables) > 1
    writer.writerow([*(["of"] if several else []), *tables[0].headings])
    for one in tables:
        rows = ([*([one.title] if several else []), *row] for row in one.rows)
        writer.writerows([_csv_value(value) for value in row] for row in rows)
    return text.getvalue()


def _csv_value(value: object) -> object:
    """Return a structure as JSON, None as an empty cell, and anything else as printable text.

    An apostrophe stands before a text that a spreadsheet would take for a formula. Such a text is
    a name that somebody chose, in a network file for example.
    """
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    if value is None:
        return ""
    text = printable(value)
    if isinstance(value, str) and text.startswith(("=", "+", "-", "@")) and not _is_number(text):
        return f"'{text}"
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def build_answer_page(
    manifest: Manifest,
    title: str,
    state: RunState,
    parts: Sequence[Part],
    figures: Mapping[str, str],
) -> str:
    """The whole page as text: the answer first, drawings, tables, and the files beside it that hold the data."""
    lines = [part for part in parts if isinstance(part, str)]
    facts = [page.fact_list(part) for part in parts if not isinstance(part, (str, Table))]
    header = page.page_header(
        manifest, title, state, (), *(tag("p", line, class_="lead") for line in lines[:1]), *facts
    )
    drawings = [
        page.picture(svg, caption_in(svg, name), class_="across") for name, svg in figures.items()
    ]
    tables = [table_section(part) for part in parts if isinstance(part, Table)]
    closing = tag(
        "section",
        [tag("p", line) for line in lines[1:]],
        tag("h2", "Data"),
        page.files_list(("answer.json", *csv_files(parts))),
        page.machine_details(manifest),
        class_="closing",
    )
    return page.whole_page(
        page.page_head(title),
        header,
        tag("main", drawings, tables, closing),
        page.page_footer("Its data are beside it; running the command at its top again", ""),
    )


def table_section(of: Table) -> Markup:
    """A table below its heading."""
    title = of.title or of.name.replace("-", " ").capitalize()
    heads = [
        (heading, "n" if right else "wrap")
        for heading, right in zip(of.headings, of.numeric(), strict=True)
    ]
    left = len(of.rows) - MAX_ROWS
    more = (
        tag("p", f"{counted(left, 'more row')} in {of.name}.csv.", class_="soft")
        if left > 0
        else None
    )
    return join([tag("h2", title), table(heads, of.words()[:MAX_ROWS], title), more])
