"""Checks the arguments of a code: integers, bytes, and blocks of symbols.

Each check raises a FecError that says what is wrong and what to give instead, so that the errors of
the underlying libraries do not reach the caller.
"""

from collections.abc import Collection
from numbers import Integral
from typing import TypeGuard

from fec.errors import FecError

# The largest number of a symbol: the encoding symbol id of RFC 6330 has 24 bits.
MAX_NUMBER = (1 << 24) - 1

# The largest symbol: the symbol size of RFC 6330 has 16 bits.
MAX_SYMBOL_BYTES = 65_535


def whole(value: object, value_name: str, low: int, high: int) -> int:
    """Return the value as an int.

    numpy integers are accepted; bool and float are not.

    Args:
        value: The value to check.
        value_name: Its name, for the error message.
        low: Smallest accepted value.
        high: Largest accepted value.

    Raises:
        FecError: The value is not an integer within these limits.
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if low <= number <= high:
            return number
    raise FecError(f"{value_name} {str(value)[:40]!r}: give a whole number from {low} to {high}")


def plain(values: Collection[object], kind: type) -> bool:
    """Return whether all values are of exactly this type.

    If they are, the caller need not check each one, which takes longer.
    """
    return list(map(type, values)).count(kind) == len(values)


def symbol_bytes_of(value: object) -> int:
    """Return the size of a symbol in bytes, after checking it."""
    return whole(value, "symbol_bytes", 1, MAX_SYMBOL_BYTES)


def octets(value: object, value_name: str, length: int | None = None) -> int:
    """Return the length of a bytes-like value.

    Args:
        value: The value to check.
        value_name: Its name, for the error message.
        length: Required length in bytes; None for any length from 1.

    Raises:
        FecError: The value is not bytes-like, or has another length.
    """
    if not _is_bytes_like(value):
        raise FecError(f"{value_name}: got a {type(value).__name__}; give bytes")
    if length is None and len(value) == 0:
        raise FecError(f"{value_name}: 0 bytes; give at least 1 byte")
    if length is not None and len(value) != length:
        raise FecError(f"{value_name}: {len(value)} bytes; give {length}")
    return len(value)


def _is_bytes_like(value: object) -> TypeGuard[bytes | bytearray | memoryview]:
    if isinstance(value, memoryview):
        return value.itemsize == 1 and value.contiguous
    return isinstance(value, (bytes, bytearray))


def block(data: object, symbol_bytes: int, max_symbols: int) -> int:
    """Return the number of symbols of a block.

    Args:
        data: The block.
        symbol_bytes: Size of a symbol.
        max_symbols: Largest number of symbols.

    Raises:
        FecError: The block is no multiple of the symbol size, or too large.
    """
    size = symbol_bytes_of(symbol_bytes)
    length = octets(data, "block")
    if length % size or length > max_symbols * size:
        raise FecError(
            f"block of {length} bytes: "
            f"give 1 to {max_symbols} symbols of {size} bytes (pad the last one)"
        )
    return length // size
