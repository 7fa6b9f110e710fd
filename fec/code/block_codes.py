"""Reed-Solomon as a code for large transfers.

A block has at most 254 source symbols. Its 255 symbols are sent repeatedly.
"""

from __future__ import annotations

from fec.code.checked import MAX_NUMBER, block, octets, symbol_bytes_of, whole
from fec.code.reed_solomon import ReedSolomonCode

_SYMBOLS = 255


class ReedSolomonBlocks:
    """The Reed-Solomon code of the streams (RFC 5510) as a ``BlockCode``.

    Symbol n is symbol n mod 255 of the Reed-Solomon block.
    """

    name = "reed-solomon"
    max_symbols = 254
    excess = 0

    def encoder(self, data: bytes, symbol_bytes: int) -> _Encoder:
        """Return the encoder of a block.

        Args:
            data: The block.
            symbol_bytes: Length of a symbol.

        Raises:
            FecError: A length is invalid.
        """
        block(data, symbol_bytes, self.max_symbols)
        return _Encoder(data, symbol_bytes)

    def decoder(self, symbols: int, symbol_bytes: int) -> _Decoder:
        """Return the decoder of a block.

        Args:
            symbols: Number of source symbols.
            symbol_bytes: Length of a symbol.

        Raises:
            FecError: A number is out of range.
        """
        return _Decoder(
            whole(symbols, "symbols", 1, self.max_symbols), symbol_bytes_of(symbol_bytes)
        )


class _Encoder:
    def __init__(self, data: bytes, symbol_bytes: int) -> None:
        source = [data[start : start + symbol_bytes] for start in range(0, len(data), symbol_bytes)]
        code = ReedSolomonCode(source_packets=len(source))
        self._symbols = [*source, *code.parity(source, len(source), _SYMBOLS)]

    def symbol(self, number: int) -> bytes:
        return self._symbols[whole(number, "symbol", 0, MAX_NUMBER) % _SYMBOLS]


class _Decoder:
    def __init__(self, symbols: int, symbol_bytes: int) -> None:
        self._symbol_bytes = symbol_bytes
        self._code = ReedSolomonCode(source_packets=symbols)
        self._symbols: dict[int, bytes] = {}

    def add(self, number: int, symbol: bytes) -> bytes | None:
        octets(symbol, "symbol", self._symbol_bytes)
        self._symbols[whole(number, "symbol", 0, MAX_NUMBER) % _SYMBOLS] = symbol
        if len(self._symbols) < self._code.source_packets:
            return None
        return b"".join(self._code.decode(self._symbols))
