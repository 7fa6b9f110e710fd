"""Derived datatypes as MPI builds them (contiguous, vector, indexed, struct, subarray, resized), flattened into runs of
bytes. A datatype is a value: its runs in type order, its bounds and alignment; numpy does the flattening, never a loop
over runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfio_emu.errors import UsageError, whole_number

Integers = npt.NDArray[np.int64]
_LIMIT = 1 << 62  # sums of two offsets stay in int64
_MAX_RUNS = 1 << 28


@dataclass(frozen=True, kw_only=True, eq=False)
class Runs:
    """Runs of bytes in order: `offsets` and `lengths`, int64 arrays of the same shape (n,), read-only, no length
    zero."""

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
        """Sum of the lengths."""
        return int(self.lengths.sum())

    def moved(self, by_bytes: int) -> "Runs":
        """These runs, each `by_bytes` further on."""
        return Runs(offsets=self.offsets + by_bytes, lengths=self.lengths) if by_bytes else self

    def pairs(self) -> list[tuple[int, int]]:
        """(offset, length) of every run: for small types and for tests."""
        return list(zip(self.offsets.tolist(), self.lengths.tolist(), strict=True))


def joined_runs(offsets: Integers, lengths: Integers) -> Runs:
    """Runs of the arrays (n,): empty ones dropped, each joined with its successor where that begins at its end."""
    if len(lengths) and int(lengths.min()) == 0:
        retained = lengths > 0
        offsets, lengths = offsets[retained], lengths[retained]
    if len(offsets) > 1:
        begins = np.empty(len(offsets), dtype=bool)
        begins[0] = True
        np.not_equal(offsets[:-1] + lengths[:-1], offsets[1:], out=begins[1:])
        if not begins.all():
            first = np.flatnonzero(begins)
            offsets, lengths = offsets[first], np.add.reduceat(lengths, first)
    return Runs(
        offsets=np.ascontiguousarray(offsets, dtype=np.int64),
        lengths=np.ascontiguousarray(lengths, dtype=np.int64),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Datatype:
    """A layout of bytes: the runs one element covers, in type order, and how far apart successive elements are.

    `lb` and `ub` bound an element (bytes; they may lie outside its runs after `resized`), `alignment` is that of its
    strictest elementary type. `items`: of which numbers the stream of its data consists, (bytes of each, how many) one
    after the other, which recurs. MPI 4.0, sections 5.1 (type maps) and 5.1.7 (lower and upper bounds). Build one by
    the functions below.
    """

    runs: Runs
    lb: int
    ub: int
    alignment: int = 1
    lb_given: bool = False  # set by `resized`: MPI's markers, which a struct keeps
    ub_given: bool = False
    items: tuple[tuple[int, int], ...] = ((1, 1),)
    name: str = "datatype"

    def __post_init__(self) -> None:
        reach = max(
            (abs(bound) for bound in (self.lb, self.ub, self.true_lb, self.true_ub)), default=0
        )
        if reach >= _LIMIT:
            raise UsageError(f"{self.name} reaches {reach} bytes: offsets must stay below 2^62")

    @property
    def size_bytes(self) -> int:
        """Bytes of one element, gaps left out."""
        return self.runs.size_bytes

    @property
    def extent_bytes(self) -> int:
        """Distance of successive elements: ub - lb."""
        return self.ub - self.lb

    @property
    def true_lb(self) -> int:
        """Lowest byte covered (0 for an empty type)."""
        return int(self.runs.offsets.min()) if len(self.runs) else 0

    @property
    def true_ub(self) -> int:
        """End of the highest byte covered (0 for an empty type)."""
        return int((self.runs.offsets + self.runs.lengths).max()) if len(self.runs) else 0

    @property
    def dense(self) -> bool:
        """Whether successive elements lie one behind the other without gaps."""
        return len(self.runs) == 1 and int(self.runs.lengths[0]) == self.extent_bytes

    def __repr__(self) -> str:
        return f"<{self.name}: {self.size_bytes} bytes in {len(self.runs)} runs, lb {self.lb}, extent {self.extent_bytes}>"


def require_datatype(value: object, what: str) -> Datatype:
    """The value; raises UsageError where it, of which `what` says what it is, is no datatype."""
    if not isinstance(value, Datatype):
        raise UsageError(f"the {what} is {value!r}: give a datatype of sfio_emu.views.datatypes")
    return value


def elementary(size_bytes: int, name: str = "", alignment: int | None = None) -> Datatype:
    """An elementary type of `size_bytes` bytes, by default aligned to its size. Raises UsageError below 1 byte."""
    size_bytes = whole_number(size_bytes, "size of an elementary type", 1)
    if alignment is not None:
        alignment = whole_number(alignment, "alignment of an elementary type", 1)
    runs = Runs(offsets=np.zeros(1, dtype=np.int64), lengths=np.full(1, size_bytes, dtype=np.int64))
    return Datatype(
        runs=runs, lb=0, ub=size_bytes, alignment=alignment or size_bytes, items=((size_bytes, 1),),
        name=name or f"{size_bytes} bytes",
    )  # fmt: skip


BYTE = elementary(1, "byte")
INT16 = elementary(2, "int16")
INT32 = elementary(4, "int32")
INT64 = elementary(8, "int64")
FLOAT = elementary(4, "float")
DOUBLE = elementary(8, "double")


def contiguous(count: int, base: Datatype) -> Datatype:
    """`count` elements of `base`, one extent apart."""
    count = _count("contiguous", "count", count)
    return _blocks("contiguous", _array([0]), _array([count]), base)


def vector(count: int, block_length: int, stride: int, base: Datatype) -> Datatype:
    """`count` blocks of `block_length` elements, the blocks `stride` extents of `base` apart (it may be negative)."""
    extent_bytes = require_datatype(base, "base of vector").extent_bytes
    return _strided(
        "vector", count, block_length, _place("vector", "stride", stride) * extent_bytes, base
    )


def hvector(count: int, block_length: int, stride_bytes: int, base: Datatype) -> Datatype:
    """`count` blocks of `block_length` elements, the blocks `stride_bytes` apart (it may be negative)."""
    return _strided("hvector", count, block_length, _place("hvector", "stride", stride_bytes), base)


def indexed(block_lengths: Sequence[int], displacements: Sequence[int], base: Datatype) -> Datatype:
    """Blocks of `block_lengths[i]` elements at `displacements[i]` extents of `base`; lists or integer arrays of shape
    (n,)."""
    lengths, places = _pair_of_arrays("indexed", block_lengths, displacements)
    _check_reach("indexed", places, require_datatype(base, "base of indexed").extent_bytes)
    return _blocks("indexed", places * base.extent_bytes, lengths, base)


def indexed_block(block_length: int, displacements: Sequence[int], base: Datatype) -> Datatype:
    """Blocks of the same length at `displacements[i]` extents of `base`."""
    block_length = _count("indexed_block", "block length", block_length)
    return indexed(np.full(len(displacements), block_length, dtype=np.int64), displacements, base)  # type: ignore[arg-type]


def hindexed(
    block_lengths: Sequence[int], displacements_bytes: Sequence[int], base: Datatype
) -> Datatype:
    """Blocks of `block_lengths[i]` elements at `displacements_bytes[i]`; lists or integer arrays of shape (n,)."""
    lengths, places = _pair_of_arrays("hindexed", block_lengths, displacements_bytes)
    return _blocks("hindexed", places, lengths, base)


def struct(
    block_lengths: Sequence[int], displacements_bytes: Sequence[int], bases: Sequence[Datatype]
) -> Datatype:
    """Blocks of `block_lengths[i]` elements of `bases[i]` at `displacements_bytes[i]`.

    The extent is rounded up to the strictest alignment, unless a base was `resized`: then the given bounds hold
    (MPI 4.0, section 5.1.7; as MPICH computes it).
    """
    lengths, places = _pair_of_arrays("struct", block_lengths, displacements_bytes)
    if len(bases) != len(lengths):
        raise UsageError(
            f"struct of {len(lengths)} block lengths and {len(bases)} types: give one type a block"
        )
    parts = [
        _blocks("struct", places[i : i + 1], lengths[i : i + 1], base)
        for i, base in enumerate(bases)
        if len(require_datatype(base, "type of a struct").runs) and lengths[i]
    ]
    if not parts:
        return _empty("struct")
    runs = joined_runs(
        np.concatenate([part.runs.offsets for part in parts]),
        np.concatenate([part.runs.lengths for part in parts]),
    )
    lb_given, ub_given = any(part.lb_given for part in parts), any(part.ub_given for part in parts)
    lb = min(part.lb for part in parts if part.lb_given or not lb_given)
    ub = max(part.ub for part in parts if part.ub_given or not ub_given)
    alignment = max(part.alignment for part in parts)
    if not (lb_given or ub_given):
        ub += -(ub - lb) % alignment
    return Datatype(
        runs=runs, lb=lb, ub=ub, alignment=alignment, lb_given=lb_given, ub_given=ub_given, items=_items_of(parts),
        name="struct",
    )  # fmt: skip


def _items_of(parts: Sequence[Datatype]) -> tuple[tuple[int, int], ...]:
    """The numbers of parts, one behind the other."""
    items: list[tuple[int, int]] = []
    for part in parts:
        period = sum(size * count for size, count in part.items)
        if len(part.items) == 1:
            size = part.items[0][0]
            items.append((size, part.size_bytes // size))
        else:
            _check_runs("struct", part.size_bytes // period, len(part.items))
            items += part.items * (part.size_bytes // period)
    return ((items[0][0], 1),) if len({size for size, _ in items}) == 1 else tuple(items)


def subarray(
    sizes: Sequence[int],
    subsizes: Sequence[int],
    starts: Sequence[int],
    base: Datatype,
    order: Literal["C", "F"] = "C",
) -> Datatype:
    """The box `starts[i] <= x_i < starts[i] + subsizes[i]` of an array of `sizes`; its lower bound is 0 and its extent
    that of the whole array.

    Order C: the last index varies fastest; F: the first. Raises UsageError where the box does not lie inside the array.
    """
    if not len(sizes) == len(subsizes) == len(starts) > 0:
        raise UsageError(
            f"subarray of {len(sizes)} sizes, {len(subsizes)} subsizes, {len(starts)} starts: one each a dimension"
        )
    if order not in ("C", "F"):
        raise UsageError(f"subarray in order {order!r}: give 'C' or 'F'")
    sizes, subsizes, starts = (
        [_count("subarray", f"{what} {axis}", value) for axis, value in enumerate(values)]
        for what, values in (("size", sizes), ("subsize", subsizes), ("start", starts))
    )
    for dimension, (size, part, start) in enumerate(zip(sizes, subsizes, starts, strict=True)):
        if not (1 <= part <= size and 0 <= start <= size - part):
            text = f"subarray dimension {dimension}: {part} elements from {start} in an array of {size}"
            raise UsageError(f"{text}: the box must lie inside the array")
    axes = list(zip(sizes, subsizes, starts, strict=True))
    if order == "C":
        axes.reverse()  # the fastest index first
    box, stride_bytes, start_bytes = (
        base,
        require_datatype(base, "base of subarray").extent_bytes,
        0,
    )
    for size, part, start in axes:
        box = _strided("subarray", part, 1, stride_bytes, box)
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


def resized(base: Datatype, lb: int, extent_bytes: int) -> Datatype:
    """`base` with a lower bound and an extent of the caller's choice."""
    lb, extent_bytes = (
        _place("resized", "lower bound", lb),
        _place("resized", "extent", extent_bytes),
    )
    name = f"resized {require_datatype(base, 'base of resized').name}"
    return replace(base, lb=lb, ub=lb + extent_bytes, lb_given=True, ub_given=True, name=name)


def _strided(
    name: str, count: int, block_length: int, stride_bytes: int, base: Datatype
) -> Datatype:
    count, block_length = _count(name, "count", count), _count(name, "block length", block_length)
    if abs(stride_bytes) * max(count, 1) >= _LIMIT:
        raise UsageError(
            f"{name} of {count} blocks {stride_bytes} bytes apart: offsets must stay below 2^62"
        )
    dense = require_datatype(base, f"base of {name}").dense
    if (
        dense and stride_bytes == block_length * base.extent_bytes
    ):  # no gaps: one run however many blocks
        return _blocks(name, _array([0]), _array([count * block_length]), base)
    _check_runs(name, count, 1)
    return _blocks(
        name,
        np.arange(count, dtype=np.int64) * stride_bytes,
        np.full(count, block_length, dtype=np.int64),
        base,
    )


def _blocks(name: str, places: Integers, counts: Integers, base: Datatype) -> Datatype:
    """Block i: `counts[i]` elements of `base` from byte `places[i]`, both of shape (n,)."""
    if len(counts) and int(counts.min()) == 0:
        retained = counts > 0
        places, counts = places[retained], counts[retained]
    if not len(require_datatype(base, f"base of {name}").runs) or not len(counts):
        return _empty(name)
    _check_reach(name, counts, max(base.extent_bytes, base.size_bytes, 1))
    if base.dense:
        runs = joined_runs(places + base.runs.offsets[0], counts * base.extent_bytes)
    else:
        elements = places
        if int(counts.max()) > 1:
            _check_runs(name, int(counts.sum()), len(base.runs))
            elements = np.repeat(places, counts) + _positions(counts) * base.extent_bytes
        _check_runs(name, len(elements), len(base.runs))
        offsets = elements[:, np.newaxis] + base.runs.offsets[np.newaxis, :]
        lengths = np.broadcast_to(base.runs.lengths, offsets.shape)
        runs = joined_runs(offsets.ravel(), lengths.ravel())
    last = (
        places + (counts - 1) * base.extent_bytes
    )  # of each block; below its first where the extent is negative
    lb = int(np.minimum(places, last).min()) + base.lb
    ub = int(np.maximum(places, last).max()) + base.ub
    return replace(base, runs=runs, lb=lb, ub=ub, name=name)


def _positions(counts: Integers) -> Integers:
    """0..counts[0]-1, 0..counts[1]-1, ...: the place of every element in its block."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - counts, counts)


def _empty(name: str) -> Datatype:
    nothing = np.zeros(0, dtype=np.int64)
    return Datatype(runs=Runs(offsets=nothing, lengths=nothing.copy()), lb=0, ub=0, name=name)


def _array(values: npt.ArrayLike) -> Integers:
    return np.asarray(values, dtype=np.int64)


def _pair_of_arrays(
    name: str, block_lengths: npt.ArrayLike, displacements: npt.ArrayLike
) -> tuple[Integers, Integers]:
    lengths, places = (
        _whole_array(name, "block length", block_lengths),
        _whole_array(name, "place", displacements),
    )
    if lengths.ndim != 1 or lengths.shape != places.shape:
        raise UsageError(
            f"{name} of {lengths.size} block lengths and {places.size} displacements: give one each a block"
        )
    if len(lengths) and int(lengths.min()) < 0:
        where = int(np.argmin(lengths))
        raise UsageError(
            f"{name}: block length {int(lengths[where])} at place {where}: give 0 or more"
        )
    _check_reach(name, places, 1)
    return lengths, places


def _whole_array(name: str, what: str, values: Any) -> Integers:
    """The values as they are given, shape (n,); numbers that are no whole ones are refused, not cut."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "iu" and array.dtype != np.uint64:
            return array.astype(np.int64)
        return _array(
            [_place(name, f"{what} {number}", value) for number, value in enumerate(values)]
        )
    except (TypeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"{name}: the {what}s are {values!r}: give a list of whole numbers"
        ) from None


def _count(name: str, what: str, value: int) -> int:
    return whole_number(value, f"{what} of {name}", 0, _LIMIT)


def _place(name: str, what: str, value: int) -> int:
    return whole_number(value, f"{what} of {name}", -_LIMIT, _LIMIT)


def _check_reach(name: str, values: Integers, unit_bytes: int) -> None:
    """Raises UsageError where values times unit would leave int64."""
    if (
        len(values)
        and max(abs(int(values.min())), abs(int(values.max()))) * abs(unit_bytes) >= _LIMIT
    ):
        raise UsageError(f"{name}: offsets must stay below 2^62 bytes")


def _check_runs(name: str, elements: int, runs_each: int) -> None:
    if elements * runs_each > _MAX_RUNS:
        text = f"{name} of {elements} elements with {elements * runs_each} runs"
        raise UsageError(
            f"{text}: at most {_MAX_RUNS}; as a file's view give one element, it is repeated by itself"
        )
