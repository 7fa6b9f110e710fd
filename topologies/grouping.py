"""Groups values that have a key in common."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def lists_by_key(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the list of values of each key; keys and values are in the order of the pairs.

    >>> lists_by_key([("down", 4), ("slow", 5), ("down", 6)])
    {'down': [4, 6], 'slow': [5]}
    """
    values_by_key: dict[Key, list[Value]] = {}
    for key, value in pairs:
        values_by_key.setdefault(key, []).append(value)
    return values_by_key
