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

# Longest cell that a terminal shows. Pages, CSV, pipes and files have all of it.
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
# A word may be broken behind an arrow or a comma, if it must be broken.
_PARTS = re.compile(r".+?(?:->|[,;/]|$)")


class Terminal(Console):
    """rich's console. A name is shown as it is written: [brackets] and :colons: in it mean nothing."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)
        if not self.file.isatty() and not self._environ.get("COLUMNS", "").isdigit():
            self.width = UNLIMITED

    @property
    def limit(self) -> int | None:
        """The number of columns, or None if there is no terminal to limit them."""
        return None if self.width == UNLIMITED else self.width

    def render_str(self, text: str, **options: Any) -> Text:
        """Return one cell or one line, with line breaks written out."""
        return super().render_str(printable(text), **options)

    def show(self, part: object) -> None:
        """Print a table within the terminal's width; print anything else as rich does."""
        if isinstance(part, ValueTable):
            self.print(lay_out(part, self.limit))
        else:
            self.print(part)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (s if s.control else Segment(printable(s.text, LAYOUT), s.style) for s in buffer)
        return Styled(super()._render_buffer(shown))


@dataclass
class _Column:
    """A column that is laid out: its cells, and how wide it is."""

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
        """The least width at which cells are wrapped between words alone."""
        longest = max((_longest_word(each.plain) for each in self.cells), default=0)
        readable = min(self.content, MIN_TEXT_WIDTH)
        return max(_longest_word(self.heading), longest, readable)

    @property
    def with_broken_words(self) -> int:
        """The least width at which a column can still be read."""
        return min(self.with_wrapped_text, MIN_WORD_WIDTH)


def lay_out(table: ValueTable, width: int | None) -> Group:
    """Return the table as lines, with numbers on the right; ``width`` None: one line a row.

    What does not fit is treated in this order: headings are wrapped between words, columns that may
    be missing (``spare``) are left out, text is wrapped between words, long words are broken, and
    at last further columns are left out. A line below the table names the columns left out.
    """
    lines = [Text(line, "bold") for line in _wrap(printable(table.title), width) if line]
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
        for row, words in zip(table.rows[:shown], texts, strict=False):
            value = row[index]
            cells.append(value if isinstance(value, Text) else Text(_short(words[index], width)))
        right = index > 0 and numeric[index]
        columns.append(_Column(printable(heading), cells, right))
    return columns


def _short(text: str, width: int | None) -> str:
    text = printable(text)
    if width is None or len(text) < MAX_CELL_CHARACTERS:
        return text
    return f"{text[:MAX_CELL_CHARACTERS]} …"


def _fit(columns: Sequence[_Column], spare: Sequence[str], width: int) -> None:
    """Set the width of each column so that all fit, and leave out columns that do not."""

    def excess() -> int:
        return sum(column.width + GAP for column in columns if column.shown) - GAP - width

    for column in columns:
        column.width = column.with_wrapped_heading
    may_go = [column for name in spare for column in columns if column.heading == printable(name)]
    for column in may_go:
        column.shown = excess() <= 0
    _shrink(columns, "with_wrapped_text", excess())
    _shrink(columns, "with_broken_words", excess())
    for column in reversed(columns[1:]):
        if excess() > 0 and column.heading:
            column.shown = False
    if excess() > 0:
        columns[0].width = max(columns[0].width - excess(), 1)
    _grow(columns, -excess())


def _shrink(columns: Sequence[_Column], least: str, excess: int) -> None:
    """Take the excess from the widest columns, down to the width that the property ``least`` gives."""
    limits = {id(column): getattr(column, least) for column in columns}
    for _ in range(excess):
        wide = [each for each in reversed(columns) if each.shown and each.width > limits[id(each)]]
        if not wide:
            return
        max(wide, key=lambda column: column.width).width -= 1


def _grow(columns: Sequence[_Column], free: int) -> None:
    """Give the free space to columns whose cells or headings are wrapped, from the left."""
    for full in ("with_wrapped_heading", "natural"):
        for column in columns:
            if column.shown:
                more = max(min(free, getattr(column, full) - column.width), 0)
                column.width += more
                free -= more


def _row(
    cells: Sequence[Text], columns: Sequence[_Column], *, from_bottom: bool = False
) -> list[Text]:
    """Return the lines of one row; headings stand at the bottom of theirs."""
    wrapped = [_wrap(each.plain, col.width) for each, col in zip(cells, columns, strict=True)]
    height = max(map(len, wrapped))
    lines = []
    for number in range(height):
        line = Text()
        for each, column, texts in zip(cells, columns, wrapped, strict=True):
            index = number - (height - len(texts)) if from_bottom else number
            text = texts[index] if 0 <= index < len(texts) else ""
            padding = " " * (column.width - cell_len(text))
            line.append(padding + text if column.right else text + padding, each.style)
            line.append(" " * GAP)
        line.rstrip()
        lines.append(line)
    return lines


def _blocks(table: ValueTable, width: int | None) -> list[Text]:
    """Return each row as its first cell and, indented below it, its other cells that are not empty."""
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
        pieces = [word] if cell_len(word) <= width else _broken(word, width)
        lines += pieces
    return lines if lines[0] else lines[1:]


def _broken(word: str, width: int) -> list[str]:
    """Return a word that is too long in pieces, broken behind arrows and commas if that helps."""
    pieces = [""]
    for part in filter(None, _PARTS.findall(word)):
        if cell_len(pieces[-1] + part) <= width:
            pieces[-1] += part
        elif cell_len(part) <= width:
            pieces.append(part)
        else:
            pieces += chop_cells(part, width)
    return [piece for piece in pieces if piece]
