"""Text of others as it may be shown: what steers a terminal, turns the direction of writing or cannot be seen is
written out.

Names of nodes and networks, titles, commands of stored runs and what errors quote come from files that anybody may have
written. A raw escape sequence clears the screen and writes a verdict of its own; a right-to-left override shows another
name; a line break forges a line.
"""

import unicodedata
from functools import lru_cache

LAYOUT = "\n\t"
"""What a whole text is laid out with. In a single name neither is left as it is."""
_UNSEEN = (
    *(
        (0x34F, 0x34F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
    ),
    *((0xFFA0, 0xFFA0), (0xE0000, 0xE0FFF)),
)
"""What shows nothing although its category does not say so (Unicode's Default_Ignorable_Code_Point, letters and
marks)."""
_WRITTEN_OUT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories: controls, formats (bidirectional, zero width), surrogates, private, unassigned, separators of lines and
paragraphs."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: object, keep: str = "") -> str:
    """The text with everything written out, as JSON escapes it, that is not to be seen as it is; ``keep`` is left.

    >>> print(printable("a\\x1b[2J\\u202eb, Zürich, 東京"))
    a\\u001b[2J\\u202eb, Zürich, 東京
    """
    shown = str(text)
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(one if one in keep else _written(one) for one in shown)


@lru_cache(maxsize=4096)
def _written(one: str) -> str:
    code = ord(one)
    unseen = any(first <= code <= last for first, last in _UNSEEN)
    if not unseen and unicodedata.category(one) not in _WRITTEN_OUT:
        return one
    if one in _SHORT:
        return _SHORT[one]
    units = one.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class Styled(str):
    """Text for a terminal whose control characters are our own (colours, a line that is drawn again); what it quotes is
    printable."""

    __slots__ = ()
