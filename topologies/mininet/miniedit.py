"""Converts MiniEdit's files to node-link documents.

MiniEdit writes ``.mn`` files: JSON with ``hosts``, ``switches`` and ``links``, whose entries have
``opts``.
"""

import ipaddress
from contextlib import suppress
from typing import Any

from topologies.errors import TopologyError
from topologies.mininet.topo import link_entry, note_rest
from topologies.text.json_types import Json, JsonObject

# The subnet of hosts in Mininet and here, if a file has no other.
_DEFAULT_SUBNET = "10.0.0.0/8"
_ROUTER = "legacyRouter"
_COMMANDS = ("startCommand", "stopCommand")
# Options of hosts that have no effect here, and are noted.
_UNREAD_OPTIONS = (
    "externalInterfaces",
    "vlanInterfaces",
    "privateDirectory",
    "cpu",
    "cores",
    *_COMMANDS,
)
# The options of nodes that are read, and their names here.
_READ_OPTIONS = {"ip": "ip", "dpid": "dpid", "defaultRoute": "default_route"}
# The names of the nodes that have each unread option.
_UnreadOptions = dict[str, list[str]]


def is_miniedit(document: object) -> bool:
    """Return whether a document is one of MiniEdit.

    It has the lists of hosts, switches and links, and the preferences (``application``) or a host
    or switch with ``opts``.
    """
    if not isinstance(document, dict) or "nodes" in document:
        return False
    if not {"hosts", "switches", "links"} <= document.keys():
        return False
    if "application" in document:
        return True
    entries: list[object] = []
    for part in ("hosts", "switches"):
        if isinstance(document[part], list):
            entries += document[part]
    return any(isinstance(entry, dict) and "opts" in entry for entry in entries)


def miniedit_document(document: Json, notes: list[str]) -> JsonObject:
    """Return the node-link document of a MiniEdit document.

    A legacy router is a host that forwards; any other switch is a switch.

    Args:
        document: The content of MiniEdit's file.
        notes: The list to which notes about parts that are not read are appended.

    Raises:
        TopologyError: An entry is invalid. The message names it.
    """
    nodes: list[JsonObject] = []
    unread_options: _UnreadOptions = {}
    for part, kind in (("hosts", "host"), ("switches", "switch")):
        for number, entry in enumerate(_entries(document, part)):
            nodes.append(_node(entry, f"{part}[{number}]", kind, unread_options))
    _set_addresses(nodes, document.get("application"), notes)
    controllers = set()
    for entry in _entries(document, "controllers"):
        controllers.add(_options(entry, "controllers").get("hostname"))
    links: list[JsonObject] = []
    for number, entry in enumerate(_entries(document, "links")):
        link = _link(entry, f"links[{number}]", controllers, notes)
        if link is not None:
            links.append(link)
    note_rest({}, links, notes)
    for option, names in unread_options.items():
        notes.append(f"{option} of {', '.join(dict.fromkeys(names))} is left out")
    if controllers:
        notes.append("controllers are left out: the testbed's own sets the switches up")
    return {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "links": links}


def _link(entry: Any, location: str, controllers: set[Any], notes: list[str]) -> JsonObject | None:
    """Return the entry of a link, or None if one of its ends is a controller.

    Args:
        entry: The entry of MiniEdit.
        location: Its position in the file, for messages.
        controllers: The names of the controllers.
        notes: The list to which notes are appended.
    """
    options = _options(entry, location)
    ends = [entry.get("src"), entry.get("dest")]
    if not all(isinstance(end, str) and end for end in ends):
        raise TopologyError(f"{location}: give src and dest, the names of two nodes")
    if controllers & set(ends):
        return None
    # An option that is not set has an empty value. The speed-up is a setting of the drawing.
    options_set = {key: value for key, value in options.items() if value not in ("", None)}
    options_set.pop("speedup", None)
    return link_entry(ends[0], ends[1], options_set, notes, {})


def _set_addresses(nodes: list[JsonObject], application: Any, notes: list[str]) -> None:
    """Give each host without an address the one that Mininet would choose.

    Args:
        nodes: The entries of all nodes.
        application: The preferences, whose ``ipBase`` is the subnet of the hosts.
        notes: The list to which a note about an invalid subnet is appended.
    """
    text = application.get("ipBase") if isinstance(application, dict) else None
    if not isinstance(text, str) or text.strip() in ("", _DEFAULT_SUBNET):
        return
    try:
        interface = ipaddress.IPv4Interface(text.strip())
    except ValueError:
        notes.append(f"ipBase {text[:60]!r} is no subnet; hosts get addresses as usual")
        return
    subnet = interface.network
    # Numbering begins with the address that is written, or with 1 if it is that of the subnet.
    first = int(interface.ip) - int(subnet.network_address) or 1
    hosts = [node for node in nodes if node["kind"] == "host"]
    for number, node in enumerate(hosts, start=first):
        address = subnet.network_address + number
        if "ip" not in node and "forwarding" not in node and address in subnet:
            node["ip"] = f"{address}/{subnet.prefixlen}"


def _node(entry: Any, location: str, kind: str, unread_options: _UnreadOptions) -> JsonObject:
    """Return the entry of a node.

    Args:
        entry: The entry of MiniEdit.
        location: Its position in the file, for messages.
        kind: "host" or "switch"; a legacy router becomes a host in any case.
        unread_options: Takes the name of the node for each option that is not read.
    """
    options = _options(entry, location)
    # A node without a name is called as MiniEdit shows it: h1 or s1.
    name = options.get("hostname") or f"{kind[0]}{entry.get('number', '')}"
    node: JsonObject = {"id": name, "kind": kind}
    # A node without valid coordinates has no position. On a screen, y counts downwards.
    with suppress(KeyError, TypeError, ValueError):
        node["position"] = [float(entry["x"]), -float(entry["y"])]
    for option, key in _READ_OPTIONS.items():
        if options.get(option):
            node[key] = options[option]
    if options.get("switchType") == _ROUTER:
        node |= {"kind": "host", "forwarding": True}
    unread = _UNREAD_OPTIONS if kind == "host" else _COMMANDS
    for option in unread:
        if options.get(option):
            unread_options.setdefault(option, []).append(str(name))
    return node


def _entries(document: Json, part: str) -> list[Any]:
    """Return a list of entries; the first version of MiniEdit wrote controllers as an object."""
    entries = document.get(part, [])
    if isinstance(entries, dict):
        entries = [
            {"opts": {**options, "hostname": name}}
            for name, options in entries.items()
            if isinstance(options, dict)
        ]
    if not isinstance(entries, list):
        raise TopologyError(f"{part}: must be a list, as MiniEdit writes it")
    return entries


def _options(entry: Any, location: str) -> JsonObject:
    if isinstance(entry, dict):
        options = entry.get("opts", {})
        if isinstance(options, dict):
            return options
    raise TopologyError(f"{location}: must be an object with opts, as MiniEdit writes it")
