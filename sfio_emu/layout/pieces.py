"""Parts of one subfile and where their bytes lie in the caller's memory: regular stripes, or a list of fragments.
Copies follow the rule: strided below 1 KB in regular stripes, vectors from 1 KB, the compiled list for many blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfio_emu.layout.requests import Integers, Requests
from sfio_emu.layout.striping import Layout

Bytes = npt.NDArray[np.uint8]
VECTOR_BYTES = 1024
PAGE_BYTES = 4096
ALIGNED_BYTES = 512 << 10  # long messages end there: a multiple of all windows of `block_stage`
RUN_COST_BYTES = 16
STRIDED_COST_BYTES = 32
LISTED_FROM = 33
MAX_BATCH = 1 << 16
MAX_PERIOD = 256


class Piece(Protocol):
    """`size` bytes of `subfile`, a stream in the order of the subfile, in one run or several."""

    subfile: int
    size: int

    @property
    def fragments(self) -> int: ...
    @property
    def fragment_bytes(self) -> float: ...
    @property
    def way(self) -> str: ...
    @property
    def single_run(self) -> bool: ...
    @property
    def bounds(self) -> tuple[int, int]:
        """From where to where in the subfile it reaches."""
        ...

    @property
    def alike(self) -> bool:
        """Whether its runs are all alike, so that they are told at once."""
        ...

    @property
    def cost_bytes(self) -> int:
        """What it takes of a message: its data, and what tells its runs."""
        ...

    def listed(self) -> Piece:
        """The same, its runs told one by one."""
        ...

    @property
    def run_count(self) -> int: ...
    def runs(self) -> tuple[list[int], list[int]]:
        """Offsets in the subfile and sizes."""
        ...

    def run_arrays(self) -> tuple[Integers, Integers]:
        """The same as arrays of shape (run_count,); the sizes may be changed."""
        ...

    def fitting(self, room_bytes: int) -> int:
        """How many of its bytes go into a message with `room_bytes` left, the cost of the runs included; may be 0."""
        ...

    def grain(self, count: int) -> int:
        """The most of its bytes, up to `count`, after which it is cut at no cost; may be 0."""
        ...

    def part(self, start: int, end: int) -> Piece: ...
    def vectors(self, memory: Bytes) -> list[memoryview]: ...
    def gather(self, memory: Bytes, stream: Bytes) -> None: ...
    def scatter(self, memory: Bytes, stream: Bytes) -> None: ...


class StripedPiece:
    """Bytes [low, high) of a subfile whose place in memory is their place in the file plus `shift`."""

    way = "strided"
    single_run = True
    run_count = 1
    alike = False

    def __init__(self, layout: Layout, subfile: int, low: int, high: int, shift: int) -> None:
        self._layout, self.subfile, self._low, self._high, self._shift = layout, subfile, low, high, shift
        self.size = high - low

    @property
    def cost_bytes(self) -> int:
        return self.size + RUN_COST_BYTES

    def listed(self) -> StripedPiece:
        return self

    @property
    def fragments(self) -> int:
        if self._layout.subfiles == 1:
            return 1
        return (self._high - 1) // self._layout.stripe_unit - self._low // self._layout.stripe_unit + 1

    @property
    def fragment_bytes(self) -> float:
        return self.size / self.fragments

    @property
    def bounds(self) -> tuple[int, int]:
        return self._low, self._high

    def runs(self) -> tuple[list[int], list[int]]:
        return [self._low], [self.size]

    def run_arrays(self) -> tuple[Integers, Integers]:
        return np.array([self._low], dtype=np.int64), np.array([self.size], dtype=np.int64)

    def fitting(self, room_bytes: int) -> int:
        room = room_bytes - RUN_COST_BYTES
        if room >= self.size:
            return self.size
        for grain in (ALIGNED_BYTES, PAGE_BYTES):
            whole = (self._low + room) // grain * grain - self._low
            if whole > room // 2:
                return whole
        return max(room, 0)

    def grain(self, count: int) -> int:
        return count

    def part(self, start: int, end: int) -> StripedPiece:
        return StripedPiece(self._layout, self.subfile, self._low + start, self._low + end, self._shift)

    def _place(self, local: int) -> int:
        return self._layout.logical_offset(self.subfile, local) + self._shift

    def vectors(self, memory: Bytes) -> list[memoryview]:
        view = memory.data
        unit, step = self._layout.stripe_unit, self._layout.round_bytes
        if self._layout.subfiles == 1:
            return [view[self._place(self._low) : self._place(self._low) + self.size]]
        start = self._place(self._low)
        first = min(unit - self._low % unit, self.size)
        pieces = [view[start : start + first]]
        start += step - self._low % unit
        whole, last = divmod(self.size - first, unit)
        pieces += [view[place : place + unit] for place in range(start, start + whole * step, step)]
        if last:
            pieces.append(view[start + whole * step : start + whole * step + last])
        return pieces

    def _spans(self, memory: Bytes) -> Iterator[tuple[npt.NDArray[np.void] | Bytes, int, int]]:
        """Places in memory, and where in the stream they begin and end: bytes, or items of one stripe unit each
        (copied item by item, which is a quarter faster than rows of bytes)."""
        unit, step = self._layout.stripe_unit, self._layout.round_bytes
        start = self._place(self._low)
        if self._layout.subfiles == 1:
            yield memory[start : start + self.size], 0, self.size
            return
        place = 0
        inside = self._low % unit
        if inside or self.size < unit:
            place = min(unit - inside, self.size)
            yield memory[start : start + place], 0, place
            start += step - inside
        rows = (self.size - place) // unit
        if rows:
            end = place + rows * unit
            yield np.ndarray((rows,), np.dtype((np.void, unit)), memory.data, start, (step,)), place, end
            place, start = end, start + rows * step
        if place < self.size:
            yield memory[start : start + self.size - place], place, self.size

    def gather(self, memory: Bytes, stream: Bytes) -> None:
        for there, start, end in self._spans(memory):
            np.copyto(stream[start:end].view(there.dtype), there)

    def scatter(self, memory: Bytes, stream: Bytes) -> None:
        for there, start, end in self._spans(memory):
            np.copyto(there, stream[start:end].view(there.dtype))


class ListedPiece:
    """Runs of a subfile and fragments of memory, both as lists over one stream.

    `run_offset[r]` in the subfile, `run_place[r]` in the stream; `source[f]` in memory, `place[f]` in the stream; the
    places have one entry more, the end. Places need not begin at 0.
    """

    way = "listed"
    alike = False

    def __init__(
        self, subfile: int, run_offset: Integers, run_place: Integers, source: Integers, place: Integers
    ) -> None:
        self.subfile = subfile
        self._run_offset, self._run_place, self._source, self._place = run_offset, run_place, source, place
        self.size = int(place[-1] - place[0])

    @property
    def cost_bytes(self) -> int:
        return self.size + RUN_COST_BYTES * self.run_count

    def listed(self) -> ListedPiece:
        return self

    @property
    def fragments(self) -> int:
        return len(self._source)

    @property
    def fragment_bytes(self) -> float:
        return self.size / len(self._source)

    @property
    def single_run(self) -> bool:
        return len(self._run_offset) == 1

    @property
    def bounds(self) -> tuple[int, int]:
        return int(self._run_offset[0]), int(self._run_offset[-1] + self._run_place[-1] - self._run_place[-2])

    @property
    def run_count(self) -> int:
        return len(self._run_offset)

    def runs(self) -> tuple[list[int], list[int]]:
        return self._run_offset.tolist(), np.diff(self._run_place).tolist()

    def run_arrays(self) -> tuple[Integers, Integers]:
        return self._run_offset, np.diff(self._run_place)

    def fitting(self, room_bytes: int) -> int:
        ends = self._run_place[1:] - self._run_place[0]
        cost = ends + RUN_COST_BYTES * np.arange(1, len(ends) + 1)
        whole = int(np.searchsorted(cost, room_bytes, side="right"))
        done = int(ends[whole - 1]) if whole else 0
        if whole == len(ends):
            return done
        rest = room_bytes - done - RUN_COST_BYTES * (whole + 1)
        return done + rest if rest >= PAGE_BYTES or (rest > 0 and not done) else done

    def grain(self, count: int) -> int:
        return count

    def part(self, start: int, end: int) -> ListedPiece:
        start, end = start + int(self._place[0]), end + int(self._place[0])
        runs = _cut(self._run_offset, self._run_place, start, end)
        fragments = _cut(self._source, self._place, start, end)
        return ListedPiece(self.subfile, *runs, *fragments)

    def vectors(self, memory: Bytes) -> list[memoryview]:
        view = memory.data
        return [
            view[start : start + size]
            for start, size in zip(self._source.tolist(), np.diff(self._place).tolist(), strict=True)
        ]

    def gather(self, memory: Bytes, stream: Bytes) -> None:
        from sfio_emu.layout.kernels import gather_list

        gather_list(memory, self._source, self._place, stream)

    def scatter(self, memory: Bytes, stream: Bytes) -> None:
        from sfio_emu.layout.kernels import scatter_list

        scatter_list(memory, self._source, self._place, stream)


class RegularPiece:
    """`count` runs of `run_bytes` in a subfile, each `step` behind the one before; in memory from `source`, `source_step` apart."""

    way = "strided"
    alike = True

    def __init__(
        self, subfile: int, run_bytes: int, count: int, *, low: int, step: int, source: int, source_step: int
    ) -> None:
        self.subfile, self._run_bytes, self.run_count = subfile, run_bytes, count
        self._low, self._step, self._source, self._source_step = low, step, source, source_step
        self.size = run_bytes * count

    @property
    def strided(self) -> tuple[int, int, int, int]:
        """How long each run is, where in the subfile the first begins, how far apart they are, and how many."""
        return self._run_bytes, self._low, self._step, self.run_count

    @property
    def cost_bytes(self) -> int:
        """A listener takes no more runs in a message than could be listed in it."""
        return STRIDED_COST_BYTES + max(self.size, RUN_COST_BYTES * self.run_count)

    @property
    def fragments(self) -> int:
        return self.run_count

    @property
    def fragment_bytes(self) -> float:
        return self._run_bytes

    @property
    def single_run(self) -> bool:
        return self.run_count == 1

    @property
    def bounds(self) -> tuple[int, int]:
        return self._low, self._low + (self.run_count - 1) * self._step + self._run_bytes

    def runs(self) -> tuple[list[int], list[int]]:
        return self._offsets().tolist(), [self._run_bytes] * self.run_count

    def run_arrays(self) -> tuple[Integers, Integers]:
        return self._offsets(), np.full(self.run_count, self._run_bytes, dtype=np.int64)

    def _offsets(self) -> Integers:
        return self._low + self._step * np.arange(self.run_count, dtype=np.int64)

    def fitting(self, room_bytes: int) -> int:
        whole = (room_bytes - STRIDED_COST_BYTES) // max(self._run_bytes, RUN_COST_BYTES)
        return max(0, min(self.run_count, whole)) * self._run_bytes

    def grain(self, count: int) -> int:
        return count // self._run_bytes * self._run_bytes if self._run_bytes <= PAGE_BYTES else count

    def part(self, start: int, end: int) -> Piece:
        first, inside = divmod(start, self._run_bytes)
        if inside or end % self._run_bytes:
            return self.listed().part(start, end)
        return RegularPiece(
            self.subfile, self._run_bytes, end // self._run_bytes - first, low=self._low + first * self._step,
            step=self._step, source=self._source + first * self._source_step, source_step=self._source_step,
        )  # fmt: skip

    def listed(self) -> ListedPiece:
        place = self._run_bytes * np.arange(self.run_count + 1, dtype=np.int64)
        source = self._source + self._source_step * np.arange(self.run_count, dtype=np.int64)
        return ListedPiece(self.subfile, self._offsets(), place, source, place)

    def vectors(self, memory: Bytes) -> list[memoryview]:
        view, end = memory.data, self._source + self.run_count * self._source_step
        return [view[place : place + self._run_bytes] for place in range(self._source, end, self._source_step)]

    def _spread(self, memory: Bytes) -> npt.NDArray[np.void]:
        item = np.dtype((np.void, self._run_bytes))
        return np.ndarray((self.run_count,), item, memory.data, self._source, (self._source_step,))

    def gather(self, memory: Bytes, stream: Bytes) -> None:
        there = self._spread(memory)
        np.copyto(stream.view(there.dtype), there)

    def scatter(self, memory: Bytes, stream: Bytes) -> None:
        there = self._spread(memory)
        np.copyto(there, stream.view(there.dtype))


def regular_pieces(requests: Requests, layout: Layout, subfile: int) -> Sequence[Piece] | None:
    """The runs of regular requests on a subfile, where they are regular there, too; None where they may not be.

    The blocks' places within a round of the stripes recur; of one recurrence no more than one block may lie on the subfile.
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
            low=layout.share(first + number * distance, subfile), step=step,
            source=memory + number * source_step, source_step=period * source_step,
        )
        for number in mine
    ]  # fmt: skip


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


def pieces_of(requests: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    """The pieces of sorted, disjoint requests on a subfile, in the order of the subfile.

    Where `merge` is off each fragment is a run of its own. Memory: the lists of at most 65536 fragments at a time.
    """
    if merge and len(requests) < LISTED_FROM:
        columns = zip(requests.offsets.tolist(), requests.memory.tolist(), requests.sizes.tolist(), strict=True)
        for offset, memory, size in columns:
            low, high = layout.share(offset, subfile), layout.share(offset + size, subfile)
            if high > low:
                yield StripedPiece(layout, subfile, low, high, memory - offset)
        return
    regular = regular_pieces(requests, layout, subfile) if merge else None
    if regular is not None:
        yield from regular
        return
    yield from _listed(requests, layout, subfile, merge=merge)


def _listed(requests: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    batch_bytes = layout.round_bytes * MAX_BATCH
    start = 0
    while start < len(requests):
        end = min(start + MAX_BATCH, len(requests))
        total = np.cumsum(requests.sizes[start:end])
        end = start + max(1, int(np.searchsorted(total, batch_bytes, side="right")))
        batch = requests.chosen(slice(start, end))
        if end == start + 1 and merge:
            offset, memory, size = int(batch.offsets[0]), int(batch.memory[0]), int(batch.sizes[0])
            low, high = layout.share(offset, subfile), layout.share(offset + size, subfile)
            if high > low:
                yield StripedPiece(layout, subfile, low, high, memory - offset)
        else:
            yield from _list_batch(batch, layout, subfile, merge=merge)
        start = end


def _list_batch(batch: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    from sfio_emu.layout.kernels import list_fragments

    shape = layout.stripe_unit, layout.subfiles, subfile
    most = int((batch.sizes // layout.round_bytes).sum()) + 2 * len(batch)  # of the fragments of a block on one subfile
    run_offset, run_place, place, source = (np.empty(most + 1, dtype=np.int64) for _ in range(4))
    runs, fragments = list_fragments(
        batch.offsets, batch.memory, batch.sizes, *shape, merge, run_offset, run_place, place, source
    )
    if runs:
        yield ListedPiece(subfile, run_offset[:runs], run_place[: runs + 1], source[:fragments], place[: fragments + 1])


__all__ = [
    "VECTOR_BYTES",
    "Bytes",
    "ListedPiece",
    "Piece",
    "RegularPiece",
    "StripedPiece",
    "pieces_of",
    "regular_pieces",
]
