"""Node-link documents of other programs (networkx, D3, Gephi, the Topology Zoo), made ours before they are parsed.

A key is refused where it is one of ours misspelt, or one of ours without its unit. Any other is kept as an attribute,
and a note says which. Every format's reader gives such a document; the rules are these for all of them.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

from topologies.errors import TopologyError
from topologies.files.node_link import graph_attributes
from topologies.files.schemas import network_schema
from topologies.network import MAX_CAPACITY_BPS

_THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECONDS = {"": 1.0, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
_RATE = re.compile(rf"{_NUMBER}\s*([kmgt]?)(?:b|bit|bits)?(?:ps|/s)?", re.ASCII)
_BYTES = re.compile(r"B(?:ps|/s)?$")
_TIME = re.compile(rf"{_NUMBER}\s*(ns|us|µs|ms|s|min|h|)")


def rate_bps(text: str) -> float:
    """Bits a second; without a unit the number itself; not a number for what is no rate, and for bytes (``10MB/s``).

    >>> rate_bps("10Mbps"), rate_bps("2.5 Gbit/s"), rate_bps("1e6"), rate_bps("10MB/s")
    (10000000.0, 2500000000.0, 1000000.0, nan)
    """
    if _BYTES.search(text.strip()):
        return math.nan
    return _times(_RATE.fullmatch(text.strip().lower()), _THOUSANDS)


def seconds(text: str) -> float:
    """Seconds; without a unit the number itself; not a number for what is no time.

    >>> seconds("5ms"), seconds("2 min"), seconds("0.25"), seconds("soon")
    (0.005, 120.0, 0.25, nan)
    """
    return _times(_TIME.fullmatch(text.strip().lower()), _SECONDS)


def is_bare(text: str) -> bool:
    """Whether the text is a number without a unit."""
    return re.fullmatch(_NUMBER, text.strip().lower()) is not None


def _times(found: re.Match[str] | None, units: dict[str, float]) -> float:
    if found is None or len(found[0]) > 60:
        return math.nan
    number, factor = float(found[1]), units[found[2]]
    return number * factor if factor >= 1 else number / round(1 / factor)


OURS = {
    "": ("directed", "multigraph", "graph", "nodes", "links", "edges"),
    "graph": ("routing", "routing_table", "wavelengths", "conversion", "attributes"),
    "node": ("kind", "position", "conversion", "attributes"),
    "link": ("source", "target", "capacity_bps", "delay_s", "impairments", "wavelengths", "attributes"),
}
"""Keys that change what the testbed does, by where they stand: a key near one of these is refused."""
_UNITS = {"capacity_bps": "bits a second", "delay_s": "seconds"}
_QUANTITIES = (("capacity", "capacity_bps", rate_bps, "10Mbps"), ("delay", "delay_s", seconds, "5ms"))
_RAW = "LinkSpeedRaw"
"""The Topology Zoo's capacity, in bits a second."""
_PROGRAMS = {
    "switches": "MiniEdit files",
    "adjacency": "networkx' adjacency lists",
    "elements": "Cytoscape files",
    "topology": "GNS3 projects",
}
"""Whose files of JSON have that key, and not both nodes and links."""
_SHOWN = 60

_GONE = "gone"
Fields = dict[str, Any]
Retained = dict[str, dict[str, None]]
"""Names of attributes by where they stand: graph, nodes, links; and those that were left out."""


def adapted(document: object, notes: list[str]) -> Any:
    """The document as ``parse_document`` takes it; what was done to it is added to ``notes``.

    Done: capacities and delays with units, ``LinkSpeedRaw``; ids that are lists or floats; nodes named by ``name``
    alone; links by position (networkx 1, D3). Raises TopologyError, naming place, key and repair, for a key that is
    refused.

    >>> notes = []
    >>> link = {"source": "a", "target": "b", "capacity": "10Mbps", "weight": 3}
    >>> adapted({"nodes": [{"id": "a"}, {"id": "b"}], "links": [link]}, notes)["links"]
    [{'source': 'a', 'target': 'b', 'weight': 3, 'capacity_bps': 10000000.0}]
    >>> notes
    ['kept, but not read: weight (links)']
    """
    if not isinstance(document, dict):
        return document
    if "nodes" not in document or not {"links", "edges"} & document.keys():
        for key, files in _PROGRAMS.items():
            if key in document:
                raise TopologyError(f"{files} are not read; write the network as JSON node-link or GraphML")
    retained: Retained = {"graph": {}, "nodes": {}, "links": {}, _GONE: {}}
    known = network_schema()["properties"]
    found = {key: value for key, value in document.items() if key in known}
    others = {key: value for key, value in document.items() if key not in known}
    _refuse_misspelt(others, "", "")
    found["graph"] = _attributes({**others, **graph_attributes(document)}, "graph", "graph", retained)
    for name, scope in (("nodes", "node"), ("links", "link"), ("edges", "link")):
        if isinstance(found.get(name), list):
            found[name] = [
                _attributes(entry, scope, f"{name}[{i}]", retained) if isinstance(entry, dict) else entry
                for i, entry in enumerate(found[name])
            ]
    if isinstance(found.get("nodes"), list):
        links: list[Any] = next((found[name] for name in ("links", "edges") if isinstance(found.get(name), list)), [])
        _name_nodes(found["nodes"], links, notes)
    gone = retained.pop(_GONE)
    lists = [f"{', '.join(map(_shown, names))} ({where})" for where, names in retained.items() if names]
    if lists:
        notes.append(f"kept, but not read: {'; '.join(lists)}")
    if gone:
        notes.append(f"left out: values that are no finite numbers, of {', '.join(map(_shown, gone))}")
    return found


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
    return [way if link.get("source") != link.get("target") else None for link, way in zip(links, one_way, strict=True)]


def some(names: Iterable[Any], most: int = 6) -> str:
    """The first names, as messages quote them, and how many more there are."""
    listed = [repr(name)[:_SHOWN] for name in names]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def _refuse_misspelt(names: Iterable[str], scope: str, place: str) -> None:
    """Of names that the schema does not know, those near a key of ours are refused."""
    for name in names:
        near = next((ours for ours in OURS[scope] if is_near(name.casefold(), ours)), None)
        if near is not None:
            unit = f" It is in {_UNITS[near]}" if near in _UNITS else ""
            start = f"{place}: " if place else ""
            raise TopologyError(f"{start}unknown key {name[:_SHOWN]!r}; did you mean {near!r}?{unit}")


def _attributes(entry: Fields, scope: str, place: str, retained: Retained) -> Fields:
    """The entry with its quantities as numbers, without values that no file can hold; what is not read is noted in
    ``kept``."""
    fields = dict(entry)
    if scope == "link":
        _read_quantities(fields, place)
    used = {_RAW} if scope == "link" and _raw_capacity(fields) else set()
    for key in [k for k, v in fields.items() if k not in (*_UNITS, "position") and not _is_finite(v)]:
        del fields[key]
        retained[_GONE][key] = None
    schema = network_schema()["$defs"][scope]["properties"]
    others = [key for key in fields if key not in schema and key not in used]
    _refuse_misspelt(others, scope, place)
    retained["graph" if scope == "graph" else f"{scope}s"] |= dict.fromkeys(others)
    return fields


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
    if "capacity_bps" in fields or isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if not 0 < value <= MAX_CAPACITY_BPS:
        return False
    fields["capacity_bps"] = float(value)
    return True


def _name_nodes(nodes: list[Any], links: list[Any], notes: list[str]) -> None:
    """Give every node and every end of a link an id that is text or a whole number, where what is there says which."""
    tables = [node for node in nodes if isinstance(node, dict)]
    named = [node.get("name") for node in tables]
    if tables and not any("id" in node for node in tables) and all(isinstance(name, str) and name for name in named):
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
        str(one) if isinstance(one, plain) and not isinstance(one, bool) else _id_text(one, deep - 1) for one in value
    ]
    return None if None in parts else "_".join(map(str, parts))


def _by_position(nodes: list[Fields], links: list[Fields], notes: list[str]) -> None:
    """Ends of links that are no ids but positions in the list of nodes become ids."""
    ids = [node.get("id") for node in nodes]
    ends = [link.get(end) for link in links for end in ("source", "target")]
    places = all(isinstance(end, int) and not isinstance(end, bool) and 0 <= end < len(ids) for end in ends)
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
    start = next((i for i, (a, b) in enumerate(zip(word, ours, strict=False)) if a != b), min(len(word), len(ours)))
    one, other = word[start:], ours[start:]
    swapped = len(one) > 1 and len(other) > 1 and one[0] == other[1] and one[1] == other[0] and one[2:] == other[2:]
    return one[1:] == other or one == other[1:] or one[1:] == other[1:] or swapped


def _shown(name: object) -> str:
    text = str(name)[:_SHOWN]
    return text if text.isprintable() else repr(text)
