"""Drawings of matplotlib that follow a reader's dark mode: their colours become CSS variables."""

import re

from testbed.report.drawing.charts import AMBER, BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, SKY
from testbed.report.drawing.colours import DARK, LIGHT

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
    used = {colour.lower() for style in IN_STYLE.findall(document) for colour in COLOUR.findall(style)}
    known = sorted(colour for colour in used | {"#000000"} if colour in _ON_DARK)

    def variable(found: re.Match[str]) -> str:
        colour = found[0].lower()
        return f"var(--c-{colour[1:]})" if colour in known else found[0]

    varied = IN_STYLE.sub(lambda style: COLOUR.sub(variable, style[0]), document)
    light, dark = (
        "".join(f"--c-{colour[1:]}:{value};" for colour, value in ((one, of.get(one, one)) for one in known)).rstrip(
            ";"
        )
        for of in ({}, _ON_DARK)
    )
    rules = f"svg{{{light};fill:var(--c-000000)}}@media screen and (prefers-color-scheme:dark){{svg{{{dark}}}}}"
    opening = _OPENING.search(varied)
    if opening is None:
        return document
    return f"{varied[: opening.end()]}<style>{rules}</style>{varied[opening.end() :]}"
