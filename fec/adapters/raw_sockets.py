"""Sockets of the stream's ends: labelled frames out of a raw socket, datagrams in, many a call. Sockets come opened.

A UDP socket has one source port, so labelled packets leave as whole Ethernet frames: Scapy designs the headers once for
each length, the data path writes the label into them.
"""

import socket
import struct
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from fec.adapters.message_vectors import REFUSALS, MessageVector, receive_many, send_many
from fec.adapters.scapy_layer import FrameTemplate
from fec.errors import FecError
from fec.protocol.sender import OutgoingPacket

_LABEL = struct.Struct(">H")
_SO_MEMINFO, _DROPS_INDEX = 55, 8
_SO_TIMESTAMPNS = 35


class FrameSender:
    """Sends datagrams from one host to another as frames, each with a label as its UDP source port.

    ``sock``: AF_PACKET, SOCK_RAW, bound to the sending interface; ``most``: frames handed to the kernel in one call of
    ``send_batch``. ``refused`` counts frames that the interface did not take: its queue was full, it dropped them (a
    fault on the host's own cable), or it was down. They are lost like any other; a UDP socket would not even tell.
    """

    def __init__(self, sock: socket.socket, template: FrameTemplate, *, most: int = 64) -> None:
        self._sock, self._template, self._most = sock, template, most
        self.refused = 0
        self._headers: dict[int, bytearray] = {}
        self._batches: dict[int, MessageVector] = {}

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

    def send_batch(self, packets: Sequence[OutgoingPacket]) -> None:
        """Packets of one length, in order, many a system call. OSError where the socket cannot send at all."""
        for first in range(0, len(packets), self._most):
            self._send_some(packets[first : first + self._most])

    def _send_some(self, packets: Sequence[OutgoingPacket]) -> None:
        size = len(packets[0].data)
        vector = self._batches.get(size) or self._batch_for(size)
        front, stride, buffer = self._template.header_bytes, vector.stride, vector.buffer
        label_at, at, write_label = self._template.label_offset - front, front, _LABEL.pack_into
        for _, label, data, _, _, _ in packets:
            if len(data) != size:
                raise FecError(f"packets of {size} and {len(data)} bytes in one batch; give packets of one length")
            write_label(buffer, at + label_at, label)
            buffer[at : at + size] = data
            at += stride
        self.refused += send_many(self._sock, vector, len(packets))

    def _batch_for(self, payload_bytes: int) -> MessageVector:
        """Frames whose headers stand already; label and payload are written into them."""
        headers = self._template.headers_for(payload_bytes)
        vector = self._batches[payload_bytes] = MessageVector(self._most, len(headers) + payload_bytes)
        for row in range(self._most):
            vector.buffer[row * vector.stride : row * vector.stride + len(headers)] = headers
        return vector


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
