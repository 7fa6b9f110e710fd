"""File views and memory layouts: which bytes of a file, and of a buffer, an access in terms of datatypes means.
Arithmetic on runs alone; the cost of an access is that of the runs it touches, however large the view's tile."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sfio_emu.errors import UsageError, whole_number
from sfio_emu.views.datatypes import (
    BYTE,
    Datatype,
    Integers,
    Runs,
    contiguous,
    joined_runs,
    require_datatype,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """What one process sees of a file: the bytes of `filetype`, repeated from byte `displacement` on, one stream of
    data.

    Positions count `etype`s in that stream (MPI 4.0, section 14.3). Raises UsageError where the filetype's
    displacements are negative or not monotonically non-decreasing (a cross-ordered datatype), where its repetitions
    interleave, where its size is no multiple of the etype's, or where, being `writable`, it covers a byte twice.

    >>> from sfio_emu.views.datatypes import INT32, resized
    >>> view = View(displacement=100, etype=INT32, filetype=resized(INT32, 0, 12))
    >>> view.runs(4, 8).pairs()
    [(112, 4), (124, 4)]
    """

    displacement: int = 0
    etype: Datatype = BYTE
    filetype: Datatype = BYTE
    writable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "displacement",
            whole_number(self.displacement, "displacement of the view (bytes)"),
        )
        for what, datatype in (("etype", self.etype), ("filetype", self.filetype)):
            require_datatype(datatype, f"{what} of the view")
        if self.etype.size_bytes == 0 or self.filetype.size_bytes == 0:
            raise UsageError("view: etype and filetype must cover at least one byte")
        if self.filetype.size_bytes % self.etype.size_bytes:
            text = f"view: filetype of {self.filetype.size_bytes} bytes, etype of {self.etype.size_bytes}"
            raise UsageError(f"{text}: build the filetype from whole etypes")
        _check_order("etype", self.etype, self.writable)
        _check_order("filetype", self.filetype, self.writable)

    @cached_property
    def _starts(self) -> Integers:
        """Where the data of each run of the filetype begins in the tile's stream: shape (runs + 1,)."""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.filetype.runs.lengths)])

    @cached_property
    def _reaches(self) -> Integers:
        """The furthest byte of the tile covered up to each run."""
        runs = self.filetype.runs
        return np.maximum.accumulate(runs.offsets + runs.lengths)

    @cached_property
    def overlapping(self) -> bool:
        """Whether a byte of the file appears twice in the view (only views for reading may)."""
        return _overlaps(self.filetype)

    def runs(self, first_byte: int, count_bytes: int) -> Runs:
        """The runs of the file that bytes `first_byte` to `first_byte + count_bytes` of the view's stream lie in."""
        if count_bytes == 0:
            return Runs(offsets=np.zeros(0, dtype=np.int64), lengths=np.zeros(0, dtype=np.int64))
        self._check_reach(first_byte, count_bytes)
        if self.filetype.dense:
            begin = self.displacement + int(self.filetype.runs.offsets[0]) + first_byte
            return one_run(begin, count_bytes)
        tile, first = divmod(first_byte, self.filetype.size_bytes)
        last_tile, end = divmod(first_byte + count_bytes - 1, self.filetype.size_bytes)
        end += 1
        if tile == last_tile:
            offsets, lengths = self._part(tile, first, end)
            return joined_runs(offsets, lengths)
        parts = [
            self._part(tile, first, self.filetype.size_bytes),
            self._whole(tile + 1, last_tile),
        ]
        parts.append(self._part(last_tile, 0, end))
        return joined_runs(
            np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        )

    def _check_reach(self, first_byte: int, count_bytes: int) -> None:
        tiles = (first_byte + count_bytes) // self.filetype.size_bytes
        if tiles * self.filetype.extent_bytes + self.displacement >= 1 << 62:
            raise UsageError(
                f"access at byte {first_byte} of the view: offsets must stay below 2^62"
            )

    def file_offset(self, byte: int) -> int:
        """The byte of the file where byte `byte` of the view's stream lies."""
        return int(self.runs(byte, 1).offsets[0])

    def bytes_before(self, file_size: int) -> int:
        """How many bytes of the view's stream come before the first that is at or behind `file_size`."""
        runs = self.filetype.runs
        inside = file_size - self.displacement
        tile = max(0, (inside - int(self._reaches[-1])) // self.filetype.extent_bytes + 1)
        inside -= tile * self.filetype.extent_bytes
        run = int(np.searchsorted(self._reaches, inside, side="right"))
        return (
            tile * self.filetype.size_bytes
            + int(self._starts[run])
            + max(0, inside - int(runs.offsets[run]))
        )

    def _part(self, tile: int, first: int, end: int) -> tuple[Integers, Integers]:
        """Bytes `first` to `end` (not empty) of one tile's stream."""
        runs = self.filetype.runs
        low = int(np.searchsorted(self._starts, first, side="right")) - 1
        high = int(np.searchsorted(self._starts, end, side="left"))
        offsets = runs.offsets[low:high] + (self.displacement + tile * self.filetype.extent_bytes)
        lengths = runs.lengths[low:high].copy()
        cut = first - int(self._starts[low])
        offsets[0] += cut
        lengths[0] -= cut
        lengths[-1] -= int(self._starts[high]) - end
        return offsets, lengths

    def _whole(self, tile: int, end_tile: int) -> tuple[Integers, Integers]:
        runs = self.filetype.runs
        bases = (
            self.displacement
            + np.arange(tile, end_tile, dtype=np.int64) * self.filetype.extent_bytes
        )
        offsets = (bases[:, np.newaxis] + runs.offsets[np.newaxis, :]).ravel()
        return offsets, np.tile(runs.lengths, end_tile - tile)


def memory_runs(buffer_bytes: int, count: int, layout: Datatype, start_byte: int = 0) -> Runs:
    """The runs of a buffer that `count` elements of `layout` cover, element 0 at `start_byte`; any order is allowed.

    Raises UsageError where they leave the buffer.
    """
    require_datatype(layout, "layout in memory")
    start_byte = whole_number(start_byte, "start byte in memory", -(2**62))
    runs = contiguous(count, layout).runs.moved(start_byte)
    if len(runs):
        low, high = int(runs.offsets.min()), int((runs.offsets + runs.lengths).max())
        if low < 0 or high > buffer_bytes:
            text = f"memory: {count} elements of {layout!r} cover bytes {low} to {high} of a buffer of {buffer_bytes}"
            raise UsageError(f"{text}: give a larger buffer or fewer elements")
    return runs


class PairedRuns(NamedTuple):
    """Blocks that are contiguous in memory and in the file: int64 arrays of shape (n,), in the order of the data."""

    file_offsets: Integers
    memory_offsets: Integers
    lengths: Integers


def pair_runs(memory: Runs, file: Runs) -> PairedRuns:
    """Cut two layouts of the same number of bytes at each other's ends. O(n log n) in numpy.

    >>> from sfio_emu.views.datatypes import BYTE, hindexed
    >>> paired = pair_runs(hindexed([3, 3], [10, 0], BYTE).runs, hindexed([4, 2], [100, 200], BYTE).runs)
    >>> paired.memory_offsets.tolist(), paired.file_offsets.tolist(), paired.lengths.tolist()
    ([10, 0, 1], [100, 103, 200], [3, 1, 2])
    """
    if len(memory) == 1:  # one piece of memory: the file's runs are the blocks
        starts = np.cumsum(file.lengths) - file.lengths
        return PairedRuns(
            memory_offsets=starts + memory.offsets[0],
            file_offsets=file.offsets,
            lengths=file.lengths,
        )
    memory_ends, file_ends = np.cumsum(memory.lengths), np.cumsum(file.lengths)
    ends = np.union1d(memory_ends, file_ends)
    starts = np.concatenate([np.zeros(min(1, len(ends)), dtype=np.int64), ends[:-1]])
    places = []
    for runs, run_ends in ((memory, memory_ends), (file, file_ends)):
        run = np.searchsorted(run_ends, starts, side="right")
        places.append(runs.offsets[run] + (starts - (run_ends[run] - runs.lengths[run])))
    return PairedRuns(memory_offsets=places[0], file_offsets=places[1], lengths=ends - starts)


class PairedAccess:
    """One access: `wanted` bytes of a buffer (`octets`) at `places`, and of a view's stream from `first_byte` on;
    `there`: how many of them the file can have."""

    def __init__(
        self, octets: memoryview, places: Runs, view: View, first_byte: int, there: int
    ) -> None:
        self.octets, self.places, self.required, self.there = (
            octets,
            places,
            places.size_bytes,
            there,
        )
        self._view, self._first_byte = view, first_byte

    @cached_property
    def blocks(self) -> PairedRuns:
        """The blocks."""
        return pair_runs(self.places, self._view.runs(self._first_byte, self.required))

    def of_stream(self, stream: memoryview) -> "PairedAccess":
        """The same, its data one behind the other in `stream`."""
        return PairedAccess(
            stream, one_run(0, self.required), self._view, self._first_byte, self.there
        )


def one_run(offset: int, length: int) -> Runs:
    """A single run."""
    return Runs(
        offsets=np.array([offset], dtype=np.int64), lengths=np.array([length], dtype=np.int64)
    )


def _overlaps(datatype: Datatype) -> bool:
    """Whether a type with ordered runs, repeated, covers a byte twice."""
    runs = datatype.runs
    ends = runs.offsets + runs.lengths
    if len(runs) > 1 and bool((np.maximum.accumulate(ends)[:-1] > runs.offsets[1:]).any()):
        return True
    return int(ends.max()) - int(runs.offsets[0]) > datatype.extent_bytes


def _check_order(what: str, datatype: Datatype, writable: bool) -> None:
    runs = datatype.runs
    if int(runs.offsets[0]) < 0 or datatype.true_lb < 0:
        raise UsageError(
            f"view: {what} begins at byte {datatype.true_lb}: its displacements must not be negative"
        )
    backwards = np.flatnonzero(runs.offsets[1:] < runs.offsets[:-1])
    if len(backwards):
        at = int(backwards[0])
        text = f"view: {what} is cross-ordered, byte {int(runs.offsets[at + 1])} comes after byte {int(runs.offsets[at])}"
        raise UsageError(
            f"{text}: displacements must be monotonically non-decreasing; sort its blocks, and the memory's alike"
        )
    begin = int(runs.offsets[0])
    if datatype.extent_bytes < 1 or int(runs.offsets[-1]) - begin > datatype.extent_bytes:
        text = f"view: {what} with data from byte {begin} to {datatype.true_ub} has extent {datatype.extent_bytes}"
        raise UsageError(
            f"{text}: its repetitions would interleave; resize it to at least its data"
        )
    if writable and _overlaps(datatype):
        raise UsageError(
            f"view: {what} covers a byte twice, which a view for writing must not: open for reading only or separate"
        )
