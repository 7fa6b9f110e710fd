"""What every network builder needs: cables of two links, and bounds that refuse absurd sizes before memory is spent.

The builders themselves (``torus.py``, ``swiss_t1.py``, ...) say which nodes and cables a network has.
"""

from __future__ import annotations

import math

from topologies.errors import TopologyError
from topologies.network import Link
from topologies.text.json_types import Json

MAX_NODES = 100_000
MAX_LINKS = 1_000_000
"""Bounds of what a builder makes: far above what a machine emulates, far below what exhausts its memory."""


def bidirectional(
    a: str,
    b: str,
    *,
    capacity_bps: float,
    delay_s: float,
    key: int = 0,
    attributes: Json | None = None,
) -> tuple[Link, Link]:
    """One cable: the link a -> b and the link b -> a, alike but for direction.

    >>> [link.label for link in bidirectional("a", "b", capacity_bps=1e7, delay_s=0.0)]
    ['a->b', 'b->a']
    """
    both = tuple(
        Link(source=s, target=t, key=key, capacity_bps=capacity_bps, delay_s=delay_s, attributes=dict(attributes or {}))
        for s, t in ((a, b), (b, a))
    )
    return both[0], both[1]


def integer(what: str, value: object, low: int, high: int) -> int:
    """The value as a whole number of [low, high]; TopologyError naming ``what`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise TopologyError(f"{what} {value!r} must be a whole number from {low} to {high}")
    return value


def number(what: str, value: object, low: float, high: float) -> float:
    """The value as a finite number of [low, high]; TopologyError naming ``what`` otherwise."""
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
    if not fits or not math.isfinite(value):  # type: ignore[arg-type]
        raise TopologyError(f"{what} {value!r} must be a number from {low:g} to {high:g}")
    return float(value)  # type: ignore[arg-type]


def check_size(nodes: int, links: int) -> None:
    """TopologyError where a network would have more than MAX_NODES nodes or MAX_LINKS directed links."""
    if nodes > MAX_NODES or links > MAX_LINKS:
        raise TopologyError(
            f"{_size(nodes)} nodes and {_size(links)} links are too many; stay below {MAX_NODES} nodes and {MAX_LINKS} links"
        )


def _size(count: int) -> str:
    return str(count) if count < 10**12 else "over 10^12"
