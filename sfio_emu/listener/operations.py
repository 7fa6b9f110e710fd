"""What a request does to the subfiles of a listener, and the answer to it.
The disk is a port (`Subfiles`), so that everything here runs on files in memory as well."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from sfio_emu import message_bodies
from sfio_emu.listener.pool import BufferPool
from sfio_emu.listener.ports import Answer, CallFailed, Subfiles, answered
from sfio_emu.listener.reader import Request
from sfio_emu.listener.subfile_io import Moves
from sfio_emu.message_bodies import LIST_ENTRY, StoredLayout, encode_entry
from sfio_emu.wire import WRITES, Kind, Malformed

Operation = Callable[[Request], Answer]

MAX_HANDLES = 4096
MAX_LOCKS = 64
MAX_ENTRY_BYTES = LIST_ENTRY.size + 255


class Operations(Moves):
    """The requests of one client carried out on `subfiles`.

    A call of the operating system that fails makes an answer of kind FAILED; a request that makes no sense raises
    `Malformed`.
    """

    def __init__(self, subfiles: Subfiles, pool: BufferPool, *, sieve: bool) -> None:
        super().__init__(subfiles, pool, sieve=sieve)
        self._next_handle = 1
        self._by_kind: dict[int, Operation] = {
            Kind.OPEN: self._open, Kind.CLOSE: self._close, Kind.CREATE: _named(subfiles.create),
            Kind.UNLINK: _named(subfiles.unlink), Kind.RESIZE: self._resize, Kind.SIZE: self._size,
            Kind.WRITE: self.write, Kind.READ: self.read, Kind.ERRORS: self._errors, Kind.STAT: self._stat,
            Kind.LIST: self._list, Kind.RENAME: self._rename, Kind.SYNC: self._sync, Kind.LAYOUT: self._layout,
            Kind.UNMAKE: self._unmake, Kind.WRITE_STRIDED: self.write, Kind.READ_STRIDED: self.read,
            Kind.LOCK: self._lock, Kind.MKDIR: _named(subfiles.make_folder), Kind.RMDIR: _named(subfiles.remove_folder),
        }  # fmt: skip

    def execute(self, request: Request) -> Answer:
        """Carry out a request that has arrived whole. Raises `Malformed`."""
        header = request.header
        operation = self._by_kind.get(header.kind)
        if operation is None or (header.kind not in WRITES and header.data_bytes):
            raise Malformed(f"a message of kind {header.kind} that no listener takes", fatal=False)
        return answered(partial(operation, request))

    def close_files(self) -> None:
        """Close all that is open; the client is gone."""
        for file in self._files.values():
            try:
                self._subfiles.close(file)
            except CallFailed:  # counted where it happened; nobody is left who could be answered
                continue
        self._files.clear()
        for path in [path for path, owner in self._subfiles.locks.items() if owner is self]:
            del self._subfiles.locks[path]

    def _named_file(self, request: Request) -> int:
        """The file of a request whose body is its handle."""
        return self._file(message_bodies.unpack(message_bodies.HANDLE, request.body)[0])

    # --- names and open files --------------------------------------------------------------------------------------

    def _open(self, request: Request) -> Answer:
        path, flags = message_bodies.decode_open(request.body)
        if len(self._files) >= MAX_HANDLES:
            raise Malformed(f"more than {MAX_HANDLES} subfiles open at once", fatal=False)
        file, created = self._subfiles.open(path, flags)
        if file < 0:
            return Answer(body=message_bodies.NOT_THERE.encode())
        try:
            found = self._subfiles.describe(file)
        except CallFailed:
            self._subfiles.close(file)
            raise
        handle, self._next_handle = self._next_handle, self._next_handle % 0xFFFFFFFF + 1
        self._files[handle] = file
        opened = message_bodies.Opened(handle, created, found.size, found.device, found.inode, found.layout)
        return Answer(body=opened.encode())

    def _close(self, request: Request) -> Answer:
        (handle,) = message_bodies.unpack(message_bodies.HANDLE, request.body)
        with suppress(CallFailed):  # it is closed also where it was replaced
            self._file(handle)
        self._subfiles.close(self._files.pop(handle))
        return Answer()

    def _unmake(self, request: Request) -> Answer:
        self._subfiles.unmake(self._named_file(request))
        return Answer()

    def _lock(self, request: Request) -> Answer:
        """Give a client the lock of a name, unless somebody has it (also itself: a session has threads), or end it."""
        take, path = bytes(request.body[:1]) == b"\1", message_bodies.decode_path(request.body[1:])
        locks, granted = self._subfiles.locks, False
        if not take and locks.get(path) is self:
            del locks[path]
        elif take and path not in locks:
            if sum(owner is self for owner in locks.values()) >= MAX_LOCKS:
                raise Malformed(f"more than {MAX_LOCKS} names locked at once", fatal=False)
            locks[path], granted = self, True
        return Answer(body=message_bodies.LOCK_ANSWER.pack(granted))

    def _rename(self, request: Request) -> Answer:
        (replace,), source, target = message_bodies.decode_pair(message_bodies.RENAME, request.body)
        self._subfiles.rename(source, target, replace=bool(replace))
        return Answer()

    def _stat(self, request: Request) -> Answer:
        return Answer(body=self._subfiles.stat(message_bodies.decode_path(request.body)).encode())

    def _list(self, request: Request) -> Answer:
        _, after, path = message_bodies.decode_pair(message_bodies.LIST, request.body)
        return Answer(work=partial(answered, partial(self._page, path, after)))

    def _page(self, path: str, after: str) -> Answer:
        """As many names of a folder behind `after` as an answer takes; for another thread, and longer than a turn."""
        parts, left = [b"\0"], min(message_bodies.MAX_LIST_BYTES, self._pool.buffer_bytes)
        for entry in self._subfiles.list_folder(path, after):
            parts.append(encode_entry(entry))
            left -= len(parts[-1])
            if left < MAX_ENTRY_BYTES:
                parts[0] = b"\1"
                break
        return Answer(body=b"".join(parts))

    def _layout(self, request: Request) -> Answer:
        handle, *layout = message_bodies.unpack(message_bodies.LAYOUT, request.body)
        file = self._file(handle)
        self._subfiles.store_layout(file, StoredLayout(*layout))
        return Answer(body=message_bodies.LAYOUT_ANSWER.pack(*self._subfiles.describe(file).layout))

    def _resize(self, request: Request) -> Answer:
        handle, size, cut = message_bodies.unpack(message_bodies.RESIZE, request.body)
        file = self._file(handle)
        self._subfiles.note_cut(file, cut)
        self._subfiles.truncate(file, size)
        return Answer()

    def _size(self, request: Request) -> Answer:
        return Answer(body=message_bodies.SIZE_ANSWER.pack(self._subfiles.size(self._named_file(request))))

    def _sync(self, request: Request) -> Answer:
        sync = self._subfiles.sync(self._named_file(request))

        def work() -> Answer:
            sync()
            return Answer()

        return Answer(work=partial(answered, work), thread="syncs")

    def _errors(self, request: Request) -> Answer:
        return Answer(body=message_bodies.ERRORS_ANSWER.pack(*self._subfiles.take_errors()))


def _named(act: Callable[[str], None]) -> Operation:
    """An operation whose body is a path."""

    def carry_out(request: Request) -> Answer:
        act(message_bodies.decode_path(request.body))
        return Answer()

    return carry_out
