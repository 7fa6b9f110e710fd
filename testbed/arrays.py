"""Types of numpy arrays: numbers, and records that compiled code reads and writes."""

from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.integer[Any]]
FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
Record = TypeVar("Record")
One = TypeVar("One", covariant=True)
# Types of the fields of records: signed (i) and unsigned (u) integers of this number of bytes.
i8 = int
i4 = int
i2 = int
u4 = int
u2 = int
u1 = int


class Records(Protocol[One]):
    """A numpy array of records.

    An index selects a record. The name of a field selects this field of all records.
    """

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> One: ...
    @overload
    def __getitem__(self, field: str, /) -> IntArray: ...
    @overload
    def __setitem__(self, index: int, record: object, /) -> None: ...
    @overload
    def __setitem__(self, field: str, values: IntArray, /) -> None: ...


def record_dtype(record: type) -> np.dtype[np.void]:
    """Return the dtype of the records that a class describes by annotations like ``tick: i8``."""
    return np.dtype(list(record.__annotations__.items()))
