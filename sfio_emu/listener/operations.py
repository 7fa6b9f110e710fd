"""What a request does to the subfiles of a listener, and the answer to it: names, open files, and reads and writes of
lists of runs, or strided runs; many small runs near one another by spans.
The disk is a port (`Subfiles`), so that everything here runs on files in memory as well."""

import errno
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from sfio_emu import message_bodies, wire
from sfio_emu.listener.data_sieving import Integers, Part, Window, parts_of, strided_parts
from sfio_emu.listener.ports import Answer, CallFailed, Subfiles, answered, failed
from sfio_emu.listener.reader import BufferPool, Request
from sfio_emu.message_bodies import LIST_ENTRY, RenameWay, StoredLayout, encode_entry
from sfio_emu.wire import WRITES, Kind, Malformed

Operation = Callable[[Request], Answer]

MANY_RUNS = 256
MAX_HANDLES = 4096
MAX_LOCKS = 64
MAX_ENTRY_BYTES = LIST_ENTRY.size + 255


class Operations:
    """The requests of one client carried out on `subfiles`, with the files that it has open (by handle).

    A call of the operating system that fails makes an answer of kind FAILED; a request that makes no sense raises
    `Malformed`.
    """

    def __init__(self, subfiles: Subfiles, pool: BufferPool, *, sieve: bool) -> None:
        self._subfiles, self._pool, self._sieve = subfiles, pool, sieve
        self._files: dict[int, int] = {}
        self._next_handle = 1
        self._by_kind: dict[int, Operation] = {
            Kind.OPEN: self._open, Kind.CLOSE: self._close, Kind.CREATE: _named(subfiles.create),
            Kind.UNLINK: _named(subfiles.unlink), Kind.RESIZE: self._resize, Kind.SIZE: self._size,
            Kind.WRITE: self._write, Kind.READ: self._read, Kind.ERRORS: self._errors, Kind.STAT: self._stat,
            Kind.LIST: self._list, Kind.RENAME: self._rename, Kind.SYNC: self._sync, Kind.LAYOUT: self._layout,
            Kind.UNMAKE: self._unmake, Kind.WRITE_STRIDED: self._write, Kind.READ_STRIDED: self._read,
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

    def _file(self, handle: int) -> int:
        try:
            file = self._files[handle]
        except KeyError:
            raise Malformed(f"handle {handle} is not open", fatal=False) from None
        if file in self._subfiles.replaced:
            raise CallFailed("open", errno.ESTALE, handle)
        return file

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
        opened = message_bodies.Opened(
            handle, created, found.size, found.device, found.inode, found.layout
        )
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
        (way,), source, target = message_bodies.decode_pair(message_bodies.RENAME, request.body)
        if way not in tuple(RenameWay):
            raise Malformed(f"a rename in the unknown way {way}", fatal=False)
        self._subfiles.rename(source, target, RenameWay(way))
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
        return Answer(
            body=message_bodies.SIZE_ANSWER.pack(self._subfiles.size(self._named_file(request)))
        )

    def _sync(self, request: Request) -> Answer:
        sync = self._subfiles.sync(self._named_file(request))

        def work() -> Answer:
            sync()
            return Answer()

        return Answer(work=partial(answered, work), thread="syncs")

    def _errors(self, request: Request) -> Answer:
        return Answer(body=message_bodies.ERRORS_ANSWER.pack(*self._subfiles.take_errors()))

    # --- reads and writes ---------------------------------------------------------------------------------------------

    def _files_of(self, parts: Sequence[Part]) -> dict[int, int]:
        """The files by handle, in the order in which they are first named."""
        return {handle: self._file(handle) for handle in dict.fromkeys([part[0] for part in parts])}

    def _write(self, request: Request) -> Answer:
        """Write the runs of a message that has arrived whole."""
        parts, _ = self._parts_of(request)
        if sum([size for _, size, _, _ in parts]) != len(request.data):
            raise Malformed("the runs of a write do not add up to its data", fatal=False)
        files = self._files_of(parts)
        sizes, cuts = self._before(files.values())
        failures: dict[int, CallFailed] = {}
        place = done_bytes = disk_calls = 0
        for handle, size, offset, window in parts:
            piece = request.data[place : place + size]
            place += size
            if handle in failures:
                continue
            try:
                if window is None:
                    disk_calls += self._write_run(files[handle], piece, offset)
                else:
                    disk_calls += self._write_window(files[handle], piece, window)
                done_bytes += size
            except CallFailed as failure:
                failures[handle] = failure
                done_bytes += failure.done_bytes if window is None else 0
        if failures:
            handle, first = next(iter(failures.items()))
            return failed(first, handle, done_bytes)
        return Answer(
            body=message_bodies.Written(done_bytes, disk_calls, tuple(sizes), tuple(cuts)).encode()
        )

    def _parts_of(self, request: Request) -> tuple[list[Part], list[int] | None]:
        """What is moved, and of strided runs with which part each begins."""
        if request.header.kind not in (Kind.READ_STRIDED, Kind.WRITE_STRIDED):
            return parts_of(request.body, together=self._sieve), None
        return strided_parts(
            wire.decode_strided(request.body, self._pool.buffer_bytes), together=self._sieve
        )

    def _before(self, files: Collection[int]) -> tuple[list[int], list[int]]:
        """How long the files are, and which truncations they have been through."""
        return [self._subfiles.size(file) for file in files], [
            self._subfiles.cuts(file) for file in files
        ]

    def _write_run(self, file: int, piece: memoryview, offset: int) -> int:
        """Write a run; one of no bytes makes the subfile at least `offset` long. Returns the calls it took."""
        if not len(piece):
            if self._subfiles.size(file) < offset:
                self._subfiles.truncate(file, offset)
            return 1
        calls = done_bytes = 0
        while len(piece):
            try:
                count = self._subfiles.write(file, piece, offset)
            except CallFailed as failure:
                failure.done_bytes = done_bytes
                raise
            piece, offset, calls, done_bytes = (
                piece[count:],
                offset + count,
                calls + 1,
                done_bytes + count,
            )
        return calls

    def _write_window(self, file: int, data: memoryview, window: Window) -> int:
        """Write runs that lie near one another as one span; what is between them is read before. Returns the calls."""
        span = self._pool.scratch[: window.high - window.low]
        there, calls = self._read_run(file, span, window.low)
        span[len(there) :] = bytes(len(span) - len(there))
        window.scatter(data, span)
        return calls + self._write_run(file, span, window.low)

    def _read(self, request: Request) -> Answer:
        """Read the runs into the buffer that the request lay in, and encode how many bytes of each there were."""
        parts, firsts = self._parts_of(request)
        runs = len(request.body) // wire.RUN_BYTES if firsts is None else len(firsts)
        required = sum([size for _, size, _, _ in parts])
        if required + 4 * (runs + 1) + wire.TRAILER.size > self._pool.buffer_bytes:
            raise Malformed(
                f"a read of {required} bytes in {runs} runs, more than a message holds", fatal=False
            )
        files = self._files_of(parts)
        counts: list[bytes] = []
        place = disk_calls = 0
        for handle, size, offset, window in parts:
            room = request.buffer[place : place + size]
            try:
                if window is not None:
                    present, calls = self._read_window(files[handle], room, window)
                    counts.append(present.astype("<u4").tobytes())
                    place += int(present.sum())
                else:
                    there, calls = self._read_run(files[handle], room, offset)
                    counts.append(wire.encode_counts((len(there),)))
                    place += len(there)
            except CallFailed as failure:
                return failed(failure, handle)
            disk_calls += calls
        body: bytes | memoryview = wire.READ_DONE.pack(disk_calls) + _by_run(counts, firsts)
        if runs > MANY_RUNS:  # an answer that waits to be sent holds nothing but its buffer
            room = request.buffer[place : place + len(body)]
            room[:] = body
            body = room
        return Answer(body=body, data=request.buffer[:place], checked=request.header.checked)

    def _read_run(self, file: int, room: memoryview, offset: int) -> tuple[memoryview, int]:
        """What the file has of a run, and the calls it took."""
        count = calls = 0
        while count < len(room):
            more = self._subfiles.read(file, room[count:], offset + count)
            calls += 1
            if not more:
                break
            count += more
        return room[:count], calls

    def _read_window(self, file: int, room: memoryview, window: Window) -> tuple[Integers, int]:
        """Read the runs of a window; the bytes of each that the file has, and the calls it took."""
        span = self._pool.scratch[: window.high - window.low]
        there, calls = self._read_run(file, span, window.low)
        window.gather(span, room)
        return window.counts(len(there)), calls


def _by_run(counts: Sequence[bytes], firsts: Sequence[int] | None) -> bytes:
    """The bytes there were of each run, as an answer has them: of strided runs the sums over their blocks."""
    listed = b"".join(counts)
    if firsts is None or 4 * len(firsts) == len(listed):
        return listed
    return (
        np.add.reduceat(np.frombuffer(listed, dtype="<u4"), firsts, dtype=np.uint32)
        .astype("<u4")
        .tobytes()
    )


def _named(act: Callable[[str], None]) -> Operation:
    """An operation whose body is a path."""

    def carry_out(request: Request) -> Answer:
        act(message_bodies.decode_path(request.body))
        return Answer()

    return carry_out
