"""Node-link documents of other programs (networkx, D3, Gephi, the Topology Zoo), made ours before they are parsed.

A key is refused where it is one of ours misspelt, or one of ours without its unit. Any other is kept as an attribute,
and a note says which. Every format's reader gives such a document; the rules are these for all of them.
"""

import math
from collections.abc import Iterable, Mapping
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
"""Keys that change what the testbed does, by where they stand: a key near one of these is refused."""
_UNITS = {"capacity_bps": "bits a second", "delay_s": "seconds"}
_QUANTITIES = (
    ("capacity", "capacity_bps", rate_bps, "10Mbps"),
    ("delay", "delay_s", seconds, "5ms"),
)
_SYNONYMS = (
    ("bandwidth", ("capacity_bps", "capacity", "bw"), rate_bps),
    ("latency", ("delay_s", "delay"), seconds),
)
"""Names of other programs, read if the value has a unit; and the names that count in their place."""
_RAW = "LinkSpeedRaw"
"""The Topology Zoo's capacity, in bits a second."""
_PROGRAMS = {
    "adjacency": "networkx' adjacency lists",
    "elements": "Cytoscape files",
    "topology": "GNS3 projects",
}
"""Whose files of JSON have that key, and not both nodes and links."""
_SHOWN = 60

_GONE = "gone"
_THEIRS = "theirs"
_CHANGED = "changed"
DEFAULT_ROUTES = ("default_route", "defaultRoute")
"""Names of Mininet's default routes of hosts."""
Fields = JsonObject
Retained = dict[str, dict[str, None]]
"""Names of attributes by where they stand (graph, nodes, links); what was left out, Mininet's parameters that were
read, and notes of values that were changed."""


class NetworkNote(UserWarning):
    """What was kept without being read, left out or changed of a file of a network."""


def adapted(
    document: object, notes: list[str], *, note_units: bool = True, strict: bool = False
) -> object:
    """Return the document as ``parse_document`` takes it.

    Capacities and delays with units, ``LinkSpeedRaw`` and Mininet's parameters become fields of ours. Ids that are
    lists, tuples or floats become text. Nodes that have no id are named by ``name``; links may name nodes by
    position (networkx 1, D3). Addresses are read as ``foreign_fields`` says.

    Args:
        document: A node-link document; anything but an object is returned as it is.
        notes: Takes one line for each kind of change.
        note_units: Whether to note that Mininet's parameters are read in Mininet's units.
        strict: Whether an address that cannot be used is left to ``Node``, which refuses it.

    Raises:
        TopologyError: A key is refused; the message names its place and how to repair it.

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
    retained: Retained = {"graph": {}, "nodes": {}, "links": {}}
    retained |= {_GONE: {}, _THEIRS: {}, _CHANGED: {}}
    known = network_schema()["properties"]
    found = {key: value for key, value in document.items() if key in known}
    others = {
        key: value for key, value in document.items() if key not in known and key != "$schema"
    }
    _refuse_misspelt(others, "", "")
    found["graph"] = _attributes(
        {**others, **graph_attributes(document)}, "graph", "graph", retained
    )
    if isinstance(found.get("nodes"), list):
        found["nodes"] = [dict(node) if isinstance(node, dict) else node for node in found["nodes"]]
        tables = [node for node in found["nodes"] if isinstance(node, dict)]
        _read_kinds(tables)
        for node in () if strict else tables:
            read_positions(node)
    for name, scope in (("nodes", "node"), ("links", "link"), ("edges", "link")):
        if isinstance(found.get(name), list):
            found[name] = [
                _attributes(entry, scope, f"{name}[{i}]", retained)
                if isinstance(entry, dict)
                else entry
                for i, entry in enumerate(found[name])
            ]
    if isinstance(found.get("nodes"), list):
        links: list[Any] = next(
            (found[name] for name in ("links", "edges") if isinstance(found.get(name), list)), []
        )
        _name_nodes(found["nodes"], links, notes)
        hand_over_addresses(found["nodes"], links)
        if not strict:
            read_fields([node for node in found["nodes"] if isinstance(node, dict)], notes)
        for key in DEFAULT_ROUTES:
            retained["nodes"].pop(key, None)
    _note(retained, notes, units=note_units)
    return found


def refuse_programs(document: Mapping[object, object]) -> None:
    """TopologyError for a file of JSON of a program whose files are not read."""
    if "nodes" not in document or not {"links", "edges"} & document.keys():
        for key, files in _PROGRAMS.items():
            if key in document:
                raise TopologyError(
                    f"{files} are not read; write the network as JSON node-link or GraphML"
                )


def _note(retained: Retained, notes: list[str], *, units: bool) -> None:
    """Say what was stored without being read, read in Mininet's units (where ``units``), and left out."""
    gone = retained.pop(_GONE)
    theirs = retained.pop(_THEIRS)
    notes += retained.pop(_CHANGED)
    lists = [
        f"{', '.join(map(_shown, names))} ({where})" for where, names in retained.items() if names
    ]
    if lists:
        notes.append(f"kept, but not read: {'; '.join(lists)}")
    if theirs and units:
        notes.append(
            f"read as Mininet's: {', '.join(f'{name} ({UNITS[name]})' for name in theirs)}"
        )
    if gone:
        notes.append(
            f"left out: values that are no finite numbers, of {', '.join(map(_shown, gone))}"
        )


def _read_kinds(nodes: list[Fields]) -> None:
    """Set the kind of nodes that say it as Mininet's Topo (``isSwitch``) or YATES (``type``) does.

    If any node has ``isSwitch``, nodes without it are hosts.
    """
    from_topo = any("isSwitch" in node for node in nodes)
    for node in nodes:
        if from_topo:
            is_switch = truth_value(node.pop("isSwitch", False))
            node.setdefault("kind", "switch" if is_switch else "host")
        elif node.get("type") in ("host", "switch"):
            node.setdefault("kind", node["type"])


def note_host_paths(network: Network, notes: list[str]) -> None:
    """Note which hosts cannot reach each other and whose default routes are not set."""
    routed = [node.id for node in network.hosts if any(map(node.attributes.get, DEFAULT_ROUTES))]
    note_paths(network, routed, notes)


def rename_kinds(nodes: Iterable[Fields]) -> None:
    """Another program's word for another kind of node becomes the attribute ``type_name``."""
    for node in nodes:
        if "kind" in node and node["kind"] not in ("host", "switch"):
            node["type_name"] = node.pop("kind")


def without_loops(links: list[Fields], one_way: list[bool], notes: list[str]) -> list[bool | None]:
    """Of each link whether it goes one way, None where it leads from a node to itself; a note says how many do, and
    where."""
    loops = [link.get("source") for link in links if link.get("source") == link.get("target")]
    if loops:
        count = f"{len(loops)} link{'s' if len(loops) > 1 else ''}"
        notes.append(f"left out: {count} from a node to itself, at {some(dict.fromkeys(loops))}")
    return [
        way if link.get("source") != link.get("target") else None
        for link, way in zip(links, one_way, strict=True)
    ]


def some(names: Iterable[object], most: int = 6) -> str:
    """The first names, as messages quote them, and how many more there are."""
    listed = [repr(name)[:_SHOWN] for name in names]
    return ", ".join(listed[:most]) + (
        f" and {len(listed) - most} more" if len(listed) > most else ""
    )


def _refuse_misspelt(names: Iterable[str], scope: str, place: str) -> None:
    """Of names that the schema does not know, those near a key of ours are refused."""
    for name in names:
        near = next((ours for ours in OURS[scope] if is_near(name.casefold(), ours)), None)
        if near is not None:
            unit = f" It is in {_UNITS[near]}" if near in _UNITS else ""
            start = f"{place}: " if place else ""
            raise TopologyError(
                f"{start}unknown key {name[:_SHOWN]!r}; did you mean {near!r}?{unit}"
            )


def _attributes(entry: Fields, scope: str, place: str, retained: Retained) -> Fields:
    """The entry with its quantities as numbers, without values that no file can hold; what is not read is noted in
    ``retained``."""
    fields = {key: value for key, value in entry.items() if key != BACK}
    if scope == "link":
        fields = _both_directions(fields, place, retained)
    used = {_RAW} if scope == "link" and _raw_capacity(fields) else set()
    for key in [
        k for k, v in fields.items() if k not in (*_UNITS, "position", BACK) and not _is_finite(v)
    ]:
        del fields[key]
        retained[_GONE][key] = None
    schema = network_schema()["$defs"][scope]["properties"]
    others = [
        key
        for key in fields | fields.get(BACK, {})
        if key not in (*schema, *used, BACK, "ips", "macs")
    ]
    _refuse_misspelt(others, scope, place)
    retained["graph" if scope == "graph" else f"{scope}s"] |= dict.fromkeys(others)
    return fields


def _both_directions(entry: Fields, place: str, retained: Retained) -> Fields:
    """The link's fields with quantities as numbers and Mininet's parameters read; under BACK those of the way back."""
    fields, back = split_ends(entry, place)
    for one in (fields,) if back is None else (fields, back):
        retained[_CHANGED] |= dict.fromkeys(split_delay(one, place))
        _read_quantities(one, place)
        retained[_THEIRS] |= dict.fromkeys(read_parameters(one, place))
    ends = {end: entry[end] for end in ("source", "target") if end in entry}
    return ends | fields | ({} if back is None else {BACK: back})


def _is_finite(value: object) -> bool:
    """Whether no number of a value, in lists and tables too, is infinite or none."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, float) and not math.isfinite(one):
            return False
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return True


def _read_quantities(fields: Fields, place: str) -> None:
    """Text with a unit becomes a number; a number under a name without a unit is refused."""
    for synonym, names, read in _SYNONYMS:
        value = fields.get(synonym)
        if isinstance(value, str) and not is_bare(value) and not fields.keys() & {*names}:
            quantity = read(value)
            if quantity > 0:
                del fields[synonym]
                fields[names[0]] = quantity
    for bare, name, read, example in _QUANTITIES:
        if bare in fields:
            value = fields.pop(bare)
            if not isinstance(value, str) or is_bare(value):
                raise TopologyError(
                    f"{place}: unknown key {bare!r}; did you mean {name!r}? It is in {_UNITS[name]}; "
                    f"or say the unit, as {bare} {example!r}"
                )
            if name in fields:
                raise TopologyError(f"{place}: both {bare!r} and {name!r} are there; keep one")
            fields[name] = value
        if isinstance(fields.get(name), str):
            number = read(fields[name])
            fields[name] = fields[name] if math.isnan(number) else number


def _raw_capacity(fields: Fields) -> bool:
    """Whether the Zoo's capacity is taken for the link's, which has none of its own."""
    raw = fields.get(_RAW)
    value = rate_bps(raw) if isinstance(raw, str) else raw
    if (
        "capacity_bps" in fields
        or not is_finite(value)
        or not MIN_CAPACITY_BPS <= value <= MAX_CAPACITY_BPS
    ):
        return False
    fields["capacity_bps"] = float(value)
    return True


def _name_nodes(nodes: list[Any], links: list[Any], notes: list[str]) -> None:
    """Give every node and every end of a link an id that is text or a whole number, where what is there says which."""
    tables = [node for node in nodes if isinstance(node, dict)]
    named = [node.get("name") for node in tables]
    if (
        tables
        and not any("id" in node for node in tables)
        and all(isinstance(name, str) and name for name in named)
    ):
        notes.append("nodes have no id and are named by their 'name'")
        for node in tables:
            node["id"] = node["name"]
    first: list[Any] = []
    ends: list[tuple[Fields, str]] = [(node, "id") for node in tables]
    for link in links:
        if isinstance(link, dict):
            ends += [(link, "source"), (link, "target")]
    of_tuples = bool(tables) and all(tuple_of_text(node.get("id")) for node in tables)
    for fields, key in ends:
        written = fields.get(key)
        text = _id_text(tuple_of_text(written) if of_tuples else written)
        if text is not None:
            first = first or [fields[key], text]
            fields[key] = text
    if first:
        notes.append(f"ids that were no text are written as text: {first[0]!r} is {first[1]!r}")
    _by_position(tables, [link for link in links if isinstance(link, dict)], notes)


def _id_text(value: object, deep: int = 4) -> str | None:
    """What a list of two or more parts, or a float, is called; None for any other value."""
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    if not isinstance(value, list) or len(value) < 2 or not deep:
        return None
    plain = (str, int)
    parts = [
        str(one)
        if isinstance(one, plain) and not isinstance(one, bool)
        else _id_text(one, deep - 1)
        for one in value
    ]
    return None if None in parts else "_".join(map(str, parts))


def _by_position(nodes: list[Fields], links: list[Fields], notes: list[str]) -> None:
    """Ends of links that are no ids but positions in the list of nodes become ids."""
    ids = [node.get("id") for node in nodes]
    ends = [link.get(end) for link in links for end in ("source", "target")]
    places = all(
        isinstance(end, int) and not isinstance(end, bool) and 0 <= end < len(ids) for end in ends
    )
    if not ends or not places or any(not isinstance(one, str) or one.isdecimal() for one in ids):
        return
    for link in links:
        link |= {end: ids[link[end]] for end in ("source", "target")}
    notes.append("ends of links are positions in the list of nodes, counted from 0")


def is_near(word: str, ours: str) -> bool:
    """Whether one sign added, left out, changed or swapped with its neighbour makes one of the other (or they are the
    same).

    >>> [is_near(word, "kind") for word in ("knd", "kidn", "kind", "kinds", "type")]
    [True, True, True, True, False]
    """
    if abs(len(word) - len(ours)) > 1:
        return False
    start = next(
        (i for i, (a, b) in enumerate(zip(word, ours, strict=False)) if a != b),
        min(len(word), len(ours)),
    )
    one, other = word[start:], ours[start:]
    swapped = (
        len(one) > 1
        and len(other) > 1
        and one[0] == other[1]
        and one[1] == other[0]
        and one[2:] == other[2:]
    )
    return one[1:] == other or one == other[1:] or one[1:] == other[1:] or swapped


def _shown(name: object) -> str:
    text = str(name)[:_SHOWN]
    return text if text.isprintable() else repr(text)
