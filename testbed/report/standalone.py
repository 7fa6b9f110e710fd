"""A drawing of a page as a document of its own: the page's colours and rules inside it, letters as text, and its
caption."""

import re
from importlib.resources import files

from testbed.report.drawing.colours import LIGHT
from testbed.report.markup import escape

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
    about = f"<title>{escape(caption)}</title><style>{drawing_rules()}</style><rect width='100%' height='100%' fill='#fff'/>"
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
