"""Derived datatypes as MPI builds them, flattened into runs of bytes.

There are contiguous, vector, indexed, struct, subarray and resized types. A datatype is a value
that consists of its runs in type order, its bounds, and its alignment. numpy flattens the types,
without a Python loop over runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfio_emu.errors import UsageError, whole_number

Integers = npt.NDArray[np.int64]

# Offsets stay below this, so that the sum of two offsets fits into int64.
_LIMIT = 1 << 62

# The maximum number of runs of a datatype, to limit memory.
_MAX_RUNS = 1 << 28


@dataclass(frozen=True, kw_only=True, eq=False)
class Runs:
    """Runs of bytes in order; none is empty. The arrays are made read-only.

    Attributes:
        offsets: The offset of each run in bytes, shape (n,).
        lengths: The length of each run in bytes, shape (n,).
    """

    offsets: Integers
    lengths: Integers

    def __post_init__(self) -> None:
        for array in (self.offsets, self.lengths):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.offsets)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Runs):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(
            self.lengths, other.lengths
        )

    @property
    def size_bytes(self) -> int:
        """The sum of the lengths."""
        return int(self.lengths.sum())

    def moved(self, by_bytes: int) -> "Runs":
        """Return the runs with `by_bytes` added to each offset."""
        return Runs(offsets=self.offsets + by_bytes, lengths=self.lengths) if by_bytes else self

    def pairs(self) -> list[tuple[int, int]]:
        """Return offset and length of each run, for small types and for tests."""
        return list(zip(self.offsets.tolist(), self.lengths.tolist(), strict=True))


def joined_runs(offsets: Integers, lengths: Integers) -> Runs:
    """Return runs without the empty ones, merged where one begins at the end of the one before.

    Args:
        offsets: The offset of each run in bytes, shape (n,).
        lengths: The length of each run in bytes, shape (n,).
    """
    if len(lengths) and int(lengths.min()) == 0:
        not_empty = lengths > 0
        offsets = offsets[not_empty]
        lengths = lengths[not_empty]
    if len(offsets) > 1:
        begins = np.empty(len(offsets), dtype=bool)
        begins[0] = True
        np.not_equal(offsets[:-1] + lengths[:-1], offsets[1:], out=begins[1:])
        if not begins.all():
            first = np.flatnonzero(begins)
            offsets = offsets[first]
            lengths = np.add.reduceat(lengths, first)
    return Runs(
        offsets=np.ascontiguousarray(offsets, dtype=np.int64),
        lengths=np.ascontiguousarray(lengths, dtype=np.int64),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Datatype:
    """A layout of bytes (MPI 4.0, section 5.1). The functions below build one.

    Attributes:
        runs: The runs that one element covers, in type order.
        lb: The lower bound of an element in bytes. After `resized`, it may be anywhere.
        ub: The upper bound of an element in bytes (section 5.1.7).
        alignment: The alignment of its strictest elementary type, in bytes.
        lb_given: Whether `resized` has set the lower bound. A struct keeps such a bound.
        ub_given: Whether `resized` has set the upper bound.
        items: The numbers of which its data consist: pairs of the size of a number in bytes, and
            how many follow one another. The sequence repeats until the end of the data.
        name: The name, for errors.
    """

    runs: Runs
    lb: int
    ub: int
    alignment: int = 1
    lb_given: bool = False
    ub_given: bool = False
    items: tuple[tuple[int, int], ...] = ((1, 1),)
    name: str = "datatype"

    def __post_init__(self) -> None:
        reach = max(abs(bound) for bound in (self.lb, self.ub, self.true_lb, self.true_ub))
        if reach >= _LIMIT:
            raise UsageError(f"{self.name} reaches {reach} bytes: offsets must stay below 2^62")

    @property
    def size_bytes(self) -> int:
        """The number of bytes of an element, without gaps."""
        return self.runs.size_bytes

    @property
    def extent_bytes(self) -> int:
        """The distance of successive elements: ub - lb."""
        return self.ub - self.lb

    @property
    def true_lb(self) -> int:
        """The offset of the lowest byte; 0 for an empty type."""
        return int(self.runs.offsets.min()) if len(self.runs) else 0

    @property
    def true_ub(self) -> int:
        """The offset behind the highest byte; 0 for an empty type."""
        return int((self.runs.offsets + self.runs.lengths).max()) if len(self.runs) else 0

    @property
    def dense(self) -> bool:
        """True if successive elements follow one another without gaps."""
        return len(self.runs) == 1 and int(self.runs.lengths[0]) == self.extent_bytes

    def __repr__(self) -> str:
        return (
            f"<{self.name}: {self.size_bytes} bytes in {len(self.runs)} runs, "
            f"lb {self.lb}, extent {self.extent_bytes}>"
        )


def require_datatype(value: object, name: str) -> Datatype:
    """Return the value, or raise UsageError if it is not a datatype. `name` is for the error."""
    if not isinstance(value, Datatype):
        raise UsageError(f"the {name} is {value!r}: give a datatype of sfio_emu.views.datatypes")
    return value


def elementary(size_bytes: int, name: str = "", alignment: int | None = None) -> Datatype:
    """Return an elementary type.

    Args:
        size_bytes: The size in bytes, at least 1.
        name: The name, for errors.
        alignment: The alignment in bytes; by default the size.
    """
    size_bytes = whole_number(size_bytes, "size of an elementary type", 1)
    if alignment is not None:
        alignment = whole_number(alignment, "alignment of an elementary type", 1)
    runs = Runs(offsets=np.zeros(1, dtype=np.int64), lengths=np.full(1, size_bytes, dtype=np.int64))
    return Datatype(
        runs=runs,
        lb=0,
        ub=size_bytes,
        alignment=alignment or size_bytes,
        items=((size_bytes, 1),),
        name=name or f"{size_bytes} bytes",
    )


BYTE = elementary(1, "byte")
INT16 = elementary(2, "int16")
INT32 = elementary(4, "int32")
INT64 = elementary(8, "int64")
FLOAT = elementary(4, "float")
DOUBLE = elementary(8, "double")


def contiguous(count: int, base: Datatype) -> Datatype:
    """Return a type of `count` elements of `base`, one extent apart."""
    count = _count("contiguous", "count", count)
    return _blocks("contiguous", _array([0]), _array([count]), base)


def vector(count: int, block_length: int, stride: int, base: Datatype) -> Datatype:
    """Return a type of blocks at equal distances.

    Args:
        count: The number of blocks.
        block_length: The number of elements of each block.
        stride: The distance from block to block, in extents of `base`. It may be negative.
        base: The datatype of an element.
    """
    extent_bytes = require_datatype(base, "base of vector").extent_bytes
    stride_bytes = _signed("vector", "stride", stride) * extent_bytes
    return _strided("vector", count, block_length, stride_bytes, base)


def hvector(count: int, block_length: int, stride_bytes: int, base: Datatype) -> Datatype:
    """Return a type of blocks at equal distances in bytes.

    Args:
        count: The number of blocks.
        block_length: The number of elements of each block.
        stride_bytes: The distance from block to block. It may be negative.
        base: The datatype of an element.
    """
    stride_bytes = _signed("hvector", "stride", stride_bytes)
    return _strided("hvector", count, block_length, stride_bytes, base)


def indexed(block_lengths: Sequence[int], displacements: Sequence[int], base: Datatype) -> Datatype:
    """Return a type of blocks at given displacements.

    Args:
        block_lengths: The number of elements of each block: a list or an array, shape (n,).
        displacements: The displacement of each block in extents of `base`, shape (n,).
        base: The datatype of an element.
    """
    lengths, positions = _pair_of_arrays("indexed", block_lengths, displacements)
    _check_reach("indexed", positions, require_datatype(base, "base of indexed").extent_bytes)
    return _blocks("indexed", positions * base.extent_bytes, lengths, base)


def indexed_block(block_length: int, displacements: Sequence[int], base: Datatype) -> Datatype:
    """Return a type of blocks of the same length at given displacements.

    Args:
        block_length: The number of elements of each block.
        displacements: The displacement of each block in extents of `base`.
        base: The datatype of an element.
    """
    block_length = _count("indexed_block", "block length", block_length)
    block_lengths = np.full(len(displacements), block_length, dtype=np.int64)
    return indexed(block_lengths, displacements, base)  # type: ignore[arg-type]


def hindexed(
    block_lengths: Sequence[int], displacements_bytes: Sequence[int], base: Datatype
) -> Datatype:
    """Return a type of blocks at given displacements in bytes.

    Args:
        block_lengths: The number of elements of each block: a list or an array, shape (n,).
        displacements_bytes: The displacement of each block, shape (n,).
        base: The datatype of an element.
    """
    lengths, positions = _pair_of_arrays("hindexed", block_lengths, displacements_bytes)
    return _blocks("hindexed", positions, lengths, base)


def struct(
    block_lengths: Sequence[int], displacements_bytes: Sequence[int], bases: Sequence[Datatype]
) -> Datatype:
    """Return a type of blocks of different datatypes.

    The extent is rounded up to the strictest alignment. If a datatype was `resized`, the given
    bounds hold instead (MPI 4.0, section 5.1.7; as MPICH computes it).

    Args:
        block_lengths: The number of elements of each block.
        displacements_bytes: The displacement of each block.
        bases: The datatype of the elements of each block.
    """
    lengths, positions = _pair_of_arrays("struct", block_lengths, displacements_bytes)
    if len(bases) != len(lengths):
        raise UsageError(
            f"struct of {len(lengths)} block lengths and {len(bases)} types: "
            "give one type per block"
        )
    parts = []
    for i, base in enumerate(bases):
        if len(require_datatype(base, "type of a struct").runs) and lengths[i]:
            parts.append(_blocks("struct", positions[i : i + 1], lengths[i : i + 1], base))
    if not parts:
        return _empty("struct")
    runs = joined_runs(
        np.concatenate([part.runs.offsets for part in parts]),
        np.concatenate([part.runs.lengths for part in parts]),
    )
    lb_given = any(part.lb_given for part in parts)
    ub_given = any(part.ub_given for part in parts)
    lb = min(part.lb for part in parts if part.lb_given or not lb_given)
    ub = max(part.ub for part in parts if part.ub_given or not ub_given)
    alignment = max(part.alignment for part in parts)
    if not (lb_given or ub_given):
        ub += -(ub - lb) % alignment
    return Datatype(
        runs=runs,
        lb=lb,
        ub=ub,
        alignment=alignment,
        lb_given=lb_given,
        ub_given=ub_given,
        items=_items_of(parts),
        name="struct",
    )


def _items_of(parts: Sequence[Datatype]) -> tuple[tuple[int, int], ...]:
    """Return the numbers of the parts in sequence, as in `Datatype.items`."""
    items: list[tuple[int, int]] = []
    for part in parts:
        period_bytes = sum(size * count for size, count in part.items)
        if len(part.items) == 1:
            size, _ = part.items[0]
            items.append((size, part.size_bytes // size))
        else:
            _check_runs("struct", part.size_bytes // period_bytes, len(part.items))
            items += part.items * (part.size_bytes // period_bytes)
    sizes = {size for size, _ in items}
    if len(sizes) == 1:
        return ((items[0][0], 1),)
    return tuple(items)


def subarray(
    sizes: Sequence[int],
    subsizes: Sequence[int],
    starts: Sequence[int],
    base: Datatype,
    order: Literal["C", "F"] = "C",
) -> Datatype:
    """Return a type of a box of an array: starts[i] <= index i < starts[i] + subsizes[i].

    Its lower bound is 0, and its extent is that of the complete array.

    Args:
        sizes: The number of elements of the array in each dimension.
        subsizes: The number of elements of the box in each dimension.
        starts: The first index of the box in each dimension.
        base: The datatype of an element.
        order: "C" if the last index varies fastest, "F" if the first does.

    Raises:
        UsageError: The box is not inside the array.
    """
    if not len(sizes) == len(subsizes) == len(starts) > 0:
        raise UsageError(
            f"subarray of {len(sizes)} sizes, {len(subsizes)} subsizes, "
            f"{len(starts)} starts: give one of each per dimension"
        )
    if order not in ("C", "F"):
        raise UsageError(f"subarray in order {order!r}: give 'C' or 'F'")
    axes = list(
        zip(
            _counts("size", sizes),
            _counts("subsize", subsizes),
            _counts("start", starts),
            strict=True,
        )
    )
    for dimension, (size, subsize, start) in enumerate(axes):
        if not 1 <= subsize <= size or not 0 <= start <= size - subsize:
            raise UsageError(
                f"subarray dimension {dimension}: {subsize} elements from {start} "
                f"in an array of {size}: the box must lie inside the array"
            )
    if order == "C":
        axes.reverse()

    # The datatype grows dimension by dimension, beginning with the fastest index.
    box = base
    stride_bytes = require_datatype(base, "base of subarray").extent_bytes
    start_bytes = 0
    for size, subsize, start in axes:
        box = _strided("subarray", subsize, 1, stride_bytes, box)
        start_bytes += start * stride_bytes
        stride_bytes *= size
    # MPI 4.0, section 5.1.3: the type map begins with lb_marker at 0, whatever the base's bounds.
    return replace(
        base,
        runs=box.runs.moved(start_bytes),
        lb=0,
        ub=stride_bytes,
        lb_given=True,
        ub_given=True,
        name="subarray",
    )


def _counts(name: str, values: Sequence[int]) -> list[int]:
    """Return one argument of `subarray`, after checking each number of it."""
    return [_count("subarray", f"{name} {axis}", value) for axis, value in enumerate(values)]


def resized(base: Datatype, lb: int, extent_bytes: int) -> Datatype:
    """Return a datatype with another lower bound and extent.

    Args:
        base: The datatype.
        lb: The lower bound in bytes.
        extent_bytes: The extent.
    """
    lb = _signed("resized", "lower bound", lb)
    extent_bytes = _signed("resized", "extent", extent_bytes)
    name = f"resized {require_datatype(base, 'base of resized').name}"
    return replace(base, lb=lb, ub=lb + extent_bytes, lb_given=True, ub_given=True, name=name)


def _strided(
    name: str, count: int, block_length: int, stride_bytes: int, base: Datatype
) -> Datatype:
    """Return a type of blocks at equal distances, as `hvector`; `name` is for errors."""
    count = _count(name, "count", count)
    block_length = _count(name, "block length", block_length)
    if abs(stride_bytes) * max(count, 1) >= _LIMIT:
        raise UsageError(
            f"{name} of {count} blocks {stride_bytes} bytes apart: offsets must stay below 2^62"
        )
    is_dense = require_datatype(base, f"base of {name}").dense
    if is_dense and stride_bytes == block_length * base.extent_bytes:
        # Without gaps, all blocks are one run, and their number need not be limited.
        return _blocks(name, _array([0]), _array([count * block_length]), base)
    _check_runs(name, count, 1)
    return _blocks(
        name,
        np.arange(count, dtype=np.int64) * stride_bytes,
        np.full(count, block_length, dtype=np.int64),
        base,
    )


def _blocks(name: str, positions: Integers, counts: Integers, base: Datatype) -> Datatype:
    """Return a type of blocks.

    Args:
        name: The name of the type.
        positions: The offset of each block in bytes, shape (n,).
        counts: The number of elements of each block, shape (n,).
        base: The datatype of an element.
    """
    if len(counts) and int(counts.min()) == 0:
        not_empty = counts > 0
        positions = positions[not_empty]
        counts = counts[not_empty]
    if not len(require_datatype(base, f"base of {name}").runs) or not len(counts):
        return _empty(name)
    _check_reach(name, counts, max(base.extent_bytes, base.size_bytes, 1))
    if base.dense:
        runs = joined_runs(positions + base.runs.offsets[0], counts * base.extent_bytes)
    else:
        elements = positions
        if int(counts.max()) > 1:
            _check_runs(name, int(counts.sum()), len(base.runs))
            elements = np.repeat(positions, counts) + _indices(counts) * base.extent_bytes
        _check_runs(name, len(elements), len(base.runs))
        offsets = elements[:, np.newaxis] + base.runs.offsets[np.newaxis, :]
        lengths = np.broadcast_to(base.runs.lengths, offsets.shape)
        runs = joined_runs(offsets.ravel(), lengths.ravel())
    # The last element of a block comes before its first if the extent is negative.
    last = positions + (counts - 1) * base.extent_bytes
    lb = int(np.minimum(positions, last).min()) + base.lb
    ub = int(np.maximum(positions, last).max()) + base.ub
    return replace(base, runs=runs, lb=lb, ub=ub, name=name)


def _indices(counts: Integers) -> Integers:
    """Return the index of each element in its block: 0 to counts[0] - 1, 0 to counts[1] - 1, ..."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - counts, counts)


def _empty(name: str) -> Datatype:
    empty = np.zeros(0, dtype=np.int64)
    return Datatype(runs=Runs(offsets=empty, lengths=empty.copy()), lb=0, ub=0, name=name)


def _array(values: npt.ArrayLike) -> Integers:
    return np.asarray(values, dtype=np.int64)


def _pair_of_arrays(
    name: str, block_lengths: npt.ArrayLike, displacements: npt.ArrayLike
) -> tuple[Integers, Integers]:
    """Return block lengths and displacements as arrays of the same shape (n,), or raise UsageError.

    `name` is the name of the type, for errors.
    """
    lengths = _signed_array(name, "block length", block_lengths)
    positions = _signed_array(name, "place", displacements)
    if lengths.ndim != 1 or lengths.shape != positions.shape:
        raise UsageError(
            f"{name} of {lengths.size} block lengths and {positions.size} displacements: "
            "give one of each per block"
        )
    if len(lengths) and int(lengths.min()) < 0:
        number = int(np.argmin(lengths))
        raise UsageError(
            f"{name}: block length {int(lengths[number])} at place {number}: give 0 or more"
        )
    _check_reach(name, positions, 1)
    return lengths, positions


def _signed_array(name: str, value_name: str, values: Any) -> Integers:
    """Return whole numbers as an array, shape (n,).

    Fractions are refused; numpy would round them.

    Args:
        name: The name of the type, for errors.
        value_name: The name of a value, for errors.
        values: The numbers, an array or a list.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind in "iu" and array.dtype != np.uint64:
            return array.astype(np.int64)
        numbers = [
            _signed(name, f"{value_name} {number}", value) for number, value in enumerate(values)
        ]
        return _array(numbers)
    except (TypeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"{name}: the {value_name}s are {values!r}: give a list of whole numbers"
        ) from None


def _count(name: str, value_name: str, value: int) -> int:
    """Return a number of at least 0. The names of type and value are for errors."""
    return whole_number(value, f"{value_name} of {name}", 0, _LIMIT)


def _signed(name: str, value_name: str, value: int) -> int:
    """Return a number that may be negative. The names of type and value are for errors."""
    return whole_number(value, f"{value_name} of {name}", -_LIMIT, _LIMIT)


def _check_reach(name: str, values: Integers, unit_bytes: int) -> None:
    """Raise UsageError if the products of values and unit would not fit into int64."""
    if not len(values):
        return
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if largest * abs(unit_bytes) >= _LIMIT:
        raise UsageError(f"{name}: offsets must stay below 2^62 bytes")


def _check_runs(name: str, elements: int, runs_each: int) -> None:
    """Raise UsageError if a type would have too many runs."""
    runs = elements * runs_each
    if runs > _MAX_RUNS:
        raise UsageError(
            f"{name} of {elements} elements with {runs} runs: at most {_MAX_RUNS}; "
            "as a file's view give one element, it is repeated by itself"
        )
