"""The requests of one call: blocks of the file and their positions in memory.

They are sorted, relieved of overlaps, and merged if they are adjacent both in the file and in
memory (`sortcache` and `bkmerge` of Gabrielyan 2007, section 2.7, figure 15). Striping preserves
the order, so that sorted requests are sorted in every subfile.
"""

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sfio_emu.errors import UsageError, whole_number
from sfio_emu.layout.striping import MAX_OFFSET
from sfio_emu.settings import Settings

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Requests:
    """Blocks of the file and their positions in the caller's memory; none is empty.

    Attributes:
        offsets: The offset of each block in the file, in bytes.
        memory: The offset of each block in memory, in bytes.
        sizes: The size of each block in bytes.
    """

    offsets: Integers
    memory: Integers
    sizes: Integers

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def first(self) -> tuple[int, int]:
        """The offsets of the first block in the file and in memory."""
        return int(self.offsets[0]), int(self.memory[0])

    @property
    def memory_bounds(self) -> tuple[int, int]:
        """The offsets in memory of the first byte and behind the last; (0, 0) without blocks."""
        if not len(self):
            return 0, 0
        return int(self.memory.min()), int((self.memory + self.sizes).max())

    @cached_property
    def end(self) -> int:
        """The offset in the file behind the last byte; 0 without blocks."""
        return int((self.offsets + self.sizes).max()) if len(self.offsets) else 0

    @cached_property
    def total_bytes(self) -> int:
        """The sum of the sizes."""
        return int(self.sizes.sum())

    @cached_property
    def regular(self) -> tuple[int, int, int] | None:
        """The regular structure of the blocks, if they have one and there are at least three.

        The value is the distance of consecutive blocks in the file, their distance in memory, and
        their size, all in bytes; or None if these are not the same for all blocks.
        """
        if len(self) < 3:
            return None
        size = int(self.sizes[0])
        file_step = _possible_step(self.offsets, size)
        memory_step = _possible_step(self.memory, size)
        if file_step is None or memory_step is None:
            return None
        is_regular = (
            bool((self.sizes == size).all())
            and _has_step(self.offsets, file_step)
            and _has_step(self.memory, memory_step)
        )
        return (file_step, memory_step, size) if is_regular else None

    def chosen(self, which: npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice) -> "Requests":
        """Return the blocks that a numpy index or mask selects."""
        return Requests(
            offsets=self.offsets[which], memory=self.memory[which], sizes=self.sizes[which]
        )


def _possible_step(positions: Integers, size: int) -> int | None:
    """Return the distance of the first two blocks, or None if not all blocks can have it.

    Only the first two and the last position are read, so that most irregular requests are
    recognised at once.
    """
    step = int(positions[1] - positions[0])
    if step < size or int(positions[-1] - positions[0]) != step * (len(positions) - 1):
        return None
    return step


def _has_step(positions: Integers, step: int) -> bool:
    return bool((positions[1:] - positions[:-1] == step).all())


# Copies in memory after a read: offset of the source, offset of the target, size, in bytes.
Copies = tuple[tuple[int, int, int], ...]


def make_requests(offsets: npt.ArrayLike, memory: npt.ArrayLike, sizes: npt.ArrayLike) -> Requests:
    """Return the blocks of a call in the caller's order, without the empty ones.

    Args:
        offsets: The offset of each block in the file, in bytes.
        memory: The offset of each block in memory, in bytes. It may be negative.
        sizes: The size of each block in bytes.

    Raises:
        UsageError: The lists have different lengths, or a value is not a whole number, negative,
            or too large.
    """
    file_offsets = _whole_numbers(offsets, "offset", 0)
    memory_offsets = _whole_numbers(memory, "place", -MAX_OFFSET)
    block_sizes = _whole_numbers(sizes, "size", 0)
    if not len(file_offsets) == len(memory_offsets) == len(block_sizes):
        raise UsageError(
            f"{len(file_offsets)} offsets for {len(block_sizes)} sizes: give one of each per block"
        )
    _check_range("offset", file_offsets)
    _check_range("size", block_sizes)
    requests = Requests(offsets=file_offsets, memory=memory_offsets, sizes=block_sizes)
    if len(block_sizes) and int(block_sizes.min()) == 0:
        requests = requests.chosen(block_sizes > 0)
    if len(requests) and requests.end > MAX_OFFSET:
        raise UsageError("a block ends beyond 2^62 bytes: no file is that large")
    return requests


def _check_range(name: str, values: Integers) -> None:
    """Check that all values are from 0 to 2^62."""
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) <= MAX_OFFSET:
        number = int(np.flatnonzero((values < 0) | (values > MAX_OFFSET))[0])
        raise UsageError(
            f"the {name} of block {number} is {int(values[number])}: it must be 0 to 2^62"
        )


def _whole_numbers(values: npt.ArrayLike, name: str, minimum: int) -> Integers:
    """Convert values to int64.

    Args:
        values: One value per block.
        name: The name of a value in error messages.
        minimum: The smallest accepted value, if the values are not integers of numpy already.

    Raises:
        UsageError: A value is not a whole number, or does not fit into int64.
    """
    try:
        array = np.asarray(values).reshape(-1)
    except ValueError:
        raise UsageError(
            f"the {name}s are lists of different lengths: give one whole number per block"
        ) from None
    if array.dtype.kind != "i" and len(array):
        objects = np.asarray(values, dtype=object).reshape(-1)
        numbers = [
            whole_number(value, f"{name} of block {number}", minimum)
            for number, value in enumerate(objects)
        ]
        array = np.array(numbers)
    return np.require(array, np.int64, ["C", "A"])


def prepare(requests: Requests, settings: Settings, *, writing: bool) -> tuple[Requests, Copies]:
    """Sort requests, resolve overlaps, and merge blocks that are adjacent in file and memory.

    If blocks overlap, the last one in the order of the call determines what is written.

    Args:
        requests: The blocks of the call.
        settings: Whether to sort and to merge.
        writing: Whether the call writes.

    Returns:
        The blocks to transfer, and for a read the copies in memory to make afterwards, because
        bytes that several blocks request are read once.
    """
    if len(requests) < 2:
        return requests, ()
    if requests.regular is not None:
        distance, _, size = requests.regular
        if distance > size:
            # The blocks are sorted, and none touches another.
            return requests, ()
    copies: Copies = ()
    if settings.sort:
        unsorted = requests
        if bool(np.any(requests.offsets[1:] < requests.offsets[:-1])):
            requests = requests.chosen(np.argsort(requests.offsets, kind="stable"))
        if bool(np.any(requests.offsets[1:] < requests.offsets[:-1] + requests.sizes[:-1])):
            requests, copies = _without_overlaps(unsorted, writing=writing)
    if settings.merge:
        requests = _merge_adjacent(requests)
    return requests, copies


def _merge_adjacent(requests: Requests) -> Requests:
    """Merge blocks that follow one another without a gap both in the file and in memory."""
    adjacent = (requests.offsets[1:] == requests.offsets[:-1] + requests.sizes[:-1]) & (
        requests.memory[1:] == requests.memory[:-1] + requests.sizes[:-1]
    )
    if not adjacent.any():
        return requests
    starts = np.flatnonzero(np.concatenate(([True], ~adjacent)))
    return Requests(
        offsets=requests.offsets[starts],
        memory=requests.memory[starts],
        sizes=np.add.reduceat(requests.sizes, starts),
    )


def _without_overlaps(requests: Requests, *, writing: bool) -> tuple[Requests, Copies]:
    """Divide the requests so that each byte of the file occurs once.

    A byte is taken from (or read into) the last block that contains it. The algorithm sweeps over
    the file from bound to bound with a heap of the blocks that are open, in O(n log n) steps.

    Args:
        requests: The blocks in the order of the call.
        writing: Whether the call writes. If it does, there are no copies.

    Returns:
        The disjoint blocks, sorted by offset, and for a read the copies in memory that give the
        other blocks their bytes.
    """
    offsets = requests.offsets.tolist()
    memory = requests.memory.tolist()
    sizes = requests.sizes.tolist()
    ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
    order = sorted(range(len(offsets)), key=offsets.__getitem__)
    bounds = sorted({*offsets, *ends})

    # The heap has negative numbers of blocks, so that the last block of the call comes first.
    # A block stays in it after its end until it comes to the top.
    heap: list[int] = []
    disjoint: list[tuple[int, int, int]] = []
    copies: list[tuple[int, int, int]] = []
    begun_count = 0
    for start, end in pairwise(bounds):
        while begun_count < len(order) and offsets[order[begun_count]] <= start:
            heappush(heap, -order[begun_count])
            begun_count += 1
        while heap and ends[-heap[0]] <= start:
            heappop(heap)
        if not heap:
            continue
        owner = -heap[0]
        source = memory[owner] + start - offsets[owner]
        disjoint.append((start, source, end - start))
        if not writing:
            for block in {-item for item in heap if ends[-item] > start} - {owner}:
                copies.append((source, memory[block] + start - offsets[block], end - start))
    columns = np.array(disjoint, dtype=np.int64).T
    result = Requests(offsets=columns[0].copy(), memory=columns[1].copy(), sizes=columns[2].copy())
    return result, tuple(copies)
