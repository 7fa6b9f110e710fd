"""Many small runs of a subfile that lie near one another, moved at once: the span is read, the runs are copied from or
into it. Data sieving at the listener; being the only one that touches its files, it needs no lock to write a span
back."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sfio_emu import wire
from sfio_emu.wire import Malformed, Strided

MIN_RUNS = 16
MAX_GAP_BYTES = 4096  # a call of the disk costs as much as copying this through
WINDOW_BYTES = 256 << 10

Integers = npt.NDArray[np.int64]


class Window:
    """Runs of one subfile in the order of their offsets, apart from one another but near: bytes [low, high) of the
    subfile.

    `size`: of their data, which lie one after the other in the stream of the message.
    """

    __slots__ = ("_offsets", "_sizes", "high", "low", "size")

    def __init__(self, offsets: Integers, sizes: Integers) -> None:
        self.low, self.high = int(offsets[0]), int(offsets[-1] + sizes[-1])
        self.size = int(sizes.sum())
        self._offsets, self._sizes = offsets - self.low, sizes

    def scatter(self, stream: memoryview, span: memoryview) -> None:
        """Copy the data of the runs to their places in the span."""
        for target, source in self._pairs(span, stream):
            target[:] = source

    def gather(self, span: memoryview, stream: memoryview) -> None:
        """Copy the runs of the span to the stream."""
        for source, target in self._pairs(span, stream):
            target[:] = source

    def counts(self, present_bytes: int) -> Integers:
        """How many bytes of each run there are where the subfile ends `present_bytes` behind `low`."""
        return np.clip(present_bytes - self._offsets, 0, self._sizes)

    def _pairs(self, span: memoryview, stream: memoryview) -> Iterator[tuple[Any, Any]]:
        """Pairs of views of the same bytes, in the span and in the stream: of the runs between the first and the last
        as items that are copied whole, where they are regular."""
        offsets, sizes = self._offsets, self._sizes
        steps, size = np.diff(offsets[1:-1]), int(sizes[1])
        if len(steps) and bool((steps == steps[0]).all()) and bool((sizes[1:-1] == size).all()):
            rows, first, last = len(sizes) - 2, int(sizes[0]), int(sizes[-1])
            yield span[:first], stream[:first]
            item = np.dtype((np.void, size))
            there = np.ndarray((rows,), item, span, int(offsets[1]), (int(steps[0]),))
            yield there, np.ndarray((rows,), item, stream, first)
            yield (
                span[int(offsets[-1]) : int(offsets[-1]) + last],
                stream[self.size - last : self.size],
            )
            return
        place = 0
        for offset, length in zip(offsets.tolist(), sizes.tolist(), strict=True):
            yield span[offset : offset + length], stream[place : place + length]
            place += length


Part = tuple[int, int, int, Window | None]
"""(handle, size, offset, window): one run, or the runs of a window, whose data have `size` bytes together."""


def parts_of(body: memoryview, *, together: bool = True) -> list[Part]:
    """The runs of a message in the order of their data, those near one another `together`. Raises `Malformed`."""
    if not together or len(body) < MIN_RUNS * wire.RUN_BYTES:
        return [(handle, size, offset, None) for handle, size, offset in wire.decode_runs(body)]
    if len(body) % wire.RUN_BYTES:
        raise Malformed(f"a list of runs of {len(body)} bytes", fatal=False)
    table = np.frombuffer(bytes(body), dtype=wire.RUN_TYPE)
    if int(table["offset"].max()) > wire.MAX_OFFSET:
        raise Malformed("an offset beyond 2^62", fatal=False)
    handles, sizes, offsets = (
        table["handle"],
        table["size"].astype(np.int64),
        table["offset"].astype(np.int64),
    )
    ends = offsets + sizes
    gaps = offsets[1:] - ends[:-1]
    near = (
        (gaps > 0)
        & (gaps <= MAX_GAP_BYTES)
        & (handles[1:] == handles[:-1])
        & (sizes[1:] > 0)
        & (sizes[:-1] > 0)
    )
    borders = [0, *(np.flatnonzero(~near) + 1).tolist(), len(table)]
    parts: list[Part] = []
    for first, last in pairwise(borders):
        while first < last:
            end = first + int(
                np.searchsorted(ends[first:last], offsets[first] + WINDOW_BYTES, side="right")
            )
            if end - first >= MIN_RUNS:
                window = Window(offsets[first:end], sizes[first:end])
                parts.append((int(handles[first]), window.size, window.low, window))
            else:
                end = min(max(end, first + 1), last)
                columns = (
                    handles[first:end].tolist(),
                    sizes[first:end].tolist(),
                    offsets[first:end].tolist(),
                )
                parts += [
                    (handle, size, offset, None)
                    for handle, size, offset in zip(*columns, strict=True)
                ]
            first = end
    return parts


def strided_parts(
    runs: Sequence[Strided], *, together: bool = True
) -> tuple[list[Part], list[int]]:
    """The parts of strided runs in the order of their data, and with which of the blocks in them each begins."""
    parts: list[Part] = []
    firsts: list[int] = []
    blocks = 0
    for handle, size, offset, distance, count in runs:
        firsts.append(blocks)
        blocks += 1 if size == distance else count
        rows = (
            (WINDOW_BYTES - size) // distance + 1 if size < distance <= size + MAX_GAP_BYTES else 0
        )
        if count == 1 or size == distance:
            parts.append((handle, size * count, offset, None))
        elif together and min(rows, count) >= MIN_RUNS:
            for first in range(0, count, rows):
                numbers = np.arange(first, min(first + rows, count), dtype=np.int64)
                window = Window(
                    offset + distance * numbers, np.full(len(numbers), size, dtype=np.int64)
                )
                parts.append((handle, window.size, window.low, window))
        else:
            parts += [(handle, size, offset + number * distance, None) for number in range(count)]
    return parts, firsts
