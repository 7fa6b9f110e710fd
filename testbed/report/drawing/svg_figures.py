"""Figures of matplotlib as documents with captions. The same figure always gives the same bytes.

- For pages: SVG documents whose letters are shapes, so that they look the same everywhere, or
  elements of the page with its fonts, whose marks have tooltips.
- For papers: SVG and PDF documents whose letters are text.

No screen is needed.
"""

from __future__ import annotations

import html
import io
import json
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from testbed.extras import installed, pip_command
from testbed.model.naming.printable import printable
from testbed.report.drawing.charts import (
    AMBER,
    BLUE,
    DARK,
    GREEN,
    GREY,
    INK,
    LIGHT,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    STYLE,
    only_settings,
)
from testbed.report.markup import Markup, lines, tag
from topologies.files.formats import write_atomically
from topologies.text.json_types import Json

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Hues of charts on a dark page: lighter hues of the same tint, with a contrast of at least 3:1
# (WCAG 2.2, 1.4.11).
_DARK_HUES = {
    BLUE: "#5aaef0",
    ORANGE: "#f5894a",
    GREEN: "#3fc79a",
    PURPLE: "#dd9dbf",
    AMBER: "#efb53c",
    SKY: "#86cdf3",
    INK: "#eceef0",
    GREY: "#a9b1ba",
    RED: "#ff8a80",
}
_BLACK = "#000000"
# Colour on a light page -> colour on a dark page.
_ON_DARK = {LIGHT[name]: DARK[name] for name in LIGHT} | _DARK_HUES | {_BLACK: DARK["ink"]}
COLOUR = re.compile(r"#[0-9a-f]{6}\b", re.IGNORECASE)
IN_STYLE = re.compile(r'style="[^"]*"')
_OPENING = re.compile(r"<svg\b[^>]*>")


def following_dark_mode(document: str) -> str:
    """Return the SVG document with variables for its known colours, which follow the dark mode.

    Other colours are unchanged. Text without a colour gets the colour of ink.

    >>> following_dark_mode('<svg><path style="fill: #ffffff"/></svg>').partition("</style>")[2]
    '<path style="fill: var(--c-ffffff)"/></svg>'
    """
    used = {_BLACK}
    for style in IN_STYLE.findall(document):
        used.update(colour.lower() for colour in COLOUR.findall(style))
    replaced = sorted(colour for colour in used if colour in _ON_DARK)

    def to_variable(match: re.Match[str]) -> str:
        colour = match[0].lower()
        return f"var(--c-{colour[1:]})" if colour in replaced else match[0]

    with_variables = IN_STYLE.sub(lambda style: COLOUR.sub(to_variable, style[0]), document)
    opening = _OPENING.search(with_variables)
    if opening is None:
        return document
    light = ";".join(f"--c-{colour[1:]}:{colour}" for colour in replaced)
    dark = ";".join(f"--c-{colour[1:]}:{_ON_DARK[colour]}" for colour in replaced)
    rules = (
        f"svg{{{light};fill:var(--c-000000)}}"
        f"@media screen and (prefers-color-scheme:dark){{svg{{{dark}}}}}"
    )
    before = with_variables[: opening.end()]
    after = with_variables[opening.end() :]
    return f"{before}<style>{rules}</style>{after}"


# A caption names up to this number of panels or lines, and counts them otherwise.
MAX_NAMED = 8


def caption_of(figure: Figure, name: str) -> str:
    """Return the caption of a figure in one or two sentences.

    The label of the figure (``figure.set_label``) is its caption. Without a label, the caption is
    made from titles, axes and legends.

    Args:
        figure: The figure.
        name: Name of the figure in its file, which is used if there is no title.
    """
    label = str(figure.get_label() or "")
    if label:
        return printable(label)
    panels = []
    for axes in figure.axes:
        if axes.get_visible() and axes.get_label() != "<colorbar>":
            panels.append(axes)
    titles = _distinct(axes.get_title() for axes in panels)
    title = _plain(figure.get_suptitle())
    if not title:
        title = titles[0] if len(titles) == 1 else name_in_words(name)
    sentences = [title.rstrip(".")]
    axis_labels = _distinct(_against(axes) for axes in panels)
    if axis_labels:
        sentences.append("; ".join(axis_labels[:2]))
    if len(titles) > 1:
        sentences.append(_listed("Panels", titles))
    series: list[str] = []
    for axes in panels:
        # matplotlib names lines without a label "_child0" and so on.
        names = axes.get_legend_handles_labels()[1]
        series += [name for name in names if name and not name.startswith("_")]
    drawn = list(dict.fromkeys(_plain(name) for name in series))
    if len(drawn) > 1:
        sentences.append(_listed("Drawn", drawn))
    capitalised = [sentence[:1].upper() + sentence[1:] for sentence in sentences]
    return printable(f"{'. '.join(capitalised)}.")


def _distinct(texts: Iterable[str]) -> list[str]:
    """Return the plain texts in their order, without empty and repeated ones."""
    plain_texts = dict.fromkeys(map(_plain, texts))
    return [text for text in plain_texts if text]


def name_in_words(name: str) -> str:
    """Return the name of a figure as text; a number is the number of a figure in the document.

    >>> name_in_words("latency-over-load"), name_in_words("5.6.7")
    ('latency over load', 'as in section 5.6.7 of the document')
    >>> name_in_words("5.16-5.17")
    'as in figures 5.16 and 5.17 of the document'
    """
    if re.fullmatch(r"\d+\.\d+\.\d+", name):
        return f"as in section {name} of the document"
    if re.fullmatch(r"\d+\.\d+-\d+\.\d+", name):
        return f"as in figures {name.replace('-', ' and ')} of the document"
    if re.fullmatch(r"\d+(\.\d+)?", name):
        return f"as in figure {name} of the document"
    return name.replace("_", " ").replace("-", " ")


def _against(axes: Axes) -> str:
    y_label = _plain(axes.get_ylabel())
    x_label = _plain(axes.get_xlabel())
    if y_label and x_label:
        return f"{y_label} against {x_label}"
    return y_label or x_label


def _listed(heading: str, texts: list[str]) -> str:
    if len(texts) > MAX_NAMED:
        return f"{heading}: {len(texts)}"
    return f"{heading}: {'; '.join(texts)}"


def _plain(text: str) -> str:
    """Return the text of a label without line breaks and signs of formulas."""
    return " ".join(text.replace("$", "").split())


# Draws figures, and returns them by name.
Draw = Callable[[], Json]
_TIGHT: Json = {"bbox_inches": "tight"}


@dataclass(frozen=True, kw_only=True)
class FigureFiles:
    """One figure for a paper.

    Attributes:
        svg: The SVG document, whose letters are text.
        pdf: The PDF document, empty if it could not be created.
        caption: A caption that can be understood without the text around it.
    """

    svg: bytes
    pdf: bytes
    caption: str


def rendered(salt: str, draw: Draw, *, formulas: bool = False) -> dict[str, str]:
    """Return figures by name as SVG documents that contain their captions.

    If matplotlib is not installed, the only document says so, because a run needs no figures. The
    figures are closed.

    Args:
        salt: Determines the ids inside the documents.
        draw: Draws the figures.
        formulas: Draw text between dollar signs as a formula, as authors of studies write it.
    """
    if not installed("matplotlib"):
        return {"missing": _in_place_of_figures()}
    saved = _saved(salt, draw, {"svg.fonttype": "path"}, ("svg",), formulas, **_TIGHT)
    return {name: figure.documents["svg"].decode() for name, figure in saved.items()}


def figures_with_text(salt: str, draw: Draw, *, formulas: bool = False) -> dict[str, FigureFiles]:
    """Return the same figures as ``rendered`` for a paper, with letters as text in SVG and PDF."""
    settings = {"svg.fonttype": "none", "pdf.fonttype": 42}
    saved = _saved(salt, draw, settings, ("svg", "pdf"), formulas, **_TIGHT)
    files = {}
    for name, figure in saved.items():
        svg = figure.documents["svg"]
        pdf = figure.documents["pdf"]
        files[name] = FigureFiles(svg=svg, pdf=pdf, caption=figure.caption)
    return files


def write_figure(path: Path, salt: str, draw: Draw) -> None:
    """Write the first figure that ``draw`` returns, in the format of the file's ending."""
    kind = path.suffix.lower()[1:]
    options = {**_TIGHT, "dpi": 150, "facecolor": LIGHT["paper"]}
    saved = _saved(salt, draw, {"svg.fonttype": "path"}, (kind,), **options)
    first = next(iter(saved.values()))
    write_atomically(path, first.documents[kind])


# A group. The id of a marked group is the percent-encoded JSON list that ``mark`` writes.
_MARK = re.compile(r'<g id="([^"]*)">')
# Parts of matplotlib's SVG documents that do not belong on a page.
_NOT_OF_A_PAGE = re.compile(
    r'<metadata>.*?</metadata>|<style.*?</style>|font-family: [^;"]*;|<g id="[^"]*"/>', re.DOTALL
)
_VARIABLES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}
# Settings of matplotlib for drawings that are elements of a page.
_PAGES = {
    "font.size": 12,
    "svg.fonttype": "none",
    "axes.titlesize": 12,
    "legend.fontsize": 12,
    "axes.spines.left": False,
    "axes.edgecolor": LIGHT["soft"],
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "ytick.major.size": 0,
}


def mark(artist: Artist, kind: str, *, title: str = "", about: str = "", link: str = "") -> None:
    """Mark an artist, which becomes a group of the page's drawing.

    Args:
        artist: The artist.
        kind: CSS classes of the group.
        title: The tooltip.
        about: Identifiers of the faults that it shows.
        link: Label of the link that it shows.
    """
    artist.set_gid(quote(json.dumps([kind, title, about, link])))


def inlined(salt: str, draw: Draw) -> dict[str, tuple[Markup, str]]:
    """Return figures by name as elements of a page, with their captions.

    The elements use the fonts and colours of the page. There are none if matplotlib is not
    installed.

    Args:
        salt: Determines the ids inside the elements.
        draw: Draws the figures.
    """
    if not installed("matplotlib"):
        return {}
    saved = _saved(salt, draw, _PAGES, ("svg",), transparent=True, marked=True)
    elements = {}
    for name, figure in saved.items():
        document = figure.documents["svg"].decode()
        element = _element(f"{salt}-{name}-", name, document, figure.caption)
        elements[name] = (element, figure.caption)
    return elements


def _element(id_prefix: str, name: str, document: str, caption: str) -> Markup:
    """Return an SVG document as an element of a page.

    Args:
        id_prefix: Beginning of the ids inside the element, which are unique on the page.
        name: CSS class of the element.
        document: The document.
        caption: Caption for screen readers.
    """
    opening, content = document[document.index("<svg") :].split(">", 1)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', opening)
    assert box is not None

    def to_variable(colour: re.Match[str]) -> str:
        return _VARIABLES.get(colour[0].lower(), colour[0])

    content = IN_STYLE.sub(lambda style: COLOUR.sub(to_variable, style[0]), content)
    content = _NOT_OF_A_PAGE.sub("", content)
    content = _MARK.sub(_group, content)
    content = re.sub(r'( id="|href="#)', rf"\1{id_prefix}", content)
    return tag(
        "svg",
        Markup(content.removesuffix("</svg>\n")),
        role="img",
        aria_label=caption,
        class_=name,
        viewBox=f"0 0 {box[1]} {box[2]}",
        width=float(box[1]),
        height=float(box[2]),
    )


def _group(match: re.Match[str]) -> str:
    """Return the opening tag of a group: of a marked one with its title, else without its id."""
    if not match[1].startswith("%5B"):
        return "<g>"
    kind, title, about, link = json.loads(unquote(match[1]))
    group = tag("g", class_=kind, data_fault=about or None, data_link=link or None)
    opening = group.removesuffix("</g>")
    if title:
        opening += tag("title", lines(title))
    return opening


def caption_in(drawing: str, name: str) -> str:
    """Return the caption inside an SVG document of ``rendered``, or else the name as text."""
    match = re.search(r"<dc:description>(.*?)</dc:description>", drawing, re.DOTALL)
    return html.unescape(match[1]) if match else name_in_words(name)


def saved_figure(
    figure: Figure, kind: str, caption: str | None = None, *, marked: bool = False, **options: Any
) -> bytes:
    """Return the figure as a document, without a date, so that it is always the same.

    Args:
        figure: The figure.
        kind: A format of matplotlib ("svg", "png" or "pdf").
        caption: Caption inside an SVG or PDF document.
        marked: Keep the marks of ``mark`` in an SVG document.
        **options: Options of matplotlib's ``savefig``.
    """
    out = io.BytesIO()
    metadata = {
        "svg": {"Date": None, "Description": caption},
        "pdf": {"CreationDate": None, "Subject": caption},
    }.get(kind)
    with warnings.catch_warnings():
        # A missing letter is drawn as a box, and pages use the fonts of the reader. The longest
        # names leave a figure no room.
        warnings.filterwarnings("ignore", "Glyph .* missing|constrained_layout not applied")
        figure.savefig(out, format=kind, metadata=metadata, **options)
    document = out.getvalue()
    if kind == "svg" and not marked:
        return re.sub(rb'<g id="%5B[^"]*">', b"<g>", document)
    return document


def _take_names_literally(figure: Figure) -> None:
    """Do not draw text as formulas, because names may contain any character.

    Only the ticks of a logarithmic axis are formulas.
    """
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    powers: set[Text] = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            # This creates the labels, which must exist before the loop below.
            labels = axis.get_ticklabels(which="both")
            if isinstance(axis.get_major_formatter(), LogFormatter):
                powers.update(labels)
    for text in figure.findobj(Text):
        if text not in powers:
            text.set_parse_math(False)


@dataclass(frozen=True, kw_only=True)
class _SavedFigure:
    """A caption, and documents by format."""

    caption: str
    documents: dict[str, bytes]


def _saved(
    salt: str,
    draw: Draw,
    settings: Json,
    formats: tuple[str, ...],
    formulas: bool = False,
    **options: Any,
) -> dict[str, _SavedFigure]:
    """Draw figures, and return them by name.

    Args:
        salt: Determines the ids inside SVG documents.
        draw: Draws the figures, which are closed.
        settings: Settings of matplotlib.
        formats: The formats of the documents.
        formulas: Draw text between dollar signs as a formula.
        **options: Options of ``saved_figure``.
    """
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    saved = {}
    with only_settings({**STYLE, "svg.hashsalt": salt, **settings}):
        for name, figure in draw().items():
            caption = caption_of(figure, name)
            if not formulas:
                _take_names_literally(figure)
            if options.get("marked"):
                # The ids of clip paths would occur twice on a page.
                for artist in figure.findobj():
                    artist.set_clip_on(False)
            documents = {}
            for kind in formats:
                documents[kind] = saved_figure(figure, kind, caption, **options)
            saved[name] = _SavedFigure(caption=caption, documents=documents)
            plt.close(figure)
    return saved


def without_matplotlib() -> str:
    """Return the text that replaces figures if matplotlib is not installed."""
    reason = "Figures are drawn by matplotlib, which is not installed here"
    return f"{reason}; {pip_command('figures')}; then testbed report draws this page anew."


def _in_place_of_figures() -> str:
    """Return an SVG document of that text."""
    rows = []
    for index, line in enumerate(without_matplotlib().split("; ")):
        rows.append(f'<text x="10" y="{24 * index + 24}">{line}</text>')
    size = 'width="760" height="88" viewBox="0 0 760 88"'
    font = 'font-family="sans-serif" font-size="14"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>{"".join(rows)}</svg>\n'
