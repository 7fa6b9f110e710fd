"""The kinds of numbers that options accept, with their units, bounds and error messages.

Calling a kind with a text of the command line returns the number. ``checked`` accepts a number of
the library or of a file. Both raise ``InputError`` with what to give instead. All numbers are
finite and bounded: "nan", "inf" and integers of a thousand digits are refused before anything is
built. Limits that depend on the network or on another option are checked where both are known.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from testbed.errors import InputError, require_type

_DECIMAL_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_PREFIXES = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def _with_units(prefixes: Mapping[str, int], units: Sequence[str]) -> dict[str, int]:
    """Return the factor of each prefix with each unit after it."""
    factors = {}
    for prefix, factor in prefixes.items():
        for unit in units:
            factors[prefix + unit] = factor
    return factors


# The units of each quantity in lower case, with the number of bytes, bits per second or seconds.
SIZES = _with_units(_DECIMAL_PREFIXES | _BINARY_PREFIXES, ("", "b"))
RATES = _with_units(_DECIMAL_PREFIXES, ("", "b", "bit", "bps", "bit/s"))
TIMES = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
# Kinds without a unit read their numbers as kinds with this one.
_NO_UNIT = {"": 1.0}

# A rate in bytes per second is refused, because the small letter stands for bits.
_BYTES_PER_SECOND = re.compile("B(ps)?$")

# The longest duration that can be requested.
DAY_S = 86_400.0
# JSON numbers represent every integer up to this one exactly.
MAX_SEED = 2**53 - 1
# Characters of a refused text that its message repeats.
_SHOWN = 24
# Longest text that is read as a number.
_MAX_TEXT = 60


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of numbers.

    Attributes:
        noun: What a message calls such a number, such as "seconds".
        least: The lower bound.
        most: The upper bound.
        above: Whether the lower bound itself is excluded.
        below: Whether the upper bound itself is excluded.
        whole: Whether the number is an int. If there are units, it is rounded. Otherwise it is a
            float.
        units: The units that may follow the number, in lower case, each with its factor. The empty
            unit is the one of a number alone.
        hint: An example, which ends the message of a refusal.
        metavar: Stands for the number in a help page. None: the name of the option.
    """

    noun: str
    least: float
    most: float
    above: bool = False
    below: bool = False
    whole: bool = False
    units: Mapping[str, float] = field(default_factory=dict)
    hint: str = ""
    metavar: str | None = None

    def __call__(self, text: str) -> int | float:
        """Return the number in a text of the command line.

        Raises:
            InputError: The text is not a number of this kind.
        """
        value = self._read(text)
        if not self._allows(value):
            shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
            message = f"{shown!r}: give {self.says}"
            if self.units is SIZES and text.strip().lower().endswith(("b", "bit")):
                message += " (b stands for bits, B for bytes)"
            raise InputError(message)
        return round(value) if self.whole else float(value)

    def checked(self, value: object, name: str) -> int | float:
        """Return a number of the library or of a file.

        Args:
            value: The number.
            name: The name of the option, for messages.

        Raises:
            UsageError: The value is not a number.
            InputError: The number is not of this kind.
        """
        number: float
        if self.whole:
            number = cast("int", require_type(value, int, name, "a whole number"))
        else:
            number = cast("float", require_type(value, (int, float), name, "a number"))
        if not self._allows(number):
            raise InputError(f"{name} {str(number)[:_SHOWN]}: give {self.says}")
        return int(number) if self.whole else float(number)

    @property
    def says(self) -> str:
        """Text that tells a user what to give.

        Such as: seconds, more than 0 and at most 86400, as in 2.5 or 250ms.
        """
        lower = _short(self.least)
        upper = _short(self.most)
        bounds = f"{lower} to {upper}"
        if self.above or self.below:
            lower_bound = f"more than {lower}" if self.above else f"{lower} or more"
            upper_bound = f"below {upper}" if self.below else f"at most {upper}"
            bounds = f"{lower_bound} and {upper_bound}"
        description = f"{self.noun}, {bounds}"
        return f"{description}, as in {self.hint}" if self.hint else description

    def _allows(self, value: float) -> bool:
        """Return whether the number is within the bounds. NaN is not."""
        if self.above and value == self.least:
            return False
        if self.below and value == self.most:
            return False
        return self.least <= value <= self.most

    def _read(self, text: str) -> float:
        """Return the number before the longest unit that fits, times that unit; NaN for others."""
        lower_case = text.strip().lower()
        in_bytes_per_second = self.units is RATES and _BYTES_PER_SECOND.search(text.strip())
        in_bits = self.units is SIZES and text.strip().endswith("b")
        if in_bytes_per_second or in_bits:
            return math.nan
        # Python would accept an underscore and digits of other scripts.
        if not lower_case.isascii() or len(lower_case) > _MAX_TEXT or "_" in lower_case:
            return math.nan
        if self.whole and not self.units:
            try:
                return int(lower_case)
            except ValueError:
                return math.nan
        units = self.units or _NO_UNIT
        for unit in sorted(units, key=len, reverse=True):
            number = lower_case.removesuffix(unit)
            if lower_case.endswith(unit) and _is_number(number):
                return float(number) * units[unit]
        return math.nan


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _short(bound: float) -> str:
    """Return a bound in as few digits as represent it exactly: 100000, 1e15, 0.1.

    >>> _short(254), _short(1e15), _short(0.1), _short(2**53 - 1)
    ('254', '1e+15', '0.1', '9007199254740991')
    """
    is_short_integer = bound == int(bound) and abs(bound) < 1e7
    if is_short_integer or bound == MAX_SEED:
        return str(int(bound))
    return f"{bound:.12g}"


def whole(least: int, most: int, noun: str = "a whole number") -> Kind:
    """Return the kind of integers from ``least`` to ``most``."""
    return Kind(noun, least, most, whole=True, metavar="N")


def times(least: float, most: float, *, above: bool = False) -> Kind:
    """Return the kind of seconds from ``least`` (with ``above``: more than it) to ``most``."""
    return Kind(
        "seconds", least, most, above=above, units=TIMES, hint="2.5 or 250ms", metavar="TIME"
    )


def bytes_up_to(most: int) -> Kind:
    """Return the kind of sizes from 1 to ``most`` bytes."""
    return Kind(
        "bytes", 1, most, whole=True, units=SIZES, hint="1MB, 500kB or 64KiB", metavar="SIZE"
    )


# The kinds of ``type=int`` and ``type=float`` if an option does not say more.
any_whole = whole(-MAX_SEED, MAX_SEED)
any_number = Kind("a number", -1e300, 1e300)

seed = replace(whole(0, MAX_SEED), metavar=None)
count = whole(1, 1_000_000)
few = whole(0, 10_000)
some = whole(1, 10_000)
processes = whole(1, 256)
occurrences = whole(1, 255)
probe_interval = whole(2, 10**9)
simulated_interval = whole(1, 10**9)
metapath_paths = whole(1, 32)
simulated_paths = whole(1, 64)
diameters = whole(2, 10**6)
blocks = replace(whole(100, 10_000_000), metavar=None)
block_packets = whole(1, 254)
fixed_block = whole(1, 255)
# The maximum number of source packets of RaptorQ (RFC 6330). Reed-Solomon accepts fewer; its code
# checks this.
large_block_packets = whole(1, 56_403)
job_nodes = whole(1, 32)
packets_of_slack = whole(0, 8)
virtual_channels = whole(1, 16)

size_bytes = bytes_up_to(10**18)
mtu_bytes = Kind("bytes", 576, 9216, whole=True, units=SIZES, hint="1500 or 9000")
symbol_bytes = Kind("bytes", 4, 8900, whole=True, units=SIZES, hint="256")
rate_bps = Kind("bits a second", 0, 1e15, above=True, units=RATES, hint="20Mbps", metavar="RATE")
rate_pps = Kind("packets a second", 0, 1e6, above=True, units=_DECIMAL_PREFIXES, metavar="PPS")

duration = times(0, DAY_S, above=True)
buffering = times(0, 3600, above=True)
holding = times(0, 3600)
moment = times(0, 1e9)
simulated = times(0, 18, above=True)
warm_up = times(0, 18)
short = times(0, 1, above=True)
answering = times(0.1, 3600)
search_limit = times(0, DAY_S, above=True)
time_limit = times(0, 1e9, above=True)
interval = times(0, 1e12, above=True)
silence = times(0, 60, above=True)
hours = Kind("hours", 0, 10_000, above=True)

fraction = Kind("a fraction", 0, 1, above=True)
load = Kind("a fraction of a link", 0, 1, above=True)
share = Kind("a fraction", 0, 1, below=True)
probability = Kind("a probability", 0, 1, above=True, below=True, hint="1e-5")
points = Kind("points", 0, 50, above=True, below=True)
overhead = Kind("a number", 0, 1000, above=True)
times_zero_load = Kind("a number", 0, 1e6, above=True)


def loads(text: str) -> tuple[float, ...]:
    """Return the loads of ``A:B:STEP``: from A to B in steps, as fractions of the link rate.

    Raises:
        InputError: The text is not of this form, or stands for more than 200 loads.
    """
    parts = [fraction._read(part) for part in text.split(":")]
    if len(parts) != 3 or not all(fraction._allows(part) for part in parts) or parts[1] < parts[0]:
        raise InputError(f"--loads {text[:_SHOWN]!r}: give A:B:STEP, as in 0.1:0.9:0.1")
    first, last, step = parts
    # The small addition keeps the last load in spite of rounding errors.
    count = math.floor((last - first) / step + 1e-9) + 1
    if count > 200:
        raise InputError(f"--loads {text[:_SHOWN]!r}: {count:.3g} loads; give 200 at most")
    return tuple(round(first + k * step, 12) for k in range(count))


sending_rate = Kind("packets a second", 0, 1e9, above=True, units=_DECIMAL_PREFIXES, metavar="PPS")
