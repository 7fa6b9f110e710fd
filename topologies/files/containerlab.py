"""Networks of containerlab's topology files (YAML): nodes of kind ``linux`` are hosts, all others switches; links have
both directions.

What is kept: nodes, kinds (also by group or default), links; whatever else nodes and links have stays as attributes.
All scalars of YAML are text, as programs in Go read it: ``no``, ``010`` and ``007`` are words; nothing is made of tags.
Aliases share what they stand for, but count as if written out: a few lines cannot stand for millions of values.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topologies.errors import TopologyError
from topologies.files.foreign import some
from topologies.grouping import lists_by_key
from topologies.mininet.parameters import hand_over_addresses, read_parameters
from topologies.text.json_types import Json, JsonObject
from topologies.text.units import is_bare, rate_bps, seconds

MAX_BYTES = 2**22
MAX_VALUES = 200_000
"""Values of a document with its aliases written out."""
_DEPTH = 100
_MERGE = "<<"
_AROUND = ("StreamStartEvent", "DocumentStartEvent", "DocumentEndEvent", "StreamEndEvent")


_Read = tuple[object, int]
"""A value, and how many values are in it."""


def parse_yaml(text: str) -> object:
    """The value of a YAML document: tables, lists, text, and None for null and nothing. Merge keys (``<<``) are obeyed.

    Raises TopologyError, which names the line; ModuleNotFoundError where PyYAML (the extra ``networks``) is not
    installed.
    """
    import yaml  # type: ignore[import-untyped,unused-ignore]

    if len(text) > MAX_BYTES:
        raise TopologyError(f"it is longer than {MAX_BYTES} signs; make it smaller")
    events = iter(yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    try:
        documents = [
            _value(event, events, {})[0] for event in events if type(event).__name__ not in _AROUND
        ]
    except yaml.YAMLError as error:
        raise TopologyError(f"not YAML ({' '.join(str(error).split())[:120]})") from error
    if len(documents) != 1:
        raise TopologyError(f"{len(documents)} YAML documents; leave exactly one")
    return documents[0]


def _value(
    event: Any, events: Iterator[Any], anchors: dict[str | None, _Read], deep: int = 1
) -> _Read:
    """What begins with the event; ``anchors``: what has a name so far (None: all that have none)."""
    kind, size = type(event).__name__, 1
    if kind == "AliasEvent":
        if event.anchor not in anchors:
            raise _wrong(event, f"the alias {event.anchor[:60]!r} stands for nothing before it")
        return anchors[event.anchor]
    if kind == "ScalarEvent":
        null = event.implicit[0] and event.value in ("", "~", "null", "Null", "NULL")
        anchors[event.anchor] = None if null else event.value, 1
        return anchors[event.anchor]
    if deep > _DEPTH:
        raise _wrong(event, f"more than {_DEPTH} lists and tables in each other")
    parts: list[tuple[Any, object]] = []
    while type(inner := next(events)).__name__ not in ("SequenceEndEvent", "MappingEndEvent"):
        value, more = _value(inner, events, anchors, deep + 1)
        parts.append((inner, value))
        size += more
        if size > MAX_VALUES:
            raise _wrong(
                inner, f"with its aliases it stands for more than {MAX_VALUES} values; write less"
            )
    made = (
        [value for _, value in parts]
        if kind == "SequenceStartEvent"
        else _joined(parts[::2], parts[1::2])
    )
    anchors[event.anchor] = made, size
    return anchors[event.anchor]


def _joined(keys: Sequence[tuple[Any, object]], values: Sequence[tuple[Any, object]]) -> JsonObject:
    """The table of these, each with the event that it begins with."""
    table: JsonObject = {}
    given: set[str] = set()
    for (event, key), (_, value) in zip(keys, values, strict=True):
        if not isinstance(key, str | None):
            raise _wrong(event, "a key must be text (fill in what {{ }} of a template stands for)")
        name = key or ""
        if name in given:
            raise _wrong(event, f"the key {name[:60]!r} is there twice; keep one")
        given.add(name)
        if name != _MERGE:
            table[name] = value
        for merged in () if name != _MERGE else value if isinstance(value, list) else [value]:
            table |= (
                {own: one for own, one in merged.items() if own not in table}
                if isinstance(merged, dict)
                else {}
            )
    return table


def _wrong(event: Any, what: str) -> TopologyError:
    return TopologyError(f"line {event.start_mark.line + 1}: {what}")


HOST_KIND = "linux"
BRIDGES = ("bridge", "ovs-bridge")
"""Kinds that are switches there too."""
_IMPAIRMENTS = ("rate", "delay", "jitter", "loss", "corruption")
"""Of links, in the units of ``containerlab tools netem set``: rate in kbit/s, loss in per cent; times have theirs."""
OUTSIDE = ("host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy")
"""What stands in the place of a node in links that leave the lab."""

# Keys by which YAML files of other programs are known.
_OTHER_PROGRAMS: tuple[tuple[set[str], str], ...] = (
    ({"npus_count"}, "a network of astra-sim"),
    ({"topology", "bandwidth"}, "a network of astra-sim"),
    ({"dimensions-count"}, "a network of astra-sim"),
    ({"services"}, "a file of Docker Compose"),
    ({"apiVersion", "kind"}, "a manifest of Kubernetes"),
    ({"provider", "nodes"}, "a topology of netlab (netlab create writes containerlab's clab.yml)"),
    ({"nodes", "links"}, "a topology of netlab (netlab create writes containerlab's clab.yml)"),
    ({"nodes"}, "a topology of netlab (netlab create writes containerlab's clab.yml)"),
    ({"network"}, "a configuration of Netplan"),
    ({"all"}, "an inventory of Ansible"),
)
Table = Json


def containerlab_document(text: str, notes: list[str]) -> JsonObject:
    """The node-link document of a file whose ``topology`` has ``nodes`` and ``links``.

    ``notes``: links that leave the network are left out, hosts with several links forward, a vendor's kind is a switch
    without its software. Raises TopologyError naming the entry; ModuleNotFoundError where PyYAML (the extra
    ``networks``) is not installed.
    """
    file = _table(parse_yaml(text), "the file")
    name = file.get("name")
    if name is not None and not isinstance(name, str):
        raise TopologyError("name: give text")
    _refuse_other_programs(file)
    topology = _table(file.get("topology"), "topology")
    declared = _table(topology.get("nodes"), "topology.nodes")
    nodes = [_node(topology, label, declared[label]) for label in declared]
    entries = topology.get("links") or []
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise TopologyError("topology.links: give a list")
    links: list[JsonObject] = []
    used: dict[str, str] = {}
    outside: dict[str, None] = {}
    for number, entry in enumerate(entries):
        link = _link(entry, f"topology.links[{number}]", declared, used)
        if isinstance(link, str):
            outside[link] = None
        else:
            links.append(link)
    if outside:
        notes.append(f"left out: links out of the network, at {some(outside)}")
    ends = Counter(link[end] for link in links for end in ("source", "target"))
    routers = [node for node in nodes if node["kind"] == "host" and ends[node["id"]] > 1]
    for node in routers:
        node["forwarding"] = True
    if routers:
        names = some(node["id"] for node in routers)
        notes.append(
            f"hosts (kind {HOST_KIND}) with several links, which forward over shortest paths: {names}"
        )
    _note_vendors(nodes, notes)
    sizes = sorted({link["mtu"] for link in links if isinstance(link.get("mtu"), int)})
    if sizes:
        sized = " or ".join(map(str, sizes))
        notes.append(
            f"mtu (links) of {sized}: all links of a run have one, which `up` takes as --mtu"
        )
    hand_over_addresses(nodes, links)
    graph = {"name": name} if name else {}
    return {"directed": False, "multigraph": True, "graph": graph, "nodes": nodes, "links": links}


def _refuse_other_programs(file: Table) -> None:
    """Raise TopologyError for a YAML file that another program's keys give away."""
    if isinstance(file.get("topology"), Mapping):
        return
    for keys, program in _OTHER_PROGRAMS:
        if keys <= file.keys():
            raise TopologyError(
                f"it is {program}, which is not read; write the network as containerlab's topology,"
                " JSON node-link or GraphML"
            )
    if file.get("topology") is None:
        raise TopologyError(
            "topology is missing; of YAML only containerlab's topology files are read"
        )


def _note_vendors(nodes: list[JsonObject], notes: list[str]) -> None:
    kinds: dict[str, list[str]] = lists_by_key(
        (node["type_name"], node["id"])
        for node in nodes
        if node["kind"] == "switch" and node.get("type_name") not in (None, *BRIDGES)
    )
    if kinds:
        listed = "; ".join(f"{kind} ({some(names, 3)})" for kind, names in kinds.items())
        notes.append(
            f"Open vSwitch switches, without the images and configurations of their kinds: {listed}"
        )


def _table(value: object, where: str) -> Table:
    if not isinstance(value, Mapping):
        raise TopologyError(f"{where}: give a table, as containerlab's topology files have")
    return value


def _node(topology: Table, label: str, node: object) -> JsonObject:
    """The node with its own kind, else its group's, else the default."""
    where = f"topology.nodes.{label[:60]}"
    fields = {} if node is None else dict(_table(node, where))
    group = fields.get("group")
    if group is not None and not isinstance(group, str):
        raise TopologyError(f"{where}.group: give text")
    groups = _table(topology.get("groups") or {}, "topology.groups")
    shared = _table(groups.get(group or "") or {}, f"topology.groups.{group}")
    defaults = _table(topology.get("defaults") or {}, "topology.defaults")
    kind = fields.pop("kind", None) or shared.get("kind") or defaults.get("kind")
    if kind is not None and not isinstance(kind, str):
        raise TopologyError(f"{where}.kind: give text")
    theirs = {"type_name": kind} if kind else {}
    return {**fields, **theirs, "id": label, "kind": "host" if kind == HOST_KIND else "switch"}


def _link(entry: object, where: str, nodes: Table, used: dict[str, str]) -> JsonObject | str:
    """The link, or the one end in the network of a link that leaves it. ``used``: which link has each interface."""
    fields = dict(entry) if isinstance(entry, Mapping) else {}
    single = fields.pop("endpoint", None)
    ends = [single] if single is not None else fields.pop("endpoints", None)
    if (
        not isinstance(ends, Sequence)
        or isinstance(ends, str)
        or len(ends) != (2 if single is None else 1)
    ):
        raise TopologyError(f"{where}: give two endpoints")
    names = [_end(end, where, used) for end in ends]
    inside = [name for name in names if name in nodes]
    for name in names:
        if name not in nodes and (name not in OUTSIDE or not inside):
            raise TopologyError(f"{where}: {name!r} is none of the nodes")
    if len(inside) < 2:
        return inside[0]
    for place, end in enumerate(ends):  # in the long form it may have addresses
        for key, value in end.items() if isinstance(end, Mapping) else ():
            if (pair := {"ipv4": "ips", "mac": "macs"}.get(key)) is not None:
                fields.setdefault(pair, [None, None])[place] = value
            elif key not in ("node", "interface"):
                fields[key] = value
    if str(fields.get("mtu", "")).isdecimal():
        fields["mtu"] = int(fields["mtu"])
    _read_impairments(fields, where)
    return {**fields, "source": names[0], "target": names[1]}


def _read_impairments(fields: JsonObject, where: str) -> None:
    """Rate, delay, jitter and loss of a link, or of its table ``impairments``, as ours."""
    table = (
        dict(fields.pop("impairments"))
        if isinstance(fields.get("impairments"), Mapping)
        else fields
    )
    given = {name: table.pop(name) for name in _IMPAIRMENTS if table.get(name) is not None}
    if table is not fields and table:
        raise TopologyError(
            f"{where}.impairments: {min(table)[:60]!r} is none of {', '.join(_IMPAIRMENTS)}"
        )
    if float(_numeral(given.pop("corruption", "0"), "corruption", where)):
        raise TopologyError(
            f"{where}: a corrupted packet is thrown away by its receiver; write its share as loss"
        )
    if "rate" in given:
        rate = str(given.pop("rate"))
        fields["capacity_bps"] = rate_bps(rate) * (1e3 if is_bare(rate) else 1)
        if not fields["capacity_bps"] > 0:
            raise TopologyError(
                f"{where}: rate {rate[:60]!r} is none; give kbit/s above 0, as 10000"
            )
    if "delay" in given:
        delay = str(given.pop("delay"))
        fields["delay_s"] = math.nan if is_bare(delay) and float(delay) else seconds(delay)
        if not fields["delay_s"] >= 0:
            raise TopologyError(
                f"{where}: delay {delay[:60]!r} is no time with a unit; write it as 5ms"
            )
    if "loss" in given:
        given["loss"] = _numeral(given["loss"], "loss", where)
    fields |= given
    read_parameters(fields, where)


def _numeral(value: object, name: str, where: str) -> str:
    text = str(value).strip().removesuffix("%")
    if not is_bare(text):
        raise TopologyError(f"{where}: {name} {str(value)[:60]!r} is no number; it is in per cent")
    return text


def _end(end: object, where: str, used: dict[str, str]) -> str:
    """The node of an end in the short form (``"node:interface"``) or the long one (``{node:, interface:}``)."""
    if isinstance(end, Mapping):
        name, interface = end.get("node"), end.get("interface")
    elif isinstance(end, str):
        name, _, interface = end.partition(":")
    else:
        name, interface = None, None
    if not isinstance(name, str) or not isinstance(interface, (str, type(None))):
        raise TopologyError(f"{where}: give each endpoint as node:interface")
    if interface and name not in OUTSIDE:
        label = f"{name}:{interface}"
        if label in used:
            raise TopologyError(
                f"{where}: {label!r} is used by {used[label]} too; an interface has one link"
            )
        used[label] = where
    return name
