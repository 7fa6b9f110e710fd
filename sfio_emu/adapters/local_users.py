"""The user at the other end of a connection within this machine.

The kernel reports it (sock_diag(7), unix(7)).
"""

import os
import socket
import struct
from ipaddress import ip_address

# Constants of linux/netlink.h and linux/sock_diag.h.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1

# The header of a netlink message: struct nlmsghdr.
_HEADER = struct.Struct("=IHHII")

# The ports and addresses of a socket and of its peer. An IPv4 address is followed by 12 zeros.
_ENDS = struct.Struct("!HH16s16s")

# struct inet_diag_req_v2 and struct inet_diag_msg.
_QUESTION = struct.Struct(f"=BBBxI{_ENDS.size}s4x8s")
_ANSWER = struct.Struct(f"=BBBB{_ENDS.size}s12x12xII")
_ANY_COOKIE = b"\xff" * 8

# struct ucred: process, user, group.
_CREDENTIALS = struct.Struct("=iII")

# TCP states.
_ESTABLISHED = 1
_LISTENING = 10

# The user of a socket that no process has.
_NOBODY = -1


def is_foreign_user(stream: socket.socket) -> bool:
    """Return whether the other end is on this machine and not known to be this user's process."""
    try:
        user = _user_of_peer(stream)
        theirs = stream.getpeername()
        ours = stream.getsockname()
    except OSError:
        # The peer has disconnected.
        return True
    if user is None and stream.family != socket.AF_UNIX:
        return _is_local(theirs[0], ours[0])
    return user != os.geteuid()


def is_own_user(stream: socket.socket) -> bool:
    """Return whether the other end is on this machine and known to be this user's process."""
    try:
        return _user_of_peer(stream) == os.geteuid()
    except OSError:
        return False


def is_foreign_listener(stream: socket.socket) -> bool:
    """Return whether this process has connected to a listener of another user on this machine.

    It need not have accepted the connection yet. Until then the user at the other end is not known,
    but the user of the listening socket is.
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
    """Return whether the address of a connection's other end is one of this machine."""
    address = ip_address(theirs)
    plain_address = getattr(address, "ipv4_mapped", None) or address
    return bool(plain_address.is_loopback) or theirs == ours


def _user_of_listener(family: int, address: str, port: int) -> int | None:
    """Return the user whose process listens at the address, or None if no process does."""
    packed = socket.inet_pton(family, address)
    ends = _ENDS.pack(port, 0, packed, bytes(len(packed)))
    answer = _ask_kernel(family, ends, _LISTENING)
    if answer is None:
        return None
    _, user, _ = answer
    return user


def _user_of_peer(stream: socket.socket) -> int | None:
    """Return the user whose process has the other end of a connection.

    Returns:
        None if the other end is not on this machine, or the kernel does not tell. `_NOBODY` if the
        process has closed the socket, or none has accepted it yet. The kernel reports such sockets
        without an inode, as if they were root's.

    Raises:
        OSError: The connection has ended.
    """
    if stream.family == socket.AF_UNIX:
        credentials = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(credentials)
        return int(user)
    theirs, their_port = stream.getpeername()[:2]
    ours, our_port = stream.getsockname()[:2]
    try:
        their_address = socket.inet_pton(stream.family, theirs)
        our_address = socket.inet_pton(stream.family, ours)
        # The question is about the peer's socket, whose peer is this one.
        ends = _ENDS.pack(their_port, our_port, their_address, our_address)
    except OSError:
        return None
    answer = _ask_kernel(stream.family, ends, _ESTABLISHED)
    if answer is None:
        return None
    answered_ends, user, inode = answer
    if answered_ends != ends:
        return None
    return user if inode else _NOBODY


def _ask_kernel(family: int, ends: bytes, expected_state: int) -> tuple[bytes, int, int] | None:
    """Ask the kernel about a TCP socket.

    Args:
        family: The address family.
        ends: The ports and addresses of the socket and its peer.
        expected_state: The TCP state of the socket.

    Returns:
        The ports and addresses, the user, and the inode of the socket; None if there is no such
        socket, or the kernel does not answer.
    """
    body = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 1 << expected_state, ends, _ANY_COOKIE)
    head = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
            netlink.send(head + body)
            answer = netlink.recv(4096)
        if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
            return None
        _, state, _, _, answered_ends, user, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    except (OSError, struct.error):
        return None
    if state != expected_state:
        return None
    return answered_ends, int(user), int(inode)
