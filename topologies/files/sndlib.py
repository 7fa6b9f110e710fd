"""Networks of SNDlib (Orlowski and others 2010), in XML and in its native text.

Nodes, coordinates, links and their pre-installed capacities are read. Capacities and demands have the
same unit, which META names. Modules are options for adding capacity, at a cost: they are not read,
and neither are demands.
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

# The attribute of a link's capacity if the file names no unit.
CAPACITY = "preinstalled_capacity"
_META = re.compile(r"^\s*(unit|granularity)\s*=\s*(\S+)", re.MULTILINE | re.IGNORECASE)
_WORD = re.compile(r"[()]|[^\s()]+")
_VALUES = 4
"""Numbers of a link: preinstalled capacity and its cost, routing cost, setup cost; modules in parentheses follow."""
_DEPTH = 50
Item: TypeAlias = "str | list[Item]"
"""A word, or the list of what stands in parentheses."""


def native_document(text: str, notes: list[str]) -> JsonObject:
    """Return the node-link document of a text in SNDlib's native format.

    Its sections NODES and LINKS contain ``A ( x y )`` and ``L ( A B ) capacity ...``.

    Args:
        text: The text of the file.
        notes: Takes one line about links without a capacity.

    >>> head = "META (\\n unit = GBITPERSEC\\n)\\nNODES (\\n A ( 1 2 )\\n B ( 1 3 )\\n)\\n"
    >>> native_document(head + "LINKS (\\n L ( A B ) 2.5\\n)", [])["links"]
    [{'source': 'A', 'target': 'B', 'name': 'L', 'capacity_bps': 2500000000.0}]
    """
    sections = _sections(text)
    if not {"NODES", "LINKS"} <= sections.keys():
        raise TopologyError(
            "SNDlib's native format has the sections NODES ( ... ) and LINKS ( ... ); they are not there"
        )
    links = _links(sections["LINKS"])
    _read_capacities(links, native_meta(text), notes)
    return _document(_nodes(sections["NODES"]), links)


def xml_document(root: ElementTree.Element, notes: list[str]) -> JsonObject:
    """Return the node-link document of SNDlib's <network>, with notes as ``native_document``."""
    found = {kind: [e for e in root.iter() if local(e) == kind] for kind in ("node", "link")}
    nodes = [_node(e.get("id", ""), _text(e, "x"), _text(e, "y")) for e in found["node"]]
    links = []
    for e in found["link"]:
        module = next((one for one in e.iter() if local(one) == "preInstalledModule"), None)
        capacity = "" if module is None else _text(module, "capacity")
        links.append(_link(e.get("id", ""), _text(e, "source"), _text(e, "target"), capacity))
    _read_capacities(links, xml_meta(root), notes)
    return _document(nodes, links)


def native_meta(text: str) -> dict[str, str]:
    """Return ``unit`` and ``granularity`` of the section META, as far as they are there."""
    return {name.lower(): value for name, value in _META.findall(text)}


def xml_meta(root: ElementTree.Element) -> dict[str, str]:
    """Return the entries of the element <meta>."""
    meta = next((element for element in root.iter() if local(element) == "meta"), None)
    return {} if meta is None else {local(e): (e.text or "").strip() for e in meta}


def _read_capacities(links: list[JsonObject], meta: dict[str, str], notes: list[str]) -> None:
    """Make pre-installed capacities the capacities of links, in the unit of META.

    A capacity of 0 says that nothing is installed yet. Other values are left to the checks of
    networks. Without a unit, capacities stay attributes.
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
            f"pre-installed capacities are not used, and links have {default}: META names no unit of"
            " rates, such as MBITPERSEC"
        )
        return
    for link in links:
        if CAPACITY in link:
            link["capacity_bps"] = link.pop(CAPACITY) * factor


def _sections(text: str) -> dict[str, list[Item]]:
    """What stands in the parentheses of each section, by its name."""
    inside: list[list[Item]] = [[]]
    lines = (line.partition("#")[0] for line in text.splitlines())
    for number, line in enumerate(lines, 1):
        for word in _WORD.findall(line):
            if word == "(" and len(inside) <= _DEPTH:
                inside.append([])
                inside[-2].append(inside[-1])
            elif word == ")" and len(inside) > 1:
                inside.pop()
            elif word in "()":
                raise TopologyError(
                    f"line {number}: {word!r} has no other half; correct the parentheses"
                )
            else:
                inside[-1].append(word)
    if len(inside) > 1:
        raise TopologyError("it ends within parentheses; add what is missing")
    return {
        name: items
        for name, items in pairwise(inside[0])
        if isinstance(name, str) and isinstance(items, list)
    }


def _nodes(items: list[Item]) -> list[JsonObject]:
    """Of ``A ( x y ) B ( ) ...``."""
    found = []
    for name, place in zip(items[::2], [*items[1::2], ""], strict=False):
        if not isinstance(name, str) or not isinstance(place, list):
            raise TopologyError(
                f"NODES: {_shown(name)} is no entry of SNDlib's; write NAME ( X Y )"
            )
        x, y, *_ = [*map(str, place), "", ""]
        found.append(_node(name, x, y))
    return found


def _links(items: list[Item]) -> list[JsonObject]:
    """Of ``L ( A B ) 0.0 0.0 0.0 0.0 ( 40.0 1.0 ... ) ...``; numbers and modules may be missing at the end."""
    found, at = [], 0
    while at < len(items):
        name, ends = items[at], items[at + 1] if at + 1 < len(items) else ""
        words = [end for end in ends if isinstance(end, str)]
        if (
            not isinstance(name, str)
            or not isinstance(ends, list)
            or not len(ends) == len(words) == 2
        ):
            raise TopologyError(
                f"LINKS: {_shown(name)} is no entry of SNDlib's; write NAME ( NODE NODE ) CAPACITY ..."
            )
        at += 2
        values = list(takewhile(_is_value, items[at : at + _VALUES]))
        at += len(values)
        if at < len(items) and isinstance(items[at], list) and all(map(_is_value, items[at])):
            at += 1
        found.append(_link(name, words[0], words[1], str(values[0]) if values else ""))
    return found


def _is_value(item: Item) -> bool:
    return isinstance(item, str) and (item == "UNLIMITED" or _number(item) is not None)


def _shown(item: Item) -> str:
    return repr(item)[:60]


def _text(element: ElementTree.Element, name: str) -> str:
    return next(((e.text or "").strip() for e in element.iter() if local(e) == name), "")


def _node(name: str, x: str, y: str) -> JsonObject:
    places = {
        key: value for key, value in (("x", _number(x)), ("y", _number(y))) if value is not None
    }
    return {"id": name, **places}


def _link(name: str, source: str, target: str, capacity: str) -> JsonObject:
    value = _number(capacity)
    return {
        "source": source,
        "target": target,
        "name": name,
        **({} if value is None else {CAPACITY: value}),
    }


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _document(nodes: list[JsonObject], links: list[JsonObject]) -> JsonObject:
    return {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "links": links}
