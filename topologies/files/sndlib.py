"""Reads SNDlib files (Orlowski and others 2010), in XML and in the native text format.

Nodes, coordinates, links and their pre-installed capacities are read. Capacities and demands have
the same unit, which META names. Modules are options for adding capacity at a cost; they are not
read, and neither are demands.
"""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise, takewhile
from typing import TypeAlias

from topologies.errors import TopologyError
from topologies.files.foreign import some
from topologies.files.xml_tree import local
from topologies.network import DEFAULT_CAPACITY_BPS
from topologies.text.json_types import JsonObject
from topologies.text.rate_units import unit_bps

# The attribute that has a link's capacity until the unit is known.
CAPACITY = "preinstalled_capacity"
_META = re.compile(r"^\s*(unit|granularity)\s*=\s*(\S+)", re.MULTILINE | re.IGNORECASE)
_WORD = re.compile(r"[()]|[^\s()]+")
# The numbers of a link: pre-installed capacity and its cost, routing cost and setup cost. Modules
# in parentheses follow them.
_MAX_VALUES = 4
# Maximum depth of parentheses.
_MAX_DEPTH = 50
# A word, or the items between two parentheses.
Item: TypeAlias = "str | list[Item]"


def native_document(text: str, notes: list[str]) -> JsonObject:
    r"""Return the node-link document of a file in SNDlib's native format.

    Its sections NODES and LINKS contain ``A ( x y )`` and ``L ( A B ) capacity ...``.

    Args:
        text: The content of the file.
        notes: The list to which a note about links without a capacity is appended.

    >>> head = "META (\n unit = GBITPERSEC\n)\nNODES (\n A ( 1 2 )\n B ( 1 3 )\n)\n"
    >>> native_document(head + "LINKS (\n L ( A B ) 2.5\n)", [])["links"]
    [{'source': 'A', 'target': 'B', 'name': 'L', 'capacity_bps': 2500000000.0}]
    """
    sections = _parse_sections(text)
    if not {"NODES", "LINKS"} <= sections.keys():
        raise TopologyError(
            "SNDlib's native format has the sections NODES ( ... ) and LINKS ( ... );"
            " they are not there"
        )
    links = _parse_links(sections["LINKS"])
    _read_capacities(links, native_meta(text), notes)
    return _document(_parse_nodes(sections["NODES"]), links)


def xml_document(root: ElementTree.Element, notes: list[str]) -> JsonObject:
    """Return the node-link document of SNDlib's element <network>.

    Args:
        root: The element.
        notes: The list to which a note about links without a capacity is appended.
    """
    nodes = []
    links = []
    for element in root.iter():
        kind = local(element)
        name = element.get("id", "")
        if kind == "node":
            nodes.append(_node(name, _text_of(element, "x"), _text_of(element, "y")))
        elif kind == "link":
            source = _text_of(element, "source")
            target = _text_of(element, "target")
            links.append(_link(name, source, target, _preinstalled_capacity(element)))
    _read_capacities(links, xml_meta(root), notes)
    return _document(nodes, links)


def _preinstalled_capacity(link: ElementTree.Element) -> str:
    for element in link.iter():
        if local(element) == "preInstalledModule":
            return _text_of(element, "capacity")
    return ""


def native_meta(text: str) -> dict[str, str]:
    """Return the entries ``unit`` and ``granularity`` that the section META of a file has."""
    return {name.lower(): value for name, value in _META.findall(text)}


def xml_meta(root: ElementTree.Element) -> dict[str, str]:
    """Return the entries of the element <meta>."""
    for element in root.iter():
        if local(element) == "meta":
            return {local(entry): (entry.text or "").strip() for entry in element}
    return {}


def _read_capacities(links: list[JsonObject], meta: dict[str, str], notes: list[str]) -> None:
    """Convert pre-installed capacities to ``capacity_bps``, in the unit of META.

    A capacity of 0 means that nothing is installed yet; it is removed. If META has no unit, the
    capacities stay attributes. Negative ones are refused later, by ``Link``.
    """
    default = f"{DEFAULT_CAPACITY_BPS / 1e6:g} Mbit/s"
    empty = []
    for link in links:
        if not link.get(CAPACITY):
            link.pop(CAPACITY, None)
            empty.append(link["name"])
    if empty:
        notes.append(
            f"no pre-installed capacity, therefore {default} (modules that could be added do not"
            f" count): {some(empty)}"
        )
    if len(empty) == len(links):
        return
    factor = unit_bps(meta.get("unit", ""), meta.get("granularity", ""))
    if factor is None:
        notes.append(
            f"pre-installed capacities are not used, and links have {default}: META names no unit"
            " of rates, such as MBITPERSEC"
        )
        return
    for link in links:
        if CAPACITY in link:
            link["capacity_bps"] = link.pop(CAPACITY) * factor


def _parse_sections(text: str) -> dict[str, list[Item]]:
    """Return the items between the parentheses of each section, by the name of the section."""
    # The lists of items that are open, from the outermost to the innermost.
    open_lists: list[list[Item]] = [[]]
    for number, line in enumerate(text.splitlines(), 1):
        for word in _WORD.findall(line.partition("#")[0]):
            if word == "(" and len(open_lists) <= _MAX_DEPTH:
                inner: list[Item] = []
                open_lists[-1].append(inner)
                open_lists.append(inner)
            elif word == ")" and len(open_lists) > 1:
                open_lists.pop()
            elif word in "()":
                raise TopologyError(
                    f"line {number}: {word!r} has no other half; correct the parentheses"
                )
            else:
                open_lists[-1].append(word)
    if len(open_lists) > 1:
        raise TopologyError("it ends within parentheses; add what is missing")
    sections: dict[str, list[Item]] = {}
    for name, items in pairwise(open_lists[0]):
        if isinstance(name, str) and isinstance(items, list):
            sections[name] = items
    return sections


def _parse_nodes(items: list[Item]) -> list[JsonObject]:
    """Return the nodes of ``A ( x y ) B ( ) ...``; coordinates may be missing."""
    nodes = []
    for name, coordinates in zip(items[::2], [*items[1::2], ""], strict=False):
        if not isinstance(name, str) or not isinstance(coordinates, list):
            raise TopologyError(
                f"NODES: {_quoted(name)} is not an entry of SNDlib; write NAME ( X Y )"
            )
        x, y, *_ = [*map(str, coordinates), "", ""]
        nodes.append(_node(name, x, y))
    return nodes


def _parse_links(items: list[Item]) -> list[JsonObject]:
    """Return the links of ``L ( A B ) 0.0 0.0 0.0 0.0 ( 40.0 1.0 ... ) ...``.

    Numbers and modules may be missing at the end of an entry.
    """
    links = []
    position = 0
    while position < len(items):
        name = items[position]
        ends = items[position + 1] if position + 1 < len(items) else ""
        node_names = [end for end in ends if isinstance(end, str)]
        has_two_ends = isinstance(ends, list) and len(ends) == 2 and len(node_names) == 2
        if not isinstance(name, str) or not has_two_ends:
            raise TopologyError(
                f"LINKS: {_quoted(name)} is not an entry of SNDlib;"
                " write NAME ( NODE NODE ) CAPACITY ..."
            )
        position += 2
        values = list(takewhile(_is_value, items[position : position + _MAX_VALUES]))
        position += len(values)
        if position < len(items) and _is_list_of_modules(items[position]):
            position += 1
        capacity = str(values[0]) if values else ""
        links.append(_link(name, node_names[0], node_names[1], capacity))
    return links


def _is_list_of_modules(item: Item) -> bool:
    return isinstance(item, list) and all(map(_is_value, item))


def _is_value(item: Item) -> bool:
    return isinstance(item, str) and (item == "UNLIMITED" or _to_number(item) is not None)


def _quoted(item: Item) -> str:
    return repr(item)[:60]


def _text_of(element: ElementTree.Element, name: str) -> str:
    """Return the text of the first element with a name inside another one, or an empty text."""
    for inner in element.iter():
        if local(inner) == name:
            return (inner.text or "").strip()
    return ""


def _node(name: str, x: str, y: str) -> JsonObject:
    node: JsonObject = {"id": name}
    for key, text in (("x", x), ("y", y)):
        value = _to_number(text)
        if value is not None:
            node[key] = value
    return node


def _link(name: str, source: str, target: str, capacity: str) -> JsonObject:
    link: JsonObject = {"source": source, "target": target, "name": name}
    value = _to_number(capacity)
    if value is not None:
        link[CAPACITY] = value
    return link


def _to_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _document(nodes: list[JsonObject], links: list[JsonObject]) -> JsonObject:
    return {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "links": links}
