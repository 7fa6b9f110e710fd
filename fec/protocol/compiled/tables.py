"""Attributes that are kept in a table of one record, whose fields are words of 64 bits: compiled steps read and write
them, too."""

import math
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Tabled:
    """Of which some attributes are in a table: ``words`` and ``reals`` are its fields, as whole numbers and others."""

    def keep_in(self, table: NDArray[Any]) -> None:
        self.table = table
        self.words: Any = memoryview(table.view(np.int64))  # type: ignore[arg-type]
        self.reals: Any = memoryview(table.view(np.float64))  # type: ignore[arg-type]


def field(record: np.dtype[Any], name: str, *, optional: bool = False) -> Any:
    """An attribute that is that field; ``optional``: a number that may be None, which the table has as NaN."""
    at, view = place(record, name), attrgetter("reals" if record[name].kind == "f" else "words")

    def read(owner: Tabled) -> Any:
        value = view(owner)[at]
        return None if optional and math.isnan(value) else value

    def write(owner: Tabled, value: Any) -> None:
        view(owner)[at] = math.nan if value is None else value

    return property(read, write)


def place(record: np.dtype[Any], name: str) -> int:
    """Which field of a record has that name."""
    assert record.names is not None
    return record.names.index(name)
