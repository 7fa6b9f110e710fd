"""Networks of containerlab's topology files (YAML): nodes of kind ``linux`` are hosts, all others switches; links have
both directions.

What is kept: nodes, kinds (also by group or default), links; whatever else nodes and links have stays as attributes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from topologies.errors import TopologyError
from topologies.files.foreign import some
from topologies.files.yaml_text import parse_yaml
from topologies.text.json_types import Json, JsonObject

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
