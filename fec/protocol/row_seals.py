"""Seals of many packets in the rows of an array, in one call of the C module ``_packets``.

The module is missing if there was no C compiler when the package was installed. Then ``hashlib``
and ``zlib`` compute the same bytes, row by row.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from fec.protocol.framing import NO_SEAL, SEAL_BYTES, hash_key, sealed_with
from fec.protocol.wire import CRC_OFFSET, HEADER_BYTES

# The line that a command prints if the module is missing.
SLOWER = (
    "packets are handled one by one, which is slower: fec.protocol._packets was not compiled when "
    "the package was installed"
)

Rows = NDArray[np.uint8]
Lengths = NDArray[np.int64]


@cache
def c_module() -> ModuleType | None:
    """Return the compiled module, or None if it is missing."""
    try:
        return import_module("fec.protocol._packets")
    except ImportError:
        return None


class RowSeals:
    """Computes and checks the seals of packets in rows."""

    def __init__(self, key: bytes | None, front: int = 0) -> None:
        """Prepare for packets of one stream.

        Args:
            key: The key of the seals, of 16 bytes or more; None for CRC32.
            front: Number of bytes in each row before the packet, such as headers.
        """
        self._seal = sealed_with(key)
        self._key = b"" if key is None else hash_key(key)
        self._front = front
        self._at = slice(front + CRC_OFFSET, front + HEADER_BYTES)

    def write(self, rows: Rows, packet_bytes: int) -> None:
        """Write the seal into each packet; all have the same length."""
        rows[:, self._at] = self._seals(rows, np.full(len(rows), packet_bytes))

    def hold(self, rows: Rows, lengths: Lengths) -> NDArray[np.bool_]:
        """Return a mask of the packets with the right seal; none is shorter than a header."""
        seals = self._seals(rows, np.maximum(lengths, HEADER_BYTES))
        right: NDArray[np.bool_] = (rows[:, self._at] == seals).all(axis=1)
        return right & (lengths >= HEADER_BYTES)

    def _seals(self, rows: Rows, lengths: Lengths) -> Rows:
        compiled = c_module()
        find: Callable[..., bytes] = self._one_by_one if compiled is None else compiled.seals
        seals = find(rows, rows.shape[1], self._front, lengths, CRC_OFFSET, self._key)
        return np.frombuffer(seals, np.uint8).reshape(-1, SEAL_BYTES)

    def _one_by_one(self, rows: Rows, _: int, front: int, lengths: Lengths, *__: object) -> bytes:
        packets = [
            row[front : front + length].tobytes()
            for row, length in zip(rows, lengths.tolist(), strict=True)
        ]
        return b"".join(
            self._seal(packet[:CRC_OFFSET] + NO_SEAL, packet[HEADER_BYTES:]) for packet in packets
        )
