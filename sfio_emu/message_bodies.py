"""The bodies of messages: what each request says, and what its answer has. Numbers are little-endian, paths UTF-8.

Names of the form X and X_ANSWER belong together; runs and counts of WRITE and READ are in `sfio_emu.wire`.
"""

import struct
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

from sfio_emu.wire import Malformed

NONCE_BYTES = 16
PROOF_BYTES = 32
MAX_PATH_BYTES = 1024
MAX_LIST_BYTES = 64 << 10

HELLO = struct.Struct(f"<{NONCE_BYTES}s")
HELLO_ANSWER = struct.Struct(f"<I?{NONCE_BYTES}s16s{PROOF_BYTES}s")
KEY = struct.Struct(f"<{PROOF_BYTES}s")
OPEN = struct.Struct("<B")
OPEN_ANSWER = struct.Struct("<I?QQQQIIQ")
HANDLE = struct.Struct("<I")
RESIZE = struct.Struct("<IQQ")
SIZE_ANSWER = struct.Struct("<Q")
WRITE_ANSWER = struct.Struct("<QI")
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
    """How a subfile is opened: made if missing, refused if there, for reading only, without an error (but with a handle
    of 0) where nothing is there."""

    CREATE = 1
    EXCLUSIVE = 2
    READ_ONLY = 4
    IF_THERE = 8


class RenameWay(IntEnum):
    """What is done about a file that has the new name already, or that the file keeps its old name beside the new
    one."""

    REFUSE = 0
    REPLACE = 1
    LINK = 2


class StoredLayout(NamedTuple):
    """What is stored with a subfile: it is number `index` of the `subfiles` of a file in units of `stripe_unit` bytes,
    which is that of the random number `file_id` (0: made before there were such).

    A stripe unit of 0: nothing is stored (`NO_LAYOUT`), or nothing can be (`UNSTORABLE`).
    """

    stripe_unit: int = 0
    index: int = 0  # type: ignore[assignment]  # tuples have a method of that name
    subfiles: int = 0
    file_id: int = 0

    def __bool__(self) -> bool:
        return self.stripe_unit > 0


NO_LAYOUT, UNSTORABLE = StoredLayout(), StoredLayout(file_id=1)


class Welcome(NamedTuple):
    """The answer to HELLO: bytes of the listener's largest message, whether it requires a key, its nonce, the machine
    it runs on (16 bytes) and its own proof that it has the key (zeros without one)."""

    limit_bytes: int
    wants_key: bool
    nonce: bytes
    machine: bytes
    proof: bytes

    def encode(self) -> bytes:
        return HELLO_ANSWER.pack(*self)

    @classmethod
    def decode(cls, body: memoryview) -> "Welcome":
        """Raises `Malformed`."""
        return cls(*unpack(HELLO_ANSWER, body))


class Opened(NamedTuple):
    """The answer to OPEN: a handle (0: nothing is there), whether the subfile was made, its size, which file it is
    (device and inode), and the layout stored with it."""

    handle: int
    created: bool
    size: int
    device: int
    inode: int
    layout: StoredLayout

    def encode(self) -> bytes:
        return OPEN_ANSWER.pack(*self[:-1], *self.layout)

    @classmethod
    def decode(cls, body: memoryview) -> "Opened":
        """Raises `Malformed`."""
        found = unpack(OPEN_ANSWER, body)
        return cls._make((*found[:-4], StoredLayout(*found[-4:])))


NOT_THERE = Opened(0, False, 0, 0, 0, NO_LAYOUT)


class Stat(NamedTuple):
    """The answer to STAT: `mode` as the operating system has it, `size` in bytes, time of the last change in
    nanoseconds, which file it is, and the layout stored with it."""

    mode: int
    size: int
    modified_ns: int
    device: int
    inode: int
    layout: StoredLayout

    def encode(self) -> bytes:
        return STAT_ANSWER.pack(*self[:-1], *self.layout)

    @classmethod
    def decode(cls, body: memoryview) -> "Stat":
        """Raises `Malformed`."""
        found = unpack(STAT_ANSWER, body)
        return cls._make((*found[:-4], StoredLayout(*found[-4:])))


class Entry(NamedTuple):
    """One name of a folder: `kind` is "file", "folder" or "other" (links, pipes), `size` that of a file in bytes."""

    name: str
    kind: str
    size: int


ENTRY_KINDS = ("other", "file", "folder")


def encode_path(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def decode_path(body: memoryview | bytes) -> str:
    """Raises `Malformed` for a path that is no text, or too long."""
    if len(body) > MAX_PATH_BYTES:
        raise Malformed(
            f"a path of {len(body)} bytes where {MAX_PATH_BYTES} are allowed", fatal=False
        )
    return bytes(body).decode("utf-8", "surrogateescape")


def encode_open(path: str, flags: OpenFlag = OpenFlag.CREATE) -> bytes:
    """The body of OPEN."""
    return OPEN.pack(flags) + encode_path(path)


def decode_open(body: memoryview) -> tuple[str, OpenFlag]:
    """Raises `Malformed`."""
    if len(body) <= OPEN.size:
        raise Malformed("an open without a path", fatal=False)
    if body[0] not in range(16):
        raise Malformed(f"an open with the unknown flags {body[0]}", fatal=False)
    return decode_path(body[OPEN.size :]), OpenFlag(body[0])


def encode_lock(path: str, *, take: bool) -> bytes:
    """The body of LOCK: take the lock of a path, or give it back."""
    return bytes([take]) + encode_path(path)


def encode_pair(head: bytes, first: str, second: str) -> bytes:
    """Two paths behind a head whose last number is the length of the first (LIST, RENAME)."""
    encoded = encode_path(first)
    return head + len(encoded).to_bytes(2, "little") + encoded + encode_path(second)


def decode_pair(form: struct.Struct, body: memoryview) -> tuple[tuple[int, ...], str, str]:
    """The numbers before the lengths and the two paths of such a body; raises `Malformed`."""
    if len(body) < form.size:
        raise Malformed(
            f"a body of {len(body)} bytes where at least {form.size} are due", fatal=False
        )
    *numbers, length = form.unpack(body[: form.size])
    paths = body[form.size :]
    if length > len(paths):
        raise Malformed("a path longer than its message", fatal=False)
    return tuple(numbers), decode_path(paths[:length]), decode_path(paths[length:])


def encode_entry(entry: Entry) -> bytes:
    """One name of the answer to LIST, before which stands whether names follow behind its last."""
    name = encode_path(entry.name)
    return LIST_ENTRY.pack(ENTRY_KINDS.index(entry.kind), entry.size, len(name)) + name


def decode_entries(body: memoryview) -> tuple[list[Entry], bool]:
    """The names of a page, and whether more follow; raises `Malformed`."""
    page, place, entries = bytes(body), 1, []
    try:
        while place < len(page):
            kind, size, length = LIST_ENTRY.unpack_from(page, place)
            place += LIST_ENTRY.size + length
            name = page[place - length : place].decode("utf-8", "surrogateescape")
            entries.append(Entry(name, ENTRY_KINDS[kind], size))
        if place > len(page):
            raise IndexError
    except (struct.error, IndexError):
        raise Malformed("a list of names that breaks off", fatal=True) from None
    return entries, page[:1] > b"\0"


class Written(NamedTuple):
    """The answer to WRITE: bytes, calls of the disk, and of each subfile, in the order in which the runs first name
    them, its size before in bytes and the truncations that it had been through (their numbers, exclusive or)."""

    written_bytes: int
    disk_calls: int
    sizes: tuple[int, ...]
    cuts: tuple[int, ...]

    def encode(self) -> bytes:
        head = WRITE_ANSWER.pack(self.written_bytes, self.disk_calls)
        return head + struct.pack(f"<{2 * len(self.sizes)}Q", *self.sizes, *self.cuts)


def decode_written(body: memoryview, subfiles: int) -> Written:
    """The answer to a WRITE that names `subfiles` subfiles; raises `Malformed`."""
    if len(body) != WRITE_ANSWER.size + BEFORE_BYTES * subfiles:
        raise Malformed(
            f"an answer of {len(body)} bytes to a write to {subfiles} subfiles", fatal=False
        )
    written, calls = WRITE_ANSWER.unpack_from(body)
    before = struct.unpack_from(f"<{2 * subfiles}Q", body, WRITE_ANSWER.size)
    return Written(written, calls, before[:subfiles], before[subfiles:])


def unpack(form: struct.Struct, body: memoryview) -> tuple[Any, ...]:
    """The values of a body of that form; raises `Malformed` where its length is another."""
    if len(body) != form.size:
        raise Malformed(f"a body of {len(body)} bytes where {form.size} are due", fatal=False)
    values: tuple[Any, ...] = form.unpack(body)
    return values
