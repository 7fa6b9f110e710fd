"""Parses XML files in the encoding that they declare, such as Latin-1 or Shift_JIS.

The declaration is ignored if the file is in UTF-8: a file that has been saved again as UTF-8 often
keeps its old declaration.
"""

import codecs
import re
import xml.etree.ElementTree as ElementTree

from topologies.errors import TopologyError

_DECLARED = re.compile(
    rb"""\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']([A-Za-z][\w.-]*)["']""", re.ASCII
)
# Codecs of Python that decode bytes to text but are not encodings of files.
_NO_ENCODINGS = {"idna", "raw-unicode-escape", "unicode-escape"}


def parse_xml(content: bytes, text: str | None) -> ElementTree.Element:
    """Return the root element of an XML file.

    Entities that grow without bound and entities in other files are refused by expat.

    Args:
        content: The bytes of the file.
        text: The content, if it is valid UTF-8, UTF-16 or UTF-32; else None.

    Raises:
        TopologyError: The file is not XML. The message has the line and the column.
    """
    parser = ElementTree.XMLParser(encoding="utf-8")
    try:
        encoding = _declared_encoding(content)
        # A file in ISO-2022-JP consists of ASCII bytes, which also are valid UTF-8.
        if encoding is not None and (text is None or content.isascii()):
            text = content.decode(encoding)
        if text is None:
            parser.feed(content.strip())
        else:
            parser.feed(text.strip().encode("utf-8", "surrogatepass"))
        root: ElementTree.Element = parser.close()
    # ValueError: the content is not in the declared encoding.
    except (ElementTree.ParseError, ValueError) as error:
        hint = "; save it as UTF-8" if text is None else ""
        raise TopologyError(f"not XML: {error}{hint}") from error
    return root


def _declared_encoding(content: bytes) -> str | None:
    """Return the encoding that the first line of an XML file declares.

    Returns:
        None if there is no declaration, or Python does not know the encoding, or the declaration
        itself could not be read in this encoding.
    """
    match = _DECLARED.match(content)
    if match is None:
        return None
    try:
        encoding = codecs.lookup(match[1].decode()).name
        is_usable = encoding not in _NO_ENCODINGS and "<".encode(encoding) == b"<"
    except (LookupError, UnicodeError):
        return None
    return encoding if is_usable else None


def local(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
