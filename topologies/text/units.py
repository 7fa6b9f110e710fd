"""Parses data rates, times and fractions with their units, as written in network files."""

import math
import re

_THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECONDS = {
    "": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
}
# Other names that tc(8) accepts for units of time; each may have an s behind it.
_TC_UNITS = {"sec": "s", "msec": "ms", "usec": "us", "nsec": "ns"}
_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
_RATE = re.compile(rf"{_NUMBER}\s*([kmgt]?)(?:b|bit|bits)?(?:ps|/s)?", re.ASCII)
_BYTES = re.compile(r"B(?:ps|/s)?$")
_TIME = re.compile(rf"{_NUMBER}\s*(ns|us|µs|ms|s|min|h|)")
_TC_TIME = re.compile(r"([mun]?sec)s?$")
# Longer texts are refused: no quantity that a person writes has as many characters.
_MAX_CHARACTERS = 60


def rate_bps(text: str) -> float:
    """Return the bits per second of a rate; a number without a unit is in bits per second.

    Returns:
        NaN if the text is not a rate, or is a rate in bytes (``10MB/s``).

    >>> rate_bps("10Mbps"), rate_bps("2.5 Gbit/s"), rate_bps("1e6"), rate_bps("10MB/s")
    (10000000.0, 2500000000.0, 1000000.0, nan)
    """
    if _BYTES.search(text.strip()):
        return math.nan
    return _product(_RATE.fullmatch(text.strip().lower()), _THOUSANDS)


def seconds(text: str) -> float:
    """Return the seconds of a time; a number without a unit is in seconds.

    Returns:
        NaN if the text is not a time.

    >>> seconds("5ms"), seconds("2 min"), seconds("3usecs"), seconds("0.25"), seconds("soon")
    (0.005, 120.0, 3e-06, 0.25, nan)
    """
    time = _TC_TIME.sub(lambda match: _TC_UNITS[match[1]], text.strip().lower())
    return _product(_TIME.fullmatch(time), _SECONDS)


def fraction(text: str) -> float:
    """Return the value of a fraction, which may be in per cent.

    Returns:
        NaN if the text is not a number.

    >>> fraction("0.25"), fraction("25%"), fraction("25 %"), fraction("25 km")
    (0.25, 0.25, 0.25, nan)
    """
    number = text.strip().lower()
    is_percent = number.endswith("%")
    number = number.removesuffix("%").rstrip()
    if len(number) > _MAX_CHARACTERS or not is_bare(number):
        return math.nan
    return float(number) / 100 if is_percent else float(number)


def is_bare(text: str) -> bool:
    """Return whether the text is a number without a unit."""
    return re.fullmatch(_NUMBER, text.strip().lower()) is not None


def _product(match: re.Match[str] | None, units: dict[str, float]) -> float:
    """Return the matched number times its unit, or NaN if there is no match.

    Args:
        match: The number and the name of its unit.
        units: The value of each unit.
    """
    if match is None or len(match[0]) > _MAX_CHARACTERS:
        return math.nan
    number = float(match[1])
    factor = units[match[2]]
    if factor >= 1:
        return number * factor
    # A division by a whole number gives the float nearest to the decimal value: 5 ms is 0.005.
    return number / round(1 / factor)
