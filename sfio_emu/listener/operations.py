"""Carries out the requests of a client on the subfiles of a listener, and creates the answers.

The requests concern names, open files, and reads and writes of runs.
"""

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

# The answer to a read of more runs than this is put into the buffer of the request, so that an
# answer which waits to be sent takes no further memory.
MANY_RUNS = 256

# The maximum numbers of open subfiles and of locks of one client.
MAX_HANDLES = 4096
MAX_LOCKS = 64

# The largest entry in the answer to LIST. File systems have no longer names than 255 bytes.
MAX_ENTRY_BYTES = LIST_ENTRY.size + 255


class Operations:
    """Carries out the requests of one client, and has the files that it has open.

    If a system call fails, the answer is of kind FAILED. A request that makes no sense raises
    `Malformed`.

    Args:
        subfiles: The files that the client can use.
        pool: The message buffers.
        sieve: Transfer many small runs that are close to one another as one span.
    """

    def __init__(self, subfiles: Subfiles, pool: BufferPool, *, sieve: bool) -> None:
        self._subfiles = subfiles
        self._pool = pool
        self._sieve = sieve

        # The descriptor of each open file, by its handle.
        self._files: dict[int, int] = {}
        self._next_handle = 1
        self._by_kind: dict[int, Operation] = {
            Kind.OPEN: self._open,
            Kind.CLOSE: self._close,
            Kind.CREATE: _on_path(subfiles.create),
            Kind.UNLINK: _on_path(subfiles.unlink),
            Kind.RESIZE: self._resize,
            Kind.SIZE: self._size,
            Kind.WRITE: self._write,
            Kind.READ: self._read,
            Kind.ERRORS: self._errors,
            Kind.STAT: self._stat,
            Kind.LIST: self._list,
            Kind.RENAME: self._rename,
            Kind.SYNC: self._sync,
            Kind.LAYOUT: self._layout,
            Kind.UNMAKE: self._unmake,
            Kind.WRITE_STRIDED: self._write,
            Kind.READ_STRIDED: self._read,
            Kind.LOCK: self._lock,
            Kind.MKDIR: _on_path(subfiles.make_folder),
            Kind.RMDIR: _on_path(subfiles.remove_folder),
        }

    def execute(self, request: Request) -> Answer:
        """Carry out a request that has arrived completely, or raise `Malformed`."""
        header = request.header
        operation = self._by_kind.get(header.kind)
        if operation is None or (header.kind not in WRITES and header.data_bytes):
            raise Malformed(
                f"a message of kind {header.kind} that no listener accepts", fatal=False
            )
        return answered(partial(operation, request))

    def close_files(self) -> None:
        """Close all open files and release all locks, because the client is disconnected."""
        for file in self._files.values():
            # The failure is counted where it happens, and no client can be told.
            with suppress(CallFailed):
                self._subfiles.close(file)
        self._files.clear()
        locks = self._subfiles.locks
        my_paths = [path for path, owner in locks.items() if owner is self]
        for path in my_paths:
            del locks[path]

    def _file(self, handle: int) -> int:
        """Return the descriptor of an open file.

        Raises:
            Malformed: The handle is not open.
            CallFailed: The name of the file belongs to another file now (ESTALE).
        """
        try:
            file = self._files[handle]
        except KeyError:
            raise Malformed(f"handle {handle} is not open", fatal=False) from None
        if file in self._subfiles.replaced:
            raise CallFailed("open", errno.ESTALE, handle)
        return file

    def _file_of(self, request: Request) -> int:
        """Return the file of a request whose body is a handle."""
        return self._file(message_bodies.unpack(message_bodies.HANDLE, request.body)[0])

    # --- names and open files --------------------------------------------------------------------

    def _open(self, request: Request) -> Answer:
        path, flags = message_bodies.decode_open(request.body)
        if len(self._files) >= MAX_HANDLES:
            raise Malformed(f"more than {MAX_HANDLES} subfiles open at once", fatal=False)
        file, created = self._subfiles.open(path, flags)
        if file < 0:
            return Answer(body=message_bodies.NOT_THERE.encode())
        try:
            status = self._subfiles.describe(file)
        except CallFailed:
            self._subfiles.close(file)
            raise
        handle = self._next_handle
        # Handles are 32-bit numbers other than 0.
        self._next_handle = handle % 0xFFFFFFFF + 1
        self._files[handle] = file
        opened = message_bodies.Opened(
            handle, created, status.size, status.device, status.inode, status.layout
        )
        return Answer(body=opened.encode())

    def _close(self, request: Request) -> Answer:
        (handle,) = message_bodies.unpack(message_bodies.HANDLE, request.body)
        # A file whose name belongs to another file now can also be closed.
        with suppress(CallFailed):
            self._file(handle)
        self._subfiles.close(self._files.pop(handle))
        return Answer()

    def _unmake(self, request: Request) -> Answer:
        self._subfiles.unmake(self._file_of(request))
        return Answer()

    def _lock(self, request: Request) -> Answer:
        """Take the lock of a path, or release it, and answer whether the lock was granted.

        It is not granted if a client has it, even the same one, whose threads may compete for it.
        """
        take = bytes(request.body[:1]) == b"\1"
        path = message_bodies.decode_path(request.body[1:])
        locks = self._subfiles.locks
        granted = False
        if not take and locks.get(path) is self:
            del locks[path]
        elif take and path not in locks:
            my_locks = [owner for owner in locks.values() if owner is self]
            if len(my_locks) >= MAX_LOCKS:
                raise Malformed(f"more than {MAX_LOCKS} names locked at once", fatal=False)
            locks[path] = self
            granted = True
        return Answer(body=message_bodies.LOCK_ANSWER.pack(granted))

    def _rename(self, request: Request) -> Answer:
        (way,), source, target = message_bodies.decode_pair(message_bodies.RENAME, request.body)
        if way not in tuple(RenameWay):
            raise Malformed(f"a rename with the unknown option {way}", fatal=False)
        self._subfiles.rename(source, target, RenameWay(way))
        return Answer()

    def _stat(self, request: Request) -> Answer:
        return Answer(body=self._subfiles.stat(message_bodies.decode_path(request.body)).encode())

    def _list(self, request: Request) -> Answer:
        _, after, path = message_bodies.decode_pair(message_bodies.LIST, request.body)
        return Answer(work=partial(answered, partial(self._page, path, after)))

    def _page(self, path: str, after: str) -> Answer:
        """Return as many entries of a folder as fit into an answer. A helper thread calls this.

        Args:
            path: The folder.
            after: The name behind which the page begins.
        """
        entries = []
        left = min(message_bodies.MAX_LIST_BYTES, self._pool.buffer_bytes)
        more = b"\0"
        for entry in self._subfiles.list_folder(path, after):
            entries.append(encode_entry(entry))
            left -= len(entries[-1])
            if left < MAX_ENTRY_BYTES:
                more = b"\1"
                break
        return Answer(body=b"".join([more, *entries]))

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
        size = self._subfiles.size(self._file_of(request))
        return Answer(body=message_bodies.SIZE_ANSWER.pack(size))

    def _sync(self, request: Request) -> Answer:
        sync = self._subfiles.sync(self._file_of(request))

        def work() -> Answer:
            sync()
            return Answer()

        return Answer(work=partial(answered, work), thread="syncs")

    def _errors(self, request: Request) -> Answer:
        return Answer(body=message_bodies.ERRORS_ANSWER.pack(*self._subfiles.take_errors()))

    # --- reads and writes ------------------------------------------------------------------------

    def _files_of(self, parts: Sequence[Part]) -> dict[int, int]:
        """Return the files of the parts by handle, in the order of their first part."""
        handles = dict.fromkeys([handle for handle, _, _, _ in parts])
        return {handle: self._file(handle) for handle in handles}

    def _write(self, request: Request) -> Answer:
        """Write the runs of a message.

        If a system call fails, further runs of the same file are not written; those of other files
        are.
        """
        parts, _ = self._parts_of(request)
        if sum(size for _, size, _, _ in parts) != len(request.data):
            raise Malformed(
                "the sizes of the runs of a write do not add up to that of its data", fatal=False
            )
        files = self._files_of(parts)
        sizes, cuts = self._before(files.values())
        failures: dict[int, CallFailed] = {}
        position = 0
        done_bytes = 0
        disk_calls = 0
        for handle, size, offset, window in parts:
            piece = request.data[position : position + size]
            position += size
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
                if window is None:
                    done_bytes += failure.done_bytes
        if failures:
            handle, first_failure = next(iter(failures.items()))
            return failed(first_failure, handle, done_bytes)
        written = message_bodies.Written(done_bytes, disk_calls, tuple(sizes), tuple(cuts))
        return Answer(body=written.encode())

    def _parts_of(self, request: Request) -> tuple[list[Part], list[int] | None]:
        """Return the parts of a read or write.

        Returns:
            The parts, and for strided runs the index of the first block of each (`strided_parts`),
            otherwise None.
        """
        if request.header.kind not in (Kind.READ_STRIDED, Kind.WRITE_STRIDED):
            return parts_of(request.body, together=self._sieve), None
        strided_runs = wire.decode_strided(request.body, self._pool.buffer_bytes)
        return strided_parts(strided_runs, together=self._sieve)

    def _before(self, files: Collection[int]) -> tuple[list[int], list[int]]:
        """Return the sizes of files in bytes, and their truncations (`Subfiles.cuts`)."""
        sizes = [self._subfiles.size(file) for file in files]
        cuts = [self._subfiles.cuts(file) for file in files]
        return sizes, cuts

    def _write_run(self, file: int, piece: memoryview, offset: int) -> int:
        """Write a run, and return the number of system calls.

        A run of no bytes extends the file to at least `offset` bytes.
        """
        if not len(piece):
            if self._subfiles.size(file) < offset:
                self._subfiles.truncate(file, offset)
            return 1
        calls = 0
        done_bytes = 0
        while done_bytes < len(piece):
            try:
                done_bytes += self._subfiles.write(file, piece[done_bytes:], offset + done_bytes)
            except CallFailed as failure:
                failure.done_bytes = done_bytes
                raise
            calls += 1
        return calls

    def _write_window(self, file: int, data: memoryview, window: Window) -> int:
        """Write the runs of a window as one span, and return the number of system calls.

        The span is read first, to preserve the bytes between the runs.
        """
        span = self._pool.scratch[: window.high - window.low]
        present, calls = self._read_run(file, span, window.low)
        span[len(present) :] = bytes(len(span) - len(present))
        window.scatter(data, span)
        return calls + self._write_run(file, span, window.low)

    def _read(self, request: Request) -> Answer:
        """Read the runs of a message into the buffer of the request."""
        parts, first_blocks = self._parts_of(request)
        if first_blocks is None:
            run_count = len(request.body) // wire.RUN_BYTES
        else:
            run_count = len(first_blocks)
        required = sum(size for _, size, _, _ in parts)
        if required + 4 * (run_count + 1) + wire.TRAILER.size > self._pool.buffer_bytes:
            raise Malformed(
                f"a read of {required} bytes in {run_count} runs, more than fits into a message",
                fatal=False,
            )
        files = self._files_of(parts)
        counts: list[bytes] = []
        position = 0
        disk_calls = 0
        for handle, size, offset, window in parts:
            room = request.buffer[position : position + size]
            try:
                if window is not None:
                    present, calls = self._read_window(files[handle], room, window)
                    counts.append(present.astype("<u4").tobytes())
                    position += int(present.sum())
                else:
                    run, calls = self._read_run(files[handle], room, offset)
                    counts.append(wire.encode_counts((len(run),)))
                    position += len(run)
            except CallFailed as failure:
                return failed(failure, handle)
            disk_calls += calls
        body: bytes | memoryview = wire.READ_DONE.pack(disk_calls) + _by_run(counts, first_blocks)
        if run_count > MANY_RUNS:
            room = request.buffer[position : position + len(body)]
            room[:] = body
            body = room
        return Answer(body=body, data=request.buffer[:position], checked=request.header.checked)

    def _read_run(self, file: int, room: memoryview, offset: int) -> tuple[memoryview, int]:
        """Read a run of `len(room)` bytes.

        Returns:
            The bytes that the file has, and the number of system calls.
        """
        done_bytes = 0
        calls = 0
        while done_bytes < len(room):
            count = self._subfiles.read(file, room[done_bytes:], offset + done_bytes)
            calls += 1
            if not count:
                break
            done_bytes += count
        return room[:done_bytes], calls

    def _read_window(self, file: int, room: memoryview, window: Window) -> tuple[Integers, int]:
        """Read the runs of a window as one span.

        Returns:
            The number of bytes of each run that the file has, and the number of system calls.
        """
        span = self._pool.scratch[: window.high - window.low]
        present, calls = self._read_run(file, span, window.low)
        window.gather(span, room)
        return window.counts(len(present)), calls


def _by_run(counts: Sequence[bytes], first_blocks: Sequence[int] | None) -> bytes:
    """Encode how many bytes of each run were read.

    Args:
        counts: The encoded numbers of bytes of the blocks of each part.
        first_blocks: For strided runs the index of the first block of each. Their blocks are added.
    """
    block_counts = b"".join(counts)
    if first_blocks is None or 4 * len(first_blocks) == len(block_counts):
        return block_counts
    numbers = np.frombuffer(block_counts, dtype="<u4")
    sums = np.add.reduceat(numbers, first_blocks, dtype=np.uint32)
    return sums.astype("<u4").tobytes()


def _on_path(act: Callable[[str], None]) -> Operation:
    """Return an operation that calls `act` with the path in the body."""

    def carry_out(request: Request) -> Answer:
        act(message_bodies.decode_path(request.body))
        return Answer()

    return carry_out
