"""The bytes on the wire: packet header, protected symbol, loss report. Big endian, field order of RFC 6865's payload
id.

Decoding either gives a value or raises a MalformedPacket that names its reason; nothing in between.
"""

import struct
from dataclasses import dataclass
from operator import attrgetter

from fec.errors import FecError, MalformedPacket
from fec.protocol.framing import (
    BLOCK_NUMBERS,
    KEYED_FLAG,
    MAX_SYMBOL_BYTES,
    MAX_SYMBOL_ID,
    SHORT_FLAG,
    VERSION,
    PacketType,
    Seal,
    as_bytes,
    check_seal,
    checksum,
    peek_type,
)
from fec.protocol.loss_report import MAX_BLOCKS, LossReport, decode_report

# Others import what is on the wire from here: the names of reports and of what both have in common, too.
__all__ = [
    "BLOCK_NUMBERS", "CRC_OFFSET", "HEADER", "HEADER_BYTES", "KEYED_FLAG", "MAX_BLOCKS", "MAX_SYMBOL_ID",
    "STREAM_UDP_PORT", "VERSION", "LossReport", "PacketHeader", "PacketType", "decode_header",
    "decode_report", "peek_type", "protect", "unprotect",
]  # fmt: skip

STREAM_UDP_PORT = 47000
"""UDP destination port of streams and of their loss reports (the source port is the packet's label)."""

HEADER = struct.Struct(">BBHIIHBBHHII")
"""version << 4 | type, flags, stream id, SBN << 8 | ESI, session, k, N, path, path sequence, symbol length, time stamp,
CRC32 or BLAKE2b."""
HEADER_BYTES, CRC_OFFSET = HEADER.size, HEADER.size - 4
_LENGTH = struct.Struct(">H")


@dataclass(frozen=True, kw_only=True)
class PacketHeader:
    """Header of one coded packet; the type follows from the symbol id (below ``source_packets``: data, else parity).

    ``block_size`` is N as its sender saw it, advisory: it may grow within a block. ``timestamp_us``: the sender's
    stream time in microseconds modulo 2^32. ``path``: 1 to 255, or 0 where the sender does not number paths;
    ``path_sequence`` counts the packets of that path, modulo 2^16. ``session``: another one whenever a sender is
    started again. ``keyed``: sealed with a key. ``short``: parity of a block of only ``source_packets``, which may be
    fewer than M. FecError for a field outside its range.
    """

    stream_id: int
    source_block_number: int
    encoding_symbol_id: int
    source_packets: int
    block_size: int
    symbol_length: int
    path: int = 0
    path_sequence: int = 0
    timestamp_us: int = 0
    session: int = 0
    keyed: bool = False
    short: bool = False

    def __post_init__(self) -> None:
        for name, bits in _FIELD_BITS:
            value = getattr(self, name)
            if not 0 <= value < 1 << bits:
                raise FecError(f"packet header: {name} {value} does not fit into {bits} bits")
        if not 1 <= self.source_packets <= self.block_size:
            raise FecError(
                f"packet header: {self.source_packets} source packets in a block of {self.block_size}"
            )
        if self.encoding_symbol_id > MAX_SYMBOL_ID or self.source_packets > MAX_SYMBOL_ID:
            raise FecError(
                f"packet header: symbol {self.encoding_symbol_id} of {self.source_packets} packets: both reach 254"
            )

    @property
    def packet_type(self) -> PacketType:
        return (
            PacketType.DATA if self.encoding_symbol_id < self.source_packets else PacketType.PARITY
        )

    def encode(self, symbol: bytes | bytearray | memoryview, seal: Seal = checksum) -> bytes:
        """The header's bytes in front of this symbol of ``symbol_length`` bytes: the seal covers both. ``keyed`` wants
        ``sealed_with(key)``.

        >>> header = PacketHeader(stream_id=7, source_block_number=1, encoding_symbol_id=2, source_packets=20,
        ...                       block_size=24, symbol_length=5, timestamp_us=1000)
        >>> decode_header(header.encode(b"hello") + b"hello") == header
        True
        """
        if len(symbol) != self.symbol_length:
            raise FecError(
                f"symbol of {len(symbol)} bytes under a header that says {self.symbol_length}"
            )
        front = HEADER.pack(
            VERSION << 4 | self.packet_type,
            KEYED_FLAG * self.keyed | SHORT_FLAG * self.short,
            self.stream_id,
            self.source_block_number << 8 | self.encoding_symbol_id,
            *_in_order(self),
            0,
        )
        return front[:CRC_OFFSET] + seal(front, bytes(symbol))


_IN_ORDER = (
    "session",
    "source_packets",
    "block_size",
    "path",
    "path_sequence",
    "symbol_length",
    "timestamp_us",
)
"""What follows the identifiers of block and symbol."""
_in_order = attrgetter(*_IN_ORDER)

_FIELD_BITS = (
    ("stream_id", 16),
    ("source_block_number", 24),
    ("encoding_symbol_id", 8),
    ("session", 32),
    ("source_packets", 16),
    ("block_size", 8),
    ("symbol_length", 16),
    ("path", 8),
    ("path_sequence", 16),
    ("timestamp_us", 32),
)


def decode_header(data: bytes | bytearray | memoryview, seal: Seal | None = None) -> PacketHeader:
    """Header of a whole packet, checked against its symbol (length, CRC); raises a MalformedPacket naming the reason.

    ``seal``: of the key with which packets must be sealed; without it what is sealed with some key is read unchecked.
    """
    kind = peek_type(data)
    if kind is PacketType.REPORT:
        raise MalformedPacket("type", "a loss report where a coded packet was expected")
    if len(data) < HEADER_BYTES:
        raise MalformedPacket(
            "truncated", f"packet of {len(data)} bytes, shorter than its header of {HEADER_BYTES}"
        )
    _, flags, stream, ids, *fields, _ = HEADER.unpack_from(data)
    keyed, short = bool(flags & KEYED_FLAG), bool(flags & SHORT_FLAG)
    if flags & ~(KEYED_FLAG | SHORT_FLAG) or (short and kind is PacketType.DATA):
        raise MalformedPacket(
            "flags", f"{kind.name.lower()} packet with flags 0x{flags:02x}, which are not defined"
        )
    _, k, n, _, _, length, _ = fields
    if len(data) != HEADER_BYTES + length:
        raise MalformedPacket(
            "length", f"packet of {len(data)} bytes, its length field says {HEADER_BYTES + length}"
        )
    check_seal(memoryview(data), HEADER_BYTES, keyed, seal)
    esi = ids & 0xFF
    if not 1 <= k <= n or k > MAX_SYMBOL_ID or esi > MAX_SYMBOL_ID:
        raise MalformedPacket(
            "block",
            f"symbol {esi} of a block with k = {k}, N = {n}: 1 <= k <= 254, k <= N, symbol <= 254",
        )
    if (kind is PacketType.DATA) is not (esi < k):
        raise MalformedPacket("type", f"{kind.name.lower()} packet with symbol {esi} of k = {k}")
    return PacketHeader(
        stream_id=stream,
        source_block_number=ids >> 8,
        encoding_symbol_id=esi,
        **dict(zip(_IN_ORDER, fields, strict=True)),
        keyed=keyed,
        short=short,
    )


def protect(payload: bytes | bytearray | memoryview, symbol_bytes: int | None = None) -> bytes:
    """The symbol that carries a payload: its length in 2 bytes, the payload, zeros up to ``symbol_bytes`` (default
    none).

    FecError for a payload that does not fit. The length lies inside the protected symbol, so that a recovered packet
    knows its own.

    >>> unprotect(protect(b"abc", 8))
    b'abc'
    """
    payload = as_bytes(payload)
    size = len(payload) + 2 if symbol_bytes is None else symbol_bytes
    if len(payload) + 2 > size or size > MAX_SYMBOL_BYTES:
        raise FecError(
            f"payload of {len(payload)} bytes in a symbol of {size}: two bytes of it hold the length"
        )
    return b"".join((_LENGTH.pack(len(payload)), payload, bytes(size - len(payload) - 2)))


def unprotect(symbol: bytes | bytearray | memoryview) -> bytes:
    """The payload of a symbol; MalformedPacket where its length prefix does not fit it."""
    if len(symbol) < 2:
        raise MalformedPacket("length", f"symbol of {len(symbol)} bytes has no length prefix")
    (length,) = _LENGTH.unpack_from(symbol)
    if length + 2 > len(symbol):
        raise MalformedPacket("length", f"symbol of {len(symbol)} bytes whose prefix says {length}")
    return bytes(symbol[2 : 2 + length])
