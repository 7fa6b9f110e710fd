"""The format of loss reports, which describe the state of a stream at its receiver.

All fields are big endian. Decoding returns a report or raises an error that names the reason.
"""

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

# version << 4 | type, flags, stream id, report number, echoed time stamp, its age, highest block,
# packets received, decoded blocks, undecodable blocks, unused parity, session, number of blocks,
# number of paths, length of a bitmap, CRC32 or BLAKE2b.
REPORT_HEADER = struct.Struct(">BBHIIIIIIIIIBBHI")
BLOCK_NUMBER = struct.Struct(">I")

# path << 24 | packets lost, packets received.
PATH_ENTRY = struct.Struct(">II")

MAX_BLOCKS = 255

# Maximum size of all block entries of a report: 30 blocks of 255 symbols, or 135 blocks of 32.
MAX_BLOCK_BYTES = 1080

MAX_PATHS = 40
MAX_REPORT_BYTES = REPORT_HEADER.size + MAX_BLOCK_BYTES + MAX_PATHS * PATH_ENTRY.size
MAX_PATH = 255

# Maximum number of lost packets of a path. A larger number is reported as this one.
MAX_LOST = (1 << 24) - 1

_MAX_BITMAP_BYTES = 32
_SEAL_OFFSET = REPORT_HEADER.size - 4
_SYMBOLS_MASK = (1 << (MAX_SYMBOL_ID + 1)) - 1

# The fields of 32 bits, in the order of the header.
_WORDS = (
    "number",
    "newest_us",
    "newest_age_us",
    "highest_block",
    "received",
    "decoded_blocks",
    "undecodable_blocks",
    "unused_parity",
    "session",
)
_words = attrgetter(*_WORDS)


@dataclass(frozen=True, kw_only=True)
class LossReport:
    """The state of a stream at its receiver.

    A report is sent twice. It may be lost, repeated or overtaken.

    Attributes:
        stream_id: The stream.
        number: Greater than the number of every earlier report (modulo 2^32, as a signed
            difference), also after a restart of the receiver.
        newest_us: The newest time stamp received, which the report echoes.
        highest_block: The highest block number received.
        blocks: (block number, bitmap) of recent blocks, at most ``most_blocks``. Bit e is set if
            symbol e has arrived.
        newest_age_us: Time from the arrival of the newest time stamp to the report.
        received: Packets received since the start of the receiver, modulo 2^32.
        decoded_blocks: Blocks decoded since then, modulo 2^32.
        undecodable_blocks: Blocks that could not be decoded since then, modulo 2^32.
        unused_parity: Parity packets that were not necessary since then, modulo 2^32.
        paths: (path, lost, received) of at most 40 numbered paths, since the receiver first saw the
            path. Lost packets are the missing numbers below the highest number received, at most
            2^24 - 1. Packets that a silent path loses are therefore not included.
        session: The session of the sender.

    Raises:
        FecError: A field is out of range.
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
                f"loss report: stream {self.stream_id} (16 bits), "
                f"highest block {self.highest_block} (24 bits)"
            )
        for name, value in zip(_WORDS, _words(self), strict=True):
            if not 0 <= value < 1 << 32:
                raise FecError(f"loss report: {name} {value} does not fit into 32 bits")
        block_limit = most_blocks(bits for _, bits in self.blocks)
        if len(self.blocks) > block_limit:
            raise FecError(
                f"loss report: {len(self.blocks)} blocks; at most {block_limit} fit into one packet"
            )
        for block, bitmap in self.blocks:
            if not 0 <= block < BLOCK_NUMBERS or not 0 <= bitmap <= _SYMBOLS_MASK:
                raise FecError(
                    f"loss report: block {block} within 24 bits, "
                    f"bitmap of symbols 0..{MAX_SYMBOL_ID}"
                )
        if len(self.paths) > MAX_PATHS:
            raise FecError(
                f"loss report: {len(self.paths)} paths; at most {MAX_PATHS} fit into one packet"
            )
        for path, lost, arrived in self.paths:
            if not 1 <= path <= MAX_PATH or not 0 <= lost <= MAX_LOST or not 0 <= arrived < 1 << 32:
                raise FecError(
                    f"loss report: path {path} (1..255), {lost} lost (24 bits), "
                    f"{arrived} came (32 bits)"
                )

    def encode(self, key_seal: Seal | None = None) -> bytes:
        """Return the packet of the report.

        It has 48 bytes, 5 to 36 bytes per block, and 8 bytes per path.

        Args:
            key_seal: Computes the seal with a key; a CRC without one. The seal covers the complete
                packet.
        """
        width = bitmap_bytes(bits for _, bits in self.blocks)
        parts = []
        for block, bits in self.blocks:
            parts.append(BLOCK_NUMBER.pack(block))
            parts.append(bits.to_bytes(width, "big"))
        for path, lost, arrived in self.paths:
            parts.append(PATH_ENTRY.pack(path << 24 | lost, arrived))
        entries = b"".join(parts)
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
    """Return the length of each bitmap of a report, which is that of the longest one."""
    bits = max(map(int.bit_length, bitmaps), default=0)
    return max(1, -(-bits // 8))


def most_blocks(bitmaps: Iterable[int]) -> int:
    """Return the maximum number of blocks of a report with such bitmaps."""
    return min(MAX_BLOCKS, MAX_BLOCK_BYTES // (BLOCK_NUMBER.size + bitmap_bytes(bitmaps)))


def decode_report(data: bytes | bytearray | memoryview, seal: Seal | None = None) -> LossReport:
    """Return the report in a packet.

    >>> report = LossReport(stream_id=1, number=2, newest_us=3, highest_block=4,
    ...                     blocks=((4, 0b1011),))
    >>> decode_report(report.encode()) == report
    True

    Args:
        data: The packet.
        seal: Computes seals with the key of this side. Without a key, a keyed report is not
            checked.

    Raises:
        MalformedPacket: The packet is not a valid report. The error names the reason.
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
    _, flags, stream_id, *fields, block_count, path_count, width, _ = REPORT_HEADER.unpack_from(
        data
    )
    paths_start = REPORT_HEADER.size + block_count * (BLOCK_NUMBER.size + width)
    if len(data) != paths_start + path_count * PATH_ENTRY.size:
        raise MalformedPacket(
            "length",
            f"loss report of {len(data)} bytes lists {block_count} blocks and {path_count} paths",
        )
    view = memoryview(data)
    if flags not in (0, KEYED_FLAG) or not 1 <= width <= _MAX_BITMAP_BYTES:
        raise MalformedPacket(
            "flags", f"loss report's flags 0x{flags:02x} (0 or 2), bitmaps of {width} bytes (1..32)"
        )
    check_seal(view, REPORT_HEADER.size, bool(flags), seal)
    values = dict(zip(_WORDS, fields, strict=True))
    highest_block = values["highest_block"]
    blocks = _decode_blocks(view[REPORT_HEADER.size : paths_start], width)
    in_range = all(block < BLOCK_NUMBERS and bitmap <= _SYMBOLS_MASK for block, bitmap in blocks)
    in_range = in_range and highest_block < BLOCK_NUMBERS
    if not in_range or paths_start > REPORT_HEADER.size + MAX_BLOCK_BYTES:
        raise MalformedPacket(
            "block",
            f"loss report of {block_count} blocks up to {highest_block}: one is outside its range",
        )
    paths = []
    for word, arrived in PATH_ENTRY.iter_unpack(view[paths_start:]):
        paths.append((word >> 24, word & MAX_LOST, arrived))
    if path_count > MAX_PATHS or any(path == 0 for path, _, _ in paths):
        raise MalformedPacket(
            "path",
            f"loss report of {path_count} paths: at most {MAX_PATHS}, none of them numbered 0",
        )
    return LossReport(stream_id=stream_id, **values, blocks=tuple(blocks), paths=tuple(paths))


def _decode_blocks(entries: memoryview, width: int) -> list[tuple[int, int]]:
    """Return the number and the bitmap of each block; ``width`` is the length of a bitmap."""
    blocks = []
    for block, bits in struct.iter_unpack(f">I{width}s", entries):
        blocks.append((block, int.from_bytes(bits, "big")))
    return blocks
