"""Headings and values of tables as text, with the unit taken from the end of a field's name.

The unit is scaled to the values, and a value has four significant digits::

    message_bytes 1000000       -> "message (MB)" 1
    throughput_bps 49887400.1   -> "throughput (Mbit/s)" 49.9
"""

import math
from collections.abc import Sequence
from typing import TypeGuard

# Text of a missing value.
NOTHING = "–"
# The minus sign of texts, instead of a hyphen.
MINUS = "−"
# Ending of a field's name -> (factor, unit), the largest unit first.
_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "_bps": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")),
    "_bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")),
    "_pps": ((1.0, "packets/s"),),
    "_s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
}
# Words of field names that are written in capitals.
_ABBREVIATIONS = ("ROR", "MLU", "DER", "NAC", "FT-DRB", "I/O", "M", "CPU")
_SPELLING = {word.lower(): word for word in _ABBREVIATIONS} | {"io": "I/O"}
# Number of significant digits of a value.
DIGITS = 4
# Largest number of values of a list that a cell shows. The file of points contains all values.
MAX_SHOWN = 4


def column(name: str, values: Sequence[object]) -> tuple[str, float]:
    """Return the heading of a column, with its unit, and the factor to divide its values by.

    The unit is the largest in which the largest value is at least 1.

    >>> column("throughput_bps", [49887400.1, 2e6]), column("delay_s", [0.0003])
    (('throughput (Mbit/s)', 1000000.0), ('delay (µs)', 1e-06))
    >>> column("seconds", [1.5])
    ('seconds', 1.0)
    """
    if name == "bytes":
        name = "payload_bytes"
    ending = _unit_ending(name)
    numbers = [abs(value) for value in values if _is_finite_number(value)]
    if ending is None or not numbers:
        return _spelled(name), 1.0
    scales = _SCALES[ending]
    # Values too small for every unit: seconds if they are times (they are 0), else the smallest.
    factor, unit = scales[0] if ending == "_s" else scales[-1]
    for scale in scales:
        if max(numbers) >= scale[0]:
            factor, unit = scale
            break
    return f"{_spelled(name.removesuffix(ending))} ({unit})", factor


def _unit_ending(name: str) -> str | None:
    if name.endswith("_per_s"):
        return None
    for ending in _SCALES:
        if name.endswith(ending) and len(name) > len(ending):
            return ending
    return None


def _is_finite_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _spelled(name: str) -> str:
    """Return the name of a field as text: mean_ror -> "mean ROR"."""
    return " ".join(_SPELLING.get(word, word) for word in name.replace("_", " ").split(" "))


def cell(value: object, factor: float = 1.0) -> str:
    """Return a value as text, divided by the factor if it is a number.

    >>> cell(49887400.1, 1e6), cell(None), cell(True), cell([1, 2.5])
    ('49.89', '–', 'yes', '1, 2.5')
    >>> cell(list(range(9))), cell({"a": 1})
    ('0, 1, 2, 3 and 5 more', 'a 1')
    >>> is_series([1, 2]), is_series(list(range(9))), is_series([[1, 2]])
    (False, True, True)
    """
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        # An int stays an int unless it is scaled, so that all of its digits are shown.
        scaled = value / factor if factor != 1.0 else value
        return _number(scaled)
    if isinstance(value, dict):
        return _listed([f"{str(key).replace('_', ' ')} {cell(v)}" for key, v in value.items()])
    if isinstance(value, (list, tuple)):
        return _listed([cell(v) for v in value]) if value else NOTHING
    return str(value)


def in_words(value: float, ending: str) -> str:
    """Return a value with the unit of a field whose name has this ending.

    >>> in_words(1e11, "_bps"), in_words(0.00384, "_s"), in_words(1_000_000, "_bytes")
    ('100 Gbit/s', '3.84 ms', '1 MB')
    """
    scales = _SCALES[ending]
    factor, unit = next((scale for scale in scales if value >= scale[0]), scales[-1])
    return f"{cell(value, factor)} {unit}"


def is_series(value: object) -> bool:
    """Return whether a value is a series or a structure, which a table cell cannot show.

    Figures show such values, and the file of points contains all of them.
    """
    if isinstance(value, dict):
        return True
    if not isinstance(value, (list, tuple)):
        return False
    return len(value) > MAX_SHOWN or any(isinstance(v, (dict, list, tuple)) for v in value)


def _listed(texts: list[str]) -> str:
    shown = ", ".join(texts[:MAX_SHOWN])
    more = len(texts) - MAX_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _number(value: float) -> str:
    """Return a number with ``DIGITS`` significant digits, without an exponent from 1e-5 to 1e12.

    Integers have all of their digits.
    """
    if value == 0:
        return "0"
    if isinstance(value, int) or not math.isfinite(value):
        return str(value).replace("inf", "infinite")
    if not 1e-5 <= abs(value) < 1e12:
        return f"{value:.{DIGITS - 1}g}"
    decimals = max(0, DIGITS - 1 - math.floor(math.log10(abs(value))))
    return trimmed(value, decimals)


def trimmed(value: float, digits: int) -> str:
    """Return a number with at most this number of decimals, without trailing zeros."""
    text = f"{value:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(share: float | None, digits: int = 2) -> str:
    """Return a share as a percentage: 0.125 -> "12.50 %". None becomes ``NOTHING``."""
    if share is None:
        return NOTHING
    return f"{share * 100:.{digits}f} %".replace("-", MINUS)


def plain(value: float | None, digits: int = 2) -> str:
    """Return a number as ``trimmed`` does, with a minus sign. None becomes ``NOTHING``."""
    if value is None:
        return NOTHING
    return trimmed(value, digits).replace("-", MINUS)


def milliseconds(seconds: float | None) -> str:
    """Return seconds as whole milliseconds, or with one decimal below ten milliseconds."""
    if seconds is None:
        return NOTHING
    decimals = 1 if abs(seconds) < 0.01 else 0
    return f"{seconds * 1000:.{decimals}f} ms".replace("-", MINUS)


def seconds_in_words(seconds: float | None) -> str:
    """Return a duration as text: 1.5 -> "1.5 s", 75 -> "1 min 15 s"."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{plain(seconds, 1)} s"
    minutes, remaining_s = divmod(round(seconds), 60)
    return f"{minutes} min {remaining_s} s"


def half_width(interval: tuple[float, float] | None) -> float | None:
    """Return half the length of an interval, which is written behind the ± sign."""
    if interval is None:
        return None
    return (interval[1] - interval[0]) / 2
