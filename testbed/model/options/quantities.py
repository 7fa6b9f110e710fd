"""Numbers with units in JSON that people write."""

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


# The reader of numbers for each end of a key, which names the unit.
_READERS: Mapping[str, Callable[[str], float]] = {
    "_s": seconds,
    "bps": rate_bps,
    "bytes": _bytes,
    "_fraction": fraction,
}


def plain_numbers(value: object, key: str = "") -> object:
    """Return a JSON value in which numbers with a unit are plain numbers.

    Other text is unchanged, and so is a number in quotes without a unit.

    Args:
        value: A value of JSON.
        key: The key of the value. Its end names the unit, also for the values in lists and
            objects.

    >>> plain_numbers({"start_s": "200ms", "sizes_bytes": ["1kB"], "link": "5ms"})
    {'start_s': 0.2, 'sizes_bytes': [1000], 'link': '5ms'}
    """
    if isinstance(value, Mapping):
        return {
            name: plain_numbers(item, _unit_of(name) or _unit_of(key))
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [plain_numbers(item, key) for item in value]
    unit = _unit_of(key)
    if not isinstance(value, str) or not unit or is_bare(value):
        return value
    number = _READERS[unit](value)
    return number if math.isfinite(number) else value


def _unit_of(key: object) -> str:
    """Return the end of a key that names a unit, or ""."""
    if isinstance(key, str):
        for end in _READERS:
            if key.endswith(end):
                return end
    return ""
