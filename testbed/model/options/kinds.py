"""Every kind of number that an option takes: its unit, its bounds and the words that refuse any other, all in this one
place.

A kind called with a text (of the command line) gives the number; ``checked`` takes a number as it is (of the library,
of a file). Both raise ``InputError`` with what to give instead. Numbers are finite and bounded without exception:
"nan", "inf", and whole numbers of a thousand digits are refused before anything is built. What depends on the network
or on another option is checked where both are known.
"""

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from testbed.errors import InputError, require_type

_THOUSANDS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BYTES = _THOUSANDS | {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
SIZES = {prefix + unit: factor for prefix, factor in _BYTES.items() for unit in ("", "b")}
RATES = {
    prefix + unit: factor
    for (prefix, factor), unit in itertools.product(
        _THOUSANDS.items(), ("", "b", "bit", "bps", "bit/s")
    )
}
_BYTES_A_SECOND = re.compile("B(ps)?$")
"""Of a rate: eight times the bits that the small letter stands for."""
TIMES = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
DAY_S = 86_400.0
MAX_SEED = 2**53 - 1
"""The largest whole number below which JSON keeps every one exactly."""
_SHOWN = 24
"""Characters of a refused text that its message repeats."""


@dataclass(frozen=True, eq=False)
class Kind:
    """Numbers from ``least`` to ``most``, in words ``noun``; ``above``, ``below``: the bound itself is left out.

    ``units``: what may follow the number, and the factor that it stands for; the empty unit where there is none. A
    ``whole`` kind gives an int, rounded where there are units; others give a float. ``hint`` ends the message of a
    refusal. ``metavar``: what stands for the number in a help page, None for the option's own name.
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
        """The number of a text of the command line. Raises InputError for what is none of the kind."""
        value = self._read(text)
        if not self._allows(value):
            shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
            bits = self.units is SIZES and text.strip().lower().endswith(("b", "bit"))
            more = " (b stands for bits, B for bytes)" if bits else ""
            raise InputError(f"{shown!r}: give {self.says}{more}")
        return round(value) if self.whole else float(value)

    def checked(self, value: object, name: str) -> int | float:
        """The number itself. Raises UsageError for what is no number, InputError for one of another kind."""
        kinds = int if self.whole else (int, float)
        number = cast(
            "float",
            require_type(value, kinds, name, "a whole number" if self.whole else "a number"),
        )
        if not self._allows(number):
            raise InputError(f"{name} {str(number)[:_SHOWN]}: give {self.says}")
        return int(number) if self.whole else float(number)

    @property
    def says(self) -> str:
        """What to give, in words: ``seconds, more than 0 and at most 86400, as in 2.5 or 250ms``."""
        if not self.above and not self.below:
            bounds = f"{_short(self.least)} to {_short(self.most)}"
        else:
            low = (
                f"more than {_short(self.least)}" if self.above else f"{_short(self.least)} or more"
            )
            bounds = low + (
                f" and below {_short(self.most)}"
                if self.below
                else f" and at most {_short(self.most)}"
            )
        return f"{self.noun}, {bounds}" + (f", as in {self.hint}" if self.hint else "")

    def _allows(self, value: float) -> bool:
        low = value > self.least if self.above else value >= self.least
        return low and (value < self.most if self.below else value <= self.most)

    def _read(self, text: str) -> float:
        """The number before the longest unit that fits, times that unit; not a number where there is none."""
        word = text.strip().lower()
        bytes_s = self.units is RATES and _BYTES_A_SECOND.search(text.strip())
        bits = self.units is SIZES and text.strip().endswith("b")
        if not word.isascii() or len(word) > 60 or "_" in word or bytes_s or bits:
            return math.nan
        try:
            if self.whole and not self.units:
                return int(word)
            for unit in sorted(self.units or {"": 1}, key=len, reverse=True):
                if word.endswith(unit) and _is_number(word[: len(word) - len(unit)]):
                    return float(word[: len(word) - len(unit)]) * (self.units or {"": 1})[unit]
        except ValueError:
            pass
        return math.nan


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _short(bound: float) -> str:
    """A bound in as few digits as say it exactly: 100000, 1e15, 0.1.

    >>> _short(254), _short(1e15), _short(0.1), _short(2**53 - 1)
    ('254', '1e+15', '0.1', '9007199254740991')
    """
    return (
        str(int(bound))
        if (bound == int(bound) and abs(bound) < 1e7) or bound == MAX_SEED
        else f"{bound:.12g}"
    )


def whole(least: int, most: int, noun: str = "a whole number") -> Kind:
    """Whole numbers from ``least`` to ``most``."""
    return Kind(noun, least, most, whole=True, metavar="N")


def times(least: float, most: float, *, above: bool = False) -> Kind:
    """Seconds from ``least`` (``above``: more than that) to ``most``."""
    return Kind(
        "seconds", least, most, above=above, units=TIMES, hint="2.5 or 250ms", metavar="TIME"
    )


def bytes_up_to(most: int) -> Kind:
    """Sizes of 1 to ``most`` bytes."""
    return Kind(
        "bytes", 1, most, whole=True, units=SIZES, hint="1MB, 500kB or 64KiB", metavar="SIZE"
    )


any_whole = whole(-MAX_SEED, MAX_SEED)
"""What ``type=int`` stands for where an option says no more."""
any_number = Kind("a number", -1e300, 1e300)
"""What ``type=float`` stands for where an option says no more."""

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
large_block_packets = whole(
    1, 56_403
)  # as many as RaptorQ takes (RFC 6330); what Reed-Solomon cannot is refused by the code
job_nodes = whole(1, 32)
packets_of_slack = whole(0, 8)
virtual_channels = whole(1, 16)

size_bytes = bytes_up_to(10**18)
mtu_bytes = Kind("bytes", 576, 9216, whole=True, units=SIZES, hint="1500 or 9000")
symbol_bytes = Kind("bytes", 4, 8900, whole=True, units=SIZES, hint="256")
rate_bps = Kind("bits a second", 0, 1e15, above=True, units=RATES, hint="20Mbps", metavar="RATE")
rate_pps = Kind("packets a second", 0, 1e6, above=True, units=_THOUSANDS, metavar="PPS")

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
    """``A:B:STEP`` to the loads from A to B, fractions of a link; 200 at most. Raises InputError for anything else."""
    parts = [fraction._read(word) for word in text.split(":")]
    if len(parts) != 3 or not all(fraction._allows(part) for part in parts) or parts[1] < parts[0]:
        raise InputError(f"--loads {text[:_SHOWN]!r}: give A:B:STEP, as in 0.1:0.9:0.1")
    first, last, step = parts
    count = math.floor((last - first) / step + 1e-9) + 1
    if count > 200:
        raise InputError(f"--loads {text[:_SHOWN]!r}: {count:.3g} loads; give 200 at most")
    return tuple(round(first + k * step, 12) for k in range(count))


sending_rate = Kind("packets a second", 0, 1e9, above=True, units=_THOUSANDS, metavar="PPS")
