"""What a request does to the subfiles of a listener, and the answer to it.
The disk is a port (`Subfiles`), so that everything here runs on files in memory as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sfio_emu import wire
from sfio_emu.listener.pool import BufferPool
from sfio_emu.listener.reader import Chunk, LongWrite, Request
from sfio_emu.listener.sieves import Window, parts_of
from sfio_emu.settings import CALLS
from sfio_emu.wire import Kind, Malformed

MAX_HANDLES = 4096


class CallFailed(Exception):
    """A call of the operating system failed: which of `CALLS`, and its errno."""

    def __init__(self, call: str, errno: int) -> None:
        super().__init__(f"{call}: errno {errno}")
        self.call = call
        self.errno = errno


class Subfiles(Protocol):
    """The files below the root of a listener; every method raises `CallFailed` (and counts it)."""

    def open(self, path: str, *, create: bool) -> int: ...
    def close(self, file: int) -> None: ...
    def create(self, path: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def truncate(self, file: int, size: int) -> None: ...
    def size(self, file: int) -> int: ...
    def write(self, file: int, piece: memoryview, offset: int) -> int: ...
    def read(self, file: int, piece: memoryview, offset: int) -> int: ...
    def take_errors(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class FileRange:
    """`size` bytes of an open file from `offset`, which an answer has in the place of bytes."""

    file: int
    offset: int
    size: int

    def __len__(self) -> int:
        return self.size

    def after(self, count: int) -> FileRange:
        """What remains when `count` bytes are sent."""
        return FileRange(self.file, self.offset + count, self.size - count)


class Answer(NamedTuple):
    """An answer to be encoded: its body, and of a READ the `data_bytes` of its data, followed by their checksum if `checked`."""

    kind: Kind = Kind.DONE
    body: bytes = b""
    data: Sequence[memoryview | FileRange] = ()
    data_bytes: int = 0
    checked: bool = False


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
    """A LongWrite under way: its file, what of it is done, and the call that failed."""

    handle: int
    file: int
    ensured: Sequence[tuple[int, int]]
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
            Kind.HELLO: self._hello, Kind.OPEN: self._open, Kind.CLOSE: self._close, Kind.CREATE: self._create,
            Kind.UNLINK: self._unlink, Kind.RESIZE: self._resize, Kind.SIZE: self._size, Kind.WRITE: self._write,
            Kind.READ: self._read, Kind.ERRORS: self._errors,
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
            return _failed(failure)

    def begin_long_write(self, write: LongWrite) -> None:
        """Prepare for the chunks of a long write. Raises `Malformed`, fatal because the chunks follow all the same."""
        try:
            ensured = [(self._file(handle), size) for handle, size in write.ensured]
            self._long = _LongWriteProgress(handle=write.handle, file=self._file(write.handle), ensured=ensured)
        except Malformed as fault:
            raise Malformed(str(fault), fatal=True) from None

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
        if not chunk.last:
            return None
        self._long = None
        if progress.failure is not None:
            return _failed(progress.failure, progress.handle, progress.done_bytes)
        return Answer(body=wire.WRITTEN.pack(progress.done_bytes, progress.calls))

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

    def _hello(self, request: Request) -> Answer:
        return Answer(body=wire.HANDLE.pack(self._pool.buffer_bytes))

    def _open(self, request: Request) -> Answer:
        body = request.body
        if len(body) < wire.OPEN.size or len(self._files) >= MAX_HANDLES:
            raise Malformed("an open without a path, or one too many", fatal=False)
        file = self._subfiles.open(_path(body[wire.OPEN.size :]), create=bool(body[0] & 1))
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._files[handle] = file
        return Answer(body=wire.OPENED.pack(handle, self._subfiles.size(file)))

    def _close(self, request: Request) -> Answer:
        (handle,) = wire.unpack(wire.HANDLE, request.body)
        file = self._file(handle)
        del self._files[handle]
        self._subfiles.close(file)
        return Answer()

    def _create(self, request: Request) -> Answer:
        self._subfiles.create(_path(request.body))
        return Answer()

    def _unlink(self, request: Request) -> Answer:
        self._subfiles.unlink(_path(request.body))
        return Answer()

    def _resize(self, request: Request) -> Answer:
        handle, size = wire.unpack(wire.SIZED, request.body)
        self._subfiles.truncate(self._file(handle), size)
        return Answer()

    def _size(self, request: Request) -> Answer:
        (handle,) = wire.unpack(wire.HANDLE, request.body)
        return Answer(body=wire.SIZE.pack(self._subfiles.size(self._file(handle))))

    def _errors(self, request: Request) -> Answer:
        return Answer(body=wire.ERRORS.pack(*self._subfiles.take_errors(), self._rejections.take()))

    def _write(self, request: Request) -> Answer:
        parts = parts_of(request.body, together=self._sieve)
        if sum([size for _, size, _, _ in parts]) != len(request.data):
            raise Malformed("the runs of a write do not add up to its data", fatal=False)
        files = {handle: self._file(handle) for handle in {handle for handle, _, _, _ in parts}}
        failed: dict[int, CallFailed] = {}
        place = done_bytes = disk_calls = 0
        for handle, size, offset, window in parts:
            piece = request.data[place : place + size]
            place += size
            if handle in failed:
                continue
            try:
                if window is None:
                    disk_calls += self._write_run(files[handle], piece, offset)
                else:
                    disk_calls += self._write_window(files[handle], piece, window)
                done_bytes += size
            except CallFailed as failure:
                failed[handle] = failure
        if failed:
            handle, first = next(iter(failed.items()))
            return _failed(first, handle, done_bytes)
        return Answer(body=wire.WRITTEN.pack(done_bytes, disk_calls))

    def _write_run(self, file: int, piece: memoryview, offset: int) -> int:
        """Write a run; one of no bytes makes the subfile at least `offset` long. Returns the calls it took."""
        if not len(piece):
            if self._subfiles.size(file) < offset:
                self._subfiles.truncate(file, offset)
            return 1
        calls = 0
        while len(piece):
            count = self._subfiles.write(file, piece, offset)
            piece, offset, calls = piece[count:], offset + count, calls + 1
        return calls

    def _write_window(self, file: int, data: memoryview, window: Window) -> int:
        """Write runs that lie near one another as one span; what lies between them is read before. Returns the calls."""
        span = self._pool.scratch[: window.high - window.low]
        there, calls = self._read_run(file, span, window.low)
        span[len(there) :] = bytes(len(span) - len(there))
        window.scatter(data, span)
        return calls + self._write_run(file, span, window.low)

    def _read(self, request: Request) -> Answer:
        """Read the runs into the buffer that the request lay in, except those that go from the file to the network."""
        runs = len(request.body) // wire.RUN_BYTES
        parts = parts_of(request.body, together=self._sieve)
        total = sum([size for _, size, _, _ in parts])
        if total > wire.MAX_DATA_BYTES:
            raise Malformed(f"a read of {total} bytes in {runs} runs, more than an answer can hold", fatal=False)
        checked = request.header.checked
        in_buffer = [
            window is not None or wire.needs_buffer(Kind.READ, size, checked=checked) for _, size, _, window in parts
        ]
        wanted = sum([size for (_, size, _, _), buffered in zip(parts, in_buffer, strict=True) if buffered])
        if wanted + 4 * (runs + 2) > self._pool.buffer_bytes:
            raise Malformed(f"a read of {wanted} bytes in {runs} runs, more than a message holds", fatal=False)
        files = {handle: self._file(handle) for handle in {handle for handle, _, _, _ in parts}}
        data: list[memoryview | FileRange] = []
        counts: list[int] = []
        place = disk_calls = 0
        for (handle, size, offset, window), buffered in zip(parts, in_buffer, strict=True):
            file, room = files[handle], request.buffer[place : place + size] if buffered else request.buffer[:0]
            part: memoryview | FileRange
            try:
                if window is not None:
                    part, calls, present = self._read_window(file, room, window)
                    counts += present
                elif buffered:
                    part, calls = self._read_run(file, room, offset)
                    counts.append(len(part))
                else:
                    part, calls = FileRange(file, offset, max(0, min(size, self._subfiles.size(file) - offset))), 1
                    counts.append(part.size)
            except CallFailed as failure:
                return _failed(failure, handle)
            place += len(part) if buffered else 0
            disk_calls += calls
            data.append(part)
        body = wire.READ_DONE.pack(disk_calls) + wire.encode_counts(counts)
        return Answer(body=body, data=data, data_bytes=sum(counts), checked=checked)

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

    def _read_window(self, file: int, room: memoryview, window: Window) -> tuple[memoryview, int, list[int]]:
        """What the file has of runs that lie near one another, the calls it took, the bytes of each run."""
        span = self._pool.scratch[: window.high - window.low]
        there, calls = self._read_run(file, span, window.low)
        window.gather(span, room)
        counts = window.counts(len(there))
        return room[: sum(counts)], calls, counts


def _failed(failure: CallFailed, handle: int = 0, done_bytes: int = 0) -> Answer:
    body = wire.FAILURE.pack(failure.errno, CALLS.index(failure.call), handle, done_bytes)
    return Answer(kind=Kind.FAILED, body=body)


def _path(body: memoryview) -> str:
    try:
        return bytes(body).decode("utf-8", "surrogateescape")
    except UnicodeDecodeError:
        raise Malformed("a path that is no text", fatal=False) from None


__all__ = ["Answer", "CallFailed", "FileRange", "Operations", "Rejections", "Subfiles"]
