"""The one console that tables and bars are printed with: colours of our own, and nothing of a name's that would steer
the terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, JustifyMethod
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from testbed.model.naming.printable import LAYOUT, Styled, printable
from testbed.report.answers import Table as ValueTable

MOST_SIGNS, GAP = 300, 2
"""Of one cell (a page and CSV have all), and between columns."""


class Terminal(Console):
    """rich's console. A name is shown as it is written: [brackets] and :colons: in it mean nothing."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """One cell or one line: a line break in it is not ours."""
        return super().render_str(printable(text), **options)

    def show(self, part: object) -> None:
        """Print a table within the terminal's width; anything else as rich does."""
        self.print(laid_out(part, self.width) if isinstance(part, ValueTable) else part)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (s if s.control else Segment(printable(s.text, LAYOUT), s.style) for s in buffer)
        return Styled(super()._render_buffer(shown))


def laid_out(of: ValueTable, width: int) -> Table:
    """A table, numbers on the right. Where room is short, headings are broken, then columns go that may (``spare``),
    said below it, then the widest that is left is broken: nothing is cut off."""
    cells, heads = of.words(), list(of.headings)
    most = [max((len(row[k]) for row in cells), default=0) for k in range(len(heads))]
    room = [max(size, *map(len, heads[k].split() or [""])) for k, size in enumerate(most)]
    shown, left = list(range(len(heads))), []
    for heading in (one for one in of.spare if one in heads):
        if sum(room[k] + GAP for k in shown) - GAP > width:
            left.append(heading)
            shown.remove(heads.index(heading))
    free = width + GAP - sum(room[k] + GAP for k in shown)
    widest, numeric = max(shown, key=lambda k: room[k]), of.numeric() or [False] * len(heads)
    notes = [f"{', '.join(left)} left out, {width} columns wide; --csv has all"] if left else []
    if of.most is not None and len(cells) > of.most:
        notes.append(f"and {len(cells) - of.most} more; --csv has all")
    table = Table(
        title=of.title or None, title_justify="left", title_style="bold", caption="; ".join(notes) or None,
        caption_justify="left", box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim",
    )  # fmt: skip
    for k in shown:
        more = (
            min(free, max(len(heads[k]) - room[k], 0))
            if free > 0
            else 0
            if k != widest
            else max(free, 6 - room[k])
        )
        free -= max(more, 0)
        side: JustifyMethod = "right" if k and numeric[k] else "left"
        table.add_column(heads[k], justify=side, overflow="fold", width=room[k] + more)
    for row, words in zip(of.rows[: of.most], cells, strict=False):
        short = (one if len(one) < MOST_SIGNS else f"{one[:MOST_SIGNS]} …" for one in words)
        written = [
            value if isinstance(value, Text) else Text(printable(one))
            for value, one in zip(row, short, strict=True)
        ]
        table.add_row(*(written[k] for k in shown))
    return table
