"""JSON node-link documents to networks and back: our own, networkx's (``links`` or ``edges``) and topohub's.

Errors name the entry (``links[3]``); who reads a file puts its name in front.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from topologies.errors import TopologyError, located
from topologies.files.schemas import network_schema
from topologies.impairments import impairment_text, parse_impairments
from topologies.mininet.parameters import BACK, PAIRS, UNITS
from topologies.network import DEFAULT_CAPACITY_BPS, Link, Network, Node, is_finite
from topologies.text.json_types import Json, JsonObject

_POSITION_KEYS = (("position",), ("pos",), ("x", "y"), ("Longitude", "Latitude"))
POSITION_LIKE = frozenset({"pos", "x", "y", "Longitude", "Latitude"})
"""Attributes that reading takes for a position; where one is none, the written ``position`` says so."""
OTHERS = "attributes"
"""The key of an object of attributes that the schema does not know."""


def network_document(network: Network) -> JsonObject:
    """The node-link document of a network, every direction listed; ``parse_document`` gives the network back exactly.

    ``key`` is written where any link has one other than 0 (then ``multigraph`` is true). Attributes must be JSON
    values (text, numbers, truth values, None, lists, dictionaries with text keys).
    """
    multigraph = any(link.key for link in network.links)
    return {
        "directed": True,
        "multigraph": multigraph,
        "graph": {"name": network.name, **_sorted_out(network.attributes, "graph")},
        "nodes": [_node_entry(node) for node in network.nodes],
        "links": [_link_entry(link, multigraph) for link in network.links],
    }


def _node_entry(node: Node) -> JsonObject:
    entry: JsonObject = {"id": node.id, "kind": node.kind}
    if node.position is not None or POSITION_LIKE & node.attributes.keys():
        entry["position"] = None if node.position is None else list(node.position)
    return {**entry, **_sorted_out(node.attributes, "node")}


def _link_entry(link: Link, multigraph: bool) -> JsonObject:
    entry: JsonObject = {"source": link.source, "target": link.target}
    if multigraph:
        entry["key"] = link.key
    entry |= {"capacity_bps": link.capacity_bps, "delay_s": link.delay_s, **link.impaired_attribute}
    return {**entry, **_sorted_out(link.attributes, "link")}


def _sorted_out(attributes: Json, kind: str) -> JsonObject:
    """Attributes that the schema knows as they are; all others together under ``attributes``, and so Mininet's, which
    from another program may be anything."""
    known = network_schema()["$defs"][kind]["properties"].keys() - {OTHERS, *UNITS, *PAIRS}
    others = {name: value for name, value in attributes.items() if name not in known}
    return {name: value for name, value in attributes.items() if name in known} | (
        {OTHERS: others} if others else {}
    )


def _unpacked(fields: Json, place: str) -> JsonObject:
    """The fields with those under ``attributes`` among them."""
    others = fields.get(OTHERS, {})
    if not isinstance(others, dict):
        _wrong(place, f"{OTHERS} must be an object, not {_kind_of(others)}")
    return {name: value for name, value in fields.items() if name != OTHERS} | others


def write_document(network: Network) -> str:
    """The document as JSON text, one node or link a line. TopologyError for an attribute that JSON cannot hold."""
    document = network_document(network)
    lines = []
    for name, value in document.items():
        if isinstance(value, list):
            entries = ",\n".join(
                "  " + _as_json(entry, f"{name}[{i}]") for i, entry in enumerate(value)
            )
            lines.append(f' "{name}": [\n{entries}\n ]' if value else f' "{name}": []')
        else:
            lines.append(f' "{name}": {_as_json(value, name)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _as_json(value: object, where: str) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TopologyError(
            f"{where}: JSON cannot hold this attribute ({error}); make it text or a number"
        ) from error


def parse_json(text: str) -> object:
    """The value of a JSON text; TopologyError says at which line and column it is none, or which key is there twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise TopologyError(
            f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except TopologyError:
        raise
    except RecursionError as error:
        raise TopologyError(
            "not JSON that can be read: too many lists and objects in each other; use fewer"
        ) from error
    except ValueError as error:  # the interpreter's limit of a whole number's digits
        raise TopologyError(
            "not JSON that can be read: a number has thousands of digits; shorten it"
        ) from error


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise TopologyError(f"the key {twice[:60]!r} is there twice in one object; keep one")
    return found


def parse_document(
    document: object,
    name: str = "network",
    one_way: Sequence[bool | None] | None = None,
    folder: Path | None = None,
) -> Network:
    """The network of a node-link document.

    ``directed`` missing or false: each link stands for both directions. Missing: ``kind`` is "switch",
    ``capacity_bps`` 10 Mbit/s, ``delay_s`` 0, ``key`` 0 (in a multigraph the next free one). Ids that are whole numbers
    become text; keys that are text are numbered in order and kept as the attribute ``key_name``. Positions are read
    from ``position``, ``pos``, ``x`` and ``y``, or ``Longitude`` and ``Latitude``. ``one_way`` says link by link what
    ``directed`` says for all (GraphML mixes them); None: the link is left out. Traces that ``impairments`` name are
    looked for in ``folder``. Raises TopologyError, naming the entry.

    >>> net = parse_document({"nodes": [{"id": 1}, {"id": 2}], "edges": [{"source": 1, "target": 2}]})
    >>> [link.label for link in net.links]
    ['1->2', '2->1']
    """
    if not isinstance(document, dict):
        raise TopologyError(f"a node-link document is a JSON object, not {_kind_of(document)}")
    graph = _unpacked(graph_attributes(document), "graph")
    directed = _truth(document, "directed")
    multigraph = _truth(document, "multigraph")
    nodes = tuple(_parse_node(i, entry) for i, entry in enumerate(_entries(document, "nodes")))
    kind = _links_key(document)
    entries = _entries(document, kind)
    entries = [_with_traces(f"{kind}[{i}]", entry, folder) for i, entry in enumerate(entries)]
    links = _parse_links(kind, entries, nodes, one_way or [directed] * len(entries), multigraph)
    own_name = graph.get("name")
    text = (
        own_name if isinstance(own_name, str) and own_name else name
    )  # that of a file may be no text
    return Network(
        name=text.encode(errors="backslashreplace").decode(),
        nodes=nodes,
        links=links,
        attributes={k: v for k, v in graph.items() if k != "name"},
    )


def graph_attributes(document: Json) -> JsonObject:
    """The attributes under ``graph``, which networkx once wrote as pairs."""
    graph = document.get("graph", {})
    if isinstance(graph, list):
        graph = dict(
            p for p in graph if isinstance(p, list) and len(p) == 2 and isinstance(p[0], str)
        )
    if not isinstance(graph, dict):
        raise TopologyError(f"graph: must be an object of attributes, not {_kind_of(graph)}")
    return graph


def _parse_links(
    where: str,
    entries: Sequence[object],
    nodes: tuple[Node, ...],
    one_way: Sequence[bool | None],
    multigraph: bool,
) -> tuple[Link, ...]:
    """Links of link entries; ``where`` names their list in errors."""
    known = _each_once(nodes)
    links: list[Link] = []
    taken: dict[tuple[str, str, int], int] = {}
    free: dict[tuple[tuple[str, ...], ...], int] = {}
    for i, entry in enumerate(entries):
        place = f"{where}[{i}]"
        if not isinstance(entry, dict):
            _wrong(place, f"must be an object with source and target, not {_kind_of(entry)}")
        fields = _unpacked(entry, place)
        ends = tuple(_identifier(place, end, fields.pop(end, None)) for end in ("source", "target"))
        for end in ends:
            if end not in known:
                _wrong(
                    place,
                    f"link {ends[0]!r} -> {ends[1]!r} names the unknown node {end!r}; add the node or correct the link",
                )
        if one_way[i] is None:
            continue
        both = (ends,) if one_way[i] else (ends, ends[::-1])
        key = _key(place, fields, both, taken, free if multigraph else None)
        back = fields.pop(BACK, fields)
        if "key_name" in fields:
            back["key_name"] = fields["key_name"]
        for (source, target), own in zip(both, (fields, back), strict=False):
            with located(place):
                link = _link(source, target, key, own)
            if link.id in taken:
                _wrong(
                    place,
                    f"link {link.label} is there already as {where}[{taken[link.id]}]; remove one or give each a 'key'",
                )
            links.append(link)
        taken.update(dict.fromkeys(((s, t, key) for s, t in both), i))
    return tuple(links)


def _link(source: str, target: str, key: int, fields: JsonObject) -> Link:
    others = dict(fields)
    return Link(
        source=source,
        target=target,
        key=key,
        capacity_bps=others.pop("capacity_bps", DEFAULT_CAPACITY_BPS),
        delay_s=others.pop("delay_s", 0.0),
        impairments=others.pop("impairments", ""),
        attributes=others,
    )


def _with_traces(place: str, entry: object, folder: Path | None) -> object:
    """The entry of a link with what the files of its traces say in place of their names."""
    if isinstance(entry, dict) and BACK in entry:
        entry = entry | {BACK: _with_traces(place, entry[BACK], folder)}
    words = entry.get("impairments") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(words, str):
        return entry
    with located(place):
        return entry | {"impairments": impairment_text(parse_impairments(words, folder))}


def _key(
    place: str,
    fields: JsonObject,
    both: tuple[tuple[str, ...], ...],
    taken: Mapping[tuple[str, str, int], int],
    free: dict[tuple[tuple[str, ...], ...], int] | None,
) -> int:
    """The link's key; ``free``: from where to look for the next one of each pair of nodes, None where links have no
    keys."""
    key = fields.pop("key", None)
    if isinstance(key, int) and not isinstance(key, bool):
        return key
    if isinstance(key, str):
        fields["key_name"] = key
    elif key is not None:
        _wrong(place, f"key {key!r} must be a whole number or text")
    if key is None and free is None:
        return 0
    found = (free or {}).get(both, 0)
    while any((source, target, found) in taken for source, target in both):
        found += 1
    if free is not None:
        free[both] = found
    return found


def _parse_node(i: int, entry: object) -> Node:
    place = f"nodes[{i}]"
    if not isinstance(entry, dict):
        _wrong(place, f"must be an object with an id, not {_kind_of(entry)}")
    fields = _unpacked(entry, place)
    node_id = _identifier(place, "id", fields.pop("id", None))
    kind = fields.pop("kind", "switch")
    position = _position(place, fields)
    with located(place):
        return Node(id=node_id, kind=kind, position=position, attributes=fields)


def _position(place: str, fields: JsonObject) -> tuple[float, float] | None:
    """Takes the position out of the fields; only our own ``position`` is checked, foreign ones are left where they do
    not fit."""
    for keys in _POSITION_KEYS:
        if not all(k in fields for k in keys):
            continue
        value = fields[keys[0]] if len(keys) == 1 else [fields[k] for k in keys]
        fits = (
            isinstance(value, list)
            and len(value) == 2
            and all(is_finite(one) and abs(one) < 1e100 for one in value)
        )
        if fits:
            for k in keys:
                del fields[k]
            return (float(value[0]), float(value[1]))
        if keys == ("position",):
            if value is None:
                del fields["position"]
                return None
            _wrong(place, f"position {value!r} must be two numbers [x, y], below 1e100")
    return None


def _identifier(place: str, what: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        _wrong(
            place,
            f"{what} is missing"
            if value is None
            else f"{what} {value!r} must be text or a whole number",
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise TopologyError(f"{place}: {what} {value!r} is not valid text; rename it") from error
    return value


def _each_once(nodes: tuple[Node, ...]) -> dict[str, int]:
    first: dict[str, int] = {}
    for i, node in enumerate(nodes):
        if node.id in first:
            _wrong(
                f"nodes[{i}]",
                f"the id {node.id!r} is that of nodes[{first[node.id]}] too; rename one",
            )
        first[node.id] = i
    return first


def _links_key(document: Json) -> str:
    there = [k for k in ("links", "edges") if k in document]
    if len(there) != 1:
        raise TopologyError(
            "both 'links' and 'edges' are there; keep one"
            if there
            else "'links' is missing; add the list of links"
        )
    return there[0]


def _entries(document: Json, key: str) -> list[object]:
    value = document.get(key)
    if not isinstance(value, list):
        raise TopologyError(
            f"'{key}' is missing; add the list"
            if value is None
            else f"'{key}' must be a list, not {_kind_of(value)}"
        )
    return value


def _truth(document: Json, key: str) -> bool:
    value = document.get(key, False)
    if not isinstance(value, bool):
        raise TopologyError(f"'{key}' must be true or false, not {value!r}")
    return value


def _kind_of(value: object) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def _wrong(place: str, what: str) -> NoReturn:
    raise TopologyError(f"{place}: {what}")
