"""Figures laid out, but not drawn: nine tenths of a simulated command's time are matplotlib's lines and letters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from testbed.report.drawing import svg_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PDF = b"%PDF-1.4\n"


def outline(figure: Figure, kind: str, caption: str | None = None, **options: Any) -> bytes:
    """Return a document of this kind with the caption and all texts of the figure.

    It replaces ``saved_figure``. Formulas are parsed, so that a wrong one raises an error.
    """
    from matplotlib.mathtext import MathTextParser
    from matplotlib.text import Text

    words = [text.get_text() for text in figure.findobj(Text) if text.get_text()]
    for word in words:
        if "$" in word:
            MathTextParser("path").parse(word)
    if kind == "pdf":
        return PDF
    told = (
        ""
        if caption is None
        else f"<metadata><dc:description>{escape(caption)}</dc:description></metadata>"
    )
    rows = "".join(
        f'<text x="10" y="{20 * n + 20}">{escape(word)}</text>' for n, word in enumerate(words)
    )
    space = 'xmlns="http://www.w3.org/2000/svg" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    return (
        f'<svg {space} width="400" height="300" viewBox="0 0 400 300">{told}{rows}</svg>\n'.encode()
    )


def are_outlined() -> bool:
    """Return whether figures are drawn as outlines at this moment."""
    return svg_figures.saved_figure is outline


@contextmanager
def figures_outlined() -> Iterator[None]:
    """While this holds, figures on pages are outlines, and none is made a PDF."""
    drawn = svg_figures.saved_figure
    svg_figures.saved_figure = outline  # type: ignore[assignment]
    try:
        yield
    finally:
        svg_figures.saved_figure = drawn
