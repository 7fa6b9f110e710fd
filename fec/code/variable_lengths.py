"""A block code for symbols of different lengths (RFC 6363, section 4.3).

Shorter symbols are padded with zeros for the code; the padding is not sent.
"""

from collections.abc import Mapping, Sequence

from fec.code.reed_solomon import BytesLike, ReedSolomonCode


class VariableLengthCode(ReedSolomonCode):
    r"""The Reed-Solomon code with M source symbols of different lengths, 0 bytes or more.

    Parity symbols are as long as the longest source symbol. Decoded symbols still end in the
    padding, so their contents must include their lengths.

    >>> code = VariableLengthCode(2, "reedsolo")
    >>> parity = code.parity([b"capillary", b"route"], 2, 3)
    >>> code.decode({0: b"capillary", 2: parity[0]})[1]
    b'route\x00\x00\x00\x00'
    """

    def parity(self, packets: Sequence[BytesLike], first: int, stop: int) -> list[bytes]:
        """Return parity symbols; see ``ReedSolomonCode.parity``."""
        size = max(1, *map(len, packets))
        return super().parity([_padded(packet, size) for packet in packets], first, stop)

    def decode(self, symbols: Mapping[int, BytesLike]) -> list[bytes]:
        """Return the source symbols; see ``ReedSolomonCode.decode``."""
        size = max(1, *map(len, symbols.values()))
        return super().decode({number: _padded(symbol, size) for number, symbol in symbols.items()})


def _padded(symbol: BytesLike, size: int) -> bytes:
    return bytes(symbol).ljust(size, b"\0")
