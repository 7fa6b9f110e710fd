"""Columns and values of a table of points in words: the unit that a name ends in becomes the column's, digits are as
many as say something.

message_bytes 1000000 -> "message (MB)" 1      throughput_bps 49887400.1 -> "throughput (Mbit/s)" 49.9
"""

import math
from collections.abc import Sequence

NOTHING = "–"
"""Written where there is no value."""
MINUS = "−"
_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "_bps": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")),
    "_bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")),
    "_pps": ((1.0, "packets/s"),),
    "_s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
}
"""What a name may end in -> units, the largest first."""
_SPELT = {
    word.lower(): word for word in ("ROR", "MLU", "DER", "NAC", "FT-DRB", "I/O", "M", "CPU")
} | {"io": "I/O"}
DIGITS = 4
MAX_SHOWN = 4
"""Of a list, so many values are shown; all of them are in the file of points."""


def column(name: str, values: Sequence[object]) -> tuple[str, float]:
    """(heading with its unit, what a value is divided by): the unit in which the largest value is at least 1.

    >>> column("throughput_bps", [49887400.1, 2e6]), column("seconds", [1.5]), column("delay_s", [0.0003])
    (('throughput (Mbit/s)', 1000000.0), ('seconds', 1.0), ('delay (µs)', 1e-06))
    """
    if name == "bytes":
        name = "payload_bytes"
    ending = next((end for end in _SCALES if name.endswith(end) and len(name) > len(end)), None)
    ending = None if name.endswith("_per_s") else ending
    numbers = [
        abs(v)
        for v in values
        if isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)
    ]
    if ending is None or not numbers:
        return _spoken(name), 1.0
    scales = _SCALES[ending]
    factor, unit = next(
        (scale for scale in scales if max(numbers) >= scale[0]), scales[0 if ending == "_s" else -1]
    )
    return f"{_spoken(name.removesuffix(ending))} ({unit})", factor


def _spoken(name: str) -> str:
    """A field's name as words: mean_ror -> "mean ROR"."""
    return " ".join(_SPELT.get(word, word) for word in name.replace("_", " ").split(" "))


def cell(value: object, factor: float = 1.0) -> str:
    """A value in words, nothing cut in the middle of it.

    >>> cell(49887400.1, 1e6), cell(None), cell(True), cell([1, 2.5]), cell(list(range(9))), cell({"a": 1})
    ('49.89', '–', 'yes', '1, 2.5', '0, 1, 2, 3 and 5 more', 'a 1')
    >>> is_series([1, 2]), is_series(list(range(9))), is_series([[1, 2]])
    (False, True, True)
    """
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(value / factor if factor != 1.0 else value)
    if isinstance(value, dict):
        return _listed([f"{str(k).replace('_', ' ')} {cell(v)}" for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return _listed([cell(v) for v in value]) if value else NOTHING
    return str(value)


def in_words(value: float, ending: str) -> str:
    """Return a value with the unit of a name that ends so.

    >>> in_words(1e11, "_bps"), in_words(0.00384, "_s"), in_words(1_000_000, "_bytes")
    ('100 Gbit/s', '3.84 ms', '1 MB')
    """
    scales = _SCALES[ending]
    factor, unit = next((scale for scale in scales if value >= scale[0]), scales[-1])
    return f"{cell(value, factor)} {unit}"


def is_series(value: object) -> bool:
    """Whether a value is a series or a structure, of which a table can say nothing: it is drawn, and whole in the file
    of points."""
    return isinstance(value, dict) or (
        isinstance(value, (list, tuple))
        and (len(value) > MAX_SHOWN or any(isinstance(one, (dict, list, tuple)) for one in value))
    )


def _listed(words: list[str]) -> str:
    more = len(words) - MAX_SHOWN
    return ", ".join(words[:MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _number(value: float) -> str:
    """Four digits; no exponent from a hundred-thousandth to a million million."""
    if isinstance(value, int) or not math.isfinite(value) or value == 0:
        return "0" if value == 0 else str(value).replace("inf", "infinite")
    if not 1e-5 <= abs(value) < 1e12:
        return f"{value:.{DIGITS - 1}g}"
    places = max(0, DIGITS - 1 - math.floor(math.log10(abs(value))))
    return trimmed(value, places)


def trimmed(value: float, digits: int) -> str:
    """With at most so many decimals, no trailing zeros."""
    written = f"{value:.{digits}f}"
    written = written.rstrip("0").rstrip(".") if "." in written else written
    return "0" if written == "-0" else written


def percent(share: float | None, digits: int = 2) -> str:
    """A fraction as per cent: 0.125 -> "12.50 %"."""
    return NOTHING if share is None else f"{share * 100:.{digits}f} %".replace("-", MINUS)


def plain(value: float | None, digits: int = 2) -> str:
    """A number with at most so many decimals, no trailing zeros."""
    return NOTHING if value is None else trimmed(value, digits).replace("-", MINUS)


def milliseconds(seconds: float | None) -> str:
    """Seconds as whole milliseconds (one decimal below ten)."""
    if seconds is None:
        return NOTHING
    return f"{seconds * 1000:.{1 if abs(seconds) < 0.01 else 0}f} ms".replace("-", MINUS)


def seconds_in_words(seconds: float | None) -> str:
    """1.5 -> "1.5 s", 75 -> "1 min 15 s"."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{plain(seconds, 1)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def half_width(interval: tuple[float, float] | None) -> float | None:
    """Half the length of an interval: what follows the ± sign."""
    return None if interval is None else (interval[1] - interval[0]) / 2
