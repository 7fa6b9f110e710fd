"""Parts of one subfile and where their bytes lie in the caller's memory: stripes of one block, or a list of fragments.
Copies follow the rule: strided below 1 KB in regular stripes, vectors from 1 KB, the compiled list for many blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sfio_emu.layout.requests import Integers
from sfio_emu.layout.striping import Layout
from sfio_emu.wire import RUN_TYPE

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.void]
VECTOR_BYTES = 1024
PAGE_BYTES = 4096
ALIGNED_BYTES = 512 << 10  # long messages end there
RUN_COST_BYTES = 16


class Piece:
    """`size` bytes of `subfile`, a stream in the order of the subfile, in one run or several; `alike`: its runs are all
    alike, so that one row of a message describes them."""

    subfile: int
    size: int
    fragments: int
    run_count: int
    copy_method: str = "listed"
    alike: bool = False

    @property
    def fragment_bytes(self) -> float:
        return self.size / self.fragments

    @property
    @abstractmethod
    def bounds(self) -> tuple[int, int]:
        """From where to where in the subfile it reaches."""

    @property
    def cost_bytes(self) -> int:
        """What it takes of a message: its data, and the rows of its runs."""
        return self.size + RUN_COST_BYTES * self.run_count

    def listed(self) -> Piece:
        """The same, its runs listed one by one."""
        return self

    @abstractmethod
    def rows(self) -> Rows:
        """Its runs as rows of a message, the number of the subfile in the place of a handle."""

    @abstractmethod
    def fitting(self, room_bytes: int) -> int:
        """How many of its bytes go into a message with `room_bytes` left, the cost of the runs included; may be 0."""

    def grain(self, count: int) -> int:
        """The most of its bytes, up to `count`, after which it is cut at no cost; may be 0."""
        return count

    @abstractmethod
    def slice(self, start: int, end: int) -> Piece: ...
    @abstractmethod
    def vectors(self, memory: Bytes) -> list[memoryview]: ...
    @abstractmethod
    def gather(self, memory: Bytes, stream: Bytes) -> None: ...
    @abstractmethod
    def scatter(self, memory: Bytes, stream: Bytes) -> None: ...


class StripedPiece(Piece):
    """Bytes [low, high) of a subfile whose place in memory is their place in the file plus `shift`."""

    copy_method = "strided"
    run_count = 1

    def __init__(self, layout: Layout, subfile: int, low: int, high: int, shift: int) -> None:
        self._layout, self.subfile, self._low, self._high, self._shift = layout, subfile, low, high, shift
        self.size, unit = high - low, layout.stripe_unit
        self.fragments = 1 if layout.subfiles == 1 else (high - 1) // unit - low // unit + 1

    @property
    def bounds(self) -> tuple[int, int]:
        return self._low, self._high

    def rows(self) -> Rows:
        return np.array([(self.subfile, self.size, self._low)], dtype=RUN_TYPE)

    def fitting(self, room_bytes: int) -> int:
        room = room_bytes - RUN_COST_BYTES
        if room >= self.size:
            return self.size
        for grain in (ALIGNED_BYTES, PAGE_BYTES):
            whole = (self._low + room) // grain * grain - self._low
            if whole > room // 2:
                return whole
        return max(room, 0)

    def slice(self, start: int, end: int) -> StripedPiece:
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


class ListedPiece(Piece):
    """Runs of a subfile and fragments of memory, both as lists over one stream.

    `run_offset[r]` in the subfile, `run_place[r]` in the stream; `source[f]` in memory, `place[f]` in the stream; the
    places have one entry more, the end. Places need not begin at 0.
    """

    def __init__(
        self, subfile: int, run_offset: Integers, run_place: Integers, source: Integers, place: Integers
    ) -> None:
        self.subfile = subfile
        self._run_offset, self._run_place, self._source, self._place = run_offset, run_place, source, place
        self.size, self.fragments, self.run_count = int(place[-1] - place[0]), len(source), len(run_offset)

    @property
    def bounds(self) -> tuple[int, int]:
        return int(self._run_offset[0]), int(self._run_offset[-1] + self._run_place[-1] - self._run_place[-2])

    def rows(self) -> Rows:
        rows = np.empty(self.run_count, dtype=RUN_TYPE)
        rows["handle"], rows["size"], rows["offset"] = self.subfile, np.diff(self._run_place), self._run_offset
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

    def slice(self, start: int, end: int) -> ListedPiece:
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
