"""Sockets of the stream's ends: labelled frames out of a raw socket, datagrams in, many a call. Sockets come
opened.

A UDP socket has one source port, so labelled packets leave as whole Ethernet frames: Scapy designs the headers once for
each length, the data path writes the label into them.
"""

import socket
import struct
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from fec.adapters.message_vectors import REFUSALS, MessageVector, receive_many
from fec.adapters.scapy_layer import FrameTemplate

_LABEL = struct.Struct(">H")
_SO_MEMINFO, _DROPS_INDEX = 55, 8
_SO_TIMESTAMPNS = 35


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
    """Takes what is in a datagram socket, many a system call, without waiting.

    ``largest``: bytes of the longest datagram expected (a longer one is cut off there, and fails its checks);
    ``timestamps``: have the kernel stamp each datagram as it arrives (CLOCK_REALTIME), so that a receiver that was kept
    waiting still knows when; ``peer``: an IPv4 address, what others send is counted in ``foreign`` and thrown away. (A
    socket that is connected takes datagrams of one port only, and their source port is their label.) Without loss of
    order; no copy but one into ``bytes``.
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
        self._sock, self._most = sock, most
        self._peer = None if peer is None else int.from_bytes(socket.inet_aton(peer), sys.byteorder)
        self._vector = MessageVector(most, largest, control=timestamps, names=peer is not None)
        self._taken: Sequence[int] = ()
        self.foreign = 0
        if timestamps:
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def receive(self) -> list[bytes]:
        """At most ``most`` waiting datagrams, in order of arrival; empty where none waits, or none of the peer's."""
        vector = self._vector
        count = receive_many(self._sock, vector, self._most)
        buffer, stride = vector.buffer, vector.stride
        lengths = vector.lengths(count)
        self._taken = range(count)
        if self._peer is not None:
            self._taken = [i for i, source in enumerate(vector.sources(count)) if source == self._peer]
            self.foreign += count - len(self._taken)
        return [bytes(buffer[i * stride : i * stride + lengths[i]]) for i in self._taken]

    def arrival_times_s(self, count: int) -> list[float]:
        """When the first ``count`` datagrams of the last ``receive`` reached the kernel: seconds of CLOCK_REALTIME.

        Only with ``timestamps``. Take time.clock_gettime(CLOCK_REALTIME) - time.monotonic() for the other clock.
        """
        stamps = self._vector.stamps(self._most)[list(self._taken[:count])]
        return [float(t) for t in stamps[:, 0] + stamps[:, 1] * np.float64(1e-9)]

    def source_ports(self) -> list[int]:
        """Of the datagrams of the last ``receive``; only with ``peer``."""
        ports = self._vector.ports(self._most)
        return [ports[i] for i in self._taken]


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
