"""The console that prints tables and progress bars, and the layout of tables.

A table fits the width of the terminal. In a pipe and in a file there is no width: every row is one
line with all of its cells, as ``git`` and ``ls`` print theirs. ``COLUMNS`` sets a width everywhere.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console, Group
from rich.segment import Segment
from rich.text import Text

from testbed.model.naming.printable import LAYOUT, Styled, printable
from testbed.report.answers import Table as ValueTable

# Longest text of a cell that a terminal shows. Pages, CSV, pipes and files contain the full text.
MAX_CELL_CHARACTERS = 300
# Spaces between two columns.
GAP = 2
# A column of text is not wrapped to less than this, unless its text is shorter.
MIN_TEXT_WIDTH = 16
# A word is not broken to make its column narrower than this.
MIN_WORD_WIDTH = 12
# Spaces before the further cells of a row that is printed as a block.
BLOCK_INDENT = 4
# Width of a console without a terminal: rich requires a number, and no line is longer.
UNLIMITED = 1_000_000
# Parts of a word that is too long: it is broken after an arrow, comma, semicolon or slash.
_PARTS = re.compile(r".+?(?:->|[,;/]|$)")


class Terminal(Console):
    """A console of rich that prints text unchanged.

    [brackets] and :colons: in a text have no special meaning.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)
        if not self.file.isatty() and not self._environ.get("COLUMNS", "").isdigit():
            self.width = UNLIMITED

    @property
    def limit(self) -> int | None:
        """The number of columns, or None if there is no terminal to limit them."""
        return None if self.width == UNLIMITED else self.width

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text of a cell or a line, with visible escapes for control characters."""
        return super().render_str(printable(text), **options)

    def show(self, part: object) -> None:
        """Print a table within the terminal's width; print anything else as rich does."""
        if isinstance(part, ValueTable):
            self.print(lay_out(part, self.limit))
        else:
            self.print(part)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        segments = []
        for segment in buffer:
            if segment.control:
                segments.append(segment)
            else:
                segments.append(Segment(printable(segment.text, LAYOUT), segment.style))
        return Styled(super()._render_buffer(segments))


@dataclass
class _Column:
    """A column of a table during the layout, with its cells and its width in characters."""

    heading: str
    cells: list[Text]
    right: bool
    width: int = 0
    shown: bool = True

    @property
    def natural(self) -> int:
        """The width at which nothing is wrapped."""
        return max(cell_len(self.heading), self.content)

    @property
    def content(self) -> int:
        """The width of the widest cell."""
        return max((cell_len(each.plain) for each in self.cells), default=0)

    @property
    def with_wrapped_heading(self) -> int:
        """The width at which only the heading is wrapped, between words."""
        return max(_longest_word(self.heading), self.content)

    @property
    def with_wrapped_text(self) -> int:
        """The smallest width at which cells are wrapped only between words."""
        longest = max((_longest_word(each.plain) for each in self.cells), default=0)
        readable = min(self.content, MIN_TEXT_WIDTH)
        return max(_longest_word(self.heading), longest, readable)

    @property
    def with_broken_words(self) -> int:
        """The smallest width at which the column is still readable."""
        return min(self.with_wrapped_text, MIN_WORD_WIDTH)


def lay_out(table: ValueTable, width: int | None) -> Group:
    """Return the table as lines, with numbers aligned to the right.

    A table that is too wide is made narrower in this order: headings are wrapped between words,
    the columns named in ``table.spare`` are left out, text is wrapped between words, long words are
    broken, and finally further columns are left out. A line below the table names the columns that
    were left out.

    Args:
        table: The table.
        width: Largest width in characters, or None for one line per row of any length.
    """
    lines = []
    if table.title:
        lines += [Text(line, "bold") for line in _wrap(printable(table.title), width) if line]
    if table.blocks:
        lines += _blocks(table, width)
    else:
        lines += _table_lines(table, width)
    for line in lines:
        line.no_wrap = True
        line.overflow = "ignore"
    return Group(*lines)


def _table_lines(table: ValueTable, width: int | None) -> list[Text]:
    columns = _columns(table, width)
    if width is None:
        for column in columns:
            column.width = column.natural
    else:
        _fit(columns, table.spare, width)
    shown = [column for column in columns if column.shown]
    lines = []
    if any(column.heading for column in shown):
        headings = [Text(column.heading, "dim") for column in shown]
        lines += _row(headings, shown, from_bottom=True)
    for cells in zip(*(column.cells for column in shown), strict=True):
        lines += _row(cells, shown)
    notes = []
    left_out = ", ".join(column.heading for column in columns if not column.shown)
    if left_out:
        notes.append(f"not shown in {width} columns: {left_out}; add | cat to see all")
    hidden = _hidden_rows(table, width)
    if hidden:
        notes.append(f"and {hidden} more; add | cat to see all")
    for note in notes:
        lines += [Text(line, "dim italic") for line in _wrap(note, width)]
    return lines


def _hidden_rows(table: ValueTable, width: int | None) -> int:
    if width is None or table.most is None:
        return 0
    return max(len(table.rows) - table.most, 0)


def _columns(table: ValueTable, width: int | None) -> list[_Column]:
    texts = table.words()
    shown = len(texts) - _hidden_rows(table, width)
    numeric = table.numeric()
    columns = []
    for index, heading in enumerate(table.headings):
        cells = []
        for row, row_texts in zip(table.rows[:shown], texts, strict=False):
            value = row[index]
            if not isinstance(value, Text):
                value = Text(_short(row_texts[index], width))
            cells.append(value)
        right = index > 0 and numeric[index]
        columns.append(_Column(printable(heading), cells, right))
    return columns


def _short(text: str, width: int | None) -> str:
    text = printable(text)
    if width is None or len(text) <= MAX_CELL_CHARACTERS:
        return text
    return f"{text[:MAX_CELL_CHARACTERS]} …"


def _fit(columns: Sequence[_Column], spare: Sequence[str], width: int) -> None:
    """Set the width of each column so that all fit, and leave out columns that do not fit.

    Args:
        columns: The columns.
        spare: Headings of the columns that are left out first.
        width: Width of the table in characters.
    """

    def excess() -> int:
        return sum(column.width + GAP for column in columns if column.shown) - GAP - width

    for column in columns:
        column.width = column.with_wrapped_heading
    for name in spare:
        for column in columns:
            if column.heading == printable(name):
                column.shown = excess() <= 0
    _shrink(columns, "with_wrapped_text", excess())
    _shrink(columns, "with_broken_words", excess())
    for column in reversed(columns[1:]):
        if excess() > 0 and column.heading:
            column.shown = False
    if excess() > 0:
        columns[0].width = max(columns[0].width - excess(), 1)
    _grow(columns, -excess())


def _shrink(columns: Sequence[_Column], min_width: str, excess: int) -> None:
    """Take the excess from the widest columns, character by character.

    Args:
        columns: The columns, whose widths change.
        min_width: Name of the property that is the smallest width of a column.
        excess: Number of characters by which the table is too wide.
    """
    limits = {id(column): getattr(column, min_width) for column in columns}
    for _ in range(excess):
        wide = []
        for column in reversed(columns):
            if column.shown and column.width > limits[id(column)]:
                wide.append(column)
        if not wide:
            return
        max(wide, key=lambda column: column.width).width -= 1


def _grow(columns: Sequence[_Column], free: int) -> None:
    """Widen the columns whose cells or headings are wrapped by the free characters, from left."""
    for wanted_width in ("with_wrapped_heading", "natural"):
        for column in columns:
            if column.shown:
                wanted = getattr(column, wanted_width) - column.width
                more = max(min(free, wanted), 0)
                column.width += more
                free -= more


def _row(
    cells: Sequence[Text], columns: Sequence[_Column], *, from_bottom: bool = False
) -> list[Text]:
    """Return the lines of one row.

    Args:
        cells: The cells.
        columns: Their columns.
        from_bottom: Align wrapped cells at the bottom, as in a row of headings.
    """
    wrapped = []
    for each, column in zip(cells, columns, strict=True):
        wrapped.append(_wrap(each.plain, column.width))
    height = max(map(len, wrapped))
    lines = []
    for number in range(height):
        line = Text()
        for each, column, texts in zip(cells, columns, wrapped, strict=True):
            index = number
            if from_bottom:
                index -= height - len(texts)
            text = texts[index] if 0 <= index < len(texts) else ""
            padding = " " * (column.width - cell_len(text))
            padded = padding + text if column.right else text + padding
            line.append(padded, each.style)
            line.append(" " * GAP)
        line.rstrip()
        lines.append(line)
    return lines


def _blocks(table: ValueTable, width: int | None) -> list[Text]:
    """Return each row as its first cell and, indented below it, its other non-empty cells."""
    lines = []
    inner = None if width is None else max(width - BLOCK_INDENT, 1)
    for row in table.words():
        lines += [Text(line, "bold") for line in _wrap(printable(row[0]), width)]
        for text in filter(None, row[1:]):
            lines += [Text(" " * BLOCK_INDENT + line) for line in _wrap(printable(text), inner)]
    return lines


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _wrap(text: str, width: int | None) -> list[str]:
    """Return the text in lines of at most this width, broken between words if that is possible."""
    if width is None or cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        if cell_len(word) <= width:
            lines.append(word)
        else:
            lines += _broken(word, width)
    return lines if lines[0] else lines[1:]


def _broken(word: str, width: int) -> list[str]:
    """Split a word that is too long, after an arrow or punctuation mark if possible."""
    pieces = [""]
    for part in filter(None, _PARTS.findall(word)):
        if cell_len(pieces[-1] + part) <= width:
            pieces[-1] += part
        elif cell_len(part) <= width:
            pieces.append(part)
        else:
            pieces += chop_cells(part, width)
    return [piece for piece in pieces if piece]
