"""The control socket of a network: other processes of the same user reach into its sandbox by it.

A socket belongs to the network namespace in which it was created. So this one is created outside,
before the sandbox is entered, and inherited.

Its name is in Linux's abstract namespace (unix(7)) and not in a directory. So nothing remains of it
when the last process that has it ends, however it ends.

Any user may create a socket of any such name, which has three consequences. A part of the name
cannot be guessed. A network is looked for among the sockets that listen. And each side asks the
kernel which user the other side belongs to before it sends anything.
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

#: Environment variable of a sandbox: the descriptor of its control socket.
VARIABLE = "TESTBED_DOOR"

_PREFIX = "testbed-network-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# The flags of a listening socket in /proc/net/unix.
_LISTENING_FLAGS = "00010000"

# struct ucred: process id, user id and group id of the other side.
_CREDENTIALS = struct.Struct("=iII")

# struct timeval.
_TIMEVAL = struct.Struct("@ll")

# Connections that may wait at one socket.
_BACKLOG = 256

# Total time to wait for sockets whose queue of connections is full, in seconds. One socket may take
# this time divided by the second number.
_FULL_S = 0.8
_FULL_PARTS = 4

# Numbers for networks that got no name.
_numbers = itertools.count(1)


def unused_name(kind: str) -> str:
    """Return a name for a network that got none, which no network of this user has.

    It contains the id of this process. A process in a container that shares these sockets may have
    the same id.

    Args:
        kind: The first part of the name.
    """
    names_in_use = network_names()
    while True:
        number = next(_numbers)
        suffix = f"-{number}" if number > 1 else ""
        name = f"{kind}-{os.getpid()}{suffix}"
        if name not in names_in_use:
            return name


def listen(name: str) -> socket.socket:
    """Return a listening control socket for a network of this name.

    Raises:
        InputError: The name is invalid, or another network of this user has it.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name {name!r}: give letters, digits, dots, dashes and underscores, 64 at most"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{_PREFIX}{os.geteuid()}-{secrets.token_hex(8)}-{name}")
    listener.listen(_BACKLOG)
    # Look for others only now: of two networks that start at the same time, at least one sees the
    # other.
    for _, connection in _open_sockets(name):
        with connection:
            if connection.getpeername() != listener.getsockname():
                listener.close()
                raise InputError(
                    f"a network named {name!r} is up already; "
                    "choose another name (testbed attach lists them)"
                )
    return listener


def inherited_socket() -> socket.socket | None:
    """Return the control socket that this process has inherited, or None.

    The second call returns None. Programs that are started inside do not get the socket.
    """
    number = os.environ.pop(VARIABLE, "")
    if not number.isdigit():
        return None
    # The variable may have been inherited without the descriptor, which is then closed or belongs
    # to another file.
    with suppress(OSError, TypeError):
        listener = socket.socket(fileno=int(number))
        if listener.family == socket.AF_UNIX and _PREFIX.encode() in bytes(listener.getsockname()):
            listener.set_inheritable(False)
            return listener
        # It is not ours, so it must not be closed.
        listener.detach()
    return None


def network_name(listener: socket.socket) -> str:
    """Return the name of the network to which a control socket belongs."""
    _, name = _user_and_name(bytes(listener.getsockname()).decode())
    return name


def network_names() -> tuple[str, ...]:
    """Return the names of this user's running networks, sorted."""
    names = []
    for name, connection in _open_sockets():
        connection.close()
        names.append(name)
    return tuple(sorted(names))


def control_address(name: str) -> str:
    """Return the address of a network's control socket, without its first byte, which is zero.

    Raises:
        InputError: This user has no running network of this name.
    """
    with connect(name) as connection:
        return bytes(connection.getpeername()).decode()[1:]


def connect(name: str) -> socket.socket:
    """Return a connection to this user's network of this name.

    Raises:
        InputError: This user has no running network of this name.
    """
    for _, connection in _open_sockets(name):
        return connection
    running = ", ".join(network_names()) or "none"
    raise InputError(f"no network named {name!r} is up; these are: {running}")


def _user_and_name(address: str) -> tuple[str, str]:
    r"""Return the user id and the network's name in the address of a control socket.

    >>> _user_and_name("\0testbed-network-1000-0123456789abcdef-my-net")
    ('1000', 'my-net')
    """
    user, _, random_and_name = address[1:].removeprefix(_PREFIX).partition("-")
    _, _, name = random_and_name.partition("-")
    return user, name


def _open_sockets(required: str | None = None) -> Iterator[tuple[str, socket.socket]]:
    """Yield the network's name and a connection for each open control socket of this user.

    Args:
        required: Only sockets of networks with this name; None for all.
    """
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    except OSError:
        return
    full: list[tuple[str, str]] = []
    for line in lines:
        columns = line.split(maxsplit=7)
        if columns[3:4] != [_LISTENING_FLAGS] or not columns[-1].startswith("@" + _PREFIX):
            continue
        # The kernel prints the zero byte of an abstract address as @.
        address = "\0" + columns[-1][1:]
        user, name = _user_and_name(address)
        if user == str(os.geteuid()) and _NAME.fullmatch(name) and required in (None, name):
            try:
                connection = _connection_to(address, wait_s=0.0)
            except BlockingIOError:
                full.append((name, address))
                continue
            if connection is not None:
                yield name, connection
    # Sockets with a full queue come last: they may belong to another user and accept nothing.
    yield from _full_sockets(full)


def _full_sockets(
    names_and_addresses: list[tuple[str, str]],
) -> Iterator[tuple[str, socket.socket]]:
    """Wait until sockets whose queue of connections is full accept one, and yield it with the name.

    The total time is limited to ``_FULL_S``, because another user may have any number of sockets
    that accept nothing.
    """
    deadline_s = time.monotonic() + _FULL_S
    for name, address in names_and_addresses:
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            return
        # A socket whose queue is still full is left out.
        with suppress(BlockingIOError):
            connection = _connection_to(address, min(remaining_s, _FULL_S / _FULL_PARTS))
            if connection is not None:
                yield name, connection


def _connection_to(address: str, wait_s: float) -> socket.socket | None:
    """Connect to a process of this user.

    Args:
        address: Address of the socket.
        wait_s: Time to wait in seconds if the queue of connections is full.

    Returns:
        The connection, on which nothing has been sent, or None if no process or another user
        listens.

    Raises:
        BlockingIOError: The queue of connections is full, and remains so for this time.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if wait_s:
            timeout = _TIMEVAL.pack(0, int(wait_s * 1e6))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        else:
            sock.setblocking(False)
        sock.connect(address)
        sock.setblocking(True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(0, 0))
        if same_user(sock):
            return sock
    except BlockingIOError:
        sock.close()
        raise
    except OSError:
        # No process listens any more.
        pass
    sock.close()
    return None


def owner_pid(sock: socket.socket) -> int:
    """Return the process that created the socket at the other end.

    It is 0 for a process in another container.
    """
    pid, _, _ = _credentials(sock)
    return pid


def same_user(sock: socket.socket) -> bool:
    """Return whether the other end is a process of this user.

    Inside a sandbox, this is the user who entered the sandbox.
    """
    _, user, _ = _credentials(sock)
    return user == os.geteuid()


def _credentials(sock: socket.socket) -> tuple[int, int, int]:
    """Return the process, user and group that the kernel has recorded for the other end."""
    content = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, group = _CREDENTIALS.unpack(content)
    return pid, user, group
