"""What an erasure code offers to senders and receivers, and what an engine offers to a code.

Protocols only, so that a large-block code (RaptorQ) or another engine fits in without touching its users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Symbols: TypeAlias = NDArray[np.uint8]
"""uint8 of shape (symbols, symbol_bytes), C-contiguous: one symbol a row."""

BytesLike: TypeAlias = bytes | bytearray | memoryview


class ErasureCode(Protocol):
    """A systematic code of ``source_packets`` symbols a block; symbol ids below that are the source symbols themselves."""

    @property
    def source_packets(self) -> int: ...

    @property
    def largest_block(self) -> int: ...

    def encode(self, packets: Sequence[BytesLike], count: int) -> list[bytes]:
        """The block's symbols 0 .. count - 1."""
        ...

    def parity(self, packets: Sequence[BytesLike], first: int, stop: int) -> list[bytes]:
        """The block's symbols first .. stop - 1, the same whatever else was sent of it."""
        ...

    def decode(self, symbols: Mapping[int, BytesLike]) -> list[bytes]:
        """All source symbols, from any that suffice; raises NotDecodable."""
        ...


class Engine(Protocol):
    """Applies a matrix over GF(2^8) to symbols: the one costly operation of encoding and decoding."""

    name: str

    def prepare(self, known: tuple[int, ...], wanted: tuple[int, ...]) -> Any:
        """Whatever the engine wants to keep for giving the ``wanted`` symbols from the ``known`` M (cached by the code)."""
        ...

    def bind(self, prepared: Any, source: Symbols, out: Symbols) -> Callable[[], None]:
        """A call that writes the wanted symbols to ``out`` from the known ones in ``source`` (rows in those orders).

        It may be called again whenever the buffers' contents have changed.
        """
        ...
