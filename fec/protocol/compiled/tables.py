"""Attributes that are kept in a table of one record, whose fields are words of 64 bits: compiled steps read and write
them, too."""

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

    def write(self, **values: float) -> None:
        """Set the fields of these names."""
        for name, value in values.items():
            self.table[name] = value


def fields(record: np.dtype[Any], *names: str) -> list[Any]:
    """Attributes that are these fields."""
    return [_field(record, name) for name in names]


def _field(record: np.dtype[Any], name: str) -> Any:
    at, view = (
        (record.names or ()).index(name),
        attrgetter("reals" if record[name].kind == "f" else "words"),
    )
    return property(
        lambda owner: view(owner)[at], lambda owner, value: view(owner).__setitem__(at, value)
    )
