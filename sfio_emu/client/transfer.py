"""The messages of one read or write to one I/O node: pieces packed to what a message may hold, gathered when sent,
scattered when they arrive (the thesis' flushcache, mkbset, sfp_readb and sfp_writeb)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfio_emu import wire
from sfio_emu.client.connection import Message, Slice
from sfio_emu.layout.block_stage import BlockStage
from sfio_emu.layout.pieces import VECTOR_BYTES, Bytes, Piece
from sfio_emu.settings import Counters
from sfio_emu.wire import Kind, Malformed

OVERHEAD_BYTES = 64
BLOCK_VECTOR_BYTES = 16 << 10
SLICE_BYTES = 1 << 20


def pack(pieces: Iterable[Piece], limit_bytes: int, *, combine: bool, longest_run: int = 0) -> Iterator[list[Piece]]:
    """Pieces in messages of at most `limit_bytes`, cut where needed; one run a message unless `combine`.

    A run that no message holds goes alone, in messages of at most `longest_run` bytes if that is more.
    """
    room = limit_bytes - OVERHEAD_BYTES
    message: list[Piece] = []
    left = room
    for whole in pieces:
        rest = whole
        for piece in [rest] if combine else _single_runs(rest):
            rest = piece
            while True:
                alone = not message and rest.single_run and rest.size > room
                count = rest.fitting(max(left, longest_run) if alone else left)
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

    def encode(self, handles: dict[int, int], ensured: Sequence[tuple[int, int]] = ()) -> bytes:
        """The body; `ensured`: (subfile, size) that a write must at least leave, as runs of no bytes."""
        subfiles = self.subfiles + [subfile for subfile, _ in ensured]
        offsets = self.offsets + [size for _, size in ensured]
        return wire.encode_runs([handles[s] for s in subfiles], offsets, self.sizes + [0] * len(ensured))


@dataclass(frozen=True, kw_only=True)
class TransferOptions:
    """`merge`: join runs where pieces meet; `copied`: never vectors (data are copied anyway for their checksum)."""

    merge: bool
    copied: bool


def _uses_vectors(pieces: Sequence[Piece], block: BlockStage | None) -> bool:
    least_bytes = VECTOR_BYTES if block is None else BLOCK_VECTOR_BYTES
    return all(piece.fragment_bytes >= least_bytes for piece in pieces)


def write_message(
    pieces: Sequence[Piece],
    memory: Bytes,
    handles: dict[int, int],
    stage: Stage,
    counters: Counters,
    options: TransferOptions,
    *,
    path: Callable[[int], str],
    block: BlockStage | None = None,
    ensured: Sequence[tuple[int, int]] = (),
) -> Message:
    """A WRITE of the pieces; their data are gathered when it is sent."""
    runs = RunList(pieces, merge=options.merge)
    size = sum(runs.sizes)

    def data() -> Iterator[Slice]:
        counters.fragments += sum(piece.fragments for piece in pieces)
        counters.requests += len(runs.sizes)
        if not options.copied and _uses_vectors(pieces, block):
            counters.copies["vectors"] += 1
            yield [view for piece in pieces for view in piece.vectors(memory)]
            return
        counters.copies[pieces[0].way] += 1
        if block is not None:
            for piece in pieces:
                yield from block.parted(piece.subfile, *piece.bounds)
            return
        for parts, count in slices(pieces, size):
            stream = stage.room(count)
            place = 0
            for piece in parts:
                piece.gather(memory, stream[place : place + piece.size])
                place += piece.size
            yield [stream.data]

    def finish(body: memoryview) -> None:
        if len(body) != wire.WRITTEN.size:
            raise Malformed("an answer to a write that says nothing", fatal=True)
        written, disk_calls = wire.WRITTEN.unpack(body)
        counters.disk_calls += disk_calls
        counters.bytes_written += written

    return Message(
        Kind.WRITE,
        runs.encode(handles, ensured),
        data=data if pieces else None,
        data_bytes=size,
        finish=finish,
        path=path,
    )


def read_message(
    pieces: Sequence[Piece],
    memory: Bytes,
    handles: dict[int, int],
    stage: Stage,
    counters: Counters,
    options: TransferOptions,
    *,
    path: Callable[[int], str],
    block: BlockStage | None = None,
    missing: Callable[[int, int], None],
) -> Message:
    """A READ of the pieces, scattered when its answer is there; `missing(subfile, offset)` hears of ends of subfiles."""
    runs = RunList(pieces, merge=options.merge)
    wanted = sum(runs.sizes)

    def counts_of(body: memoryview) -> tuple[int, ...]:
        _, counts = wire.decode_counts(body, len(runs.sizes))
        if any(count > size for count, size in zip(counts, runs.sizes, strict=True)):
            raise Malformed("more bytes of a run than were asked", fatal=True)
        return counts

    def places(body: memoryview, size: int) -> Iterator[Slice]:
        counts = counts_of(body)
        if size != sum(counts):
            raise Malformed("counts that do not add up to the data", fatal=True)
        if size == wanted and not options.copied and _uses_vectors(pieces, block):
            counters.copies["vectors"] += 1
            yield [view for piece in pieces for view in piece.vectors(memory)]
            return
        counters.copies[pieces[0].way] += 1
        if size == wanted and block is not None:
            for piece in pieces:
                yield from block.joined(piece.subfile, *piece.bounds)
        elif size == wanted:
            for parts, count in slices(pieces, size):
                stream = stage.room(count)
                yield [stream.data]
                place = 0
                for piece in parts:
                    piece.scatter(memory, stream[place : place + piece.size])
                    place += piece.size
        else:
            stream = np.empty(size, dtype=np.uint8)
            yield [stream.data]
            _scatter_around_holes(pieces, memory, stream, _holes(runs.sizes, counts))

    def finish(body: memoryview) -> None:
        counts = counts_of(body)
        counters.disk_calls += wire.READ_DONE.unpack(body[: wire.READ_DONE.size])[0]
        counters.bytes_read += sum(counts)
        counters.fragments += sum(piece.fragments for piece in pieces)
        counters.requests += len(runs.sizes)
        for subfile, offset, size, count in zip(runs.subfiles, runs.offsets, runs.sizes, counts, strict=True):
            if count < size:
                missing(subfile, offset + count)

    return Message(Kind.READ, runs.encode(handles), places=places, finish=finish, path=path)


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


def _scatter_around_holes(pieces: Sequence[Piece], memory: Bytes, stream: Bytes, holes: list[tuple[int, int]]) -> None:
    """Put what arrived in its places; where runs came short, memory is left as it was."""
    place = skipped = 0
    for piece in pieces:
        skipped = _scatter_around(piece, memory, stream, place, holes, skipped)
        place += piece.size


def _holes(sizes: Sequence[int], counts: Sequence[int]) -> list[tuple[int, int]]:
    """Where of the full stream bytes are missing: (start, end)."""
    place = 0
    holes = []
    for size, count in zip(sizes, counts, strict=True):
        if count < size:
            holes.append((place + count, place + size))
        place += size
    return holes


def _scatter_around(
    piece: Piece, memory: Bytes, stream: Bytes, place: int, holes: list[tuple[int, int]], skipped: int
) -> int:
    """Scatter the parts of a piece at `place` of the full stream outside the holes; the bytes skipped up to its end."""
    start, end = place, place + piece.size
    for hole_start, hole_end in holes:
        if hole_end <= start or hole_start >= end:
            continue
        if hole_start > start:
            part = piece.part(start - place, hole_start - place)
            part.scatter(memory, stream[start - skipped : hole_start - skipped])
        skipped += min(hole_end, end) - max(hole_start, start)
        start = min(hole_end, end)
    if start < end:
        piece.part(start - place, end - place).scatter(memory, stream[start - skipped : end - skipped])
    return skipped


__all__ = ["Stage", "TransferOptions", "pack", "read_message", "write_message"]
