"""Parses the units of data rates in the traffic and network files of other programs."""

import re

_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_PREFIXES |= {"kilo": 1e3, "mega": 1e6, "giga": 1e9, "tera": 1e12}
# The prefixes of a unit, and the forms of a rate such as 10Mbit/s or 1GBps.
_PREFIX = "(?P<prefix>k|m|g|t|kilo|mega|giga|tera|)"
_RATE = re.compile(
    rf"{_PREFIX}(?P<what>bit|bits|b|byte|bytes)(?P<rate>persec|persecond|pers|/s|/sec|/second|ps|)"
)
_GRANULARITY = re.compile(r"(?P<number>\d+)?(?P<unit>[a-z]+)")
_SECONDS: dict[str, float] = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
}
_SECONDS |= {"d": 86400, "day": 86400, "week": 7 * 86400, "month": 365.25 / 12 * 86400}
_SECONDS |= {"year": 365.25 * 86400}
# The unit in a heading such as "demand (Mbps)" or "rateKbit".
_HEADING = re.compile(
    r"(?<![a-z])((?:[kmgt]|kilo|mega|giga|tera)(?:bps|bits?(?:/s)?|b(?:/s)?))(?![a-z])"
)


def unit_bps(unit: str, granularity: str = "") -> float | None:
    """Return the number of bits per second in one unit of a rate.

    Args:
        unit: The unit, such as ``MBITPERSEC`` or ``kbps``. Case matters only for a B of bytes.
        granularity: The period of a unit of volume, such as ``5min``. A unit that names no period
            is divided by it; if it is empty, the period is a second.

    Returns:
        None if the text is not a unit of rates or the granularity is not a period.

    >>> unit_bps("MBITPERSEC"), unit_bps("kbps"), unit_bps("MByte/s"), unit_bps("packets")
    (1000000.0, 1000.0, 8000000.0, None)
    >>> unit_bps("GBIT", "5min")
    3333333.3333333335
    """
    compact = re.sub(r"[\s_()\[\]-]", "", unit)
    # A capital B stands for bytes, a small one for bits.
    in_bytes = re.fullmatch(r"[kKMGT]?B(/s|ps)?", compact) is not None
    match = _RATE.fullmatch(compact.lower())
    if match is None:
        return None
    factor = _PREFIXES[match["prefix"]]
    if in_bytes or match["what"] in ("byte", "bytes"):
        factor *= 8
    if match["rate"] or not granularity.strip():
        return factor
    period_s = _period_s(granularity)
    if period_s is None:
        return None
    return factor / period_s


def heading_bps(heading: str) -> float | None:
    """Return the number of bits per second in the unit that a column heading contains.

    Returns:
        None if the heading contains no unit of a rate.

    >>> heading_bps("demand (Mbps)"), heading_bps("rateKbit"), heading_bps("value")
    (1000000.0, 1000.0, None)
    """
    spaced = re.sub("(?<=[a-z])(?=[A-Z])", " ", heading).replace("_", " ")
    match = _HEADING.search(spaced.lower())
    if match is None:
        return None
    return unit_bps(match[1])


def _period_s(granularity: str) -> float | None:
    match = _GRANULARITY.fullmatch(re.sub(r"\s", "", granularity.lower()))
    if match is None:
        return None
    # The unit may be a plural; "s" itself stands for seconds.
    unit_s = _SECONDS.get(match["unit"].removesuffix("s") or "s")
    if unit_s is None:
        return None
    return float(unit_s * int(match["number"] or 1))
