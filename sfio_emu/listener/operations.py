"""What a request does to the subfiles of a listener, and the answer to it.
The disk is a port (`Subfiles`), so that everything here runs on files in memory as well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sfio_emu import bodies, wire
from sfio_emu.bodies import Entry, OpenFlag, Stat, StoredLayout
from sfio_emu.listener.pool import BufferPool
from sfio_emu.listener.reader import Chunk, LongWrite, Request
from sfio_emu.listener.sieves import Integers, RegularWindow, Window, parts_of
from sfio_emu.settings import ALL_CALLS
from sfio_emu.wire import Kind, Malformed

MAX_HANDLES = 4096
SLICE_BYTES = 256 << 10  # of a streamed answer: read, summed and sent while the cache of a processor holds them
SLICES_A_PART = 8  # between two heads
MANY_RUNS = 256


class CallFailed(Exception):
    """A call of the operating system failed (`done_bytes`: of its run, what was written before): which of `ALL_CALLS`, and its errno."""

    def __init__(self, call: str, errno: int) -> None:
        super().__init__(f"{call}: errno {errno}")
        self.call = call
        self.errno = errno
        self.done_bytes = 0


class FileSync(Protocol):
    """A file that is to be brought to the medium, by any thread: `key` says which file it is; `close` it in any case."""

    key: Hashable

    def run(self) -> None:
        """Raises `CallFailed`."""
        ...

    def close(self) -> None: ...


class Subfiles(Protocol):
    """The files below the root of a listener; every method raises `CallFailed` (and counts it)."""

    def open(self, path: str, flags: OpenFlag) -> tuple[int, bool]: ...
    def close(self, file: int) -> None: ...
    def unmake(self, file: int) -> None: ...
    def create(self, path: str, cut: int) -> None: ...
    def unlink(self, path: str) -> None: ...
    def rename(self, source: str, target: str, *, replace: bool) -> None: ...
    def stat(self, path: str) -> Stat: ...
    def list_folder(self, path: str, after: str, most: int) -> tuple[Sequence[Entry], bool]: ...
    def describe(self, file: int) -> Stat: ...
    def store_layout(self, file: int, layout: StoredLayout) -> None: ...
    def truncate(self, file: int, size: int) -> None: ...
    def note_cut(self, file: int, cut: int) -> None: ...
    def cuts(self, file: int) -> int: ...
    def size(self, file: int) -> int: ...
    def sync(self, file: int) -> FileSync: ...
    def write(self, file: int, piece: memoryview, offset: int) -> int: ...
    def read(self, file: int, piece: memoryview, offset: int) -> int: ...
    def take_errors(self) -> Sequence[int]: ...


class Answer(NamedTuple):
    """An answer to be encoded: its body, and of a READ the `data_bytes` of its data, followed by their checksum if `checked`.

    `parts`: what a streamed READ is answered with instead, each made when the one before has been sent: answers without their data, and
    the data of the last of them in slices. `syncs`: files (by handle) to be synced elsewhere before there is an answer.
    """

    kind: Kind = Kind.DONE
    body: bytes | memoryview = b""
    data: Sequence[memoryview] = ()
    data_bytes: int = 0
    checked: bool = False
    parts: Iterator[Answer | memoryview] | None = None
    syncs: Sequence[tuple[int, FileSync]] = ()


class Rejections:
    """How many messages a listener has refused since it was last asked."""

    def __init__(self) -> None:
        self.count = 0

    def take(self) -> int:
        """The number so far; counting begins anew."""
        count, self.count = self.count, 0
        return count


@dataclass(kw_only=True, slots=True)
class _LongWriteProgress:
    """A LongWrite under way: its file, what of it is done, its files, how they were before, and the call that failed."""

    handle: int
    file: int
    ensured: Sequence[tuple[int, int]]
    files: Sequence[int]
    sizes: Sequence[int] = ()
    cuts: Sequence[int] = ()
    calls: int = 0
    done_bytes: int = 0
    failure: CallFailed | None = None


class Operations:
    """The requests of one client carried out on `subfiles`, among them the files it has open (by handle).

    A call of the operating system that fails makes an answer of kind FAILED; a request that makes no sense raises
    `Malformed`.
    """

    def __init__(self, subfiles: Subfiles, pool: BufferPool, rejections: Rejections, *, sieve: bool) -> None:
        self._subfiles, self._pool, self._rejections, self._sieve = subfiles, pool, rejections, sieve
        self._files: dict[int, int] = {}
        self._next_handle = 1
        self._long: _LongWriteProgress | None = None
        self._by_kind: dict[int, Callable[[Request], Answer]] = {
            Kind.OPEN: self._open, Kind.CLOSE: self._close, Kind.CREATE: self._create,
            Kind.UNLINK: self._unlink, Kind.RESIZE: self._resize, Kind.SIZE: self._size, Kind.WRITE: self._write,
            Kind.READ: self._read, Kind.ERRORS: self._errors, Kind.STAT: self._stat, Kind.LIST: self._list,
            Kind.RENAME: self._rename, Kind.SYNC: self._sync, Kind.LAYOUT: self._layout, Kind.UNMAKE: self._unmake,
        }  # fmt: skip

    def execute(self, request: Request) -> Answer:
        """Carry out a request that has arrived whole. Raises `Malformed`."""
        header = request.header
        operation = self._by_kind.get(header.kind)
        if operation is None or (header.kind != Kind.WRITE and header.data_bytes):
            raise Malformed(f"a message of kind {header.kind} that no listener takes", fatal=False)
        try:
            return operation(request)
        except CallFailed as failure:
            return failed(failure)

    def begin_long_write(self, write: LongWrite) -> None:
        """Prepare for the chunks of a long write. Raises `Malformed`, fatal because the chunks follow all the same."""
        try:
            files = self._files_of([write.handle, *(handle for handle, _ in write.ensured)])
        except Malformed as fault:
            raise Malformed(str(fault), fatal=True) from None
        progress = self._long = _LongWriteProgress(
            handle=write.handle, file=files[write.handle], files=list(files.values()),
            ensured=[(files[handle], size) for handle, size in write.ensured],
        )  # fmt: skip
        try:
            progress.sizes, progress.cuts = self._before(progress.files)
        except CallFailed as failure:
            progress.failure = failure

    def write_chunk(self, chunk: Chunk) -> Answer | None:
        """Write the next chunk, unless a call has failed already; the answer when it was the last."""
        progress = self._long
        assert progress is not None
        try:
            if progress.failure is None:
                progress.calls += self._write_run(progress.file, chunk.data, chunk.offset)
                progress.done_bytes += len(chunk.data)
                for file, size in progress.ensured if chunk.last else ():
                    progress.calls += self._write_run(file, memoryview(b""), size)
        except CallFailed as failure:
            progress.failure = failure
            progress.done_bytes += failure.done_bytes
        if not chunk.last:
            return None
        self._long = None
        if progress.failure is not None:
            return failed(progress.failure, progress.handle, progress.done_bytes)
        torn = any(self._subfiles.cuts(file) != cut for file, cut in zip(progress.files, progress.cuts, strict=True))
        return _written(progress.done_bytes, progress.calls, progress.sizes, progress.cuts, torn=torn)

    def close_files(self) -> None:
        """Close all that is open; the client is gone."""
        for file in self._files.values():
            try:
                self._subfiles.close(file)
            except CallFailed:  # counted where it happened; nobody is left who could be answered
                continue
        self._files.clear()

    def _file(self, handle: int) -> int:
        try:
            return self._files[handle]
        except KeyError:
            raise Malformed(f"handle {handle} is not open", fatal=False) from None

    def _files_of(self, handles: Sequence[int]) -> dict[int, int]:
        """The files by handle, in the order in which they are first named."""
        return {handle: self._file(handle) for handle in dict.fromkeys(handles)}

    # --- names and open files --------------------------------------------------------------------------------------

    def _open(self, request: Request) -> Answer:
        path, flags, layout = bodies.decode_open(request.body)
        if len(self._files) >= MAX_HANDLES:
            raise Malformed(f"more than {MAX_HANDLES} subfiles open at once", fatal=False)
        file, created = self._subfiles.open(path, flags)
        try:
            found = self._subfiles.describe(file)
            if layout and not found.layout and not flags & OpenFlag.READ_ONLY:
                self._subfiles.store_layout(file, layout)
                found = self._subfiles.describe(file)
        except CallFailed:
            self._subfiles.close(file)
            raise
        handle, self._next_handle = self._next_handle, self._next_handle % 0xFFFFFFFF + 1
        self._files[handle] = file
        opened = bodies.Opened(
            handle=handle, created=created, size=found.size, device=found.device, inode=found.inode, layout=found.layout
        )
        return Answer(body=opened.encode())

    def _close(self, request: Request) -> Answer:
        (handle,) = bodies.unpack(bodies.HANDLE, request.body)
        file = self._file(handle)
        del self._files[handle]
        self._subfiles.close(file)
        return Answer()

    def _unmake(self, request: Request) -> Answer:
        (handle,) = bodies.unpack(bodies.HANDLE, request.body)
        self._subfiles.unmake(self._file(handle))
        return Answer()

    def _create(self, request: Request) -> Answer:
        self._subfiles.create(*bodies.decode_create(request.body))
        return Answer()

    def _unlink(self, request: Request) -> Answer:
        self._subfiles.unlink(bodies.decode_path(request.body))
        return Answer()

    def _rename(self, request: Request) -> Answer:
        (replace,), source, target = bodies.decode_pair(bodies.RENAME, request.body)
        self._subfiles.rename(source, target, replace=bool(replace))
        return Answer()

    def _stat(self, request: Request) -> Answer:
        return Answer(body=self._subfiles.stat(bodies.decode_path(request.body)).encode())

    def _list(self, request: Request) -> Answer:
        _, after, path = bodies.decode_pair(bodies.LIST, request.body)
        most = max(1, min(bodies.MAX_LIST_BYTES, self._pool.buffer_bytes) // 300)
        entries, more = self._subfiles.list_folder(path, after, most)
        return Answer(body=bodies.encode_entries(entries, more=more))

    def _layout(self, request: Request) -> Answer:
        handle, *layout = bodies.unpack(bodies.LAYOUT, request.body)
        self._subfiles.store_layout(self._file(handle), StoredLayout(*layout))
        return Answer()

    def _resize(self, request: Request) -> Answer:
        handle, size, cut = bodies.unpack(bodies.RESIZE, request.body)
        file = self._file(handle)
        self._subfiles.note_cut(file, cut)
        self._subfiles.truncate(file, size)
        return Answer()

    def _size(self, request: Request) -> Answer:
        (handle,) = bodies.unpack(bodies.HANDLE, request.body)
        return Answer(body=bodies.SIZE_ANSWER.pack(self._subfiles.size(self._file(handle))))

    def _sync(self, request: Request) -> Answer:
        syncs: list[tuple[int, FileSync]] = []
        for handle, file in self._files_of(bodies.decode_handles(request.body)).items():
            try:
                syncs.append((handle, self._subfiles.sync(file)))
            except CallFailed as failure:
                for _, sync in syncs:
                    sync.close()
                return failed(failure, handle)
        return Answer(syncs=syncs)

    def _errors(self, request: Request) -> Answer:
        return Answer(body=bodies.ERRORS_ANSWER.pack(*self._subfiles.take_errors(), self._rejections.take()))

    # --- writing -------------------------------------------------------------------------------------------------

    def _write(self, request: Request) -> Answer:
        parts = parts_of(request.body, together=self._sieve)
        if sum([size for _, size, _, _ in parts]) != len(request.data):
            raise Malformed("the runs of a write do not add up to its data", fatal=False)
        files = self._files_of([handle for handle, _, _, _ in parts])
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
        return _written(done_bytes, disk_calls, sizes, cuts)

    def _before(self, files: Collection[int]) -> tuple[list[int], list[int]]:
        """How long the files are, and which truncations they have been through."""
        return [self._subfiles.size(file) for file in files], [self._subfiles.cuts(file) for file in files]

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
            piece, offset, calls, done_bytes = piece[count:], offset + count, calls + 1, done_bytes + count
        return calls

    def _write_window(self, file: int, data: memoryview, window: Window | RegularWindow) -> int:
        """Write runs that lie near one another as one span; what lies between them is read before. Returns the calls."""
        span = self._pool.scratch[: window.high - window.low]
        there, calls = self._read_run(file, span, window.low)
        span[len(there) :] = bytes(len(span) - len(there))
        window.scatter(data, span)
        return calls + self._write_run(file, span, window.low)

    # --- reading -------------------------------------------------------------------------------------------------

    def _read(self, request: Request) -> Answer:
        """Read the runs into the buffer that the request lay in, and encode how many bytes of each there were."""
        if request.header.streamed:
            return self._read_in_parts(request)
        runs = len(request.body) // wire.RUN_BYTES
        parts = parts_of(request.body, together=self._sieve)
        wanted = sum([size for _, size, _, _ in parts])
        if wanted + 4 * (runs + 1) + wire.TRAILER.size > self._pool.buffer_bytes:
            raise Malformed(f"a read of {wanted} bytes in {runs} runs, more than a message holds", fatal=False)
        files = self._files_of([handle for handle, _, _, _ in parts])
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
        body: bytes | memoryview = wire.READ_DONE.pack(disk_calls) + b"".join(counts)
        if runs > MANY_RUNS:  # an answer that waits to be sent holds nothing but its buffer
            room = request.buffer[place : place + len(body)]
            room[:] = body
            body = room
        return Answer(body=body, data=(request.buffer[:place],), data_bytes=place, checked=request.header.checked)

    def _read_in_parts(self, request: Request) -> Answer:
        """Read one run that no buffer need hold, part by part."""
        run, *others = wire.decode_runs(request.body)
        handle, size, offset = run
        if others or size > wire.MAX_LIMIT:
            raise Malformed(
                f"a streamed read of {size} bytes and {len(others)} more runs: one of a size that may be", fatal=False
            )
        file = self._file(handle)
        size = max(0, min(size, self._subfiles.size(file) - offset))
        run = handle, size, offset
        return Answer(parts=self._parts(run, request.buffer, checked=request.header.checked))

    def _parts(self, run: tuple[int, int, int], buffer: memoryview, *, checked: bool) -> Iterator[Answer | memoryview]:
        """The PARTs of a run, zeros behind the place where the file ends meanwhile or fails, and the answer that says so."""
        handle, size, offset = run
        file, calls, failure = self._files[handle], 0, None
        present = None  # where the file turned out to end
        body = wire.READ_DONE.pack(0) + wire.encode_counts([size])
        place = offset
        slice_bytes = min(SLICE_BYTES, len(buffer) // wire.PAGE_BYTES * wire.PAGE_BYTES)
        left = 0
        for count in wire.block_sizes(offset, size, slice_bytes):
            if not left:
                left = min(SLICES_A_PART * slice_bytes - place % wire.PAGE_BYTES, offset + size - place)
                yield Answer(kind=Kind.PART, body=body, data_bytes=left, checked=checked)
            left -= count
            piece = buffer[:count]
            there = 0
            if present is None:
                try:
                    got, more = self._read_run(file, piece, place)
                    there, calls = len(got), calls + more
                except CallFailed as fault:
                    failure = fault
            if there < count:
                present = place + there if present is None else present
                piece[there:] = bytes(count - there)
            yield piece
            place += count
        if failure is not None:
            yield failed(failure, handle)
            return
        count = size if present is None else present - offset
        yield Answer(body=wire.READ_DONE.pack(max(calls, 1)) + wire.encode_counts([count]))

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

    def _read_window(self, file: int, room: memoryview, window: Window | RegularWindow) -> tuple[Integers, int]:
        """Read the runs of a window; the bytes of each that the file has, and the calls it took."""
        span = self._pool.scratch[: window.high - window.low]
        there, calls = self._read_run(file, span, window.low)
        window.gather(span, room)
        return window.counts(len(there)), calls


def failed(failure: CallFailed, handle: int = 0, done_bytes: int = 0) -> Answer:
    """The answer that names a call that failed."""
    body = bodies.FAILURE.pack(failure.errno, ALL_CALLS.index(failure.call), handle, done_bytes)
    return Answer(kind=Kind.FAILED, body=body)


def _written(done_bytes: int, calls: int, sizes: Sequence[int], cuts: Sequence[int], *, torn: bool = False) -> Answer:
    return Answer(body=bodies.Written(done_bytes, calls, torn, tuple(sizes), tuple(cuts)).encode())


__all__ = ["Answer", "CallFailed", "FileSync", "Operations", "Rejections", "Subfiles", "failed"]
