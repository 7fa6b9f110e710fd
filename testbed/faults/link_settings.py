"""Settings of a link that can be changed while a network is up: capacity, delay and loss.

At the prompt they are written ``bw=5 delay=10ms loss=2 [one-way]`` as in Mininet (Mbit/s, a time
with its unit, per cent of the packets). ``reset`` restores the values of the network. Settings that
are not given do not change.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from testbed.errors import InputError
from testbed.model.options import kinds
from topologies import JsonObject, Link
from topologies.network import MAX_DELAY_S
from topologies.text.units import is_bare

# One byte per second.
_MIN_BPS = 8.0
_MAX_BPS = 1e15
_USAGE = "give bw=MBIT/S, delay=TIME as 10ms, loss=PER CENT, each also with one-way; or reset"


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """New settings of a link. None leaves a value unchanged.

    Attributes:
        capacity_bps: Capacity in bits per second.
        delay_s: Delay in seconds.
        loss_fraction: Fraction of lost packets, from 0 to 1.
        reset: Whether all values are restored to those of the network.
        one_way: Whether the settings are for the named direction alone, not for both directions of
            the cable.

    Raises:
        InputError: A value is out of range, or nothing is set.
    """

    capacity_bps: float | None = None
    delay_s: float | None = None
    loss_fraction: float | None = None
    reset: bool = False
    one_way: bool = False

    def __post_init__(self) -> None:
        bounds = {
            "capacity_bps": (_MIN_BPS, _MAX_BPS),
            "delay_s": (0.0, MAX_DELAY_S),
            "loss_fraction": (0.0, 1.0),
        }
        values_given = False
        for word, (name, _) in _READERS.items():
            value = getattr(self, name)
            if value is None:
                continue
            values_given = True
            lower, upper = bounds[name]
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not lower <= value <= upper:
                raise InputError(
                    f"{word} ({name}) {value!r}: give a number from {lower:g} to {upper:g}"
                )
        if values_given == self.reset:
            raise InputError(f"nothing is set, or reset with values; {_USAGE}")

    def applied_to(self, link: Link) -> Link:
        """Return the link with this capacity and delay, if they are set."""
        if self.capacity_bps is not None:
            link = replace(link, capacity_bps=float(self.capacity_bps))
        if self.delay_s is not None:
            link = replace(link, delay_s=float(self.delay_s))
        return link


def parse_settings(settings: Sequence[str]) -> LinkSettings:
    """Return the settings in the words of a command.

    Raises:
        InputError: A word is not a valid setting. The message contains it.

    >>> link = parse_settings(["bw=5", "delay=10ms", "one-way"])
    >>> link.capacity_bps, link.delay_s, link.one_way
    (5000000.0, 0.01, True)
    """
    values: JsonObject = {}
    for word in settings:
        name, equals, text = word.partition("=")
        if word in ("reset", "one-way"):
            values[word.replace("-", "_")] = True
        elif equals and name in _READERS:
            key, read = _READERS[name]
            if key in values:
                raise InputError(f"{name} is given twice; {_USAGE}")
            try:
                values[key] = read(text)
            except InputError as error:
                message = str(error)
                if not message.startswith(f"{name}="):
                    message = f"{name}: {message}"
                raise InputError(message) from None
        else:
            raise InputError(f"{word!r} is not a setting of a link; {_USAGE}")
    return LinkSettings(**values)


def settings_text(now: Link, loss_fraction: float) -> str:
    """Return the settings of a link in the form that ``parse_settings`` reads.

    Args:
        now: The link with its present capacity and delay.
        loss_fraction: Fraction of lost packets, from 0 to 1.

    >>> settings_text(Link(source="a", target="b", capacity_bps=5e6, delay_s=0.0105), 0.02)
    'bw=5 delay=10.5ms loss=2'
    """
    bandwidth_mbps = now.capacity_bps / 1e6
    delay_ms = now.delay_s * 1e3
    loss_percent = loss_fraction * 100
    return f"bw={bandwidth_mbps:.12g} delay={delay_ms:.12g}ms loss={loss_percent:.12g}"


def _bandwidth(text: str) -> float:
    """Return bits per second. A number without a unit is in Mbit/s."""
    if is_bare(text):
        return kinds.any_number(text) * 1e6
    return kinds.rate_bps(text)


def _delay(text: str) -> float:
    if is_bare(text) and float(text):
        raise InputError(
            f"delay={text}: say the unit, as delay={text}ms (to tc a bare number is microseconds)"
        )
    return kinds.moment(text)


def _loss(text: str) -> float:
    return kinds.any_number(text.removesuffix("%")) / 100


# Word of the prompt -> field of LinkSettings, and the reader of its value.
_READERS = {
    "bw": ("capacity_bps", _bandwidth),
    "delay": ("delay_s", _delay),
    "loss": ("loss_fraction", _loss),
}
