"""The bodies of messages: the contents of each request and of its answer.

Numbers are little-endian, paths are UTF-8. A constant X describes the body of request X, and
X_ANSWER that of its answer. The runs and counts of WRITE and READ are in `sfio_emu.wire`.
"""

import struct
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

from sfio_emu.wire import Malformed

# Sizes of the random number of a handshake, and of the proof that the sender knows the key.
NONCE_BYTES = 16
PROOF_BYTES = 32
# The maximum size of a path in UTF-8.
MAX_PATH_BYTES = 1024

# The maximum size of one page of a folder's listing.
MAX_LIST_BYTES = 64 << 10

HELLO = struct.Struct(f"<{NONCE_BYTES}s")
HELLO_ANSWER = struct.Struct(f"<I?{NONCE_BYTES}s16s{PROOF_BYTES}s")
KEY = struct.Struct(f"<{PROOF_BYTES}s")
OPEN = struct.Struct("<B")
OPEN_ANSWER = struct.Struct("<I?QQQQIIQ")

# The body of CLOSE, SIZE, SYNC and UNMAKE.
HANDLE = struct.Struct("<I")

RESIZE = struct.Struct("<IQQ")
SIZE_ANSWER = struct.Struct("<Q")
WRITE_ANSWER = struct.Struct("<QI")

# What the answer to a WRITE says of each subfile: its size before, and its truncations.
BEFORE_BYTES = 16

FAILURE = struct.Struct("<iBIQ")
ERRORS_ANSWER = struct.Struct("<15Q")
STAT_ANSWER = struct.Struct("<IQqQQQIIQ")
LIST = struct.Struct("<H")
LIST_ENTRY = struct.Struct("<BQH")
RENAME = struct.Struct("<BH")
LAYOUT = struct.Struct("<IQIIQ")
LAYOUT_ANSWER = struct.Struct("<QIIQ")
LOCK_ANSWER = struct.Struct("<?")


class OpenFlag(IntFlag):
    """Flags of OPEN.

    Attributes:
        CREATE: Create the subfile if it is missing.
        EXCLUSIVE: Fail if the subfile exists.
        READ_ONLY: Open it for reading only.
        IF_THERE: If the subfile is missing, answer with handle 0 instead of an error.
    """

    CREATE = 1
    EXCLUSIVE = 2
    READ_ONLY = 4
    IF_THERE = 8


class RenameWay(IntEnum):
    """Options of RENAME for a file that has the new name already, and for the old name.

    Attributes:
        REFUSE: Fail if a file has the new name.
        REPLACE: Replace a file that has the new name.
        LINK: Give the file the new name in addition to the old one; fail if a file has it.
    """

    REFUSE = 0
    REPLACE = 1
    LINK = 2


class StoredLayout(NamedTuple):
    """The layout and identity that are stored with a subfile.

    A stripe unit of 0 means that nothing is stored (`NO_LAYOUT`), or that the file system cannot
    store it (`UNSTORABLE`).

    Attributes:
        stripe_unit: The stripe unit of the file in bytes.
        index: The number of this subfile.
        subfiles: The number of subfiles of the file.
        file_id: The identity of the file, a random number. It is 0 if the file was created by a
            version without identities.
    """

    stripe_unit: int = 0
    index: int = 0  # type: ignore[assignment]  # tuples have a method of that name
    subfiles: int = 0
    file_id: int = 0

    def __bool__(self) -> bool:
        return self.stripe_unit > 0


NO_LAYOUT = StoredLayout()
UNSTORABLE = StoredLayout(file_id=1)


class Welcome(NamedTuple):
    """The answer to HELLO.

    Attributes:
        limit_bytes: The size of the largest message that the listener accepts.
        wants_key: Whether the listener requires a key.
        nonce: The nonce of the listener.
        machine: 16 bytes that identify the machine on which the listener runs.
        proof: The proof that the listener has the key; zeros without a key.
    """

    limit_bytes: int
    wants_key: bool
    nonce: bytes
    machine: bytes
    proof: bytes

    def encode(self) -> bytes:
        """Return the body."""
        return HELLO_ANSWER.pack(*self)

    @classmethod
    def decode(cls, body: memoryview) -> "Welcome":
        """Decode a body, or raise `Malformed`."""
        return cls(*unpack(HELLO_ANSWER, body))


class Opened(NamedTuple):
    """The answer to OPEN.

    Attributes:
        handle: The handle of the subfile; 0 if it does not exist (`OpenFlag.IF_THERE`).
        created: Whether the subfile was created.
        size: Its size in bytes.
        device: The device number of the file on the I/O node.
        inode: The inode number of the file on the I/O node.
        layout: The layout stored with the subfile.
    """

    handle: int
    created: bool
    size: int
    device: int
    inode: int
    layout: StoredLayout

    def encode(self) -> bytes:
        """Return the body."""
        return OPEN_ANSWER.pack(*self[:-1], *self.layout)

    @classmethod
    def decode(cls, body: memoryview) -> "Opened":
        """Decode a body, or raise `Malformed`."""
        fields = unpack(OPEN_ANSWER, body)
        return cls._make((*fields[:-4], StoredLayout(*fields[-4:])))


NOT_THERE = Opened(0, False, 0, 0, 0, NO_LAYOUT)


class Stat(NamedTuple):
    """The answer to STAT.

    Attributes:
        mode: File type and permissions, as in stat(2).
        size: The size in bytes.
        modified_ns: The time of the last change, in nanoseconds since 1970.
        device: The device number of the file on the I/O node.
        inode: The inode number of the file on the I/O node.
        layout: The layout stored with the subfile.
    """

    mode: int
    size: int
    modified_ns: int
    device: int
    inode: int
    layout: StoredLayout

    def encode(self) -> bytes:
        """Return the body."""
        return STAT_ANSWER.pack(*self[:-1], *self.layout)

    @classmethod
    def decode(cls, body: memoryview) -> "Stat":
        """Decode a body, or raise `Malformed`."""
        fields = unpack(STAT_ANSWER, body)
        return cls._make((*fields[:-4], StoredLayout(*fields[-4:])))


class Entry(NamedTuple):
    """An entry of a folder.

    Attributes:
        name: The name.
        kind: "file", "folder", or "other" (links and pipes).
        size: The size of a file in bytes.
    """

    name: str
    kind: str
    size: int


ENTRY_KINDS = ("other", "file", "folder")


def encode_path(path: str) -> bytes:
    """Encode a path as UTF-8; names that are not UTF-8 keep their bytes."""
    return path.encode("utf-8", "surrogateescape")


def decode_path(body: memoryview | bytes) -> str:
    """Decode a path, or raise `Malformed` if it is too long."""
    if len(body) > MAX_PATH_BYTES:
        raise Malformed(
            f"a path of {len(body)} bytes where {MAX_PATH_BYTES} are allowed", fatal=False
        )
    return bytes(body).decode("utf-8", "surrogateescape")


def encode_open(path: str, flags: OpenFlag = OpenFlag.CREATE) -> bytes:
    """Encode the body of OPEN."""
    return OPEN.pack(flags) + encode_path(path)


def decode_open(body: memoryview) -> tuple[str, OpenFlag]:
    """Decode the body of OPEN, or raise `Malformed`."""
    if len(body) <= OPEN.size:
        raise Malformed("an open without a path", fatal=False)
    if body[0] not in range(16):
        raise Malformed(f"an open with the unknown flags {body[0]}", fatal=False)
    return decode_path(body[OPEN.size :]), OpenFlag(body[0])


def encode_lock(path: str, *, take: bool) -> bytes:
    """Encode the body of LOCK, which takes the lock of a path or releases it."""
    return bytes([take]) + encode_path(path)


def encode_pair(head: bytes, first: str, second: str) -> bytes:
    """Encode the body of LIST or RENAME, which has two paths.

    Args:
        head: The encoded numbers of the body, but for the length of the first path, which is added.
        first: The first path.
        second: The second path.
    """
    encoded = encode_path(first)
    return head + len(encoded).to_bytes(2, "little") + encoded + encode_path(second)


def decode_pair(form: struct.Struct, body: memoryview) -> tuple[tuple[int, ...], str, str]:
    """Decode a body that has two paths.

    Args:
        form: The numbers of the body. The last one is the length of the first path.
        body: The body.

    Returns:
        The numbers but for the length, the first path, and the second path.

    Raises:
        Malformed: The body is too short, or a path is too long.
    """
    if len(body) < form.size:
        raise Malformed(
            f"a body of {len(body)} bytes where at least {form.size} are expected", fatal=False
        )
    *numbers, length = form.unpack(body[: form.size])
    paths = body[form.size :]
    if length > len(paths):
        raise Malformed("a path longer than its message", fatal=False)
    return tuple(numbers), decode_path(paths[:length]), decode_path(paths[length:])


def encode_entry(entry: Entry) -> bytes:
    """Encode an entry of the answer to LIST."""
    name = encode_path(entry.name)
    return LIST_ENTRY.pack(ENTRY_KINDS.index(entry.kind), entry.size, len(name)) + name


def decode_entries(body: memoryview) -> tuple[list[Entry], bool]:
    """Decode the answer to LIST.

    Its first byte says whether more entries follow on another page.

    Returns:
        The entries of this page, and whether more follow.

    Raises:
        Malformed: An entry is incomplete or invalid.
    """
    page = bytes(body)
    position = 1
    entries = []
    try:
        while position < len(page):
            kind, size, length = LIST_ENTRY.unpack_from(page, position)
            position += LIST_ENTRY.size + length
            name = page[position - length : position].decode("utf-8", "surrogateescape")
            entries.append(Entry(name, ENTRY_KINDS[kind], size))
        if position > len(page):
            raise IndexError
    except (struct.error, IndexError):
        raise Malformed("an incomplete list of names", fatal=True) from None
    return entries, page[:1] > b"\0"


class Written(NamedTuple):
    """The answer to WRITE.

    Attributes:
        written_bytes: The number of bytes written.
        disk_calls: The number of system calls.
        sizes: The size of each subfile before the write in bytes, in the order in which the runs
            first mention the subfiles.
        cuts: The truncations of each subfile so far: the exclusive or of their numbers.
    """

    written_bytes: int
    disk_calls: int
    sizes: tuple[int, ...]
    cuts: tuple[int, ...]

    def encode(self) -> bytes:
        """Return the body."""
        head = WRITE_ANSWER.pack(self.written_bytes, self.disk_calls)
        return head + struct.pack(f"<{2 * len(self.sizes)}Q", *self.sizes, *self.cuts)


def decode_written(body: memoryview, subfiles: int) -> Written:
    """Decode the answer to a WRITE that mentions `subfiles` subfiles, or raise `Malformed`."""
    if len(body) != WRITE_ANSWER.size + BEFORE_BYTES * subfiles:
        raise Malformed(
            f"an answer of {len(body)} bytes to a write to {subfiles} subfiles", fatal=False
        )
    written_bytes, disk_calls = WRITE_ANSWER.unpack_from(body)
    before = struct.unpack_from(f"<{2 * subfiles}Q", body, WRITE_ANSWER.size)
    return Written(written_bytes, disk_calls, before[:subfiles], before[subfiles:])


def unpack(form: struct.Struct, body: memoryview) -> tuple[Any, ...]:
    """Return the values of a body of this form, or raise `Malformed` if its length is another."""
    if len(body) != form.size:
        raise Malformed(f"a body of {len(body)} bytes where {form.size} are expected", fatal=False)
    values: tuple[Any, ...] = form.unpack(body)
    return values
