"""What every network builder needs: a draft of nodes and links, and bounds that refuse absurd sizes before memory is
spent.

The builders themselves (``torus.py``, ``swiss_t1.py``, ...) say which nodes and cables a network has.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from topologies.errors import TopologyError
from topologies.network import Link, Network, Node, is_finite

Position = tuple[float, float]

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
        self.links.append(Link(source=source, target=target, key=key, **self._values, attributes=attributes))

    def cable(self, one: str, other: str, key: int = 0, /, **attributes: object) -> None:
        """One cable: the link from ``one`` to ``other`` and the link back, alike but for direction."""
        self.link(one, other, key, **attributes)
        self.link(other, one, key, **attributes)

    def network(self, name: str, **attributes: object) -> Network:
        """The network: its attribute ``family`` is what its name has before the colon, ``routing`` is by default
        "shortest-path"."""
        attributes = {"family": name.partition(":")[0], **attributes}
        attributes.setdefault("routing", "shortest-path")
        return Network(name=name, nodes=tuple(self.nodes), links=tuple(self.links), attributes=attributes)


def integer(what: str, value: object, low: int, high: int) -> int:
    """The value as a whole number of [low, high]; TopologyError naming ``what`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise TopologyError(f"{what} {value!r} must be a whole number from {low} to {high}")
    return value


def number(what: str, value: object, low: float, high: float) -> float:
    """The value as a finite number of [low, high]; TopologyError naming ``what`` otherwise."""
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
