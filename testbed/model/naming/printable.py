"""Makes text from unknown sources safe to print.

Names of nodes and networks, titles, commands of stored runs, and what errors quote come from files
that anyone may have written. A raw escape sequence could clear the screen and print a verdict, a
right-to-left override could show another name, and a line break could forge a line. Such characters
are therefore printed as escapes, as are those that cannot be seen.
"""

import unicodedata
from functools import lru_cache

# Characters that lay out a text of several lines. In a single name they are escaped too.
LAYOUT = "\n\t"

# Ranges of letters and marks that show nothing, although their category does not say so (Unicode's
# Default_Ignorable_Code_Point).
_INVISIBLE = (
    (0x34F, 0x34F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xE0000, 0xE0FFF),
)

# Categories of Unicode: controls, formats (bidirectional, zero width), surrogates, private use,
# unassigned, and separators of lines and paragraphs.
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: object, keep: str = "") -> str:
    r"""Return the text with unsafe and invisible characters escaped, as in JSON.

    Args:
        text: Any value, of which the text is taken.
        keep: Characters that are not escaped, such as ``LAYOUT``.

    >>> print(printable("a\x1b[2J\u202eb, Zürich, 東京"))
    a\u001b[2J\u202eb, Zürich, 東京
    """
    shown = str(text)
    if shown.isascii() and shown.isprintable():
        return shown
    parts = [character if character in keep else _escaped(character) for character in shown]
    return "".join(parts)


@lru_cache(maxsize=4096)
def _escaped(character: str) -> str:
    code = ord(character)
    invisible = any(first <= code <= last for first, last in _INVISIBLE)
    if not invisible and unicodedata.category(character) not in _ESCAPED_CATEGORIES:
        return character
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    # A character above U+FFFF becomes two escapes, as in JSON.
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class Styled(str):
    """Text for a terminal with control characters of the testbed, such as colours.

    What the text quotes is already safe to print.
    """

    __slots__ = ()
