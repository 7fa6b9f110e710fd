"""Arrays that are distributed over processes by blocks, as in HPF and MPI_Type_create_darray."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Literal, NamedTuple, cast

import numpy as np

from sfio_emu.errors import UsageError, whole_number
from sfio_emu.views.datatypes import Datatype, Integers, hindexed, resized

# The maximum number of elements of a dimension, to limit memory.
MAX_ELEMENTS = 1 << 28
Distribution = Literal["none", "block", "cyclic"]


class _Dimension(NamedTuple):
    """One dimension of a distributed array.

    Attributes:
        number: The number of the dimension.
        size: The number of elements.
        distribution: How the elements are distributed.
        block: The number of elements of a block; None for MPI's default.
        processes: The number of processes that the elements are distributed to.
    """

    number: int
    size: int
    distribution: Distribution
    block: int | None
    processes: int


def darray(
    processes: int,
    rank: int,
    axes: Sequence[tuple[int, Distribution, int | None, int]],
    base: Datatype,
    order: Literal["C", "F"] = "C",
) -> Datatype:
    """Return the part of a distributed array that one process has (MPI 4.0, section 5.1.4).

    The lower bound of the datatype is 0, and its extent is that of the complete array.

    Args:
        processes: The number of processes.
        rank: The rank of the process. Ranks are positions in the grid of processes with the last
            index varying fastest, whatever the `order` of the array.
        axes: For each dimension the number of elements, the distribution ("none", "block" or
            "cyclic"), the number of elements of a block (None: MPI's default), and the number of
            processes.
        base: The datatype of an element.
        order: "C" if the last index of the array varies fastest, "F" if the first does.

    Raises:
        UsageError: The grid does not consist of all processes, or a distribution is invalid.
    """
    processes = whole_number(processes, "number of processes", 1)
    rank = whole_number(rank, "rank")
    grid = [
        whole_number(axis[3], f"processes of dimension {number}", 1)
        for number, axis in enumerate(axes)
    ]
    if not grid or prod(grid) != processes or rank >= processes or order not in ("C", "F"):
        raise UsageError(
            f"darray of rank {rank} of {processes} on a grid {grid}, order {order!r}: "
            "they do not fit"
        )
    dimensions = []
    for number, (elements, distribution, block, _) in enumerate(axes):
        size = whole_number(elements, f"size of dimension {number}", 1, MAX_ELEMENTS)
        dimensions.append(_Dimension(number, size, distribution, block, grid[number]))

    # The indices of this process in each dimension, the last dimension first.
    parts: list[tuple[int, Integers]] = []
    for dimension in reversed(dimensions):
        rank, position = divmod(rank, dimension.processes)
        parts.append((dimension.size, _indices(dimension, position)))
    if order == "F":
        parts.reverse()

    # The datatype grows dimension by dimension, beginning with the fastest index.
    box = base
    stride_bytes = base.extent_bytes
    for size, indices in parts:
        box = hindexed([1] * len(indices), (indices * stride_bytes).tolist(), box)
        stride_bytes *= size
    return replace(resized(box, 0, stride_bytes), items=base.items, name="darray")


def _indices(dimension: _Dimension, position: int) -> Integers:
    """Return the indices of the process at a position of the grid, shape (n,)."""
    number, size, distribution, block, processes = dimension
    is_known = distribution in ("none", "block", "cyclic")
    if not is_known or (distribution == "none" and processes != 1):
        raise UsageError(
            f"dimension {number} of a darray is {distribution!r} over {processes}: "
            "give 'block', 'cyclic' or, over one process, 'none'"
        )
    if distribution == "none":
        return np.arange(size, dtype=np.int64)
    if block is not None:
        block = whole_number(block, f"block of dimension {number}", 1)
    elif distribution == "block":
        block = -(-size // processes)
    else:
        block = 1
    if distribution == "block" and block * processes < size:
        raise UsageError(
            f"dimension {number} of a darray: {processes} blocks of {block} "
            f"do not hold {size} elements"
        )
    blocks = np.arange(position, -(-size // block), processes, dtype=np.int64)
    indices = (blocks[:, np.newaxis] * block + np.arange(block, dtype=np.int64)).ravel()
    return cast(Integers, indices[indices < size])
