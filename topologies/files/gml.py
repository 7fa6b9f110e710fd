"""Networks of GML files (Himsolt 1996; networkx and the Topology Zoo write them): nested lists of keys and values."""

import html
import re
from contextlib import suppress
from typing import Any, TypeAlias

from topologies.errors import TopologyError
from topologies.files.foreign import some
from topologies.text.json_types import JsonObject

_WORD = re.compile(r'\[|\]|"[^"]*"|[^\s\[\]"]+|"')
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_DEPTH = 50
"""Lists in lists; real files have four."""
MAX_WORDS = 1_000_000
"""Some hundred thousand links."""

_NAMES = ("label", "name")
Tree: TypeAlias = "dict[str, list[int | float | str | Tree]]"


def gml_document(text: str, notes: list[str]) -> JsonObject:
    """The node-link document of a GML text.

    Ids are the labels, as networkx reads them, else the names, as igraph writes them, or, where two are the same or one
    is missing, the numbers (then ``notes`` says so). Raises TopologyError, which names the line, for what is no GML.

    >>> text = 'graph [ node [ id 1 label "a" ] node [ id 2 label "b" ] edge [ source 1 target 2 ] ]'
    >>> gml_document(text, [])["links"]
    [{'source': 'a', 'target': 'b'}]
    """
    graphs = [one for one in _tree(text).get("graph", []) if isinstance(one, dict)]
    if len(graphs) != 1:
        raise TopologyError(f"{len(graphs)} graphs; leave exactly one")
    graph = dict(graphs[0])
    nodes = [_fields(one, f"node {i}", "id") for i, one in enumerate(graph.pop("node", []))]
    links = [
        _fields(one, f"edge {i}", "source", "target") for i, one in enumerate(graph.pop("edge", []))
    ]
    key = next((key for key in _NAMES if _are_names([node.get(key) for node in nodes])), None)
    if key is not None:
        names = {node.get("id"): node[key] for node in nodes}
        if len(names) < len(nodes):
            raise TopologyError("two nodes have the same id; renumber them")
        for node in nodes:
            node["id"] = node[key]
        for i, link in enumerate(links):
            for end in (end for end in ("source", "target") if end in link):
                if link[end] not in names and not isinstance(
                    link[end], str
                ):  # a label may look like it
                    raise TopologyError(
                        f"edge {i}: {end} {link[end]} is the id of no node; {end}s are ids"
                    )
                link[end] = names.get(link[end], link[end])
    elif any(node.get(name) is not None for node in nodes for name in _NAMES):
        notes.append("labels are missing or there twice: nodes are named by their ids")
    linked = {link.get(end) for link in links for end in ("source", "target")}
    groups = [node for node in nodes if node.get("isGroup") == 1 and node.get("id") not in linked]
    if groups:
        notes.append(
            f"left out: groups of nodes, without links of their own: {some(one.get('id') for one in groups)}"
        )
        nodes = [node for node in nodes if node.get("isGroup") != 1 or node.get("id") in linked]
    directed = graph.pop("directed", [0])[-1] == 1
    graph.pop("multigraph", None)
    return {
        "directed": directed,
        "multigraph": True,
        "graph": _plain(graph),
        "nodes": nodes,
        "links": links,
    }


def _are_names(found: list[Any]) -> bool:
    """Whether every node has one, and no two the same."""
    return all(isinstance(one, str) and one for one in found) and len(set(found)) == len(found)


def _tree(text: str) -> Tree:
    """The keys of a text, each with all of its values."""
    text = _COMMENT.sub("", text)
    root: Tree = {}
    inside = [root]
    key: str | None = None
    for number, found in enumerate(_WORD.finditer(text)):
        word = found[0]
        if number == MAX_WORDS:
            raise TopologyError(f"more than {MAX_WORDS} words; make it smaller")
        if key is None and word == "]" and len(inside) > 1:
            inside.pop()
        elif key is None and word[0] not in '[]"':
            key = word
        elif key is not None and word == "[" and len(inside) <= _DEPTH:
            deeper: Tree = {}
            inside[-1].setdefault(key, []).append(deeper)
            inside.append(deeper)
            key = None
        elif key is not None and word not in ("[", "]", '"'):
            inside[-1].setdefault(key, []).append(_scalar(word))
            key = None
        else:
            line = text.count("\n", 0, found.start()) + 1
            raise TopologyError(
                f"no GML: {word[:20]!r} in line {line} is neither a key nor its value"
            )
    if key is not None or len(inside) > 1:
        raise TopologyError("no GML: it ends within a list or before a value")
    return root


def _scalar(word: str) -> str | int | float:
    if word.startswith('"'):
        return html.unescape(word[1:-1])
    for kind in (int, float) if word[0] in "+-.0123456789" else ():
        with suppress(ValueError):
            return kind(word)
    return word


def _fields(value: object, where: str, *single: str) -> dict[str, Any]:
    """The fields of a node or an edge; those that are ``single`` have one number or text each."""
    if not isinstance(value, dict):
        raise TopologyError(f"{where}: give a list in brackets")
    fields = _plain(value)
    for key in single:
        if isinstance(fields.get(key), (dict, list)):
            raise TopologyError(
                f"{where}: {key} is a list, or there twice; give one number or text"
            )
    return fields


def _plain(tree: Tree) -> dict[str, Any]:
    """A key's only value, or the list of its values."""
    return {
        key: plain[0] if len(plain) == 1 else plain
        for key, values in tree.items()
        for plain in [[_plain(one) if isinstance(one, dict) else one for one in values]]
    }
