"""Sockets of the stream's ends: labelled frames out of a raw socket, datagrams in, many a call. Sockets come opened.

A UDP socket has one source port, so labelled packets leave as whole Ethernet frames: Scapy designs the headers once for
each length, the data path writes the label into them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from fec.wire import STREAM_UDP_PORT

HEADERS_BYTES = 14 + 20 + 8
_LABEL_OFFSET = 14 + 20
_LABEL = struct.Struct(">H")
_SO_MEMINFO, _DROPS_INDEX = 55, 8


def design_headers(
    *, src_mac: str, dst_mac: str, src_ip: str, dst_ip: str, payload_bytes: int, udp_port: int = STREAM_UDP_PORT
) -> bytearray:
    """Ethernet, IPv4 and UDP headers (42 bytes) before a payload of that length, source port 0, no UDP checksum.

    The IPv4 checksum does not cover the label, so a header serves every label.
    """
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    udp = UDP(sport=0, dport=udp_port, chksum=0, len=8 + payload_bytes)
    ip = IP(src=src_ip, dst=dst_ip, flags="DF", len=28 + payload_bytes)
    return bytearray(bytes(Ether(src=src_mac, dst=dst_mac) / ip / udp)[:HEADERS_BYTES])


class FrameSender:
    """Sends datagrams from one host to another as frames, each with a label as its UDP source port.

    ``sock``: AF_PACKET, SOCK_RAW, bound to the sending interface.
    """

    def __init__(self, sock: socket.socket, *, src_mac: str, dst_mac: str, src_ip: str, dst_ip: str) -> None:
        self._sock = sock
        self._ends = {"src_mac": src_mac, "dst_mac": dst_mac, "src_ip": src_ip, "dst_ip": dst_ip}
        self._headers: dict[int, bytearray] = {}

    def prepare(self, payload_bytes: int) -> bytearray:
        """Design the headers for payloads of that length beforehand (Scapy takes its time when first used)."""
        headers = self._headers.get(payload_bytes)
        if headers is None:
            headers = self._headers[payload_bytes] = design_headers(payload_bytes=payload_bytes, **self._ends)
        return headers

    def send(self, label: int, payload: bytes) -> None:
        """One datagram; blocks while the interface's queue is full."""
        headers = self._headers.get(len(payload)) or self.prepare(len(payload))
        _LABEL.pack_into(headers, _LABEL_OFFSET, label)
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
