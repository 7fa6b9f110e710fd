"""Seals of many packets in the rows of an array, in one call of the C module ``_packets`` where it was built.

Without it (no C compiler when the package was installed) ``hashlib`` and ``zlib`` give the same bytes, a row at a time.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from fec.protocol.framing import NO_SEAL, SEAL_BYTES, hash_key, sealed_with
from fec.protocol.wire import CRC_OFFSET, HEADER_BYTES

# What a command says that would use the module.
SLOWER = "packets are handled one by one, which is slower: no C compiler made fec.protocol._packets"

Rows = NDArray[np.uint8]
Lengths = NDArray[np.int64]


@cache
def c_module() -> ModuleType | None:
    """Return the module that a C compiler made, or None."""
    try:
        return import_module("fec.protocol._packets")
    except ImportError:
        return None


class RowSeals:
    """Computes and checks the seals of packets that lie in rows, each behind ``front`` bytes of its row.

    Args:
        key: As of ``sealed_with``; without one the seals are CRC32.
        front: Bytes of a row before the packet.
    """

    def __init__(self, key: bytes | None, front: int = 0) -> None:
        self._seal = sealed_with(key)
        self._key = b"" if key is None else hash_key(key)
        self._front = front
        self._at = slice(front + CRC_OFFSET, front + HEADER_BYTES)

    def write(self, rows: Rows, packet_bytes: int) -> None:
        """Write the seal into each packet; all have the same length."""
        rows[:, self._at] = self._seals(rows, np.full(len(rows), packet_bytes))

    def hold(self, rows: Rows, lengths: Lengths) -> NDArray[np.bool_]:
        """Return which packets bear the right seal; what is shorter than a header does not."""
        seals = self._seals(rows, np.maximum(lengths, HEADER_BYTES))
        right: NDArray[np.bool_] = (rows[:, self._at] == seals).all(axis=1)
        return right & (lengths >= HEADER_BYTES)

    def _seals(self, rows: Rows, lengths: Lengths) -> Rows:
        compiled = c_module()
        find: Callable[..., bytes] = compiled.seals if compiled is not None else self._one_by_one
        found = find(rows, rows.shape[1], self._front, lengths, CRC_OFFSET, self._key)
        return np.frombuffer(found, np.uint8).reshape(-1, SEAL_BYTES)

    def _one_by_one(self, rows: Rows, _: int, front: int, lengths: Lengths, *__: object) -> bytes:
        packets = [
            row[front : front + length].tobytes()
            for row, length in zip(rows, lengths.tolist(), strict=True)
        ]
        return b"".join(
            self._seal(packet[:CRC_OFFSET] + NO_SEAL, packet[HEADER_BYTES:]) for packet in packets
        )
