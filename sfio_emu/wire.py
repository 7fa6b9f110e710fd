"""The binary protocol between compute processes and listeners: headers, checksums, runs, limits.

A client sends requests to each listener over one TCP stream, numbered consecutively. The listener
answers each of them, in order, with the same number. A message consists of:

    header (28 bytes)  magic "SFIO", version, kind, flags, number, size of the body, size of the
                       data, the lower 32 bits of the body's XXH3, CRC-32 of the header itself; all
                       numbers little-endian (`HEADER`)
    body               the request: a path, a handle, or runs of subfiles
                       (`sfio_emu.message_bodies`)
    data               of a WRITE, or of the answer to a READ: the bytes of its runs in sequence
    trailer            a checksum of the data (`Checksum`), if the flag `CHECKED` is set and there
                       are data

A session begins with HELLO. Its answer says how large a message the listener accepts, and whether
it requires a key. The client then proves with KEY that it has the key
(`sfio_emu.authentication`). OPEN returns a handle that is valid on its connection only. WRITE and
READ transfer the runs of any number of subfiles at once.

A run of no bytes in a WRITE extends its subfile to at least `offset`. The answer to a WRITE has
the sizes of the subfiles before it, so that a client that writes past the end knows which other
subfiles must grow. The answer also identifies the truncations of each subfile; each truncation has
a number of its own (`sfio_emu.client.size_check`).

WRITE_STRIDED and READ_STRIDED do the same for runs of equal size at equal distances, as views
have them by the thousand. A message then describes them by size, distance and number (`Strided`)
instead of one by one. ERRORS returns and resets the error statistics of Gabrielyan 2007,
appendix A.3.

A file has an identity, a random number. LAYOUT stores it with each subfile, and OPEN and STAT
return it. A client can so detect that subfiles belong to different files, or that the file is not
the one that was opened. Before a client creates, renames or deletes the subfiles of a name, it
takes a LOCK of the name, which ends at the latest with the connection (`sfio_emu.client.opening`).

There are three kinds of answers. DONE has the result. FAILED names a system call that failed; the
session continues. REFUSED has a text that says what was wrong with a message (`Malformed`). After
a wrong body or wrong data, the session continues. After a wrong header, version or length, the
connection ends, because the next message cannot be found.

Flow control: a client has at most `window` unanswered messages in transit (`Settings`). A listener
does not read from a client while an answer to it waits to be sent. It stores at most one message of
each client, and compares lengths with its limit before it allocates memory. TCP then makes the
client wait.

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

# The beginning of each message, and the version of the protocol.
MAGIC = b"SFIO"
VERSION = 8
HEADER = struct.Struct("<4sBBH5I")
HEADER_BYTES = HEADER.size

# The header without its own checksum.
BEFORE_CHECK = struct.Struct("<4sBBH4I")

# The bounds of a listener's limit for body and data together, in bytes.
MIN_LIMIT = 4096
MAX_LIMIT = 1 << 28

# The flag for data with a checksum.
CHECKED = 1

TRAILER = struct.Struct("<Q")

# A run in the body of a WRITE or READ: handle, size and offset. `RUN_TYPE` is its numpy form.
RUN = struct.Struct("<IIQ")
RUN_BYTES = RUN.size
RUN_TYPE = np.dtype([("handle", "<u4"), ("size", "<u4"), ("offset", "<u8")])
NO_RUNS = np.zeros(0, dtype=RUN_TYPE)

# Strided runs in the body of a WRITE_STRIDED or READ_STRIDED: handle, size, offset, distance,
# number, reserved.
STRIDED = struct.Struct("<IIQQII")
STRIDED_TYPE = np.dtype(
    [*RUN_TYPE.descr, ("distance", "<u8"), ("number", "<u4"), ("reserved", "<u4")]
)
STRIDED_BYTES = STRIDED.size

# Offsets stay below this, so that the sum of two offsets fits into int64.
MAX_OFFSET = 2**62

# The largest body of a request other than reads and writes.
MAX_BODY_BYTES = 4096

# The beginning of the answer to a READ: the number of disk calls.
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

# Requests whose body has at most `MAX_BODY_BYTES` bytes.
_REQUESTS = frozenset(kind for kind in KINDS if kind < Kind.DONE)
SMALL_KINDS = _REQUESTS - WRITES - READS


class Malformed(Exception):
    """Received bytes are not a valid message.

    Attributes:
        fatal: Whether the connection must end, because the next message cannot be found.
    """

    def __init__(self, text: str, *, fatal: bool) -> None:
        super().__init__(text)
        self.fatal = fatal


class Header(NamedTuple):
    """The header of a message.

    Attributes:
        kind: The kind of message.
        sequence: The number of the message.
        body_bytes: The size of the body.
        data_bytes: The size of the data.
        body_check: The checksum of the body.
        checked: Whether the data have a checksum. In a READ: whether the answer shall have one.
    """

    kind: int
    sequence: int
    body_bytes: int
    data_bytes: int
    body_check: int
    checked: bool

    @property
    def total_bytes(self) -> int:
        """The size of all that follows the header: body, data and trailer."""
        return self.body_bytes + self.data_bytes + self.trailer_bytes

    @property
    def trailer_bytes(self) -> int:
        """The size of the checksum of the data; 0 if there is none."""
        return TRAILER.size if self.checked and self.data_bytes else 0


def encode_header(
    kind: int, sequence: int, body: bytes, data_bytes: int = 0, *, checked: bool = False
) -> bytes:
    """Encode the header of a message and its body, with arguments as `encode_head`."""
    return encode_head(kind, sequence, body, data_bytes, checked=checked) + body


def encode_head(
    kind: int, sequence: int, body: bytes | memoryview, data_bytes: int, *, checked: bool
) -> bytes:
    """Encode the header of a message, without the body.

    Args:
        kind: The kind of message.
        sequence: The number of the message.
        body: The body, from which size and checksum are taken.
        data_bytes: The size of the data.
        checked: Whether a checksum follows the data. In a READ: whether the answer shall have one.
    """
    flags = CHECKED if checked else 0
    head = BEFORE_CHECK.pack(
        MAGIC, VERSION, kind, flags, sequence, len(body), data_bytes, body_check(body)
    )
    return head + zlib.crc32(head).to_bytes(4, "little")


def decode_header(head: bytes | bytearray | memoryview, limit: int) -> Header:
    """Decode a message header.

    Args:
        head: The bytes of the header.
        limit: The largest accepted size of body, data and trailer together, in bytes.

    Raises:
        Malformed: The header is invalid. The error is fatal, because the next message cannot be
            found.
    """
    magic, version, kind, flags, sequence, body_bytes, data_bytes, body_check, check = (
        HEADER.unpack(head)
    )
    if magic != MAGIC:
        raise Malformed("bytes that are not a message of this protocol", fatal=True)
    # The version is checked before the checksum, which another version may compute differently.
    if version != VERSION:
        raise Malformed(
            f"version {version} of the protocol; this side speaks version {VERSION}: "
            "update the older one",
            fatal=True,
        )
    if check != zlib.crc32(head[: HEADER_BYTES - 4]):
        raise Malformed("the header of a message is corrupted", fatal=True)
    if kind not in KINDS or flags & ~CHECKED:
        raise Malformed(f"a message of unknown kind {kind}, flags {flags}", fatal=True)
    max_body_bytes = MAX_BODY_BYTES if kind in SMALL_KINDS else limit
    _check_size(body_bytes, max_body_bytes)
    _check_size(body_bytes + data_bytes, limit - TRAILER.size)
    return Header(kind, sequence, body_bytes, data_bytes, body_check, bool(flags))


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise Malformed(f"a message of {size} bytes where {limit} are allowed", fatal=True)


def body_check(body: bytes | memoryview) -> int:
    """Return the checksum of a body, as it stands in the header."""
    return int(xxh3_64_intdigest(body)) & 0xFFFFFFFF


def check_body(header: Header, body: memoryview) -> None:
    """Check a received body against the checksum in its header, and raise `Malformed`."""
    if body_check(body) != header.body_check:
        raise Malformed("the body of a message is corrupted", fatal=False)


class Checksum:
    """The checksum of data that arrive or leave in parts: XXH3 of 64 bits.

    `add` adds the next bytes. It is the method of the C library itself, because it is called for
    every part.
    """

    __slots__ = ("_state", "add")

    def __init__(self) -> None:
        self._state = xxh3_64()
        self.add = self._state.update

    def trailer(self) -> bytes:
        """Return the checksum of all bytes added so far, as it follows the data."""
        return TRAILER.pack(self._state.intdigest())


def encode_runs(handles: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> bytes:
    """Encode the body of a WRITE or READ: runs of subfiles, in the order of the data.

    Args:
        handles: The handle of each run's subfile.
        offsets: The offset of each run in its subfile, in bytes.
        sizes: The size of each run in bytes.
    """
    if len(offsets) == 1:
        return RUN.pack(handles[0], sizes[0], offsets[0])
    return b"".join(map(RUN.pack, handles, sizes, offsets))


def decode_runs(body: memoryview) -> list[tuple[int, int, int]]:
    """Decode the body of a WRITE or READ.

    Returns:
        Handle, size and offset of each run.

    Raises:
        Malformed: The body is not a list of runs, or an offset is too large.
    """
    if len(body) % RUN_BYTES or not len(body):
        raise Malformed(f"a list of runs of {len(body)} bytes", fatal=False)
    runs: list[tuple[int, int, int]] = list(RUN.iter_unpack(body))
    if any(offset > MAX_OFFSET for _, _, offset in runs):
        raise Malformed("an offset beyond 2^62", fatal=False)
    return runs


class Strided(NamedTuple):
    """Runs of equal size at equal distances in one subfile.

    Attributes:
        handle: The handle of the subfile.
        size: The size of each run in bytes.
        offset: The offset of the first run in bytes.
        distance: Bytes from the beginning of a run to the beginning of the next.
        number: The number of runs.
    """

    handle: int
    size: int
    offset: int
    distance: int
    number: int


def decode_strided(body: memoryview, limit: int) -> list[Strided]:
    """Decode the body of a WRITE_STRIDED or READ_STRIDED.

    Args:
        body: The body.
        limit: The listener's limit for a message, in bytes. There may be no more runs than could
            be listed one by one in such a message.

    Raises:
        Malformed: The body is not a list of strided runs, runs are empty or overlap, there are too
            many, or an offset is too large.
    """
    if len(body) % STRIDED_BYTES or not len(body):
        raise Malformed(f"a list of strided runs of {len(body)} bytes", fatal=False)
    strided_runs = [Strided(*fields[:5]) for fields in STRIDED.iter_unpack(body)]
    for run in strided_runs:
        if not run.number or (run.number > 1 and not 0 < run.size <= run.distance):
            text = f"{run.number} strided runs of {run.size} bytes at a distance of {run.distance}"
            raise Malformed(
                f"{text}: give at least one, and several only of at least one byte "
                "and without overlaps",
                fatal=False,
            )
        if run.offset + (run.number - 1) * run.distance > MAX_OFFSET:
            raise Malformed("an offset beyond 2^62", fatal=False)
    total = sum(run.number for run in strided_runs)
    max_runs = limit // RUN_BYTES
    if total > max_runs:
        raise Malformed(f"{total} strided runs where {max_runs} are allowed", fatal=False)
    return strided_runs


def encode_counts(counts: Sequence[int]) -> bytes:
    """Encode how many bytes of each run were read; the counts follow `READ_DONE`."""
    return struct.pack(f"<{len(counts)}I", *counts)


def decode_counts(body: memoryview, runs: int) -> tuple[int, memoryview]:
    """Decode the answer to a READ of `runs` runs.

    Returns:
        The number of disk calls, and the number of bytes read of each run as it arrived: 32-bit
        numbers, little-endian.

    Raises:
        Malformed: The body has another length.
    """
    if len(body) != READ_DONE.size + 4 * runs:
        raise Malformed(f"an answer of {len(body)} bytes to a read of {runs} runs", fatal=False)
    (disk_calls,) = READ_DONE.unpack(body[: READ_DONE.size])
    return disk_calls, body[READ_DONE.size :]


def drop_sent(outgoing: deque[memoryview], count: int) -> bool:
    """Remove `count` sent bytes from the front of the queue, and return whether it is empty."""
    while count:
        first = outgoing[0]
        if count < len(first):
            outgoing[0] = first[count:]
            break
        count -= len(first)
        outgoing.popleft()
    return not outgoing
