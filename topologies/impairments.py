"""What a link does to packets next to its capacity and delay: bursts of loss, jitter, reordering, duplication, a rate
that changes.

Written as words, in network files (``impairments`` of a link) and in faults (``testbed.faults.grammar``), several one
after another::

    loss:F                       each packet is lost with probability F
    ge:p=P[,r=R][,1-h=L][,1-k=L] Gilbert-Elliott bursts, as netem's gemodel: each packet finds the chain good or bad,
                                 is lost with probability 1-k (default 0) or 1-h (default 1), and moves the chain, to
                                 bad with P, to good with R (1 - P)
    delay:S[,jitter=J]           each packet waits S seconds, give or take J, evenly drawn: packets may overtake
    jitter:J                     short for delay:J,jitter=J: each packet waits 0 to 2 J
    reorder:F[,delay=S]          a share F of the packets goes at once, all others wait S (0.01 s): as netem's reorder
    duplicate:F                  each packet comes twice with probability F
    trace:FILE                   packets leave at the opportunities of a trace in Mahimahi's format

Fractions may be in per cent (``1%``), seconds may have another unit (``10ms``).
Packets pass the words from left to right, and then the link's queue, capacity and delay. Sources: Gilbert 1960, Elliott
1963, Hemminger 2005 (netem), Netravali and others 2015 (Mahimahi).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import ClassVar

from topologies.errors import TopologyError, located
from topologies.text.text_file import read_bytes, utf8
from topologies.text.units import fraction, seconds

OPPORTUNITY_BYTES = 1500
"""What one line of a Mahimahi trace lets pass, in bytes of IP packets."""
MAX_DELAY_S = 60.0
MAX_OPPORTUNITIES = 1_000_000
MAX_TRACE_MS = 10**12
_MAX_TRACE_BYTES = 2**24
REORDER_DELAY_S = 0.01


def _check(holds: bool, wrong: str) -> None:
    if not holds:
        raise TopologyError(wrong)


class _Written:
    """An impairment that is a word, KIND:VALUE[,NAME=VALUE...]: ``names`` has its fields by their names there. It loses
    nothing unless it says so."""

    kind: ClassVar[str]
    names: ClassVar[Mapping[str, str]] = {}

    @property
    def mean_loss(self) -> float:
        return 0.0

    def __str__(self) -> str:
        return self._word({name: repr(getattr(self, own)) for name, own in self.names.items()})

    def short(self) -> str:
        """As a person would write it: defaults left out, a trace by its name."""
        usual = {one.name: one.default for one in fields(self)}  # type: ignore[arg-type]
        given = {
            name: getattr(self, own)
            for name, own in self.names.items()
            if getattr(self, own) != usual[own]
        }
        return self._word({name: f"{value:g}" for name, value in given.items()})

    def _word(self, values: Mapping[str, str]) -> str:
        listed = (
            value if name == self.kind else f"{name}={value}" for name, value in values.items()
        )
        return f"{self.kind}:{','.join(listed)}"


@dataclass(frozen=True, kw_only=True)
class RandomLoss(_Written):
    """Each packet is lost with probability ``fraction``, whatever became of the others."""

    kind, names = "loss", {"loss": "fraction"}
    fraction: float

    def __post_init__(self) -> None:
        _check(
            0 < self.fraction <= 1, f"loss:{self.fraction:g}: give a fraction above 0, at most 1"
        )

    @property
    def mean_loss(self) -> float:
        return self.fraction


@dataclass(frozen=True, kw_only=True)
class GilbertElliott(_Written):
    """A Markov chain of two states, moved once by each packet (Gilbert 1960, Elliott 1963); fields as netem's gemodel
    names them.

    ``p``: good to bad; ``r``: bad to good; ``bad_loss`` (1-h) and ``good_loss`` (1-k): probability of loss in each
    state.
    """

    kind, names = "ge", {"p": "p", "r": "r", "1-h": "bad_loss", "1-k": "good_loss"}
    p: float
    r: float
    bad_loss: float = 1.0
    good_loss: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (
            ("p", self.p),
            ("r", self.r),
            ("1-h", self.bad_loss),
            ("1-k", self.good_loss),
        ):
            _check(0 <= value <= 1, f"ge: {name}={value:g} is no probability; give 0 to 1")
        _check(
            self.p > 0 and self.r > 0,
            "ge: p and r must be above 0, or the chain stays where it is for ever",
        )
        _check(self.mean_loss > 0, "ge: no packet would ever be lost; give 1-h or 1-k above 0")

    @property
    def loss_in_bad_state(self) -> float:
        """The stationary probability of the bad state, p / (p + r)."""
        return self.p / (self.p + self.r)

    @property
    def memory(self) -> float:
        """The second eigenvalue of the chain, 1 - p - r: the correlation of its states from one packet to the next."""
        return 1 - self.p - self.r

    @property
    def mean_loss(self) -> float:
        return (
            self.loss_in_bad_state * self.bad_loss + (1 - self.loss_in_bad_state) * self.good_loss
        )


@dataclass(frozen=True, kw_only=True)
class ExtraDelay(_Written):
    """Each packet waits for ``mean_s``, give or take ``jitter_s``, evenly drawn; one that waits less overtakes."""

    kind, names = "delay", {"delay": "mean_s", "jitter": "jitter_s"}
    mean_s: float
    jitter_s: float = 0.0

    def __post_init__(self) -> None:
        _check(
            0 < self.mean_s <= MAX_DELAY_S,
            f"delay:{self.mean_s:g}: give seconds above 0, at most {MAX_DELAY_S:g}",
        )
        _check(
            0 <= self.jitter_s <= self.mean_s,
            f"delay:{self.mean_s:g},jitter={self.jitter_s:g}: no packet waits less than nothing;"
            " give a jitter of 0 to the delay",
        )

    def short(self) -> str:
        return f"jitter:{self.jitter_s:g}" if self.jitter_s == self.mean_s else super().short()


@dataclass(frozen=True, kw_only=True)
class Reordering(_Written):
    """A share ``fraction`` of the packets goes at once, and so overtakes the others, which wait for ``delay_s``."""

    kind, names = "reorder", {"reorder": "fraction", "delay": "delay_s"}
    fraction: float
    delay_s: float

    def __post_init__(self) -> None:
        _check(0 < self.fraction < 1, f"reorder:{self.fraction:g}: give a fraction between 0 and 1")
        _check(
            0 < self.delay_s <= MAX_DELAY_S,
            f"reorder: delay={self.delay_s:g}: give seconds above 0, at most {MAX_DELAY_S:g}",
        )


@dataclass(frozen=True, kw_only=True)
class Duplication(_Written):
    """Each packet comes twice with probability ``fraction``."""

    kind, names = "duplicate", {"duplicate": "fraction"}
    fraction: float

    def __post_init__(self) -> None:
        _check(
            0 < self.fraction <= 1,
            f"duplicate:{self.fraction:g}: give a fraction above 0, at most 1",
        )


@dataclass(frozen=True, kw_only=True)
class RateTrace(_Written):
    """Packets leave at opportunities only, ``times_ms`` after the link began, of 1500 bytes each; after the last one
    all come again.

    The format of Mahimahi's packet-delivery-opportunity traces: bytes are counted, a packet larger than what is left of
    an opportunity goes on in the next one, and an opportunity that finds nobody waiting is lost. ``name`` is for the
    reader only.
    """

    kind = "trace"
    times_ms: tuple[int, ...]
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        count = len(self.times_ms)
        _check(
            0 < count <= MAX_OPPORTUNITIES,
            f"trace: {count} opportunities; give 1 to {MAX_OPPORTUNITIES}",
        )
        _check(
            self.times_ms[-1] > 0, "trace: it lasts 0 ms; its last line says how long it is, in ms"
        )

    @property
    def period_s(self) -> float:
        """After so long the trace begins again: the time of its last opportunity."""
        return self.times_ms[-1] / 1000

    @property
    def mean_rate_bps(self) -> float:
        """Bits of IP packets a second, over the whole trace."""
        return 8 * OPPORTUNITY_BYTES * len(self.times_ms) / self.period_s

    @cached_property
    def gaps(self) -> str:
        """The times as runs of equal gaps: ``12x100+0x3+40`` is a hundred gaps of 12 ms, three of 0, one of 40."""
        steps = [b - a for a, b in zip((0, *self.times_ms), self.times_ms, strict=False)]
        runs = ((gap, len(list(same))) for gap, same in groupby(steps))
        return "+".join(f"{gap}x{count}" if count > 1 else str(gap) for gap, count in runs)

    def __str__(self) -> str:
        return f"trace:ms={self.gaps}"

    def short(self) -> str:
        return f"trace:{self.name or f'{self.mean_rate_bps / 1e6:.3g}Mbit/s'}"


Impairment = RandomLoss | GilbertElliott | ExtraDelay | Reordering | Duplication | RateTrace
Impairments = tuple[Impairment, ...]
KINDS = ("loss", "ge", "delay", "jitter", "reorder", "duplicate", "trace")

_OF_VALUES = {
    one.kind: one for one in (RandomLoss, GilbertElliott, ExtraDelay, Reordering, Duplication)
}
# Values that are times; all others are fractions.
_TIMES = ("delay", "jitter")
_WORDS = re.compile(r"\s+")
_SPACE_BEFORE_UNIT = re.compile(r"(?<=[0-9.])\s+(?=(?:%|[mnuµ]?s|min|h)(?:[\s,]|$))")


def parse_impairments(text: str, folder: str | Path | None = "") -> Impairments:
    """The impairments of words with spaces between.

    ``folder``: where the files of traces lie, and nowhere else; "": the words were typed and may name any file; None:
    they may name none. Raises TopologyError, which names the word and what it may be.

    >>> [str(one) for one in parse_impairments("ge:p=0.01,r=0.3 jitter:0.005")]
    ['ge:p=0.01,r=0.3,1-h=1.0,1-k=0.0', 'delay:0.005,jitter=0.005']
    """
    text = _SPACE_BEFORE_UNIT.sub("", text.strip())
    return tuple(_impairment(word, folder) for word in _WORDS.split(text) if word)


@lru_cache(maxsize=256)
def known_impairments(text: str) -> Impairments:
    """Of the text that ``impairment_text`` wrote, which names no file: kept, since traces are long."""
    return parse_impairments(text)


def impairment_text(impairments: Impairments) -> str:
    """Words that ``parse_impairments`` takes back, a trace with all its opportunities in it."""
    return " ".join(map(str, impairments))


def to_text(impairments: Impairments) -> str:
    """As a person would write them: defaults left out, a trace by its name.

    >>> to_text(parse_impairments("ge:p=0.01,r=0.3 jitter:0.005 duplicate:0.02"))
    'ge:p=0.01,r=0.3 jitter:0.005 duplicate:0.02'
    """
    return " ".join(one.short() for one in impairments)


def mean_loss(impairments: Impairments) -> float:
    """The share of packets that all of them together lose in the long run (what a trace's full queue drops is not in
    it)."""
    return 1 - math.prod(1 - one.mean_loss for one in impairments)


def _impairment(word: str, folder: str | Path | None) -> Impairment:
    kind, colon, rest = word.partition(":")
    if kind == "corrupt":
        raise TopologyError(
            f"{word!r}: a packet whose checksum is wrong is thrown away by its receiver; write loss:FRACTION"
        )
    if kind in ("rate", "bw", "limit"):
        ours = "max_queue_size" if kind == "limit" else "capacity (a link's, as 10Mbps)"
        raise TopologyError(f"{word!r} is no impairment; write it as {ours}")
    if kind not in KINDS or not colon:
        raise TopologyError(
            f"impairment {word!r} is none of {', '.join(f'{name}:' for name in KINDS)}"
        )
    if kind == "trace":
        return _trace(rest, folder)
    if kind == "jitter":
        jitter = _values(word, ["jitter"], rest)["jitter"]
        return ExtraDelay(mean_s=jitter, jitter_s=jitter)
    made = _OF_VALUES[kind]
    values = {
        made.names[name]: value for name, value in _values(word, list(made.names), rest).items()
    }
    if kind == "ge":
        values.setdefault("r", 1 - values["p"])
    elif kind == "reorder":
        values.setdefault("delay_s", REORDER_DELAY_S)
    return made(**values)


def _values(word: str, keys: list[str], text: str) -> dict[str, float]:
    """Parse the numbers of a word; the name of the first one may be missing.

    Args:
        word: The whole word, for messages.
        keys: The names that the word may have.
        text: The part of the word behind its kind.
    """
    values: dict[str, float] = {}
    for position, part in enumerate(text.split(",")):
        name, equals, number = part.partition("=")
        if not equals and position == 0:
            name = keys[0]
            number = part
        if name not in keys or name in values:
            raise TopologyError(
                f"impairment {word!r}: {part!r} is none of"
                f" {', '.join(f'{key}=' for key in keys)}, once each"
            )
        values[name] = _quantity(word, name, number)
    if keys[0] not in values:
        raise TopologyError(f"impairment {word!r}: {keys[0]} is missing")
    return values


def _quantity(word: str, name: str, text: str) -> float:
    """Parse one number: a time in seconds or with its unit, or a fraction, also in per cent."""
    is_time = name in _TIMES
    value = seconds(text) if is_time else fraction(text)
    if not math.isfinite(value):
        hint = "give seconds or a unit, as 10ms" if is_time else "give 0.01 or 1%"
        raise TopologyError(f"impairment {word!r}: {text!r} is no number; {hint}")
    return value


def _trace(rest: str, folder: str | Path | None) -> RateTrace:
    if rest.startswith("ms="):
        return _trace_of_gaps(rest[3:])
    if not rest:
        raise TopologyError("impairment 'trace:': name the trace's file, as trace:lte.mahi")
    if folder is None:
        raise TopologyError(
            f"impairment 'trace:{rest[:40]}': no file is read here; write the gaps, as trace:ms=12x100+40"
        )
    path = Path(folder) / rest
    below, hint = (
        None if folder == "" else Path(folder),
        "name a trace of Mahimahi, one time in ms a line",
    )
    with located(f"impairment 'trace:{rest[:200]}'"):
        text = utf8(read_bytes(path, hint, most=_MAX_TRACE_BYTES, below=below, plain=True))
    return parse_trace(text, path.name)


def _trace_of_gaps(text: str) -> RateTrace:
    """The trace of runs of gaps in ms, as ``RateTrace.gaps`` writes them."""
    try:
        gaps = [
            (int(gap), int(count or 1))
            for gap, _, count in (run.partition("x") for run in text.split("+"))
        ]
    except ValueError:
        raise TopologyError(
            f"impairment 'trace:ms={text[:37]}': write gaps of ms as 12x100+0x3+40"
        ) from None
    _check(
        sum(count for _, count in gaps) <= MAX_OPPORTUNITIES,
        f"trace: more than {MAX_OPPORTUNITIES} opportunities",
    )
    _check(
        all(gap >= 0 and count > 0 for gap, count in gaps),
        "trace: a gap is 0 ms or more, once or more often",
    )
    _check(
        sum(gap * count for gap, count in gaps) <= MAX_TRACE_MS,
        f"trace: longer than {MAX_TRACE_MS} ms",
    )
    return RateTrace(times_ms=tuple(accumulate(gap for gap, count in gaps for _ in range(count))))


def parse_trace(text: str, name: str) -> RateTrace:
    """A packet-delivery-opportunity trace in Mahimahi's format: on each line a whole number of ms, none less than the
    one before.

    Raises TopologyError, which names the line and quotes nothing of it.

    >>> parse_trace("0\\n5\\n5\\n10\\n", "small").mean_rate_bps
    4800000.0
    """
    times: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.strip()
        if not word:
            continue
        if not word.isdecimal() or len(word) > 12:
            raise TopologyError(f"{name}, line {number}: no whole number of milliseconds")
        if times and int(word) < times[-1]:
            raise TopologyError(
                f"{name}, line {number}: this time comes before the last one; times never go back"
            )
        times.append(int(word))
        if len(times) > MAX_OPPORTUNITIES:
            raise TopologyError(f"{name}: more than {MAX_OPPORTUNITIES} lines; cut it")
    if not times:
        raise TopologyError(f"{name}: no line with a time in ms; a trace has one a packet")
    return RateTrace(times_ms=tuple(times), name=name)
