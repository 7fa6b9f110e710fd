"""The format of packets: the header, the protected symbol, and the loss report.

All fields are big endian, in the order of RFC 6865's payload id. Decoding returns a value or raises
a MalformedPacket that names the reason.
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

# Other packages import all names of the format from this module.
__all__ = [
    "BLOCK_NUMBERS",
    "CRC_OFFSET",
    "HEADER",
    "HEADER_BYTES",
    "KEYED_FLAG",
    "MAX_BLOCKS",
    "MAX_SYMBOL_ID",
    "STREAM_UDP_PORT",
    "VERSION",
    "LossReport",
    "PacketHeader",
    "PacketType",
    "decode_header",
    "decode_report",
    "peek_type",
    "protect",
    "unprotect",
]

# UDP destination port of streams and of their loss reports. The source port is the label of the
# packet.
STREAM_UDP_PORT = 47000

# version << 4 | type, flags, stream id, source block number << 8 | encoding symbol id, session, k,
# N, path, path sequence, symbol length, time stamp, CRC32 or BLAKE2b.
HEADER = struct.Struct(">BBHIIHBBHHII")
HEADER_BYTES = HEADER.size
CRC_OFFSET = HEADER.size - 4

# The length of the payload, in front of it in the symbol.
_LENGTH = struct.Struct(">H")


@dataclass(frozen=True, kw_only=True)
class PacketHeader:
    """The header of a coded packet.

    Attributes:
        stream_id: The stream.
        source_block_number: Number of the block, modulo 2^24.
        encoding_symbol_id: Number of the symbol. It is a source symbol if the number is below
            ``source_packets``, and otherwise parity.
        source_packets: Number of source packets of the block.
        block_size: Block size N when the packet was sent. It may grow later.
        symbol_length: Length of the symbol.
        path: Number of the path, 1 to 255; 0 if the sender does not number paths.
        path_sequence: Number of the packet on its path, modulo 2^16.
        timestamp_us: Stream time of the sender in microseconds, modulo 2^32.
        session: Session of the sender, which differs after each restart.
        keyed: The packet is sealed with a key.
        short: Parity of a block that may have fewer source packets than M.

    Raises:
        FecError: A field is out of range.
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
                f"packet header: {self.source_packets} source packets "
                f"in a block of {self.block_size}"
            )
        if self.encoding_symbol_id > MAX_SYMBOL_ID or self.source_packets > MAX_SYMBOL_ID:
            raise FecError(
                f"packet header: symbol {self.encoding_symbol_id} "
                f"of {self.source_packets} packets: the maximum of both is 254"
            )

    @property
    def packet_type(self) -> PacketType:
        """Source data or parity."""
        if self.encoding_symbol_id < self.source_packets:
            return PacketType.DATA
        return PacketType.PARITY

    def encode(self, symbol: bytes | bytearray | memoryview, seal: Seal = checksum) -> bytes:
        """Return the bytes of the header, which precede the symbol.

        >>> header = PacketHeader(
        ...     stream_id=7,
        ...     source_block_number=1,
        ...     encoding_symbol_id=2,
        ...     source_packets=20,
        ...     block_size=24,
        ...     symbol_length=5,
        ...     timestamp_us=1000,
        ... )
        >>> decode_header(header.encode(b"hello") + b"hello") == header
        True

        Args:
            symbol: The symbol, of ``symbol_length`` bytes.
            seal: Computes the seal over header and symbol; ``sealed_with(key)`` if ``keyed``.

        Raises:
            FecError: The symbol has another length.
        """
        if len(symbol) != self.symbol_length:
            raise FecError(
                f"symbol of {len(symbol)} bytes under a header that says {self.symbol_length}"
            )
        flags = 0
        if self.keyed:
            flags |= KEYED_FLAG
        if self.short:
            flags |= SHORT_FLAG
        front = HEADER.pack(
            VERSION << 4 | self.packet_type,
            flags,
            self.stream_id,
            self.source_block_number << 8 | self.encoding_symbol_id,
            *_in_order(self),
            0,
        )
        return front[:CRC_OFFSET] + seal(front, bytes(symbol))


# The fields that follow the ids of block and symbol, in the order of the header.
_IN_ORDER = (
    "session",
    "source_packets",
    "block_size",
    "path",
    "path_sequence",
    "symbol_length",
    "timestamp_us",
)
_in_order = attrgetter(*_IN_ORDER)

# The number of bits of each field.
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
    """Return the header of a packet, after checking the packet.

    Args:
        data: The complete packet.
        seal: Computes seals with the key of this side. Without a key, a keyed packet is not
            checked.

    Raises:
        MalformedPacket: The packet is not valid. The error names the reason.
    """
    kind = peek_type(data)
    if kind is PacketType.REPORT:
        raise MalformedPacket("type", "a loss report where a coded packet was expected")
    if len(data) < HEADER_BYTES:
        raise MalformedPacket(
            "truncated", f"packet of {len(data)} bytes, shorter than its header of {HEADER_BYTES}"
        )
    _, flags, stream, ids, *fields, _ = HEADER.unpack_from(data)
    keyed = bool(flags & KEYED_FLAG)
    short = bool(flags & SHORT_FLAG)
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
    """Return the symbol that contains a payload: its length, the payload, and padding.

    The symbol contains the length so that it is known after the code has recovered the symbol.

    >>> unprotect(protect(b"abc", 8))
    b'abc'

    Args:
        payload: The payload.
        symbol_bytes: Length of the symbol; None for no padding.

    Raises:
        FecError: The payload is too long.
    """
    payload = as_bytes(payload)
    min_bytes = _LENGTH.size + len(payload)
    size = min_bytes if symbol_bytes is None else symbol_bytes
    if min_bytes > size or size > MAX_SYMBOL_BYTES:
        raise FecError(
            f"payload of {len(payload)} bytes in a symbol of {size}: "
            "two bytes of it hold the length"
        )
    return b"".join((_LENGTH.pack(len(payload)), payload, bytes(size - min_bytes)))


def unprotect(symbol: bytes | bytearray | memoryview) -> bytes:
    """Return the payload of a symbol.

    Raises:
        MalformedPacket: The length of the payload contradicts that of the symbol.
    """
    if len(symbol) < 2:
        raise MalformedPacket("length", f"symbol of {len(symbol)} bytes has no length prefix")
    (length,) = _LENGTH.unpack_from(symbol)
    if length + 2 > len(symbol):
        raise MalformedPacket("length", f"symbol of {len(symbol)} bytes whose prefix says {length}")
    return bytes(symbol[2 : 2 + length])
