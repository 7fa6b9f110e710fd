"""The listener's side of the protocol, without any I/O: bytes in, calls of the subfiles, bytes out.
One message at a time is held, in a buffer of a bounded pool; it is done whole or, if corrupted, not at all. Only a write
of one run longer than the buffer is done as it arrives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Protocol

from sfio_emu import wire
from sfio_emu.listener.sieves import WINDOW_BYTES, Window, parts_of
from sfio_emu.settings import CALLS
from sfio_emu.wire import Header, Kind, Malformed

MIN_RANGE_BYTES = 16 << 10
CHUNK_BYTES = 256 << 10
PAGE_BYTES = 4096


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


class FileRange:
    """`size` bytes of an open file from `offset` that an answer has in the place of bytes."""

    __slots__ = ("file", "offset", "size")

    def __init__(self, file: int, offset: int, size: int) -> None:
        self.file, self.offset, self.size = file, offset, size

    def __len__(self) -> int:
        return self.size

    def after(self, count: int) -> FileRange:
        """What remains when `count` bytes are sent."""
        return FileRange(self.file, self.offset + count, self.size - count)


class BufferPool:
    """Buffers of `buffer_bytes` for messages, at most `memory_bytes` in all; made when first needed, then kept."""

    def __init__(self, memory_bytes: int, buffer_bytes: int) -> None:
        if not wire.MIN_LIMIT <= buffer_bytes <= wire.MAX_LIMIT or memory_bytes < buffer_bytes:
            raise ValueError(f"{memory_bytes} bytes of memory cannot hold messages of {buffer_bytes} bytes")
        self.buffer_bytes = buffer_bytes
        self._to_make = memory_bytes // buffer_bytes
        self._free: list[memoryview] = []
        self._span: memoryview | None = None

    @property
    def span(self) -> memoryview:
        """WINDOW_BYTES for runs that are moved together, shared by all connections: for use inside one call."""
        if self._span is None:
            self._span = memoryview(bytearray(WINDOW_BYTES))
        return self._span

    def take(self) -> memoryview | None:
        """A buffer, or none where all are in use."""
        if self._free:
            return self._free.pop()
        if not self._to_make:
            return None
        self._to_make -= 1
        return memoryview(bytearray(self.buffer_bytes))

    def give_back(self, buffer: memoryview) -> None:
        self._free.append(buffer)


class Tally:
    """What a listener has rejected since it was last asked."""

    def __init__(self) -> None:
        self.rejected = 0

    def take(self) -> int:
        count, self.rejected = self.rejected, 0
        return count


class Streamed:
    """A WRITE of one long run, which is written as it arrives: what of it is done, and what went wrong with it."""

    __slots__ = ("calls", "done_bytes", "end", "ensured", "failure", "file", "handle", "offset", "sequence")

    def __init__(
        self, sequence: int, handle: int, file: int, offset: int, size: int, ensured: Sequence[tuple[int, int]]
    ) -> None:
        self.sequence, self.handle, self.file, self.ensured = sequence, handle, file, ensured
        self.offset, self.end = offset, offset + size
        self.calls = self.done_bytes = 0
        self.failure: CallFailed | None = None

    def chunk(self, largest: int) -> int:
        """How many bytes to take before they are written: up to a border of pages."""
        return min(largest - self.offset % PAGE_BYTES, self.end - self.offset)


class ServerConnection:
    """One client of a listener.

    `incoming` is where the next bytes go: empty while an answer is to be sent, and (`starved`) while no buffer of the
    pool is free. After `closed` nothing more is to be read; what `outgoing` still has may be sent. `abandon` gives
    back what is held: a message that had not arrived whole changes nothing. `sieve`: many small runs near one another are
    moved as one span (`sieves`).
    """

    MAX_HANDLES = 4096

    def __init__(self, subfiles: Subfiles, pool: BufferPool, tally: Tally, *, sieve: bool = True) -> None:
        self._subfiles, self._pool, self._tally, self._sieve = subfiles, pool, tally, sieve
        self._chunk_bytes = min(CHUNK_BYTES, pool.buffer_bytes // PAGE_BYTES * PAGE_BYTES)
        self._head = memoryview(bytearray(wire.HEADER_BYTES))
        self._arrived = 0
        self._summed = 0
        self._sum = wire.Checksum()
        self._header: Header | None = None
        self._streamed: Streamed | None = None
        self._chunk = 0
        self._buffer: memoryview | None = None
        self._outgoing: deque[memoryview | FileRange] = deque()
        self._files: dict[int, tuple[int, str]] = {}
        self._next_handle = 1
        self.closed = False
        self.starved = False
        self._work: dict[int, Callable[[Header, memoryview, memoryview], None]] = {
            Kind.HELLO: self._hello, Kind.OPEN: self._open, Kind.CLOSE: self._close, Kind.CREATE: self._create,
            Kind.UNLINK: self._unlink, Kind.RESIZE: self._resize, Kind.SIZE: self._size, Kind.WRITE: self._write,
            Kind.READ: self._read, Kind.ERRORS: self._errors,
        }  # fmt: skip

    @property
    def in_message(self) -> bool:
        """Whether a part of a message has arrived and the rest is awaited."""
        return self._arrived > 0 or self._header is not None or self._streamed is not None

    @property
    def holds_buffer(self) -> bool:
        """Whether a buffer of the pool is held."""
        return self._buffer is not None

    def incoming(self) -> Sequence[memoryview]:
        self.starved = False
        if self._outgoing or self.closed:
            return ()
        if self._header is None and self._streamed is None:
            return (self._head[self._arrived :],)
        if self._buffer is None:
            self._buffer = self._pool.take()
            if self._buffer is None:
                self.starved = True
                return ()
        return (self._buffer[self._arrived : self._chunk],)

    def received(self, count: int) -> None:
        """Take `count` more bytes that were put where `incoming` said."""
        self._arrived += count
        if self._streamed is not None:
            if self._arrived == self._chunk:
                self._write_chunk(self._streamed)
            return
        if self._header is None:
            if self._arrived < wire.HEADER_BYTES:
                return
            try:
                self._header = wire.decode_header(self._head, self._pool.buffer_bytes)
            except Malformed as fault:
                self._reject(0, fault)
                return
            self._arrived = 0
            held = self._header.total_bytes <= self._pool.buffer_bytes
            self._chunk = self._header.total_bytes if held else self._header.body_bytes
            if not self._chunk and held:
                self._finish(self._header, memoryview(b""), memoryview(b""))
            elif not self._chunk:
                self._reject(self._header.sequence, Malformed("a write without runs", fatal=True))
            return
        assert self._buffer is not None
        header = self._header
        if header.checked and header.data_bytes:
            self._sum_arrived(header, self._buffer)
        if self._arrived < self._chunk:
            return
        if self._chunk < header.total_bytes:
            self._begin_streamed(header, self._buffer[: header.body_bytes])
        else:
            data_end = header.body_bytes + header.data_bytes
            self._finish(header, self._buffer[: header.body_bytes], self._buffer[header.body_bytes : data_end])

    def _begin_streamed(self, header: Header, body: memoryview) -> None:
        """Take a WRITE that no buffer holds: one run, beside runs of no bytes."""
        self._header, self._arrived = None, 0
        try:
            wire.check_body(header, body)
            (handle, size, offset), *others = wire.decode_runs(body)
            if size != header.data_bytes or any(size for _, size, _ in others):
                raise Malformed(
                    f"a write of {header.data_bytes} bytes in several runs, more than a message holds", fatal=True
                )
            ensured = [(self._file(other), end) for other, _, end in others]
            self._streamed = Streamed(header.sequence, handle, self._file(handle), offset, size, ensured)
            self._chunk = self._streamed.chunk(self._chunk_bytes)
        except Malformed as fault:
            self._reject(header.sequence, Malformed(str(fault), fatal=True))

    def _write_chunk(self, streamed: Streamed) -> None:
        assert self._buffer is not None
        try:
            if streamed.failure is None:
                streamed.calls += self._write_run(streamed.file, self._buffer[: self._chunk], streamed.offset)
                streamed.done_bytes += self._chunk
        except CallFailed as failure:
            streamed.failure = failure
            streamed.ensured = ()
        streamed.offset += self._chunk
        self._arrived = 0
        self._chunk = streamed.chunk(self._chunk_bytes)
        self._release()
        if not self._chunk:
            self._end_streamed(streamed)

    def _end_streamed(self, streamed: Streamed) -> None:
        self._streamed = None
        try:
            for file, end in streamed.ensured:
                streamed.calls += self._write_run(file, memoryview(b""), end)
        except CallFailed as failure:
            streamed.failure = failure
        if streamed.failure is None:
            body = wire.WRITTEN.pack(streamed.done_bytes, streamed.calls)
            self._answer(Kind.DONE, streamed.sequence, body)
        else:
            self._fail(streamed.sequence, streamed.failure, streamed.handle, streamed.done_bytes)

    def _sum_arrived(self, header: Header, buffer: memoryview) -> None:
        """Add to the checksum what has arrived, while it is in the cache of the processor."""
        start = header.body_bytes + self._summed
        end = min(self._arrived, header.body_bytes + header.data_bytes)
        if self._arrived < header.total_bytes:
            end -= max(end - start, 0) % wire.FOLD_BYTES
        if end > start:
            self._sum.add(buffer[start:end])
            self._summed += end - start

    def outgoing(self) -> Sequence[memoryview | FileRange]:
        return self._outgoing

    def sent(self, count: int) -> None:
        while count:
            first = self._outgoing[0]
            if count < len(first):
                self._outgoing[0] = first.after(count) if isinstance(first, FileRange) else first[count:]
                return
            count -= len(first)
            self._outgoing.popleft()
        if not self._outgoing:
            self._release()

    def abandon(self) -> None:
        """The connection is gone: close its files, give back its buffer; an unfinished message is forgotten."""
        self.closed = True
        self._streamed = None
        self._outgoing.clear()
        self._release()
        for file, _ in self._files.values():
            try:
                self._subfiles.close(file)
            except CallFailed:  # counted where it happened; nobody is left to be told
                continue
        self._files.clear()

    def _release(self) -> None:
        if self._buffer is not None:
            self._pool.give_back(self._buffer)
            self._buffer = None

    def _reject(self, sequence: int, fault: Malformed) -> None:
        self._tally.rejected += 1
        self.closed = self.closed or fault.fatal
        self._answer(Kind.REFUSED, sequence, str(fault).encode())

    def _finish(self, header: Header, body: memoryview, data: memoryview) -> None:
        self._header, self._arrived, self._summed = None, 0, 0
        total, self._sum = self._sum, wire.Checksum()
        try:
            wire.check_body(header, body)
            if header.trailer_bytes and self._buffer is not None:
                trailer = self._buffer[header.total_bytes - header.trailer_bytes : header.total_bytes]
                if bytes(trailer) != total.trailer():
                    raise Malformed("the data of a message are corrupted", fatal=False)
            work = self._work.get(header.kind)
            if work is None or (header.kind != Kind.WRITE and header.data_bytes):
                raise Malformed(f"a message of kind {header.kind} that no listener takes", fatal=False)
            work(header, body, data)
        except Malformed as fault:
            self._reject(header.sequence, fault)
        except CallFailed as failure:
            self._fail(header.sequence, failure, 0, 0)

    def _answer(self, kind: Kind, sequence: int, body: bytes) -> None:
        self._outgoing.append(memoryview(wire.encode_header(kind, sequence, body)))
        self._release()

    def _fail(self, sequence: int, failure: CallFailed, handle: int, done_bytes: int) -> None:
        body = wire.FAILURE.pack(failure.errno, CALLS.index(failure.call), handle, done_bytes)
        self._answer(Kind.FAILED, sequence, body)

    def _file(self, handle: int) -> int:
        try:
            return self._files[handle][0]
        except KeyError:
            raise Malformed(f"handle {handle} is not open", fatal=False) from None

    def _path(self, body: memoryview) -> str:
        try:
            return bytes(body).decode("utf-8", "surrogateescape")
        except UnicodeDecodeError:
            raise Malformed("a path that is no text", fatal=False) from None

    def _hello(self, header: Header, body: memoryview, data: memoryview) -> None:
        self._answer(Kind.DONE, header.sequence, wire.HANDLE.pack(self._pool.buffer_bytes))

    def _open(self, header: Header, body: memoryview, data: memoryview) -> None:
        if len(body) < wire.OPEN.size or len(self._files) >= self.MAX_HANDLES:
            raise Malformed("an open without a path, or one too many", fatal=False)
        path = self._path(body[wire.OPEN.size :])
        file = self._subfiles.open(path, create=bool(body[0] & 1))
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._files[handle] = (file, path)
        self._answer(Kind.DONE, header.sequence, wire.OPENED.pack(handle, self._subfiles.size(file)))

    def _close(self, header: Header, body: memoryview, data: memoryview) -> None:
        (handle,) = _unpack(wire.HANDLE, body)
        file = self._file(handle)
        del self._files[handle]
        self._subfiles.close(file)
        self._answer(Kind.DONE, header.sequence, b"")

    def _create(self, header: Header, body: memoryview, data: memoryview) -> None:
        self._subfiles.create(self._path(body))
        self._answer(Kind.DONE, header.sequence, b"")

    def _unlink(self, header: Header, body: memoryview, data: memoryview) -> None:
        self._subfiles.unlink(self._path(body))
        self._answer(Kind.DONE, header.sequence, b"")

    def _resize(self, header: Header, body: memoryview, data: memoryview) -> None:
        handle, size = _unpack(wire.SIZED, body)
        self._subfiles.truncate(self._file(handle), size)
        self._answer(Kind.DONE, header.sequence, b"")

    def _size(self, header: Header, body: memoryview, data: memoryview) -> None:
        (handle,) = _unpack(wire.HANDLE, body)
        self._answer(Kind.DONE, header.sequence, wire.SIZE.pack(self._subfiles.size(self._file(handle))))

    def _write(self, header: Header, body: memoryview, data: memoryview) -> None:
        parts = parts_of(body, together=self._sieve)
        if sum([size for _, size, _, _ in parts]) != len(data):
            raise Malformed("the runs of a write do not add up to its data", fatal=False)
        files = {handle: self._file(handle) for handle in {handle for handle, _, _, _ in parts}}
        failed: dict[int, CallFailed] = {}
        place = done_bytes = disk_calls = 0
        for handle, size, offset, window in parts:
            piece = data[place : place + size]
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
            self._fail(header.sequence, first, handle, done_bytes)
        else:
            self._answer(Kind.DONE, header.sequence, wire.WRITTEN.pack(done_bytes, disk_calls))

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
        span = self._pool.span[: window.high - window.low]
        there, calls = self._read_run(file, span, window.low)
        span[len(there) :] = bytes(len(span) - len(there))
        window.scatter(data, span)
        return calls + self._write_run(file, span, window.low)

    def _read(self, header: Header, body: memoryview, data: memoryview) -> None:
        runs = len(body) // wire.RUN_BYTES
        parts = parts_of(body, together=self._sieve)
        wanted = sum([size for _, size, _, window in parts if window is not None or not self._ranged(header, size)])
        if wanted + 4 * (runs + 2) > self._pool.buffer_bytes:
            raise Malformed(f"a read of {wanted} bytes in {runs} runs, more than a message holds", fatal=False)
        files = {handle: self._file(handle) for handle in {handle for handle, _, _, _ in parts}}
        assert self._buffer is not None
        answer: list[memoryview | FileRange] = []
        counts: list[int] = []
        place = disk_calls = 0
        for handle, size, offset, window in parts:
            if window is not None:
                part, calls, present = self._read_window(files[handle], self._buffer[place : place + size], window)
                counts += present
                place += len(part)
                disk_calls += calls
                answer.append(part)
                continue
            if self._ranged(header, size):
                count = max(0, min(size, self._subfiles.size(files[handle]) - offset))
                answer.append(FileRange(files[handle], offset, count))
                disk_calls += 1
            else:
                part, calls = self._read_run(files[handle], self._buffer[place : place + size], offset)
                count = len(part)
                place += count
                disk_calls += calls
                answer.append(part)
            counts.append(count)
        self._answer_data(header, wire.READ_DONE.pack(disk_calls) + wire.encode_counts(counts), answer, sum(counts))

    def _ranged(self, header: Header, size: int) -> bool:
        """Whether a run of an answer goes from the file to the network without a buffer."""
        return size >= MIN_RANGE_BYTES and not header.checked

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
        span = self._pool.span[: window.high - window.low]
        there, calls = self._read_run(file, span, window.low)
        window.gather(span, room)
        counts = window.counts(len(there))
        return room[: sum(counts)], calls, counts

    def _answer_data(self, header: Header, body: bytes, answer: list[memoryview | FileRange], size: int) -> None:
        head = wire.encode_header(Kind.DONE, header.sequence, body, size, checked=header.checked)
        self._outgoing.append(memoryview(head))
        self._outgoing.extend(part for part in answer if len(part))
        if header.checked and size:
            total = wire.Checksum()
            for part in answer:
                assert isinstance(part, memoryview)
                total.add(part)
            self._outgoing.append(memoryview(total.trailer()))

    def _errors(self, header: Header, body: memoryview, data: memoryview) -> None:
        self._answer(Kind.DONE, header.sequence, wire.ERRORS.pack(*self._subfiles.take_errors(), self._tally.take()))


def _unpack(form: Struct, body: memoryview) -> tuple[int, ...]:
    if len(body) != form.size:
        raise Malformed(f"a body of {len(body)} bytes where {form.size} are due", fatal=False)
    values: tuple[int, ...] = form.unpack(body)
    return values


__all__ = ["BufferPool", "CallFailed", "ServerConnection", "Subfiles", "Tally"]
