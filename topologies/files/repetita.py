"""Networks of REPETITA's ``.graph`` files: numbered switches with coordinates, directed links with a weight, kbit/s and microseconds.

Source: S. Gay, P. Schaus, S. Vissicchio, "REPETITA: Repeatable experiments for performance evaluation of traffic-engineering
algorithms", arXiv 1710.08665, 2017.
"""

from __future__ import annotations

import math

from topologies.errors import TopologyError
from topologies.network import Link, Network, Node

_NODE_HEAD, _LINK_HEAD = "label x y", "label src dest weight bw delay"


def read_repetita(text: str, name: str) -> Network:
    """The network: nodes by their labels, in order; a link's name and weight become attributes, further links of a pair keys.

    Raises TopologyError naming the line.

    >>> found = read_repetita("NODES 2\\nlabel x y\\na 0 0\\nb 1 0\\n\\nEDGES 1\\nlabel src dest weight bw delay\\ne 0 1 3 2000 150", "two")
    >>> found.links[0].label, found.links[0].capacity_bps, found.links[0].delay_s
    ('a->b', 2000000.0, 0.00015)
    """
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    count, rest = _section(lines, "NODES", _NODE_HEAD)
    nodes = tuple(_node(number, words) for number, words in rest[:count])
    links_count, links = _section(rest[count:], "EDGES", _LINK_HEAD)
    if len(nodes) < count or len(links) != links_count:
        raise TopologyError(
            f"{count} nodes and {links_count} links are announced, {len(nodes)} and {len(links)} follow"
        )
    keys: dict[tuple[str, str], int] = {}
    return Network(name=name, nodes=nodes, links=tuple(_link(number, words, nodes, keys) for number, words in links))


Lines = list[tuple[int, list[str]]]


def _section(lines: Lines, title: str, head: str) -> tuple[int, Lines]:
    """How many entries are announced, and the lines after the section's head."""
    wanted = f"'{title} NUMBER' and '{head}'"
    if len(lines) < 2 or lines[0][1][0] != title or " ".join(lines[1][1]) != head:
        where = f"line {lines[0][0]}" if lines else "the end of the file"
        raise TopologyError(f"{where}: give {wanted}")
    number, words = lines[0]
    if len(words) != 2 or not words[1].isascii() or not words[1].isdigit():
        raise TopologyError(f"line {number}: give {wanted}")
    return int(words[1]), lines[2:]


def _numbers(number: int, words: list[str]) -> list[float]:
    try:
        found = [float(word) for word in words]
    except ValueError:
        found = [math.nan]
    if not all(map(math.isfinite, found)):
        raise TopologyError(f"line {number}: {' '.join(words)[:80]!r} are no numbers")
    return found


def _node(number: int, words: list[str]) -> Node:
    if len(words) != 3:
        raise TopologyError(f"line {number}: give a node's {_NODE_HEAD}")
    x, y = _numbers(number, words[1:])
    return Node(id=words[0], kind="switch", position=(x, y))


def _link(number: int, words: list[str], nodes: tuple[Node, ...], keys: dict[tuple[str, str], int]) -> Link:
    if len(words) != 6:
        raise TopologyError(f"line {number}: give a link's {_LINK_HEAD}")
    source, target, weight, kbps, microseconds = _numbers(number, words[1:])
    ends = [int(end) for end in (source, target)]
    if any(end != exact or not 0 <= end < len(nodes) for end, exact in zip(ends, (source, target), strict=True)):
        raise TopologyError(f"line {number}: src and dest are numbers of nodes, 0 to {len(nodes) - 1}")
    pair = nodes[ends[0]].id, nodes[ends[1]].id
    key = keys[pair] = keys.get(pair, -1) + 1
    try:
        return Link(
            source=pair[0],
            target=pair[1],
            key=key,
            capacity_bps=kbps * 1e3,
            delay_s=round(microseconds * 1e-6, 12),
            attributes={"label": words[0], "weight": weight},
        )
    except TopologyError as error:
        raise TopologyError(f"line {number}: {error}") from error
