"""The bytes on the wire: packet header, protected symbol, loss report. Big endian, field order of RFC 6865's payload id.

Decoding either gives a value or raises a MalformedPacket that names its reason; nothing in between.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from fec.errors import (
    FecError,
    ImpossibleBlock,
    ImpossiblePath,
    TruncatedPacket,
    UnknownFlags,
    WrongChecksum,
    WrongLength,
    WrongType,
    WrongVersion,
)

STREAM_UDP_PORT = 47000
"""UDP destination port of streams and of their loss reports (the source port is the packet's label)."""

VERSION = 1
COMPACT_FLAG = 0x01
"""16-byte header without time stamp and CRC, for small packets."""

HEADER_BYTES = 24
COMPACT_HEADER_BYTES = 16
MAX_SYMBOL_ID = 254
MAX_SYMBOL_BYTES = 65535
BLOCK_NUMBERS = 1 << 24
"""Source block numbers before they repeat."""

HEADER = struct.Struct(">BBHIHBBHHII")
"""version << 4 | type, flags, stream id, SBN << 8 | ESI, k, N, path, path sequence, symbol length, time stamp, CRC32."""
COMPACT_HEADER = struct.Struct(">BBHIHBBHH")
CRC_OFFSET = 20
_NO_CRC = bytes(4)
_LENGTH = struct.Struct(">H")


class PacketType(IntEnum):
    """Low four bits of the first byte."""

    DATA = 1
    PARITY = 2
    REPORT = 3


@dataclass(frozen=True, kw_only=True)
class PacketHeader:
    """Header of one coded packet; the type follows from the symbol id (below ``source_packets``: data, else parity).

    ``block_size`` is N as its sender saw it, advisory: it may grow within a block. ``timestamp_us``: the sender's stream
    time in microseconds modulo 2^32; 0 in the compact form, which carries none. ``path``: 1 to 255, or 0 where the sender does
    not number paths; ``path_sequence`` counts the packets of that path, modulo 2^16. FecError for a field outside its range.
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
    compact: bool = False

    def __post_init__(self) -> None:
        for name, bits in _FIELD_BITS:
            value = getattr(self, name)
            if not 0 <= value < 1 << bits:
                raise FecError(f"packet header: {name} {value} does not fit into {bits} bits")
        if not 1 <= self.source_packets <= self.block_size:
            raise FecError(f"packet header: {self.source_packets} source packets in a block of {self.block_size}")
        if self.encoding_symbol_id > MAX_SYMBOL_ID or self.source_packets > MAX_SYMBOL_ID:
            raise FecError(
                f"packet header: symbol {self.encoding_symbol_id} of {self.source_packets} source packets; both reach 254"
            )
        if self.compact and self.timestamp_us:
            raise FecError("packet header: the compact form carries no time stamp; leave timestamp_us 0")

    @property
    def packet_type(self) -> PacketType:
        return PacketType.DATA if self.encoding_symbol_id < self.source_packets else PacketType.PARITY

    @property
    def size_bytes(self) -> int:
        """Bytes in front of the symbol."""
        return COMPACT_HEADER_BYTES if self.compact else HEADER_BYTES

    def encode(self, symbol: bytes | bytearray | memoryview) -> bytes:
        """The header's bytes in front of this symbol of ``symbol_length`` bytes: the CRC covers both.

        >>> header = PacketHeader(stream_id=7, source_block_number=1, encoding_symbol_id=2, source_packets=20,
        ...                       block_size=24, symbol_length=5, timestamp_us=1000)
        >>> decode_header(header.encode(b"hello") + b"hello") == header
        True
        """
        if len(symbol) != self.symbol_length:
            raise FecError(f"symbol of {len(symbol)} bytes under a header that says {self.symbol_length}")
        first = (
            VERSION << 4 | self.packet_type,
            COMPACT_FLAG if self.compact else 0,
            self.stream_id,
            self.source_block_number << 8 | self.encoding_symbol_id,
            self.source_packets,
            self.block_size,
            self.path,
            self.path_sequence,
            self.symbol_length,
        )
        if self.compact:
            return COMPACT_HEADER.pack(*first)
        front = HEADER.pack(*first, self.timestamp_us, 0)
        crc = zlib.crc32(symbol, zlib.crc32(front))
        return front[:CRC_OFFSET] + crc.to_bytes(4, "big")


_FIELD_BITS = (
    ("stream_id", 16),
    ("source_block_number", 24),
    ("encoding_symbol_id", 8),
    ("source_packets", 16),
    ("block_size", 8),
    ("symbol_length", 16),
    ("path", 8),
    ("path_sequence", 16),
    ("timestamp_us", 32),
)


def peek_type(data: bytes | bytearray | memoryview) -> PacketType:
    """Type of a packet by its first byte (nothing else is checked); raises TruncatedPacket, WrongVersion, WrongType."""
    if len(data) < 1:
        raise TruncatedPacket("empty packet: no version, no type")
    if data[0] >> 4 != VERSION:
        raise WrongVersion(f"packet of version {data[0] >> 4}; this side speaks version {VERSION}")
    try:
        return PacketType(data[0] & 0x0F)
    except ValueError:
        raise WrongType(f"packet type {data[0] & 0x0F} is not known") from None


def decode_header(data: bytes | bytearray | memoryview) -> PacketHeader:
    """Header of a whole packet, checked against its symbol (length, CRC); raises a MalformedPacket naming the reason.

    ``symbol_of`` gives the symbol. The compact form has no CRC: only its fields and length are checked.
    """
    kind = peek_type(data)
    if kind is PacketType.REPORT:
        raise WrongType("a loss report where a coded packet was expected")
    if len(data) < 2:
        raise TruncatedPacket("packet of 1 byte: no flags")
    flags = data[1]
    if flags & ~COMPACT_FLAG:
        raise UnknownFlags(f"packet flags 0x{flags:02x}: only 0x{COMPACT_FLAG:02x} is defined")
    size = COMPACT_HEADER_BYTES if flags else HEADER_BYTES
    if len(data) < size:
        raise TruncatedPacket(f"packet of {len(data)} bytes, shorter than its header of {size}")
    if flags:
        _, _, stream, ids, k, n, path, sequence, length = COMPACT_HEADER.unpack_from(data)
        timestamp = 0
    else:
        _, _, stream, ids, k, n, path, sequence, length, timestamp, crc = HEADER.unpack_from(data)
    if len(data) != size + length:
        raise WrongLength(f"packet of {len(data)} bytes, its length field says {size + length}")
    if not flags and crc != _checksum(data):
        raise WrongChecksum("packet's CRC does not match its bytes")
    esi = ids & 0xFF
    if not 1 <= k <= n or k > MAX_SYMBOL_ID or esi > MAX_SYMBOL_ID:
        raise ImpossibleBlock(f"symbol {esi} of a block with k = {k}, N = {n}: 1 <= k <= 254, k <= N, symbol <= 254")
    if (kind is PacketType.DATA) is not (esi < k):
        raise WrongType(f"{kind.name.lower()} packet with symbol {esi} of k = {k}")
    return PacketHeader(
        stream_id=stream,
        source_block_number=ids >> 8,
        encoding_symbol_id=esi,
        source_packets=k,
        block_size=n,
        symbol_length=length,
        path=path,
        path_sequence=sequence,
        timestamp_us=timestamp,
        compact=bool(flags),
    )


def _checksum(data: bytes | bytearray | memoryview) -> int:
    """CRC32 of a packet with its CRC field taken as zero."""
    view = memoryview(data)
    front = zlib.crc32(_NO_CRC, zlib.crc32(view[:CRC_OFFSET]))
    return zlib.crc32(view[HEADER_BYTES:], front)


def symbol_of(data: bytes | bytearray | memoryview, header: PacketHeader) -> bytes:
    """The symbol of a packet whose header was decoded from it."""
    return bytes(data[header.size_bytes :])


def protect(payload: bytes | bytearray | memoryview, symbol_bytes: int | None = None) -> bytes:
    """The symbol that carries a payload: its length in 2 bytes, the payload, zeros up to ``symbol_bytes`` (default none).

    FecError for a payload that does not fit. The length lies inside the protected symbol, so that a recovered packet
    knows its own.

    >>> unprotect(protect(b"abc", 8))
    b'abc'
    """
    size = len(payload) + 2 if symbol_bytes is None else symbol_bytes
    if len(payload) + 2 > size or size > MAX_SYMBOL_BYTES:
        raise FecError(f"payload of {len(payload)} bytes in a symbol of {size}: two bytes of it hold the length")
    return b"".join((_LENGTH.pack(len(payload)), payload, bytes(size - len(payload) - 2)))


def unprotect(symbol: bytes | bytearray | memoryview) -> bytes:
    """The payload of a symbol; WrongLength where its length prefix does not fit it."""
    if len(symbol) < 2:
        raise WrongLength(f"symbol of {len(symbol)} bytes has no length prefix")
    (length,) = _LENGTH.unpack_from(symbol)
    if length + 2 > len(symbol):
        raise WrongLength(f"symbol of {len(symbol)} bytes whose prefix says {length}")
    return bytes(symbol[2 : 2 + length])


REPORT_HEADER = struct.Struct(">BBHIIIIIIIIBBHI")
"""version << 4 | type, flags, stream id, report number, echoed time stamp, its age, highest block, received packets,
decoded blocks, undecodable blocks, unused parity, blocks listed, paths listed, zero, CRC32."""
BLOCK_ENTRY = struct.Struct(">I32s")
PATH_ENTRY = struct.Struct(">II")
"""path << 24 | lost packets, packets that came."""
MAX_BLOCKS = 30
MAX_PATHS = 40
MAX_REPORT_BYTES = REPORT_HEADER.size + MAX_BLOCKS * BLOCK_ENTRY.size + MAX_PATHS * PATH_ENTRY.size
MAX_PATH = 255
MAX_LOST = (1 << 24) - 1
"""Lost packets of one path that a report can tell; it stays there when there are more."""

_REPORT_CRC_OFFSET = REPORT_HEADER.size - 4
_SYMBOLS_MASK = (1 << (MAX_SYMBOL_ID + 1)) - 1
_WORD_FIELDS = (
    "number",
    "newest_us",
    "newest_age_us",
    "received",
    "decoded_blocks",
    "undecodable_blocks",
    "unused_parity",
)


@dataclass(frozen=True, kw_only=True)
class LossReport:
    """State of a stream at its receiver, sent in duplicate, so that it may be lost, repeated or overtaken.

    ``newest_us``: the newest time stamp seen (echo), ``newest_age_us`` how long before the report it came;
    ``highest_block``: the highest block number seen; ``blocks``: (block number, bitmap) of at most 30 recent blocks, bit e
    set where symbol e arrived. Totals since the receiver's start, modulo 2^32: ``received`` packets, ``decoded_blocks``,
    ``undecodable_blocks``, and ``unused_parity``, parity that came and was not needed. ``number``: greater (modulo 2^32, as a
    signed difference) than that of every report before it, also across a restart of the receiver.

    ``paths``: (path, lost, came) of at most 40 numbered paths, totals since the receiver first saw the path: ``lost`` are
    the numbers missing below the highest that came, at most 2^24 - 1; what a silent path loses is not among them.
    FecError for a field out of range.
    """

    stream_id: int
    number: int
    newest_us: int
    highest_block: int
    blocks: tuple[tuple[int, int], ...] = ()
    newest_age_us: int = 0
    received: int = 0
    decoded_blocks: int = 0
    undecodable_blocks: int = 0
    unused_parity: int = 0
    paths: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.stream_id < 1 << 16 or not 0 <= self.highest_block < 1 << 24:
            raise FecError(
                f"loss report: stream {self.stream_id} (16 bits), highest block {self.highest_block} (24 bits)"
            )
        for name in _WORD_FIELDS:
            if not 0 <= getattr(self, name) < 1 << 32:
                raise FecError(f"loss report: {name} {getattr(self, name)} does not fit into 32 bits")
        if len(self.blocks) > MAX_BLOCKS:
            raise FecError(f"loss report: {len(self.blocks)} blocks; at most {MAX_BLOCKS} fit into one packet")
        for block, bitmap in self.blocks:
            if not 0 <= block < BLOCK_NUMBERS or not 0 <= bitmap <= _SYMBOLS_MASK:
                raise FecError(f"loss report: block {block} within 24 bits, bitmap of symbols 0..{MAX_SYMBOL_ID}")
        if len(self.paths) > MAX_PATHS:
            raise FecError(f"loss report: {len(self.paths)} paths; at most {MAX_PATHS} fit into one packet")
        for path, lost, came in self.paths:
            if not 1 <= path <= MAX_PATH or not 0 <= lost <= MAX_LOST or not 0 <= came < 1 << 32:
                raise FecError(f"loss report: path {path} (1..255), {lost} lost (24 bits), {came} came (32 bits)")

    def encode(self) -> bytes:
        """The packet: 44 bytes, then 36 a block and 8 a path; the CRC covers all of it."""
        entries = b"".join(BLOCK_ENTRY.pack(block, bitmap.to_bytes(32, "big")) for block, bitmap in self.blocks)
        entries += b"".join(PATH_ENTRY.pack(path << 24 | lost, came) for path, lost, came in self.paths)
        front = REPORT_HEADER.pack(
            VERSION << 4 | PacketType.REPORT,
            0,
            self.stream_id,
            self.number,
            self.newest_us,
            self.newest_age_us,
            self.highest_block,
            self.received,
            self.decoded_blocks,
            self.undecodable_blocks,
            self.unused_parity,
            len(self.blocks),
            len(self.paths),
            0,
            0,
        )
        crc = zlib.crc32(entries, zlib.crc32(front))
        return b"".join((front[:_REPORT_CRC_OFFSET], crc.to_bytes(4, "big"), entries))


def decode_report(data: bytes | bytearray | memoryview) -> LossReport:
    """The report in a packet; raises a MalformedPacket naming the reason.

    >>> report = LossReport(stream_id=1, number=2, newest_us=3, highest_block=4,
    ...                     blocks=((4, 0b1011),))
    >>> decode_report(report.encode()) == report
    True
    """
    kind = peek_type(data)
    if kind is not PacketType.REPORT:
        raise WrongType(f"a {kind.name.lower()} packet where a loss report was expected")
    if len(data) < REPORT_HEADER.size:
        raise TruncatedPacket(f"loss report of {len(data)} bytes, shorter than its header of {REPORT_HEADER.size}")
    fields = REPORT_HEADER.unpack_from(data)
    flags, listed, named, spare, crc = fields[1], fields[11], fields[12], fields[13], fields[14]
    paths_at = REPORT_HEADER.size + listed * BLOCK_ENTRY.size
    if len(data) != paths_at + named * PATH_ENTRY.size:
        raise WrongLength(f"loss report of {len(data)} bytes that says it lists {listed} blocks and {named} paths")
    view = memoryview(data)
    if crc != zlib.crc32(view[REPORT_HEADER.size :], zlib.crc32(bytes(4), zlib.crc32(view[:_REPORT_CRC_OFFSET]))):
        raise WrongChecksum("loss report's CRC does not match its bytes")
    if flags or spare:
        raise UnknownFlags(f"loss report with flags 0x{flags:02x}, spare {spare}: this version defines none")
    entries = [
        (b, int.from_bytes(bits, "big")) for b, bits in BLOCK_ENTRY.iter_unpack(view[REPORT_HEADER.size : paths_at])
    ]
    paths = tuple((word >> 24, word & MAX_LOST, came) for word, came in PATH_ENTRY.iter_unpack(view[paths_at:]))
    if listed > MAX_BLOCKS or fields[6] >> 24 or any(b >> 24 or bits > _SYMBOLS_MASK for b, bits in entries):
        raise ImpossibleBlock(
            f"loss report of {listed} blocks, highest {fields[6]}: a number or symbol outside its range"
        )
    if named > MAX_PATHS or any(not path for path, _, _ in paths):
        raise ImpossiblePath(f"loss report of {named} paths: at most {MAX_PATHS}, none of them numbered 0")
    return LossReport(
        stream_id=fields[2],
        number=fields[3],
        newest_us=fields[4],
        newest_age_us=fields[5],
        highest_block=fields[6],
        received=fields[7],
        decoded_blocks=fields[8],
        undecodable_blocks=fields[9],
        unused_parity=fields[10],
        blocks=tuple(entries),
        paths=paths,
    )
