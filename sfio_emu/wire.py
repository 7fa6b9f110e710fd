"""The binary protocol between compute processes and listeners: headers, bodies, checksums, limits.
Lengths are checked against the limit before anything is allocated; all numbers are little-endian (docs/sfio.md)."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

MAGIC = b"SFIO"
VERSION = 1
HEADER = struct.Struct("<4sBBH6I")
HEADER_BYTES = HEADER.size
BEFORE_CHECK = struct.Struct("<4sBBH5I")
SMALLEST_LIMIT = 4096
LARGEST_LIMIT = 1 << 28
DATA_CHECKED = 1
RUN = np.dtype([("handle", "<u4"), ("size", "<u4"), ("offset", "<u8")])
RUN_BYTES = RUN.itemsize
FOLD_BYTES = 4096

HELLO = struct.Struct("<II")
OPEN = struct.Struct("<B")
OPENED = struct.Struct("<IQ")
HANDLE = struct.Struct("<I")
SIZED = struct.Struct("<IQ")
SIZE = struct.Struct("<Q")
WRITTEN = struct.Struct("<QI")
READ_DONE = struct.Struct("<I")
FAILURE = struct.Struct("<iBIQ")
ERRORS = struct.Struct("<9Q")


class Kind(IntEnum):
    """The kinds of messages; answers have the highest bit set."""

    HELLO = 1
    OPEN = 2
    CLOSE = 3
    CREATE = 4
    UNLINK = 5
    RESIZE = 6
    SIZE = 7
    WRITE = 8
    READ = 9
    ERRORS = 10
    DONE = 0x80
    FAILED = 0x81
    REFUSED = 0x82


KINDS = frozenset(int(kind) for kind in Kind)


class Malformed(Exception):
    """Bytes that are no message of this protocol; `fatal` when the place of the next message is unknown."""

    def __init__(self, text: str, *, fatal: bool) -> None:
        super().__init__(text)
        self.fatal = fatal


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The head of a message: its kind, its number, the sizes and checksums of what follows."""

    kind: int
    sequence: int
    body_bytes: int
    data_bytes: int
    body_check: int
    data_check: int
    data_checked: bool


def encode_header(kind: int, sequence: int, body: bytes, data_bytes: int = 0, data_check: int | None = None) -> bytes:
    """The head and the body of a message; the data (if any) follow them on the stream."""
    flags = 0 if data_check is None else DATA_CHECKED
    head = BEFORE_CHECK.pack(
        MAGIC, VERSION, kind, flags, sequence, len(body), data_bytes, zlib.crc32(body), data_check or 0
    )
    return head + zlib.crc32(head).to_bytes(4, "little") + body


def decode_header(head: bytes | bytearray | memoryview, limit: int) -> Header:
    """The head of a message whose body and data together must not exceed `limit` bytes.

    Raises `Malformed` (fatal: what follows cannot be found any more).
    """
    magic, version, kind, flags, sequence, body_bytes, data_bytes, body_check, data_check, check = HEADER.unpack(head)
    if magic != MAGIC:
        raise Malformed("bytes that are no message of this protocol", fatal=True)
    if version != VERSION:
        raise Malformed(f"version {version} of the protocol; this side speaks version {VERSION}", fatal=True)
    if check != zlib.crc32(head[: HEADER_BYTES - 4]):
        raise Malformed("the head of a message is corrupted", fatal=True)
    if body_bytes + data_bytes > limit:
        raise Malformed(f"a message of {body_bytes + data_bytes} bytes where {limit} are allowed", fatal=True)
    if kind not in KINDS or flags & ~DATA_CHECKED:
        raise Malformed(f"a message of the unknown kind {kind}, flags {flags}", fatal=True)
    return Header(
        kind=kind,
        sequence=sequence,
        body_bytes=body_bytes,
        data_bytes=data_bytes,
        body_check=body_check,
        data_check=data_check,
        data_checked=bool(flags & DATA_CHECKED),
    )


def check_body(header: Header, body: memoryview) -> None:
    """Raises `Malformed` where the body is not what was sent."""
    if zlib.crc32(body) != header.body_check:
        raise Malformed("the body of a message is corrupted", fatal=False)


def check_data(header: Header, pieces: list[memoryview]) -> None:
    """Raises `Malformed` where the data, one stream in `pieces`, are not what was sent (if their sender said)."""
    if header.data_checked and data_checksum(pieces) != header.data_check:
        raise Malformed("the data of a message are corrupted", fatal=False)


def data_checksum(pieces: list[memoryview]) -> int:
    """A checksum of the bytes of `pieces` as one stream, at the speed of memory.

    Words of eight bytes that are 4096 bytes apart are added up (modulo 2^64); the CRC-32 of the 512 sums and of the
    bytes left over is the checksum. Any corruption inside 4096 bytes in a row is found as surely as a CRC finds it.
    """
    if len(pieces) != 1:
        return data_checksum([memoryview(b"".join(pieces))])
    stream = np.frombuffer(pieces[0], dtype=np.uint8)
    whole = len(stream) - len(stream) % FOLD_BYTES
    if whole == 0:
        return zlib.crc32(pieces[0])
    words = stream[:whole].view("<u8").reshape(-1, FOLD_BYTES // 8)
    sums: npt.NDArray[np.uint64] = np.add.reduce(words, axis=0)
    return zlib.crc32(pieces[0][whole:], zlib.crc32(sums.tobytes()))


def encode_runs(handles: npt.ArrayLike, offsets: npt.ArrayLike, sizes: npt.ArrayLike) -> bytes:
    """The body of WRITE and READ: runs of subfiles in the order of the data."""
    runs = np.empty(np.size(offsets), dtype=RUN)
    runs["handle"], runs["offset"], runs["size"] = handles, offsets, sizes
    return runs.tobytes()


def decode_runs(body: memoryview) -> list[tuple[int, int, int]]:
    """The (handle, size, offset) of a body; raises `Malformed` if it is not whole or an offset is out of range."""
    if len(body) % RUN_BYTES or not len(body):
        raise Malformed(f"a list of runs of {len(body)} bytes", fatal=False)
    runs = np.frombuffer(body, dtype=RUN)
    if int(runs["offset"].max()) > 2**62:
        raise Malformed("an offset beyond 2^62", fatal=False)
    return runs.tolist()  # type: ignore[no-any-return]


def encode_counts(counts: list[int]) -> bytes:
    """How many bytes of each run were read, behind `READ_DONE`."""
    return np.array(counts, dtype="<u4").tobytes()


def decode_counts(body: memoryview, runs: int) -> tuple[int, list[int]]:
    """The calls of the disk and the bytes read of each of `runs` runs; raises `Malformed`."""
    if len(body) != READ_DONE.size + 4 * runs:
        raise Malformed(f"an answer of {len(body)} bytes to a read of {runs} runs", fatal=False)
    (disk_calls,) = READ_DONE.unpack(body[: READ_DONE.size])
    return disk_calls, np.frombuffer(body, dtype="<u4", offset=READ_DONE.size).tolist()
