"""The binary protocol between compute processes and listeners: heads, checksums, runs, limits.

Theory of operation. A client speaks to each listener over one TCP stream. It sends requests, numbered one by one; the
listener answers each, in order, with the same number. A message is

    head (28 bytes)  magic "SFIO", version, kind, flags, number, bytes of the body, bytes of the data, the lower 32
                     bits of the body's XXH3, CRC-32 of the head itself; all numbers little-endian (`HEADER`)
    body             what is to be done: a path, a handle, or runs of subfiles (`sfio_emu.message_bodies`)
    data             of a WRITE, or of the answer to a READ: the bytes of its runs, one after the other
    trailer          a checksum of the data (`Checksum`), where the flag `CHECKED` is set and there are data

A session begins with HELLO, whose answer says how large a message the listener takes and whether it asks for a key,
which KEY then proves (`sfio_emu.authentication`). OPEN gives a handle that is valid on its connection only. WRITE and
READ move the runs of any number of subfiles at once; a run of no bytes in a WRITE makes its subfile at least `offset`
long, and the answer says how long each subfile was before: whoever writes past the end learns from it which other
subfiles must grow. It also says which truncations the subfile has been through (`sfio_emu.client.size_check`): each has
a number of its own. WRITE_STRIDED and READ_STRIDED do the same for runs of one size at one distance, as views have them
by thousands: each is told once, with its distance and how many of it there are (`Strided`), instead of run by run.
ERRORS gives and resets what Gabrielyan 2007, appendix A.3, calls error statistics.

A file has an identity, a random number that LAYOUT stores with each of its subfiles and OPEN and STAT give back: so
nobody takes subfiles of several files for one file, or another file for the one that was opened. Who makes, renames or
deletes the subfiles of a name first takes a LOCK of it, which ends with the connection at the latest
(`sfio_emu.client.opening`).

There are three answers. DONE has what was requested. FAILED names a call of the operating system that failed; the
session goes on. REFUSED says in words what was wrong with a message (`Malformed`): a wrong body or wrong data cost that
message alone, but behind a wrong head, version or length nobody knows where the next message begins, so that the
connection ends.

Flow control. A client has at most `window` unanswered messages in transit (`Settings`). A listener reads nothing from a
client while an answer to it waits to be sent, holds at most one message of each, and compares lengths with its limit
before it allocates anything; TCP holds back the rest.

docs/reference/sfio_protocol.md has the kinds and bodies as a table.
"""

import struct
import zlib
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

MAGIC = b"SFIO"
VERSION = 8
HEADER = struct.Struct("<4sBBH5I")
HEADER_BYTES = HEADER.size
BEFORE_CHECK = struct.Struct("<4sBBH4I")
MIN_LIMIT = 4096
MAX_LIMIT = 1 << 28
CHECKED = 1
TRAILER = struct.Struct("<Q")
RUN = struct.Struct("<IIQ")
RUN_BYTES = RUN.size
RUN_TYPE = np.dtype([("handle", "<u4"), ("size", "<u4"), ("offset", "<u8")])  # the same, of many
NO_RUNS = np.zeros(0, dtype=RUN_TYPE)
STRIDED = struct.Struct("<IIQQII")
STRIDED_TYPE = np.dtype(
    [*RUN_TYPE.descr, ("distance", "<u8"), ("number", "<u4"), ("reserved", "<u4")]
)
STRIDED_BYTES = STRIDED.size
MAX_OFFSET = 2**62
MAX_BODY_BYTES = 4096  # of requests other than READ and WRITE

READ_DONE = struct.Struct("<I")


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
    KEY = 11
    STAT = 12
    LIST = 13
    RENAME = 14
    SYNC = 15
    LAYOUT = 16
    UNMAKE = 17
    WRITE_STRIDED = 18
    READ_STRIDED = 19
    LOCK = 20
    MKDIR = 21
    RMDIR = 22
    DONE = 0x80
    FAILED = 0x81
    REFUSED = 0x82


KINDS = frozenset(int(kind) for kind in Kind)
WRITES = frozenset((Kind.WRITE, Kind.WRITE_STRIDED))
READS = frozenset((Kind.READ, Kind.READ_STRIDED))
SMALL_KINDS = frozenset(kind for kind in KINDS if kind < Kind.DONE and kind not in WRITES | READS)


class Malformed(Exception):
    """Bytes that are no message of this protocol; `fatal` when the place of the next message is unknown."""

    def __init__(self, text: str, *, fatal: bool) -> None:
        super().__init__(text)
        self.fatal = fatal


class Header(NamedTuple):
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


def encode_header(
    kind: int, sequence: int, body: bytes, data_bytes: int = 0, *, checked: bool = False
) -> bytes:
    """The head and the body of a message (`encode_head`), as they stand one behind the other."""
    return encode_head(kind, sequence, body, data_bytes, checked=checked) + body


def encode_head(
    kind: int, sequence: int, body: bytes | memoryview, data_bytes: int, *, checked: bool
) -> bytes:
    """The head of a message; on the stream the body follows, the data and, if `checked`, their checksum.

    In a READ `checked` requests a checked answer.
    """
    head = BEFORE_CHECK.pack(
        MAGIC, VERSION, kind, CHECKED * checked, sequence, len(body), data_bytes, body_check(body)
    )
    return head + zlib.crc32(head).to_bytes(4, "little")


def decode_header(head: bytes | bytearray | memoryview, limit: int) -> Header:
    """The head of a message whose body and data together must not exceed `limit` bytes.

    Raises `Malformed` (fatal: what follows cannot be found any more).
    """
    magic, version, kind, flags, sequence, body_bytes, data_bytes, body_check, check = (
        HEADER.unpack(head)
    )
    if magic != MAGIC:
        raise Malformed("bytes that are no message of this protocol", fatal=True)
    if version != VERSION:
        raise Malformed(
            f"version {version} of the protocol; this side speaks version {VERSION}: bring the older one up to date",
            fatal=True,
        )
    if check != zlib.crc32(head[: HEADER_BYTES - 4]):
        raise Malformed("the head of a message is corrupted", fatal=True)
    if kind not in KINDS or flags & ~CHECKED:
        raise Malformed(f"a message of the unknown kind {kind}, flags {flags}", fatal=True)
    most_body = MAX_BODY_BYTES if kind in SMALL_KINDS else limit
    for size, most in ((body_bytes, most_body), (body_bytes + data_bytes, limit - TRAILER.size)):
        if size > most:
            raise Malformed(f"a message of {size} bytes where {most} are allowed", fatal=True)
    return Header(kind, sequence, body_bytes, data_bytes, body_check, bool(flags))


def body_check(body: bytes | memoryview) -> int:
    """The checksum of a body in its head."""
    return int(xxh3_64_intdigest(body)) & 0xFFFFFFFF


def check_body(header: Header, body: memoryview) -> None:
    """Raises `Malformed` where the body is not what was sent."""
    if body_check(body) != header.body_check:
        raise Malformed("the body of a message is corrupted", fatal=False)


class Checksum:
    """A checksum of data that arrive or leave in parts: XXH3 of 64 bits, at the speed of memory."""

    __slots__ = ("_state", "add")

    def __init__(self) -> None:
        self._state = xxh3_64()
        self.add = self._state.update
        """Add the next bytes."""

    def trailer(self) -> bytes:
        """The checksum of all that was added, as it stands behind the data."""
        return TRAILER.pack(self._state.intdigest())


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


class Strided(NamedTuple):
    """`number` runs of `size` bytes of a subfile, the first at `offset`, each `distance` behind the beginning of the
    one before."""

    handle: int
    size: int
    offset: int
    distance: int
    number: int


def decode_strided(body: memoryview, limit: int) -> list[Strided]:
    """What a body says that came to a listener with messages of at most `limit` bytes; raises `Malformed`.

    Several runs have at least one byte each and follow one another without overlaps.
    """
    if len(body) % STRIDED_BYTES or not len(body):
        raise Malformed(f"a list of strided runs of {len(body)} bytes", fatal=False)
    found = [Strided(*fields[:5]) for fields in STRIDED.iter_unpack(body)]
    for run in found:
        if not run.number or (run.number > 1 and not 0 < run.size <= run.distance):
            text = f"{run.number} strided runs of {run.size} bytes at a distance of {run.distance}"
            raise Malformed(
                f"{text}: one at least, and several of a byte and more that do not overlap",
                fatal=False,
            )
        if run.offset + (run.number - 1) * run.distance > MAX_OFFSET:
            raise Malformed("an offset beyond 2^62", fatal=False)
    total, most = (
        sum([run.number for run in found]),
        limit // RUN_BYTES,
    )  # as many as could be listed
    if total > most:
        raise Malformed(f"{total} strided runs where {most} are allowed", fatal=False)
    return found


def encode_counts(counts: Sequence[int]) -> bytes:
    """How many bytes of each run were read, behind `READ_DONE`."""
    return struct.pack(f"<{len(counts)}I", *counts)


def decode_counts(body: memoryview, runs: int) -> tuple[int, memoryview]:
    """The calls of the disk, and the bytes read of each of `runs` runs as they arrived: four octets each, the lowest
    first. Raises `Malformed`."""
    if len(body) != READ_DONE.size + 4 * runs:
        raise Malformed(f"an answer of {len(body)} bytes to a read of {runs} runs", fatal=False)
    (disk_calls,) = READ_DONE.unpack(body[: READ_DONE.size])
    return disk_calls, body[READ_DONE.size :]


def drop_sent(outgoing: deque[memoryview], count: int) -> bool:
    """Take `count` bytes that were sent off the front of what goes out; whether nothing is left."""
    while count:
        first = outgoing[0]
        if count < len(first):
            outgoing[0] = first[count:]
            break
        count -= len(first)
        outgoing.popleft()
    return not outgoing
