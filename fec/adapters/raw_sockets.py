"""Sockets of the stream's ends: labelled frames out of a raw socket, datagrams in, many a call. Sockets come opened.

A UDP socket has one source port, so labelled packets leave as whole Ethernet frames: Scapy designs the headers once,
the data path writes label and lengths into them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from fec.framing import FrameTemplate

_LABEL = struct.Struct(">H")
_SO_MEMINFO, _DROPS_INDEX = 55, 8


class FrameSender:
    """Sends datagrams from one host to another as frames, each with a label as its UDP source port.

    ``sock``: AF_PACKET, SOCK_RAW, bound to the sending interface. ``template``: as Scapy designed it
    (``fec.adapters.scapy_layer.frame_template``); headers are kept for each length of payload.
    """

    def __init__(self, sock: socket.socket, template: FrameTemplate) -> None:
        self._sock = sock
        self._template = template
        self._headers: dict[int, bytearray] = {}

    def send(self, label: int, payload: bytes) -> None:
        """One datagram; blocks while the interface's queue is full."""
        headers = self._headers.get(len(payload))
        if headers is None:
            headers = self._headers[len(payload)] = bytearray(self._template.headers_for(len(payload)))
        _LABEL.pack_into(headers, self._template.label_offset, label)
        self._sock.sendmsg((headers, payload))


def waiting_datagrams(sock: socket.socket, most: int = 256) -> Iterator[bytes]:
    """What lies in a non-blocking socket, at most ``most`` datagrams."""
    for _ in range(most):
        try:
            yield sock.recv(65536)
        except BlockingIOError:
            return


def socket_drops(sock: socket.socket) -> int:
    """Datagrams that found the socket's buffer full since it was opened (the last word of SO_MEMINFO)."""
    words = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * (_DROPS_INDEX + 1))
    return int.from_bytes(words[4 * _DROPS_INDEX :], "little")
