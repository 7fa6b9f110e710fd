"""Addresses that a file gives its hosts: IPv4 addresses with or without a prefix length, and a MAC address; and its
switches' datapath ids.

A host has one main address, the first: plans, rules and streams know it by that. Others are reachable next to it.
"""

import ipaddress
import re

from topologies.errors import TopologyError

_MAC = re.compile(r"[0-9a-f]{1,2}(?:([:.-])[0-9a-f]{1,2})(?:\1[0-9a-f]{1,2}){4}")
_CISCO_MAC = re.compile(r"[0-9a-f]{4}([.:-])[0-9a-f]{4}\1[0-9a-f]{4}|[0-9a-f]{12}")
_DPID = re.compile(r"[0-9a-fA-F]{1,16}")
_SEPARATOR = re.compile(r"[,\s]+")


def ipv4_addresses(value: object) -> tuple[tuple[str, int], ...]:
    """(address, prefix length) of each address of a text or list, 32 where none is given.

    Raises TopologyError for what is no IPv4 address of a host, or is there twice.

    >>> ipv4_addresses("192.168.1.10/24, 10.0.0.1")
    (('192.168.1.10', 24), ('10.0.0.1', 32))
    """
    listed = _SEPARATOR.split(value.strip()) if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not listed:
        raise TopologyError(
            f"ip {value!r} is no address; write 10.0.0.1, 10.0.0.1/24, or a list of such"
        )
    found: dict[str, int] = {}
    for one in listed:
        try:
            known = ipaddress.IPv4Interface(one if isinstance(one, str) else "")
        except ValueError:
            raise TopologyError(
                f"ip {one!r} is no IPv4 address; write 10.0.0.1 or 10.0.0.1/24"
            ) from None
        address, subnet = known.ip, known.network
        borders = (
            (subnet.network_address, subnet.broadcast_address) if subnet.prefixlen < 31 else ()
        )
        if (
            address.is_multicast
            or address.is_loopback
            or address.is_reserved
            or address in borders
            or int(address) < 1
        ):
            raise TopologyError(
                f"ip {one!r} is no address that a host can have; choose one within its subnet"
            )
        if str(address) in found:
            raise TopologyError(f"ip {one!r} is there twice; leave one out")
        found[str(address)] = subnet.prefixlen
    return tuple(found.items())


def mac_address(value: object) -> str:
    """Return a MAC address in the usual form.

    Leading zeros may be missing, dashes may stand for colons, and the digits may be in groups of
    four, as Cisco writes them.

    Raises:
        TopologyError: The value is no address of one interface.

    >>> mac_address("02-00-00-00-0-A"), mac_address("0011.2233.4455")
    ('02:00:00:00:00:0a', '00:11:22:33:44:55')
    """
    text = value.strip().lower() if isinstance(value, str) else ""
    digits = ""
    if _CISCO_MAC.fullmatch(text):
        digits = re.sub("[.:-]", "", text)
    elif _MAC.fullmatch(text):
        digits = "".join(group.zfill(2) for group in re.split("[.:-]", text))
    is_group = bool(digits) and bool(int(digits[:2], 16) & 1)
    if not digits or is_group or not int(digits, 16):
        raise TopologyError(
            f"mac {value!r} is no address of one interface; write it as 02:00:00:00:00:01"
        )
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def packed_mac(mac: str) -> bytes:
    """A MAC address as packets and the kernel have it.

    >>> packed_mac("02:00:00:00:00:0a").hex()
    '02000000000a'
    """
    return bytes.fromhex(mac.replace(":", ""))


def datapath_id(value: object) -> int:
    """An OpenFlow datapath id as Mininet takes it: text of hexadecimal digits. TopologyError for any other value and
    for 0, which Open vSwitch does not take.

    >>> datapath_id("1f"), datapath_id("00:00:00:00:00:00:00:0a")
    (31, 10)
    """
    text = value.replace(":", "") if isinstance(value, str) else ""
    if not _DPID.fullmatch(text) or not int(text, 16):
        raise TopologyError(
            f"dpid {value!r} is no datapath id; write 1 to 16 hexadecimal digits as text, not 0"
        )
    return int(text, 16)
