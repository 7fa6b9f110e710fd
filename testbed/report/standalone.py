"""A drawing of a page as a document of its own: the page's colours and rules inside it, letters as text, and its
caption."""

import re
from importlib.resources import files

from testbed.extras import installed
from testbed.model.run_records import LoadedRun, SessionRun
from testbed.report.drawing.colours import LIGHT
from testbed.report.drawing.network_svg import link_words, network_figure
from testbed.report.drawing.scatter_svg import loss_scatter, size_scatter
from testbed.report.drawing.svg_figures import FigureFiles
from testbed.report.drawing.timeline_svg import timeline_figure
from testbed.report.markup import Markup, escape
from testbed.report.wording import stream_sentence

_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_CLASS_COLOURS = re.compile(r"^\.(l-[a-z0-9]+)$")
_TEXT = re.compile(r"<text [^>]*>")
MIDDLE_PX = 4.0
"""From the middle of a line of text to its foot."""
FONT = "Helvetica, Arial, sans-serif"


def standalone_svg(drawing: str, caption: str) -> str:
    """An ``<svg>`` element of a page as a whole document that looks the same by itself: no style sheet, no variable is
    needed."""
    element = drawing[drawing.index("<svg") :]
    opening, rest = element.split(">", 1)
    about = f"<title>{escape(caption)}</title><style>{drawing_rules()}</style>"
    about += "<rect width='100%' height='100%' fill='#fff'/>"
    rest = _TEXT.sub(_lowered, rest)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{opening} xmlns="http://www.w3.org/2000/svg">{about}{rest}\n'


def _lowered(found: re.Match[str]) -> str:
    """A text that is on its middle, by its y: not every program knows ``dominant-baseline``."""
    opening = found[0]
    if "axis-title" in opening:
        return opening
    return re.sub(r' y="([-0-9.]+)"', lambda y: f' y="{float(y[1]) + MIDDLE_PX:g}"', opening, count=1)


def drawing_rules() -> str:
    """The rules of the page's style sheet that drawings need, in its light colours; what takes its colour from a class
    above it (``currentColor``) is written out, class by class."""
    text = files("testbed.report").joinpath("page.css").read_text(encoding="utf-8")
    for name, value in LIGHT.items():
        text = text.replace(f"var(--{name})", value)
    rules = [(selector.strip(), body) for selector, body in _RULE.findall(text)]
    colours = {
        found[1]: body.removeprefix("color:")
        for selector, body in rules
        for part in selector.split("}")
        if (found := _CLASS_COLOURS.match(part.strip()))
    }
    written = [f"text{{font-family:{FONT};font-size:12px}}"]
    for selector, body in rules:
        if not selector.startswith("svg ") or ":hover" in selector:
            continue
        own = selector.replace("svg .link ", ".link ").replace("svg ", "")
        body = re.sub(r"font:[^;]*", f"font-family:{FONT};font-size:12px", body)
        body = body.replace("dominant-baseline:central", "").replace(";opacity:", ";fill-opacity:")
        if "currentColor" in body:
            written += [
                f".{name} {own.removeprefix('.link ')}{{{body.replace('currentColor', value)}}}"
                for name, value in colours.items()
            ]
        else:
            written.append(f"{own}{{{body}}}")
    return "".join(written)


def svg_to_pdf(document: str) -> bytes:
    """The same drawing as a PDF with vector text; it needs svglib (the extra ``figures``)."""
    import io

    from reportlab.graphics import renderPDF
    from svglib.svglib import svg2rlg

    return bytes(renderPDF.drawToString(svg2rlg(io.BytesIO(document.encode()))))


def run_figures(run: LoadedRun) -> dict[str, FigureFiles]:
    """Name -> figure, for every session of the run. PDF is left empty where svglib is not installed."""
    found = {}
    for number, part in enumerate(run.sessions, start=1):
        before = f"session-{number}-" if len(run.sessions) > 1 else ""
        for name, (drawing, words) in _drawings(part).items():
            found[before + name] = _files(drawing, f"{words} {stream_sentence(part)}")
    return found


def _drawings(part: SessionRun) -> dict[str, tuple[Markup, str]]:
    layers = (
        " Colour: the capillary layer whose bottleneck the link is."
        if any(li.layer for li in part.session.links)
        else ""
    )
    route = (
        f"Route and failed links: a line is as wide as the link\u2019s share of the stream, an arrow points where it"
        f" goes.{layers} Numbers: faults in their order. {link_words(part.session.network)}"
    )
    timeline = (
        "Packets lost and redundancy sent over time. Shaded: a fault, with its number; dashed: what theory predicts for"
        " it; dotted: redundancy at rest."
    )
    agrees = "One point a fault; on the dashed line prediction and measurement agree."
    drawn = {
        "route": (network_figure(part, width=720, height=560), route),
        "timeline": (timeline_figure(part, width=1120, height=380), timeline),
        "loss": (
            loss_scatter(part, side=350),
            f"Loss measured against loss predicted. {agrees} Whiskers: where the true loss lies.",
        ),
        "block-size": (size_scatter(part, side=350), f"Packets of a block, N, measured against predicted. {agrees}"),
    }
    return {name: (drawing, words) for name, (drawing, words) in drawn.items() if drawing is not None}


def _files(drawing: Markup, caption: str) -> FigureFiles:
    document = standalone_svg(str(drawing), caption)
    pdf = svg_to_pdf(document) if installed("svglib") else b""
    return FigureFiles(svg=document.encode(), pdf=pdf, caption=caption)
