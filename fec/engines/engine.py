"""What an engine offers to a code: the one costly operation of encoding and decoding."""

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Symbols: TypeAlias = NDArray[np.uint8]
"""uint8 of shape (symbols, symbol_bytes), C-contiguous: one symbol a row."""


class Engine(Protocol):
    """Applies a matrix over GF(2^8) to symbols: the one costly operation of encoding and decoding."""

    name: str

    def prepare(self, known: tuple[int, ...], required: tuple[int, ...]) -> Any:
        """Whatever the engine wants to keep for giving the ``wanted`` symbols from the ``known`` M (cached by the
        code)."""
        ...

    def apply(self, prepared: Any, source: Symbols, out: Symbols) -> None:
        """Write the requested symbols to ``out`` from the known ones in ``source`` (rows in those orders)."""
        ...
