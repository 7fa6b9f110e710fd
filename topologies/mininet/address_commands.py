"""Parses the shell commands with which Mininet programs set the addresses of interfaces."""

import ipaddress
import re
from typing import NamedTuple

# What may stand before the name of a program.
_PATH = r"(?:sudo\s+)?(?:/usr)?(?:/sbin/|/bin/)?"
# An IPv4 address, with or without a prefix length.
_ADDRESS = r"(?P<address>\d+(?:\.\d+){3}(?:/\d+)?)"
# The forms of ifconfig and ip that set one address and do nothing else.
_IFCONFIG = re.compile(
    rf"{_PATH}ifconfig\s+(?P<interface>\S+)\s+(?:inet\s+)?{_ADDRESS}"
    r"(?:\s+(?:netmask\s+(?P<netmask>[\d.]+)|broadcast\s+[\d.]+|up))*"
)
_IP_ADDRESS = re.compile(
    rf"{_PATH}ip\s+(?:-4\s+)?(?:a|addr|address)\s+(?:add|replace)\s+(?:local\s+)?{_ADDRESS}"
    r"(?:\s+(?:brd|broadcast)\s+\S+)?\s+dev\s+(?P<interface>\S+)"
)
# Separates the commands of a line.
_SEPARATOR = re.compile(r"\s*(?:;|&&|\n)\s*")


class AddressCommand(NamedTuple):
    """A command that gives an IPv4 address to an interface.

    Attributes:
        interface: Name of the interface.
        address: The address with its prefix length, as ``10.0.0.1/8``.
        replaces: Whether the address replaces the one that the interface has already.
    """

    interface: str
    address: str
    replaces: bool


def address_commands(command: str) -> list[AddressCommand] | None:
    """Return the addresses that a shell command sets.

    Args:
        command: One command, or several with ``;``, ``&&`` or the end of a line between them.

    Returns:
        None if the command does not set an address, or does anything else as well.

    >>> address_commands("ifconfig h1-eth0 10.0.1.5 netmask 255.255.255.0 up")
    [AddressCommand(interface='h1-eth0', address='10.0.1.5/24', replaces=True)]
    >>> address_commands("ip addr add 10.0.1.5/24 dev h1-eth1 && ip route add default via 10.0.1.1")
    """
    commands: list[AddressCommand] = []
    for part in _SEPARATOR.split(command.strip()):
        if not part:
            continue
        address_command = _address_command(part)
        if address_command is None:
            return None
        commands.append(address_command)
    return commands or None


def _address_command(command: str) -> AddressCommand | None:
    """Return the address that one command of ifconfig or ip sets, or None."""
    match = _IFCONFIG.fullmatch(command)
    # ifconfig replaces the address; ip adds one.
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
    """Return the prefix length of the address's class (A, B or C), which is ifconfig's default."""
    first_byte = int(address.partition(".")[0])
    if first_byte < 128:
        return 8
    return 16 if first_byte < 192 else 24
