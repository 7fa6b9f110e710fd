"""Fields that the testbed reads and that other programs fill with anything: addresses, identifiers, switches on or off.

A value that can be read becomes the form that ``Node`` takes. Any other stays as an attribute of another name, and a
note says so.
"""

import ast
import re
from collections.abc import Iterable
from typing import Any

from topologies.errors import TopologyError
from topologies.text.addresses import datapath_id, ipv4_addresses, mac_address
from topologies.text.json_types import JsonObject

AS_WRITTEN = "_as_written"
"""The end of the name of an attribute whose value cannot be read."""
_LISTED = 6
_SHOWN = 40
_TRUTH = {"true": True, "yes": True, "on": True, "1": True}
_TRUTH |= {"false": False, "no": False, "off": False, "0": False, "": False}
_SEPARATOR = re.compile(r"[,;\s]+")
_MASK = re.compile(r"(?<=\d)\s+(?=255\.\d)|\s*/\s*")
_TUPLE = re.compile(r"\([^()]{1,100}\)")
_COORDINATES = re.compile(r"[\s,]+")
# Coordinates, and how many numbers each holds.
_POSITIONS = {"position": 2, "pos": 2, "x": 1, "y": 1, "Longitude": 1, "Latitude": 1}


def truth_value(value: object) -> bool | None:
    """Return the truth value that a program wrote as text or a number; None for any other value."""
    if isinstance(value, bool):
        return value
    return _TRUTH.get(str(value).strip().lower()) if isinstance(value, str | int) else None


def read_positions(node: JsonObject) -> None:
    """Make numbers of coordinates that are text."""
    for name, count in _POSITIONS.items():
        text = node.get(name)
        if not isinstance(text, str):
            continue
        parts = _COORDINATES.split(text.strip().strip("()[]!").strip())
        try:
            numbers = [float(part) for part in parts]
        except ValueError:
            continue
        if len(numbers) == count:
            node[name] = numbers if count > 1 else numbers[0]


def tuple_of_text(text: object) -> list[Any] | None:
    """Return the parts of a tuple that a program wrote as text, as ``(0, 1)``; None for any other value."""
    if not isinstance(text, str) or not _TUPLE.fullmatch(text):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return list(value) if isinstance(value, tuple) and len(value) > 1 else None


def read_fields(nodes: Iterable[JsonObject], notes: list[str]) -> None:
    """Read addresses, datapath ids and ``forwarding`` of nodes; note the values that are set aside."""
    unread: list[str] = []
    shared: list[str] = []
    owners: dict[str, str] = {}
    for node in nodes:
        if "forwarding" in node:
            _replace(node, "forwarding", truth_value(node["forwarding"]), unread)
        if node.get("kind") == "host":
            _read_mac(node, unread)
            _read_ips(node, unread)
            _set_shared_addresses_aside(node, owners, shared)
        elif "dpid" in node:
            dpid = _read_dpid(node["dpid"])
            _replace(node, "dpid", dpid, unread)
            if dpid is not None and not _is_first(f"dpid {int(dpid, 16)}", node, owners):
                _set_aside(node, "dpid", node.pop("dpid"))
                shared.append(f"dpid {dpid} of {node.get('id')}")
    if unread:
        notes.append(f"kept as attributes, for they cannot be used: {_listed(unread)}")
    if shared:
        notes.append(f"kept as attributes, for an earlier node has the same: {_listed(shared)}")


def _listed(fields: list[str]) -> str:
    more = f" and {len(fields) - _LISTED} more" if len(fields) > _LISTED else ""
    return ", ".join(fields[:_LISTED]) + more


def _is_first(address: str, node: JsonObject, owners: dict[str, str]) -> bool:
    """Return whether no earlier node has the address, and remember the node."""
    name = str(node.get("id"))
    return owners.setdefault(address, name) == name


def _replace(node: JsonObject, key: str, value: object, unread: list[str]) -> None:
    """Set the value that was read, or set the written one aside if it is None."""
    written = node.pop(key)
    if value is None:
        _set_aside(node, key, written)
        unread.append(f"{key} {str(written)[:_SHOWN]!r} of {node.get('id')}")
    else:
        node[key] = value


def _set_aside(node: JsonObject, key: str, written: object) -> None:
    name = key + AS_WRITTEN
    if name in node:
        earlier = node[name]
        written = [*(earlier if isinstance(earlier, list) else [earlier]), written]
    node[name] = written


def _read_mac(node: JsonObject, unread: list[str]) -> None:
    if node.get("mac") in (None, ""):
        node.pop("mac", None)
        return
    try:
        mac = mac_address(node["mac"])
    except TopologyError:
        mac = None
    _replace(node, "mac", mac, unread)


def _read_ips(node: JsonObject, unread: list[str]) -> None:
    written = node.get("ip")
    if written in (None, "", []):
        node.pop("ip", None)
        return
    parts = written
    if isinstance(written, str):
        parts = _SEPARATOR.split(_MASK.sub("/", written.strip()))
    good: list[str] = []
    bad: list[object] = []
    for part in parts if isinstance(parts, list) else [parts]:
        try:
            ipv4_addresses([*good, part])
        except TopologyError:
            bad.append(part)
        else:
            good.append(part)
    if not bad:
        node["ip"] = written if isinstance(written, list) or len(good) > 1 else good[0]
        return
    node.pop("ip")
    if good:
        node["ip"] = good
    _set_aside(node, "ip", bad[0] if len(bad) == 1 else bad)
    unread.append(f"ip {str(bad[0])[:_SHOWN]!r} of {node.get('id')}")


def _set_shared_addresses_aside(
    node: JsonObject, owners: dict[str, str], shared: list[str]
) -> None:
    """Set the addresses of a host aside that an earlier host has."""
    name = node.get("id")
    if "mac" in node and not _is_first(f"mac {node['mac']}", node, owners):
        shared.append(f"mac {node['mac']} of {name}")
        _set_aside(node, "mac", node.pop("mac"))
    addresses = ipv4_addresses(node["ip"]) if "ip" in node else ()
    repeated = [ip for ip, _ in addresses if not _is_first(f"ip {ip}", node, owners)]
    if repeated:
        _set_aside(node, "ip", ", ".join(repeated))
        node.pop("ip")
        remaining = [f"{ip}/{prefix}" for ip, prefix in addresses if ip not in repeated]
        if remaining:
            node["ip"] = remaining
        shared += [f"ip {ip} of {name}" for ip in repeated]


def _read_dpid(written: object) -> str | None:
    """Return hexadecimal digits. A whole number from 10 on is ambiguous and gives None."""
    text = str(written) if isinstance(written, int) and 0 < written < 10 else written
    if isinstance(text, str):
        text = text.strip().lower().removeprefix("of:").removeprefix("0x")
    try:
        return f"{datapath_id(text):x}"
    except TopologyError:
        return None
