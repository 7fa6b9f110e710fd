"""Arrays that are dealt out to processes by blocks, as HPF and MPI_Type_create_darray have them."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Literal, cast

import numpy as np

from sfio_emu.errors import UsageError, whole_number
from sfio_emu.views.datatypes import Datatype, Integers, hindexed, resized

MAX_ELEMENTS = 1 << 28
Distribution = Literal["none", "block", "cyclic"]


def darray(
    processes: int, rank: int, axes: Sequence[tuple[int, Distribution, int | None, int]], base: Datatype,
    order: Literal["C", "F"] = "C",
) -> Datatype:  # fmt: skip
    """What `rank` of `processes` has of an array that is dealt out as HPF does it (MPI 4.0, section 5.1.4); its lower
    bound is 0 and its extent that of the whole array.

    `axes`: of each dimension the size, how it is dealt out (`none`: not at all), the argument (elements of a block;
    None: MPI's default) and how many processes it is dealt to. Ranks lie in the grid of processes with the last index
    fastest, whatever the `order` of the array. Raises UsageError for a grid that is not all processes.
    """
    processes, rank = whole_number(processes, "number of processes", 1), whole_number(rank, "rank")
    grid = [
        whole_number(axis[3], f"processes of dimension {number}", 1)
        for number, axis in enumerate(axes)
    ]
    if not grid or prod(grid) != processes or rank >= processes or order not in ("C", "F"):
        raise UsageError(
            f"darray of rank {rank} of {processes} on a grid {grid}, order {order!r}: they do not fit"
        )
    sizes = [
        whole_number(axis[0], f"size of dimension {number}", 1, MAX_ELEMENTS)
        for number, axis in enumerate(axes)
    ]
    mine: list[tuple[int, Integers]] = []
    for number, (_, way, block, _) in reversed(list(enumerate(axes))):
        rank, place = divmod(rank, grid[number])
        mine.append(
            (sizes[number], _dealt(number, (sizes[number], way, block, grid[number]), place))
        )
    box, stride_bytes = base, base.extent_bytes
    for size, indices in mine if order == "C" else reversed(mine):  # the fastest index first
        box = hindexed([1] * len(indices), (indices * stride_bytes).tolist(), box)
        stride_bytes *= size
    return replace(resized(box, 0, stride_bytes), items=base.items, name="darray")


def _dealt(number: int, axis: tuple[int, Distribution, int | None, int], place: int) -> Integers:
    """The indices of a dimension that the process at `place` of its grid has: shape (n,)."""
    size, way, block, processes = axis
    if way not in ("none", "block", "cyclic") or (way == "none" and processes != 1):
        raise UsageError(f"dimension {number} of a darray is {way!r} over {processes}: give 'block', 'cyclic' or, over"
                         " one process, 'none'")  # fmt: skip
    if way == "none":
        return np.arange(size, dtype=np.int64)
    usual = -(-size // processes) if way == "block" else 1
    block = usual if block is None else whole_number(block, f"block of dimension {number}", 1)
    if way == "block" and block * processes < size:
        raise UsageError(
            f"dimension {number} of a darray: {processes} blocks of {block} do not hold {size} elements"
        )
    blocks = np.arange(place, -(-size // block), processes, dtype=np.int64)
    indices = (blocks[:, np.newaxis] * block + np.arange(block, dtype=np.int64)).ravel()
    return cast(Integers, indices[indices < size])
