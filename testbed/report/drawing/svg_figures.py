"""matplotlib figures as documents that are the same bytes each time; without a screen.

For pages as SVG whose letters are shapes, so that it looks the same wherever it is opened, or as an element of the page
whose letters are the page's and whose marks the pointer finds; for papers as SVG and PDF whose letters are text. Each
has its caption.
"""

from __future__ import annotations

import html
import io
import json
import re
import warnings
from collections.abc import Callable
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

_DARK_HUES = {
    BLUE: "#5aaef0", ORANGE: "#f5894a", GREEN: "#3fc79a", PURPLE: "#dd9dbf", AMBER: "#efb53c", SKY: "#86cdf3",
    INK: "#eceef0", GREY: "#a9b1ba", RED: "#ff8a80",
}  # fmt: skip
"""Hues of charts -> lighter ones of the same tint, with 3:1 at least against the dark page (WCAG 2.2, 1.4.11)."""
_ON_DARK = {LIGHT[name]: DARK[name] for name in LIGHT} | _DARK_HUES | {"#000000": DARK["ink"]}
"""Colour on a light page -> on a dark one, where they differ."""
COLOUR = re.compile(r"#[0-9a-f]{6}\b", re.IGNORECASE)
IN_STYLE = re.compile(r'style="[^"]*"')
_OPENING = re.compile(r"<svg\b[^>]*>")


def following_dark_mode(document: str) -> str:
    """The SVG document with its known colours as variables; the others stay as they are. Text without a colour of its
    own takes the ink's.

    >>> following_dark_mode('<svg><path style="fill: #ffffff"/></svg>').partition("</style>")[2]
    '<path style="fill: var(--c-ffffff)"/></svg>'
    """
    used = {
        colour.lower() for style in IN_STYLE.findall(document) for colour in COLOUR.findall(style)
    }
    known = sorted(colour for colour in used | {"#000000"} if colour in _ON_DARK)

    def variable(found: re.Match[str]) -> str:
        colour = found[0].lower()
        return f"var(--c-{colour[1:]})" if colour in known else found[0]

    varied = IN_STYLE.sub(lambda style: COLOUR.sub(variable, style[0]), document)
    light, dark = (
        "".join(
            f"--c-{colour[1:]}:{value};"
            for colour, value in ((one, of.get(one, one)) for one in known)
        ).rstrip(";")
        for of in ({}, _ON_DARK)
    )
    rules = f"svg{{{light};fill:var(--c-000000)}}@media screen and (prefers-color-scheme:dark){{svg{{{dark}}}}}"
    opening = _OPENING.search(varied)
    if opening is None:
        return document
    return f"{varied[: opening.end()]}<style>{rules}</style>{varied[opening.end() :]}"


if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_NAMED = 8
"""So many panels or lines are named; of more only the number is told."""


def caption_of(figure: Figure, name: str) -> str:
    """One or two sentences. A figure that has a caption of its own carries it as its label (``figure.set_label``).

    ``name``: of the figure, as its file is called; its words stand for a title where there is none.
    """
    own = str(figure.get_label() or "")
    if own:
        return printable(own)
    axes = [each for each in figure.axes if each.get_visible() and each.get_label() != "<colorbar>"]
    titles = list(dict.fromkeys(filter(None, (_plain(each.get_title()) for each in axes))))
    title = _plain(figure.get_suptitle()) or (
        titles[0] if len(titles) == 1 else name_in_words(name)
    )
    sentences = [title.rstrip(".")]
    against = list(dict.fromkeys(filter(None, map(_against, axes))))
    if against:
        sentences.append("; ".join(against[:2]))
    if len(titles) > 1:
        sentences.append(_listed("Panels", titles))
    named = (
        _plain(word)
        for each in axes
        for word in each.get_legend_handles_labels()[1]
        if word and word[0] != "_"
    )
    lines = list(dict.fromkeys(named))
    if len(lines) > 1:
        sentences.append(_listed("Drawn", lines))
    return printable(". ".join(words[:1].upper() + words[1:] for words in sentences) + ".")


def name_in_words(name: str) -> str:
    """A figure's name as words; one that is a number is that of the document's figure.

    >>> name_in_words("latency-over-load"), name_in_words("5.6.7"), name_in_words("5.16-5.17")
    ('latency over load', 'as in section 5.6.7 of the document', 'as in figures 5.16 and 5.17 of the document')
    """
    if re.fullmatch(r"\d+\.\d+\.\d+", name):
        return f"as in section {name} of the document"
    if re.fullmatch(r"\d+\.\d+-\d+\.\d+", name):
        return f"as in figures {name.replace('-', ' and ')} of the document"
    if re.fullmatch(r"\d+(\.\d+)?", name):
        return f"as in figure {name} of the document"
    return name.replace("_", " ").replace("-", " ")


def _against(axes: Axes) -> str:
    down, across = _plain(axes.get_ylabel()), _plain(axes.get_xlabel())
    return f"{down} against {across}" if down and across else down or across


def _listed(what: str, words: list[str]) -> str:
    return f"{what}: {'; '.join(words)}" if len(words) <= MAX_NAMED else f"{what}: {len(words)}"


def _plain(words: str) -> str:
    """Without the line breaks and the mathematics of a label."""
    return " ".join(words.replace("$", "").split())


Draw = Callable[[], Json]
_TIGHT: Json = {"bbox_inches": "tight"}


@dataclass(frozen=True, kw_only=True)
class FigureFiles:
    """One figure for a paper: documents with vector text, and a caption that stands alone. ``pdf`` empty: it could not
    be made."""

    svg: bytes
    pdf: bytes
    caption: str


def rendered(salt: str, draw: Draw, *, formulas: bool = False) -> dict[str, str]:
    """The figures that ``draw`` makes, by name, as SVG documents with their captions inside; each is closed afterwards.
    ``salt`` fixes the ids inside them; ``formulas``: what stands between dollars is one, as authors of studies write
    them. Where matplotlib is not installed, one picture in their place says so: the run
    itself needs no figures.
    """
    if not installed("matplotlib"):
        return {"missing": _in_place_of_figures()}
    found = _saved(salt, draw, {"svg.fonttype": "path"}, ("svg",), formulas, **_TIGHT)
    return {name: files["svg"].decode() for name, (_, files) in found.items()}


def figures_with_text(salt: str, draw: Draw, *, formulas: bool = False) -> dict[str, FigureFiles]:
    """The same figures for a paper: letters are text in both formats."""
    found = _saved(
        salt, draw, {"svg.fonttype": "none", "pdf.fonttype": 42}, ("svg", "pdf"), formulas, **_TIGHT
    )
    return {
        name: FigureFiles(svg=files["svg"], pdf=files["pdf"], caption=caption)
        for name, (caption, files) in found.items()
    }


def write_figure(path: Path, salt: str, draw: Draw) -> None:
    """Write the first of the figures that ``draw`` makes; the file's ending is the format."""
    kind = path.suffix.lower()[1:]
    found = _saved(
        salt, draw, {"svg.fonttype": "path"}, (kind,), **_TIGHT, dpi=150, facecolor=LIGHT["paper"]
    )
    write_atomically(path, next(iter(found.values()))[1][kind])


_MARK = re.compile(r'<g id="([^"]*)">')
"""A group; the id of a marked one is what ``mark`` says, as a list of JSON in the signs of an address."""
_NOT_OF_A_PAGE = re.compile(
    r'<metadata>.*?</metadata>|<style.*?</style>|font-family: [^;"]*;|<g id="[^"]*"/>', re.DOTALL
)
_VARIABLES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}
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
"""matplotlib's settings for drawings that are elements of a page."""


def mark(artist: Artist, kind: str, *, title: str = "", about: str = "", link: str = "") -> None:
    """What an artist is on a page: a group of these classes; ``title`` is shown at the pointer, ``about`` names the
    faults and ``link`` the link that it stands for."""
    artist.set_gid(quote(json.dumps([kind, title, about, link])))


def inlined(salt: str, draw: Draw) -> dict[str, tuple[Markup, str]]:
    """Name -> (the drawing as an element of a page, which takes its colours and letters; its caption). Nothing where
    matplotlib is not installed."""
    if not installed("matplotlib"):
        return {}
    found = _saved(salt, draw, _PAGES, ("svg",), transparent=True, marked=True)
    return {
        name: (_element(f"{salt}-{name}-", name, files["svg"].decode(), caption), caption)
        for name, (caption, files) in found.items()
    }


def _element(before: str, name: str, document: str, words: str) -> Markup:
    """``before``: what ids on the page begin with."""
    opening, inside = document[document.index("<svg") :].split(">", 1)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', opening)
    assert box is not None
    coloured = IN_STYLE.sub(
        lambda style: COLOUR.sub(
            lambda colour: _VARIABLES.get(colour[0].lower(), colour[0]), style[0]
        ),
        inside,
    )
    drawing = _MARK.sub(_group, _NOT_OF_A_PAGE.sub("", coloured))
    drawing = re.sub(r'( id="|href="#)', rf"\1{before}", drawing)
    own = {
        "class_": name,
        "viewBox": f"0 0 {box[1]} {box[2]}",
        "width": float(box[1]),
        "height": float(box[2]),
    }
    return tag("svg", Markup(drawing.removesuffix("</svg>\n")), role="img", aria_label=words, **own)


def _group(found: re.Match[str]) -> str:
    """The opening of a group that ``mark`` marked, with its title; of another without its id."""
    if not found[1].startswith("%5B"):
        return "<g>"
    kind, title, about, link = json.loads(unquote(found[1]))
    opening = tag("g", class_=kind, data_fault=about or None, data_link=link or None).removesuffix(
        "</g>"
    )
    return opening + (tag("title", lines(title)) if title else "")


def caption_in(drawing: str, name: str) -> str:
    """The caption that an SVG document of ``rendered`` carries; the name in words where it has none."""
    found = re.search(r"<dc:description>(.*?)</dc:description>", drawing, re.DOTALL)
    return html.unescape(found[1]) if found else name_in_words(name)


def saved_figure(
    figure: Figure, kind: str, caption: str | None = None, *, marked: bool = False, **options: Any
) -> bytes:
    """The figure in matplotlib's format of that name ("svg", "png" or "pdf"), without a date, so that the same figure
    gives the same bytes (``svg.hashsalt`` fixes the ids in it); ``marked``: with what ``mark`` says, ``options``: what
    ``savefig`` takes."""
    out = io.BytesIO()
    words = {
        "svg": {"Date": None, "Description": caption},
        "pdf": {"CreationDate": None, "Subject": caption},
    }.get(kind)
    with warnings.catch_warnings():
        # a box stands for a letter, on pages it is the reader's; the longest of names leave a figure no room
        warnings.filterwarnings("ignore", "Glyph .* missing|constrained_layout not applied")
        figure.savefig(out, format=kind, metadata=words, **options)
    document = out.getvalue()
    return document if marked or kind != "svg" else re.sub(rb'<g id="%5B[^"]*">', b"<g>", document)


def _take_names_literally(figure: Figure) -> None:
    """Names in a figure may have any signs; formulas are only what a logarithmic axis writes at its ticks."""
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    axes = [axis for each in figure.axes for axis in (each.xaxis, each.yaxis)]
    powers: set[Text] = set()
    for axis in axes:
        labels = axis.get_ticklabels(which="both")  # which makes them
        if isinstance(axis.get_major_formatter(), LogFormatter):
            powers.update(labels)
    for text in figure.findobj(Text):
        if text not in powers:
            text.set_parse_math(False)


def _saved(
    salt: str,
    draw: Draw,
    settings: Json,
    formats: tuple[str, ...],
    formulas: bool = False,
    **options: Any,
) -> dict[str, tuple[str, dict[str, bytes]]]:
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    found = {}
    with only_settings({**STYLE, "svg.hashsalt": salt, **settings}):
        for name, figure in draw().items():
            caption = caption_of(figure, name)
            if not formulas:
                _take_names_literally(figure)
            for artist in figure.findobj() if options.get("marked") else ():
                artist.set_clip_on(False)  # a page may have one of an id, and names of its own
            found[name] = (
                caption,
                {kind: saved_figure(figure, kind, caption, **options) for kind in formats},
            )
            plt.close(figure)
    return found


def without_matplotlib() -> str:
    """What stands in the place of figures."""
    words = "Figures are drawn by matplotlib, which is not installed here"
    return f"{words}; {pip_command('figures')}; then testbed report draws this page anew."


def _in_place_of_figures() -> str:
    """An SVG document of that text, a line each."""
    rows = "".join(
        f'<text x="10" y="{24 * n + 24}">{line}</text>'
        for n, line in enumerate(without_matplotlib().split("; "))
    )
    size = 'width="760" height="88" viewBox="0 0 760 88"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">{rows}</svg>\n'
