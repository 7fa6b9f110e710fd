"""HTML and SVG elements built from text, which is escaped, and from other elements."""

import html
from collections.abc import Iterable

from testbed.model.naming.printable import printable
from testbed.report.column_units import trimmed

# Elements without content and closing tag.
_VOID = frozenset({"meta", "link", "br", "hr", "img", "input"})


class Markup(str):
    """Text that is already markup, and is not escaped again."""

    __slots__ = ()


def escape(value: object) -> Markup:
    """Return text as printable markup, safe in element content and in attributes.

    Markup is returned unchanged, and None as empty markup.
    """
    if isinstance(value, Markup):
        return value
    if value is None:
        return Markup("")
    return Markup(html.escape(printable(value), quote=True))


def lines(text: str) -> Markup:
    """Escape a text of several lines, whose line breaks are intended."""
    return Markup("\n".join(escape(line) for line in text.split("\n")))


def join(parts: Iterable[object]) -> Markup:
    """Concatenate the parts, each escaped unless it is markup. Lists are flattened."""
    texts = []
    for part in parts:
        text = join(part) if isinstance(part, (list, tuple)) else escape(part)
        texts.append(text)
    return Markup("".join(texts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element with its attributes and children, which are escaped unless markup.

    A trailing underscore of an attribute's name is dropped, other underscores become dashes. An
    attribute is omitted if its value is None or False, and has no value if it is True. Floats have
    at most two decimals.

    >>> str(tag("p", "a < b", class_="note", data_row=2))
    '<p class="note" data-row="2">a &lt; b</p>'
    """
    opening_parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        if value is not True:
            attribute += f'="{escape(short(value))}"'
        opening_parts.append(attribute)
    opening = f"<{' '.join(opening_parts)}>"
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{join(children)}</{name}>")


def short(value: object) -> object:
    """Return a float, such as a coordinate, as text with at most two decimals.

    Any other value is returned unchanged.
    """
    return trimmed(value, 2) if isinstance(value, float) else value
