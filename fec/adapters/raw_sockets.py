"""Sockets of the stream's ends: labelled frames out of a raw socket, datagrams in, many a call. Sockets come
opened.

A UDP socket has one source port, so labelled packets leave as whole Ethernet frames: Scapy designs the headers once for
each length, the data path writes the label into them. Datagrams come by recvmmsg
of the C library, over one buffer of equal rows laid out for 64-bit Linux (amd64, arm64), the only place where streams
run on real sockets.
"""

import ctypes
import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.adapters.scapy_layer import FrameTemplate

_MESSAGE = np.dtype(
    {
        "names": ["name", "name_bytes", "iov", "iov_count", "control", "control_bytes", "flags", "length"],
        "formats": [np.uint64, np.uint32, np.uint64, np.uint64, np.uint64, np.uint64, np.int32, np.uint32],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": 64,
    }
)
"""struct mmsghdr; address and its length stay zero where nobody asks who sent a message."""
_NAME_WORDS = 4
"""struct sockaddr_in: family and port, address, zeros."""
_CONTROL_WORDS = 8
"""64 bytes for one control message: 16 of header, then a struct timespec."""

REFUSALS = (errno.ENOBUFS, errno.ENETDOWN)
"""A packet socket's answers where the interface drops the frame or is down."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.recvmmsg.restype = ctypes.c_int
_libc.recvmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)


def _row_addresses(rows: NDArray[Any]) -> NDArray[np.uint64]:
    return rows.ctypes.data + np.arange(len(rows), dtype=np.uint64) * np.uint64(rows.strides[0])


class MessageVector:
    """``most`` messages of ``stride`` bytes: message i is in ``buffer`` from i * stride."""

    def __init__(self, most: int, stride: int, *, control: bool = False, names: bool = False) -> None:
        self.stride = stride
        rows = np.zeros((most, stride), dtype=np.uint8)
        self.buffer = memoryview(rows.reshape(-1))  # type: ignore[arg-type]
        self._iovecs = np.empty((most, 2), dtype=np.uint64)
        self._iovecs[:, 0] = _row_addresses(rows)
        self._iovecs[:, 1] = stride
        self._messages = np.zeros(most, dtype=_MESSAGE)
        self._messages["iov"] = _row_addresses(self._iovecs)
        self._messages["iov_count"] = 1
        self._control = np.zeros((most, _CONTROL_WORDS), dtype=np.int64) if control else None
        if self._control is not None:
            self._messages["control"] = _row_addresses(self._control)
        self._names = np.zeros((most, _NAME_WORDS), dtype=np.uint32) if names else None
        if self._names is not None:
            self._messages["name"] = _row_addresses(self._names)
        self.address = int(self._messages.ctypes.data)
        self._lengths = self._messages["length"]

    def lengths(self, count: int) -> list[int]:
        """Bytes of each of the first messages, as received."""
        return [int(n) for n in self._lengths[:count].tolist()]

    def sources(self, count: int) -> list[int]:
        """IPv4 address of the sender of each of the first messages, four bytes as they lie in memory."""
        if self._names is None:
            raise ValueError("no addresses were requested: build the vector with names=True")
        return [int(address) for address in self._names[:count, 1].tolist()]

    def ports(self, count: int) -> list[int]:
        """The source ports of the first ``count`` messages; only with ``names``."""
        assert self._names is not None
        return [int(port) for port in self._names[:count].view(">u2")[:, 1].tolist()]

    def make_room(self) -> None:
        """The kernel shortens the lengths of control data and addresses to what it wrote; set them back before each
        call."""
        if self._names is not None:
            self._messages["name_bytes"] = 4 * _NAME_WORDS
        if self._control is not None:
            self._messages["control_bytes"] = 8 * _CONTROL_WORDS

    def stamps(self, count: int) -> NDArray[np.int64]:
        """(seconds, nanoseconds) of each of the first messages, int64 of shape (count, 2)."""
        if self._control is None:
            raise ValueError("no time stamps were requested: build the receiver with timestamps=True")
        return np.asarray(self._control[:count, 2:4], dtype=np.int64)


def receive_many(sock: socket.socket, vector: MessageVector, most: int) -> int:
    """Fill the first messages with what waits, at most ``most``; how many there were (0: none waits)."""
    vector.make_room()
    count: int = _libc.recvmmsg(sock.fileno(), vector.address, most, socket.MSG_DONTWAIT, None)
    if count >= 0:
        return count
    number = ctypes.get_errno()
    if number in (errno.EAGAIN, errno.EINTR):
        return 0
    raise OSError(number, f"recvmmsg: {os.strerror(number)}")


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
