"""The representation of numbers in a file (MPI 4.0, section 14.5), and the status of an access.

In `native`, and in `internal`, which is the same here, numbers are stored as in memory. In
`external32` (section 14.5.2) the highest byte comes first.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sfio_emu.errors import UsageError
from sfio_emu.views.datatypes import Datatype, Integers, require_datatype

Octets = npt.NDArray[np.uint8]
REPRESENTATIONS = ("native", "internal", "external32")


def check_representation(name: object) -> None:
    """Raise UsageError if there is no representation of this name."""
    if name not in REPRESENTATIONS:
        raise UsageError(
            f"the data representation is {name!r}: give one of {', '.join(REPRESENTATIONS)}"
        )


def swapped(stream: Octets, etype: Datatype) -> Octets:
    """Return a copy of a stream in which the bytes of each number are reversed.

    The numbers keep their sizes, which are also those of external32.

    Args:
        stream: Consecutive elements of the etype, shape (bytes,). An incomplete element at the end
            is copied unchanged.
        etype: The datatype, which says where the numbers are.
    """
    order = _reversed_order(etype.items)
    complete_bytes = len(stream) // len(order) * len(order)
    result = stream.copy()
    result[:complete_bytes] = stream[:complete_bytes].reshape(-1, len(order))[:, order].ravel()
    return result


@lru_cache(maxsize=64)
def _reversed_order(items: tuple[tuple[int, int], ...]) -> Integers:
    """Return the index that reverses the bytes of each number of an element.

    Args:
        items: As in `Datatype`.

    Returns:
        The index, shape (bytes of the element,).
    """
    parts: list[Integers] = []
    start = 0
    for size, count in items:
        positions = start + np.arange(size * count, dtype=np.int64)
        parts.append(positions.reshape(count, size)[:, ::-1].ravel())
        start += size * count
    return np.concatenate(parts)


class Status(int):
    """The number of bytes that an access transferred (MPI's status)."""

    def count(self, datatype: Datatype) -> int | None:
        """Return the number of elements of a datatype (MPI_Get_count).

        None stands for MPI_UNDEFINED: the last element is incomplete.

        >>> from sfio_emu.views.datatypes import INT32, contiguous
        >>> pair = contiguous(2, INT32)
        >>> Status(20).count(INT32), Status(20).count(pair), Status(20).elements(pair)
        (5, None, 5)
        """
        require_datatype(datatype, "datatype to count")
        if not datatype.size_bytes:
            return 0
        return None if self % datatype.size_bytes else self // datatype.size_bytes

    def elements(self, datatype: Datatype) -> int:
        """Return the number of numbers in the elements of a datatype (MPI_Get_elements).

        Those of an incomplete last element are counted, too.
        """
        require_datatype(datatype, "datatype to count")
        element_bytes = sum(size * count for size, count in datatype.items)
        complete_elements = self // element_bytes
        numbers = complete_elements * sum(count for _, count in datatype.items)
        remaining_bytes = self % element_bytes
        for size, count in datatype.items:
            numbers += min(remaining_bytes // size, count)
            remaining_bytes = max(0, remaining_bytes - size * count)
        return numbers
