"""Networks of SNDlib (Orlowski and others 2010), in XML and in its native text: nodes, coordinates and links; demands
are left out.

Capacities have no unit there that fits all instances: they are kept as the attribute ``preinstalled_capacity``, and not
read.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

from topologies.errors import TopologyError
from topologies.files.xml_tree import local

CAPACITY = "preinstalled_capacity"
_SECTION = re.compile(r"([A-Z_]+)\s*\(\s*(\)?)")
_NODE = re.compile(r"(\S+)\s*\(\s*(\S+)\s+(\S+)\s*\)")
_LINK = re.compile(r"(\S+)\s*\(\s*(\S+)\s+(\S+)\s*\)\s*(\S*)")


def native_document(text: str) -> dict[str, Any]:
    """The node-link document of a text whose sections NODES and LINKS hold ``A ( x y )`` and ``L ( A B ) capacity
    ...``.

    >>> native_document("NODES (\\n A ( 1.0 2.0 )\\n B ( 1.0 3.0 )\\n)\\nLINKS (\\n L ( A B ) 0.00\\n)")["links"]
    [{'source': 'A', 'target': 'B', 'name': 'L', 'preinstalled_capacity': 0.0}]
    """
    sections = _sections(text)
    if not {"NODES", "LINKS"} <= sections.keys():
        raise TopologyError(
            "SNDlib's native format has the sections NODES ( ... ) and LINKS ( ... ); they are not there"
        )
    nodes = [_node(*words) for words in _matched(_NODE, sections["NODES"], "NODES")]
    links = [_link(*words) for words in _matched(_LINK, sections["LINKS"], "LINKS")]
    return _document(nodes, links)


def xml_document(root: ElementTree.Element) -> dict[str, Any]:
    """The node-link document of SNDlib's <network>."""
    found = {kind: [e for e in root.iter() if local(e) == kind] for kind in ("node", "link")}
    nodes = [_node(e.get("id", ""), _text(e, "x"), _text(e, "y")) for e in found["node"]]
    links = []
    for e in found["link"]:
        module = next((one for one in e.iter() if local(one) == "preInstalledModule"), None)
        capacity = "" if module is None else _text(module, "capacity")
        links.append(_link(e.get("id", ""), _text(e, "source"), _text(e, "target"), capacity))
    return _document(nodes, links)


def _sections(text: str) -> dict[str, list[str]]:
    """The lines of each section by its name."""
    found: dict[str, list[str]] = {}
    inside: list[str] | None = None
    for line in (one.partition("#")[0].strip() for one in text.splitlines()):
        head = _SECTION.match(line)
        if inside is None and head is not None:
            entries = found.setdefault(head[1], [])
            inside = None if head[2] else entries
        elif line == ")":
            inside = None
        elif line and inside is not None:
            inside.append(line)
    return found


def _matched(pattern: re.Pattern[str], lines: list[str], name: str) -> list[tuple[str, ...]]:
    found = []
    for line in lines:
        words = pattern.match(line)
        if words is None:
            raise TopologyError(f"{name}: {line[:60]!r} is no entry of SNDlib's")
        found.append(words.groups())
    return found


def _text(element: ElementTree.Element, name: str) -> str:
    return next(((e.text or "").strip() for e in element.iter() if local(e) == name), "")


def _node(name: str, x: str, y: str) -> dict[str, Any]:
    places = {key: value for key, value in (("x", _number(x)), ("y", _number(y))) if value is not None}
    return {"id": name, **places}


def _link(name: str, source: str, target: str, capacity: str) -> dict[str, Any]:
    value = _number(capacity)
    return {"source": source, "target": target, "name": name, **({} if value is None else {CAPACITY: value})}


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _document(nodes: list[dict[str, Any]], links: list[dict[str, Any]]) -> dict[str, Any]:
    return {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "links": links}
