"""What every code checks where its caller's values come in: whole numbers, bytes, blocks cut into symbols.

Each raises FecError with the value and what to give instead, so that no code ends in an error of the library under it.
"""

from collections.abc import Collection
from numbers import Integral

from fec.errors import FecError

MOST_NUMBER = (1 << 24) - 1
"""The largest number of a symbol: 24 bits, as a packet has for it (RFC 6330, encoding symbol id)."""
MOST_SYMBOL_BYTES = 65_535
"""RFC 6330: the symbol size has 16 bits."""
_BYTES = (bytes, bytearray, memoryview)


def whole(value: object, what: str, least: int, most: int) -> int:
    """The whole number; numpy's are whole numbers, a truth value and 2.0 are none."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or not least <= number <= most:
        raise FecError(f"{what} {str(value)[:40]!r}: give a whole number from {least} to {most}")
    return number


def plain(values: Collection[object], kind: type) -> bool:
    """Whether all are of exactly this kind: others are checked one by one, which takes longer."""
    return [*map(type, values)].count(kind) == len(values)


def symbol_bytes_of(value: object) -> int:
    """The size of a symbol."""
    return whole(value, "symbol_bytes", 1, MOST_SYMBOL_BYTES)


def octets(value: object, what: str, length: int | None = None) -> int:
    """How many bytes they are. FecError unless the value is bytes, one or more, or as many as ``length``."""
    if not isinstance(value, _BYTES) or (
        isinstance(value, memoryview) and not (value.itemsize == 1 and value.contiguous)
    ):
        raise FecError(f"{what}: got a {type(value).__name__}; give bytes")
    if len(value) != length if length is not None else not len(value):
        raise FecError(
            f"{what}: {len(value)} bytes; give {'at least 1 byte' if length is None else length}"
        )
    return len(value)


def block(data: object, symbol_bytes: int, most_symbols: int) -> int:
    """How many symbols of ``symbol_bytes`` the block has; FecError where they do not come out even, or are too many."""
    size = symbol_bytes_of(symbol_bytes)
    length = octets(data, "block")
    if length % size or length > most_symbols * size:
        raise FecError(
            f"block of {length} bytes: give 1 to {most_symbols} symbols of {size} bytes (pad the last one)"
        )
    return length // size
