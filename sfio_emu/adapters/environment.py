"""The session of a program that `testbed run` started, from environment variables.

SFIO_RANK, SFIO_SIZE and SFIO_GROUP describe the process group, SFIO_LISTENERS
("p1=10.0.0.1:7000,p2=...") the listeners, and SFIO_TIMEOUT_S the time limit.
"""

import os
from collections.abc import Mapping

from sfio_emu.adapters.sockets import DEFAULT_TIMEOUT_S, TcpConnections
from sfio_emu.client.current_session import current_session, session_in_use
from sfio_emu.client.session import Session
from sfio_emu.errors import UsageError, positive_seconds, whole_number
from sfio_emu.ports import ProcessGroup, SoloGroup

# The processes of a program may start this many seconds apart on a busy machine.
MIN_JOIN_S = 30.0

# Longer texts are no port numbers, and Python refuses to convert very long ones.
_MAX_PORT_CHARACTERS = 100


def session_from_environment() -> Session:
    """Make the session that the environment describes.

    Raises:
        UsageError: A variable is missing or malformed. The message names it.
    """
    values = os.environ
    rank = _whole_number_in(values, "SFIO_RANK", 0)
    size = _whole_number_in(values, "SFIO_SIZE", 1)
    if not 0 <= rank < size:
        raise UsageError(
            f"SFIO_RANK is {rank} and SFIO_SIZE {size}: the rank must be 0 to size - 1"
        )
    return Session(_connections(values), _group(values, rank, size, _timeout_s(values)))


def session_alone(session: Session | None = None) -> Session:
    """Return a session for calls in which no other process takes part.

    It joins no group.

    Args:
        session: A session; by default that of the process.

    Returns:
        The session if its group has one process, otherwise another one over the same listeners.
    """
    session = session or session_in_use()
    if session is None and os.environ.get("SFIO_GROUP"):
        return Session(_connections(os.environ))
    session = session or current_session()
    if session.group.size == 1:
        return session
    return Session(session.connections, settings=session.settings)


def _connections(values: Mapping[str, str]) -> TcpConnections:
    return TcpConnections(
        parse_listeners(values.get("SFIO_LISTENERS", "")), timeout_s=_timeout_s(values)
    )


def parse_listeners(text: str) -> dict[str, tuple[str, int]]:
    """Return the addresses in "p1=10.0.0.1:7000,p2=10.0.0.2:7000" by host name.

    Raises:
        UsageError: A part is malformed, or a host occurs twice.
    """
    addresses: dict[str, tuple[str, int]] = {}
    for part in filter(None, text.split(",")):
        host, equals, address_and_port = part.strip().partition("=")
        address, colon, port = address_and_port.rpartition(":")
        port_is_number = port.isascii() and port.isdigit() and len(port) < _MAX_PORT_CHARACTERS
        if not (host and equals and address and colon and port_is_number):
            raise UsageError(
                f"SFIO_LISTENERS has the part {part!r}: "
                "write host=address:port, with commas between"
            )
        if host in addresses:
            raise UsageError(
                f"SFIO_LISTENERS names the host {host!r} twice: give each host one listener"
            )
        port_number = whole_number(int(port), f"port of {host} in SFIO_LISTENERS", 1, 65535)
        addresses[host] = (address, port_number)
    return addresses


def _group(values: Mapping[str, str], rank: int, size: int, timeout_s: float) -> ProcessGroup:
    address = values.get("SFIO_GROUP", "")
    if size == 1 and not address:
        return SoloGroup()
    if not address:
        raise UsageError(
            f"SFIO_SIZE is {size} but SFIO_GROUP is not set: give unix:/path or tcp:host:port"
        )
    # A program of one process does not need asyncio, which takes time to import.
    from sfio_emu.adapters.process_group import SocketGroup

    return SocketGroup.join(address, rank, size, max(timeout_s, MIN_JOIN_S))


def _whole_number_in(values: Mapping[str, str], name: str, default: int) -> int:
    """Return the number in an environment variable."""
    text = values.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name} is {text!r}: give a whole number") from None


def _timeout_s(values: Mapping[str, str]) -> float:
    text = values.get("SFIO_TIMEOUT_S", str(DEFAULT_TIMEOUT_S))
    try:
        return positive_seconds(float(text), "SFIO_TIMEOUT_S")
    except ValueError:
        raise UsageError(f"SFIO_TIMEOUT_S is {text!r}: give seconds above 0") from None
