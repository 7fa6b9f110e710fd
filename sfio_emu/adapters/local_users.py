"""Whose process is at the other end of a TCP connection within this machine, as the kernel tells it (sock_diag(7))."""

from __future__ import annotations

import os
import socket
import struct

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST = 4, 20, 1
_HEADER = struct.Struct("=IHHII")
_PLACES = struct.Struct("!HH4s12x4s12x")
"""Ports and IPv4 addresses: of the socket that is asked for, and of its peer."""
_QUESTION = struct.Struct(f"=BBBxI{_PLACES.size}s4x8s")
_ANSWER = struct.Struct(f"=BBBB{_PLACES.size}s12x12xII")
_ANY_COOKIE = b"\xff" * 8
_ESTABLISHED = 1


def is_own_user(stream: socket.socket) -> bool:
    """Whether a process of this user holds the other end, both being on this machine (IPv4).

    A socket that its process has closed is nobody's: the kernel shows it without an inode, and as root's. Where the kernel
    cannot be asked the answer is no.
    """
    try:
        (theirs, their_port), (ours, our_port) = stream.getpeername(), stream.getsockname()
        places = _PLACES.pack(their_port, our_port, socket.inet_aton(theirs), socket.inet_aton(ours))
        body = _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED, places, _ANY_COOKIE)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
            asking.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0) + body)
            said = asking.recv(4096)
        if _HEADER.unpack_from(said)[1] != _SOCK_DIAG_BY_FAMILY:
            return False
        _, state, _, _, found, user, inode = _ANSWER.unpack_from(said, _HEADER.size)
    except (OSError, struct.error):
        return False
    return bool(found == places and state == _ESTABLISHED and inode != 0 and user == os.geteuid())


__all__ = ["is_own_user"]
