"""The door of a network that is up: a socket by which other processes of the same user reach into its sandbox.

It is made outside, before the sandbox is entered, and inherited, because a socket belongs to the network namespace in which it was
made. Its name lies in Linux's abstract namespace and not in a directory, so that nothing is left of it when the last process
that holds it has ended, in whatever way. Only processes of the user who opened it are let in.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from pathlib import Path

from testbed.errors import InputError, SessionError

VARIABLE = "TESTBED_DOOR"
"""In the environment of a sandbox: the descriptor of its door."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CREDENTIALS = struct.Struct("=iII")
_WAITING = 256


def address(name: str, user: int | None = None) -> str:
    """The socket's name; a zero byte says that it is no file.

    >>> address("mine", 1000)
    '\\x00testbed-network-1000-mine'
    """
    return f"\0{_prefix(user)}{name}"


def _prefix(user: int | None = None) -> str:
    return f"testbed-network-{os.geteuid() if user is None else user}-"


def open_door(name: str) -> socket.socket:
    """A listening socket of that name. InputError for a name that is none, or that another network has."""
    if not _NAME.fullmatch(name):
        raise InputError(f"name {name!r}: give letters, digits, dots, dashes and underscores, 64 at most")
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.bind(address(name))
    except OSError:
        door.close()
        raise InputError(
            f"a network named {name!r} is up already; choose another name (testbed attach lists them)"
        ) from None
    door.listen(_WAITING)
    return door


def inherited_door() -> socket.socket | None:
    """The door that this process was given, once; None where there is none (programs started inside have no use for it)."""
    number = os.environ.pop(VARIABLE, "")
    if not number.isdigit():
        return None
    try:
        door = socket.socket(fileno=int(number))
        if door.family == socket.AF_UNIX and b"testbed-network-" in bytes(door.getsockname()):
            door.set_inheritable(False)
            return door
        door.detach()
    except (OSError, TypeError):
        pass
    return None


def name_of(door: socket.socket) -> str:
    """The name by which a door was opened."""
    return bytes(door.getsockname()).decode().partition("testbed-network-")[2].partition("-")[2]


def open_doors() -> tuple[str, ...]:
    """Names of this user's networks that are up, as the kernel lists them."""
    names = []
    try:
        lines = Path("/proc/net/unix").read_text().splitlines()
    except OSError:
        return ()
    for line in lines:
        path = line.split(maxsplit=7)[-1]
        listening = line.split()[3:4] == ["00010000"]
        if listening and path.startswith("@" + _prefix()):
            names.append(path.removeprefix("@" + _prefix()))
    return tuple(sorted(names))


def knock(name: str) -> socket.socket:
    """A connection to the network of that name. InputError where there is none."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(address(name))
    except OSError:
        sock.close()
        up = ", ".join(open_doors()) or "none"
        raise InputError(f"no network named {name!r} is up; these are: {up}") from None
    if not is_own(sock):
        sock.close()
        raise SessionError(f"the network named {name!r} belongs to another user")
    return sock


def is_own(sock: socket.socket) -> bool:
    """Whether the other end is a process of this user (seen from inside a sandbox: of the user who entered it)."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.geteuid())
