"""Reads GraphML files; numbers, truth values and text keep their types.

GraphML has no type for lists, objects and null. Files that the testbed wrote until version 0.2 have
these values as JSON text under the one key ``json_attributes``.
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

from topologies.errors import TopologyError, prefix_errors
from topologies.files.foreign import adapted, rename_kinds, some, without_loops
from topologies.files.node_link import parse_document, parse_json
from topologies.files.xml_tree import local
from topologies.network import Network
from topologies.text.json_types import JsonObject

# The attribute that has all values that GraphML cannot hold, as a JSON object.
_JSON_KEY = "json_attributes"
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
# The types of values that are numbers.
_NUMBER_TYPES: Mapping[str, Callable[[str], float]] = {
    "float": float,
    "double": float,
    "real": float,
    "int": int,
    "long": int,
    "integer": int,
}

Scope = Literal["graph", "node", "edge"]
Element = ElementTree.Element


def read_graphml(root: Element, name: str, folder: Path | None, notes: list[str]) -> Network:
    """Return the network of a <graphml> element.

    As in JSON, nodes without ``kind`` are switches, an undirected edge stands for both directions,
    and parallel edges without an integer ``key`` are numbered in order. ``directed`` of an edge
    takes precedence over ``edgedefault``. Edges from a node to itself are left out. Graphs inside
    nodes, which are groups of yEd, are read as if they were outside; a group without edges of its
    own is left out.

    Args:
        root: The element.
        name: Name of the network if the graph has none.
        folder: Folder of the trace files that impairments of links name.
        notes: The list to which notes are appended.

    Raises:
        TopologyError: The file is not GraphML, has a hyperedge, or is refused by ``adapted``. The
            message names the node or edge.
    """
    graphs = [child for child in root if local(child) == "graph"]
    if len(graphs) != 1:
        raise TopologyError(f"{len(graphs)} graphs; leave exactly one")
    outer_graph = graphs[0]
    namespace = str(outer_graph.tag).removesuffix("graph")
    if next(outer_graph.iter(f"{namespace}hyperedge"), None) is not None:
        raise TopologyError(
            "a hyperedge (a link of more than two ends) has no meaning here; write one edge a pair"
        )
    keys = {element.get("id", ""): element for element in root.iter() if local(element) == "key"}
    edge_default = outer_graph.get("edgedefault", "undirected")
    edges: list[Element] = []
    directed_defaults: list[bool] = []
    for graph in outer_graph.iter(outer_graph.tag):
        is_directed = _is_directed(graph, edge_default)
        for child in graph:
            if local(child) == "edge":
                edges.append(child)
                directed_defaults.append(is_directed)
    nodes = _read_nodes(outer_graph.iter(f"{namespace}node"), edges, keys, notes)
    links = []
    for i, edge in enumerate(edges):
        link = _read_data(edge, "edge", keys, f"edges[{i}]")
        links.append(link | {"source": edge.get("source"), "target": edge.get("target")})
    rename_kinds(nodes)
    document = {
        "directed": edge_default == "directed",
        "multigraph": True,
        "graph": _read_data(outer_graph, "graph", keys, "graph"),
        "nodes": nodes,
        "edges": links,
    }
    one_way = without_loops(links, _one_way(edges, directed_defaults, notes), notes)
    return parse_document(adapted(document, notes), name, one_way, folder)


def _is_directed(graph: Element, outer_default: str) -> bool:
    """Return whether the edges of a graph that do not say their direction have one."""
    default = graph.get("edgedefault", outer_default)
    if default not in ("directed", "undirected"):
        raise TopologyError(f"edgedefault {default!r} is neither 'directed' nor 'undirected'")
    return default == "directed"


def _read_nodes(
    elements: Iterable[Element],
    edges: list[Element],
    keys: Mapping[str, Element],
    notes: list[str],
) -> list[JsonObject]:
    """Return the entries of the nodes without groups that have no edges, which are noted."""
    linked = set()
    for edge in edges:
        linked |= {edge.get("source"), edge.get("target")}
    nodes: list[JsonObject] = []
    groups = []
    for i, element in enumerate(elements):
        node_id = element.get("id")
        if _is_group(element) and node_id not in linked:
            groups.append(node_id)
        else:
            nodes.append({**_read_data(element, "node", keys, f"nodes[{i}]"), "id": node_id})
    if groups:
        notes.append(f"left out: groups of nodes, without links of their own: {some(groups)}")
    return nodes


def _is_group(node: Element) -> bool:
    return "yfiles.foldertype" in node.attrib or any(local(child) == "graph" for child in node)


def _one_way(edges: list[Element], defaults: list[bool], notes: list[str]) -> list[bool]:
    """Return whether each edge has one direction.

    yEd calls every edge directed. An edge that yEd draws without arrows has both directions, unless
    the reverse edge is there too.

    Args:
        edges: The edges.
        defaults: Whether each edge has one direction if it does not say so itself.
        notes: The list to which a note about edges without arrows is appended.
    """
    pairs = {(edge.get("source"), edge.get("target")) for edge in edges}
    one_way = []
    count_without_arrows = 0
    for i, (edge, default) in enumerate(zip(edges, defaults, strict=True)):
        directed = edge.get("directed", str(default).lower())
        if directed not in ("true", "false"):
            raise TopologyError(f"edges[{i}]: directed {directed!r} is neither 'true' nor 'false'")
        has_reverse = (edge.get("target"), edge.get("source")) in pairs
        is_both_ways = (
            "directed" not in edge.attrib and not has_reverse and _is_drawn_without_arrows(edge)
        )
        if default and is_both_ways:
            count_without_arrows += 1
        one_way.append(directed == "true" and not is_both_ways)
    if count_without_arrows == 1:
        notes.append("both ways: 1 link drawn without arrows")
    elif count_without_arrows:
        notes.append(f"both ways: {count_without_arrows} links drawn without arrows")
    return one_way


def _is_drawn_without_arrows(edge: Element) -> bool:
    for element in edge.iter():
        if local(element) == "Arrows":
            return element.get("source") == "none" and element.get("target") == "none"
    return False


def _read_data(
    element: Element, scope: Scope, keys: Mapping[str, Element], location: str
) -> JsonObject:
    """Return the attributes of a graph, a node or an edge.

    Args:
        element: The element.
        scope: Which of the three it is.
        keys: The declarations of keys by their ids.
        location: Position of the element in the file, for messages.
    """
    fields: JsonObject = {}
    for key_id, key in keys.items():
        default = next((child for child in key if local(child) == "default"), None)
        if key.get("for", "all") in (scope, "all") and default is not None:
            _set_value(fields, key, key_id, default, location)
    for data in element:
        if local(data) != "data":
            continue
        key_id = data.get("key", "")
        if not key_id:
            raise TopologyError(f"{location}: <data> without a key; give it one")
        if len(data):
            # Elements inside are the drawing of an editor. Only the label of yEd is read.
            label = _label_of_drawing(data)
            if label:
                fields.setdefault("label", label)
        else:
            # A key that is not declared is text: <data> itself has no type.
            _set_value(fields, keys.get(key_id, data), key_id, data, location)
    json_text = fields.pop(_JSON_KEY, None)
    if json_text is None:
        return fields
    with prefix_errors(f"{location}: {_JSON_KEY}"):
        json_fields = parse_json(str(json_text))
    if not isinstance(json_fields, dict):
        raise TopologyError(f"{location}: {_JSON_KEY} must be a JSON object")
    return fields | json_fields


def _label_of_drawing(data: Element) -> str:
    """Return the first label in a drawing of yEd, or an empty text."""
    for element in data.iter():
        if local(element) in ("NodeLabel", "EdgeLabel"):
            return (element.text or "").strip()
    return ""


def _set_value(fields: JsonObject, key: Element, key_id: str, data: Element, location: str) -> None:
    """Set the value of a <data> element under the name of its key.

    A number or a truth value that is empty, as yEd's defaults are, is not set.

    Args:
        fields: The fields in which the value is set.
        key: The declaration of the key.
        key_id: Id of the key, which is the name if the key has none.
        data: The element with the value.
        location: Position of the element in the file, for messages.
    """
    name = key.get("attr.name", key_id)
    kind = key.get("attr.type", "string")
    text = data.text or ""
    if kind != "boolean" and kind not in _NUMBER_TYPES:
        fields[name] = text
    elif text.strip():
        try:
            if kind == "boolean":
                fields[name] = _TRUTH[text.strip().lower()]
            else:
                fields[name] = _NUMBER_TYPES[kind](text.strip())
        except (ValueError, KeyError) as error:
            raise TopologyError(
                f"{location}: {name} {text[:40]!r} is not of its type {kind}"
            ) from error
