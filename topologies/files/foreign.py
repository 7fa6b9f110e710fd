"""Node-link documents of other programs (networkx, D3, Gephi, the Topology Zoo), made ours before they are parsed.

A key is refused where it is one of ours misspelt, or one of ours without its unit. Any other is kept as an attribute,
and a note says which. Every format's reader gives such a document; the rules are these for all of them.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from topologies.errors import TopologyError
from topologies.files.node_link import graph_attributes
from topologies.files.schemas import network_schema
from topologies.mininet.parameters import (
    BACK,
    UNITS,
    hand_over_addresses,
    read_parameters,
    split_ends,
)
from topologies.network import MAX_CAPACITY_BPS, MIN_CAPACITY_BPS, is_finite
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
_RAW = "LinkSpeedRaw"
"""The Topology Zoo's capacity, in bits a second."""
_PROGRAMS = {
    "adjacency": "networkx' adjacency lists",
    "elements": "Cytoscape files",
    "topology": "GNS3 projects",
}
"""Whose files of JSON have that key, and not both nodes and links."""
_SHOWN = 60

_GONE, _THEIRS = "gone", "theirs"
_DEFAULT_ROUTES = ("default_route", "defaultRoute")
Fields = JsonObject
Retained = dict[str, dict[str, None]]
"""Names of attributes by where they stand: graph, nodes, links; what was left out, and Mininet's that were read."""


class NetworkNote(UserWarning):
    """What was kept without being read, left out or changed of a file of a network."""


def adapted(
    document: object, notes: list[str], *, mininet: Literal["no", "noted", "yes"] = "noted"
) -> object:
    """The document as ``parse_document`` takes it; what was done to it is added to ``notes``.

    Done: capacities and delays with units, ``LinkSpeedRaw``; Mininet's parameters, as ``mininet`` says; ids that are
    lists or floats; nodes named by ``name`` alone; links by position (networkx 1, D3). Raises TopologyError, naming
    place, key and repair, for a key that is refused.

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
    retained: Retained = {"graph": {}, "nodes": {}, "links": {}, _GONE: {}, _THEIRS: {}}
    known = network_schema()["properties"]
    found = {key: value for key, value in document.items() if key in known}
    others = {
        key: value for key, value in document.items() if key not in known and key != "$schema"
    }
    _refuse_misspelt(others, "", "")
    found["graph"] = _attributes(
        {**others, **graph_attributes(document)}, "graph", "graph", retained
    )
    if mininet != "no" and isinstance(found.get("nodes"), list):
        _read_kinds([node for node in found["nodes"] if isinstance(node, dict)])
    for name, scope in (("nodes", "node"), ("links", "link"), ("edges", "link")):
        if isinstance(found.get(name), list):
            read = mininet != "no"
            found[name] = [
                _attributes(entry, scope, f"{name}[{i}]", retained, mininet=read)
                if isinstance(entry, dict)
                else entry
                for i, entry in enumerate(found[name])
            ]
    if isinstance(found.get("nodes"), list):
        links: list[Any] = next(
            (found[name] for name in ("links", "edges") if isinstance(found.get(name), list)), []
        )
        _name_nodes(found["nodes"], links, notes)
        if mininet != "no":
            hand_over_addresses(found["nodes"], links)
        _note_default_routes(found["nodes"], retained["nodes"], notes)
    _note(retained, notes, units=mininet == "noted")
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
    gone, theirs = retained.pop(_GONE), retained.pop(_THEIRS)
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


def _note_default_routes(nodes: list[Any], retained: dict[str, None], notes: list[str]) -> None:
    """Say whose default routes (Mininet's ``defaultRoute``) have no effect, and what takes their place."""
    hosts = [
        node.get("id")
        for node in nodes
        if isinstance(node, dict) and any(map(node.get, _DEFAULT_ROUTES))
    ]
    for key in _DEFAULT_ROUTES:
        retained.pop(key, None)
    if hosts:
        notes.append(
            f"default routes of {some(hosts)} are not set: every host has the shortest path to each other one"
        )


def _read_kinds(nodes: list[Fields]) -> None:
    """Where any node says by ``isSwitch`` that it is one (Mininet's Topo), those that do not are hosts."""
    if any("isSwitch" in node for node in nodes):
        for node in nodes:
            node.setdefault("kind", "switch" if node.pop("isSwitch", False) else "host")


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


def _attributes(
    entry: Fields, scope: str, place: str, retained: Retained, *, mininet: bool = False
) -> Fields:
    """The entry with its quantities as numbers, without values that no file can hold; what is not read is noted in
    ``retained``. ``mininet``: whether a link's parameters of Mininet are read."""
    fields = {key: value for key, value in entry.items() if key != BACK}
    if scope == "link" and mininet:
        fields = _both_directions(fields, place, retained)
    elif scope == "link":
        _read_quantities(fields, place)
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
    for fields, key in [(n, "id") for n in tables] + [
        (link, end) for link in links if isinstance(link, dict) for end in ("source", "target")
    ]:
        text = _id_text(fields.get(key))
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
