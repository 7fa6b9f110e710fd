"""Converts JSON node-link documents to networks and back.

Documents of the testbed, of networkx (``links`` or ``edges``) and of topohub are accepted. Errors
name the entry (``links[3]``); the code that reads a file puts the file's name in front.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from topologies.errors import TopologyError, prefix_errors
from topologies.files.schemas import network_schema
from topologies.impairments import impairment_text, parse_impairments
from topologies.mininet.parameters import BACK, PAIRS, UNITS
from topologies.network import DEFAULT_CAPACITY_BPS, Link, LinkId, Network, Node, is_finite
from topologies.text.json_types import Json, JsonObject

# The keys from which the position of a node is read.
_POSITION_KEYS = (("position",), ("pos",), ("x", "y"), ("Longitude", "Latitude"))
# Attributes that are read as a position. A node that has one of them and no position is written
# with ``"position": null``, so that reading it again finds none either.
POSITION_LIKE = frozenset({"pos", "x", "y", "Longitude", "Latitude"})
# The key of the object of attributes that are not in the schema.
OTHERS = "attributes"
# Larger coordinates are refused, because computing with them could overflow.
_MAX_COORDINATE = 1e100


def network_document(network: Network) -> JsonObject:
    """Return the node-link document of a network, in which each direction of a cable is a link.

    ``parse_document`` returns an equal network. ``key`` is written if any link has a key other than
    0; then ``multigraph`` is true. Attributes must be JSON values: text, numbers, true and false,
    None, lists, and dictionaries with text keys.
    """
    multigraph = any(link.key for link in network.links)
    return {
        "directed": True,
        "multigraph": multigraph,
        "graph": {"name": network.name, **_separated(network.attributes, "graph")},
        "nodes": [_node_entry(node) for node in network.nodes],
        "links": [_link_entry(link, multigraph) for link in network.links],
    }


def _node_entry(node: Node) -> JsonObject:
    entry: JsonObject = {"id": node.id, "kind": node.kind}
    if node.position is not None:
        entry["position"] = list(node.position)
    elif POSITION_LIKE & node.attributes.keys():
        entry["position"] = None
    return {**entry, **_separated(node.attributes, "node")}


def _link_entry(link: Link, multigraph: bool) -> JsonObject:
    entry: JsonObject = {"source": link.source, "target": link.target}
    if multigraph:
        entry["key"] = link.key
    entry |= {"capacity_bps": link.capacity_bps, "delay_s": link.delay_s, **link.impaired_attribute}
    return {**entry, **_separated(link.attributes, "link")}


def _separated(attributes: Json, kind: str) -> JsonObject:
    """Return the attributes, of which all that are not in the schema are in ``attributes``.

    Attributes with the names of Mininet's parameters are in ``attributes`` too, because a network
    of another program may have any value under such a name.

    Args:
        attributes: The attributes of the graph, of a node or of a link.
        kind: "graph", "node" or "link".
    """
    schema_keys = network_schema()["$defs"][kind]["properties"].keys() - {OTHERS, *UNITS, *PAIRS}
    entry: JsonObject = {}
    unknown: JsonObject = {}
    for name, value in attributes.items():
        if name in schema_keys:
            entry[name] = value
        else:
            unknown[name] = value
    if unknown:
        entry[OTHERS] = unknown
    return entry


def _joined(fields: Json, location: str) -> JsonObject:
    """Return the fields of an entry together with those under ``attributes``."""
    others = fields.get(OTHERS, {})
    if not isinstance(others, dict):
        _fail(location, f"{OTHERS} must be an object, not {_type_name(others)}")
    return {name: value for name, value in fields.items() if name != OTHERS} | others


def write_document(network: Network) -> str:
    """Return the document of a network as JSON text with one line for each node or link.

    Raises:
        TopologyError: JSON cannot hold an attribute.
    """
    lines = []
    for name, value in network_document(network).items():
        if isinstance(value, list) and value:
            entries = [f"  {_as_json(entry, f'{name}[{i}]')}" for i, entry in enumerate(value)]
            text = "[\n" + ",\n".join(entries) + "\n ]"
        else:
            text = _as_json(value, name)
        lines.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _as_json(value: object, where: str) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TopologyError(
            f"{where}: JSON cannot hold this attribute ({error}); make it text or a number"
        ) from error


def parse_json(text: str) -> object:
    """Parse a JSON text.

    Raises:
        TopologyError: The text is not JSON; the message has the line and the column. Or an object
            has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_object_of_pairs)
    except json.JSONDecodeError as error:
        raise TopologyError(
            f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except TopologyError:
        raise
    except RecursionError as error:
        raise TopologyError(
            "not JSON that can be read: too many nested lists and objects; use fewer"
        ) from error
    # Python limits the number of digits of an int.
    except ValueError as error:
        raise TopologyError(
            "not JSON that can be read: a number has thousands of digits; shorten it"
        ) from error


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise TopologyError(f"the key {repeated[:60]!r} is there twice in one object; keep one")
    return value


def parse_document(
    document: object,
    name: str = "network",
    one_way: Sequence[bool | None] | None = None,
    folder: Path | None = None,
) -> Network:
    """Return the network of a node-link document.

    Defaults: if ``directed`` is missing or false, each link stands for both directions. ``kind`` is
    "switch", ``capacity_bps`` 10 Mbit/s, ``delay_s`` 0, and ``key`` 0 or, in a multigraph, the next
    number that is free. Ids that are integers become text. Keys that are text are numbered in
    order, and kept as the attribute ``key_name``. Positions are read from ``position``, ``pos``,
    ``x`` and ``y``, or ``Longitude`` and ``Latitude``.

    Args:
        document: The document.
        name: Name of the network if the document has none.
        one_way: For each link, whether it has one direction, for formats that mix both kinds. None
            in the list leaves the link out. By default ``directed`` counts for all links.
        folder: Folder of the trace files that ``impairments`` name.

    Raises:
        TopologyError: The document is invalid. The message names the entry.

    >>> nodes = [{"id": 1}, {"id": 2}]
    >>> net = parse_document({"nodes": nodes, "edges": [{"source": 1, "target": 2}]})
    >>> [link.label for link in net.links]
    ['1->2', '2->1']
    """
    if not isinstance(document, dict):
        raise TopologyError(f"a node-link document is a JSON object, not {_type_name(document)}")
    graph = _joined(graph_attributes(document), "graph")
    directed = _bool_field(document, "directed")
    multigraph = _bool_field(document, "multigraph")
    nodes = tuple(_parse_node(i, entry) for i, entry in enumerate(_entries(document, "nodes")))
    links_key = _links_key(document)
    entries: list[object] = []
    for i, entry in enumerate(_entries(document, links_key)):
        entries.append(_with_traces(f"{links_key}[{i}]", entry, folder))
    reader = _LinkReader(links_key, frozenset(_index_of_each_id(nodes)), multigraph)
    links = reader.read(entries, one_way or [directed] * len(entries))
    own_name = graph.pop("name", None)
    if isinstance(own_name, str) and own_name:
        name = own_name
    return Network(
        # The name of a file may contain bytes that are not text.
        name=name.encode(errors="backslashreplace").decode(),
        nodes=nodes,
        links=links,
        attributes=graph,
    )


def graph_attributes(document: Json) -> JsonObject:
    """Return the attributes under ``graph``, which old versions of networkx wrote as pairs."""
    graph = document.get("graph", {})
    if isinstance(graph, list):
        attributes = {}
        for pair in graph:
            if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str):
                attributes[pair[0]] = pair[1]
        return attributes
    if not isinstance(graph, dict):
        raise TopologyError(f"graph: must be an object of attributes, not {_type_name(graph)}")
    return graph


# The source and the target of each direction of an entry.
_Directions = tuple[tuple[str, str], ...]


@dataclass
class _LinkReader:
    """Reads the entries of links of one document.

    Attributes:
        list_name: Name of the list of entries, for messages.
        node_ids: The ids of the nodes.
        multigraph: Whether entries without a key get the next free one.
        entry_of_link: The index of the entry of each link that has been read.
        free_keys: For each pair of nodes, the key from which to look for the next free one.
    """

    list_name: str
    node_ids: frozenset[str]
    multigraph: bool
    entry_of_link: dict[LinkId, int] = field(default_factory=dict)
    free_keys: dict[_Directions, int] = field(default_factory=dict)

    def read(self, entries: Sequence[object], one_way: Sequence[bool | None]) -> tuple[Link, ...]:
        """Return the links of the entries; ``one_way`` is as for ``parse_document``."""
        links: list[Link] = []
        for i, entry in enumerate(entries):
            links += self._read_entry(i, entry, one_way[i])
        return tuple(links)

    def _read_entry(self, i: int, entry: object, one_way: bool | None) -> list[Link]:
        location = f"{self.list_name}[{i}]"
        if not isinstance(entry, dict):
            _fail(location, f"must be an object with source and target, not {_type_name(entry)}")
        fields = _joined(entry, location)
        source = _identifier(location, "source", fields.pop("source", None))
        target = _identifier(location, "target", fields.pop("target", None))
        for end in (source, target):
            if end not in self.node_ids:
                _fail(
                    location,
                    f"link {source!r} -> {target!r} names the unknown node {end!r};"
                    " add the node or correct the link",
                )
        if one_way is None:
            return []
        directions: _Directions = ((source, target),)
        if not one_way:
            directions = ((source, target), (target, source))
        key = self._key(location, fields, directions)
        fields_back = fields.pop(BACK, fields)
        if "key_name" in fields:
            fields_back["key_name"] = fields["key_name"]
        links = []
        for ends, own_fields in zip(directions, (fields, fields_back), strict=False):
            with prefix_errors(location):
                link = _link(*ends, key, own_fields)
            if link.id in self.entry_of_link:
                _fail(
                    location,
                    f"link {link.label} is there already as"
                    f" {self.list_name}[{self.entry_of_link[link.id]}];"
                    " remove one or give each a 'key'",
                )
            links.append(link)
        for link in links:
            self.entry_of_link[link.id] = i
        return links

    def _key(self, location: str, fields: JsonObject, directions: _Directions) -> int:
        """Take the key out of the fields of a link, or return the next free one."""
        key = fields.pop("key", None)
        if isinstance(key, int) and not isinstance(key, bool):
            return key
        if isinstance(key, str):
            fields["key_name"] = key
        elif key is not None:
            _fail(location, f"key {key!r} must be a whole number or text")
        elif not self.multigraph:
            return 0
        number = self.free_keys.get(directions, 0)
        while any((*ends, number) in self.entry_of_link for ends in directions):
            number += 1
        # Without this, many parallel links would take quadratic time.
        if self.multigraph:
            self.free_keys[directions] = number
        return number


def _link(source: str, target: str, key: int, fields: JsonObject) -> Link:
    attributes = dict(fields)
    return Link(
        source=source,
        target=target,
        key=key,
        capacity_bps=attributes.pop("capacity_bps", DEFAULT_CAPACITY_BPS),
        delay_s=attributes.pop("delay_s", 0.0),
        impairments=attributes.pop("impairments", ""),
        attributes=attributes,
    )


def _with_traces(location: str, entry: object, folder: Path | None) -> object:
    """Return the entry of a link with the content of its trace files in place of their names."""
    if not isinstance(entry, dict):
        return entry
    if BACK in entry:
        entry = entry | {BACK: _with_traces(location, entry[BACK], folder)}
    impairments = entry.get("impairments")
    if not isinstance(impairments, str):
        return entry
    with prefix_errors(location):
        return entry | {"impairments": impairment_text(parse_impairments(impairments, folder))}


def _parse_node(i: int, entry: object) -> Node:
    location = f"nodes[{i}]"
    if not isinstance(entry, dict):
        _fail(location, f"must be an object with an id, not {_type_name(entry)}")
    fields = _joined(entry, location)
    node_id = _identifier(location, "id", fields.pop("id", None))
    kind = fields.pop("kind", "switch")
    position = _take_position(location, fields)
    with prefix_errors(location):
        return Node(id=node_id, kind=kind, position=position, attributes=fields)


def _take_position(location: str, fields: JsonObject) -> tuple[float, float] | None:
    """Take the position out of the fields of a node.

    Only ``position`` must be valid. The fields of other programs stay attributes if they do not
    have the form of a position.
    """
    for keys in _POSITION_KEYS:
        if not all(key in fields for key in keys):
            continue
        value = [fields[key] for key in keys]
        if len(keys) == 1:
            value = fields[keys[0]]
        if _is_position(value):
            for key in keys:
                del fields[key]
            return (float(value[0]), float(value[1]))
        if keys == ("position",):
            if value is None:
                del fields["position"]
                return None
            _fail(location, f"position {value!r} must be two numbers [x, y], below 1e100")
    return None


def _is_position(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(is_finite(number) and abs(number) < _MAX_COORDINATE for number in value)


def _identifier(location: str, key: str, value: object) -> str:
    """Return the id of a node as text.

    Args:
        location: The entry, for messages.
        key: The key of the value, for messages.
        value: The value of the key; None if it is missing.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None:
        _fail(location, f"{key} is missing")
    if not isinstance(value, str) or not value:
        _fail(location, f"{key} {value!r} must be text or a whole number")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise TopologyError(f"{location}: {key} {value!r} is not valid text; rename it") from error
    return value


def _index_of_each_id(nodes: tuple[Node, ...]) -> Mapping[str, int]:
    """Return the index of each node by its id, and refuse ids that two nodes have."""
    indices: dict[str, int] = {}
    for i, node in enumerate(nodes):
        if node.id in indices:
            _fail(
                f"nodes[{i}]",
                f"the id {node.id!r} is that of nodes[{indices[node.id]}] too; rename one",
            )
        indices[node.id] = i
    return indices


def _links_key(document: Json) -> str:
    """Return the key of the list of links: ``links`` or ``edges``."""
    if "links" in document and "edges" in document:
        raise TopologyError("both 'links' and 'edges' are there; keep one")
    for key in ("links", "edges"):
        if key in document:
            return key
    raise TopologyError("'links' is missing; add the list of links")


def _entries(document: Json, key: str) -> list[object]:
    value = document.get(key)
    if value is None:
        raise TopologyError(f"'{key}' is missing; add the list")
    if not isinstance(value, list):
        raise TopologyError(f"'{key}' must be a list, not {_type_name(value)}")
    return value


def _bool_field(document: Json, key: str) -> bool:
    value = document.get(key, False)
    if not isinstance(value, bool):
        raise TopologyError(f"'{key}' must be true or false, not {value!r}")
    return value


def _type_name(value: object) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def _fail(location: str, problem: str) -> NoReturn:
    raise TopologyError(f"{location}: {problem}")
