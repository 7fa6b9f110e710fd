"""Numbers with their units in the JSON that people write."""

import math
from collections.abc import Callable, Mapping

from testbed.errors import InputError
from testbed.model.options import kinds
from topologies.text.units import fraction, is_bare, rate_bps, seconds


def _bytes(text: str) -> float:
    try:
        return kinds.size_bytes(text)
    except InputError:
        return math.nan


# The end of a key says the unit of its numbers.
_READERS: Mapping[str, Callable[[str], float]] = {
    "_s": seconds,
    "bps": rate_bps,
    "bytes": _bytes,
    "_fraction": fraction,
}


def plain_numbers(value: object, key: str = "") -> object:
    """Return a JSON value in which numbers with a unit are plain numbers.

    Text that is no such number stays, and so does a number in quotes without a unit.

    Args:
        value: A value of JSON.
        key: The key under which it stands; its end says the unit, also for lists and objects.

    >>> plain_numbers({"start_s": "200ms", "sizes_bytes": ["1kB"], "link": "5ms"})
    {'start_s': 0.2, 'sizes_bytes': [1000], 'link': '5ms'}
    """
    if isinstance(value, Mapping):
        return {
            name: plain_numbers(inner, _with_unit(name) or _with_unit(key))
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [plain_numbers(inner, key) for inner in value]
    if not isinstance(value, str) or not _with_unit(key) or is_bare(value):
        return value
    number = _READERS[_with_unit(key)](value)
    return number if math.isfinite(number) else value


def _with_unit(key: object) -> str:
    """Return the end of the key that names a unit, or nothing."""
    return next((end for end in _READERS if isinstance(key, str) and key.endswith(end)), "")
