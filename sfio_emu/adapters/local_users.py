"""Whose process is at the other end of a connection within this machine, as the kernel reports it (sock_diag(7),
unix(7))."""

import os
import socket
import struct
from ipaddress import ip_address

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST = 4, 20, 1
_HEADER = struct.Struct("=IHHII")
_PLACES = struct.Struct("!HH16s16s")
"""Ports and addresses (of IPv4: and 12 zeros): of the socket that is requested, and of its peer."""
_QUESTION = struct.Struct(f"=BBBxI{_PLACES.size}s4x8s")
_ANSWER = struct.Struct(f"=BBBB{_PLACES.size}s12x12xII")
_ANY_COOKIE = b"\xff" * 8
_CREDENTIALS = struct.Struct("=iII")
_ESTABLISHED = 1
_LISTENING = 10
_NOBODY = -1


def is_foreign_user(stream: socket.socket) -> bool:
    """Whether the other end is on this machine and not known to be a process of this user."""
    try:
        user = _user_of_peer(stream)
        theirs, ours = stream.getpeername(), stream.getsockname()
    except OSError:
        return True  # it went away
    if user is None and stream.family != socket.AF_UNIX:
        return _is_local(theirs[0], ours[0])
    return user != os.geteuid()


def is_own_user(stream: socket.socket) -> bool:
    """Whether a process of this user holds the other end, both being on this machine. Where the kernel gives no answer:
    no."""
    try:
        return _user_of_peer(stream) == os.geteuid()
    except OSError:
        return False


def is_foreign_listener(stream: socket.socket) -> bool:
    """Return whether this process has connected to a listener of another user on this machine.

    It need not have accepted the connection yet. Until then it is not known whose the other end
    is, but whose the listening socket is.
    """
    try:
        address, port = stream.getpeername()[:2]
        user = _user_of_peer(stream)
        if user is None and not _is_local(address, stream.getsockname()[0]):
            return False
        if user in (None, _NOBODY):
            user = _user_of_listener(stream.family, address, port)
    except OSError:
        return True
    return user != os.geteuid()


def _is_local(theirs: str, ours: str) -> bool:
    """Return whether an address of a connection's other end is one of this machine."""
    address = ip_address(theirs)
    plain = getattr(address, "ipv4_mapped", None) or address
    return bool(plain.is_loopback) or theirs == ours


def _user_of_listener(family: int, address: str, port: int) -> int | None:
    """Return the user whose process listens at the address, or None if no process does."""
    packed = socket.inet_pton(family, address)
    places = _PLACES.pack(port, 0, packed, bytes(len(packed)))
    answer = _ask_kernel(family, places, _LISTENING)
    return None if answer is None else answer[1]


def _user_of_peer(stream: socket.socket) -> int | None:
    """The user whose process holds the other end, None where that is not on this machine or the kernel does not say.

    A socket that its process has closed, or that nobody has accepted yet, is nobody's (-1): the kernel shows it without
    an inode, and as root's. OSError where the stream has ended.
    """
    if stream.family == socket.AF_UNIX:
        found = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(found)[1])
    (theirs, their_port), (ours, our_port) = stream.getpeername()[:2], stream.getsockname()[:2]
    try:
        addresses = [socket.inet_pton(stream.family, address) for address in (theirs, ours)]
        places = _PLACES.pack(their_port, our_port, *addresses)
    except OSError:
        return None
    answer = _ask_kernel(stream.family, places, _ESTABLISHED)
    if answer is None or answer[0] != places:
        return None
    _, user, inode = answer
    return user if inode else _NOBODY


def _ask_kernel(family: int, places: bytes, expected_state: int) -> tuple[bytes, int, int] | None:
    """Return (addresses, user, inode) of a TCP socket in this state, or None if there is none."""
    body = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 1 << expected_state, places, _ANY_COOKIE)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
            asking.send(
                _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0) + body
            )
            said = asking.recv(4096)
        if _HEADER.unpack_from(said)[1] != _SOCK_DIAG_BY_FAMILY:
            return None
        _, state, _, _, places, user, inode = _ANSWER.unpack_from(said, _HEADER.size)
    except (OSError, struct.error):
        return None
    return (places, int(user), int(inode)) if state == expected_state else None
