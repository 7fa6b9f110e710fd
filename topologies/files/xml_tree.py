"""XML from bytes: its own encoding counts (Latin-1, UTF-16), but for a file that is UTF-8 whatever it declares."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from topologies.errors import TopologyError


def parse_xml(content: bytes, text: str | None) -> ElementTree.Element:
    """The root element. ``text``: the content where it is known to be UTF-8 or UTF-16, whose declaration is then not
    heeded.

    A file that was saved anew as UTF-8 often keeps its old declaration. Entities that grow without bound and entities
    of other files are refused (expat's limits). Raises TopologyError with line and column.
    """
    parser = ElementTree.XMLParser(encoding=None if text is None else "utf-8")
    try:
        parser.feed(content.strip() if text is None else text.strip().encode("utf-8", "surrogatepass"))
        root: ElementTree.Element = parser.close()
    except (
        ElementTree.ParseError,
        ValueError,
        LookupError,
    ) as error:  # ValueError, LookupError: of the declared encoding
        mend = "; save it as UTF-8" if text is None else ""
        raise TopologyError(f"not XML: {error}{mend}") from error
    return root


def local(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
