"""XML documents whose elements know their line in the file."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.parsers import expat

from testbed.errors import InputError

# An algorithm of a thousand ranks has this number of elements. Reading it takes some ten seconds.
MAX_ELEMENTS = 2_000_000

# The attribute with an element's line. No attribute in a file can have this name.
LINE = "line of the file"


def parse_xml(text: str) -> ElementTree.Element:
    """Return the root element of an XML document, with the line of each element.

    Raises:
        InputError: The text is not XML, has too many elements, or declares types or entities.
    """
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()
    element_count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal element_count
        element_count += 1
        if element_count > MAX_ELEMENTS:
            raise InputError(
                f"MSCCL: line {parser.CurrentLineNumber}: more than {MAX_ELEMENTS} elements "
                "in one file"
            )
        builder.start(tag, {**attributes, LINE: str(parser.CurrentLineNumber)})

    def reject_declaration(*_: object) -> None:
        # Entities may expand to any size.
        raise InputError(
            f"MSCCL: line {parser.CurrentLineNumber}: no XML of an algorithm: it declares a type"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.StartDoctypeDeclHandler = reject_declaration
    try:
        parser.Parse(text, True)
        return builder.close()
    except (expat.ExpatError, AssertionError) as error:
        raise InputError(f"MSCCL: no XML ({error})") from None


def line_prefix(element: ElementTree.Element) -> str:
    """Return the line of an element as the beginning of a message ("line 7: "), or ""."""
    line = element.get(LINE)
    return f"line {line}: " if line else ""
