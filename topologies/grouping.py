"""Values by what they have in common."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def lists_by_key(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Key -> its values; keys and values in the order of the pairs.

    >>> lists_by_key([("down", 4), ("slow", 5), ("down", 6)])
    {'down': [4, 6], 'slow': [5]}
    """
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
