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
from sfio_emu.settings import Counters
from sfio_emu.wire import Kind, Malformed

OVERHEAD_BYTES = 64
BLOCK_VECTOR_BYTES = 16 << 10
CHECKED_VECTOR_BYTES = 4 << 10  # each piece is a call of the checksum's
SLICE_BYTES = 256 << 10  # gathered, summed and sent while the cache of a processor holds them


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
                    left -= count + wire.RUN_BYTES * len(message[-1].runs()[0])
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
    """The runs of a message: pieces that follow one another in a subfile become one run."""

    def __init__(self, pieces: Sequence[Piece], *, merge: bool) -> None:
        self.subfiles: list[int] = []
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        for piece in pieces:
            offsets, sizes = piece.runs()
            if merge and self._ends_at(piece.subfile, offsets[0]):
                self.sizes[-1] += sizes[0]
                offsets, sizes = offsets[1:], sizes[1:]
            self.subfiles += [piece.subfile] * len(offsets)
            self.offsets += offsets
            self.sizes += sizes

    def _ends_at(self, subfile: int, offset: int) -> bool:
        return bool(self.sizes) and self.subfiles[-1] == subfile and self.offsets[-1] + self.sizes[-1] == offset

    def encode(self, handles: Mapping[int, int], ensured: Sequence[tuple[int, int]] = ()) -> bytes:
        """The body; `ensured`: (subfile, size) that a write must at least leave, as runs of no bytes."""
        subfiles = self.subfiles + [subfile for subfile, _ in ensured]
        offsets = self.offsets + [size for _, size in ensured]
        return wire.encode_runs([handles[s] for s in subfiles], offsets, self.sizes + [0] * len(ensured))


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
        size = sum(runs.sizes)
        streamed = self._streamed(runs, len(ensured))
        blocks = wire.block_sizes(runs.offsets[0], size, self.block_bytes) if streamed else None

        def finish(body: memoryview) -> None:
            subfiles = list(dict.fromkeys(runs.subfiles + [subfile for subfile, _ in ensured]))
            written, disk_calls, before = bodies.decode_written(body, len(subfiles))
            self.counters.disk_calls += disk_calls
            self.counters.bytes_written += written
            if sizes is not None:
                sizes.note_before(subfiles, before)
                sizes.note_reached(
                    zip(runs.subfiles, map(sum, zip(runs.offsets, runs.sizes, strict=True)), strict=True)
                )
                sizes.note_reached(ensured)

        return Message(
            Kind.WRITE, runs.encode(self.handles, ensured), data=(lambda: self._gathered(pieces, runs)) if pieces else None,
            data_bytes=size, blocks=blocks, finish=finish, path=self.path,
        )  # fmt: skip

    def _streamed(self, runs: RunList, more_runs: int = 0) -> bool:
        """Whether a message, or its answer, is longer than what a listener holds."""
        whole = sum(runs.sizes) + wire.RUN_BYTES * (1 + more_runs) + 2 * wire.TRAILER.size
        return len(runs.sizes) == 1 and whole > self.limit_bytes

    def read(self, pieces: Sequence[Piece], missing: Callable[[int, int], None]) -> Message:
        """A READ of the pieces, scattered as its answer arrives; `missing(subfile, offset)`: the subfile ends there."""
        runs = RunList(pieces, merge=self.merge)

        def places(body: memoryview) -> tuple[int, Iterator[Slice]]:
            _, counts = _counts_of(body, runs)
            return sum(counts), self._scattered(pieces, runs, counts)

        def finish(body: memoryview) -> None:
            disk_calls, counts = _counts_of(body, runs)
            self._count(pieces, runs)
            self.counters.disk_calls += disk_calls
            self.counters.bytes_read += sum(counts)
            for subfile, offset, size, count in zip(runs.subfiles, runs.offsets, runs.sizes, counts, strict=True):
                if count < size:
                    missing(subfile, offset + count)

        blocks = iter(()) if self._streamed(runs) else None
        return Message(
            Kind.READ, runs.encode(self.handles), blocks=blocks, places=places, finish=finish, path=self.path
        )

    def _count(self, pieces: Sequence[Piece], runs: RunList) -> None:
        self.counters.fragments += sum(piece.fragments for piece in pieces)
        self.counters.requests += len(runs.sizes)

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
            yield from in_slices(vectors)
        elif self.block is not None:
            for piece in pieces:
                yield from self.block.parted(piece.subfile, *piece.bounds)
        else:
            for parts, count in slices(pieces, sum(runs.sizes)):
                stream = self.stage.room(count)
                place = 0
                for piece in parts:
                    piece.gather(self.memory, stream[place : place + piece.size])
                    place += piece.size
                yield [stream.data]

    def _scattered(self, pieces: Sequence[Piece], runs: RunList, counts: Sequence[int]) -> Iterator[Slice]:
        """Places for the data of a READ, slice by slice; each is full when the next is asked for."""
        size, wanted = sum(counts), sum(runs.sizes)
        if size < wanted:
            self.counters.copies[pieces[0].way] += 1
            stream = np.empty(size, dtype=np.uint8)
            yield [stream.data]
            _scatter_present(pieces, self.memory, stream, runs.sizes, counts)
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


def _counts_of(body: memoryview, runs: RunList) -> tuple[int, tuple[int, ...]]:
    """The calls of the disk and the bytes of each run in the answer to a READ."""
    disk_calls, counts = wire.decode_counts(body, len(runs.sizes))
    if any(count > size for count, size in zip(counts, runs.sizes, strict=True)):
        raise Malformed("more bytes of a run than were asked", fatal=True)
    return disk_calls, counts


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
