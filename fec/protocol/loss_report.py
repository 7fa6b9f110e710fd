"""The bytes of a loss report: the state of a stream at its receiver. Big endian; decoded or refused by a reason."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from fec.errors import FecError, MalformedPacket
from fec.protocol.framing import (
    BLOCK_NUMBERS,
    KEYED_FLAG,
    MAX_SYMBOL_ID,
    VERSION,
    PacketType,
    Seal,
    check_seal,
    checksum,
    peek_type,
)

REPORT_HEADER = struct.Struct(">BBHIIIIIIIIIBBHI")
"""version << 4 | type, flags, stream id, report number, echoed time stamp, its age, highest block, received packets,
decoded blocks, undecodable blocks, unused parity, session, blocks listed, paths listed, bytes of a bitmap, CRC32 or
BLAKE2b."""
BLOCK_NUMBER = struct.Struct(">I")
PATH_ENTRY = struct.Struct(">II")
"""path << 24 | lost packets, packets that came."""
MAX_BLOCKS = 255
MAX_BLOCK_BYTES = 1080
"""Of all blocks that one report lists: 30 of 255 symbols, 135 of 32."""
MAX_PATHS = 40
MAX_REPORT_BYTES = REPORT_HEADER.size + MAX_BLOCK_BYTES + MAX_PATHS * PATH_ENTRY.size
MAX_PATH = 255
MAX_LOST = (1 << 24) - 1
"""Lost packets of one path that a report can tell; it stays there when there are more."""

_SEAL_OFFSET = REPORT_HEADER.size - 4
_SYMBOLS_MASK = (1 << (MAX_SYMBOL_ID + 1)) - 1
_WORDS = (
    *("number", "newest_us", "newest_age_us", "highest_block"),
    *("received", "decoded_blocks", "undecodable_blocks", "unused_parity", "session"),
)
"""Fields of 32 bits, in the order of the header."""
_words = attrgetter(*_WORDS)


@dataclass(frozen=True, kw_only=True)
class LossReport:
    """State of a stream at its receiver, sent in duplicate, so that it may be lost, repeated or overtaken.

    ``newest_us``: the newest time stamp seen (echo), ``newest_age_us`` how long before the report it came;
    ``highest_block``: the highest block number seen; ``blocks``: (block number, bitmap) of recent blocks (as many
    as ``most_blocks`` says), bit e set where symbol e arrived. Totals since the receiver's start, modulo 2^32:
    ``received`` packets, ``decoded_blocks``, ``undecodable_blocks``, ``unused_parity`` that was not needed. ``number``:
    greater (modulo 2^32, as a signed difference) than that of every report before it, also across a restart of the
    receiver.

    ``paths``: (path, lost, came) of at most 40 numbered paths, totals since the receiver first saw the path: ``lost``
    are the numbers missing below the highest that came, at most 2^24 - 1; what a silent path loses is not among them.
    ``session``: of the sender that is reported on. FecError for a field out of range.
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
    session: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.stream_id < 1 << 16 or not 0 <= self.highest_block < 1 << 24:
            raise FecError(
                f"loss report: stream {self.stream_id} (16 bits), highest block {self.highest_block} (24 bits)"
            )
        for name, value in zip(_WORDS, _words(self), strict=True):
            if not 0 <= value < 1 << 32:
                raise FecError(f"loss report: {name} {value} does not fit into 32 bits")
        fitting = most_blocks(bits for _, bits in self.blocks)
        if len(self.blocks) > fitting:
            raise FecError(
                f"loss report: {len(self.blocks)} blocks; at most {fitting} fit into one packet"
            )
        for block, bitmap in self.blocks:
            if not 0 <= block < BLOCK_NUMBERS or not 0 <= bitmap <= _SYMBOLS_MASK:
                raise FecError(
                    f"loss report: block {block} within 24 bits, bitmap of symbols 0..{MAX_SYMBOL_ID}"
                )
        if len(self.paths) > MAX_PATHS:
            raise FecError(
                f"loss report: {len(self.paths)} paths; at most {MAX_PATHS} fit into one packet"
            )
        for path, lost, arrived in self.paths:
            if not 1 <= path <= MAX_PATH or not 0 <= lost <= MAX_LOST or not 0 <= arrived < 1 << 32:
                raise FecError(
                    f"loss report: path {path} (1..255), {lost} lost (24 bits), {arrived} came (32 bits)"
                )

    def encode(self, key_seal: Seal | None = None) -> bytes:
        """The packet: 48 bytes, then 5 to 36 a block and 8 a path; the CRC, or the seal of a key, covers all of it."""
        width = bitmap_bytes(bits for _, bits in self.blocks)
        entries = b"".join(
            BLOCK_NUMBER.pack(block) + bits.to_bytes(width, "big") for block, bits in self.blocks
        )
        entries += b"".join(
            PATH_ENTRY.pack(path << 24 | lost, arrived) for path, lost, arrived in self.paths
        )
        front = REPORT_HEADER.pack(
            VERSION << 4 | PacketType.REPORT,
            KEYED_FLAG if key_seal else 0,
            self.stream_id,
            *_words(self),
            len(self.blocks),
            len(self.paths),
            width,
            0,
        )
        return b"".join((front[:_SEAL_OFFSET], (key_seal or checksum)(front, entries), entries))


def bitmap_bytes(bitmaps: Iterable[int]) -> int:
    """Bytes that each block's bitmap takes: what the widest one needs."""
    return max(1, -(-max(map(int.bit_length, bitmaps), default=0) // 8))


def most_blocks(bitmaps: Iterable[int]) -> int:
    """Blocks with bitmaps like these that one report lists at most."""
    return min(MAX_BLOCKS, MAX_BLOCK_BYTES // (BLOCK_NUMBER.size + bitmap_bytes(bitmaps)))


def decode_report(data: bytes | bytearray | memoryview, seal: Seal | None = None) -> LossReport:
    """The report in a packet; raises a MalformedPacket naming the reason. ``seal``: as for ``decode_header``.

    >>> report = LossReport(stream_id=1, number=2, newest_us=3, highest_block=4,
    ...                     blocks=((4, 0b1011),))
    >>> decode_report(report.encode()) == report
    True
    """
    kind = peek_type(data)
    if kind is not PacketType.REPORT:
        raise MalformedPacket(
            "type", f"a {kind.name.lower()} packet where a loss report was expected"
        )
    if len(data) < REPORT_HEADER.size:
        raise MalformedPacket(
            "truncated", f"loss report of {len(data)} bytes, shorter than its header"
        )
    fields = REPORT_HEADER.unpack_from(data)
    flags, listed, named, width = fields[1], *fields[12:15]
    paths_at = REPORT_HEADER.size + listed * (BLOCK_NUMBER.size + width)
    if len(data) != paths_at + named * PATH_ENTRY.size:
        raise MalformedPacket(
            "length", f"loss report of {len(data)} bytes lists {listed} blocks and {named} paths"
        )
    view = memoryview(data)
    if flags not in (0, KEYED_FLAG) or not 1 <= width <= 32:
        raise MalformedPacket(
            "flags", f"loss report's flags 0x{flags:02x} (0 or 2), bitmaps of {width} bytes (1..32)"
        )
    check_seal(view, REPORT_HEADER.size, bool(flags), seal)
    listing = struct.iter_unpack(f">I{width}s", view[REPORT_HEADER.size : paths_at])
    entries = [(b, int.from_bytes(bits, "big")) for b, bits in listing]
    paths = tuple(
        (word >> 24, word & MAX_LOST, arrived)
        for word, arrived in PATH_ENTRY.iter_unpack(view[paths_at:])
    )
    outside = fields[6] >> 24 or any(b >> 24 or bits > _SYMBOLS_MASK for b, bits in entries)
    if paths_at > REPORT_HEADER.size + MAX_BLOCK_BYTES or outside:
        raise MalformedPacket(
            "block", f"loss report of {listed} blocks up to {fields[6]}: one is outside its range"
        )
    if named > MAX_PATHS or any(not path for path, _, _ in paths):
        raise MalformedPacket(
            "path", f"loss report of {named} paths: at most {MAX_PATHS}, none of them numbered 0"
        )
    return LossReport(
        stream_id=fields[2],
        **dict(zip(_WORDS, fields[3:12], strict=True)),
        blocks=tuple(entries),
        paths=paths,
    )
