"""Networks of containerlab's topology files (YAML): nodes of kind ``linux`` are hosts, all others switches; links have
both directions.

What is kept: nodes, kinds (also by group or default), links; whatever else nodes and links have stays as attributes.
All scalars of YAML are text, as programs in Go read it: ``no``, ``010`` and ``007`` are words; nothing is made of tags.
Aliases share what they stand for, but count as if written out: a few lines cannot stand for millions of values.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from topologies.errors import TopologyError
from topologies.files.foreign import some
from topologies.text.json_types import Json, JsonObject

MAX_BYTES = 2**22
MAX_VALUES = 200_000
"""Values of a document with its aliases written out."""
_DEPTH = 100
_MERGE = "<<"


class _Open:
    """A list or table that is being read: its value, how many values are in it, and a table's key that waits for its
    value."""

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value, self.anchor, self.size = value, anchor, 1
        self.key: str | None = None
        self.given: set[str] = set()

    def take(self, value: Any, size: int, line: int) -> None:
        """The next entry, or the next key or its value."""
        self.size += size
        if self.size > MAX_VALUES:
            raise TopologyError(
                f"line {line}: with its aliases it stands for more than {MAX_VALUES} values; write less"
            )
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is None:
            if not isinstance(value, str) and value is not None:
                raise TopologyError(
                    f"line {line}: a key must be text (fill in what {{{{ }}}} of a template stands for)"
                )
            self.key = value or ""
            if self.key in self.given:
                raise TopologyError(f"line {line}: the key {self.key[:60]!r} is there twice; keep one")
            self.given.add(self.key)
        else:
            self._set(self.key, value)
            self.key = None

    def _set(self, key: str, value: Any) -> None:
        if key != _MERGE:
            self.value[key] = value
            return
        for table in value if isinstance(value, list) else [value]:
            for name, inside in table.items() if isinstance(table, dict) else ():
                self.value.setdefault(name, inside)


def parse_yaml(text: str) -> Any:
    """The value of a YAML document: tables, lists, text, and None for null and nothing. Merge keys (``<<``) are obeyed.

    Raises TopologyError, which names the line; ModuleNotFoundError where PyYAML (the extra ``networks``) is not
    installed.
    """
    import yaml  # type: ignore[import-untyped,unused-ignore]

    if len(text) > MAX_BYTES:
        raise TopologyError(f"it is longer than {MAX_BYTES} signs; make it smaller")
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    root = _Open([], None)
    inside = [root]
    anchors: dict[str | None, tuple[Any, int]] = {}  # None: of all that have no name, for which no alias stands
    try:
        for event in yaml.parse(text, Loader=loader):
            kind, line = type(event).__name__, event.start_mark.line + 1
            if kind in ("MappingStartEvent", "SequenceStartEvent"):
                if len(inside) > _DEPTH:
                    raise TopologyError(f"line {line}: more than {_DEPTH} lists and tables in each other")
                inside.append(_Open({} if kind.startswith("Map") else [], event.anchor))
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                done = inside.pop()
                anchors[done.anchor] = (done.value, done.size)
                inside[-1].take(done.value, done.size, line)
            elif kind == "ScalarEvent":
                value = None if event.implicit[0] and event.value in ("", "~", "null", "Null", "NULL") else event.value
                anchors[event.anchor] = (value, 1)
                inside[-1].take(value, 1, line)
            elif kind == "AliasEvent":
                if event.anchor not in anchors:
                    raise TopologyError(f"line {line}: the alias {event.anchor[:60]!r} stands for nothing before it")
                inside[-1].take(*anchors[event.anchor], line)
    except yaml.YAMLError as error:
        raise TopologyError(f"not YAML ({' '.join(str(error).split())[:120]})") from error
    if len(root.value) != 1:
        raise TopologyError(f"{len(root.value)} YAML documents; leave exactly one")
    return root.value[0]


HOST_KIND = "linux"
OUTSIDE = ("host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy")
"""What stands in the place of a node in links that leave the lab."""

Table = Json


def containerlab_document(text: str, notes: list[str]) -> JsonObject:
    """The node-link document of a file whose ``topology`` has ``nodes`` and ``links``.

    ``notes``: links that leave the network are left out, and hosts with several links do not forward. Raises
    TopologyError naming the entry; ModuleNotFoundError where PyYAML (the extra ``networks``) is not installed.
    """
    file = _table(parse_yaml(text), "the file")
    name = file.get("name")
    if name is not None and not isinstance(name, str):
        raise TopologyError("name: give text")
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
    routers = [node["id"] for node in nodes if node["kind"] == "host" and ends[node["id"]] > 1]
    if routers:
        notes.append(f"hosts (kind {HOST_KIND}) with several links, which do not forward: {some(routers)}")
    graph = {"name": name} if name else {}
    return {"directed": False, "multigraph": True, "graph": graph, "nodes": nodes, "links": links}


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
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != (2 if single is None else 1):
        raise TopologyError(f"{where}: give two endpoints")
    names = [_end(end, where, used) for end in ends]
    inside = [name for name in names if name in nodes]
    for name in names:
        if name not in nodes and (name not in OUTSIDE or not inside):
            raise TopologyError(f"{where}: {name!r} is none of the nodes")
    if len(inside) < 2:
        return inside[0]
    if str(fields.get("mtu", "")).isdecimal():
        fields["mtu"] = int(fields["mtu"])
    return {**fields, "source": names[0], "target": names[1]}


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
            raise TopologyError(f"{where}: {label!r} is used by {used[label]} too; an interface has one link")
        used[label] = where
    return name
