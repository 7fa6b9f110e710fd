"""The common parts of all network builders.

These are the draft of a network, bounds that refuse huge networks before they use up the memory,
and parsers for the values in a catalogue name. The builders (``direct_networks.py``,
``swiss_t1.py``, ...) decide which nodes and cables a network has.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypedDict, Unpack

from topologies.errors import TopologyError, python_number
from topologies.network import Link, Network, Node, is_finite

Position = tuple[float, float]
# The kind of a value in a catalogue name.
ValueKind = Literal["whole", "number", "shape", "allocation", "text"]

# Bounds of the networks that are built: far above the size that one machine can emulate, and far
# below the size that exhausts its memory.
MAX_NODES = 100_000
MAX_LINKS = 1_000_000


class LinkValues(TypedDict, total=False):
    """The values that all links of a built network have; a missing one has the default of Link.

    Attributes:
        capacity_bps: Capacity in bits per second.
        delay_s: Propagation delay in seconds.
    """

    capacity_bps: float
    delay_s: float


class Draft:
    """A network under construction; its nodes and links are in the order in which they are added.

    Args:
        **values: Capacity and delay of every link.

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
        """Add a switch."""
        self.nodes.append(Node(id=name, kind="switch", position=position, attributes=attributes))

    def host(self, name: str, position: Position | None = None, /, **attributes: object) -> None:
        """Add a host."""
        self.nodes.append(Node(id=name, kind="host", position=position, attributes=attributes))

    def link(self, source: str, target: str, key: int = 0, /, **attributes: object) -> None:
        """Add a one-way link."""
        link = Link(source=source, target=target, key=key, **self._values, attributes=attributes)
        self.links.append(link)

    def cable(self, a: str, b: str, key: int = 0, /, **attributes: object) -> None:
        """Add a cable: the link from ``a`` to ``b``, and the link back with the same values."""
        self.link(a, b, key, **attributes)
        self.link(b, a, key, **attributes)

    def network(self, name: str, **attributes: object) -> Network:
        """Return the network.

        Its attribute ``family`` is the part of the name before the colon. Its attribute ``routing``
        is "shortest-path" by default.
        """
        attributes = {"family": name.partition(":")[0], **attributes}
        attributes.setdefault("routing", "shortest-path")
        return Network(
            name=name, nodes=tuple(self.nodes), links=tuple(self.links), attributes=attributes
        )


def integer(name: str, value: object, low: int, high: int) -> int:
    """Return the value as an int, if it is a whole number from ``low`` to ``high``.

    Args:
        name: Name of the value, for the message.
        value: The value; numpy integers are accepted, bool is not.
        low: Smallest accepted value.
        high: Largest accepted value.

    Raises:
        TopologyError: The value is something else.
    """
    value = python_number(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise TopologyError(f"{name} {value!r} must be a whole number from {low} to {high}")
    return value


def number(name: str, value: object, low: float, high: float) -> float:
    """Return the value as a float, if it is a number from ``low`` to ``high``.

    Args:
        name: Name of the value, for the message.
        value: The value; numpy numbers are accepted, bool is not.
        low: Smallest accepted value.
        high: Largest accepted value.

    Raises:
        TopologyError: The value is something else.
    """
    value = python_number(value)
    if not is_finite(value) or not low <= value <= high:
        raise TopologyError(f"{name} {value!r} must be a number from {low:g} to {high:g}")
    return float(value)


def check_size(nodes: int, links: int) -> None:
    """Refuse a network that is too large.

    Args:
        nodes: Number of nodes.
        links: Number of directed links.

    Raises:
        TopologyError: There are more than MAX_NODES nodes or MAX_LINKS links.
    """
    if nodes > MAX_NODES or links > MAX_LINKS:
        raise TopologyError(
            f"{_count_text(nodes)} nodes and {_count_text(links)} links are too many;"
            f" stay below {MAX_NODES} and {MAX_LINKS}"
        )


def _count_text(count: int) -> str:
    return str(count) if count < 10**12 else "over 10^12"


# Longer numbers are refused: the largest value that is accepted anywhere, a seed, has 20 digits.
_MAX_DIGITS = 25


def _whole(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(text) <= _MAX_DIGITS):
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


# The parser of each kind of value. It takes the name of the parameter and its text, and raises
# TopologyError if the text is not of this kind.
PARSERS: Mapping[str, Callable[[str, str], int | float | str | tuple[int, ...]]] = {
    "whole": _whole,
    "number": _number,
    "shape": _shape,
    "text": _text,
}
