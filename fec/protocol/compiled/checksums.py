"""Steps that both compiled ends share: numbers as they stand on the wire, and their CRC32."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER, SEAL = 28, 24
"""Bytes of a packet's header; where its seal is."""
_AT_ONCE = 16


def crc_tables() -> NDArray[np.uint32]:
    """Row j: what a byte adds to a CRC32 that j bytes follow."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0xEDB88320), table >> 1)
    rows = [table]
    for _ in range(_AT_ONCE - 1):
        rows.append(table[rows[-1] & 0xFF] ^ rows[-1] >> 8)
    return np.stack(rows)


def crc_of(row: NDArray[np.uint8], start: int, stop: int, tables: NDArray[np.uint32], register: int) -> Any:
    """CRC32's register after these bytes too: it begins with all ones, and all its bits are turned in the end."""
    at, crc = start, np.int64(register)
    while at + _AT_ONCE <= stop:
        found = np.int64(0)
        for j in range(4):
            found ^= tables[15 - j, np.uint8(row[at + j] ^ crc >> 8 * j & 0xFF)]
        for j in range(4, _AT_ONCE):
            found ^= tables[15 - j, row[at + j]]
        crc, at = found, at + _AT_ONCE
    while at < stop:
        crc, at = tables[0, np.uint8(row[at] ^ crc & 0xFF)] ^ crc >> 8, at + 1
    return crc


def put(row: NDArray[np.uint8], at: int, count: int, value: Any) -> None:
    """A number of so many bytes, big endian."""
    for j in range(count):
        row[at + j] = value >> 8 * (count - 1 - j) & 0xFF


def get(row: NDArray[np.uint8], at: int, count: int) -> Any:
    """The number that these bytes are."""
    value = np.int64(0)
    for j in range(count):
        value = value << 8 | row[at + j]
    return value
