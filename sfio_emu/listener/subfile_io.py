"""Reads and writes of subfiles: lists of runs, or strided runs; many small runs near one another by spans."""

import errno
from collections.abc import Collection, Sequence

import numpy as np

from sfio_emu import message_bodies, wire
from sfio_emu.listener.data_sieving import Integers, Part, Window, parts_of, strided_parts
from sfio_emu.listener.pool import BufferPool
from sfio_emu.listener.ports import Answer, CallFailed, Subfiles, failed
from sfio_emu.listener.reader import Request
from sfio_emu.wire import Kind, Malformed

MANY_RUNS = 256


class Moves:
    """Reads and writes of one client, with the files that it has open (by handle).

    Where a call of the operating system fails the answer is of kind FAILED, or `CallFailed` is raised where nothing was
    done yet; a request that makes no sense raises `Malformed`.
    """

    def __init__(self, subfiles: Subfiles, pool: BufferPool, *, sieve: bool) -> None:
        self._subfiles, self._pool, self._sieve = subfiles, pool, sieve
        self._files: dict[int, int] = {}

    def _file(self, handle: int) -> int:
        try:
            file = self._files[handle]
        except KeyError:
            raise Malformed(f"handle {handle} is not open", fatal=False) from None
        if file in self._subfiles.replaced:
            raise CallFailed("open", errno.ESTALE, handle)
        return file

    def _files_of(self, parts: Sequence[Part]) -> dict[int, int]:
        """The files by handle, in the order in which they are first named."""
        return {handle: self._file(handle) for handle in dict.fromkeys([part[0] for part in parts])}

    def write(self, request: Request) -> Answer:
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
        return Answer(body=message_bodies.Written(done_bytes, disk_calls, tuple(sizes), tuple(cuts)).encode())

    def _parts_of(self, request: Request) -> tuple[list[Part], list[int] | None]:
        """What is moved, and of strided runs with which part each begins."""
        if request.header.kind not in (Kind.READ_STRIDED, Kind.WRITE_STRIDED):
            return parts_of(request.body, together=self._sieve), None
        return strided_parts(wire.decode_strided(request.body, self._pool.buffer_bytes), together=self._sieve)

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

    def _write_window(self, file: int, data: memoryview, window: Window) -> int:
        """Write runs that lie near one another as one span; what is between them is read before. Returns the calls."""
        span = self._pool.scratch[: window.high - window.low]
        there, calls = self._read_run(file, span, window.low)
        span[len(there) :] = bytes(len(span) - len(there))
        window.scatter(data, span)
        return calls + self._write_run(file, span, window.low)

    def read(self, request: Request) -> Answer:
        """Read the runs into the buffer that the request lay in, and encode how many bytes of each there were."""
        parts, firsts = self._parts_of(request)
        runs = len(request.body) // wire.RUN_BYTES if firsts is None else len(firsts)
        required = sum([size for _, size, _, _ in parts])
        if required + 4 * (runs + 1) + wire.TRAILER.size > self._pool.buffer_bytes:
            raise Malformed(f"a read of {required} bytes in {runs} runs, more than a message holds", fatal=False)
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
    return np.add.reduceat(np.frombuffer(listed, dtype="<u4"), firsts, dtype=np.uint32).astype("<u4").tobytes()
