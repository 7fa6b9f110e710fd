"""Units of rates in files of demands and of networks of other programs."""

import re

_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_PREFIXES |= {"kilo": 1e3, "mega": 1e6, "giga": 1e9, "tera": 1e12}
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
    """Return the bits per second of one unit, or None if it is not a unit of rates.

    A unit without a time is a volume over the granularity.

    >>> unit_bps("MBITPERSEC"), unit_bps("kbps"), unit_bps("MByte/s"), unit_bps("packets")
    (1000000.0, 1000.0, 8000000.0, None)
    >>> unit_bps("GBIT", "5min")
    3333333.3333333335
    """
    word = re.sub(r"[\s_()\[\]-]", "", unit)
    # A capital B stands for bytes, a small one for bits.
    of_bytes = re.fullmatch(r"[kKMGT]?B(/s|ps)?", word) is not None
    match = _RATE.fullmatch(word.lower())
    if match is None:
        return None
    factor = _PREFIXES[match["prefix"]]
    if of_bytes or match["what"] in ("byte", "bytes"):
        factor *= 8
    if match["rate"] or not granularity.strip():
        return factor
    period_s = _period_s(granularity)
    return None if period_s is None else factor / period_s


def heading_bps(heading: str) -> float | None:
    """Return the bits per second of the unit in a heading of a table; None if it names none.

    >>> heading_bps("demand (Mbps)"), heading_bps("rateKbit"), heading_bps("value")
    (1000000.0, 1000.0, None)
    """
    spaced = re.sub("(?<=[a-z])(?=[A-Z])", " ", heading).replace("_", " ")
    match = _HEADING.search(spaced.lower())
    return None if match is None else unit_bps(match[1])


def _period_s(granularity: str) -> float | None:
    match = _GRANULARITY.fullmatch(re.sub(r"\s", "", granularity.lower()))
    if match is None:
        return None
    seconds = _SECONDS.get(match["unit"].removesuffix("s") or "s")
    return None if seconds is None else float(seconds * int(match["number"] or 1))
