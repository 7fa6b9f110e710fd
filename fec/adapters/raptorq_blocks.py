"""The RaptorQ code (RFC 6330) of the raptorq package.

An encoder has one source block, and generates repair symbols when they are requested.
"""

from __future__ import annotations

from typing import Any

from fec.code.checked import MAX_NUMBER, block, octets, symbol_bytes_of, whole
from fec.errors import FecError

# Length of the payload id in front of each symbol of the package.
_ID_BYTES = 4

# Repair symbols are generated in batches of at least this number.
_MIN_REPAIR_SYMBOLS = 16

# The package divides more data than this into several source blocks.
MAX_BLOCK_BYTES = 8 << 20


def _check_size(symbols: int, symbol_bytes: int) -> None:
    if symbols * symbol_bytes > MAX_BLOCK_BYTES or symbol_bytes % 8:
        raise FecError(
            f"block of {symbols} symbols of {symbol_bytes} bytes: "
            "at most 8 MiB, symbols a multiple of 8 bytes"
        )


class RaptorQBlocks:
    """The code of RFC 6330 as a ``BlockCode``.

    The symbols do not contain the package's payload id, because the header of the packet has one.
    """

    name = "raptorq"
    max_symbols = 56403
    excess = 2

    def encoder(self, data: bytes, symbol_bytes: int) -> _Encoder:
        """Return the encoder of a block.

        Args:
            data: The block.
            symbol_bytes: Length of a symbol, a multiple of 8.

        Raises:
            FecError: The package would divide the block, or a length is invalid.
        """
        _check_size(block(data, symbol_bytes, self.max_symbols), symbol_bytes)
        return _Encoder(data, symbol_bytes)

    def decoder(self, symbols: int, symbol_bytes: int) -> _Decoder:
        """Return the decoder of a block.

        Args:
            symbols: Number of source symbols.
            symbol_bytes: Length of a symbol, a multiple of 8.

        Raises:
            FecError: The block is too large, or a length is invalid.
        """
        _check_size(whole(symbols, "symbols", 1, self.max_symbols), symbol_bytes_of(symbol_bytes))
        return _Decoder(symbols, symbol_bytes)


class _Encoder:
    def __init__(self, data: bytes, symbol_bytes: int) -> None:
        import raptorq

        self._encoder: Any = raptorq.Encoder.with_defaults(bytes(data), symbol_bytes)
        self._source_symbols = len(data) // symbol_bytes
        self._packets: list[bytes] = self._encoder.get_encoded_packets(0)
        length = len(self._packets[0]) - _ID_BYTES
        if len(self._packets) != self._source_symbols or length != symbol_bytes:
            raise FecError(
                f"RaptorQ: symbols of {length} bytes where {symbol_bytes} were requested"
            )

    def symbol(self, number: int) -> bytes:
        whole(number, "symbol", 0, MAX_NUMBER)
        if number >= len(self._packets):
            # The package generates all repair symbols again. Twice the number keeps this rare.
            repair_symbols = max(_MIN_REPAIR_SYMBOLS, 2 * number - self._source_symbols)
            self._packets = self._encoder.get_encoded_packets(repair_symbols)
        packet = self._packets[number]
        # The payload id consists of the number of the source block and the symbol id.
        if packet[0] != 0 or int.from_bytes(packet[1:4], "big") != number:
            raise FecError(
                f"RaptorQ: symbol {number} came as {packet[:4].hex()}; "
                "this version of the package orders otherwise"
            )
        return packet[_ID_BYTES:]


class _Decoder:
    def __init__(self, symbols: int, symbol_bytes: int) -> None:
        import raptorq

        self._symbol_bytes = symbol_bytes
        self._decoder: Any = raptorq.Decoder.with_defaults(symbols * symbol_bytes, symbol_bytes)

    def add(self, number: int, symbol: bytes) -> bytes | None:
        octets(symbol, "symbol", self._symbol_bytes)
        payload_id = whole(number, "symbol", 0, MAX_NUMBER).to_bytes(_ID_BYTES, "big")
        data: bytes | None = self._decoder.decode(payload_id + bytes(symbol))
        return data
