"""The interface of the listener's protocol to the disk, its failures, and its answers.

The disk is an interface (`Subfiles`), so that tests can run the protocol on files in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from sfio_emu import message_bodies
from sfio_emu.message_bodies import Entry, OpenFlag, RenameWay, Stat, StoredLayout
from sfio_emu.settings import ALL_CALLS
from sfio_emu.wire import Kind

Thread = Literal["names", "syncs"]


class CallFailed(Exception):
    """A system call failed.

    Attributes:
        call: The name of the call, one of `ALL_CALLS`.
        errno: The error number.
        handle: The handle of the open file; 0 if the call is not about one.
        done_bytes: How many bytes of the run were written before.
    """

    def __init__(self, call: str, errno: int, handle: int = 0) -> None:
        super().__init__(f"{call}: errno {errno}")
        self.handle = handle
        self.call = call
        self.errno = errno
        self.done_bytes = 0


class Subfiles(Protocol):
    """The files below the root directory of a listener.

    Paths are relative to the root. Open files have descriptors. Every method may raise
    `CallFailed`, after counting the failure.

    Attributes:
        locks: The client that holds the lock of each path.
    """

    locks: dict[str, object]

    @property
    def replaced(self) -> Container[int]:
        """The open files whose name belongs to another file now."""
        ...

    def open(self, path: str, flags: OpenFlag) -> tuple[int, bool]:
        """Open a file.

        Returns:
            Its descriptor, and whether it was created. The descriptor is negative if the file does
            not exist and the flags allow that.
        """
        ...

    def close(self, file: int) -> None:
        """Close an open file."""
        ...

    def unmake(self, file: int) -> None:
        """Delete an open file that was created by this opening, if it is still empty."""
        ...

    def create(self, path: str) -> None:
        """Create an empty file, and replace an existing one."""
        ...

    def unlink(self, path: str) -> None:
        """Delete a file."""
        ...

    def rename(self, source: str, target: str, way: RenameWay) -> None:
        """Rename a file, or give it a second name."""
        ...

    def stat(self, path: str) -> Stat:
        """Return the status of a path."""
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    def list_folder(self, path: str, after: str) -> Iterator[Entry]:
        """Yield the entries of a folder behind the name `after`, sorted by name."""
        ...

    def describe(self, file: int) -> Stat:
        """Return the status of an open file."""
        ...

    def store_layout(self, file: int, layout: StoredLayout) -> None:
        """Store layout and identity with an open file, if the file system can."""
        ...

    def truncate(self, file: int, size: int) -> None:
        """Truncate or extend an open file to `size` bytes."""
        ...

    def note_cut(self, file: int, cut: int) -> None:
        """Note that a file was truncated; `cut` is the number of the truncation.

        `sfio_emu.client.size_check` explains these numbers.
        """
        ...

    def cuts(self, file: int) -> int:
        """Return the exclusive or of the numbers of all truncations of an open file."""
        ...

    def size(self, file: int) -> int:
        """Return the size of an open file in bytes."""
        ...

    def sync(self, file: int) -> Callable[[], None]:
        """Return a function that writes the present contents of a file to the disk.

        Another thread calls it. It must be called in any case.
        """
        ...

    def write(self, file: int, piece: memoryview, offset: int) -> int:
        """Write at an offset, and return the number of bytes written."""
        ...

    def read(self, file: int, piece: memoryview, offset: int) -> int:
        """Read at an offset, and return the number of bytes read."""
        ...

    def note_rejected(self) -> None:
        """Count a message that was rejected."""
        ...

    def take_errors(self) -> Sequence[int]:
        """Return and reset the counters: failures of each of `ALL_CALLS`, and rejected messages."""
        ...


class Answer(NamedTuple):
    """An answer that has yet to be encoded.

    Attributes:
        kind: The kind of answer.
        body: The body.
        data: The data of a READ.
        checked: Whether a checksum follows the data.
        work: Returns the answer proper. If it is given, a helper thread calls it, because it may
            take long, and the other attributes do not count.
        thread: The helper thread.
    """

    kind: Kind = Kind.DONE
    body: bytes | memoryview = b""
    data: memoryview = memoryview(b"")
    checked: bool = False
    work: Callable[[], Answer] | None = None
    thread: Thread = "names"


def answered(act: Callable[[], Answer]) -> Answer:
    """Return the answer of `act`, or if a system call fails in it, the answer that reports this."""
    try:
        return act()
    except CallFailed as failure:
        return failed(failure)


def failed(failure: CallFailed, handle: int = 0, done_bytes: int = 0) -> Answer:
    """Return the answer that reports a failed system call.

    Args:
        failure: The failure.
        handle: The handle of the open file, if the failure does not have it.
        done_bytes: How many bytes of the message were written before.
    """
    body = message_bodies.FAILURE.pack(
        failure.errno, ALL_CALLS.index(failure.call), handle or failure.handle, done_bytes
    )
    return Answer(kind=Kind.FAILED, body=body)
