"""What each compute process accesses of a striped file: blocks that are disjoint and together cover it, and their
shares of subfiles."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from testbed.errors import InputError
from testbed.striping.options import Access

ACCESSES: tuple[Access, ...] = get_args(Access)
Integers = npt.NDArray[np.int64]
ELEMENT_BYTES = 8
"""Of a matrix."""
MAX_BLOCKS = 2_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """What one process accesses, in its own order: block ``i`` is ``sizes[i]`` bytes from ``offsets[i]`` (int64, shape
    (n,))."""

    offsets: Integers
    sizes: Integers

    @property
    def size_bytes(self) -> int:
        return int(self.sizes.sum())

    def __len__(self) -> int:
        return len(self.offsets)


def access_blocks(
    access: Access, file_bytes: int, processes: int, *, block_bytes: int = 1000, seed: int = 1
) -> tuple[Blocks, ...]:
    """The blocks of every process.

    contiguous: one region each, in order. strided: blocks dealt out in turn, as records of a table. random: the same
    blocks in an order and to processes drawn by the seed, as many to each. matrix-columns: the file is a square matrix
    of 8-byte elements by rows, and each process has a band of its columns.

    Raises InputError for an unknown access, no byte, and more blocks than MAX_BLOCKS.

    >>> [b.offsets.tolist() for b in access_blocks("strided", 100, 2, block_bytes=25)]
    [[0, 50], [25, 75]]
    """
    if file_bytes < 1:
        raise InputError(f"--file-size {file_bytes}: give one byte or more")
    if access == "contiguous":
        edges = _edges(file_bytes, processes)
        return tuple(
            _blocks(edges[k : k + 1], edges[k + 1 : k + 2] - edges[k : k + 1])
            for k in range(processes)
        )
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
        drawn = np.random.default_rng(seed).permutation(count)
        offsets, sizes = offsets[drawn], sizes[drawn]
    return tuple(_blocks(offsets[k::processes], sizes[k::processes]) for k in range(processes))


def matrix_side(file_bytes: int) -> int:
    """Rows and columns of the square matrix that a file of that size holds; InputError where it holds none.

    >>> matrix_side(800)
    10
    """
    side = int((file_bytes // ELEMENT_BYTES) ** 0.5)
    if side < 1:
        raise InputError(f"--file-size {file_bytes}: a matrix needs {ELEMENT_BYTES} bytes or more")
    return side


def bytes_per_subfile(blocks: Blocks, stripe_unit: int, subfiles: int) -> Integers:
    """Bytes of the blocks in each subfile, shape (subfiles,); O(blocks * subfiles).

    >>> bytes_per_subfile(access_blocks("contiguous", 35, 1)[0], 5, 2).tolist()
    [20, 15]
    """
    spans = subfile_spans(blocks, stripe_unit, subfiles)
    return np.array([int((end - start).sum()) for start, end in spans], dtype=np.int64)


def subfile_spans(
    blocks: Blocks, stripe_unit: int, subfiles: int
) -> Iterator[tuple[Integers, Integers]]:
    """Of each subfile where the blocks begin and end in it, which may be the same."""
    edges = blocks.offsets, blocks.offsets + blocks.sizes
    for subfile in range(subfiles):
        start, end = (_below(edge, subfile, stripe_unit, subfiles) for edge in edges)
        yield start, end


def _below(offsets: Integers, subfile: int, stripe_unit: int, subfiles: int) -> Integers:
    """Bytes of the subfile among the file's bytes below each offset."""
    row = stripe_unit * subfiles
    found: Integers = offsets // row * stripe_unit + np.clip(
        offsets % row - subfile * stripe_unit, 0, stripe_unit
    )
    return found


def _columns(file_bytes: int, processes: int) -> tuple[Blocks, ...]:
    side = matrix_side(file_bytes)
    if side < processes:
        raise InputError(
            f"--file-size {file_bytes}: a matrix of {side} columns has none for some of {processes} processes"
        )
    _check_count(side, "--file-size")
    edges = _edges(side, processes) * ELEMENT_BYTES
    rows = np.arange(side, dtype=np.int64) * (side * ELEMENT_BYTES)
    return tuple(
        _blocks(rows + edges[k], np.full(side, edges[k + 1] - edges[k], dtype=np.int64))
        for k in range(processes)
    )


def _edges(total: int, parts: int) -> Integers:
    return np.array([total * k // parts for k in range(parts + 1)], dtype=np.int64)


def _blocks(offsets: Integers, sizes: Integers) -> Blocks:
    retained = sizes > 0
    return Blocks(
        offsets=np.ascontiguousarray(offsets[retained]), sizes=np.ascontiguousarray(sizes[retained])
    )


def _check_count(count: int, option: str) -> None:
    if count > MAX_BLOCKS:
        raise InputError(
            f"{option}: that makes {count} blocks; at most {MAX_BLOCKS}, so make them larger"
        )
