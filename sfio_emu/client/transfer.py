"""The messages of one read or write to one I/O node: pieces packed to what a message may hold, gathered when sent, scattered
when they arrive: `flushcache`, `mkbset`, `sfp_readb` and `sfp_writeb` of Gabrielyan 2007, section 2.7, figure 15."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sfio_emu import bodies, wire
from sfio_emu.client.connection import Message, Slice
from sfio_emu.client.sizes import WrittenSizes
from sfio_emu.layout.block_stage import BlockStage
from sfio_emu.layout.pieces import VECTOR_BYTES, Bytes, Piece
from sfio_emu.layout.requests import Integers
from sfio_emu.settings import Counters
from sfio_emu.wire import Kind, Malformed

OVERHEAD_BYTES = 64
BLOCK_VECTOR_BYTES = 16 << 10
MANY_RUNS = 64
CHECKED_VECTOR_BYTES = 4 << 10  # each piece is a call of the checksum's
SLICE_BYTES = 1 << 20  # gathered, or summed, and sent while a cache holds them


def pack(
    pieces: Iterable[Piece],
    limit_bytes: int,
    *,
    combine: bool,
    longest_run: int = 0,
) -> Iterator[list[Piece]]:
    """Pieces in messages of at most `limit_bytes`, cut where needed; one run a message unless `combine`.

    A run that no message holds goes alone, in messages of at most `longest_run` bytes, which are streamed.
    """
    room = limit_bytes - OVERHEAD_BYTES
    message: list[Piece] = []
    left = room
    for whole in pieces:
        rest = whole
        for piece in [rest] if combine else _single_runs(rest):
            rest = piece
            while True:
                count = rest.fitting(left)
                if not message and rest.single_run and rest.size > room and longest_run > left:
                    count = rest.fitting(longest_run)
                if count:
                    message.append(rest if count == rest.size else rest.part(0, count))
                    left -= count + wire.RUN_BYTES * message[-1].run_count
                if count < rest.size or left <= 0 or not combine:
                    yield message
                    message, left = [], room
                if count == rest.size:
                    break
                rest = rest.part(count, rest.size)
    if message:
        yield message


def _single_runs(piece: Piece) -> Iterator[Piece]:
    place = 0
    for size in piece.runs()[1]:
        yield piece.part(place, place + size)
        place += size


class Stage:
    """Memory for gathering and scattering the messages of one conversation, made when first needed, used anew."""

    def __init__(self) -> None:
        self._memory = np.empty(0, dtype=np.uint8)

    def room(self, size: int) -> Bytes:
        if len(self._memory) < size:
            self._memory = np.empty(size, dtype=np.uint8)
        return self._memory[:size]


class RunList:
    """The runs of a message: pieces that follow one another in a subfile become one run.

    `offsets` and `sizes` are lists, or arrays of int64 where there are MANY_RUNS of them and more.
    """

    def __init__(self, pieces: Sequence[Piece], *, merge: bool) -> None:
        self.many = sum([piece.run_count for piece in pieces]) >= MANY_RUNS
        columns: list[tuple[int, list[int] | Integers, list[int] | Integers]] = []
        for piece in pieces:
            offsets, sizes = piece.run_arrays() if self.many else piece.runs()
            if merge and columns and columns[-1][0] == piece.subfile:
                _, before, last = columns[-1]
                if before[-1] + last[-1] == offsets[0]:
                    last[-1] += sizes[0]
                    offsets, sizes = offsets[1:], sizes[1:]
            if len(offsets):
                columns.append((piece.subfile, offsets, sizes))
        self._columns = [(subfile, len(offsets)) for subfile, offsets, _ in columns]
        self.offsets: list[int] | Integers
        self.sizes: list[int] | Integers
        if self.many:
            self.offsets = np.concatenate([offsets for _, offsets, _ in columns])
            self.sizes = np.concatenate([sizes for _, _, sizes in columns])
        else:
            self.offsets = [offset for _, offsets, _ in columns for offset in offsets]
            self.sizes = [size for _, _, sizes in columns for size in sizes]
        self.total_bytes = int(sum(piece.size for piece in pieces))

    def __len__(self) -> int:
        return len(self.sizes)

    def subfile(self, run: int) -> int:
        """The subfile of a run."""
        for subfile, count in self._columns:
            if run < count:
                return subfile
            run -= count
        raise IndexError(run)

    def encode(self, handles: Mapping[int, int], ensured: Sequence[tuple[int, int]] = ()) -> bytes:
        """The body; `ensured`: (subfile, size) that a write must at least leave, as runs of no bytes."""
        body = b""
        if self.many:
            table = np.empty(len(self), dtype=wire.RUN_TYPE)
            table["handle"] = np.repeat([handles[s] for s, _ in self._columns], [count for _, count in self._columns])
            table["size"], table["offset"] = self.sizes, self.offsets
            body = table.tobytes()
        elif len(self):
            numbers = [handles[s] for s, count in self._columns for _ in range(count)]
            body = wire.encode_runs(numbers, list(self.offsets), list(self.sizes))
        if ensured:
            body += wire.encode_runs(
                [handles[s] for s, _ in ensured], [size for _, size in ensured], [0] * len(ensured)
            )
        return body

    def counts(self, body: memoryview) -> tuple[int, Sequence[int] | Integers]:
        """The calls of the disk and the bytes of each run in the answer to a READ; raises `Malformed`."""
        disk_calls, counts = wire.decode_counts(body, len(self), as_array=self.many)
        if self.many:
            wrong = bool((counts > np.asarray(self.sizes)).any())
        else:
            wrong = any(count > size for count, size in zip(counts, self.sizes, strict=True))
        if wrong:
            raise Malformed("more bytes of a run than were asked", fatal=True)
        return disk_calls, counts

    def short(self, counts: Sequence[int] | Integers) -> Iterator[tuple[int, int]]:
        """Of each run that came short its subfile, and the offset where bytes are missing."""
        for run in np.flatnonzero(np.asarray(counts) < np.asarray(self.sizes)).tolist():
            yield self.subfile(run), int(self.offsets[run]) + int(counts[run])


class HostTransfer(NamedTuple):
    """What the messages of one read or write to one I/O node share.

    `memory` is the caller's, `handles` those of the subfiles by number, `stage` the memory for gathered data. `merge`:
    join runs where pieces meet; `checked`: the data carry a checksum, for which small vectors are too many. A message of
    more than `limit_bytes` is streamed, a write in blocks of `block_bytes`. `path` names the subfile of a handle in an
    error, `block` parts and joins one large block for all hosts together.
    """

    memory: Bytes
    handles: Mapping[int, int]
    stage: Stage
    counters: Counters
    merge: bool
    checked: bool
    path: Callable[[int], str]
    limit_bytes: int = wire.MAX_LIMIT
    block_bytes: int = wire.MAX_BLOCK_BYTES
    block: BlockStage | None = None

    def write(
        self, pieces: Sequence[Piece], ensured: Sequence[tuple[int, int]] = (), sizes: WrittenSizes | None = None
    ) -> Message:
        """A WRITE of the pieces, whose data are gathered when it is sent; `ensured` as in `RunList.encode`.

        `sizes` is told how long each subfile was before, and is now at least.
        """
        runs = RunList(pieces, merge=self.merge)
        size = runs.total_bytes
        streamed = self._streamed(runs, len(ensured))
        blocks = wire.block_sizes(int(runs.offsets[0]), size, self.block_bytes) if streamed else None

        def finish(body: memoryview) -> None:
            subfiles = list(dict.fromkeys([piece.subfile for piece in pieces] + [subfile for subfile, _ in ensured]))
            written = bodies.decode_written(body, len(subfiles))
            self.counters.disk_calls += written.disk_calls
            self.counters.bytes_written += written.written_bytes
            if sizes is not None:
                sizes.note_answer(subfiles, written)
                sizes.note_reached((piece.subfile, piece.bounds[1]) for piece in pieces)
                sizes.note_reached(ensured)

        return Message(
            Kind.WRITE, runs.encode(self.handles, ensured), data=(lambda: self._gathered(pieces, runs)) if pieces else None,
            data_bytes=size, blocks=blocks, finish=finish, path=self.path,
        )  # fmt: skip

    def _streamed(self, runs: RunList, more_runs: int = 0) -> bool:
        """Whether a message, or its answer, is longer than what a listener holds."""
        whole = runs.total_bytes + wire.RUN_BYTES * (1 + more_runs) + 2 * wire.TRAILER.size
        return len(runs) == 1 and whole > self.limit_bytes

    def read(self, pieces: Sequence[Piece], missing: Callable[[int, int], None]) -> Message:
        """A READ of the pieces, scattered as its answer arrives; `missing(subfile, offset)`: the subfile ends there."""
        runs = RunList(pieces, merge=self.merge)

        def places(body: memoryview) -> tuple[int, Iterator[Slice]]:
            _, counts = runs.counts(body)
            return int(np.sum(counts)), self._scattered(pieces, runs, counts)

        def finish(body: memoryview) -> None:
            disk_calls, counts = runs.counts(body)
            self._count(pieces, runs)
            self.counters.disk_calls += disk_calls
            present = int(np.sum(counts))
            self.counters.bytes_read += present
            for subfile, offset in runs.short(counts) if present < runs.total_bytes else ():
                missing(subfile, offset)

        blocks = iter(()) if self._streamed(runs) else None
        return Message(
            Kind.READ, runs.encode(self.handles), blocks=blocks, places=places, finish=finish, path=self.path
        )

    def _count(self, pieces: Sequence[Piece], runs: RunList) -> None:
        self.counters.fragments += sum(piece.fragments for piece in pieces)
        self.counters.requests += len(runs)

    def _vectors(self, pieces: Sequence[Piece]) -> list[memoryview]:
        """The pieces' own memory where it is sent or filled without a copy; nothing where they are to be copied."""
        least_bytes = CHECKED_VECTOR_BYTES if self.checked else VECTOR_BYTES
        if self.block is not None:
            least_bytes = BLOCK_VECTOR_BYTES
        if any(piece.fragment_bytes < least_bytes for piece in pieces):
            self.counters.copies[pieces[0].way] += 1
            return []
        self.counters.copies["vectors"] += 1
        return [view for piece in pieces for view in piece.vectors(self.memory)]

    def _gathered(self, pieces: Sequence[Piece], runs: RunList) -> Iterator[Slice]:
        """The data of a WRITE, slice by slice."""
        self._count(pieces, runs)
        if vectors := self._vectors(pieces):
            yield from in_slices(vectors) if self.checked else (vectors,)
        elif self.block is not None:
            for piece in pieces:
                yield from self.block.parted(piece.subfile, *piece.bounds)
        else:
            for parts, count in slices(pieces, runs.total_bytes):
                stream = self.stage.room(count)
                place = 0
                for piece in parts:
                    piece.gather(self.memory, stream[place : place + piece.size])
                    place += piece.size
                yield [stream.data]

    def _scattered(self, pieces: Sequence[Piece], runs: RunList, counts: Sequence[int] | Integers) -> Iterator[Slice]:
        """Places for the data of a READ, slice by slice; each is full when the next is asked for."""
        size, wanted = int(np.sum(counts)), runs.total_bytes
        if size < wanted:
            self.counters.copies[pieces[0].way] += 1
            stream = np.empty(size, dtype=np.uint8)
            yield [stream.data]
            _scatter_present(pieces, self.memory, stream, [int(n) for n in runs.sizes], [int(n) for n in counts])
        elif vectors := self._vectors(pieces):
            yield vectors
        elif self.block is not None:
            for piece in pieces:
                yield from self.block.joined(piece.subfile, *piece.bounds)
        else:
            for parts, count in slices(pieces, size):
                stream = self.stage.room(count)
                yield [stream.data]
                place = 0
                for piece in parts:
                    piece.scatter(self.memory, stream[place : place + piece.size])
                    place += piece.size


def in_slices(vectors: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    """The vectors in groups of SLICE_BYTES each (the last: what is left), cut where a group is full."""
    group: list[memoryview] = []
    room = SLICE_BYTES
    for vector in vectors:
        rest = vector
        while len(rest) >= room:
            yield [*group, rest[:room]]
            rest, group, room = rest[room:], [], SLICE_BYTES
        if len(rest):
            group.append(rest)
            room -= len(rest)
    if group:
        yield group


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
            count = min(room, piece.size - start)
            parts.append(piece if count == piece.size else piece.part(start, start + count))
            start, room = start + count, room - count
            if not room:
                yield parts, SLICE_BYTES
                parts, room = [], SLICE_BYTES
    if parts:
        yield parts, SLICE_BYTES - room


def _scatter_present(
    pieces: Sequence[Piece], memory: Bytes, stream: Bytes, sizes: Sequence[int], counts: Sequence[int]
) -> None:
    """Put what arrived of the runs (`counts` of their `sizes`) in its places; where they came short, memory stays as it was."""
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
                piece.part(start - place, end - place).scatter(
                    memory, stream[there + start - first : there + end - first]
                )
        place += piece.size


__all__ = ["HostTransfer", "Stage", "pack", "slices"]
