"""The blocks of a striped file that each compute process accesses, and their shares of subfiles.

The blocks of all processes are disjoint and together cover the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from testbed.errors import InputError
from testbed.striping.options import Access

ACCESSES: tuple[Access, ...] = get_args(Access)
Integers = npt.NDArray[np.int64]
# Size of an element of a matrix.
ELEMENT_BYTES = 8
MAX_BLOCKS = 2_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """The blocks that one process accesses, in the order of its access.

    Attributes:
        offsets: The position of each block in the file, int64, shape (n,).
        sizes: The size of each block in bytes, int64, shape (n,).
    """

    offsets: Integers
    sizes: Integers

    @property
    def size_bytes(self) -> int:
        """The size of all blocks together."""
        return int(self.sizes.sum())

    def __len__(self) -> int:
        return len(self.offsets)


def access_blocks(
    access: Access, file_bytes: int, processes: int, *, block_bytes: int = 1000, seed: int = 1
) -> tuple[Blocks, ...]:
    """Return the blocks of every process.

    Args:
        access: How the file is divided. ``contiguous``: one region for each process, in order.
            ``strided``: blocks are distributed to the processes in turn, like records of a table.
            ``random``: the same blocks in random order, the same number for each process.
            ``matrix-columns``: the file is a square matrix of 8-byte elements, stored by rows, and
            each process has a band of its columns.
        file_bytes: The size of the file.
        processes: The number of processes.
        block_bytes: The size of a block of strided or random access.
        seed: The seed of random access.

    Raises:
        InputError: The access is unknown, the file or the block has no byte, or there would be more
            than MAX_BLOCKS blocks.

    >>> [b.offsets.tolist() for b in access_blocks("strided", 100, 2, block_bytes=25)]
    [[0, 50], [25, 75]]
    """
    if file_bytes < 1:
        raise InputError(f"--file-size {file_bytes}: give one byte or more")
    if access == "contiguous":
        return _contiguous(file_bytes, processes)
    if access == "matrix-columns":
        return _columns(file_bytes, processes)
    if access not in ("strided", "random"):
        raise InputError(f"--access {access!r}: give one of {', '.join(ACCESSES)}")
    if block_bytes < 1:
        raise InputError(f"--access-block-size {block_bytes}: give one byte or more")
    count = -(-file_bytes // block_bytes)
    _check_count(count, "--access-block-size")
    offsets = np.arange(count, dtype=np.int64) * block_bytes
    sizes = np.minimum(block_bytes, file_bytes - offsets)
    if access == "random":
        order = np.random.default_rng(seed).permutation(count)
        offsets = offsets[order]
        sizes = sizes[order]
    return tuple(_blocks(offsets[k::processes], sizes[k::processes]) for k in range(processes))


def matrix_side(file_bytes: int) -> int:
    """Return the number of rows of the largest square matrix that fits into the file.

    Raises:
        InputError: The file is smaller than one element.

    >>> matrix_side(800)
    10
    """
    side = int((file_bytes // ELEMENT_BYTES) ** 0.5)
    if side < 1:
        raise InputError(f"--file-size {file_bytes}: a matrix needs {ELEMENT_BYTES} bytes or more")
    return side


def bytes_per_subfile(blocks: Blocks, stripe_unit: int, subfiles: int) -> Integers:
    """Return the bytes that the blocks have in each subfile, shape (subfiles,).

    The running time is O(blocks * subfiles).

    >>> bytes_per_subfile(access_blocks("contiguous", 35, 1)[0], 5, 2).tolist()
    [20, 15]
    """
    spans = subfile_spans(blocks, stripe_unit, subfiles)
    return np.array([int((end - start).sum()) for start, end in spans], dtype=np.int64)


def subfile_spans(
    blocks: Blocks, stripe_unit: int, subfiles: int
) -> Iterator[tuple[Integers, Integers]]:
    """Yield, for each subfile, the positions at which the blocks start and end in it.

    A block starts and ends at the same position if it has no byte in the subfile.

    Args:
        blocks: The blocks.
        stripe_unit: The size of a stripe unit in bytes.
        subfiles: The number of subfiles.
    """
    ends = blocks.offsets + blocks.sizes
    for subfile in range(subfiles):
        start = _below(blocks.offsets, subfile, stripe_unit, subfiles)
        end = _below(ends, subfile, stripe_unit, subfiles)
        yield start, end


def _below(offsets: Integers, subfile: int, stripe_unit: int, subfiles: int) -> Integers:
    """Return how many of the file's bytes below each offset belong to the subfile."""
    row = stripe_unit * subfiles
    in_full_rows = offsets // row * stripe_unit
    in_last_row = np.clip(offsets % row - subfile * stripe_unit, 0, stripe_unit)
    total: Integers = in_full_rows + in_last_row
    return total


def _contiguous(file_bytes: int, processes: int) -> tuple[Blocks, ...]:
    edges = _edges(file_bytes, processes)
    sizes = np.diff(edges)
    return tuple(_blocks(edges[k : k + 1], sizes[k : k + 1]) for k in range(processes))


def _columns(file_bytes: int, processes: int) -> tuple[Blocks, ...]:
    """Return one block per row of the matrix for each process."""
    side = matrix_side(file_bytes)
    if side < processes:
        raise InputError(
            f"--file-size {file_bytes}: a matrix of {side} columns is too small for"
            f" {processes} processes; give a larger file, or fewer compute nodes"
        )
    _check_count(side, "--file-size")
    edges = _edges(side, processes) * ELEMENT_BYTES
    rows = np.arange(side, dtype=np.int64) * (side * ELEMENT_BYTES)
    blocks = []
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        blocks.append(_blocks(rows + begin, np.full(side, end - begin, dtype=np.int64)))
    return tuple(blocks)


def _edges(total: int, parts: int) -> Integers:
    """Return the limits of equal parts, from 0 to the total, shape (parts + 1,)."""
    return np.array([total * k // parts for k in range(parts + 1)], dtype=np.int64)


def _blocks(offsets: Integers, sizes: Integers) -> Blocks:
    """Return the blocks that have bytes."""
    retained = sizes > 0
    return Blocks(
        offsets=np.ascontiguousarray(offsets[retained]), sizes=np.ascontiguousarray(sizes[retained])
    )


def _check_count(count: int, option: str) -> None:
    if count > MAX_BLOCKS:
        raise InputError(
            f"{option}: this gives {count} blocks; the limit is {MAX_BLOCKS}, so give larger ones"
        )
