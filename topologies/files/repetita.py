"""Reads the ``.graph`` files of REPETITA.

They have numbered switches with coordinates, and directed links with a weight, a bandwidth in
kbit/s and a delay in microseconds.

Source: S. Gay, P. Schaus, S. Vissicchio, "REPETITA: Repeatable experiments for performance
evaluation of traffic-engineering algorithms", arXiv 1710.08665, 2017.
"""

import math

from topologies.errors import TopologyError
from topologies.text.json_types import JsonObject

# The headings of the columns of nodes and of links.
_NODE_HEAD = "label x y"
_LINK_HEAD = "label src dest weight bw delay"
# The number of each line that is not empty, and its words.
Lines = list[tuple[int, list[str]]]


def repetita_document(text: str) -> JsonObject:
    r"""Return the node-link document of a REPETITA file.

    The ids of nodes are their labels. The label and the weight of a link become attributes.

    Raises:
        TopologyError: The file is invalid. The message has the number of the line.

    >>> nodes = "NODES 2\nlabel x y\na 0 0\nb 1 0\n\n"
    >>> links = "EDGES 1\nlabel src dest weight bw delay\ne 0 1 3 2000 150"
    >>> link = repetita_document(nodes + links)["links"][0]
    >>> link["source"], link["target"], link["capacity_bps"], link["delay_s"]
    ('a', 'b', 2000000.0, 0.00015)
    """
    lines: Lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            lines.append((number, line.split()))
    node_count, remaining = _section(lines, "NODES", _NODE_HEAD)
    node_lines = remaining[:node_count]
    nodes = [_node(number, columns) for number, columns in node_lines]
    link_count, link_lines = _section(remaining[node_count:], "EDGES", _LINK_HEAD)
    if len(nodes) < node_count or len(link_lines) != link_count:
        raise TopologyError(
            f"{node_count} nodes and {link_count} links are announced,"
            f" {len(nodes)} and {len(link_lines)} follow"
        )
    line_of_label: dict[str, int] = {}
    for number, (label, *_) in node_lines:
        if line_of_label.setdefault(label, number) != number:
            raise TopologyError(
                f"line {number}: the label {label!r} is that of line {line_of_label[label]} too;"
                " rename one"
            )
    ids = [node["id"] for node in nodes]
    links = [_link(number, columns, ids) for number, columns in link_lines]
    return {"directed": True, "multigraph": True, "graph": {}, "nodes": nodes, "links": links}


def _section(lines: Lines, title: str, head: str) -> tuple[int, Lines]:
    """Read the two lines at the head of a section.

    Args:
        lines: The lines from the head of the section on.
        title: First word of the section.
        head: Names of the columns.

    Returns:
        The number of entries that is announced, and the lines after the head.
    """
    required = f"'{title} NUMBER' and '{head}'"
    if len(lines) < 2 or lines[0][1][0] != title or " ".join(lines[1][1]) != head:
        where = f"line {lines[0][0]}" if lines else "the end of the file"
        raise TopologyError(f"{where}: give {required}")
    number, columns = lines[0]
    if (
        len(columns) != 2
        or len(columns[1]) > 9
        or not columns[1].isascii()
        or not columns[1].isdigit()
    ):
        raise TopologyError(f"line {number}: give {required}")
    return int(columns[1]), lines[2:]


def _numbers(line_number: int, columns: list[str]) -> list[float]:
    try:
        numbers = [float(word) for word in columns]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise TopologyError(f"line {line_number}: {' '.join(columns)[:80]!r} are not numbers")
    return numbers


def _node(line_number: int, columns: list[str]) -> JsonObject:
    if len(columns) != 3:
        raise TopologyError(f"line {line_number}: give a node's {_NODE_HEAD}")
    return {"id": columns[0], "position": _numbers(line_number, columns[1:])}


def _link(line_number: int, columns: list[str], ids: list[str]) -> JsonObject:
    """Return the entry of a link.

    Args:
        line_number: Number of the line, for messages.
        columns: The words of the line.
        ids: The ids of all nodes; the file names the ends of a link by their indices.
    """
    if len(columns) != 6:
        raise TopologyError(f"line {line_number}: give a link's {_LINK_HEAD}")
    *ends, weight, kbps, microseconds = _numbers(line_number, columns[1:])
    indices = [int(end) for end in ends]
    if indices != ends or not all(0 <= index < len(ids) for index in indices):
        raise TopologyError(
            f"line {line_number}: src and dest are numbers of nodes, 0 to {len(ids) - 1}"
        )
    source = ids[indices[0]]
    target = ids[indices[1]]
    where = f"line {line_number}: link {source!r} -> {target!r}"
    if kbps <= 0:
        raise TopologyError(f"{where}: capacity_bps of bw {kbps:g} must be positive")
    if microseconds < 0:
        raise TopologyError(f"{where}: delay {microseconds:g} is below 0")
    return {
        "source": source,
        "target": target,
        "capacity_bps": kbps * 1e3,
        "delay_s": round(microseconds * 1e-6, 12),
        "label": columns[0],
        "weight": weight,
    }
