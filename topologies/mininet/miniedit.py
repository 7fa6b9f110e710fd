"""MiniEdit's files (.mn: JSON with ``hosts``, ``switches`` and ``links``, each with ``opts``) as networks."""

import ipaddress
from contextlib import suppress
from typing import Any

from topologies.errors import TopologyError
from topologies.mininet.topo import link_entry, note_rest
from topologies.text.json_types import Json, JsonObject

_USUAL_SUBNET = "10.0.0.0/8"
_ROUTER = "legacyRouter"
_COMMANDS = ("startCommand", "stopCommand")
_LEFT_OUT = ("externalInterfaces", "vlanInterfaces", "privateDirectory", "cpu", "cores", *_COMMANDS)
"""What of a host is not done here, and noted."""


def is_miniedit(document: object) -> bool:
    """Whether a document is one of MiniEdit: its three lists, of entries with ``opts``, or its preferences."""
    if (
        not isinstance(document, dict)
        or not {"hosts", "switches", "links"} <= document.keys()
        or "nodes" in document
    ):
        return False
    lists = [document[part] for part in ("hosts", "switches") if isinstance(document[part], list)]
    entries = [one for listed in lists for one in listed]
    return "application" in document or any(
        isinstance(one, dict) and "opts" in one for one in entries
    )


def miniedit_document(document: Json, notes: list[str]) -> JsonObject:
    """The node-link document of MiniEdit's; what is not taken over is added to ``notes``.

    A legacy router is a host that forwards, any other switch a switch. Raises TopologyError, which names the entry.
    """
    nodes, left_out = [], dict[str, dict[str, None]]()
    for part, kind, letter in (("hosts", "host", "h"), ("switches", "switch", "s")):
        for number, entry in enumerate(_listed(document, part)):
            nodes.append(_node(entry, f"{part}[{number}]", kind, letter, left_out))
    _give_addresses(nodes, document.get("application"), notes)
    controllers = {
        _options(one, "controllers").get("hostname") for one in _listed(document, "controllers")
    }
    bare: list[JsonObject] = []
    for number, entry in enumerate(_listed(document, "links")):
        place = f"links[{number}]"
        options = _options(entry, place)
        ends = [entry.get("src"), entry.get("dest")]
        if not all(isinstance(end, str) and end for end in ends):
            raise TopologyError(f"{place}: give src and dest, the names of two nodes")
        if not controllers & set(ends):
            given = {
                key: value
                for key, value in options.items()
                if value not in ("", None) and key != "speedup"
            }
            bare.append(link_entry(ends[0], ends[1], given, notes, {}))
    note_rest({}, bare, notes)
    notes += [f"{name} of {', '.join(hosts)} is left out" for name, hosts in left_out.items()]
    if controllers:
        notes.append("controllers are left out: the testbed's own sets the switches up")
    return {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "links": bare}


def _give_addresses(nodes: list[JsonObject], application: Any, notes: list[str]) -> None:
    """Give hosts without an address the one that Mininet chooses from the subnet of the preferences."""
    subnet = application.get("ipBase") if isinstance(application, dict) else None
    if not isinstance(subnet, str) or subnet.strip() in ("", _USUAL_SUBNET):
        return
    try:
        network = ipaddress.IPv4Interface(subnet.strip())
    except ValueError:
        notes.append(f"ipBase {subnet[:60]!r} is no subnet; hosts get addresses as usual")
        return
    first = int(network.ip) - int(network.network.network_address) or 1
    hosts = [node for node in nodes if node["kind"] == "host"]
    for number, node in enumerate(hosts, start=first):
        address = network.network.network_address + number
        if "ip" not in node and "forwarding" not in node and address in network.network:
            node["ip"] = f"{address}/{network.network.prefixlen}"


def _node(
    entry: Any, place: str, kind: str, letter: str, left_out: dict[str, dict[str, None]]
) -> JsonObject:
    options = _options(entry, place)
    name = options.get("hostname") or f"{letter}{entry.get('number', '')}"
    node: JsonObject = {"id": name, "kind": kind}
    with suppress(KeyError, TypeError, ValueError):
        node["position"] = [float(entry["x"]), -float(entry["y"])]  # a screen counts downwards
    for key, ours in (("ip", "ip"), ("dpid", "dpid"), ("defaultRoute", "default_route")):
        if options.get(key):
            node[ours] = options[key]
    if options.get("switchType") == _ROUTER:
        node |= {"kind": "host", "forwarding": True}
    for key in _LEFT_OUT if kind == "host" else _COMMANDS:
        if options.get(key):
            left_out.setdefault(key, {})[str(name)] = None
    return node


def _listed(document: Json, part: str) -> list[Any]:
    found = document.get(part, [])
    if isinstance(found, dict):  # controllers of the first version
        found = [
            {"opts": {**one, "hostname": name}}
            for name, one in found.items()
            if isinstance(one, dict)
        ]
    if not isinstance(found, list):
        raise TopologyError(f"{part}: must be a list, as MiniEdit writes it")
    return found


def _options(entry: Any, place: str) -> JsonObject:
    options = entry.get("opts", {}) if isinstance(entry, dict) else None
    if not isinstance(options, dict):
        raise TopologyError(f"{place}: must be an object with opts, as MiniEdit writes it")
    return options
