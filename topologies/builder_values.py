"""What every network builder needs: a draft of nodes and links, and bounds that refuse absurd sizes before memory is
spent; and values as they are written in a catalogue name.

The builders themselves (``direct_networks.py``, ``swiss_t1.py``, ...) say which nodes and cables a network has.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypedDict, Unpack

from topologies.errors import TopologyError, python_number
from topologies.network import Link, Network, Node, is_finite

Position = tuple[float, float]
ValueKind = Literal["whole", "number", "shape", "allocation", "text"]
"""Of a value in a catalogue name."""

MAX_NODES = 100_000
MAX_LINKS = 1_000_000
"""Bounds of what a builder makes: far above what a machine emulates, far below what exhausts its memory."""


class LinkValues(TypedDict, total=False):
    """What all links of a built network have; left out, the values of ``Link``."""

    capacity_bps: float
    delay_s: float


class Draft:
    """A network in the making: nodes and links in the order in which they are named, every link of the same values.

    >>> draft = Draft(delay_s=0.1)
    >>> draft.switch("s")
    >>> draft.host("h", index=3)
    >>> draft.cable("h", "s")
    >>> [link.label for link in draft.network("pair:1", size=1).links]
    ['h->s', 's->h']
    """

    def __init__(self, **values: Unpack[LinkValues]) -> None:
        self.nodes: list[Node] = []
        self.links: list[Link] = []
        self._values = values

    def switch(self, name: str, position: Position | None = None, /, **attributes: object) -> None:
        self.nodes.append(Node(id=name, kind="switch", position=position, attributes=attributes))

    def host(self, name: str, position: Position | None = None, /, **attributes: object) -> None:
        self.nodes.append(Node(id=name, kind="host", position=position, attributes=attributes))

    def link(self, source: str, target: str, key: int = 0, /, **attributes: object) -> None:
        self.links.append(
            Link(source=source, target=target, key=key, **self._values, attributes=attributes)
        )

    def cable(self, one: str, other: str, key: int = 0, /, **attributes: object) -> None:
        """One cable: the link from ``one`` to ``other`` and the link back, alike but for direction."""
        self.link(one, other, key, **attributes)
        self.link(other, one, key, **attributes)

    def network(self, name: str, **attributes: object) -> Network:
        """The network: its attribute ``family`` is what its name has before the colon, ``routing`` is by default
        "shortest-path"."""
        attributes = {"family": name.partition(":")[0], **attributes}
        attributes.setdefault("routing", "shortest-path")
        return Network(
            name=name, nodes=tuple(self.nodes), links=tuple(self.links), attributes=attributes
        )


def integer(what: str, value: object, low: int, high: int) -> int:
    """The value as a whole number of [low, high]; TopologyError naming ``what`` otherwise."""
    value = python_number(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise TopologyError(f"{what} {value!r} must be a whole number from {low} to {high}")
    return value


def number(what: str, value: object, low: float, high: float) -> float:
    """The value as a finite number of [low, high]; TopologyError naming ``what`` otherwise."""
    value = python_number(value)
    if not is_finite(value) or not low <= value <= high:
        raise TopologyError(f"{what} {value!r} must be a number from {low:g} to {high:g}")
    return float(value)


def check_size(nodes: int, links: int) -> None:
    """TopologyError where a network would have more than MAX_NODES nodes or MAX_LINKS directed links."""
    if nodes > MAX_NODES or links > MAX_LINKS:
        raise TopologyError(
            f"{_size(nodes)} nodes and {_size(links)} links are too many; stay below {MAX_NODES} and {MAX_LINKS}"
        )


def _size(count: int) -> str:
    return str(count) if count < 10**12 else "over 10^12"


def _whole(name: str, text: str) -> int:
    if not (
        text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) <= 25
    ):
        raise TopologyError(f"{name}={text[:40]} is not a whole number")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise TopologyError(f"{name}={text[:40]} is not a number") from error


def _shape(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(_whole(name, size) for size in text.split("x"))
    except TopologyError as error:
        raise TopologyError(
            f"{name} {text[:40]!r} must be whole numbers joined by 'x', as in 8x8"
        ) from error


def _text(name: str, text: str) -> str:
    if not text:
        raise TopologyError(f"{name}= is empty; give it a value or leave it out")
    return text


PARSERS: Mapping[str, Callable[[str, str], int | float | str | tuple[int, ...]]] = {
    "whole": _whole,
    "number": _number,
    "shape": _shape,
    "text": _text,
}
"""Kind -> what reads a parameter's name and text; TopologyError for what is none of the kind."""
