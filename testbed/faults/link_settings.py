"""What of a link is set while a network is up: capacity, delay, loss, in Mininet's words or as values.

At the prompt: ``bw=5 delay=10ms loss=2 [one-way]`` (Mbit/s, a time with its unit, per cent of the packets), or
``reset``: what the network says. What is not named stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from testbed.errors import InputError
from testbed.model.options import kinds
from topologies import JsonObject, Link
from topologies.network import MAX_DELAY_S
from topologies.text.units import is_bare

_MIN_BPS = 8.0
_WORDS = "give bw=MBIT/S, delay=TIME as 10ms, loss=PER CENT, each also with one-way; or reset"


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """``capacity_bps`` in bit/s, ``delay_s`` in s, ``loss_fraction`` from 0 to 1; None leaves a value as it is, and
    ``reset`` takes all back to the network's. ``one_way``: of the named link alone, else of both directions of its
    cable. Raises InputError for a value out of range, and where nothing is to be set."""

    capacity_bps: float | None = None
    delay_s: float | None = None
    loss_fraction: float | None = None
    reset: bool = False
    one_way: bool = False

    def __post_init__(self) -> None:
        values = {
            "capacity_bps": (self.capacity_bps, _MIN_BPS, 1e15),
            "delay_s": (self.delay_s, 0.0, MAX_DELAY_S),
            "loss_fraction": (self.loss_fraction, 0.0, 1.0),
        }
        given = {name: bounds for name, bounds in values.items() if bounds[0] is not None}
        for name, (value, least, most) in given.items():
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not least <= value <= most
            ):
                said = next(word for word, (field, _) in _READERS.items() if field == name)
                raise InputError(
                    f"{said} ({name}) {value!r}: give a number from {least:g} to {most:g}"
                )
        if bool(given) == self.reset:
            raise InputError(f"nothing is set, or reset with values; {_WORDS}")

    def applied_to(self, link: Link) -> Link:
        """The link with this capacity and this delay, as far as they are given."""
        given = {"capacity_bps": self.capacity_bps, "delay_s": self.delay_s}
        changed: JsonObject = {
            name: float(value) for name, value in given.items() if value is not None
        }
        return replace(link, **changed)


def parse_settings(words: Sequence[str]) -> LinkSettings:
    """The settings of words; InputError names the wrong one.

    >>> parse_settings(["bw=5", "delay=10ms", "one-way"])
    LinkSettings(capacity_bps=5000000.0, delay_s=0.01, loss_fraction=None, reset=False, one_way=True)
    """
    values: JsonObject = {}
    for word in words:
        name, equals, text = word.partition("=")
        if word in ("reset", "one-way"):
            values[word.replace("-", "_")] = True
        elif equals and name in _READERS:
            key, read = _READERS[name]
            if key in values:
                raise InputError(f"{name} is given twice; {_WORDS}")
            try:
                values[key] = read(text)
            except InputError as error:
                named = str(error).startswith(f"{name}=")
                raise InputError(str(error) if named else f"{name}: {error}") from None
        else:
            raise InputError(f"{word!r} is no setting of a link; {_WORDS}")
    return LinkSettings(**values)


def settings_text(now: Link, loss_fraction: float) -> str:
    """What is set, as ``parse_settings`` takes it.

    >>> settings_text(Link(source="a", target="b", capacity_bps=5e6, delay_s=0.0105), 0.02)
    'bw=5 delay=10.5ms loss=2'
    """
    return f"bw={now.capacity_bps / 1e6:.12g} delay={now.delay_s * 1e3:.12g}ms loss={loss_fraction * 100:.12g}"


def _bandwidth(text: str) -> float:
    return kinds.any_number(text) * 1e6 if is_bare(text) else kinds.rate_bps(text)


def _delay(text: str) -> float:
    if is_bare(text) and float(text):
        raise InputError(
            f"delay={text}: say the unit, as delay={text}ms (to tc a bare number is microseconds)"
        )
    return kinds.moment(text)


def _loss(text: str) -> float:
    return kinds.any_number(text.removesuffix("%")) / 100


_READERS = {
    "bw": ("capacity_bps", _bandwidth),
    "delay": ("delay_s", _delay),
    "loss": ("loss_fraction", _loss),
}
