"""Rates and times with their units, as people write them in files of networks."""

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
_TC = {"sec": "s", "msec": "ms", "usec": "us", "nsec": "ns"}
"""Other names of tc(8), each with or without an s behind."""
_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
_RATE = re.compile(rf"{_NUMBER}\s*([kmgt]?)(?:b|bit|bits)?(?:ps|/s)?", re.ASCII)
_BYTES = re.compile(r"B(?:ps|/s)?$")
_TIME = re.compile(rf"{_NUMBER}\s*(ns|us|µs|ms|s|min|h|)")
_TC_TIME = re.compile(r"([mun]?sec)s?$")


def rate_bps(text: str) -> float:
    """Bits a second; without a unit the number itself; not a number for what is no rate, and for bytes (``10MB/s``).

    >>> rate_bps("10Mbps"), rate_bps("2.5 Gbit/s"), rate_bps("1e6"), rate_bps("10MB/s")
    (10000000.0, 2500000000.0, 1000000.0, nan)
    """
    if _BYTES.search(text.strip()):
        return math.nan
    return _times(_RATE.fullmatch(text.strip().lower()), _THOUSANDS)


def seconds(text: str) -> float:
    """Seconds; without a unit the number itself; not a number for what is no time.

    >>> seconds("5ms"), seconds("2 min"), seconds("3usecs"), seconds("0.25"), seconds("soon")
    (0.005, 120.0, 3e-06, 0.25, nan)
    """
    words = _TC_TIME.sub(lambda found: _TC[found[1]], text.strip().lower())
    return _times(_TIME.fullmatch(words), _SECONDS)


def fraction(text: str) -> float:
    """Return the fraction that the text says, alone or in per cent; NaN if it says none.

    >>> fraction("0.25"), fraction("25%"), fraction("25 %"), fraction("25 km")
    (0.25, 0.25, 0.25, nan)
    """
    number = text.strip().lower()
    is_percent = number.endswith("%")
    number = number.removesuffix("%").rstrip()
    if len(number) > 60 or not is_bare(number):
        return math.nan
    return float(number) / 100 if is_percent else float(number)


def is_bare(text: str) -> bool:
    """Whether the text is a number without a unit."""
    return re.fullmatch(_NUMBER, text.strip().lower()) is not None


def _times(found: re.Match[str] | None, units: dict[str, float]) -> float:
    if found is None or len(found[0]) > 60:
        return math.nan
    number, factor = float(found[1]), units[found[2]]
    return number * factor if factor >= 1 else number / round(1 / factor)
