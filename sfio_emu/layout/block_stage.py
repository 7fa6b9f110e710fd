"""A contiguous block on its way between memory and all its subfiles at once, window by window. Every byte of memory is
touched once, not once a subfile: parted over the stages of the subfiles (write), or joined from them (read)."""

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from sfio_emu.layout.piece import Bytes, StripedPiece
from sfio_emu.layout.striping import Layout

MAX_WINDOW_BYTES = 512 << 10  # a divisor of piece.ALIGNED_BYTES
MIN_WINDOW_BYTES = 64 << 10
STAGES_BYTES = 2 << 20
MIN_BLOCK_BYTES = 1 << 20
COMPILED_FROM_BYTES = 64 << 20  # numba takes half a second to import: smaller blocks do without, unless it is there
EVER = 2**62


def window_bytes(subfiles: int) -> int:
    """How much of each subfile is parted or joined at a time."""
    return max(MIN_WINDOW_BYTES, min(MAX_WINDOW_BYTES, 1 << (STAGES_BYTES // subfiles).bit_length() - 1))


class BlockStage:
    """Bytes [offset, offset + size) of a file, which begin at byte `place` of `memory`, and stages for its subfiles.

    Window k of a subfile is its bytes [k w, (k + 1) w), w being `window_bytes`. Each subfile has two stages, for even
    and for odd windows. One conversation may be ahead of the others; who is far ahead or behind is served alone.
    `room`: at least `room_bytes(layout.subfiles)` bytes for the stages.
    """

    def __init__(self, layout: Layout, memory: Bytes, offset: int, place: int, size: int, room: Bytes) -> None:
        count = layout.subfiles
        if not 0 <= place <= place + size <= len(memory):
            raise ValueError(f"a block of {size} bytes at {place} of a memory of {len(memory)}")
        self._layout, self._memory, self._shift = layout, memory, place - offset
        self._window = window_bytes(count)
        self._first = [layout.share(offset, subfile) for subfile in range(count)]
        self._last = [layout.share(offset + size, subfile) for subfile in range(count)]
        self._slots = room[: room_bytes(count)].reshape(2, count, self._window)
        self._views = [[row.data for row in slot] for slot in self._slots]
        self._turn = [min(self._first) // self._window - 1] * count
        self._in_use = list(self._turn)
        self._arrived: list[list[tuple[int, int, int] | None]] = [[None] * count, [None] * count]
        self._done = [-1 if low < high else EVER for low, high in zip(self._first, self._last, strict=True)]
        self._compiled = size >= COMPILED_FROM_BYTES or "numba" in sys.modules
        if self._compiled:
            start = self._slots.__array_interface__["data"][0]
            self._address = memory.__array_interface__["data"][0] + self._shift
            self._stages = [
                np.arange(count, dtype=np.int64) * self._window + start + slot * count * self._window for slot in (0, 1)
            ]
            self._bounds = np.array([self._first, self._last], dtype=np.int64)

    def parted(self, subfile: int, low: int, high: int) -> Iterator[tuple[memoryview]]:
        """Bytes [low, high) of a subfile, window by window; each is valid until the next is requested."""
        while low < high:
            number = low // self._window
            if self._in_use[subfile] < number:
                self._part(number, subfile)
            self._turn[subfile] = number
            start = number * self._window
            end = min(high, start + self._window)
            yield (self._views[number & 1][subfile][low - start : end - start],)
            low = end

    def _part(self, number: int, subfile: int) -> None:
        """Fill the stages of all subfiles whose next window this is and who have left the one before the last."""
        turn, in_use = self._turn, self._in_use
        chosen = [s for s in range(len(turn)) if s == subfile or (turn[s] == number - 1 and in_use[s] < number)]
        for s in chosen:
            in_use[s] = number
        self._copy(number, chosen, self._first, self._last, gather=True)

    def joined(self, subfile: int, low: int, high: int) -> Iterator[tuple[memoryview]]:
        """Places for bytes [low, high) of a subfile, window by window; each is full when the next is requested."""
        while low < high:
            number = low // self._window
            start = number * self._window
            end = min(high, start + self._window)
            arrived = self._arrived[number & 1]
            before = arrived[subfile]
            if before is not None and before[::2] != (number, low):
                self._join(number & 1, [subfile])
                before = None
            yield (self._views[number & 1][subfile][low - start : end - start],)
            arrived[subfile] = (number, before[1] if before is not None else low, end)
            if end == start + self._window or end == self._last[subfile]:
                self._done[subfile] = number if end < self._last[subfile] else EVER
                if min(self._done) >= number:
                    self._join(number & 1, [s for s, range_ in enumerate(arrived) if range_ and range_[0] == number])
            low = end

    def flush(self) -> None:
        """Bring to memory what has arrived of windows that others have not filled."""
        for slot in (0, 1):
            for subfile, arrived in enumerate(self._arrived[slot]):
                if arrived is not None:
                    self._join(slot, [subfile])

    def _join(self, slot: int, chosen: Sequence[int]) -> None:
        """Bring to memory what has arrived of one window of the chosen subfiles."""
        low, high = list(self._last), list(self._last)
        number = 0
        for subfile in chosen:
            arrived = self._arrived[slot][subfile]
            assert arrived is not None
            number, low[subfile], high[subfile] = arrived
            self._arrived[slot][subfile] = None
        self._copy(number, chosen, low, high, gather=False)

    def _copy(
        self, number: int, chosen: Sequence[int], low: Sequence[int], high: Sequence[int], *, gather: bool
    ) -> None:
        """Copy bytes [low, high) of the chosen subfiles, as far as they lie in a window, from or to memory."""
        start = number * self._window
        end = start + self._window
        slot = number & 1
        if self._compiled:
            from sfio_emu.layout.kernels import deal

            stages = self._stages[slot]
            if len(chosen) < len(stages):
                stages = np.zeros_like(stages)
                stages[chosen] = self._stages[slot][chosen]
            bounds = self._bounds if low is self._first else np.array([low, high], dtype=np.int64)
            deal(self._address, self._layout.stripe_unit, start, end, bounds, stages, gather)
            return
        for subfile in chosen:
            first, last = max(low[subfile], start), min(high[subfile], end)
            if first < last:
                piece = StripedPiece(self._layout, subfile, first, last, self._shift)
                stream = self._slots[slot, subfile, first - start : last - start]
                (piece.gather if gather else piece.scatter)(self._memory, stream)


def room_bytes(subfiles: int) -> int:
    """The stages of so many subfiles."""
    return 2 * subfiles * window_bytes(subfiles)
