"""Checks of the values that callers give to a code: integers, bytes, and blocks of symbols.

Each check raises FecError with the value and what to give instead, so that no error of the library
below reaches the caller.
"""

from collections.abc import Collection
from numbers import Integral

from fec.errors import FecError

# The largest number of a symbol: the encoding symbol id of RFC 6330 has 24 bits.
MOST_NUMBER = (1 << 24) - 1
# The largest symbol: the symbol size of RFC 6330 has 16 bits.
MOST_SYMBOL_BYTES = 65_535
_BYTES = (bytes, bytearray, memoryview)


def whole(value: object, what: str, least: int, most: int) -> int:
    """Return the value as an int.

    numpy integers are accepted; bool and float are not.

    Args:
        value: The value to check.
        what: Its name, for the error message.
        least: Smallest accepted value.
        most: Largest accepted value.

    Raises:
        FecError: The value is not an integer within these limits.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or not least <= number <= most:
        raise FecError(f"{what} {str(value)[:40]!r}: give a whole number from {least} to {most}")
    return number


def plain(values: Collection[object], kind: type) -> bool:
    """Return whether all values are of exactly this type.

    If they are, the caller need not check them one by one, which takes longer.
    """
    return [*map(type, values)].count(kind) == len(values)


def symbol_bytes_of(value: object) -> int:
    """Return the size of a symbol in bytes, after checking it."""
    return whole(value, "symbol_bytes", 1, MOST_SYMBOL_BYTES)


def octets(value: object, what: str, length: int | None = None) -> int:
    """Return the length of a bytes-like value.

    Args:
        value: The value to check.
        what: Its name, for the error message.
        length: Required length in bytes; None for any length from 1.

    Raises:
        FecError: The value is not bytes-like, or has another length.
    """
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
    """Return the number of symbols of a block.

    Args:
        data: The block.
        symbol_bytes: Size of a symbol.
        most_symbols: Largest number of symbols.

    Raises:
        FecError: The block is no multiple of the symbol size, or too large.
    """
    size = symbol_bytes_of(symbol_bytes)
    length = octets(data, "block")
    if length % size or length > most_symbols * size:
        raise FecError(
            f"block of {length} bytes: give 1 to {most_symbols} symbols of {size} bytes (pad the last one)"
        )
    return length // size
