"""Reads containerlab's topology files (YAML).

Nodes of kind ``linux`` are hosts, all others switches; links have both directions. Nodes, links and
kinds (also those of groups and defaults) are read. All other fields of nodes and links become
attributes.

All scalars of YAML are text, as programs in Go read them: ``no``, ``010`` and ``007`` are words.
Tags are ignored. Aliases share their value, but they count as if it were written out, so that a few
lines cannot stand for millions of values.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from topologies.errors import TopologyError
from topologies.files.foreign import some
from topologies.mininet.parameters import hand_over_addresses, read_parameters
from topologies.text.json_types import Json, JsonObject
from topologies.text.units import is_bare, rate_bps, seconds

# Maximum number of characters of a file.
MAX_BYTES = 2**22
# Maximum number of values of a document, with its aliases written out.
MAX_VALUES = 200_000
# Maximum depth of nested lists and tables.
_MAX_DEPTH = 100
_MERGE_KEY = "<<"
# Events that are not the beginning of a value.
_OUTER_EVENTS = (
    "StreamStartEvent",
    "DocumentStartEvent",
    "DocumentEndEvent",
    "StreamEndEvent",
)


class _Sized(NamedTuple):
    """A value, and the number of values in it."""

    value: object
    size: int


class _Part(NamedTuple):
    """A value inside another one, and the event with which it begins."""

    event: Any
    value: object


# The values that have an anchor so far. Those without one are under None.
_Anchors = dict[str | None, _Sized]


def parse_yaml(text: str) -> object:
    """Parse a YAML document.

    Returns:
        Dictionaries, lists, text, and None for null and missing values. Merge keys (``<<``) are
        applied.

    Raises:
        TopologyError: The text is not one YAML document, or is too large. The message has the
            number of the line.
        ModuleNotFoundError: PyYAML (the extra ``networks``) is not installed.
    """
    import yaml  # type: ignore[import-untyped,unused-ignore]

    if len(text) > MAX_BYTES:
        raise TopologyError(f"it is longer than {MAX_BYTES} characters; make it smaller")
    # The C parser is faster but not always built.
    events = iter(yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    documents = []
    try:
        for event in events:
            if type(event).__name__ not in _OUTER_EVENTS:
                documents.append(_read_value(event, events, {}).value)
    except yaml.YAMLError as error:
        raise TopologyError(f"not YAML ({' '.join(str(error).split())[:120]})") from error
    if len(documents) != 1:
        raise TopologyError(f"{len(documents)} YAML documents; leave exactly one")
    return documents[0]


def _read_value(event: Any, events: Iterator[Any], anchors: _Anchors, depth: int = 1) -> _Sized:
    """Read one value.

    Args:
        event: The event with which the value begins.
        events: The events after it; those of the value are consumed.
        anchors: The values that have an anchor so far; this value is added.
        depth: Depth of the value in lists and tables.
    """
    kind = type(event).__name__
    if kind == "AliasEvent":
        if event.anchor not in anchors:
            raise _error_at(
                event, f"the alias {event.anchor[:60]!r} is not defined before it is used"
            )
        return anchors[event.anchor]
    if kind == "ScalarEvent":
        scalar = event.value
        if event.implicit[0] and scalar in ("", "~", "null", "Null", "NULL"):
            scalar = None
        anchors[event.anchor] = _Sized(scalar, 1)
        return anchors[event.anchor]
    if depth > _MAX_DEPTH:
        raise _error_at(event, f"more than {_MAX_DEPTH} nested lists and tables")
    parts: list[_Part] = []
    size = 1
    while type(inner := next(events)).__name__ not in ("SequenceEndEvent", "MappingEndEvent"):
        part = _read_value(inner, events, anchors, depth + 1)
        parts.append(_Part(inner, part.value))
        size += part.size
        if size > MAX_VALUES:
            raise _error_at(
                inner, f"with its aliases it stands for more than {MAX_VALUES} values; write less"
            )
    value: object
    if kind == "SequenceStartEvent":
        value = [part.value for part in parts]
    else:
        value = _table_of_parts(parts[::2], parts[1::2])
    anchors[event.anchor] = _Sized(value, size)
    return anchors[event.anchor]


def _table_of_parts(keys: Sequence[_Part], values: Sequence[_Part]) -> JsonObject:
    """Return the dictionary of keys and values; merge keys add what is missing."""
    table: JsonObject = {}
    names: set[str] = set()
    for key, value in zip(keys, values, strict=True):
        if not isinstance(key.value, str | None):
            raise _error_at(
                key.event, "a key must be text (fill in what {{ }} of a template stands for)"
            )
        name = key.value or ""
        if name in names:
            raise _error_at(key.event, f"the key {name[:60]!r} is there twice; keep one")
        names.add(name)
        if name == _MERGE_KEY:
            _merge(table, value.value)
        else:
            table[name] = value.value
    return table


def _merge(table: JsonObject, value: object) -> None:
    """Add the entries of a merge key, which has a table or a list of tables, that are missing."""
    tables = value if isinstance(value, list) else [value]
    for merged in tables:
        if isinstance(merged, dict):
            for name, merged_value in merged.items():
                table.setdefault(name, merged_value)


def _error_at(event: Any, problem: str) -> TopologyError:
    return TopologyError(f"line {event.start_mark.line + 1}: {problem}")


# The kind of containerlab that is a host.
HOST_KIND = "linux"
# Kinds of containerlab that are switches there too.
BRIDGES = ("bridge", "ovs-bridge")
# The impairments of links, in the units of ``containerlab tools netem set``: the rate is in kbit/s,
# the loss in per cent, and times have their unit.
_IMPAIRMENTS = ("rate", "delay", "jitter", "loss", "corruption")
# The keys of addresses at one end of a link, and our keys for the addresses of both ends.
_ADDRESSES = {"ipv4": "ips", "mac": "macs"}
# Names that stand for the far end of a link that leaves the lab.
OUTSIDE = ("host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy")

# The keys by which YAML files of other programs are recognised.
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
    """Return the node-link document of a file whose ``topology`` has ``nodes`` and ``links``.

    Links that leave the network are left out. Hosts with several links forward. A node of a
    vendor's kind is a switch without the vendor's software.

    Args:
        text: The content of the file.
        notes: The list to which a note about each of these changes is appended.

    Raises:
        TopologyError: The file is invalid. The message names the entry.
        ModuleNotFoundError: PyYAML (the extra ``networks``) is not installed.
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
    links = _links(entries, declared, notes)
    _make_routers_forward(nodes, links, notes)
    _note_vendors(nodes, notes)
    mtus = sorted({link["mtu"] for link in links if isinstance(link.get("mtu"), int)})
    if mtus:
        notes.append(
            f"mtu (links) of {' or '.join(map(str, mtus))}: all links of a run have one, which"
            " `up` takes as --mtu"
        )
    hand_over_addresses(nodes, links)
    graph = {"name": name} if name else {}
    return {"directed": False, "multigraph": True, "graph": graph, "nodes": nodes, "links": links}


def _refuse_other_programs(file: Table) -> None:
    """Refuse a YAML file of another program, which is recognised by its keys."""
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


def _links(entries: Sequence[object], nodes: Table, notes: list[str]) -> list[JsonObject]:
    """Return the links between nodes, and note the nodes with links that leave the network."""
    links: list[JsonObject] = []
    used_interfaces: dict[str, str] = {}
    nodes_with_link_outside: dict[str, None] = {}
    for number, entry in enumerate(entries):
        link = _link(entry, f"topology.links[{number}]", nodes, used_interfaces)
        if isinstance(link, str):
            nodes_with_link_outside[link] = None
        else:
            links.append(link)
    if nodes_with_link_outside:
        names = some(nodes_with_link_outside)
        notes.append(f"left out: links out of the network, at {names}")
    return links


def _make_routers_forward(
    nodes: list[JsonObject], links: list[JsonObject], notes: list[str]
) -> None:
    """Let the hosts with several links forward, and note them."""
    link_count: Counter[str] = Counter()
    for link in links:
        link_count[link["source"]] += 1
        link_count[link["target"]] += 1
    routers = [node for node in nodes if node["kind"] == "host" and link_count[node["id"]] > 1]
    for node in routers:
        node["forwarding"] = True
    if routers:
        names = some(node["id"] for node in routers)
        notes.append(
            f"hosts (kind {HOST_KIND}) with several links, which forward over shortest paths:"
            f" {names}"
        )


def _note_vendors(nodes: list[JsonObject], notes: list[str]) -> None:
    """Note the switches whose kinds have software of a vendor, which is not run."""
    nodes_by_kind: dict[str, list[str]] = {}
    for node in nodes:
        kind = node.get("type_name")
        if node["kind"] == "switch" and kind is not None and kind not in BRIDGES:
            nodes_by_kind.setdefault(kind, []).append(node["id"])
    if nodes_by_kind:
        listed = "; ".join(f"{kind} ({some(names, 3)})" for kind, names in nodes_by_kind.items())
        notes.append(
            f"Open vSwitch switches, without the images and configurations of their kinds: {listed}"
        )


def _table(value: object, where: str) -> Table:
    if not isinstance(value, Mapping):
        raise TopologyError(f"{where}: give a table, as containerlab's topology files have")
    return value


def _node(topology: Table, label: str, node: object) -> JsonObject:
    """Return the entry of a node; its kind may be its own, or that of its group or of the defaults.

    Args:
        topology: The table ``topology``.
        label: Name of the node.
        node: The value of the node in the file.
    """
    where = f"topology.nodes.{label[:60]}"
    fields = {} if node is None else dict(_table(node, where))
    group = fields.get("group")
    if group is not None and not isinstance(group, str):
        raise TopologyError(f"{where}.group: give text")
    groups = _table(topology.get("groups") or {}, "topology.groups")
    group_fields = _table(groups.get(group or "") or {}, f"topology.groups.{group}")
    defaults = _table(topology.get("defaults") or {}, "topology.defaults")
    kind = fields.pop("kind", None) or group_fields.get("kind") or defaults.get("kind")
    if kind is not None and not isinstance(kind, str):
        raise TopologyError(f"{where}.kind: give text")
    if kind:
        fields["type_name"] = kind
    fields["id"] = label
    fields["kind"] = "switch"
    if kind == HOST_KIND:
        fields["kind"] = "host"
    return fields


def _link(
    entry: object, where: str, nodes: Table, used_interfaces: dict[str, str]
) -> JsonObject | str:
    """Return the entry of a link.

    Args:
        entry: The value of the link in the file.
        where: Its position, for messages.
        nodes: The table of nodes.
        used_interfaces: The position of the link that has each interface; it is extended.

    Returns:
        For a link that leaves the network, the name of its one node.
    """
    fields = dict(entry) if isinstance(entry, Mapping) else {}
    single_end = fields.pop("endpoint", None)
    ends = _ends(single_end, fields, where)
    names = [_node_of_end(end, where, used_interfaces) for end in ends]
    names_inside = [name for name in names if name in nodes]
    for name in names:
        if name not in nodes and (name not in OUTSIDE or not names_inside):
            raise TopologyError(f"{where}: {name!r} is none of the nodes")
    if len(names_inside) < 2:
        return names_inside[0]
    for index, end in enumerate(ends):
        # An end in the long form may have addresses and other fields.
        if isinstance(end, Mapping):
            _read_fields_of_end(fields, index, end)
    if str(fields.get("mtu", "")).isdecimal():
        fields["mtu"] = int(fields["mtu"])
    _read_impairments(fields, where)
    return {**fields, "source": names[0], "target": names[1]}


def _ends(single_end: object, fields: JsonObject, where: str) -> Sequence[object]:
    """Return the ends of a link: the value of ``endpoint``, or the two values of ``endpoints``."""
    if single_end is not None:
        return [single_end]
    ends = fields.pop("endpoints", None)
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise TopologyError(f"{where}: give two endpoints")
    return ends


def _read_fields_of_end(fields: JsonObject, index: int, end: Table) -> None:
    """Add the fields of an end in the long form to the fields of its link.

    Args:
        fields: The fields of the link.
        index: 0 for the source, 1 for the target.
        end: The fields of the end.
    """
    for key, value in end.items():
        if key in _ADDRESSES:
            fields.setdefault(_ADDRESSES[key], [None, None])[index] = value
        elif key not in ("node", "interface"):
            fields[key] = value


def _read_impairments(fields: JsonObject, where: str) -> None:
    """Convert the rate, the delay, the jitter and the loss of a link to fields of the testbed.

    Args:
        fields: The fields of the link, which have these values themselves or in a table
            ``impairments``.
        where: Position of the link, for messages.
    """
    table = fields
    if isinstance(fields.get("impairments"), Mapping):
        table = dict(fields.pop("impairments"))
    values: JsonObject = {}
    for name in _IMPAIRMENTS:
        if table.get(name) is not None:
            values[name] = table.pop(name)
    if table is not fields and table:
        raise TopologyError(
            f"{where}.impairments: {min(table)[:60]!r} is none of {', '.join(_IMPAIRMENTS)}"
        )
    if float(_per_cent(values.pop("corruption", "0"), "corruption", where)):
        raise TopologyError(
            f"{where}: a corrupted packet is discarded by its receiver; write its share as loss"
        )
    if "rate" in values:
        fields["capacity_bps"] = _capacity_bps(str(values.pop("rate")), where)
    if "delay" in values:
        fields["delay_s"] = _delay_s(str(values.pop("delay")), where)
    if "loss" in values:
        values["loss"] = _per_cent(values["loss"], "loss", where)
    fields |= values
    read_parameters(fields, where)


def _capacity_bps(rate: str, where: str) -> float:
    """Return the bits per second of a rate, which is in kbit/s if it has no unit."""
    capacity_bps = rate_bps(rate)
    if is_bare(rate):
        capacity_bps *= 1e3
    # NaN is not above 0 either.
    if not capacity_bps > 0:
        raise TopologyError(
            f"{where}: rate {rate[:60]!r} is not a rate; give kbit/s above 0, as 10000"
        )
    return capacity_bps


def _delay_s(delay: str, where: str) -> float:
    """Return the seconds of a delay, which must have a unit unless it is 0."""
    has_no_unit = is_bare(delay) and float(delay) != 0
    delay_s = seconds(delay)
    # NaN is not at least 0 either.
    if has_no_unit or not delay_s >= 0:
        raise TopologyError(
            f"{where}: delay {delay[:60]!r} is not a time with a unit; write it as 5ms"
        )
    return delay_s


def _per_cent(value: object, name: str, where: str) -> str:
    """Return the text of a number in per cent, without its sign."""
    text = str(value).strip().removesuffix("%")
    if not is_bare(text):
        raise TopologyError(
            f"{where}: {name} {str(value)[:60]!r} is not a number; it is in per cent"
        )
    return text


def _node_of_end(end: object, where: str, used_interfaces: dict[str, str]) -> str:
    """Return the node of one end of a link, and refuse an interface that has a link already.

    Args:
        end: The end in the short form (``"node:interface"``) or the long form (a table with
            ``node`` and ``interface``).
        where: Position of the link, for messages.
        used_interfaces: The position of the link that has each interface; it is extended.
    """
    name: object = None
    interface: object = None
    if isinstance(end, Mapping):
        name = end.get("node")
        interface = end.get("interface")
    elif isinstance(end, str):
        name, _, interface = end.partition(":")
    if not isinstance(name, str) or not isinstance(interface, (str, type(None))):
        raise TopologyError(f"{where}: give each endpoint as node:interface")
    if interface and name not in OUTSIDE:
        label = f"{name}:{interface}"
        if label in used_interfaces:
            raise TopologyError(
                f"{where}: {label!r} is used by {used_interfaces[label]} too;"
                " an interface has one link"
            )
        used_interfaces[label] = where
    return name
