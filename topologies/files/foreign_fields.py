"""Reads fields of nodes that other programs may fill with anything.

These are positions, addresses, datapath ids and ``forwarding``. A value that is valid gets the form
that ``Node`` requires. Any other value is kept as an attribute under another name, and noted.
"""

import ast
import re
from collections.abc import Iterable
from typing import Any

from topologies.errors import TopologyError
from topologies.text.addresses import datapath_id, ipv4_addresses, mac_address
from topologies.text.json_types import JsonObject

# Ends the name of an attribute whose value is not valid.
AS_WRITTEN = "_as_written"
# The number of fields that a note lists, and the number of characters of each value.
_MAX_LISTED = 6
_MAX_CHARACTERS = 40
_TRUTH = {"true": True, "yes": True, "on": True, "1": True}
_TRUTH |= {"false": False, "no": False, "off": False, "0": False, "": False}
_SEPARATOR = re.compile(r"[,;\s]+")
_MASK = re.compile(r"(?<=\d)\s+(?=255\.\d)|\s*/\s*")
_TUPLE = re.compile(r"\([^()]{1,100}\)")
_COORDINATES = re.compile(r"[\s,]+")
# The names of coordinates, and the number of numbers in the value of each.
_POSITIONS = {"position": 2, "pos": 2, "x": 1, "y": 1, "Longitude": 1, "Latitude": 1}


def truth_value(value: object) -> bool | None:
    """Return the truth value that a text or a number stands for, or None."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str | int):
        return None
    return _TRUTH.get(str(value).strip().lower())


def read_positions(node: JsonObject) -> None:
    """Convert the coordinates of a node from text to numbers, if the text consists of numbers."""
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
    """Return the parts of a tuple that is written as text, such as ``(0, 1)``.

    Returns:
        None if the value is not such a text, or has fewer than two parts.
    """
    if not isinstance(text, str) or not _TUPLE.fullmatch(text):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    if not isinstance(value, tuple) or len(value) < 2:
        return None
    return list(value)


def read_fields(nodes: Iterable[JsonObject], notes: list[str]) -> None:
    """Read the addresses, datapath ids and ``forwarding`` of all nodes.

    A value that is not valid, or that an earlier node has too, is moved to the attribute whose name
    ends in AS_WRITTEN.

    Args:
        nodes: The entries of the nodes, which are changed.
        notes: The list to which notes about values that have been moved are appended.
    """
    # Descriptions of the values that are moved because they are not valid, or not unique.
    unread: list[str] = []
    shared: list[str] = []
    # The first node that has each address.
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
    listing = ", ".join(fields[:_MAX_LISTED])
    if len(fields) > _MAX_LISTED:
        listing += f" and {len(fields) - _MAX_LISTED} more"
    return listing


def _is_first(address: str, node: JsonObject, owners: dict[str, str]) -> bool:
    """Return whether no earlier node has the address; if so, the node becomes its owner."""
    name = str(node.get("id"))
    return owners.setdefault(address, name) == name


def _replace(node: JsonObject, key: str, value: object, unread: list[str]) -> None:
    """Set the value that was read; if it is None, move the original value.

    Args:
        node: The entry of the node.
        key: Key of the value.
        value: The valid value, or None.
        unread: The list to which a description of an invalid value is appended.
    """
    written = node.pop(key)
    if value is None:
        _set_aside(node, key, written)
        unread.append(f"{key} {str(written)[:_MAX_CHARACTERS]!r} of {node.get('id')}")
    else:
        node[key] = value


def _set_aside(node: JsonObject, key: str, written: object) -> None:
    """Store a value under the name that ends in AS_WRITTEN, together with those stored before."""
    name = key + AS_WRITTEN
    if name not in node:
        node[name] = written
        return
    earlier = node[name]
    if not isinstance(earlier, list):
        earlier = [earlier]
    node[name] = [*earlier, written]


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
    if isinstance(written, str):
        parts = _SEPARATOR.split(_MASK.sub("/", written.strip()))
    else:
        parts = written if isinstance(written, list) else [written]
    valid: list[str] = []
    invalid: list[object] = []
    for part in parts:
        try:
            # Together with the earlier ones, because an address must not be there twice.
            ipv4_addresses([*valid, part])
        except TopologyError:
            invalid.append(part)
        else:
            valid.append(part)
    if not invalid:
        # The text may have another form than the addresses that were read: a network mask.
        if not isinstance(written, list):
            node["ip"] = valid[0] if len(valid) == 1 else valid
        return
    node.pop("ip")
    if valid:
        node["ip"] = valid
    _set_aside(node, "ip", invalid[0] if len(invalid) == 1 else invalid)
    unread.append(f"ip {str(invalid[0])[:_MAX_CHARACTERS]!r} of {node.get('id')}")


def _set_shared_addresses_aside(
    node: JsonObject, owners: dict[str, str], shared: list[str]
) -> None:
    """Move the addresses of a host that an earlier host has, and describe them in ``shared``."""
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
    """Return a datapath id as hexadecimal digits, or None if it is not valid.

    An integer is ambiguous from 10 on, because it may be meant as hexadecimal digits.
    """
    text = written
    if isinstance(written, int) and 0 < written < 10:
        text = str(written)
    if isinstance(text, str):
        text = text.strip().lower().removeprefix("of:").removeprefix("0x")
    try:
        return f"{datapath_id(text):x}"
    except TopologyError:
        return None
