"""Answers of commands that only compute: lines and tables, their CSV files and their page.

The page is one self-contained HTML file.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

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

# Rows of a table on a page. The CSV file beside the page has all of them.
MAX_ROWS = 500


@dataclass(frozen=True, kw_only=True)
class Table:
    """Values below their headings.

    Attributes:
        name: Name of its CSV file. Several tables may share a file; ``title`` then distinguishes
            them.
        headings: Heading of each column.
        rows: Cells of each row.
        title: Title, or empty.
        spare: Headings of the columns that a narrow terminal leaves out first.
        summary: The table summarises other tables.
        wide: The table is too wide for a terminal, and is shown on pages only.
        most: Largest number of rows on a terminal, or None for all.
        blocks: A terminal prints each row as its first cell, and below it the other cells, each on
            separate lines.
        data: The table that CSV files contain instead, if cells have more than one value.
    """

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
        """Return the cells as text."""
        rows = []
        for row in self.rows:
            rows.append([cell(value) for value in row])
        return rows

    def numeric(self) -> list[bool]:
        """Return for each column whether it contains numbers, which are aligned to the right."""
        if not self.rows:
            return [False] * len(self.headings)
        return [not any(map(_is_text, column)) for column in zip(*self.rows, strict=True)]


def _is_text(value: object) -> bool:
    """Return whether a value is text other than a number, a fraction or the mark of no value."""
    return isinstance(value, str) and value[:1] not in "0123456789-–"


# A line, a table, or names with their descriptions.
Part = str | Table | Mapping[str, str]


def table_of_rows(
    rows: Sequence[Json],
    name: str = "rows",
    *,
    title: str = "",
    spare: Sequence[str] = (),
    summary: bool = False,
) -> Table:
    """Return a table of JSON objects, whose keys are the headings.

    Args:
        rows: The objects. Their key ``verdict`` is left out.
        name: Name of the CSV file.
        title: Title of the table.
        spare: Headings of the columns that a narrow terminal leaves out first.
        summary: Whether the table summarises other tables.
    """
    keys = list(dict.fromkeys(chain.from_iterable(rows)))
    if "verdict" in keys:
        keys.remove("verdict")
    cells = []
    for row in rows:
        cells.append([row.get(key) for key in keys])
    return Table(name=name, headings=keys, rows=cells, title=title, spare=spare, summary=summary)


def csv_files(parts: Iterable[object]) -> dict[str, str]:
    """Return the CSV files of the tables among the parts, by file name, with unrounded numbers.

    Tables of one name share a file, whose first column is then the title of the table. Tables that
    summarise others come last.
    """
    tables = [part for part in parts if isinstance(part, Table)]
    tables.sort(key=lambda table: table.summary)
    tables_by_name = lists_by_key((table.name, table) for table in tables)
    return {f"{name}.csv": _csv(group) for name, group in tables_by_name.items()}


def _csv(tables: Sequence[Table]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    several = len(tables) > 1
    data_tables = [table.data or table for table in tables]
    headings = list(data_tables[0].headings)
    writer.writerow(["of", *headings] if several else headings)
    for data_table in data_tables:
        for row in data_table.rows:
            values = [data_table.title, *row] if several else row
            writer.writerow([_csv_value(value) for value in values])
    return text.getvalue()


def _csv_value(value: object) -> object:
    """Return a structure as JSON, None as an empty cell, and anything else as printable text.

    An apostrophe is written before text that a spreadsheet would evaluate as a formula. Such text
    is a name that a user chose, in a network file for example.
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
    """Return the page of an answer as text.

    The page shows the first line as the answer, then the drawings, the tables, the other lines, and
    links to the files beside it that contain the data.

    Args:
        manifest: The manifest of the run.
        title: Title of the page.
        state: The verdict.
        parts: Lines, tables, and names with their descriptions.
        figures: The SVG documents of the figures by name.
    """
    lines = []
    facts = []
    tables = []
    for part in parts:
        if isinstance(part, str):
            lines.append(part)
        elif isinstance(part, Table):
            tables.append(table_section(part))
        else:
            facts.append(page.fact_list(part))
    answer = [tag("p", line, class_="lead") for line in lines[:1]]
    header = page.page_header(manifest, title, state, (), *answer, *facts)
    drawings = []
    for name, svg in figures.items():
        drawings.append(page.picture(svg, caption_in(svg, name), class_="across"))
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
    """Return a table below its heading, with at most ``MAX_ROWS`` rows."""
    title = of.title or of.name.replace("-", " ").capitalize()
    columns = []
    for heading, numeric in zip(of.headings, of.numeric(), strict=True):
        columns.append((heading, "n" if numeric else "wrap"))
    remark = None
    hidden_rows = len(of.rows) - MAX_ROWS
    if hidden_rows > 0:
        text = f"{counted(hidden_rows, 'more row')} in {of.name}.csv."
        remark = tag("p", text, class_="soft")
    return join([tag("h2", title), table(columns, of.words()[:MAX_ROWS], title), remark])
