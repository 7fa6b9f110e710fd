"""How the bytes of a file stand for numbers (MPI 4.0, section 14.5): as in memory (`native`, and `internal`, which is
the same here), or with the highest byte first (`external32`, section 14.5.2). And how many numbers were moved."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sfio_emu.errors import UsageError
from sfio_emu.views.datatypes import Datatype, Integers, require_datatype

Octets = npt.NDArray[np.uint8]
REPRESENTATIONS = ("native", "internal", "external32")


def check_representation(name: object) -> None:
    """Raises `UsageError` for one that is not known."""
    if name not in REPRESENTATIONS:
        raise UsageError(
            f"the data representation is {name!r}: give one of {', '.join(REPRESENTATIONS)}"
        )


def swapped(stream: Octets, etype: Datatype) -> Octets:
    """Etypes one behind the other, shape (n,), with the bytes of each of their numbers in the other order.

    The numbers keep their sizes, which are those of external32. What breaks off behind the last whole period of the
    etype stays as it is.
    """
    order = _order(etype.items)
    whole = len(stream) // len(order) * len(order)
    result = stream.copy()
    result[:whole] = stream[:whole].reshape(-1, len(order))[:, order].ravel()
    return result


@lru_cache(maxsize=64)
def _order(items: tuple[tuple[int, int], ...]) -> Integers:
    """Which byte goes where in one period of numbers: shape (bytes of the period,)."""
    parts: list[Integers] = []
    start = 0
    for size, count in items:
        parts.append(
            start + np.arange(size * count, dtype=np.int64).reshape(count, size)[:, ::-1].ravel()
        )
        start += size * count
    return np.concatenate(parts)


class Status(int):
    """The bytes that an access moved, and what they are as elements of a datatype (MPI's status)."""

    def count(self, datatype: Datatype) -> int | None:
        """MPI_Get_count: whole elements of `datatype`; None where the bytes are not whole ones (MPI_UNDEFINED).

        >>> from sfio_emu.views.datatypes import INT32, contiguous
        >>> Status(20).count(INT32), Status(20).count(contiguous(2, INT32)), Status(20).elements(contiguous(2, INT32))
        (5, None, 5)
        """
        require_datatype(datatype, "datatype to count")
        if not datatype.size_bytes:
            return 0
        return None if self % datatype.size_bytes else self // datatype.size_bytes

    def elements(self, datatype: Datatype) -> int:
        """MPI_Get_elements: the numbers of which `datatype` consists, the last ones of a part of it too."""
        require_datatype(datatype, "datatype to count")
        period = sum(size * count for size, count in datatype.items)
        found = self // period * sum(count for _, count in datatype.items)
        rest = self % period
        for size, count in datatype.items:
            found += min(rest // size, count)
            rest = max(0, rest - size * count)
        return found
