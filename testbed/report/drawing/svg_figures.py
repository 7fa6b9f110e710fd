"""matplotlib figures as documents that are the same bytes each time; without a screen.

For pages as SVG whose letters are shapes, so that it looks the same wherever it is opened; for papers as SVG and PDF
whose letters are text, each with its caption.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testbed.extras import installed, pip_command
from testbed.report.drawing.captions import caption_of, name_in_words
from testbed.report.drawing.charts import STYLE
from topologies.text.json_types import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[], Json]


@dataclass(frozen=True, kw_only=True)
class FigureFiles:
    """One figure for a paper: documents with vector text, and a caption that stands alone. ``pdf`` empty: it could not
    be made."""

    svg: bytes
    pdf: bytes
    caption: str


def rendered(salt: str, draw: Draw) -> dict[str, str]:
    """The figures that ``draw`` makes, by name, as SVG documents with their captions inside; each is closed afterwards.
    ``salt`` fixes the ids inside them. Where matplotlib is not installed, one picture in their place says so: the run
    itself needs no figures.
    """
    if not installed("matplotlib"):
        return {"missing": _in_place_of_figures()}
    found = _saved(salt, draw, {"svg.fonttype": "path"}, ("svg",))
    return {name: files["svg"].decode() for name, (_, files) in found.items()}


def figures_with_text(salt: str, draw: Draw) -> dict[str, FigureFiles]:
    """The same figures for a paper: letters are text in both formats."""
    found = _saved(salt, draw, {"svg.fonttype": "none", "pdf.fonttype": 42}, ("svg", "pdf"))
    return {
        name: FigureFiles(svg=files["svg"], pdf=files["pdf"], caption=caption)
        for name, (caption, files) in found.items()
    }


def caption_in(drawing: str, name: str) -> str:
    """The caption that an SVG document of ``rendered`` carries; the name in words where it has none."""
    found = re.search(r"<dc:description>(.*?)</dc:description>", drawing, re.DOTALL)
    return html.unescape(found[1]) if found else name_in_words(name)


def saved_figure(figure: Figure, kind: str, caption: str | None = None, **options: Any) -> bytes:
    """The figure in matplotlib's format of that name ("svg", "png" or "pdf"), without a date, so that the same figure
    gives the same bytes (``svg.hashsalt`` fixes the ids in it); ``options``: what ``savefig`` takes."""
    out = io.BytesIO()
    words = {"svg": {"Date": None, "Description": caption}, "pdf": {"CreationDate": None, "Subject": caption}}.get(kind)
    figure.savefig(out, format=kind, metadata=words, **options)
    return out.getvalue()


def _saved(salt: str, draw: Draw, settings: Json, formats: tuple[str, ...]) -> dict[str, tuple[str, dict[str, bytes]]]:
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    found = {}
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": salt, **settings}):
        for name, figure in draw().items():
            caption = caption_of(figure, name)
            found[name] = caption, {kind: saved_figure(figure, kind, caption, bbox_inches="tight") for kind in formats}
            plt.close(figure)
    return found


def _in_place_of_figures() -> str:
    """An SVG document of two lines of text."""
    lines = (
        "Figures are drawn by matplotlib, which is not installed here.",
        f"{pip_command('figures')}; then testbed report draws this page anew.",
    )
    rows = "".join(f'<text x="10" y="{24 * n + 24}">{line}</text>' for n, line in enumerate(lines))
    size = 'width="760" height="64" viewBox="0 0 760 64"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">{rows}</svg>\n'
