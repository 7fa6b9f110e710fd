"""What the listener's side of the protocol is given and gives back: the disk (a port, so that all of it runs on files
in memory as well), the failure of one of its calls, and an answer that is still to be encoded."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from sfio_emu import message_bodies
from sfio_emu.message_bodies import Entry, OpenFlag, RenameWay, Stat, StoredLayout
from sfio_emu.settings import ALL_CALLS
from sfio_emu.wire import Kind

Thread = Literal["names", "syncs"]


class CallFailed(Exception):
    """A call of the operating system failed (`done_bytes`: of its run, what was written before): which of `ALL_CALLS`,
    and its errno (`handle`: of which open file)."""

    def __init__(self, call: str, errno: int, handle: int = 0) -> None:
        super().__init__(f"{call}: errno {errno}")
        self.handle = handle
        self.call = call
        self.errno = errno
        self.done_bytes = 0


class Subfiles(Protocol):
    """The files below the root of a listener; every method raises `CallFailed` (and counts it). `replaced`: open files
    whose name another file has got since; `locks`: who of all clients has which name for itself."""

    locks: dict[str, object]

    @property
    def replaced(self) -> Container[int]: ...

    def open(self, path: str, flags: OpenFlag) -> tuple[int, bool]: ...
    def close(self, file: int) -> None: ...
    def unmake(self, file: int) -> None: ...
    def create(self, path: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def rename(self, source: str, target: str, way: RenameWay) -> None: ...
    def stat(self, path: str) -> Stat: ...
    def make_folder(self, path: str) -> None: ...
    def remove_folder(self, path: str) -> None: ...
    def list_folder(self, path: str, after: str) -> Iterator[Entry]: ...
    def describe(self, file: int) -> Stat: ...
    def store_layout(self, file: int, layout: StoredLayout) -> None: ...
    def truncate(self, file: int, size: int) -> None: ...
    def note_cut(self, file: int, cut: int) -> None: ...
    def cuts(self, file: int) -> int: ...
    def size(self, file: int) -> int: ...
    def sync(self, file: int) -> Callable[[], None]:
        """What brings a file to the medium as it is now, in another thread; to be called in any case."""
        ...

    def write(self, file: int, piece: memoryview, offset: int) -> int: ...
    def read(self, file: int, piece: memoryview, offset: int) -> int: ...
    def note_rejected(self) -> None: ...
    def take_errors(self) -> Sequence[int]:
        """Failed calls in the order of `ALL_CALLS` and rejected messages, since the last query."""
        ...


class Answer(NamedTuple):
    """An answer to be encoded: its body, and of a READ its data, followed by their checksum if `checked`.

    `work`: what gives the answer, elsewhere, in the `thread` of that name.
    """

    kind: Kind = Kind.DONE
    body: bytes | memoryview = b""
    data: memoryview = memoryview(b"")
    checked: bool = False
    work: Callable[[], Answer] | None = None
    thread: Thread = "names"


def answered(act: Callable[[], Answer]) -> Answer:
    """The answer that `act` gives, or the one that names the call that failed in it."""
    try:
        return act()
    except CallFailed as failure:
        return failed(failure)


def failed(failure: CallFailed, handle: int = 0, done_bytes: int = 0) -> Answer:
    """The answer that names a call that failed."""
    body = message_bodies.FAILURE.pack(
        failure.errno, ALL_CALLS.index(failure.call), handle or failure.handle, done_bytes
    )
    return Answer(kind=Kind.FAILED, body=body)
