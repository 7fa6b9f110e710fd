"""Reads GML files (Himsolt 1996), which networkx and the Topology Zoo write.

GML consists of keys with values, which are numbers, texts, or lists of further keys in brackets.
"""

import html
import re
from contextlib import suppress
from typing import Any, TypeAlias

from topologies.errors import TopologyError
from topologies.files.foreign import some
from topologies.text.json_types import JsonObject

_WORD = re.compile(r'\[|\]|"[^"]*"|[^\s\[\]"]+|"')
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
# Maximum depth of lists in lists; real files have four levels.
_MAX_DEPTH = 50
# Maximum number of words of a file: some hundred thousand links.
MAX_WORDS = 1_000_000

# The keys that may name a node: "label" is networkx's and "name" igraph's.
_NAMES = ("label", "name")
# The keys of a list, each with all of its values.
Tree: TypeAlias = "dict[str, list[int | float | str | Tree]]"


def gml_document(text: str, notes: list[str]) -> JsonObject:
    """Return the node-link document of a GML file.

    The ids of nodes are their labels, or else their names. If two are the same or one is missing,
    the ids are the numbers of the file.

    Args:
        text: The content of the file.
        notes: The list to which notes are appended: that numbers are used although there are
            labels, and which groups of nodes are left out.

    Raises:
        TopologyError: The file is not GML. The message has the number of the line.

    >>> nodes = 'node [ id 1 label "a" ] node [ id 2 label "b" ]'
    >>> gml_document(f"graph [ {nodes} edge [ source 1 target 2 ] ]", [])["links"]
    [{'source': 'a', 'target': 'b'}]
    """
    graphs = [value for value in _parse_tree(text).get("graph", []) if isinstance(value, dict)]
    if len(graphs) != 1:
        raise TopologyError(f"{len(graphs)} graphs; leave exactly one")
    graph = dict(graphs[0])
    nodes = []
    for i, value in enumerate(graph.pop("node", [])):
        nodes.append(_fields(value, f"node {i}", "id"))
    links = []
    for i, value in enumerate(graph.pop("edge", [])):
        links.append(_fields(value, f"edge {i}", "source", "target"))
    naming_key = _naming_key(nodes)
    if naming_key is not None:
        _use_names_as_ids(nodes, links, naming_key)
    elif any(_has_name(node) for node in nodes):
        notes.append("labels are missing or not unique: nodes are named by their ids")
    nodes = _without_groups(nodes, links, notes)
    is_directed = graph.pop("directed", [0])[-1] == 1
    graph.pop("multigraph", None)
    return {
        "directed": is_directed,
        "multigraph": True,
        "graph": _plain(graph),
        "nodes": nodes,
        "links": links,
    }


def _has_name(node: JsonObject) -> bool:
    return any(node.get(key) is not None for key in _NAMES)


def _naming_key(nodes: list[JsonObject]) -> str | None:
    """Return the key under which every node has a text that no other node has, or None."""
    for key in _NAMES:
        names = [node.get(key) for node in nodes]
        are_texts = all(isinstance(name, str) and name for name in names)
        if are_texts and len(set(names)) == len(names):
            return key
    return None


def _use_names_as_ids(nodes: list[JsonObject], links: list[JsonObject], key: str) -> None:
    """Replace the numbers of nodes by their names, also at the ends of links."""
    names = {node.get("id"): node[key] for node in nodes}
    if len(names) < len(nodes):
        raise TopologyError("two nodes have the same id; renumber them")
    for node in nodes:
        node["id"] = node[key]
    for i, link in enumerate(links):
        for end in ("source", "target"):
            if end not in link:
                continue
            # A text that is no id may be a label; ``parse_document`` checks it.
            if link[end] not in names and not isinstance(link[end], str):
                raise TopologyError(
                    f"edge {i}: {end} {link[end]} is not the id of a node; {end}s are ids"
                )
            link[end] = names.get(link[end], link[end])


def _without_groups(
    nodes: list[JsonObject], links: list[JsonObject], notes: list[str]
) -> list[JsonObject]:
    """Leave out the nodes that are groups of nodes (of yEd) and have no links, and note them."""
    linked = set()
    for link in links:
        linked |= {link.get("source"), link.get("target")}
    groups = []
    remaining = []
    for node in nodes:
        if node.get("isGroup") == 1 and node.get("id") not in linked:
            groups.append(node)
        else:
            remaining.append(node)
    if groups:
        names = some(group.get("id") for group in groups)
        notes.append(f"left out: groups of nodes, without links of their own: {names}")
    return remaining


def _parse_tree(text: str) -> Tree:
    """Return the keys of a file at the top level, each with all of its values."""
    text = _COMMENT.sub("", text)
    root: Tree = {}
    # The lists that are open, from the outermost to the innermost.
    open_lists = [root]
    # The key whose value comes next, or None if a key comes next.
    key: str | None = None
    for number, match in enumerate(_WORD.finditer(text)):
        word = match[0]
        if number == MAX_WORDS:
            raise TopologyError(f"more than {MAX_WORDS} words; make it smaller")
        if key is None and word == "]" and len(open_lists) > 1:
            open_lists.pop()
        elif key is None and word[0] not in '[]"':
            key = word
        elif key is not None and word == "[" and len(open_lists) <= _MAX_DEPTH:
            inner: Tree = {}
            open_lists[-1].setdefault(key, []).append(inner)
            open_lists.append(inner)
            key = None
        elif key is not None and word not in ("[", "]", '"'):
            open_lists[-1].setdefault(key, []).append(_scalar(word))
            key = None
        else:
            line = text.count("\n", 0, match.start()) + 1
            raise TopologyError(
                f"no GML: {word[:20]!r} in line {line} is neither a key nor its value"
            )
    if key is not None or len(open_lists) > 1:
        raise TopologyError("no GML: it ends within a list or before a value")
    return root


def _scalar(word: str) -> str | int | float:
    """Return the number or the text of a word; a word that is neither becomes a text too."""
    if word.startswith('"'):
        return html.unescape(word[1:-1])
    # Other beginnings are excluded because float() also accepts words such as "nan".
    if word[0] in "+-.0123456789":
        with suppress(ValueError):
            return int(word)
        with suppress(ValueError):
            return float(word)
    return word


def _fields(value: object, where: str, *single: str) -> JsonObject:
    """Return the fields of a node or an edge.

    Args:
        value: The value of the key ``node`` or ``edge``.
        where: Its position, for messages.
        *single: Keys that must have one number or text.
    """
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
    """Return a list of GML as a dictionary: a key has its only value, or the list of its values."""
    plain: dict[str, Any] = {}
    for key, values in tree.items():
        plain_values: list[Any] = []
        for value in values:
            if isinstance(value, dict):
                plain_values.append(_plain(value))
            else:
                plain_values.append(value)
        plain[key] = plain_values[0] if len(plain_values) == 1 else plain_values
    return plain
