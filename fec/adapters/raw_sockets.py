"""Sockets of the stream's ends: labelled frames out of a raw socket, datagrams in. Sockets come opened.

A UDP socket has one source port, so labelled packets leave as whole Ethernet frames: Scapy designs the headers once for
each length, the data path writes the label into them.
"""

import errno
import socket
import struct
from collections.abc import Iterator

from fec.adapters.scapy_layer import FrameTemplate

REFUSALS = (errno.ENOBUFS, errno.ENETDOWN)
"""A packet socket's answers where the interface drops the frame or is down."""

_LABEL = struct.Struct(">H")
_SO_MEMINFO, _DROPS_INDEX = 55, 8
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")


class FrameSender:
    """Sends datagrams from one host to another as frames, each with a label as its UDP source port.

    ``sock``: AF_PACKET, SOCK_RAW, bound to the sending interface. ``refused`` counts frames that the interface did not
    take: its queue was full, it dropped them (a fault on the host's own cable), or it was down. They are lost like any
    other; a UDP socket would not even tell.
    """

    def __init__(self, sock: socket.socket, template: FrameTemplate) -> None:
        self._sock, self._template = sock, template
        self.refused = 0
        self._headers: dict[int, bytearray] = {}

    def send(self, label: int, payload: bytes) -> None:
        """One datagram; blocks while the socket's own buffer is full."""
        headers = self._headers.get(len(payload))
        if headers is None:
            headers = self._headers[len(payload)] = bytearray(self._template.headers_for(len(payload)))
        _LABEL.pack_into(headers, self._template.label_offset, label)
        try:
            self._sock.sendmsg((headers, payload))
        except OSError as error:
            if error.errno not in REFUSALS:
                raise
            self.refused += 1


class DatagramReceiver:
    """Takes what is in a datagram socket, without waiting.

    ``largest``: bytes of the longest datagram expected (a longer one is cut off there, and fails its checks);
    ``timestamps``: have the kernel stamp each datagram as it arrives (CLOCK_REALTIME), so that a receiver that was kept
    waiting still knows when; ``peer``: an IPv4 address, what others send is counted in ``foreign`` and thrown away. (A
    socket that is connected takes datagrams of one port only, and their source port is their label.) Without loss of
    order.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        most: int = 64,
        largest: int = 2048,
        timestamps: bool = False,
        peer: str | None = None,
    ) -> None:
        self._sock, self._most, self._largest, self._peer = sock, most, largest, peer
        self._control_bytes = socket.CMSG_SPACE(_TIMESPEC.size) if timestamps else 0
        self._stamps: list[bytes] = []
        self._ports: list[int] = []
        self.foreign = 0
        if timestamps:
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def receive(self) -> list[bytes]:
        """At most ``most`` waiting datagrams, in order of arrival; empty where none waits, or none of the peer's."""
        found: list[bytes] = []
        self._stamps, self._ports = [], []
        for _ in range(self._most):
            try:
                data, control, _, source = self._sock.recvmsg(self._largest, self._control_bytes, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            if self._peer is not None:
                if source[0] != self._peer:
                    self.foreign += 1
                    continue
                self._ports.append(source[1])
            found.append(data)
            self._stamps += [stamp for _, _, stamp in control]
        return found

    def arrival_times_s(self, count: int) -> list[float]:
        """When the first ``count`` datagrams of the last ``receive`` reached the kernel: seconds of CLOCK_REALTIME.

        Only with ``timestamps``. Take time.clock_gettime(CLOCK_REALTIME) - time.monotonic() for the other clock.
        """
        return [seconds + nanoseconds * 1e-9 for seconds, nanoseconds in map(_TIMESPEC.unpack, self._stamps[:count])]

    def source_ports(self) -> list[int]:
        """Of the datagrams of the last ``receive``; only with ``peer``."""
        return self._ports


def waiting_datagrams(sock: socket.socket, most: int = 256) -> Iterator[bytes]:
    """What is in a non-blocking socket, at most ``most`` datagrams."""
    for _ in range(most):
        try:
            yield sock.recv(65536)
        except BlockingIOError:
            return


def socket_drops(sock: socket.socket) -> int:
    """Datagrams that found the socket's buffer full since it was opened (the last word of SO_MEMINFO)."""
    words = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * (_DROPS_INDEX + 1))
    return int.from_bytes(words[4 * _DROPS_INDEX :], "little")
