"""The runs of one message, as its body encodes them: listed, or strided, which takes as much for a thousand as
for one. And what its answer says of them."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sfio_emu import wire
from sfio_emu.layout.piece import Rows
from sfio_emu.layout.piece_builder import Piece
from sfio_emu.layout.requests import Integers
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
        self._rows = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else wire.NO_RUNS
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
        disk_calls, counts = wire.decode_counts(body, len(self.sizes), as_array=True)
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
