"""Parses the IPv4 and MAC addresses of hosts, and the datapath ids of switches, in network files.

A host may have several IPv4 addresses. The first one is its main address, which plans, rules and
streams use. The other addresses are reachable too.
"""

import ipaddress
import re

from topologies.errors import TopologyError

_MAC = re.compile(r"[0-9a-f]{1,2}(?:([:.-])[0-9a-f]{1,2})(?:\1[0-9a-f]{1,2}){4}")
_CISCO_MAC = re.compile(r"[0-9a-f]{4}([.:-])[0-9a-f]{4}\1[0-9a-f]{4}|[0-9a-f]{12}")
_DPID = re.compile(r"[0-9a-fA-F]{1,16}")
_SEPARATOR = re.compile(r"[,\s]+")


def ipv4_addresses(value: object) -> tuple[tuple[str, int], ...]:
    """Parse the IPv4 addresses of a host.

    Args:
        value: A text of addresses with commas or spaces between them, or a list of addresses. Each
            may have a prefix length.

    Returns:
        The address and the prefix length of each; the length is 32 if none is given.

    Raises:
        TopologyError: An entry is not an IPv4 address that a host can have, or is listed twice.

    >>> ipv4_addresses("192.168.1.10/24, 10.0.0.1")
    (('192.168.1.10', 24), ('10.0.0.1', 32))
    """
    entries = _SEPARATOR.split(value.strip()) if isinstance(value, str) else value
    if not isinstance(entries, (list, tuple)) or not entries:
        raise TopologyError(
            f"ip {value!r} is not an address; write 10.0.0.1, 10.0.0.1/24, or a list of addresses"
        )
    prefix_lengths: dict[str, int] = {}
    for entry in entries:
        interface = _parse_interface(entry)
        if interface is None:
            raise TopologyError(
                f"ip {entry!r} is not an IPv4 address; write 10.0.0.1 or 10.0.0.1/24"
            )
        if not _is_host_address(interface):
            raise TopologyError(
                f"ip {entry!r} cannot be the address of a host; choose another one in its subnet"
            )
        address = str(interface.ip)
        if address in prefix_lengths:
            raise TopologyError(f"ip {entry!r} is listed twice; remove one")
        prefix_lengths[address] = interface.network.prefixlen
    return tuple(prefix_lengths.items())


def _parse_interface(entry: object) -> ipaddress.IPv4Interface | None:
    if not isinstance(entry, str):
        return None
    try:
        return ipaddress.IPv4Interface(entry)
    except ValueError:
        return None


def _is_host_address(interface: ipaddress.IPv4Interface) -> bool:
    address = interface.ip
    subnet = interface.network
    if address.is_multicast or address.is_loopback or address.is_reserved or int(address) < 1:
        return False
    # Subnets of one or two addresses (RFC 3021) have no network and broadcast address.
    if subnet.prefixlen >= 31:
        return True
    return address not in (subnet.network_address, subnet.broadcast_address)


def mac_address(value: object) -> str:
    """Parse a MAC address, and return it as six groups of two digits with colons between them.

    Leading zeros may be missing. Dashes or dots may stand for colons. The digits may be in groups
    of four, as Cisco writes them, or without any separator.

    Raises:
        TopologyError: The value is not a unicast MAC address.

    >>> mac_address("02-00-00-00-0-A"), mac_address("0011.2233.4455")
    ('02:00:00:00:00:0a', '00:11:22:33:44:55')
    """
    text = value.strip().lower() if isinstance(value, str) else ""
    digits = ""
    if _CISCO_MAC.fullmatch(text):
        digits = re.sub("[.:-]", "", text)
    elif _MAC.fullmatch(text):
        digits = "".join(group.zfill(2) for group in re.split("[.:-]", text))
    # The lowest bit of the first byte marks group (multicast) addresses.
    is_group = bool(digits) and bool(int(digits[:2], 16) & 1)
    if not digits or is_group or not int(digits, 16):
        raise TopologyError(
            f"mac {value!r} is not a unicast MAC address; write it as 02:00:00:00:00:01"
        )
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def packed_mac(mac: str) -> bytes:
    """Return the six bytes of a MAC address, as they stand in frames.

    >>> packed_mac("02:00:00:00:00:0a").hex()
    '02000000000a'
    """
    return bytes.fromhex(mac.replace(":", ""))


def datapath_id(value: object) -> int:
    """Parse an OpenFlow datapath id: hexadecimal digits, as Mininet writes it; colons are ignored.

    Raises:
        TopologyError: The value is not such a text, or is 0, which Open vSwitch does not accept.

    >>> datapath_id("1f"), datapath_id("00:00:00:00:00:00:00:0a")
    (31, 10)
    """
    text = value.replace(":", "") if isinstance(value, str) else ""
    if not _DPID.fullmatch(text) or not int(text, 16):
        raise TopologyError(
            f"dpid {value!r} is not a datapath id; write 1 to 16 hexadecimal digits as text, not 0"
        )
    return int(text, 16)
