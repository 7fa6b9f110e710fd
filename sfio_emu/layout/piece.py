"""Parts of one subfile and where their bytes lie in the caller's memory: stripes of one block, or a list of fragments.
Copies follow the rule: strided below 1 KB in regular stripes, vectors from 1 KB, the compiled list for many blocks."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from typing import Self

import numpy as np
import numpy.typing as npt

from sfio_emu.layout.requests import Integers, Requests
from sfio_emu.layout.striping import Layout
from sfio_emu.wire import RUN_TYPE, STRIDED_TYPE

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.void]
VECTOR_BYTES = 1024
PAGE_BYTES = 4096
ALIGNED_BYTES = 512 << 10  # long messages end there
RUN_COST_BYTES = 16


class PieceOfSubfile:
    """`size` bytes of `subfile`, a stream in the order of the subfile, in one run or several; `alike`: its runs are all
    alike, so that one row of a message describes them."""

    subfile: int
    size: int
    fragments: int
    run_count: int
    alike: bool = False

    @property
    def fragment_bytes(self) -> float:
        return self.size / self.fragments

    @property
    def cost_bytes(self) -> int:
        """What it takes of a message: its data, and the rows of its runs."""
        return self.size + RUN_COST_BYTES * self.run_count

    def listed(self) -> "Self | ListedPiece":
        """The same, its runs listed one by one."""
        return self

    def grain(self, count: int) -> int:
        """The most of its bytes, up to `count`, after which it is cut at no cost; may be 0."""
        return count


class RegularInMemory(PieceOfSubfile):
    """A piece whose bytes lie in memory in few series of blocks of one size at one distance."""

    @abstractmethod
    def _blocks(self) -> Iterator[tuple[int, int, int, int]]:
        """Where it lies in memory: place, bytes, how many such blocks there are, and how far apart."""

    def vectors(self, memory: Bytes) -> list[memoryview]:
        view = memory.data
        return [
            view[place : place + size]
            for start, size, rows, step in self._blocks()
            for place in range(start, start + rows * step, step)
        ]

    def _spans(self, memory: Bytes) -> Iterator[tuple[npt.NDArray[np.void], int, int]]:
        """Places in memory as items that are copied whole (a quarter faster than rows of bytes), and where in the
        stream they begin and end."""
        place = 0
        for start, size, rows, step in self._blocks():
            item, end = np.dtype((np.void, size)), place + rows * size
            yield np.ndarray((rows,), item, memory.data, start, (step,)), place, end
            place = end

    def gather(self, memory: Bytes, stream: Bytes) -> None:
        for there, start, end in self._spans(memory):
            np.copyto(stream[start:end].view(there.dtype), there)

    def scatter(self, memory: Bytes, stream: Bytes) -> None:
        for there, start, end in self._spans(memory):
            np.copyto(there, stream[start:end].view(there.dtype))


class StripedPiece(RegularInMemory):
    """Bytes [low, high) of a subfile whose place in memory is their place in the file plus `shift`."""

    run_count = 1

    def __init__(self, layout: Layout, subfile: int, low: int, high: int, shift: int) -> None:
        self._layout, self.subfile, self._low, self._high, self._shift = (
            layout,
            subfile,
            low,
            high,
            shift,
        )
        self.size, unit = high - low, layout.stripe_unit
        self.fragments = 1 if layout.subfiles == 1 else (high - 1) // unit - low // unit + 1

    @property
    def bounds(self) -> tuple[int, int]:
        """From where to where in the subfile it reaches."""
        return self._low, self._high

    def rows(self) -> Rows:
        """Its runs as rows of a message, the number of the subfile in the place of a handle."""
        return np.array([(self.subfile, self.size, self._low)], dtype=RUN_TYPE)

    def fitting(self, room_bytes: int) -> int:
        """How many of its bytes go into a message with `room_bytes` left, the cost of the runs included; may be 0."""
        room = room_bytes - RUN_COST_BYTES
        if room >= self.size:
            return self.size
        for grain in (ALIGNED_BYTES, PAGE_BYTES):
            whole = (self._low + room) // grain * grain - self._low
            if whole > room // 2:
                return whole
        return max(room, 0)

    def slice(self, start: int, end: int) -> "StripedPiece":
        return StripedPiece(
            self._layout, self.subfile, self._low + start, self._low + end, self._shift
        )

    @property
    def start(self) -> int:
        """Where its first byte lies in memory."""
        return self._layout.logical_offset(self.subfile, self._low) + self._shift

    def _blocks(self) -> Iterator[tuple[int, int, int, int]]:
        unit, round_bytes, start, left = (
            self._layout.stripe_unit,
            self._layout.round_bytes,
            self.start,
            self.size,
        )
        if self._layout.subfiles == 1:
            yield start, left, 1, round_bytes
            return
        inside = self._low % unit
        if inside or left < unit:
            first = min(unit - inside, left)
            yield start, first, 1, round_bytes
            start, left = start + round_bytes - inside, left - first
        rows, last = divmod(left, unit)
        if rows:
            yield start, unit, rows, round_bytes
        if last:
            yield start + rows * round_bytes, last, 1, round_bytes


class ListedPiece(PieceOfSubfile):
    """Runs of a subfile and fragments of memory, both as lists over one stream.

    `run_offset[r]` in the subfile, `run_place[r]` in the stream; `source[f]` in memory, `place[f]` in the stream; the
    places have one entry more, the end. Places need not begin at 0.
    """

    def __init__(
        self,
        subfile: int,
        run_offset: Integers,
        run_place: Integers,
        source: Integers,
        place: Integers,
    ) -> None:
        self.subfile = subfile
        self._run_offset, self._run_place, self._source, self._place = (
            run_offset,
            run_place,
            source,
            place,
        )
        self.size, self.fragments, self.run_count = (
            int(place[-1] - place[0]),
            len(source),
            len(run_offset),
        )

    @property
    def bounds(self) -> tuple[int, int]:
        return int(self._run_offset[0]), int(
            self._run_offset[-1] + self._run_place[-1] - self._run_place[-2]
        )

    def rows(self) -> Rows:
        rows = np.empty(self.run_count, dtype=RUN_TYPE)
        rows["handle"], rows["size"], rows["offset"] = (
            self.subfile,
            np.diff(self._run_place),
            self._run_offset,
        )
        return rows

    def fitting(self, room_bytes: int) -> int:
        ends = self._run_place[1:] - self._run_place[0]
        cost = ends + RUN_COST_BYTES * np.arange(1, len(ends) + 1)
        whole = int(np.searchsorted(cost, room_bytes, side="right"))
        done = int(ends[whole - 1]) if whole else 0
        if whole == len(ends):
            return done
        rest = room_bytes - done - RUN_COST_BYTES * (whole + 1)
        return done + rest if rest >= PAGE_BYTES or (rest > 0 and not done) else done

    def slice(self, start: int, end: int) -> "ListedPiece":
        start, end = start + int(self._place[0]), end + int(self._place[0])
        runs = _cut(self._run_offset, self._run_place, start, end)
        fragments = _cut(self._source, self._place, start, end)
        return ListedPiece(self.subfile, *runs, *fragments)

    def vectors(self, memory: Bytes) -> list[memoryview]:
        view = memory.data
        return [
            view[start : start + size]
            for start, size in zip(
                self._source.tolist(), np.diff(self._place).tolist(), strict=True
            )
        ]

    def gather(self, memory: Bytes, stream: Bytes) -> None:
        from sfio_emu.layout.kernels import gather_list

        gather_list(memory, self._source, self._place, stream)

    def scatter(self, memory: Bytes, stream: Bytes) -> None:
        from sfio_emu.layout.kernels import scatter_list

        scatter_list(memory, self._source, self._place, stream)


def _cut(where: Integers, place: Integers, start: int, end: int) -> tuple[Integers, Integers]:
    """The list between the places `start` and `end` of the stream, its first and last entry cut."""
    first = int(np.searchsorted(place, start, side="right")) - 1
    last = int(np.searchsorted(place, end, side="left"))
    where, place = where[first:last], place[first : last + 1]
    if start == place[0] and end == place[-1]:
        return where, place
    where, place = where.copy(), place.copy()
    where[0] += start - place[0]
    place[0], place[-1] = start, end
    return where, place


STRIDED_COST_BYTES = 32
MAX_PERIOD = 256


class RegularPiece(RegularInMemory):
    """`count` runs of `run_bytes`: where the first begins and how far apart they are (bytes), ``at`` in the subfile,
    ``source`` in memory."""

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
        self.subfile, self._run_bytes, self.run_count, self.fragments = (
            subfile,
            run_bytes,
            count,
            count,
        )
        (self._low, self._step), (self._source, self._source_step) = at, source
        self.size = run_bytes * count

    @property
    def cost_bytes(self) -> int:
        """A listener takes no more runs in a message than could be listed in it."""
        return STRIDED_COST_BYTES + max(self.size, RUN_COST_BYTES * self.run_count)

    @property
    def bounds(self) -> tuple[int, int]:
        return self._low, self._low + (self.run_count - 1) * self._step + self._run_bytes

    def rows(self) -> Rows:
        """One row for all."""
        return np.array(
            [(self.subfile, self._run_bytes, self._low, self._step, self.run_count, 0)],
            dtype=STRIDED_TYPE,
        )

    def fitting(self, room_bytes: int) -> int:
        whole = (room_bytes - STRIDED_COST_BYTES) // max(self._run_bytes, RUN_COST_BYTES)
        return max(0, min(self.run_count, whole)) * self._run_bytes

    def grain(self, count: int) -> int:
        return (
            count // self._run_bytes * self._run_bytes if self._run_bytes <= PAGE_BYTES else count
        )

    def slice(self, start: int, end: int) -> "RegularPiece | ListedPiece":
        first, inside = divmod(start, self._run_bytes)
        if inside or end % self._run_bytes:
            return self.listed().slice(start, end)
        return RegularPiece(
            self.subfile, self._run_bytes, end // self._run_bytes - first,
            at=(self._low + first * self._step, self._step),
            source=(self._source + first * self._source_step, self._source_step),
        )  # fmt: skip

    def listed(self) -> ListedPiece:
        numbers = np.arange(self.run_count + 1, dtype=np.int64)
        offsets, source = (
            self._low + self._step * numbers,
            self._source + self._source_step * numbers,
        )
        place = self._run_bytes * numbers
        return ListedPiece(self.subfile, offsets[:-1], place, source[:-1], place)

    def _blocks(self) -> Iterator[tuple[int, int, int, int]]:
        yield self._source, self._run_bytes, self.run_count, self._source_step


Piece = StripedPiece | ListedPiece | RegularPiece


def regular_pieces(requests: Requests, layout: Layout, subfile: int) -> Sequence[Piece] | None:
    """The runs of regular requests on a subfile, where they are regular there, too; None where they may not be.

    The blocks' places within a round of the stripes recur; of one recurrence no more than one block may lie on the
    subfile.
    """
    if requests.regular is None:
        return None
    distance, source_step, size = requests.regular
    unit, round_bytes = layout.stripe_unit, layout.round_bytes
    period = round_bytes // gcd(distance, round_bytes)
    if period > min(MAX_PERIOD, len(requests)):
        return None
    first, memory = requests.first
    places = [(first + number * distance) % round_bytes for number in range(period)]
    mine = [number for number, place in enumerate(places) if place // unit == subfile]
    step = distance * period // round_bytes * unit
    if len(mine) > 1 or step == size or any(place % unit + size > unit for place in places):
        return None
    return [
        RegularPiece(
            subfile, size, (len(requests) - 1 - number) // period + 1,
            at=(layout.share(first + number * distance, subfile), step),
            source=(memory + number * source_step, period * source_step),
        )
        for number in mine
    ]  # fmt: skip


LISTED_FROM = 33
MAX_BATCH = 1 << 16


def pieces_of(requests: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    """The pieces of sorted, disjoint requests on a subfile, in the order of the subfile.

    Where `merge` is off each fragment is a run of its own. Memory: the lists of at most 65536 fragments at a time.
    """
    if merge and len(requests) < LISTED_FROM:
        columns = zip(
            requests.offsets.tolist(),
            requests.memory.tolist(),
            requests.sizes.tolist(),
            strict=True,
        )
        yield from striped_pieces(columns, layout, subfile)
        return
    regular = regular_pieces(requests, layout, subfile) if merge else None
    if regular is not None:
        yield from regular
        return
    yield from _listed(requests, layout, subfile, merge=merge)


def striped_pieces(
    blocks: Iterable[tuple[int, int, int]], layout: Layout, subfile: int
) -> Iterator[StripedPiece]:
    """What a subfile has of blocks: each its offset in the file, its place in memory, its bytes."""
    for offset, memory, size in blocks:
        low, high = layout.share(offset, subfile), layout.share(offset + size, subfile)
        if high > low:
            yield StripedPiece(layout, subfile, low, high, memory - offset)


def _listed(requests: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    batch_bytes = layout.round_bytes * MAX_BATCH
    start = 0
    while start < len(requests):
        end = min(start + MAX_BATCH, len(requests))
        total = np.cumsum(requests.sizes[start:end])
        end = start + max(1, int(np.searchsorted(total, batch_bytes, side="right")))
        batch = requests.chosen(slice(start, end))
        if end == start + 1 and merge:
            yield from striped_pieces([(*batch.first, int(batch.sizes[0]))], layout, subfile)
        else:
            yield from _list_batch(batch, layout, subfile, merge=merge)
        start = end


def _list_batch(batch: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    from sfio_emu.layout.kernels import list_fragments

    shape = layout.stripe_unit, layout.subfiles, subfile
    most = int((batch.sizes // layout.round_bytes).sum()) + 2 * len(
        batch
    )  # of the fragments of a block on one subfile
    run_offset, run_place, place, source = (np.empty(most + 1, dtype=np.int64) for _ in range(4))
    runs, fragments = list_fragments(
        batch.offsets,
        batch.memory,
        batch.sizes,
        *shape,
        merge,
        run_offset,
        run_place,
        place,
        source,
    )
    if runs:
        yield ListedPiece(
            subfile,
            run_offset[:runs],
            run_place[: runs + 1],
            source[:fragments],
            place[: fragments + 1],
        )
