"""Shell commands by which Mininet programs give interfaces their addresses."""

import ipaddress
import re
from typing import NamedTuple

_PATH = r"(?:sudo\s+)?(?:/usr)?(?:/sbin/|/bin/)?"
_ADDRESS = r"(?P<address>\d+(?:\.\d+){3}(?:/\d+)?)"
_IFCONFIG = re.compile(
    rf"{_PATH}ifconfig\s+(?P<interface>\S+)\s+(?:inet\s+)?{_ADDRESS}"
    r"(?:\s+(?:netmask\s+(?P<netmask>[\d.]+)|broadcast\s+[\d.]+|up))*"
)
_IP_ADDRESS = re.compile(
    rf"{_PATH}ip\s+(?:-4\s+)?(?:a|addr|address)\s+(?:add|replace)\s+(?:local\s+)?{_ADDRESS}"
    r"(?:\s+(?:brd|broadcast)\s+\S+)?\s+dev\s+(?P<interface>\S+)"
)
_SEPARATOR = re.compile(r"\s*(?:;|&&|\n)\s*")


class AddressCommand(NamedTuple):
    """A command that gives an interface an IPv4 address.

    Attributes:
        interface: Name of the interface.
        address: The address with the length of its prefix, as ``10.0.0.1/8``.
        replaces: Whether the address takes the place of one that the interface has already.
    """

    interface: str
    address: str
    replaces: bool


def address_commands(command: str) -> list[AddressCommand] | None:
    """Return what a shell command does to addresses; None unless that is all that it does.

    >>> address_commands("ifconfig h1-eth0 10.0.1.5 netmask 255.255.255.0 up")
    [AddressCommand(interface='h1-eth0', address='10.0.1.5/24', replaces=True)]
    >>> address_commands("ip addr add 10.0.1.5/24 dev h1-eth1 && ip route add default via 10.0.1.1")
    """
    parts = [part for part in _SEPARATOR.split(command.strip()) if part]
    commands = [_address_command(part) for part in parts]
    read = [one for one in commands if one is not None]
    return read if read and len(read) == len(parts) else None


def _address_command(command: str) -> AddressCommand | None:
    match = _IFCONFIG.fullmatch(command)
    replaces = match is not None
    if match is None:
        match = _IP_ADDRESS.fullmatch(command)
    if match is None:
        return None
    address = match["address"]
    if replaces and "/" not in address:
        address += f"/{match['netmask'] or _prefix_of_class(address)}"
    try:
        interface_address = ipaddress.IPv4Interface(address)
    except ValueError:
        return None
    if interface_address.ip.is_unspecified:
        return None
    return AddressCommand(match["interface"], interface_address.with_prefixlen, replaces)


def _prefix_of_class(address: str) -> int:
    """Return the prefix length that ifconfig takes if none is given: that of the address's class."""
    first = int(address.partition(".")[0])
    if first < 128:
        return 8
    return 16 if first < 192 else 24
