"""The messages of one read or write to one I/O node.

Pieces are packed into messages as large as the limit allows. Data are gathered when they are sent,
and scattered when they arrive (`flushcache`, `mkbset`, `sfp_readb` and `sfp_writeb` of Gabrielyan
2007, section 2.7, figure 15).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sfio_emu import message_bodies, wire
from sfio_emu.client.connection import Link, Message, Slice
from sfio_emu.client.size_check import NO_END, WrittenSizes
from sfio_emu.errors import SfioError
from sfio_emu.layout.piece import VECTOR_BYTES, Bytes, Piece, Rows
from sfio_emu.layout.requests import Copies, Integers, Requests
from sfio_emu.layout.striping import Layout
from sfio_emu.settings import TransferCounters
from sfio_emu.wire import Kind, Malformed

# More than header and trailer of a message.
OVERHEAD_BYTES = 64

# With a checksum, fragments are sent and received in place from this size on, because the
# checksum function is called for each of them.
CHECKED_VECTOR_BYTES = 4 << 10

# Data are gathered (or summed) and sent in slices of this size, so that the processor's cache
# still holds a slice when it is sent.
SLICE_BYTES = 1 << 20


class Runs:
    """The runs of a message, as rows of its body.

    A row describes one run, or all runs of a piece whose runs are alike (`strided`).

    Args:
        pieces: The pieces of the message. Either all or none of them have runs that are alike.
        merge: Merge runs of listed pieces that follow one another in a subfile.

    Attributes:
        strided: Whether a row describes all runs of a piece.
        reads: The kind of message that reads these runs.
        writes: The kind of message that writes these runs.
        sizes: The number of bytes of each row.
        count: The number of runs.
        total_bytes: The number of bytes of all runs.
    """

    def __init__(self, pieces: Sequence[Piece], *, merge: bool) -> None:
        self.strided = bool(pieces) and pieces[0].alike
        self.reads = Kind.READ
        self.writes = Kind.WRITE
        self._rows = _rows_of(pieces)
        if self.strided:
            self.reads = Kind.READ_STRIDED
            self.writes = Kind.WRITE_STRIDED
            self.sizes = self._rows["size"].astype(np.int64) * self._rows["number"]
            self.count = int(self._rows["number"].sum())
        else:
            if merge and len(pieces) > 1:
                self._rows = _merge_adjacent(self._rows)
            self.sizes = self._rows["size"].astype(np.int64)
            self.count = len(self._rows)
        self.total_bytes = sum(piece.size for piece in pieces)

    def encode(self, handles: Mapping[int, int], ensured: Sequence[tuple[int, int]] = ()) -> bytes:
        """Encode the body of the message.

        Args:
            handles: The handle of each subfile.
            ensured: Subfiles and the minimum sizes in bytes that a write must give them. They
                become runs of no bytes.
        """
        row_count = len(self._rows)
        table = np.zeros(row_count + len(ensured), dtype=self._rows.dtype)
        table[:row_count] = self._rows
        if ensured:
            subfiles, sizes = zip(*ensured, strict=True)
            table["handle"][row_count:] = subfiles
            table["offset"][row_count:] = sizes
            if self.strided:
                table["number"][row_count:] = 1
        handle_by_subfile = np.zeros(max(handles) + 1, dtype=np.uint32)
        handle_by_subfile[list(handles)] = list(handles.values())
        table["handle"] = handle_by_subfile[table["handle"]]
        return table.tobytes()

    def counts(self, body: memoryview) -> tuple[int, Integers]:
        """Decode the answer to a READ of these runs.

        Returns:
            The number of disk calls, and the number of bytes read of each row.

        Raises:
            Malformed: The answer is invalid.
        """
        disk_calls, encoded_counts = wire.decode_counts(body, len(self.sizes))
        counts = np.frombuffer(encoded_counts, dtype="<u4").astype(np.int64)
        if (counts > self.sizes).any():
            raise Malformed("more bytes of a run than were requested", fatal=True)
        return disk_calls, counts

    def short(self, counts: Integers) -> Iterator[tuple[int, int]]:
        """Yield the subfile, and the offset of the first missing byte, of each incomplete row.

        Args:
            counts: The number of bytes read of each row.
        """
        for row in np.flatnonzero(counts < self.sizes).tolist():
            entry = self._rows[row]
            number, inside = divmod(int(counts[row]), int(entry["size"]))
            distance = int(entry["distance"]) if self.strided else 0
            yield int(entry["handle"]), int(entry["offset"]) + number * distance + inside


def _rows_of(pieces: Sequence[Piece]) -> Rows:
    if not pieces:
        return wire.NO_RUNS
    parts = [piece.rows() for piece in pieces]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _merge_adjacent(rows: Rows) -> Rows:
    """Merge runs that follow one another in a subfile without a gap."""
    adjacent = (rows["offset"][1:] == rows["offset"][:-1] + rows["size"][:-1]) & (
        rows["handle"][1:] == rows["handle"][:-1]
    )
    first = np.flatnonzero(np.concatenate(([True], ~adjacent)))
    merged = rows[first]
    merged["size"] = np.add.reduceat(rows["size"], first)
    return merged


class Job:
    """A read or write in progress.

    It counts its unanswered messages host by host, so that an error is attributed to those jobs
    whose messages were lost.

    Args:
        memory: The caller's memory.
        prepared: The requests, and the copies in memory to make afterwards (`prepare`).
        layout: The layout of the file.

    Attributes:
        memory: The caller's memory.
        layout: The layout of the file.
        requests: The requests.
        copies: The copies in memory to make afterwards.
        due: The subfiles that a write must extend, and the sizes that they must have.
        sizes: What the answers to a write say of the subfiles. Jobs that belong together share it.
        counters: Where the transfer is counted.
        end: The offset in the file of the first byte that a read found missing, or `NO_END`.
        fault: The error because of which it failed, or None.
    """

    def __init__(self, memory: Bytes, prepared: tuple[Requests, Copies], layout: Layout) -> None:
        self.memory = memory
        self.layout = layout
        self.requests, self.copies = prepared
        self.due: Mapping[int, int] = {}
        self.sizes = WrittenSizes()
        self.counters = TransferCounters()
        self.end = NO_END
        self.fault: SfioError | None = None

        # The number of unanswered messages, and one more until all messages have been created.
        self._open: dict[str, int] = {}

    def expect(self, hosts: Iterable[str]) -> None:
        """Set the hosts that take part in the job."""
        self._open = dict.fromkeys(hosts, 1)

    @property
    def unfinished(self) -> bool:
        """True if a message is unanswered, failed, or was never created."""
        return any(self._open.values())

    def note_missing(self, subfile: int, offset: int) -> None:
        """Record that the subfile has no byte at this offset."""
        self.end = min(self.end, self.layout.logical_offset(subfile, offset))

    def watched(self, host: str, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the job's messages to a host, counting those that are created and answered."""
        for message in messages:
            self._open[host] += 1
            yield message._replace(finish=self._counting_finish(host, message))
        if host in self._open:
            self._open[host] -= 1

    def _counting_finish(self, host: str, message: Message) -> Callable[[memoryview], None]:
        """Return a function that finishes the message and counts it as answered."""

        def finish(body: memoryview) -> None:
            if message.finish is not None:
                message.finish(body)
            self._open[host] -= 1

        return finish


def note_written(
    body: memoryview,
    ends: Sequence[tuple[int, int]],
    counters: TransferCounters,
    sizes: WrittenSizes,
) -> None:
    """Process the answer to a WRITE.

    Args:
        body: The body of the answer.
        ends: The subfile and the end of each run, in the order of the message.
        counters: Where the write is counted.
        sizes: Receives what the answer says of the subfiles.
    """
    subfiles = list(dict.fromkeys([subfile for subfile, _ in ends]))
    written = message_bodies.decode_written(body, len(subfiles))
    counters.disk_calls += written.disk_calls
    counters.bytes_written += written.written_bytes
    sizes.note_answer(subfiles, written)
    sizes.record_end(ends)


def pack(pieces: Iterable[Piece], limit_bytes: int, *, combine: bool) -> Iterator[list[Piece]]:
    """Yield the pieces of each message.

    Args:
        pieces: The pieces, which are cut if necessary.
        limit_bytes: The largest size of a message.
        combine: Put several runs into a message. Otherwise each run is a message of its own.
    """
    room = limit_bytes - OVERHEAD_BYTES
    message: list[Piece] = []
    left = room
    for piece in pieces:
        for part in [piece] if combine else _single_runs(piece):
            remaining = part
            if message and remaining.alike != message[-1].alike:
                # All rows of a message have the same form.
                yield message
                message = []
                left = room
            while True:
                count = remaining.fitting(left)
                if not (count or message):
                    # Not even an empty message has room for one of these runs: list and cut them.
                    remaining = remaining.listed()
                    count = remaining.fitting(left)
                if count:
                    message.append(
                        remaining if count == remaining.size else remaining.slice(0, count)
                    )
                    left -= message[-1].cost_bytes
                if count < remaining.size or left <= 0 or not combine:
                    yield message
                    message = []
                    left = room
                if count == remaining.size:
                    break
                remaining = remaining.slice(count, remaining.size)
    if message:
        yield message


def _single_runs(piece: Piece) -> Iterator[Piece]:
    """Yield the runs of a piece as pieces."""
    start = 0
    piece = piece.listed()
    for size in piece.rows()["size"].tolist():
        yield piece.slice(start, start + size)
        start += size


class HostTransfer(NamedTuple):
    """The common values of the messages of one read or write to one I/O node.

    Attributes:
        job: The read or write.
        handles: The handles of the subfiles on this node.
        link: The connection, with memory for gathered data.
        merge: Merge runs where pieces meet.
        combine: Put several runs into a message.
        checked: The data have a checksum.
    """

    job: Job
    handles: Mapping[int, int]
    link: Link
    merge: bool
    combine: bool
    checked: bool

    def writes(self, pieces: Iterable[Piece], limit_bytes: int) -> Iterator[Message]:
        """Yield the messages of a write.

        The last message also extends the subfiles that must be longer than the write makes them.
        For this reason, each message is yielded when the next one is known to follow.

        Args:
            pieces: The pieces to write.
            limit_bytes: The largest size of a message.
        """
        reached = dict.fromkeys(self.handles, 0)
        room = limit_bytes - wire.STRIDED_BYTES * (len(reached) + 1)
        waiting: list[Piece] = []
        for packed in pack(pieces, room, combine=self.combine):
            if waiting:
                yield self.write(waiting)
            waiting = packed
            for piece in packed:
                reached[piece.subfile] = max(reached[piece.subfile], piece.bounds[1])
        due = self.job.due
        ensured = [
            (subfile, due[subfile]) for subfile, end in reached.items() if due.get(subfile, 0) > end
        ]
        if waiting or ensured:
            yield self.write(waiting, ensured)

    def write(self, pieces: Sequence[Piece], ensured: Sequence[tuple[int, int]] = ()) -> Message:
        """Return a WRITE, whose data are gathered when it is sent.

        Args:
            pieces: The pieces to write.
            ensured: As in `Runs.encode`.
        """
        runs = Runs(pieces, merge=self.merge)
        job = self.job
        ends = [(piece.subfile, piece.bounds[1]) for piece in pieces]
        ends += ensured

        def finish(body: memoryview) -> None:
            note_written(body, ends, job.counters, job.sizes)

        def data() -> Iterator[Slice]:
            return self._gathered(pieces, runs)

        return Message(
            runs.writes,
            runs.encode(self.handles, ensured),
            data_bytes=runs.total_bytes,
            finish=finish,
            data=data if pieces else None,
        )

    def reads(self, pieces: Iterable[Piece], limit_bytes: int) -> Iterator[Message]:
        """Return the messages of a read, each of at most `limit_bytes`."""
        return map(self.read, pack(pieces, limit_bytes, combine=self.combine))

    def read(self, pieces: Sequence[Piece]) -> Message:
        """Return a READ of the pieces, whose data are scattered as they arrive."""
        runs = Runs(pieces, merge=self.merge)
        job = self.job

        def places(body: memoryview) -> tuple[int, Iterator[Slice]]:
            _, counts = runs.counts(body)
            return int(counts.sum()), self._scattered(pieces, runs, counts)

        def finish(body: memoryview) -> None:
            disk_calls, counts = runs.counts(body)
            self._count(pieces, runs)
            job.counters.disk_calls += disk_calls
            present = int(counts.sum())
            job.counters.bytes_read += present
            if present < runs.total_bytes:
                for subfile, offset in runs.short(counts):
                    job.note_missing(subfile, offset)

        return Message(runs.reads, runs.encode(self.handles), places=places, finish=finish)

    def _count(self, pieces: Sequence[Piece], runs: Runs) -> None:
        self.job.counters.fragments += sum(piece.fragments for piece in pieces)
        self.job.counters.requests += runs.count

    def _in_place(self, pieces: Sequence[Piece]) -> bool:
        """Return whether the pieces' memory is sent or filled directly, without a copy."""
        min_bytes = CHECKED_VECTOR_BYTES if self.checked else VECTOR_BYTES
        return all(piece.fragment_bytes >= min_bytes for piece in pieces)

    def _gathered(self, pieces: Sequence[Piece], runs: Runs) -> Iterator[Slice]:
        """Yield the data of a WRITE in slices."""
        self._count(pieces, runs)
        memory = self.job.memory
        in_place = self._in_place(pieces)
        for parts, count in slices(pieces, runs.total_bytes):
            if in_place:
                yield _vectors(parts, memory)
                continue
            stream = self.link.stage(count)
            start = 0
            for piece in parts:
                piece.gather(memory, stream[start : start + piece.size])
                start += piece.size
            yield [stream.data]

    def _scattered(self, pieces: Sequence[Piece], runs: Runs, counts: Integers) -> Iterator[Slice]:
        """Yield memory for the data of a READ in slices; each is full when the next is requested.

        Args:
            pieces: The pieces that are read.
            runs: Their runs.
            counts: The number of bytes that arrive of each row.
        """
        size = int(counts.sum())
        memory = self.job.memory
        if size < runs.total_bytes:
            stream = np.empty(size, dtype=np.uint8)
            yield [stream.data]
            _scatter_present(pieces, memory, stream, runs.sizes.tolist(), counts.tolist())
            return
        in_place = self._in_place(pieces)
        for parts, count in slices(pieces, size):
            if in_place:
                yield _vectors(parts, memory)
                continue
            stream = self.link.stage(count)
            yield [stream.data]
            start = 0
            for piece in parts:
                piece.scatter(memory, stream[start : start + piece.size])
                start += piece.size


def _vectors(pieces: Sequence[Piece], memory: Bytes) -> list[memoryview]:
    """Return the fragments of memory of several pieces."""
    vectors: list[memoryview] = []
    for piece in pieces:
        vectors += piece.vectors(memory)
    return vectors


def slices(pieces: Sequence[Piece], size: int) -> Iterator[tuple[Sequence[Piece], int]]:
    """Cut pieces into slices that the processor's cache holds while they are copied.

    Args:
        pieces: The pieces.
        size: The number of bytes of all pieces.

    Yields:
        The pieces of a slice, and the number of their bytes.
    """
    if size <= SLICE_BYTES:
        yield pieces, size
        return
    parts: list[Piece] = []
    room = SLICE_BYTES
    for piece in pieces:
        start = 0
        while start < piece.size:
            count = piece.grain(min(room, piece.size - start))
            if count:
                parts.append(piece if count == piece.size else piece.slice(start, start + count))
                start += count
                room -= count
            if not (count and room):
                yield parts, SLICE_BYTES - room
                parts = []
                room = SLICE_BYTES
    if parts:
        yield parts, SLICE_BYTES - room


class _Stretch(NamedTuple):
    """Consecutive bytes that a READ requested and that all arrived.

    Attributes:
        start: The position of the first byte among all requested bytes.
        arrived_at: The position of the first byte among the bytes that arrived.
        size: The number of bytes.
    """

    start: int
    arrived_at: int
    size: int


def _stretches(sizes: Sequence[int], counts: Sequence[int]) -> list[_Stretch]:
    """Return what arrived of the rows, of which `counts` of their `sizes` bytes arrived."""
    stretches: list[_Stretch] = []
    start = 0
    arrived = 0
    for size, count in zip(sizes, counts, strict=True):
        if stretches and stretches[-1].start + stretches[-1].size == start:
            last = stretches[-1]
            stretches[-1] = last._replace(size=last.size + count)
        elif count:
            stretches.append(_Stretch(start, arrived, count))
        start += size
        arrived += count
    return stretches


def _scatter_present(
    pieces: Sequence[Piece],
    memory: Bytes,
    stream: Bytes,
    sizes: Sequence[int],
    counts: Sequence[int],
) -> None:
    """Copy what arrived of incomplete rows to memory; the memory of missing bytes stays as it was.

    Args:
        pieces: The pieces that were read.
        memory: The caller's memory.
        stream: The bytes that arrived.
        sizes: The number of bytes of each row.
        counts: The number of bytes that arrived of each row.
    """
    stretches = _stretches(sizes, counts)
    piece_start = 0
    for piece in pieces:
        piece_end = piece_start + piece.size
        for stretch in stretches:
            start = max(stretch.start, piece_start)
            end = min(stretch.start + stretch.size, piece_end)
            if start < end:
                shift = stretch.arrived_at - stretch.start
                present = piece.slice(start - piece_start, end - piece_start)
                present.scatter(memory, stream[start + shift : end + shift])
        piece_start = piece_end
