"""The messages of one read or write to one I/O node: pieces packed to what a message may hold, gathered when sent,
scattered when they arrive: `flushcache`, `mkbset`, `sfp_readb` and `sfp_writeb` of Gabrielyan 2007, section 2.7, figure
15."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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


class Runs:
    """The runs of a message by the rows of its body: a run each, or (`strided`: its pieces are alike) a piece each.

    Where `merge` says so, listed pieces that follow one another in a subfile become one run. `count`: of the runs,
    `sizes`: the bytes of each row; `reads` and `writes`: the message's kinds.
    """

    def __init__(self, pieces: Sequence[Piece], *, merge: bool) -> None:
        self.strided = bool(pieces) and pieces[0].alike
        self.reads, self.writes = Kind.READ, Kind.WRITE
        parts = [piece.rows() for piece in pieces]
        self._rows = (
            parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else wire.NO_RUNS
        )
        if self.strided:
            self.reads, self.writes = Kind.READ_STRIDED, Kind.WRITE_STRIDED
            self.sizes = self._rows["size"].astype(np.int64) * self._rows["number"]
            self.count = int(self._rows["number"].sum())
        else:
            if merge and len(parts) > 1:
                self._rows = _joined(self._rows)
            self.sizes, self.count = self._rows["size"].astype(np.int64), len(self._rows)
        self.total_bytes = sum([piece.size for piece in pieces])

    def encode(self, handles: Mapping[int, int], ensured: Sequence[tuple[int, int]] = ()) -> bytes:
        """The body; `ensured`: (subfile, size) that a write must at least leave, as runs of no bytes."""
        rows = len(self._rows)
        table = np.zeros(rows + len(ensured), dtype=self._rows.dtype)
        table[:rows] = self._rows
        if ensured:
            table["handle"][rows:], table["offset"][rows:] = zip(*ensured, strict=True)
            if self.strided:
                table["number"][rows:] = 1
        by_subfile = np.zeros(max(handles) + 1, dtype=np.uint32)
        by_subfile[list(handles)] = list(handles.values())
        table["handle"] = by_subfile[table["handle"]]
        return table.tobytes()

    def counts(self, body: memoryview) -> tuple[int, Integers]:
        """The calls of the disk and the bytes of each row in the answer to a READ; raises `Malformed`."""
        disk_calls, found = wire.decode_counts(body, len(self.sizes))
        counts = np.frombuffer(found, dtype="<u4").astype(np.int64)
        if (counts > self.sizes).any():
            raise Malformed("more bytes of a run than were requested", fatal=True)
        return disk_calls, counts

    def short(self, counts: Integers) -> Iterator[tuple[int, int]]:
        """Of each row that came short its subfile, and the offset where bytes are missing."""
        for row in np.flatnonzero(counts < self.sizes).tolist():
            entry = self._rows[row]
            number, inside = divmod(int(counts[row]), int(entry["size"]))
            distance = int(entry["distance"]) if self.strided else 0
            yield int(entry["handle"]), int(entry["offset"]) + number * distance + inside


def _joined(rows: Rows) -> Rows:
    """Runs that follow one another in a subfile as one."""
    meets = (rows["offset"][1:] == rows["offset"][:-1] + rows["size"][:-1]) & (
        rows["handle"][1:] == rows["handle"][:-1]
    )
    first = np.flatnonzero(np.concatenate(([True], ~meets)))
    joined = rows[first]
    joined["size"] = np.add.reduceat(rows["size"], first)
    return joined


OVERHEAD_BYTES = 64
CHECKED_VECTOR_BYTES = 4 << 10  # each piece is a call of the checksum's
SLICE_BYTES = 1 << 20  # gathered, or summed, and sent while a cache holds them


class Job:
    """A read or write on its way: its prepared requests and, of a read, where the first missing byte of the file lies.

    `due`: the subfiles that a write must make longer; `sizes`: what its answers say of them, with those of what goes
    together with it. It notes host by host how many of its messages are unanswered, so that a fault is laid to those
    whose messages it cost.
    """

    def __init__(self, memory: Bytes, prepared: tuple[Requests, Copies], layout: Layout) -> None:
        self.memory, self.layout = memory, layout
        self.requests, self.copies = prepared
        self.due: Mapping[int, int] = {}
        self.sizes, self.counters = WrittenSizes(), TransferCounters()
        self.end = NO_END
        self.fault: SfioError | None = None
        self._open: dict[str, int] = {}

    def expect(self, hosts: Iterable[str]) -> None:
        """These hosts have a share in it."""
        self._open = dict.fromkeys(hosts, 1)

    @property
    def unfinished(self) -> bool:
        """Whether a message of it is unanswered, failed, or was never made."""
        return any(self._open.values())

    def note_missing(self, subfile: int, place: int) -> None:
        """The subfile ends there."""
        self.end = min(self.end, self.layout.logical_offset(subfile, place))

    def watched(self, host: str, messages: Iterable[Message]) -> Iterator[Message]:
        """Its messages to a host, noted when they are made and when they are answered."""
        for message in messages:
            self._open[host] += 1

            def finish(body: memoryview, message: Message = message) -> None:
                if message.finish is not None:
                    message.finish(body)
                self._open[host] -= 1

            yield message._replace(finish=finish)
        if host in self._open:
            self._open[host] -= 1


def note_written(
    body: memoryview,
    ends: Sequence[tuple[int, int]],
    counters: TransferCounters,
    sizes: WrittenSizes,
) -> None:
    """Take the answer to a WRITE whose runs reach so far in each subfile, and name the subfiles in that order."""
    subfiles = list(dict.fromkeys([subfile for subfile, _ in ends]))
    written = message_bodies.decode_written(body, len(subfiles))
    counters.disk_calls += written.disk_calls
    counters.bytes_written += written.written_bytes
    sizes.note_answer(subfiles, written)
    sizes.record_end(ends)


def pack(pieces: Iterable[Piece], limit_bytes: int, *, combine: bool) -> Iterator[list[Piece]]:
    """Pieces in messages of at most `limit_bytes`, cut where needed; one run a message unless `combine`."""
    room = limit_bytes - OVERHEAD_BYTES
    message: list[Piece] = []
    left = room
    for whole in pieces:
        rest = whole
        for piece in [rest] if combine else _single_runs(rest):
            rest = piece
            if message and rest.alike != message[-1].alike:  # all rows of a message have one form
                yield message
                message, left = [], room
            while True:
                count = rest.fitting(left)
                if not (count or message):  # a run that no message holds
                    rest = rest.listed()
                    count = rest.fitting(left)
                if count:
                    message.append(rest if count == rest.size else rest.slice(0, count))
                    left -= message[-1].cost_bytes
                if count < rest.size or left <= 0 or not combine:
                    yield message
                    message, left = [], room
                if count == rest.size:
                    break
                rest = rest.slice(count, rest.size)
    if message:
        yield message


def _single_runs(piece: Piece) -> Iterator[Piece]:
    place = 0
    piece = piece.listed()
    for size in piece.rows()["size"].tolist():
        yield piece.slice(place, place + size)
        place += size


class HostTransfer(NamedTuple):
    """What the messages of one read or write to one I/O node share.

    `handles`: those of the subfiles by number, `link`: the connection, with memory for gathered data. `merge`: join
    runs where pieces meet; `combine`: several runs in a message; `checked`: the data carry a checksum, for which small
    vectors are too many.
    """

    job: Job
    handles: Mapping[int, int]
    link: Link
    merge: bool
    combine: bool
    checked: bool

    def writes(self, pieces: Iterable[Piece], limit_bytes: int) -> Iterator[Message]:
        """The messages of a write; the last one also makes the subfiles as long as they must be."""
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
            (number, due[number]) for number in reached if due.get(number, 0) > reached[number]
        ]
        if waiting or ensured:
            yield self.write(waiting, ensured)

    def write(self, pieces: Sequence[Piece], ensured: Sequence[tuple[int, int]] = ()) -> Message:
        """A WRITE of the pieces, whose data are gathered when it is sent; `ensured` as in `Runs.encode`."""
        runs, job = Runs(pieces, merge=self.merge), self.job
        ends = [*((piece.subfile, piece.bounds[1]) for piece in pieces), *ensured]
        return Message(
            runs.writes, runs.encode(self.handles, ensured), data_bytes=runs.total_bytes,
            finish=lambda body: note_written(body, ends, job.counters, job.sizes),
            data=(lambda: self._gathered(pieces, runs)) if pieces else None,
        )  # fmt: skip

    def reads(self, pieces: Iterable[Piece], limit_bytes: int) -> Iterator[Message]:
        """The messages of a read."""
        return map(self.read, pack(pieces, limit_bytes, combine=self.combine))

    def read(self, pieces: Sequence[Piece]) -> Message:
        """A READ of the pieces, scattered as its answer arrives."""
        runs, job = Runs(pieces, merge=self.merge), self.job

        def places(body: memoryview) -> tuple[int, Iterator[Slice]]:
            _, counts = runs.counts(body)
            return int(counts.sum()), self._scattered(pieces, runs, counts)

        def finish(body: memoryview) -> None:
            disk_calls, counts = runs.counts(body)
            self._count(pieces, runs)
            job.counters.disk_calls += disk_calls
            present = int(counts.sum())
            job.counters.bytes_read += present
            for subfile, offset in runs.short(counts) if present < runs.total_bytes else ():
                job.note_missing(subfile, offset)

        return Message(runs.reads, runs.encode(self.handles), places=places, finish=finish)

    def _count(self, pieces: Sequence[Piece], runs: Runs) -> None:
        self.job.counters.fragments += sum(piece.fragments for piece in pieces)
        self.job.counters.requests += runs.count

    def _in_place(self, pieces: Sequence[Piece]) -> bool:
        """Whether the pieces' own memory is sent or filled, without a copy."""
        least_bytes = CHECKED_VECTOR_BYTES if self.checked else VECTOR_BYTES
        return all(piece.fragment_bytes >= least_bytes for piece in pieces)

    def _gathered(self, pieces: Sequence[Piece], runs: Runs) -> Iterator[Slice]:
        """The data of a WRITE, slice by slice."""
        self._count(pieces, runs)
        in_place, memory = self._in_place(pieces), self.job.memory
        for parts, count in slices(pieces, runs.total_bytes):
            if in_place:
                yield [view for piece in parts for view in piece.vectors(memory)]
                continue
            stream = self.link.stage(count)
            place = 0
            for piece in parts:
                piece.gather(memory, stream[place : place + piece.size])
                place += piece.size
            yield [stream.data]

    def _scattered(self, pieces: Sequence[Piece], runs: Runs, counts: Integers) -> Iterator[Slice]:
        """Places for the data of a READ, slice by slice; each is full when the next is requested."""
        size, memory = int(counts.sum()), self.job.memory
        if size < runs.total_bytes:
            stream = np.empty(size, dtype=np.uint8)
            yield [stream.data]
            _scatter_present(pieces, memory, stream, runs.sizes.tolist(), counts.tolist())
            return
        in_place = self._in_place(pieces)
        for parts, count in slices(pieces, size):
            if in_place:
                yield [view for piece in parts for view in piece.vectors(memory)]
                continue
            stream = self.link.stage(count)
            yield [stream.data]
            place = 0
            for piece in parts:
                piece.scatter(memory, stream[place : place + piece.size])
                place += piece.size


def slices(pieces: Sequence[Piece], size: int) -> Iterator[tuple[Sequence[Piece], int]]:
    """The pieces cut so that the parts can be copied while the cache holds them: parts, and their bytes."""
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
                start, room = start + count, room - count
            if not (count and room):
                yield parts, SLICE_BYTES - room
                parts, room = [], SLICE_BYTES
    if parts:
        yield parts, SLICE_BYTES - room


def _scatter_present(
    pieces: Sequence[Piece],
    memory: Bytes,
    stream: Bytes,
    sizes: Sequence[int],
    counts: Sequence[int],
) -> None:
    """Put what arrived of the runs (`counts` of their `sizes`) in its places; where they came short, memory stays as it
    was."""
    present: list[list[int]] = []  # stretches: where in the runs, where in the stream, bytes
    place = arrived = 0
    for size, count in zip(sizes, counts, strict=True):
        if present and present[-1][0] + present[-1][2] == place:
            present[-1][2] += count
        elif count:
            present.append([place, arrived, count])
        place, arrived = place + size, arrived + count
    place = 0
    for piece in pieces:
        for first, there, count in present:
            start, end = max(first, place), min(first + count, place + piece.size)
            if start < end:
                piece.slice(start - place, end - place).scatter(
                    memory, stream[there + start - first : there + end - first]
                )
        place += piece.size
