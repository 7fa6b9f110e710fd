"""Parts of one subfile and the positions of their bytes in the caller's memory.

A piece is a stream of bytes in the order of the subfile, in one run or several. There are three
kinds: the stripes of one block (`StripedPiece`), runs of equal size at equal distances
(`RegularPiece`), and lists of runs and fragments (`ListedPiece`).

How memory is copied depends on the size of its fragments: below 1 KiB, strided arrays of numpy or,
for lists, compiled loops copy them to one stream. From 1 KiB on, each fragment is a vector that the
socket sends or fills directly.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sfio_emu.layout.requests import Integers, Requests
from sfio_emu.layout.striping import Layout
from sfio_emu.wire import RUN_TYPE, STRIDED_TYPE

Bytes = npt.NDArray[np.uint8]

# Rows of the body of a message, of `RUN_TYPE` or `STRIDED_TYPE`.
Rows = npt.NDArray[np.void]

# Fragments of at least this size are sent and received without a copy.
VECTOR_BYTES = 1024

# The size of a page of the page cache. Runs are not divided inside a page if this can be avoided.
PAGE_BYTES = 4096

# A long run that does not fit into a message is cut at a multiple of this offset in the subfile.
ALIGNED_BYTES = 512 << 10

# The size of a row of `RUN_TYPE`.
RUN_COST_BYTES = 16

# The size of a row of `STRIDED_TYPE`.
STRIDED_COST_BYTES = 32

# Requests are searched for a regular structure in a subfile if they recur after at most this many.
MAX_PERIOD = 256

# From this number of requests on, lists are faster than one piece per request.
LISTED_FROM = 33

# The maximum number of requests whose fragments are listed at once, to limit memory.
MAX_BATCH = 1 << 16


class PieceOfSubfile:
    """Bytes of a subfile and their positions in memory.

    Attributes:
        subfile: The number of the subfile.
        size: The number of bytes.
        fragments: The number of contiguous pieces of memory.
        run_count: The number of contiguous runs of the subfile.
        alike: Whether the runs are of equal size at equal distances, so that one row of a message
            describes all of them.
    """

    subfile: int
    size: int
    fragments: int
    run_count: int
    alike: bool = False

    @property
    def fragment_bytes(self) -> float:
        """The mean size of the fragments in bytes."""
        return self.size / self.fragments

    @property
    def cost_bytes(self) -> int:
        """The size of the piece in a message: its data, and the rows of its runs."""
        return self.size + RUN_COST_BYTES * self.run_count

    def listed(self) -> "Self | ListedPiece":
        """Return the same piece in a form that describes its runs one by one."""
        return self

    def grain(self, count: int) -> int:
        """Return the largest number of bytes, up to `count`, after which cutting costs nothing.

        It may be 0.
        """
        return count


class BlocksInMemory(NamedTuple):
    """Blocks of equal size at equal distances in memory.

    Attributes:
        start: The offset of the first block in bytes.
        size: The size of each block in bytes.
        number: The number of blocks.
        step: Bytes from the beginning of a block to the beginning of the next.
    """

    start: int
    size: int
    number: int
    step: int


class RegularInMemory(PieceOfSubfile):
    """A piece whose bytes are in memory in a few series of equal blocks at equal distances."""

    @abstractmethod
    def _blocks(self) -> Iterator[BlocksInMemory]:
        """Yield the series in the order of the stream."""

    def vectors(self, memory: Bytes) -> list[memoryview]:
        """Return the fragments of memory, in the order of the stream."""
        view = memory.data
        vectors: list[memoryview] = []
        for start, size, number, step in self._blocks():
            positions = range(start, start + number * step, step)
            vectors += [view[position : position + size] for position in positions]
        return vectors

    def _spans(self, memory: Bytes) -> Iterator[tuple[npt.NDArray[np.void], int, int]]:
        """Yield each series as an array of memory, and its bounds in the stream in bytes.

        A block is one item of the array. numpy copies these a quarter faster than rows of bytes.
        """
        begin = 0
        for start, size, number, step in self._blocks():
            item = np.dtype((np.void, size))
            end = begin + number * size
            yield np.ndarray((number,), item, memory.data, start, (step,)), begin, end
            begin = end

    def gather(self, memory: Bytes, stream: Bytes) -> None:
        """Copy the bytes of the piece from memory to the stream."""
        for blocks, start, end in self._spans(memory):
            np.copyto(stream[start:end].view(blocks.dtype), blocks)

    def scatter(self, memory: Bytes, stream: Bytes) -> None:
        """Copy the bytes of the piece from the stream to memory."""
        for blocks, start, end in self._spans(memory):
            np.copyto(blocks, stream[start:end].view(blocks.dtype))


class StripedPiece(RegularInMemory):
    """One run of a subfile, whose bytes are at their offset in the file plus `shift` in memory.

    Args:
        layout: The layout of the file.
        subfile: The number of the subfile.
        low: The offset of the first byte in the subfile.
        high: The offset in the subfile behind the last byte.
        shift: The offset in memory minus the offset in the file.
    """

    run_count = 1

    def __init__(self, layout: Layout, subfile: int, low: int, high: int, shift: int) -> None:
        self._layout = layout
        self.subfile = subfile
        self._low = low
        self._high = high
        self._shift = shift
        self.size = high - low
        unit = layout.stripe_unit
        self.fragments = 1 if layout.subfiles == 1 else (high - 1) // unit - low // unit + 1

    @property
    def bounds(self) -> tuple[int, int]:
        """The offset of the first byte in the subfile, and that behind the last."""
        return self._low, self._high

    def rows(self) -> Rows:
        """Return the rows of a message that describe the runs.

        They have the number of the subfile instead of its handle.
        """
        return np.array([(self.subfile, self.size, self._low)], dtype=RUN_TYPE)

    def fitting(self, room_bytes: int) -> int:
        """Return how many of the first bytes fit into `room_bytes` of a message; it may be 0.

        The rows of the runs count. A piece that does not fit completely is cut at an aligned
        offset in the subfile, unless this would waste half of the room.
        """
        room = room_bytes - RUN_COST_BYTES
        if room >= self.size:
            return self.size
        for alignment in (ALIGNED_BYTES, PAGE_BYTES):
            count = (self._low + room) // alignment * alignment - self._low
            if count > room // 2:
                return count
        return max(room, 0)

    def slice(self, start: int, end: int) -> "StripedPiece":
        """Return bytes [start, end) of the piece."""
        return StripedPiece(
            self._layout, self.subfile, self._low + start, self._low + end, self._shift
        )

    @property
    def start(self) -> int:
        """The offset of the first byte in memory."""
        return self._layout.logical_offset(self.subfile, self._low) + self._shift

    def _blocks(self) -> Iterator[BlocksInMemory]:
        """Yield the incomplete stripe unit at the beginning, the complete ones, and the last."""
        unit = self._layout.stripe_unit
        round_bytes = self._layout.round_bytes
        start = self.start
        left = self.size
        if self._layout.subfiles == 1:
            yield BlocksInMemory(start, left, 1, round_bytes)
            return
        inside = self._low % unit
        if inside or left < unit:
            first = min(unit - inside, left)
            yield BlocksInMemory(start, first, 1, round_bytes)
            start += round_bytes - inside
            left -= first
        complete_units, last = divmod(left, unit)
        if complete_units:
            yield BlocksInMemory(start, unit, complete_units, round_bytes)
        if last:
            yield BlocksInMemory(start + complete_units * round_bytes, last, 1, round_bytes)


class ListedPiece(PieceOfSubfile):
    """Runs of a subfile and fragments of memory, as two lists over the same stream.

    Args:
        subfile: The number of the subfile.
        run_offset: The offset of each run in the subfile.
        run_positions: The position of each run in the stream, and that behind the last. The first
            position may be other than 0.
        source: The offset of each fragment in memory.
        positions: The position of each fragment in the stream, and that behind the last. The first
            position is that of the first run.
    """

    def __init__(
        self,
        subfile: int,
        run_offset: Integers,
        run_positions: Integers,
        source: Integers,
        positions: Integers,
    ) -> None:
        self.subfile = subfile
        self._run_offset = run_offset
        self._run_positions = run_positions
        self._source = source
        self._positions = positions
        self.size = int(positions[-1] - positions[0])
        self.fragments = len(source)
        self.run_count = len(run_offset)

    @property
    def bounds(self) -> tuple[int, int]:
        """The offset of the first byte in the subfile, and that behind the last."""
        last_size = self._run_positions[-1] - self._run_positions[-2]
        return int(self._run_offset[0]), int(self._run_offset[-1] + last_size)

    def rows(self) -> Rows:
        """Return the rows of a message, as `StripedPiece.rows`."""
        rows = np.empty(self.run_count, dtype=RUN_TYPE)
        rows["handle"] = self.subfile
        rows["size"] = np.diff(self._run_positions)
        rows["offset"] = self._run_offset
        return rows

    def fitting(self, room_bytes: int) -> int:
        """Return how many of the first bytes fit into `room_bytes` of a message; it may be 0.

        The rows of the runs count. A run is cut if at least a page of it fits, or if no complete
        run fits.
        """
        ends = self._run_positions[1:] - self._run_positions[0]
        cost = ends + RUN_COST_BYTES * np.arange(1, len(ends) + 1)
        complete_runs = int(np.searchsorted(cost, room_bytes, side="right"))
        count = int(ends[complete_runs - 1]) if complete_runs else 0
        if complete_runs == len(ends):
            return count
        part_of_next = room_bytes - count - RUN_COST_BYTES * (complete_runs + 1)
        if part_of_next >= PAGE_BYTES or (part_of_next > 0 and not count):
            return count + part_of_next
        return count

    def slice(self, start: int, end: int) -> "ListedPiece":
        """Return bytes [start, end) of the piece."""
        first_position = int(self._positions[0])
        start += first_position
        end += first_position
        runs = _cut(self._run_offset, self._run_positions, start, end)
        fragments = _cut(self._source, self._positions, start, end)
        return ListedPiece(self.subfile, *runs, *fragments)

    def vectors(self, memory: Bytes) -> list[memoryview]:
        """Return the fragments of memory, in the order of the stream."""
        view = memory.data
        sizes = np.diff(self._positions).tolist()
        return [
            view[start : start + size]
            for start, size in zip(self._source.tolist(), sizes, strict=True)
        ]

    def gather(self, memory: Bytes, stream: Bytes) -> None:
        """Copy the bytes of the piece from memory to the stream."""
        from sfio_emu.layout.kernels import gather_list

        gather_list(memory, self._source, self._positions, stream)

    def scatter(self, memory: Bytes, stream: Bytes) -> None:
        """Copy the bytes of the piece from the stream to memory."""
        from sfio_emu.layout.kernels import scatter_list

        scatter_list(memory, self._source, self._positions, stream)


def _cut(offsets: Integers, positions: Integers, start: int, end: int) -> tuple[Integers, Integers]:
    """Return the part of a list between two positions of the stream.

    Args:
        offsets: The offset of each entry, in the subfile or in memory.
        positions: The position of each entry in the stream, and that behind the last.
        start: The first position of the part.
        end: The position behind the part.

    Returns:
        The offsets and positions. The first and the last entry are shortened.
    """
    first = int(np.searchsorted(positions, start, side="right")) - 1
    last = int(np.searchsorted(positions, end, side="left"))
    offsets = offsets[first:last]
    positions = positions[first : last + 1]
    if start == positions[0] and end == positions[-1]:
        return offsets, positions
    offsets = offsets.copy()
    positions = positions.copy()
    offsets[0] += start - positions[0]
    positions[0] = start
    positions[-1] = end
    return offsets, positions


class RegularPiece(RegularInMemory):
    """Runs of equal size, at equal distances both in the subfile and in memory.

    Args:
        subfile: The number of the subfile.
        run_bytes: The size of each run.
        count: The number of runs.
        at: The offset of the first run in the subfile, and the distance from run to run, in bytes.
        source: The same in memory.
    """

    alike = True

    def __init__(
        self,
        subfile: int,
        run_bytes: int,
        count: int,
        *,
        at: tuple[int, int],
        source: tuple[int, int],
    ) -> None:
        self.subfile = subfile
        self._run_bytes = run_bytes
        self.run_count = count
        self.fragments = count
        self._low, self._step = at
        self._source, self._source_step = source
        self.size = run_bytes * count

    @property
    def cost_bytes(self) -> int:
        """The size of the piece in a message.

        Runs of a few bytes cost more than their data, because a listener accepts no more runs in a
        message than could be listed in it.
        """
        return STRIDED_COST_BYTES + max(self.size, RUN_COST_BYTES * self.run_count)

    @property
    def bounds(self) -> tuple[int, int]:
        """The offset of the first byte in the subfile, and that behind the last."""
        return self._low, self._low + (self.run_count - 1) * self._step + self._run_bytes

    def rows(self) -> Rows:
        """Return one row that describes all runs, with the number of the subfile as its handle."""
        return np.array(
            [(self.subfile, self._run_bytes, self._low, self._step, self.run_count, 0)],
            dtype=STRIDED_TYPE,
        )

    def fitting(self, room_bytes: int) -> int:
        """Return how many bytes of complete runs fit into `room_bytes` of a message."""
        run_count = (room_bytes - STRIDED_COST_BYTES) // max(self._run_bytes, RUN_COST_BYTES)
        return max(0, min(self.run_count, run_count)) * self._run_bytes

    def grain(self, count: int) -> int:
        """Return a number of bytes, up to `count`, that does not cut a run of at most a page."""
        if self._run_bytes > PAGE_BYTES:
            return count
        return count // self._run_bytes * self._run_bytes

    def slice(self, start: int, end: int) -> "RegularPiece | ListedPiece":
        """Return bytes [start, end) of the piece. It is listed if a run is cut."""
        first, inside = divmod(start, self._run_bytes)
        if inside or end % self._run_bytes:
            return self.listed().slice(start, end)
        return RegularPiece(
            self.subfile,
            self._run_bytes,
            end // self._run_bytes - first,
            at=(self._low + first * self._step, self._step),
            source=(self._source + first * self._source_step, self._source_step),
        )

    def listed(self) -> ListedPiece:
        """Return the same piece with its runs listed one by one."""
        numbers = np.arange(self.run_count + 1, dtype=np.int64)
        offsets = self._low + self._step * numbers
        source = self._source + self._source_step * numbers
        positions = self._run_bytes * numbers
        return ListedPiece(self.subfile, offsets[:-1], positions, source[:-1], positions)

    def _blocks(self) -> Iterator[BlocksInMemory]:
        yield BlocksInMemory(self._source, self._run_bytes, self.run_count, self._source_step)


Piece = StripedPiece | ListedPiece | RegularPiece


def regular_pieces(requests: Requests, layout: Layout, subfile: int) -> Sequence[Piece] | None:
    """Return the runs of regular requests on a subfile, if they are regular there, too.

    The positions of the blocks within a round over all subfiles recur after some number of blocks,
    the period. The runs are regular if at most one block of each period is on the subfile, and no
    block crosses the end of a stripe unit.

    Returns:
        The pieces, or None if the runs are not or may not be regular.
    """
    if requests.regular is None:
        return None
    distance, source_step, size = requests.regular
    unit = layout.stripe_unit
    round_bytes = layout.round_bytes
    period = round_bytes // gcd(distance, round_bytes)
    if period > min(MAX_PERIOD, len(requests)):
        return None
    first, memory = requests.first
    positions = [(first + number * distance) % round_bytes for number in range(period)]
    on_subfile = [
        number for number, position in enumerate(positions) if position // unit == subfile
    ]
    step = distance * period // round_bytes * unit
    crosses_unit = any(position % unit + size > unit for position in positions)
    # Runs at a distance of their size would be one contiguous run.
    if len(on_subfile) > 1 or step == size or crosses_unit:
        return None
    pieces = []
    for number in on_subfile:
        offset = layout.share(first + number * distance, subfile)
        source = memory + number * source_step
        pieces.append(
            RegularPiece(
                subfile,
                size,
                (len(requests) - 1 - number) // period + 1,
                at=(offset, step),
                source=(source, period * source_step),
            )
        )
    return pieces


def pieces_of(requests: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    """Yield the pieces of requests on a subfile, in the order of the subfile.

    Args:
        requests: Sorted, disjoint requests.
        layout: The layout of the file.
        subfile: The number of the subfile.
        merge: Merge adjacent fragments of the subfile. Otherwise each is a run of its own.
    """
    if merge and len(requests) < LISTED_FROM:
        blocks = zip(
            requests.offsets.tolist(),
            requests.memory.tolist(),
            requests.sizes.tolist(),
            strict=True,
        )
        yield from striped_pieces(blocks, layout, subfile)
        return
    regular = regular_pieces(requests, layout, subfile) if merge else None
    if regular is not None:
        yield from regular
        return
    yield from _list_pieces(requests, layout, subfile, merge=merge)


def striped_pieces(
    blocks: Iterable[tuple[int, int, int]], layout: Layout, subfile: int
) -> Iterator[StripedPiece]:
    """Yield the part of each block on a subfile.

    Args:
        blocks: Offset in the file, offset in memory, and size of each block, in bytes.
        layout: The layout of the file.
        subfile: The number of the subfile.
    """
    for offset, memory, size in blocks:
        low = layout.share(offset, subfile)
        high = layout.share(offset + size, subfile)
        if high > low:
            yield StripedPiece(layout, subfile, low, high, memory - offset)


def _list_pieces(
    requests: Requests, layout: Layout, subfile: int, *, merge: bool
) -> Iterator[Piece]:
    """Yield pieces with lists of their fragments, batch by batch to limit memory."""
    batch_bytes = layout.round_bytes * MAX_BATCH
    start = 0
    while start < len(requests):
        end = min(start + MAX_BATCH, len(requests))
        total = np.cumsum(requests.sizes[start:end])
        end = start + max(1, int(np.searchsorted(total, batch_bytes, side="right")))
        batch = requests.chosen(slice(start, end))
        if end == start + 1 and merge:
            offset, memory = batch.first
            yield from striped_pieces([(offset, memory, int(batch.sizes[0]))], layout, subfile)
        else:
            yield from _list_batch(batch, layout, subfile, merge=merge)
        start = end


def _list_batch(batch: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    # numba takes half a second to import, and most calls need no lists.
    from sfio_emu.layout.kernels import list_fragments

    # A block has one fragment per round on the subfile, and two incomplete ones at its ends.
    max_fragments = int((batch.sizes // layout.round_bytes).sum()) + 2 * len(batch)
    run_offset = np.empty(max_fragments + 1, dtype=np.int64)
    run_position = np.empty(max_fragments + 1, dtype=np.int64)
    position = np.empty(max_fragments + 1, dtype=np.int64)
    source = np.empty(max_fragments + 1, dtype=np.int64)
    runs, fragments = list_fragments(
        batch.offsets,
        batch.memory,
        batch.sizes,
        layout.stripe_unit,
        layout.subfiles,
        subfile,
        merge,
        run_offset,
        run_position,
        position,
        source,
    )
    if runs:
        yield ListedPiece(
            subfile,
            run_offset[:runs],
            run_position[: runs + 1],
            source[:fragments],
            position[: fragments + 1],
        )
