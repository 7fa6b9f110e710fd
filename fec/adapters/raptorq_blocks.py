"""RaptorQ (RFC 6330) through the raptorq package: one source block an encoder, as many repair symbols as are
requested."""

from __future__ import annotations

from typing import Any

from fec.code.checked import MOST_NUMBER, block, octets, symbol_bytes_of, whole
from fec.errors import FecError

_ID_BYTES = 4
MAX_BLOCK_BYTES = 8 << 20
"""The package would cut more than this into several blocks of its own."""


def _check_size(symbols: int, symbol_bytes: int) -> None:
    if symbols * symbol_bytes > MAX_BLOCK_BYTES or symbol_bytes % 8:
        raise FecError(
            f"block of {symbols} symbols of {symbol_bytes} bytes: at most 8 MiB, symbols a multiple of 8 bytes"
        )


class RaptorQBlocks:
    """``BlockCode`` of RFC 6330; symbols come without the package's own payload id (the packet's header has one)."""

    name = "raptorq"
    most_symbols = 56403
    excess = 2

    def encoder(self, data: bytes, symbol_bytes: int) -> _Encoder:
        """Raises FecError for a block that the package would not keep whole."""
        _check_size(block(data, symbol_bytes, self.most_symbols), symbol_bytes)
        return _Encoder(data, symbol_bytes)

    def decoder(self, symbols: int, symbol_bytes: int) -> _Decoder:
        _check_size(whole(symbols, "symbols", 1, self.most_symbols), symbol_bytes_of(symbol_bytes))
        return _Decoder(symbols, symbol_bytes)


class _Encoder:
    def __init__(self, data: bytes, symbol_bytes: int) -> None:
        import raptorq

        self._encoder: Any = raptorq.Encoder.with_defaults(bytes(data), symbol_bytes)
        self._source = len(data) // symbol_bytes
        self._packets: list[bytes] = self._encoder.get_encoded_packets(0)
        if len(self._packets) != self._source or len(self._packets[0]) != _ID_BYTES + symbol_bytes:
            raise FecError(
                f"RaptorQ: symbols of {len(self._packets[0]) - _ID_BYTES} bytes where {symbol_bytes} were requested"
            )

    def symbol(self, number: int) -> bytes:
        whole(number, "symbol", 0, MOST_NUMBER)
        if number >= len(self._packets):
            self._packets = self._encoder.get_encoded_packets(max(16, 2 * number - self._source))
        packet = self._packets[number]
        if packet[0] != 0 or int.from_bytes(packet[1:4], "big") != number:
            raise FecError(
                f"RaptorQ: symbol {number} came as {packet[:4].hex()}; this version of the package orders otherwise"
            )
        return packet[_ID_BYTES:]


class _Decoder:
    def __init__(self, symbols: int, symbol_bytes: int) -> None:
        import raptorq

        self._symbol_bytes = symbol_bytes
        self._decoder: Any = raptorq.Decoder.with_defaults(symbols * symbol_bytes, symbol_bytes)

    def add(self, number: int, symbol: bytes) -> bytes | None:
        octets(symbol, "symbol", self._symbol_bytes)
        payload_id = whole(number, "symbol", 0, MOST_NUMBER).to_bytes(_ID_BYTES, "big")
        found: bytes | None = self._decoder.decode(payload_id + bytes(symbol))
        return found
