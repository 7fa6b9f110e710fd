"""Attributes that are kept in a table of one record, ``table``, which compiled steps read and write."""

import math
from typing import Any


def field(name: str) -> Any:
    """An attribute that is that field of ``self.table``."""

    def write(owner: Any, value: float) -> None:
        owner.table[name][0] = value

    return property(lambda owner: owner.table[name][0].item(), write)


def optional_field(name: str) -> Any:
    """The same for numbers that may be None, NaN in the table."""

    def read(owner: Any) -> float | None:
        value = owner.table[name][0].item()
        return None if math.isnan(value) else value

    def write(owner: Any, value: float | None) -> None:
        owner.table[name][0] = math.nan if value is None else value

    return property(read, write)
