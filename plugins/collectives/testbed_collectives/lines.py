"""XML with the line of every element."""

from __future__ import annotations

from itertools import count
from xml.etree import ElementTree
from xml.parsers import expat

from testbed.errors import InputError

MOST_ELEMENTS = 2_000_000
"""As many as an algorithm of a thousand ranks has; some ten seconds of reading."""
LINE = "line of the file"
"""The attribute in which an element's line is kept; no attribute of a file has such a name."""


def parse_xml(text: str) -> ElementTree.Element:
    """The root. InputError for what is no XML, and for documents that declare types or entities."""
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()

    numbers = count(1)

    def start(tag: str, attributes: dict[str, str]) -> None:
        if next(numbers) > MOST_ELEMENTS:
            raise InputError(
                f"MSCCL: line {parser.CurrentLineNumber}: more than {MOST_ELEMENTS} elements in one file"
            )
        builder.start(tag, {**attributes, LINE: str(parser.CurrentLineNumber)})

    def declared(*_: object) -> None:
        raise InputError(
            f"MSCCL: line {parser.CurrentLineNumber}: no XML of an algorithm: it declares a type"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.StartDoctypeDeclHandler = declared
    try:
        parser.Parse(text, True)
        return builder.close()
    except (expat.ExpatError, AssertionError) as error:
        raise InputError(f"MSCCL: no XML ({error})") from None


def place_of(element: ElementTree.Element) -> str:
    """'line 7: ', or nothing where it is not known."""
    line = element.get(LINE)
    return f"line {line}: " if line else ""
