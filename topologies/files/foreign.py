"""Converts node-link documents of other programs to the form that ``parse_document`` reads.

Such documents come from networkx, D3, Gephi and the Topology Zoo. The readers of other formats in
this package (GraphML, DOT and others) return such documents too, so the same rules apply to all
formats. An unknown key is refused if it is nearly a key of the testbed, or a key of the testbed
without its unit (``capacity``). Any other unknown key becomes an attribute, and is noted.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topologies.errors import TopologyError
from topologies.files.foreign_fields import (
    read_fields,
    read_positions,
    truth_value,
    tuple_of_text,
)
from topologies.files.node_link import graph_attributes
from topologies.files.schemas import network_schema
from topologies.host_paths import note_paths
from topologies.mininet.parameters import (
    BACK,
    UNITS,
    hand_over_addresses,
    read_parameters,
    split_delay,
    split_ends,
)
from topologies.network import MAX_CAPACITY_BPS, MIN_CAPACITY_BPS, Network, is_finite
from topologies.text.json_types import JsonObject
from topologies.text.units import is_bare, rate_bps, seconds

# The keys that the testbed reads, by the part of the document ("": the top level). An unknown key
# that is similar to one of them is refused as a spelling mistake.
OURS = {
    "": ("directed", "multigraph", "graph", "nodes", "links", "edges"),
    "graph": ("routing", "routing_table", "wavelengths", "conversion", "attributes"),
    "node": ("kind", "position", "conversion", "attributes"),
    "link": (
        "source",
        "target",
        "capacity_bps",
        "delay_s",
        "impairments",
        "wavelengths",
        "attributes",
    ),
}
# The units of the quantities of links, for messages.
_UNITS = {"capacity_bps": "bits a second", "delay_s": "seconds"}


@dataclass(frozen=True)
class _Quantity:
    """A quantity of links that may be text with a unit.

    Attributes:
        bare_name: The name without a unit, under which the value must be text with a unit.
        name: The name of the field of ``Link``.
        synonym: Another program's name, which is read if the value is text with a unit.
        names_before: If a link has one of these names, the synonym is not read.
        read: Parses text with a unit.
        example: A valid text.
    """

    bare_name: str
    name: str
    synonym: str
    names_before: frozenset[str]
    read: Callable[[str], float]
    example: str


_QUANTITIES = (
    _Quantity(
        bare_name="capacity",
        name="capacity_bps",
        synonym="bandwidth",
        names_before=frozenset({"capacity_bps", "capacity", "bw"}),
        read=rate_bps,
        example="10Mbps",
    ),
    _Quantity(
        bare_name="delay",
        name="delay_s",
        synonym="latency",
        names_before=frozenset({"delay_s", "delay"}),
        read=seconds,
        example="5ms",
    ),
)
# The capacity of a link in the Topology Zoo, in bits per second.
_RAW_CAPACITY = "LinkSpeedRaw"
# The programs whose JSON files are recognised by a key, if nodes or links are missing.
_PROGRAMS = {
    "adjacency": "networkx' adjacency lists",
    "elements": "Cytoscape files",
    "topology": "GNS3 projects",
}
# Maximum number of characters of a name or value in a message.
_MAX_CHARACTERS = 60
# The names of the parts of a document in notes.
_PARTS = {"graph": "graph", "node": "nodes", "link": "links"}
# Mininet's names of the default route of a host.
DEFAULT_ROUTES = ("default_route", "defaultRoute")
Fields = JsonObject
# A set whose elements are in the order in which they were added.
OrderedSet = dict[str, None]


def _no_attributes() -> dict[str, OrderedSet]:
    return {"graph": {}, "node": {}, "link": {}}


@dataclass
class _Findings:
    """Findings of the conversion of a document, from which the notes are made.

    Attributes:
        kept: Names of attributes that are kept without being read, for the graph, nodes and links.
        left_out: Names of attributes with values that are no finite numbers, which are removed.
        mininet_parameters: Names of Mininet's parameters that were read.
        changes: Notes about values that were changed.
    """

    kept: dict[str, OrderedSet] = field(default_factory=_no_attributes)
    left_out: OrderedSet = field(default_factory=dict)
    mininet_parameters: OrderedSet = field(default_factory=dict)
    changes: OrderedSet = field(default_factory=dict)

    def note(self, notes: list[str], *, units: bool) -> None:
        """Append the notes; ``units`` says whether the units of Mininet's parameters are noted."""
        notes += self.changes
        lists = []
        for scope, names in self.kept.items():
            if names:
                part = _PARTS[scope]
                lists.append(f"{', '.join(map(_printable, names))} ({part})")
        if lists:
            notes.append(f"kept, but not read: {'; '.join(lists)}")
        if self.mininet_parameters and units:
            read = ", ".join(f"{name} ({UNITS[name]})" for name in self.mininet_parameters)
            notes.append(f"read as Mininet's: {read}")
        if self.left_out:
            names_left_out = ", ".join(map(_printable, self.left_out))
            notes.append(f"left out: values that are no finite numbers, of {names_left_out}")


class NetworkNote(UserWarning):
    """Warns of parts of a network file that are kept without being read, left out or changed."""


def adapted(
    document: object, notes: list[str], *, note_units: bool = True, strict: bool = False
) -> object:
    """Return the document in the form that ``parse_document`` reads.

    Capacities and delays with units, ``LinkSpeedRaw`` and Mininet's parameters become fields of the
    testbed. Ids that are lists, tuples or floats become text. Nodes that have no id are named by
    ``name``. Links may name nodes by their position in the list (networkx 1, D3). Addresses are
    read as ``foreign_fields`` says.

    Args:
        document: A node-link document; anything but an object is returned unchanged.
        notes: The list to which one line is appended for each kind of change.
        note_units: Whether to note that Mininet's parameters are read in Mininet's units.
        strict: Whether invalid positions and addresses stay where they are, so that ``Node``
            refuses them.

    Raises:
        TopologyError: A key is refused. The message has its position and how to correct it.

    >>> notes = []
    >>> link = {"source": "a", "target": "b", "capacity": "10Mbps", "weight": 3}
    >>> adapted({"nodes": [{"id": "a"}, {"id": "b"}], "links": [link]}, notes)["links"]
    [{'source': 'a', 'target': 'b', 'weight': 3, 'capacity_bps': 10000000.0}]
    >>> notes
    ['kept, but not read: weight (links)']
    """
    if not isinstance(document, dict):
        return document
    refuse_programs(document)
    findings = _Findings()
    top_level_keys = network_schema()["properties"]
    result = {key: value for key, value in document.items() if key in top_level_keys}
    unknown = {key: value for key, value in document.items() if key not in top_level_keys}
    # The key $schema names the schema, for editors.
    unknown.pop("$schema", None)
    _refuse_misspelt(unknown, "", "")
    # Unknown keys at the top level are attributes of the graph.
    graph = {**unknown, **graph_attributes(document)}
    result["graph"] = _adapted_entry(graph, "graph", "graph", findings)
    nodes = result.get("nodes")
    if isinstance(nodes, list):
        nodes = [dict(node) if isinstance(node, dict) else node for node in nodes]
        result["nodes"] = nodes
        _read_kinds(_objects(nodes))
        if not strict:
            for node in _objects(nodes):
                read_positions(node)
    for name, scope in (("nodes", "node"), ("links", "link"), ("edges", "link")):
        entries = result.get(name)
        if isinstance(entries, list):
            result[name] = _adapted_entries(entries, scope, name, findings)
    if isinstance(nodes, list):
        _adapt_ids_and_addresses(result, notes, strict=strict)
        for key in DEFAULT_ROUTES:
            findings.kept["node"].pop(key, None)
    findings.note(notes, units=note_units)
    return result


def _objects(entries: Iterable[Any]) -> list[Fields]:
    """Return the entries that are JSON objects; ``parse_document`` refuses the others."""
    return [entry for entry in entries if isinstance(entry, dict)]


def refuse_programs(document: Mapping[object, object]) -> None:
    """Refuse the JSON files of some other programs.

    Raises:
        TopologyError: The file is of a program whose files are not read.
    """
    if "nodes" in document and {"links", "edges"} & document.keys():
        return
    for key, files in _PROGRAMS.items():
        if key in document:
            raise TopologyError(
                f"{files} are not read; write the network as JSON node-link or GraphML"
            )


def _read_kinds(nodes: list[Fields]) -> None:
    """Set the kind of nodes that have ``isSwitch`` (Mininet's Topo) or ``type`` (YATES).

    If any node has ``isSwitch``, nodes without it are hosts.
    """
    is_from_topo = any("isSwitch" in node for node in nodes)
    for node in nodes:
        if is_from_topo:
            kind = "switch" if truth_value(node.pop("isSwitch", False)) else "host"
            node.setdefault("kind", kind)
        elif node.get("type") in ("host", "switch"):
            node.setdefault("kind", node["type"])


def _adapt_ids_and_addresses(document: Fields, notes: list[str], *, strict: bool) -> None:
    """Convert ids to text, move addresses from links to hosts and, unless strict, validate them."""
    nodes = document["nodes"]
    links: list[Any] = []
    for name in ("links", "edges"):
        if isinstance(document.get(name), list):
            links = document[name]
            break
    _normalise_ids(nodes, links, notes)
    hand_over_addresses(nodes, links)
    if not strict:
        read_fields(_objects(nodes), notes)


def note_host_paths(network: Network, notes: list[str]) -> None:
    """Note which hosts cannot reach each other, and which default routes are not set."""
    routed = [node.id for node in network.hosts if any(map(node.attributes.get, DEFAULT_ROUTES))]
    note_paths(network, routed, notes)


def rename_kinds(nodes: Iterable[Fields]) -> None:
    """Rename ``kind`` to ``type_name`` in nodes whose kind is not one of the testbed."""
    for node in nodes:
        if "kind" in node and node["kind"] not in ("host", "switch"):
            node["type_name"] = node.pop("kind")


def without_loops(links: list[Fields], one_way: list[bool], notes: list[str]) -> list[bool | None]:
    """Leave out the links from a node to itself, and note them.

    Args:
        links: The entries of the links.
        one_way: Whether each link has one direction.
        notes: The list to which the note is appended.

    Returns:
        ``one_way`` with None for each link from a node to itself.
    """
    result: list[bool | None] = []
    loops = []
    for link, is_one_way in zip(links, one_way, strict=True):
        if link.get("source") == link.get("target"):
            loops.append(link.get("source"))
            result.append(None)
        else:
            result.append(is_one_way)
    if loops:
        noun = "link" if len(loops) == 1 else "links"
        names = some(dict.fromkeys(loops))
        notes.append(f"left out: {len(loops)} {noun} from a node to itself, at {names}")
    return result


def some(names: Iterable[object], limit: int = 6) -> str:
    """Return the first names in quotes, at most ``limit``, and the number of the others."""
    quoted = [repr(name)[:_MAX_CHARACTERS] for name in names]
    listing = ", ".join(quoted[:limit])
    if len(quoted) > limit:
        listing += f" and {len(quoted) - limit} more"
    return listing


def _refuse_misspelt(names: Iterable[str], scope: str, location: str) -> None:
    """Refuse unknown keys that are similar to a key of the testbed.

    Args:
        names: Keys that the schema does not have.
        scope: The part of the document, a key of OURS.
        location: Position of the entry, for messages.
    """
    for name in names:
        similar = next((key for key in OURS[scope] if is_near(name.casefold(), key)), None)
        if similar is not None:
            unit = f" It is in {_UNITS[similar]}" if similar in _UNITS else ""
            start = f"{location}: " if location else ""
            raise TopologyError(
                f"{start}unknown key {name[:_MAX_CHARACTERS]!r}; did you mean {similar!r}?{unit}"
            )


def _adapted_entries(entries: list[Any], scope: str, name: str, findings: _Findings) -> list[Any]:
    """Return the adapted entries of a list; entries that are no objects are unchanged."""
    result = []
    for i, entry in enumerate(entries):
        if isinstance(entry, dict):
            result.append(_adapted_entry(entry, scope, f"{name}[{i}]", findings))
        else:
            result.append(entry)
    return result


def _adapted_entry(entry: Fields, scope: str, location: str, findings: _Findings) -> Fields:
    """Return the graph's attributes, a node or a link with its quantities as numbers.

    Values that JSON cannot hold are left out.

    Args:
        entry: The entry.
        scope: "graph", "node" or "link".
        location: Position of the entry, for messages.
        findings: Takes the names of what is not read.
    """
    fields = {key: value for key, value in entry.items() if key != BACK}
    read_keys = {BACK, "ips", "macs"}
    if scope == "link":
        fields = _adapted_link(fields, location, findings)
        if _use_raw_capacity(fields):
            read_keys.add(_RAW_CAPACITY)
    # The values of these keys are left to the checks of networks, which refuse them.
    checked_later = {*_UNITS, "position", BACK}
    infinite = [
        key for key, value in fields.items() if key not in checked_later and not _is_finite(value)
    ]
    for key in infinite:
        del fields[key]
    findings.left_out |= dict.fromkeys(infinite)
    schema_keys = network_schema()["$defs"][scope]["properties"]
    unknown = [
        key
        for key in fields | fields.get(BACK, {})
        if key not in schema_keys and key not in read_keys
    ]
    _refuse_misspelt(unknown, scope, location)
    findings.kept[scope] |= dict.fromkeys(unknown)
    return fields


def _adapted_link(entry: Fields, location: str, findings: _Findings) -> Fields:
    """Return a link with quantities as numbers and Mininet's parameters as fields of the testbed.

    If the two directions of the link differ, the fields of the opposite direction are under the
    key ``BACK`` of ``topologies.mininet.parameters``.
    """
    fields, fields_back = split_ends(entry, location)
    directions = [fields]
    if fields_back is not None:
        directions.append(fields_back)
    for direction in directions:
        findings.changes |= dict.fromkeys(split_delay(direction, location))
        _read_quantities(direction, location)
        findings.mininet_parameters |= dict.fromkeys(read_parameters(direction, location))
    link: Fields = {}
    for end in ("source", "target"):
        if end in entry:
            link[end] = entry[end]
    link |= fields
    if fields_back is not None:
        link[BACK] = fields_back
    return link


def _is_finite(value: object) -> bool:
    """Return whether all numbers in a value are finite, also inside lists and dictionaries."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, float) and not math.isfinite(part):
            return False
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return True


def _read_quantities(fields: Fields, location: str) -> None:
    """Convert the capacity and the delay of a link from text with a unit to numbers.

    A number under a name without a unit is refused. Text that cannot be read is left for ``Link``
    to refuse.
    """
    for quantity in _QUANTITIES:
        _read_synonym(fields, quantity)
    for quantity in _QUANTITIES:
        bare_name = quantity.bare_name
        name = quantity.name
        if bare_name in fields:
            value = fields.pop(bare_name)
            if not isinstance(value, str) or is_bare(value):
                raise TopologyError(
                    f"{location}: unknown key {bare_name!r}; did you mean {name!r}?"
                    f" It is in {_UNITS[name]}; or say the unit, as {bare_name}"
                    f" {quantity.example!r}"
                )
            if name in fields:
                raise TopologyError(
                    f"{location}: both {bare_name!r} and {name!r} are there; keep one"
                )
            fields[name] = value
        if isinstance(fields.get(name), str):
            number = quantity.read(fields[name])
            if not math.isnan(number):
                fields[name] = number


def _read_synonym(fields: Fields, quantity: _Quantity) -> None:
    """Read a quantity under another program's name, if it has a unit and is above 0."""
    value = fields.get(quantity.synonym)
    if not isinstance(value, str) or is_bare(value) or fields.keys() & quantity.names_before:
        return
    number = quantity.read(value)
    if number > 0:
        del fields[quantity.synonym]
        fields[quantity.name] = number


def _use_raw_capacity(fields: Fields) -> bool:
    """Use the Topology Zoo's capacity if a link has no other, and return whether that was done."""
    raw = fields.get(_RAW_CAPACITY)
    value = rate_bps(raw) if isinstance(raw, str) else raw
    if "capacity_bps" in fields or not is_finite(value):
        return False
    if not MIN_CAPACITY_BPS <= value <= MAX_CAPACITY_BPS:
        return False
    fields["capacity_bps"] = float(value)
    return True


def _normalise_ids(nodes: list[Any], links: list[Any], notes: list[str]) -> None:
    """Convert the ids of nodes and the ends of links to the form that ``parse_document`` reads.

    Nodes without ids are named by ``name``. Lists, tuples and floats become text. Links that name
    their ends by positions in the list of nodes get the ids instead.
    """
    node_objects = _objects(nodes)
    link_objects = _objects(links)
    names = [node.get("name") for node in node_objects]
    have_names = bool(names) and all(isinstance(name, str) and name for name in names)
    if have_names and not any("id" in node for node in node_objects):
        notes.append("nodes have no id and are named by their 'name'")
        for node in node_objects:
            node["id"] = node["name"]
    fields_with_id: list[tuple[Fields, str]] = []
    for node in node_objects:
        fields_with_id.append((node, "id"))
    for link in link_objects:
        fields_with_id += [(link, "source"), (link, "target")]
    # A text such as "(0, 1)" is read as a tuple only if all ids have this form.
    are_tuples = bool(node_objects) and all(tuple_of_text(node.get("id")) for node in node_objects)
    example: tuple[object, str] | None = None
    for fields, key in fields_with_id:
        written = fields.get(key)
        value = tuple_of_text(written) if are_tuples else written
        text = _id_text(value)
        if text is not None:
            example = example or (written, text)
            fields[key] = text
    if example is not None:
        written, text = example
        notes.append(f"ids that were no text are written as text: {written!r} is {text!r}")
    _replace_positions(node_objects, link_objects, notes)


def _id_text(value: object, max_depth: int = 4) -> str | None:
    """Return the text of an id that is a float, or a list of two or more parts.

    Args:
        value: The id.
        max_depth: Maximum depth of lists in lists.

    Returns:
        None for any other value, text and integers included, which stay as they are.
    """
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    if not isinstance(value, list) or len(value) < 2 or not max_depth:
        return None
    texts = []
    for part in value:
        if isinstance(part, str | int) and not isinstance(part, bool):
            text: str | None = str(part)
        else:
            text = _id_text(part, max_depth - 1)
        if text is None:
            return None
        texts.append(text)
    return "_".join(texts)


def _replace_positions(nodes: list[Fields], links: list[Fields], notes: list[str]) -> None:
    """Replace the ends of links by ids, if all of them are positions in the list of nodes.

    They are positions if they are integers in the range of the list, and no id looks like a number.
    """
    ids = [node.get("id") for node in nodes]
    for node_id in ids:
        if not isinstance(node_id, str) or node_id.isdecimal():
            return
    ends: list[object] = []
    for link in links:
        ends += [link.get("source"), link.get("target")]
    if not ends or not all(_is_index(end, len(ids)) for end in ends):
        return
    for link in links:
        link["source"] = ids[link["source"]]
        link["target"] = ids[link["target"]]
    notes.append("ends of links are positions in the list of nodes, counted from 0")


def _is_index(value: object, length: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < length


def is_near(text: str, other: str) -> bool:
    """Return whether two texts differ at most by one edit.

    An edit adds, removes or replaces one character, or swaps two neighbours.

    >>> [is_near(text, "kind") for text in ("knd", "kidn", "kind", "kinds", "type")]
    [True, True, True, True, False]
    """
    if abs(len(text) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(text), len(other)) and text[start] == other[start]:
        start += 1
    end_a = text[start:]
    end_b = other[start:]
    is_one_longer = end_a[1:] == end_b or end_a == end_b[1:]
    is_replaced = end_a[1:] == end_b[1:]
    is_swapped = end_a[:2] == end_b[:2][::-1] and end_a[2:] == end_b[2:]
    return is_one_longer or is_replaced or is_swapped


def _printable(name: object) -> str:
    text = str(name)[:_MAX_CHARACTERS]
    return text if text.isprintable() else repr(text)
