"""Types of arrays: of numbers, and of records that compiled code reads and writes."""

from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.integer[Any]]
FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
Record = TypeVar("Record")
One = TypeVar("One", covariant=True)
i8 = int
i4 = int
i2 = int
u4 = int
u2 = int
u1 = int
"""Fields of records: whole numbers of so many bytes, with a sign (i) or without (u)."""


class Records(Protocol[One]):
    """A numpy array of records: a record by its place, a field of all of them by its name."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, place: int, /) -> One: ...
    @overload
    def __getitem__(self, field: str, /) -> IntArray: ...
    @overload
    def __setitem__(self, place: int, record: object, /) -> None: ...
    @overload
    def __setitem__(self, field: str, values: IntArray, /) -> None: ...


def record_dtype(record: type) -> np.dtype[np.void]:
    """The dtype of the records that a class describes, by its annotations: ``tick: i8``."""
    return np.dtype(list(record.__annotations__.items()))
