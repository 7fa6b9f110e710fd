"""HTML and SVG as escaped text: ``tag`` builds an element, plain strings in it are escaped, markup is kept."""

import html
from collections.abc import Iterable

from testbed.model.naming.printable import printable
from testbed.report.column_units import trimmed

_VOID = frozenset({"meta", "link", "br", "hr", "img", "input"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(value: object) -> Markup:
    """Text made safe in element content and in attributes, and printable; markup is given back as it is, None as
    nothing."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return Markup("")
    return Markup(html.escape(printable(value), quote=True))


def lines(text: str) -> Markup:
    """Text whose line breaks are our own, escaped line by line."""
    return Markup("\n".join(escape(line) for line in text.split("\n")))


def join(parts: Iterable[object]) -> Markup:
    """Parts one after the other, each escaped unless it is markup; lists of parts are taken apart."""
    return Markup(
        "".join(join(part) if isinstance(part, (list, tuple)) else escape(part) for part in parts)
    )


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. Attribute names: a trailing underscore is dropped, others become dashes; None and False are left out,
    True stands alone, numbers are written short.

    >>> str(tag("p", "a < b", class_="note", data_row=2))
    '<p class="note" data-row="2">a &lt; b</p>'
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        words.append(attribute if value is True else f'{attribute}="{escape(short(value))}"')
    opening = f"<{' '.join(words)}>"
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{join(children)}</{name}>")


def short(value: object) -> object:
    """A coordinate with at most two decimals; anything else unchanged."""
    return trimmed(value, 2) if isinstance(value, float) else value
