"""The one console that tables and bars are printed with: colours of our own, and nothing of a name's that would steer
the terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from testbed.model.naming.printable import LAYOUT, Styled, printable


class Terminal(Console):
    """rich's console. A name is shown as it is written: [brackets] and :colons: in it mean nothing."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """One cell or one line: a line break in it is not ours."""
        return super().render_str(printable(text), **options)

    def print_table(self, headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
        """A table whose first column is on the left, and all others, which are numbers, on the right."""
        table = Table(title=title)
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="right" if place else "left", no_wrap=heading == "method")
        for row in rows:
            table.add_row(*row)
        self.print(table)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (s if s.control else Segment(printable(s.text, LAYOUT), s.style) for s in buffer)
        return Styled(super()._render_buffer(shown))
