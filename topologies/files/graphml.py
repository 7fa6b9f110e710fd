"""GraphML to networks, checked entry by entry; numbers, truth values and text keep their types.

What GraphML has no type for (lists, objects, null) travels, in files that the testbed wrote until 0.2, as JSON text in
the one key ``json_attributes``.
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from topologies.errors import TopologyError, located
from topologies.files.foreign import adapted, rename_kinds, some, without_loops
from topologies.files.node_link import parse_document, parse_json
from topologies.files.xml_tree import local
from topologies.network import Network
from topologies.text.json_types import JsonObject

_JSON_KEY = "json_attributes"
_TRUTH = {"true": True, "1": True, "false": False, "0": False}

Scope = Literal["graph", "node", "edge"]


def read_graphml(
    root: ElementTree.Element, name: str, folder: Path | None, notes: list[str]
) -> Network:
    """The network of a <graphml> element; ``name`` is its name where the graph gives none, ``notes`` takes what is told
    of it.

    As for JSON: nodes without ``kind`` are switches, an undirected edge stands for both directions (an edge's own
    ``directed`` wins over ``edgedefault``), parallel edges without a whole-number ``key`` are numbered in order; edges
    from a node to itself are left out. Graphs within nodes (groups of yEd) are read as if they stood outside; a group
    without edges of its own is left out. Raises TopologyError, naming node or edge, for what is no GraphML and for
    hyperedges, and as ``adapted`` does. ``folder``: where the traces of links' impairments lie.
    """
    graphs = [child for child in root if local(child) == "graph"]
    if len(graphs) != 1:
        raise TopologyError(f"{len(graphs)} graphs; leave exactly one")
    space = str(graphs[0].tag).removesuffix("graph")
    if next(graphs[0].iter(f"{space}hyperedge"), None) is not None:
        raise TopologyError(
            "a hyperedge (a link of more than two ends) has no meaning here; write one edge a pair"
        )
    keys = {e.get("id", ""): e for e in root.iter() if local(e) == "key"}
    default = graphs[0].get("edgedefault", "undirected")
    edges: list[ElementTree.Element] = []
    defaults: list[bool] = []
    for graph in graphs[0].iter(graphs[0].tag):
        edges += [child for child in graph if local(child) == "edge"]
        defaults += [_edge_default(graph, default)] * (len(edges) - len(defaults))
    linked = {e.get(end) for e in edges for end in ("source", "target")}
    nodes, groups = [], []
    for i, e in enumerate(graphs[0].iter(f"{space}node")):
        if _is_group(e) and e.get("id") not in linked:
            groups.append(e.get("id"))
        else:
            nodes.append({**_read_data(e, "node", keys, f"nodes[{i}]"), "id": e.get("id")})
    if groups:
        notes.append(f"left out: groups of nodes, without links of their own: {some(groups)}")
    ends = [{"source": e.get("source"), "target": e.get("target")} for e in edges]
    links = [_read_data(e, "edge", keys, f"edges[{i}]") | ends[i] for i, e in enumerate(edges)]
    rename_kinds(nodes)
    document = {
        "directed": default == "directed",
        "multigraph": True,
        "graph": _read_data(graphs[0], "graph", keys, "graph"),
        "nodes": nodes,
        "edges": links,
    }
    one_way = without_loops(links, _one_way(edges, defaults, notes), notes)
    return parse_document(adapted(document, notes), name, one_way, folder)


def _edge_default(graph: ElementTree.Element, outer: str) -> bool:
    """Whether the edges of a graph go one way where they do not say."""
    default = graph.get("edgedefault", outer)
    if default not in ("directed", "undirected"):
        raise TopologyError(f"edgedefault {default!r} is neither 'directed' nor 'undirected'")
    return default == "directed"


def _is_group(node: ElementTree.Element) -> bool:
    return "yfiles.foldertype" in node.attrib or any(local(child) == "graph" for child in node)


def _one_way(
    edges: list[ElementTree.Element], defaults: list[bool], notes: list[str]
) -> list[bool]:
    """Of each edge whether it goes one way. yEd calls every edge directed: one that it draws without arrows goes both
    ways, unless the edge back is there too."""
    pairs = {(e.get("source"), e.get("target")) for e in edges}
    found, plain = [], 0
    for i, (edge, default) in enumerate(zip(edges, defaults, strict=True)):
        directed = edge.get("directed", str(default).lower())
        if directed not in ("true", "false"):
            raise TopologyError(f"edges[{i}]: directed {directed!r} is neither 'true' nor 'false'")
        arrows = next((e for e in edge.iter() if local(e) == "Arrows"), None)
        alone = (
            "directed" not in edge.attrib and (edge.get("target"), edge.get("source")) not in pairs
        )
        both = (
            alone and arrows is not None and arrows.get("source") == arrows.get("target") == "none"
        )
        plain += default and both
        found.append(directed == "true" and not both)
    if plain:
        notes.append(f"both ways: {plain} link{'s' if plain > 1 else ''} drawn without arrows")
    return found


def _read_data(
    element: ElementTree.Element, scope: Scope, keys: Mapping[str, ElementTree.Element], place: str
) -> JsonObject:
    found: JsonObject = {}
    for number, key in keys.items():
        default = next((child for child in key if local(child) == "default"), None)
        if key.get("for", "all") in (scope, "all") and default is not None:
            _set_value(found, key, number, default, place)
    for data in element:
        if local(data) != "data":
            continue
        number = data.get("key", "")
        if not number:
            raise TopologyError(f"{place}: <data> without a key; give it one")
        if len(data):  # an editor's drawing; of it the label is read (yEd)
            label = next(
                (e.text for e in data.iter() if local(e) in ("NodeLabel", "EdgeLabel")), None
            )
            if label and label.strip():
                found.setdefault("label", label.strip())
            continue
        _set_value(
            found, keys.get(number, data), number, data, place
        )  # a key that is not declared is text
    packed = found.pop(_JSON_KEY, None)
    if packed is None:
        return found
    with located(f"{place}: {_JSON_KEY}"):
        rest = parse_json(str(packed))
    if not isinstance(rest, dict):
        raise TopologyError(f"{place}: {_JSON_KEY} must be a JSON object")
    return found | rest


def _set_value(
    found: JsonObject, key: ElementTree.Element, number: str, data: ElementTree.Element, place: str
) -> None:
    """The value under its key's name; an empty number or truth value (yEd's defaults) is none."""
    name, kind, text = key.get("attr.name", number), key.get("attr.type", "string"), data.text or ""
    numbers = {
        "float": float,
        "double": float,
        "real": float,
        "int": int,
        "long": int,
        "integer": int,
    }
    if kind != "boolean" and kind not in numbers:
        found[name] = text
    elif text.strip():
        try:
            found[name] = (
                _TRUTH[text.strip().lower()] if kind == "boolean" else numbers[kind](text.strip())
            )
        except (ValueError, KeyError) as error:
            raise TopologyError(
                f"{place}: {name} {text[:40]!r} is not of its type {kind}"
            ) from error
