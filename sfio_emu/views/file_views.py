"""File views and memory layouts: the bytes of a file, and of a buffer, that an access means.

All of it is arithmetic on runs of bytes. The cost of an access depends on the number of runs that
it touches, not on the size of the view's datatype.
"""

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
    """The part of a file that one process sees: a datatype that is repeated over the file.

    The bytes of these repetitions (tiles) are one stream of data. Positions in it count etypes
    (MPI 4.0, section 14.3).

    Attributes:
        displacement: The offset in the file of the first tile, in bytes.
        etype: The unit of positions and sizes.
        filetype: The datatype of a tile.
        writable: Whether the file can be written through the view.

    Raises:
        UsageError: The displacements of the filetype are negative or decrease (a cross-ordered
            datatype), its repetitions interleave, its size is not a multiple of the etype's, or it
            covers a byte twice although it is writable.

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
        displacement = whole_number(self.displacement, "displacement of the view (bytes)")
        object.__setattr__(self, "displacement", displacement)
        require_datatype(self.etype, "etype of the view")
        require_datatype(self.filetype, "filetype of the view")
        if self.etype.size_bytes == 0 or self.filetype.size_bytes == 0:
            raise UsageError("view: etype and filetype must cover at least one byte")
        if self.filetype.size_bytes % self.etype.size_bytes:
            raise UsageError(
                f"view: filetype of {self.filetype.size_bytes} bytes, "
                f"etype of {self.etype.size_bytes}: build the filetype from whole etypes"
            )
        _check_order("etype", self.etype, self.writable)
        _check_order("filetype", self.filetype, self.writable)

    @cached_property
    def _starts(self) -> Integers:
        """The position in a tile's stream of each run, and the end of the last: (runs + 1,)."""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.filetype.runs.lengths)])

    @cached_property
    def _reaches(self) -> Integers:
        """The end of the furthest byte of a tile that the runs up to each run cover: (runs,)."""
        runs = self.filetype.runs
        return np.maximum.accumulate(runs.offsets + runs.lengths)

    @cached_property
    def overlapping(self) -> bool:
        """True if a byte of the file appears twice in the view, which must be for reading only."""
        return _overlaps(self.filetype)

    def runs(self, first_byte: int, count_bytes: int) -> Runs:
        """Return the runs of the file that a part of the view's stream covers.

        Args:
            first_byte: The position of the part in the stream, in bytes.
            count_bytes: The size of the part in bytes.
        """
        if count_bytes == 0:
            return Runs(offsets=np.zeros(0, dtype=np.int64), lengths=np.zeros(0, dtype=np.int64))
        self._check_reach(first_byte, count_bytes)
        if self.filetype.dense:
            begin = self.displacement + int(self.filetype.runs.offsets[0]) + first_byte
            return one_run(begin, count_bytes)
        tile_bytes = self.filetype.size_bytes
        tile, first = divmod(first_byte, tile_bytes)
        last_tile, last = divmod(first_byte + count_bytes - 1, tile_bytes)
        if tile == last_tile:
            offsets, lengths = self._part_of_tile(tile, first, last + 1)
            return joined_runs(offsets, lengths)
        parts = [
            self._part_of_tile(tile, first, tile_bytes),
            self._complete_tiles(tile + 1, last_tile),
            self._part_of_tile(last_tile, 0, last + 1),
        ]
        return joined_runs(
            np.concatenate([offsets for offsets, _ in parts]),
            np.concatenate([lengths for _, lengths in parts]),
        )

    def _check_reach(self, first_byte: int, count_bytes: int) -> None:
        tiles = (first_byte + count_bytes) // self.filetype.size_bytes
        if tiles * self.filetype.extent_bytes + self.displacement >= 1 << 62:
            raise UsageError(
                f"access at byte {first_byte} of the view: offsets must stay below 2^62"
            )

    def file_offset(self, byte: int) -> int:
        """Return the offset in the file of a byte of the view's stream."""
        return int(self.runs(byte, 1).offsets[0])

    def bytes_before(self, file_size: int) -> int:
        """Return the position in the view's stream of its first byte at or behind `file_size`."""
        runs = self.filetype.runs
        inside = file_size - self.displacement
        tile = max(0, (inside - int(self._reaches[-1])) // self.filetype.extent_bytes + 1)
        inside -= tile * self.filetype.extent_bytes
        run = int(np.searchsorted(self._reaches, inside, side="right"))
        before_run = tile * self.filetype.size_bytes + int(self._starts[run])
        return before_run + max(0, inside - int(runs.offsets[run]))

    def _part_of_tile(self, tile: int, first: int, end: int) -> tuple[Integers, Integers]:
        """Return the runs of a part of one tile.

        Args:
            tile: The number of the tile.
            first: The position of the part in the tile's stream, in bytes.
            end: The position behind the part, which is not empty.

        Returns:
            The offset in the file of each run, and its length.
        """
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

    def _complete_tiles(self, tile: int, end_tile: int) -> tuple[Integers, Integers]:
        """Return the offset and length of each run of the tiles from `tile` to `end_tile` - 1."""
        runs = self.filetype.runs
        tiles = np.arange(tile, end_tile, dtype=np.int64)
        tile_offsets = self.displacement + tiles * self.filetype.extent_bytes
        offsets = (tile_offsets[:, np.newaxis] + runs.offsets[np.newaxis, :]).ravel()
        return offsets, np.tile(runs.lengths, end_tile - tile)


def memory_runs(buffer_bytes: int, count: int, layout: Datatype, start_byte: int = 0) -> Runs:
    """Return the runs of a buffer that elements of a datatype cover, in any order.

    Args:
        buffer_bytes: The size of the buffer in bytes.
        count: The number of elements.
        layout: The datatype.
        start_byte: The offset of element 0 in bytes.

    Raises:
        UsageError: They reach outside the buffer.
    """
    require_datatype(layout, "layout in memory")
    start_byte = whole_number(start_byte, "start byte in memory", -(2**62))
    runs = contiguous(count, layout).runs.moved(start_byte)
    if len(runs):
        low = int(runs.offsets.min())
        high = int((runs.offsets + runs.lengths).max())
        if low < 0 or high > buffer_bytes:
            raise UsageError(
                f"memory: {count} elements of {layout!r} cover bytes {low} to {high} "
                f"of a buffer of {buffer_bytes}: give a larger buffer or fewer elements"
            )
    return runs


class PairedRuns(NamedTuple):
    """Blocks that are contiguous in memory and in the file, in the order of the data.

    Attributes:
        file_offsets: The offset of each block in the file, in bytes, shape (n,).
        memory_offsets: The offset of each block in memory, in bytes, shape (n,).
        lengths: The size of each block in bytes, shape (n,).
    """

    file_offsets: Integers
    memory_offsets: Integers
    lengths: Integers


def pair_runs(memory: Runs, file: Runs) -> PairedRuns:
    """Cut the runs of two layouts with the same number of bytes at each other's ends.

    It takes O(n log n) steps in numpy.

    >>> from sfio_emu.views.datatypes import BYTE, hindexed
    >>> memory = hindexed([3, 3], [10, 0], BYTE).runs
    >>> paired = pair_runs(memory, hindexed([4, 2], [100, 200], BYTE).runs)
    >>> paired.memory_offsets.tolist(), paired.file_offsets.tolist(), paired.lengths.tolist()
    ([10, 0, 1], [100, 103, 200], [3, 1, 2])
    """
    if len(memory) == 1:
        # With one run of memory, the runs of the file are the blocks.
        starts = np.cumsum(file.lengths) - file.lengths
        return PairedRuns(
            memory_offsets=starts + memory.offsets[0],
            file_offsets=file.offsets,
            lengths=file.lengths,
        )
    ends = np.union1d(np.cumsum(memory.lengths), np.cumsum(file.lengths))
    starts = np.concatenate([np.zeros(min(1, len(ends)), dtype=np.int64), ends[:-1]])
    return PairedRuns(
        memory_offsets=_offsets_of(memory, starts),
        file_offsets=_offsets_of(file, starts),
        lengths=ends - starts,
    )


def _offsets_of(runs: Runs, positions: Integers) -> Integers:
    """Return the offset of each position of the stream of the runs, shape (n,)."""
    run_ends = np.cumsum(runs.lengths)
    run = np.searchsorted(run_ends, positions, side="right")
    run_starts = run_ends[run] - runs.lengths[run]
    return runs.offsets[run] + (positions - run_starts)


class PairedAccess:
    """One access to bytes of a buffer and of a view's stream.

    Args:
        octets: The buffer.
        memory: The runs of the buffer.
        view: The view.
        first_byte: The position in the view's stream, in bytes.
        available: The number of bytes of the access that the file can have.

    Attributes:
        required: The number of bytes of the access.
    """

    def __init__(
        self, octets: memoryview, memory: Runs, view: View, first_byte: int, available: int
    ) -> None:
        self.octets = octets
        self.memory = memory
        self.required = memory.size_bytes
        self.available = available
        self._view = view
        self._first_byte = first_byte

    @cached_property
    def blocks(self) -> PairedRuns:
        """The blocks that are contiguous in memory and in the file."""
        return pair_runs(self.memory, self._view.runs(self._first_byte, self.required))

    def of_stream(self, stream: memoryview) -> "PairedAccess":
        """Return the same access with its data in `stream`, without gaps."""
        return PairedAccess(
            stream, one_run(0, self.required), self._view, self._first_byte, self.available
        )


def one_run(offset: int, length: int) -> Runs:
    """Return a single run, with offset and length in bytes."""
    return Runs(
        offsets=np.array([offset], dtype=np.int64), lengths=np.array([length], dtype=np.int64)
    )


def _overlaps(datatype: Datatype) -> bool:
    """Return whether repetitions of a datatype with ordered runs cover a byte twice."""
    runs = datatype.runs
    ends = runs.offsets + runs.lengths
    if len(runs) > 1 and bool((np.maximum.accumulate(ends)[:-1] > runs.offsets[1:]).any()):
        return True
    return int(ends.max()) - int(runs.offsets[0]) > datatype.extent_bytes


def _check_order(name: str, datatype: Datatype, writable: bool) -> None:
    """Check that a datatype can be etype or filetype of a view.

    Args:
        name: "etype" or "filetype", for errors.
        datatype: The datatype.
        writable: Whether the view is for writing.

    Raises:
        UsageError: As in `View`.
    """
    runs = datatype.runs
    if int(runs.offsets[0]) < 0 or datatype.true_lb < 0:
        raise UsageError(
            f"view: {name} begins at byte {datatype.true_lb}: "
            "its displacements must not be negative"
        )
    backwards = np.flatnonzero(runs.offsets[1:] < runs.offsets[:-1])
    if len(backwards):
        number = int(backwards[0])
        raise UsageError(
            f"view: {name} is cross-ordered, byte {int(runs.offsets[number + 1])} "
            f"comes after byte {int(runs.offsets[number])}: displacements must be monotonically "
            "non-decreasing; sort its blocks, and the memory's alike"
        )
    begin = int(runs.offsets[0])
    if datatype.extent_bytes < 1 or int(runs.offsets[-1]) - begin > datatype.extent_bytes:
        raise UsageError(
            f"view: {name} with data from byte {begin} to {datatype.true_ub} "
            f"has extent {datatype.extent_bytes}: its repetitions would interleave; "
            "resize it to at least its data"
        )
    if writable and _overlaps(datatype):
        raise UsageError(
            f"view: {name} covers a byte twice, which a view for writing must not: "
            "open the file for reading only, or separate the parts"
        )
