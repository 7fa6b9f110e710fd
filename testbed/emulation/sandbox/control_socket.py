"""The door of a network that is up: a socket by which other processes of the same user reach into its sandbox.

It is made outside, before the sandbox is entered, and inherited, because a socket belongs to the network namespace in
which it was made. Its name is in Linux's abstract namespace and not in a directory, so that nothing is left of it when
the last process that holds it has ended, in whatever way. Every user may take any such name; so a part of it cannot be
guessed, the door is looked for among those that are open, and each side asks the kernel whose process the other is
before it says a word.
"""

import itertools
import os
import re
import secrets
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from testbed.errors import InputError

VARIABLE = "TESTBED_DOOR"
"""In the environment of a sandbox: the descriptor of its door."""
_PREFIX = "testbed-network-"
_LISTENS = "00010000"
"""The flags that /proc/net/unix shows of a listening socket."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CREDENTIALS = struct.Struct("=iII")
_TIME = struct.Struct("@ll")
_WAITING = 256
# Seconds to wait for sockets that do not accept connections, all together.
_FULL_S = 0.8
_NUMBERS = itertools.count(1)


def unused_name(kind: str) -> str:
    """For a network that nobody named: this process's number, which a container's process that shares these sockets may
    have as well."""
    up = network_names()
    names = (f"{kind}-{os.getpid()}{f'-{n}' if n > 1 else ''}" for n in _NUMBERS)
    return next(name for name in names if name not in up)


def listen(name: str) -> socket.socket:
    """A listening socket of that name. InputError for a name that is none, or that another network of this user has."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name {name!r}: give letters, digits, dots, dashes and underscores, 64 at most"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{_PREFIX}{os.geteuid()}-{secrets.token_hex(8)}-{name}")
    listener.listen(_WAITING)
    for _, other in _doors(name):
        with other:
            if other.getpeername() != listener.getsockname():
                listener.close()
                raise InputError(
                    f"a network named {name!r} is up already; choose another name (testbed attach lists them)"
                )
    return listener


def inherited_socket() -> socket.socket | None:
    """The door that this process was given, once; None where there is none (programs started inside have no use for
    it)."""
    number = os.environ.pop(VARIABLE, "")
    if not number.isdigit():
        return None
    with suppress(OSError, TypeError):
        listener = socket.socket(fileno=int(number))
        if listener.family == socket.AF_UNIX and _PREFIX.encode() in bytes(listener.getsockname()):
            listener.set_inheritable(False)
            return listener
        listener.detach()
    return None


def network_name(listener: socket.socket) -> str:
    """The name by which a door was opened."""
    return _parts(bytes(listener.getsockname()).decode())[1]


def network_names() -> tuple[str, ...]:
    """Names of this user's networks that are up."""
    names = []
    for name, sock in _doors():
        sock.close()
        names.append(name)
    return tuple(sorted(names))


def control_address(name: str) -> str:
    """The socket's name, after its zero byte, of this user's network of that name. InputError where none is up."""
    with connect(name) as sock:
        return bytes(sock.getpeername()).decode()[1:]


def connect(name: str) -> socket.socket:
    """A connection to this user's network of that name. InputError where none is up."""
    for _, sock in _doors(name):
        return sock
    up = ", ".join(network_names()) or "none"
    raise InputError(f"no network named {name!r} is up; these are: {up}")


def _parts(address: str) -> tuple[str, str]:
    """(user id, name) of a door, from the socket's name.

    >>> _parts("\\0testbed-network-1000-0123456789abcdef-my-net")
    ('1000', 'my-net')
    """
    user, _, rest = address[1:].removeprefix(_PREFIX).partition("-")
    return user, rest.partition("-")[2]


def _doors(required: str | None = None) -> Iterator[tuple[str, socket.socket]]:
    """(name, connection) of every door of this user's that is open, or of those of one name. The kernel lists them."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    except OSError:
        return
    full: list[tuple[str, str]] = []
    for line in lines:
        words = line.split(maxsplit=7)
        if words[3:4] != [_LISTENS] or not words[-1].startswith("@" + _PREFIX):
            continue
        address = "\0" + words[-1][1:]
        user, name = _parts(address)
        if user == str(os.geteuid()) and _NAME.fullmatch(name) and required in (None, name):
            try:
                sock = _connected(address, wait_s=0.0)
            except BlockingIOError:
                full.append((name, address))
                continue
            if sock is not None:
                yield name, sock
    yield from _full_doors(full)


def _full_doors(doors: list[tuple[str, str]]) -> Iterator[tuple[str, socket.socket]]:
    """Wait for doors at which others wait already, all together for _FULL_S.

    Another user may have any number of sockets that accept nothing.
    """
    until = time.monotonic() + _FULL_S
    for name, address in doors:
        wait_s = until - time.monotonic()
        if wait_s <= 0:
            return
        with suppress(BlockingIOError):
            sock = _connected(address, min(wait_s, _FULL_S / 4))
            if sock is not None:
                yield name, sock


def _connected(address: str, wait_s: float) -> socket.socket | None:
    """Connect to a process of this user.

    Returns:
        The connection, on which nothing has been said, or None if nobody or another user listens.

    Raises:
        BlockingIOError: The queue of connections is full, and remains so for this time.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if wait_s:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(0, int(wait_s * 1e6)))
        else:
            sock.setblocking(False)
        sock.connect(address)
        sock.setblocking(True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(0, 0))
        if same_user(sock):
            return sock
    except BlockingIOError:
        sock.close()
        raise
    except OSError:
        pass
    sock.close()
    return None


def owner_pid(sock: socket.socket) -> int:
    """Return the process that opened the door at the other end; 0 if it is in another container."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[0])


def same_user(sock: socket.socket) -> bool:
    """Whether the other end is a process of this user (seen from inside a sandbox: of the user who entered it)."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.geteuid())
