"""The runs that one message means, as its body tells them: listed, or strided, which takes as much for a thousand as
for one. And what its answer says of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from sfio_emu import wire
from sfio_emu.layout.piece import Piece
from sfio_emu.layout.piece_builder import RegularPiece
from sfio_emu.layout.requests import Integers
from sfio_emu.wire import Kind, Malformed, Strided

MANY_RUNS = 64


class Runs(Protocol):
    """The runs of a message, told one by one or many at once: `sizes` of what is told, `total_bytes` of all; `reads`
    and `writes` are its kinds."""

    reads: Kind
    writes: Kind
    total_bytes: int

    @property
    def sizes(self) -> Sequence[int] | Integers: ...
    @property
    def single_offset(self) -> int | None:
        """Where the one run of a message begins that may be streamed; None where it may not."""
        ...

    @property
    def count(self) -> int:
        """How many runs there are."""
        ...

    def encode(self, handles: Mapping[int, int], ensured: Sequence[tuple[int, int]] = ()) -> bytes: ...
    def counts(self, body: memoryview) -> tuple[int, Sequence[int] | Integers]: ...
    def short(self, counts: Sequence[int] | Integers) -> Iterator[tuple[int, int]]: ...


class RunList:
    """The runs of a message, listed: pieces that follow one another in a subfile become one run.

    `offsets` and `sizes` are lists, or arrays of int64 where there are MANY_RUNS of them and more.
    """

    reads, writes = Kind.READ, Kind.WRITE

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

    @property
    def count(self) -> int:
        return len(self.sizes)

    @property
    def single_offset(self) -> int | None:
        return int(self.offsets[0]) if len(self.sizes) == 1 else None

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
            table = np.empty(self.count, dtype=wire.RUN_TYPE)
            table["handle"] = np.repeat([handles[s] for s, _ in self._columns], [count for _, count in self._columns])
            table["size"], table["offset"] = self.sizes, self.offsets
            body = table.tobytes()
        elif self.count:
            numbers = [handles[s] for s, count in self._columns for _ in range(count)]
            body = wire.encode_runs(numbers, list(self.offsets), list(self.sizes))
        if ensured:
            body += wire.encode_runs(
                [handles[s] for s, _ in ensured], [size for _, size in ensured], [0] * len(ensured)
            )
        return body

    def counts(self, body: memoryview) -> tuple[int, Sequence[int] | Integers]:
        """The calls of the disk and the bytes of each run in the answer to a READ; raises `Malformed`."""
        disk_calls, counts = wire.decode_counts(body, self.count, as_array=self.many)
        if self.many:
            wrong = bool((counts > np.asarray(self.sizes)).any())
        else:
            wrong = any(count > size for count, size in zip(counts, self.sizes, strict=True))
        if wrong:
            raise Malformed("more bytes of a run than were requested", fatal=True)
        return disk_calls, counts

    def short(self, counts: Sequence[int] | Integers) -> Iterator[tuple[int, int]]:
        """Of each run that came short its subfile, and the offset where bytes are missing."""
        for run in np.flatnonzero(np.asarray(counts) < np.asarray(self.sizes)).tolist():
            yield self.subfile(run), int(self.offsets[run]) + int(counts[run])


class StridedRuns:
    """The runs of a message that are alike, piece by piece: each piece is told as one."""

    reads, writes = Kind.READ_STRIDED, Kind.WRITE_STRIDED
    single_offset = None

    def __init__(self, pieces: Sequence[RegularPiece]) -> None:
        self._pieces = pieces
        self.sizes = [piece.size for piece in pieces]
        self.total_bytes = sum(self.sizes)
        self.count = sum([piece.run_count for piece in pieces])

    def encode(self, handles: Mapping[int, int], ensured: Sequence[tuple[int, int]] = ()) -> bytes:
        """As of `RunList`."""
        runs = [Strided(handles[piece.subfile], *piece.strided) for piece in self._pieces]
        return wire.encode_strided(runs + [Strided(handles[subfile], 0, size, 0, 1) for subfile, size in ensured])

    def counts(self, body: memoryview) -> tuple[int, Sequence[int]]:
        """As of `RunList`: the bytes of each piece."""
        disk_calls, counts = wire.decode_counts(body, len(self._pieces))
        if any(count > size for count, size in zip(counts, self.sizes, strict=True)):
            raise Malformed("more bytes of a run than were requested", fatal=True)
        return disk_calls, counts

    def short(self, counts: Sequence[int] | Integers) -> Iterator[tuple[int, int]]:
        """As of `RunList`: of each piece that came short."""
        for piece, count in zip(self._pieces, counts, strict=True):
            if count < piece.size:
                size, offset, distance, _ = piece.strided
                number, inside = divmod(int(count), size)
                yield piece.subfile, offset + number * distance + inside


def runs_of(pieces: Sequence[Piece], *, merge: bool) -> Runs:
    """The runs of the pieces of a message: strided where all of them are, and are more than one run."""
    regular = [piece for piece in pieces if isinstance(piece, RegularPiece)]
    if pieces and len(regular) == len(pieces) and any(piece.run_count > 1 for piece in regular):
        return StridedRuns(regular)
    return RunList(pieces, merge=merge)
