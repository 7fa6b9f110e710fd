"""Impairments of a link: loss, jitter, reordering, duplication and a varying rate.

A link may have several of them, in addition to its capacity and delay. They are written as text in
network files (``impairments`` of a link) and in faults (``testbed.faults.grammar``), with spaces
between them::

    loss:F                       each packet is lost with probability F
    ge:p=P[,r=R][,1-h=L][,1-k=L] Gilbert-Elliott loss in bursts, as netem's gemodel: each packet is
                                 lost with probability 1-k (default 0) if the chain is in the good
                                 state, 1-h (default 1) in the bad state; then the chain changes
                                 from good to bad with probability P, from bad to good with R
                                 (default 1 - P)
    delay:S[,jitter=J]           each packet is delayed by S seconds plus or minus a uniform random
                                 time of at most J; packets may overtake each other
    jitter:J                     short for delay:J,jitter=J: each packet is delayed by 0 to 2 J
    reorder:F[,delay=S]          a fraction F of the packets is not delayed, all others by S (0.01 s
                                 by default), as netem's reorder
    duplicate:F                  each packet is sent twice with probability F
    trace:FILE                   packets leave at the opportunities of a trace in Mahimahi's format

Fractions may be in per cent (``1%``), and times may have another unit (``10ms``). A packet passes
the impairments from left to right, and then the link's queue, capacity and delay.

Sources: Gilbert 1960, Elliott 1963, Hemminger 2005 (netem), Netravali and others 2015 (Mahimahi).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import ClassVar

from topologies.errors import TopologyError, prefix_errors
from topologies.text.text_file import read_bytes, utf8
from topologies.text.units import fraction, seconds

# The number of bytes of IP packets that one line of a Mahimahi trace lets pass.
OPPORTUNITY_BYTES = 1500
MAX_DELAY_S = 60.0
MAX_OPPORTUNITIES = 1_000_000
MAX_TRACE_MS = 10**12
_MAX_TRACE_BYTES = 2**24
# The delay of reordered packets, if none is given.
REORDER_DELAY_S = 0.01


def _check(holds: bool, message: str) -> None:
    """Raise TopologyError with the message unless the condition holds."""
    if not holds:
        raise TopologyError(message)


class _Impairment:
    """The base of all impairments, which are written as KIND:VALUE[,NAME=VALUE...].

    Attributes:
        kind: The kind in the text.
        names: The field for each name in the text. The first value has the kind as its name, which
            is left out in the text.
    """

    kind: ClassVar[str]
    names: ClassVar[Mapping[str, str]] = {}

    @property
    def mean_loss(self) -> float:
        """The fraction of packets that are lost in the long run."""
        return 0.0

    def __str__(self) -> str:
        return self._text({name: repr(getattr(self, key)) for name, key in self.names.items()})

    def short(self) -> str:
        """Return the text as a person would write it, without values that have their default."""
        defaults = {each.name: each.default for each in fields(self)}  # type: ignore[arg-type]
        values = {}
        for name, key in self.names.items():
            value = getattr(self, key)
            if value != defaults[key]:
                values[name] = f"{value:g}"
        return self._text(values)

    def _text(self, values: Mapping[str, str]) -> str:
        parts = []
        for name, value in values.items():
            if name == self.kind:
                parts.append(value)
            else:
                parts.append(f"{name}={value}")
        return f"{self.kind}:{','.join(parts)}"


@dataclass(frozen=True, kw_only=True)
class RandomLoss(_Impairment):
    """Each packet is lost with the same probability, independently of the others.

    Attributes:
        fraction: The probability.
    """

    kind = "loss"
    names: ClassVar = {"loss": "fraction"}
    fraction: float

    def __post_init__(self) -> None:
        _check(
            0 < self.fraction <= 1, f"loss:{self.fraction:g}: give a fraction above 0, at most 1"
        )

    @property
    def mean_loss(self) -> float:
        """The fraction of packets that are lost in the long run."""
        return self.fraction


@dataclass(frozen=True, kw_only=True)
class GilbertElliott(_Impairment):
    """Loss in bursts: a Markov chain of two states that changes with each packet.

    Sources: Gilbert 1960, Elliott 1963. The names of the parameters are those of netem's gemodel.

    Attributes:
        p: Probability that the chain changes from the good to the bad state.
        r: Probability that the chain changes from the bad to the good state.
        bad_loss: Probability of loss in the bad state (1-h).
        good_loss: Probability of loss in the good state (1-k).
    """

    kind = "ge"
    names: ClassVar = {"p": "p", "r": "r", "1-h": "bad_loss", "1-k": "good_loss"}
    p: float
    r: float
    bad_loss: float = 1.0
    good_loss: float = 0.0

    def __post_init__(self) -> None:
        for name, key in self.names.items():
            value = getattr(self, key)
            _check(0 <= value <= 1, f"ge: {name}={value:g} is not a probability; give 0 to 1")
        _check(
            self.p > 0 and self.r > 0,
            "ge: p and r must be above 0, or the chain never changes its state",
        )
        _check(self.mean_loss > 0, "ge: no packet would ever be lost; give 1-h or 1-k above 0")

    @property
    def loss_in_bad_state(self) -> float:
        """The stationary probability of the bad state, p / (p + r)."""
        return self.p / (self.p + self.r)

    @property
    def memory(self) -> float:
        """The correlation of the states at successive packets: the second eigenvalue, 1 - p - r."""
        return 1 - self.p - self.r

    @property
    def mean_loss(self) -> float:
        """The fraction of packets that are lost in the long run."""
        p_bad = self.loss_in_bad_state
        return p_bad * self.bad_loss + (1 - p_bad) * self.good_loss


@dataclass(frozen=True, kw_only=True)
class ExtraDelay(_Impairment):
    """Each packet has a random additional delay; a packet with a smaller delay may overtake others.

    Attributes:
        mean_s: Mean delay in seconds.
        jitter_s: Largest deviation from the mean in seconds; the delay is uniformly distributed.
    """

    kind = "delay"
    names: ClassVar = {"delay": "mean_s", "jitter": "jitter_s"}
    mean_s: float
    jitter_s: float = 0.0

    def __post_init__(self) -> None:
        _check(
            0 < self.mean_s <= MAX_DELAY_S,
            f"delay:{self.mean_s:g}: give seconds above 0, at most {MAX_DELAY_S:g}",
        )
        _check(
            0 <= self.jitter_s <= self.mean_s,
            f"delay:{self.mean_s:g},jitter={self.jitter_s:g}: a delay cannot be"
            " negative; give a jitter from 0 to the delay",
        )

    def short(self) -> str:
        """Return the text as a person would write it, without values that have their default."""
        if self.jitter_s == self.mean_s:
            return f"jitter:{self.jitter_s:g}"
        return super().short()


@dataclass(frozen=True, kw_only=True)
class Reordering(_Impairment):
    """Some packets are not delayed and overtake the others.

    Attributes:
        fraction: Fraction of the packets that are not delayed.
        delay_s: Delay of all other packets in seconds.
    """

    kind = "reorder"
    names: ClassVar = {"reorder": "fraction", "delay": "delay_s"}
    fraction: float
    delay_s: float

    def __post_init__(self) -> None:
        _check(0 < self.fraction < 1, f"reorder:{self.fraction:g}: give a fraction between 0 and 1")
        _check(
            0 < self.delay_s <= MAX_DELAY_S,
            f"reorder: delay={self.delay_s:g}: give seconds above 0, at most {MAX_DELAY_S:g}",
        )


@dataclass(frozen=True, kw_only=True)
class Duplication(_Impairment):
    """Some packets are sent twice.

    Attributes:
        fraction: Probability that a packet is sent twice.
    """

    kind = "duplicate"
    names: ClassVar = {"duplicate": "fraction"}
    fraction: float

    def __post_init__(self) -> None:
        _check(
            0 < self.fraction <= 1,
            f"duplicate:{self.fraction:g}: give a fraction above 0, at most 1",
        )


@dataclass(frozen=True, kw_only=True)
class RateTrace(_Impairment):
    """Packets leave only at the delivery opportunities of a trace, which repeats without end.

    This is the format of Mahimahi's packet-delivery traces. Each opportunity lets 1500 bytes pass.
    A packet that is larger than the remainder of an opportunity continues in the next one. An
    opportunity is lost if no packet is waiting.

    Attributes:
        times_ms: Time of each opportunity in ms after the start of the link.
        name: Name of the trace, for display only.
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
            self.times_ms[-1] > 0,
            "trace: its duration is 0 ms; give the duration in its last line, in ms",
        )

    @property
    def period_s(self) -> float:
        """The time in seconds after which the trace repeats: that of its last opportunity."""
        return self.times_ms[-1] / 1000

    @property
    def mean_rate_bps(self) -> float:
        """The mean rate over the trace, in bits of IP packets per second."""
        return 8 * OPPORTUNITY_BYTES * len(self.times_ms) / self.period_s

    @cached_property
    def gaps(self) -> str:
        """The times as runs of equal gaps in ms.

        For example, ``12x100+0x3+40`` is a hundred gaps of 12 ms, three of 0 ms, and one of 40 ms.
        """
        steps = [later - earlier for earlier, later in pairwise((0, *self.times_ms))]
        runs = []
        for gap, equal_gaps in groupby(steps):
            count = len(list(equal_gaps))
            run = str(gap)
            if count > 1:
                run += f"x{count}"
            runs.append(run)
        return "+".join(runs)

    def __str__(self) -> str:
        return f"trace:ms={self.gaps}"

    def short(self) -> str:
        """Return the text with the trace's name, or with its mean rate if it has no name."""
        return f"trace:{self.name or f'{self.mean_rate_bps / 1e6:.3g}Mbit/s'}"


Impairment = RandomLoss | GilbertElliott | ExtraDelay | Reordering | Duplication | RateTrace
Impairments = tuple[Impairment, ...]
KINDS = ("loss", "ge", "delay", "jitter", "reorder", "duplicate", "trace")

# The impairments whose text consists of numbers, by kind.
_NUMERIC = {
    each.kind: each for each in (RandomLoss, GilbertElliott, ExtraDelay, Reordering, Duplication)
}
# Names of values that are times; all other values are fractions.
_TIMES = ("delay", "jitter")
_SPACES = re.compile(r"\s+")
# A space between a number and its unit does not separate two impairments.
_SPACE_BEFORE_UNIT = re.compile(r"(?<=[0-9.])\s+(?=(?:%|[mnuµ]?s|min|h)(?:[\s,]|$))")


def parse_impairments(text: str, folder: str | Path | None = "") -> Impairments:
    """Parse impairments with spaces between them.

    Args:
        text: The text.
        folder: The only folder from which trace files may be read. An empty text permits any file;
            use it for text that the user has typed. None permits no file.

    Raises:
        TopologyError: The text is invalid. The message names the wrong part and the valid forms.

    >>> [str(each) for each in parse_impairments("ge:p=0.01,r=0.3 jitter:0.005")]
    ['ge:p=0.01,r=0.3,1-h=1.0,1-k=0.0', 'delay:0.005,jitter=0.005']
    """
    text = _SPACE_BEFORE_UNIT.sub("", text.strip())
    return tuple(_parse_impairment(part, folder) for part in _SPACES.split(text) if part)


# The results are cached, because traces are long.
@lru_cache(maxsize=256)
def known_impairments(text: str) -> Impairments:
    """Parse a text that ``impairment_text`` wrote, which names no file."""
    return parse_impairments(text)


def impairment_text(impairments: Impairments) -> str:
    """Return a text that ``parse_impairments`` reads; it contains the whole content of a trace."""
    return " ".join(map(str, impairments))


def to_text(impairments: Impairments) -> str:
    """Return the text as a person would write it: without defaults, and a trace by its name.

    >>> to_text(parse_impairments("ge:p=0.01,r=0.3 jitter:0.005 duplicate:0.02"))
    'ge:p=0.01,r=0.3 jitter:0.005 duplicate:0.02'
    """
    return " ".join(each.short() for each in impairments)


def mean_loss(impairments: Impairments) -> float:
    """Return the fraction of packets that all the impairments together lose in the long run.

    Packets that are dropped because the queue of a trace is full are not counted.
    """
    return 1 - math.prod(1 - each.mean_loss for each in impairments)


def _parse_impairment(text: str, folder: str | Path | None) -> Impairment:
    """Parse one impairment; ``folder`` is as for ``parse_impairments``."""
    kind, colon, value_text = text.partition(":")
    if kind == "corrupt":
        raise TopologyError(
            f"{text!r}: a packet with a wrong checksum is discarded by its receiver;"
            " write loss:FRACTION"
        )
    if kind in ("rate", "bw", "limit"):
        ours = "max_queue_size" if kind == "limit" else "capacity (a link's, as 10Mbps)"
        raise TopologyError(f"{text!r} is not an impairment; write it as {ours}")
    if kind not in KINDS or not colon:
        raise TopologyError(
            f"impairment {text!r} is none of {', '.join(f'{name}:' for name in KINDS)}"
        )
    if kind == "trace":
        return _parse_trace_value(value_text, folder)
    if kind == "jitter":
        jitter = _parse_values(text, ["jitter"], value_text)["jitter"]
        return ExtraDelay(mean_s=jitter, jitter_s=jitter)
    impairment_class = _NUMERIC[kind]
    names = impairment_class.names
    parsed = _parse_values(text, list(names), value_text)
    values = {names[name]: value for name, value in parsed.items()}
    if kind == "ge":
        values.setdefault("r", 1 - values["p"])
    elif kind == "reorder":
        values.setdefault("delay_s", REORDER_DELAY_S)
    return impairment_class(**values)


def _parse_values(impairment: str, names: list[str], text: str) -> dict[str, float]:
    """Parse the numbers of an impairment; the name of the first one may be missing.

    Args:
        impairment: The text of the impairment, for messages.
        names: The names that its values may have.
        text: The part of the impairment behind its kind.
    """
    values: dict[str, float] = {}
    for position, part in enumerate(text.split(",")):
        name, equals, number = part.partition("=")
        if not equals and position == 0:
            name = names[0]
            number = part
        if name not in names or name in values:
            raise TopologyError(
                f"impairment {impairment!r}: {part!r} is none of"
                f" {', '.join(f'{each}=' for each in names)}, once each"
            )
        values[name] = _parse_quantity(impairment, name, number)
    if names[0] not in values:
        raise TopologyError(f"impairment {impairment!r}: {names[0]} is missing")
    return values


def _parse_quantity(impairment: str, name: str, text: str) -> float:
    """Parse one number: a time in seconds or with its unit, or a fraction, also in per cent."""
    is_time = name in _TIMES
    value = seconds(text) if is_time else fraction(text)
    if not math.isfinite(value):
        hint = "give seconds or a unit, as 10ms" if is_time else "give 0.01 or 1%"
        raise TopologyError(f"impairment {impairment!r}: {text!r} is not a number; {hint}")
    return value


def _parse_trace_value(text: str, folder: str | Path | None) -> RateTrace:
    """Return the trace of a file, or of the gaps behind ``ms=``.

    Args:
        text: The part of the impairment behind ``trace:``.
        folder: As for ``parse_impairments``.
    """
    if text.startswith("ms="):
        return _parse_gaps(text.removeprefix("ms="))
    if not text:
        raise TopologyError("impairment 'trace:': name the trace's file, as trace:lte.mahi")
    if folder is None:
        raise TopologyError(
            f"impairment 'trace:{text[:40]}': no file is read here; write the gaps, as"
            " trace:ms=12x100+40"
        )
    path = Path(folder) / text
    permitted_folder = Path(folder) if folder != "" else None
    with prefix_errors(f"impairment 'trace:{text[:200]}'"):
        content = read_bytes(
            path,
            "name a trace of Mahimahi, one time in ms a line",
            limit_bytes=_MAX_TRACE_BYTES,
            folder=permitted_folder,
            plain=True,
        )
        trace_text = utf8(content)
    return parse_trace(trace_text, path.name)


def _parse_gaps(text: str) -> RateTrace:
    """Return the trace of runs of gaps in ms, as ``RateTrace.gaps`` writes them."""
    runs: list[tuple[int, int]] = []
    try:
        for run in text.split("+"):
            gap_ms, _, repeats = run.partition("x")
            runs.append((int(gap_ms), int(repeats or 1)))
    except ValueError:
        raise TopologyError(
            f"impairment 'trace:ms={text[:37]}': write gaps of ms as 12x100+0x3+40"
        ) from None
    _check(
        sum(count for _, count in runs) <= MAX_OPPORTUNITIES,
        f"trace: more than {MAX_OPPORTUNITIES} opportunities",
    )
    _check(
        all(gap >= 0 and count > 0 for gap, count in runs),
        "trace: give gaps of 0 ms or more and counts of 1 or more",
    )
    _check(
        sum(gap * count for gap, count in runs) <= MAX_TRACE_MS,
        f"trace: longer than {MAX_TRACE_MS} ms",
    )
    times_ms = []
    time_ms = 0
    for gap, count in runs:
        for _ in range(count):
            time_ms += gap
            times_ms.append(time_ms)
    return RateTrace(times_ms=tuple(times_ms))


def parse_trace(text: str, name: str) -> RateTrace:
    r"""Parse a packet-delivery trace in Mahimahi's format.

    Each line has the time of one delivery opportunity: a whole number of ms, not less than the one
    before. Empty lines are ignored.

    Args:
        text: The content of the file.
        name: The name of the file.

    Raises:
        TopologyError: A line is invalid. The message has the number of the line but nothing of its
            content, because the text may name any file of the machine.

    >>> parse_trace("0\n5\n5\n10\n", "small").mean_rate_bps
    4800000.0
    """
    times: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        time_text = line.strip()
        if not time_text:
            continue
        if not time_text.isdecimal() or len(time_text) > 12:
            raise TopologyError(f"{name}, line {number}: not a whole number of milliseconds")
        time_ms = int(time_text)
        if times and time_ms < times[-1]:
            raise TopologyError(
                f"{name}, line {number}: this time is less than the one before; sort the times"
            )
        times.append(time_ms)
        if len(times) > MAX_OPPORTUNITIES:
            raise TopologyError(f"{name}: more than {MAX_OPPORTUNITIES} lines; cut it")
    if not times:
        raise TopologyError(f"{name}: no line with a time in ms; a trace has one for each packet")
    return RateTrace(times_ms=tuple(times), name=name)
