"""The binary protocol between compute processes and listeners: heads, bodies, checksums, limits.

Theory of operation. A client speaks to each listener over one TCP stream. It sends requests, numbered one by one; the
listener answers each, in order, with the same number. A message is

    head (28 bytes)  magic "SFIO", version, kind, flags, number, bytes of the body, bytes of the data, CRC-32 of the
                     body, CRC-32 of the head itself; all numbers little-endian (`HEADER`)
    body             what is to be done: a path, a handle, or runs (handle, size, offset) of subfiles
    data             of a WRITE, or of the answer to a READ: the bytes of its runs, one after the other
    trailer          a checksum of the data (`Checksum`), where the flag `CHECKED` is set and there are data

A session begins with HELLO, whose answer says how large a message the listener takes. OPEN gives a handle that is valid on
its connection only. WRITE and READ move the runs of any number of subfiles at once; a run of no bytes in a WRITE makes its
subfile at least `offset` long. ERRORS gives and resets what Gabrielyan 2007, appendix A.3, calls error statistics.

There are three answers. DONE has what was asked for. FAILED names a call of the operating system that failed; the session
goes on. REFUSED says in words what was wrong with a message (`Malformed`): a wrong body or wrong data cost that message
alone, but behind a wrong head, version or length nobody knows where the next message begins, so that the connection ends.

Flow control. A client has at most `window` unanswered messages under way (`Settings`). A listener reads nothing from a client
while an answer to it waits to be sent, holds at most one message of each, and compares lengths with its limit before it
allocates anything; TCP holds back the rest. Two things may be longer than the limit, because no buffer holds them: a WRITE
of one run without checksum is written as it arrives, and long runs of a READ go from the file to the socket.

docs/workloads/striping.md has the kinds and bodies as a table.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

MAGIC = b"SFIO"
VERSION = 2
HEADER = struct.Struct("<4sBBH5I")
HEADER_BYTES = HEADER.size
BEFORE_CHECK = struct.Struct("<4sBBH4I")
MIN_LIMIT = 4096
MAX_LIMIT = 1 << 28
CHECKED = 1
TRAILER = struct.Struct("<I")
RUN = struct.Struct("<IIQ")
RUN_BYTES = RUN.size
MIN_READ_BODY_BYTES = 8
MAX_OFFSET = 2**62
MAX_DATA_BYTES = 2**32 - 1  # what a head can say
MIN_RANGE_BYTES = 16 << 10  # runs of this length are read without a buffer
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
    checked: bool

    @property
    def total_bytes(self) -> int:
        """What follows the head: the body, the data, their checksum."""
        return self.body_bytes + self.data_bytes + self.trailer_bytes

    @property
    def trailer_bytes(self) -> int:
        return TRAILER.size if self.checked and self.data_bytes else 0


def encode_header(kind: int, sequence: int, body: bytes, data_bytes: int = 0, *, checked: bool = False) -> bytes:
    """The head and the body of a message; on the stream the data follow and, if `checked`, their checksum.

    In a READ `checked` asks for an answer that is.
    """
    head = BEFORE_CHECK.pack(
        MAGIC, VERSION, kind, CHECKED if checked else 0, sequence, len(body), data_bytes, zlib.crc32(body)
    )
    return head + zlib.crc32(head).to_bytes(4, "little") + body


def decode_header(head: bytes | bytearray | memoryview, limit: int) -> Header:
    """The head of a message whose body and data together must not exceed `limit` bytes (WRITE without checksum: its body).

    Raises `Malformed` (fatal: what follows cannot be found any more).
    """
    magic, version, kind, flags, sequence, body_bytes, data_bytes, body_check, check = HEADER.unpack(head)
    if magic != MAGIC:
        raise Malformed("bytes that are no message of this protocol", fatal=True)
    if version != VERSION:
        raise Malformed(f"version {version} of the protocol; this side speaks version {VERSION}", fatal=True)
    if check != zlib.crc32(head[: HEADER_BYTES - 4]):
        raise Malformed("the head of a message is corrupted", fatal=True)
    streamed = (
        kind == Kind.WRITE and not needs_buffer(kind, data_bytes, checked=bool(flags)) and data_bytes <= MAX_LIMIT
    )
    if body_bytes + (0 if streamed else data_bytes) > limit - TRAILER.size:
        raise Malformed(f"a message of {body_bytes + data_bytes} bytes where {limit} are allowed", fatal=True)
    if kind not in KINDS or flags & ~CHECKED:
        raise Malformed(f"a message of the unknown kind {kind}, flags {flags}", fatal=True)
    return Header(
        kind=kind,
        sequence=sequence,
        body_bytes=body_bytes,
        data_bytes=data_bytes,
        body_check=body_check,
        checked=bool(flags & CHECKED),
    )


def needs_buffer(kind: int, run_bytes: int, *, checked: bool) -> bool:
    """Whether the data of a run that is alone in its message must fit into a buffer of the listener, by which both sides count.

    Not those of a WRITE, which is written as it arrives, nor those of a READ that go from the file to the socket; but
    checksums are computed in buffers.
    """
    return checked or (kind == Kind.READ and run_bytes < MIN_RANGE_BYTES)


def check_body(header: Header, body: memoryview) -> None:
    """Raises `Malformed` where the body is not what was sent."""
    if zlib.crc32(body) != header.body_check:
        raise Malformed("the body of a message is corrupted", fatal=False)


def unpack(form: struct.Struct, body: memoryview) -> tuple[int, ...]:
    """The numbers of a body of that form; raises `Malformed` where its length is another."""
    if len(body) != form.size:
        raise Malformed(f"a body of {len(body)} bytes where {form.size} are due", fatal=False)
    values: tuple[int, ...] = form.unpack(body)
    return values


class Checksum:
    """A checksum of data that arrive or leave in parts, at the speed of memory.

    Words of eight bytes that are 4096 bytes apart are added up (modulo 2^64); the CRC-32 of the 512 sums and of the
    bytes left over is the checksum. What goes wrong inside 4096 bytes in a row is found as surely as a CRC finds it.
    """

    def __init__(self) -> None:
        self._sums: npt.NDArray[np.uint64] | None = None
        self._rest = b""

    def add(self, part: memoryview) -> None:
        """Add the next bytes; parts of a multiple of 4096 bytes are fastest."""
        if self._rest:
            part = memoryview(self._rest + bytes(part))
            self._rest = b""
        whole = len(part) - len(part) % FOLD_BYTES
        if whole:
            words = np.frombuffer(part, dtype="<u8", count=whole // 8).reshape(-1, FOLD_BYTES // 8)
            sums: npt.NDArray[np.uint64] = np.add.reduce(words, axis=0)
            self._sums = sums if self._sums is None else self._sums + sums
        if whole < len(part):
            self._rest = bytes(part[whole:])

    def trailer(self) -> bytes:
        """The checksum of all that was added, as it stands behind the data."""
        return TRAILER.pack(zlib.crc32(self._rest, 0 if self._sums is None else zlib.crc32(self._sums.tobytes())))


def encode_runs(handles: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> bytes:
    """The body of WRITE and READ: runs of subfiles in the order of the data."""
    if len(offsets) == 1:
        return RUN.pack(handles[0], sizes[0], offsets[0])
    return b"".join(map(RUN.pack, handles, sizes, offsets))


def decode_runs(body: memoryview) -> list[tuple[int, int, int]]:
    """The (handle, size, offset) of a body; raises `Malformed` if it is not whole or an offset is out of range."""
    if len(body) % RUN_BYTES or not len(body):
        raise Malformed(f"a list of runs of {len(body)} bytes", fatal=False)
    runs: list[tuple[int, int, int]] = list(RUN.iter_unpack(body))
    if any(offset > MAX_OFFSET for _, _, offset in runs):
        raise Malformed("an offset beyond 2^62", fatal=False)
    return runs


def encode_counts(counts: Sequence[int]) -> bytes:
    """How many bytes of each run were read, behind `READ_DONE`."""
    return struct.pack(f"<{len(counts)}I", *counts)


def decode_counts(body: memoryview, runs: int) -> tuple[int, tuple[int, ...]]:
    """The calls of the disk and the bytes read of each of `runs` runs; raises `Malformed`."""
    if len(body) != READ_DONE.size + 4 * runs:
        raise Malformed(f"an answer of {len(body)} bytes to a read of {runs} runs", fatal=False)
    (disk_calls,) = READ_DONE.unpack(body[: READ_DONE.size])
    return disk_calls, struct.unpack(f"<{runs}I", body[READ_DONE.size :])
