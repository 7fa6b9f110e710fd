"""Data sieving: many small runs of a subfile that are close to one another are transferred as one.

The span that contains them is read, and the runs are copied from it or into it. As the listener is
the only process that uses its files, it can write a span back without a lock.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sfio_emu import wire
from sfio_emu.wire import Malformed, Strided

# The minimum number of runs in a span.
MIN_RUNS = 16

# The largest gap between two runs of a span. A disk call costs as much as copying this many bytes.
MAX_GAP_BYTES = 4096

# The maximum size of a span.
WINDOW_BYTES = 256 << 10

Integers = npt.NDArray[np.int64]


class Window:
    """Runs of one subfile in the order of their offsets, with small gaps between them.

    Args:
        offsets: The offset of each run in the subfile, in bytes, shape (n,).
        sizes: The size of each run in bytes, shape (n,).

    Attributes:
        low: The offset of the first byte in the subfile.
        high: The offset behind the last byte.
        size: The number of data bytes, which are consecutive in the stream of the message.
    """

    __slots__ = ("_offsets", "_sizes", "high", "low", "size")

    def __init__(self, offsets: Integers, sizes: Integers) -> None:
        self.low = int(offsets[0])
        self.high = int(offsets[-1] + sizes[-1])
        self.size = int(sizes.sum())
        self._offsets = offsets - self.low
        self._sizes = sizes

    def scatter(self, stream: memoryview, span: memoryview) -> None:
        """Copy the runs from the stream into the span."""
        for target, source in self._pairs(span, stream):
            target[:] = source

    def gather(self, span: memoryview, stream: memoryview) -> None:
        """Copy the runs from the span into the stream."""
        for source, target in self._pairs(span, stream):
            target[:] = source

    def counts(self, present_bytes: int) -> Integers:
        """Return how many bytes of each run exist, if the subfile ends `present_bytes` after `low`.

        The shape is (n,).
        """
        return np.clip(present_bytes - self._offsets, 0, self._sizes)

    def _pairs(self, span: memoryview, stream: memoryview) -> Iterator[tuple[Any, Any]]:
        """Yield pairs of views of the same bytes in the span and in the stream.

        If the runs between the first and the last are regular, one pair of arrays has all of them,
        with a run as an item that numpy copies as a whole.
        """
        offsets = self._offsets
        sizes = self._sizes
        steps = np.diff(offsets[1:-1])
        size = int(sizes[1])
        if len(steps) and bool((steps == steps[0]).all()) and bool((sizes[1:-1] == size).all()):
            number = len(sizes) - 2
            first = int(sizes[0])
            last = int(sizes[-1])
            last_offset = int(offsets[-1])
            item = np.dtype((np.void, size))
            in_span = np.ndarray((number,), item, span, int(offsets[1]), (int(steps[0]),))
            in_stream = np.ndarray((number,), item, stream, first)
            yield span[:first], stream[:first]
            yield in_span, in_stream
            yield span[last_offset : last_offset + last], stream[self.size - last : self.size]
            return
        position = 0
        for offset, length in zip(offsets.tolist(), sizes.tolist(), strict=True):
            yield span[offset : offset + length], stream[position : position + length]
            position += length


# One run, or the runs of a window: handle, number of data bytes, offset, and window or None. It is
# a plain tuple, because messages may have a hundred thousand runs.
Part = tuple[int, int, int, Window | None]


def parts_of(body: memoryview, *, together: bool = True) -> list[Part]:
    """Decode the runs of a message.

    Args:
        body: The body of the message.
        together: Put runs that are close to one another into windows.

    Returns:
        The parts, in the order of the data.

    Raises:
        Malformed: The body is not a list of runs, or an offset is too large.
    """
    if not together or len(body) < MIN_RUNS * wire.RUN_BYTES:
        return [(handle, size, offset, None) for handle, size, offset in wire.decode_runs(body)]
    if len(body) % wire.RUN_BYTES:
        raise Malformed(f"a list of runs of {len(body)} bytes", fatal=False)
    table = np.frombuffer(bytes(body), dtype=wire.RUN_TYPE)
    if int(table["offset"].max()) > wire.MAX_OFFSET:
        raise Malformed("an offset beyond 2^62", fatal=False)
    handles = table["handle"]
    sizes = table["size"].astype(np.int64)
    offsets = table["offset"].astype(np.int64)
    ends = offsets + sizes
    gaps = offsets[1:] - ends[:-1]
    is_near = (
        (gaps > 0)
        & (gaps <= MAX_GAP_BYTES)
        & (handles[1:] == handles[:-1])
        & (sizes[1:] > 0)
        & (sizes[:-1] > 0)
    )
    borders = [0, *(np.flatnonzero(~is_near) + 1).tolist(), len(table)]
    parts: list[Part] = []
    for group_start, group_end in pairwise(borders):
        first = group_start
        while first < group_end:
            window_end = offsets[first] + WINDOW_BYTES
            end = first + int(np.searchsorted(ends[first:group_end], window_end, side="right"))
            if end - first >= MIN_RUNS:
                window = Window(offsets[first:end], sizes[first:end])
                parts.append((int(handles[first]), window.size, window.low, window))
            else:
                # A run that is larger than a window is a part of its own.
                end = max(end, first + 1)
                columns = zip(
                    handles[first:end].tolist(),
                    sizes[first:end].tolist(),
                    offsets[first:end].tolist(),
                    strict=True,
                )
                parts += [(handle, size, offset, None) for handle, size, offset in columns]
            first = end
    return parts


def strided_parts(
    runs: Sequence[Strided], *, together: bool = True
) -> tuple[list[Part], list[int]]:
    """Return the parts of strided runs.

    Args:
        runs: The strided runs.
        together: Put runs that are close to one another into windows.

    Returns:
        The parts in the order of the data, and for each item of `runs` the index of its first
        block. A block is a run; adjacent runs are one block.
    """
    parts: list[Part] = []
    first_blocks: list[int] = []
    blocks = 0
    for handle, size, offset, distance, count in runs:
        first_blocks.append(blocks)
        is_contiguous = size == distance
        blocks += 1 if is_contiguous else count
        runs_per_window = 0
        if size < distance <= size + MAX_GAP_BYTES:
            runs_per_window = (WINDOW_BYTES - size) // distance + 1
        if count == 1 or is_contiguous:
            parts.append((handle, size * count, offset, None))
        elif together and min(runs_per_window, count) >= MIN_RUNS:
            for first in range(0, count, runs_per_window):
                numbers = np.arange(first, min(first + runs_per_window, count), dtype=np.int64)
                sizes = np.full(len(numbers), size, dtype=np.int64)
                window = Window(offset + distance * numbers, sizes)
                parts.append((handle, window.size, window.low, window))
        else:
            parts += [(handle, size, offset + number * distance, None) for number in range(count)]
    return parts, first_blocks
