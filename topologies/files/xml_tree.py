"""XML from bytes: its own encoding counts (Latin-1, Shift_JIS), but for a file that is UTF-8 whatever it declares."""

import codecs
import re
import xml.etree.ElementTree as ElementTree

from topologies.errors import TopologyError

_DECLARED = re.compile(
    rb"""\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']([A-Za-z][\w.-]*)["']""", re.ASCII
)
_NO_ENCODINGS = {"idna", "raw-unicode-escape", "unicode-escape"}
"""Codecs of Python's that make text of bytes, and are none of files."""


def parse_xml(content: bytes, text: str | None) -> ElementTree.Element:
    """The root element. ``text``: the content where it is known to be UTF-8, UTF-16 or UTF-32, whose declaration is
    then not heeded.

    A file that was saved again as UTF-8 often keeps its old declaration. Entities that grow without bound and entities
    of other files are refused (expat's limits). Raises TopologyError with line and column.
    """
    parser = ElementTree.XMLParser(encoding="utf-8")
    try:
        encoding = _declared(content)
        if encoding is not None and (
            text is None or content.isascii()
        ):  # ASCII: ISO-2022-JP looks like it
            text = content.decode(encoding)
        parser.feed(
            content.strip() if text is None else text.strip().encode("utf-8", "surrogatepass")
        )
        root: ElementTree.Element = parser.close()
    except (ElementTree.ParseError, ValueError) as error:  # ValueError: of the encoding
        hint = "; save it as UTF-8" if text is None else ""
        raise TopologyError(f"not XML: {error}{hint}") from error
    return root


def _declared(content: bytes) -> str | None:
    """The encoding that the first line declares; None where none is, or one in which that line could not be read."""
    found = _DECLARED.match(content)
    try:
        encoding = "" if found is None else codecs.lookup(found[1].decode()).name
        return encoding if encoding not in _NO_ENCODINGS and "<".encode(encoding) == b"<" else None
    except (LookupError, UnicodeError):
        return None


def local(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
