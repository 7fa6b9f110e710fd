"""Networks of REPETITA's ``.graph`` files: numbered switches with coordinates, directed links with a weight, kbit/s and
microseconds.

Source: S. Gay, P. Schaus, S. Vissicchio, "REPETITA: Repeatable experiments for performance evaluation of
traffic-engineering algorithms", arXiv 1710.08665, 2017.
"""

import math

from topologies.errors import TopologyError
from topologies.text.json_types import JsonObject

_NODE_HEAD, _LINK_HEAD = "label x y", "label src dest weight bw delay"


def repetita_document(text: str) -> JsonObject:
    """The node-link document: nodes by their labels, in order; a link's label and weight become attributes.

    Raises TopologyError naming the line.

    >>> nodes = "NODES 2\\nlabel x y\\na 0 0\\nb 1 0\\n\\n"
    >>> repetita_document(nodes + "EDGES 1\\nlabel src dest weight bw delay\\ne 0 1 3 2000 150")["links"]
    [{'source': 'a', 'target': 'b', 'capacity_bps': 2000000.0, 'delay_s': 0.00015, 'label': 'e', 'weight': 3.0}]
    """
    lines = [
        (number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()
    ]
    count, rest = _section(lines, "NODES", _NODE_HEAD)
    entries = rest[:count]
    nodes = [_node(number, words) for number, words in entries]
    links_count, links = _section(rest[count:], "EDGES", _LINK_HEAD)
    if len(nodes) < count or len(links) != links_count:
        raise TopologyError(
            f"{count} nodes and {links_count} links are announced, {len(nodes)} and {len(links)} follow"
        )
    first: dict[str, int] = {}
    for number, (label, *_) in entries:
        if first.setdefault(label, number) != number:
            raise TopologyError(
                f"line {number}: the label {label!r} is that of line {first[label]} too; rename one"
            )
    ids = [node["id"] for node in nodes]
    found = [_link(number, words, ids) for number, words in links]
    return {"directed": True, "multigraph": True, "graph": {}, "nodes": nodes, "links": found}


Lines = list[tuple[int, list[str]]]


def _section(lines: Lines, title: str, head: str) -> tuple[int, Lines]:
    """How many entries are announced, and the lines after the section's head."""
    required = f"'{title} NUMBER' and '{head}'"
    if len(lines) < 2 or lines[0][1][0] != title or " ".join(lines[1][1]) != head:
        where = f"line {lines[0][0]}" if lines else "the end of the file"
        raise TopologyError(f"{where}: give {required}")
    number, words = lines[0]
    if len(words) != 2 or len(words[1]) > 9 or not words[1].isascii() or not words[1].isdigit():
        raise TopologyError(f"line {number}: give {required}")
    return int(words[1]), lines[2:]


def _numbers(number: int, words: list[str]) -> list[float]:
    try:
        found = [float(word) for word in words]
    except ValueError:
        found = [math.nan]
    if not all(map(math.isfinite, found)):
        raise TopologyError(f"line {number}: {' '.join(words)[:80]!r} are no numbers")
    return found


def _node(number: int, words: list[str]) -> JsonObject:
    if len(words) != 3:
        raise TopologyError(f"line {number}: give a node's {_NODE_HEAD}")
    return {"id": words[0], "position": _numbers(number, words[1:])}


def _link(number: int, words: list[str], ids: list[str]) -> JsonObject:
    if len(words) != 6:
        raise TopologyError(f"line {number}: give a link's {_LINK_HEAD}")
    *exact, weight, kbps, microseconds = _numbers(number, words[1:])
    ends = [int(end) for end in exact]
    if ends != exact or not all(0 <= end < len(ids) for end in ends):
        raise TopologyError(
            f"line {number}: src and dest are numbers of nodes, 0 to {len(ids) - 1}"
        )
    source, target = (ids[end] for end in ends)
    if kbps <= 0 or microseconds < 0:
        what = (
            f"capacity_bps of bw {kbps:g} must be positive"
            if kbps <= 0
            else f"delay {microseconds:g} is below 0"
        )
        raise TopologyError(f"line {number}: link {source!r} -> {target!r}: {what}")
    return {
        "source": source,
        "target": target,
        "capacity_bps": kbps * 1e3,
        "delay_s": round(microseconds * 1e-6, 12),
        "label": words[0],
        "weight": weight,
    }
