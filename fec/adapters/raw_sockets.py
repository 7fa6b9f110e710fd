"""The sockets of a stream's ends: labelled frames are sent, and datagrams received.

The caller opens the sockets. A UDP socket has one source port, so packets with different labels are
sent as complete Ethernet frames through a raw socket: Scapy generates the headers once for each
length, and the label is written into them.

The rows of an array are sent and received many at a time, with sendmmsg and recvmmsg of the C
library. Their structures are those of 64-bit Linux.
"""

import ctypes
import errno
import math
import os
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.adapters.scapy_layer import FrameTemplate
from fec.protocol.batches import BatchReceiver

# The errors of a packet socket if the interface drops the frame or is down.
REFUSALS = (errno.ENOBUFS, errno.ENETDOWN)

_LABEL = struct.Struct(">H")

# Socket option with counters, and the position of the number of dropped datagrams among them.
_SO_MEMINFO = 55
_DROPS_INDEX = 8

# Socket option that makes the kernel stamp each datagram with the time of its arrival, and the
# stamp (struct timespec).
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")

# struct mmsghdr, with the alignment of C.
_MESSAGE = np.dtype(
    [
        ("name", "u8"),
        ("name_bytes", "u4"),
        ("iov", "u8"),
        ("iov_count", "u8"),
        ("control", "u8"),
        ("control_bytes", "u8"),
        ("flags", "u8"),
        ("length", "u4"),
    ],
    align=True,
)

# Size of struct sockaddr_in, and of the control message of a time stamp.
_NAME_BYTES = 16
_CONTROL_BYTES = 32

# Longest UDP datagram.
_MAX_DATAGRAM_BYTES = 65536

_libc = ctypes.CDLL(None, use_errno=True)
_libc.sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
_libc.recvmmsg.argtypes = (*_libc.sendmmsg.argtypes, ctypes.c_void_p)


class Messages:
    """The rows of an array as messages of sendmmsg and recvmmsg.

    Attributes:
        rows: The array; each row is the content of a message.
        table: The headers of the messages (struct mmsghdr).
    """

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self.rows = rows
        # The address and the length of each row (struct iovec).
        self._vectors = np.empty((len(rows), 2), np.uint64)
        self._vectors[:, 0] = addresses_of(rows)
        self._vectors[:, 1] = rows.shape[1]
        self.table = np.zeros(len(rows), _MESSAGE)
        self.table["iov"] = addresses_of(self._vectors)
        self.table["iov_count"] = 1
        self._table_address = self.table.ctypes.data

    def send(self, sock: socket.socket, first: int, stop: int) -> int:
        """Send the rows first .. stop - 1.

        Returns:
            The number of rows that were sent before one failed.

        Raises:
            OSError: The first row failed.
        """
        address = self._table_address + first * _MESSAGE.itemsize
        return self._checked(_libc.sendmmsg(sock.fileno(), address, stop - first, 0))

    def receive(self, sock: socket.socket) -> int:
        """Receive waiting datagrams into the first rows, and return their number."""
        try:
            return self._checked(
                _libc.recvmmsg(
                    sock.fileno(), self._table_address, len(self.rows), socket.MSG_DONTWAIT, None
                )
            )
        except (BlockingIOError, InterruptedError):
            return 0

    def _checked(self, count: int) -> int:
        """Return the result of a call of the C library, or raise its error."""
        if count < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return count


def addresses_of(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the address of each row of an array."""
    return rows.ctypes.data + np.arange(len(rows), dtype=np.uint64) * np.uint64(rows.strides[0])


class FrameSender:
    """Sends datagrams from one host to another as frames, with a label as UDP source port.

    Args:
        sock: A socket (AF_PACKET, SOCK_RAW) that is bound to the sending interface.
        template: The headers of the frames.

    Attributes:
        refused: Number of frames that the interface did not accept: its queue was full, it dropped
            them (a fault of the host's own cable), or it was down. They are lost. A UDP socket
            would not report them.
    """

    def __init__(self, sock: socket.socket, template: FrameTemplate) -> None:
        self._sock = sock
        self.template = template
        self.refused = 0
        # Headers by the length of the payload.
        self._headers: dict[int, bytearray] = {}

    def send(self, label: int, payload: bytes) -> None:
        """Send one datagram; wait while the socket's buffer is full."""
        headers = self._headers.get(len(payload))
        if headers is None:
            headers = bytearray(self.template.headers_for(len(payload)))
            self._headers[len(payload)] = headers
        _LABEL.pack_into(headers, self.template.label_offset, label)
        try:
            self._sock.sendmsg((headers, payload))
        except OSError as error:
            self._count_refusal(error)

    def _count_refusal(self, error: OSError) -> None:
        """Count a frame that the interface did not accept; raise any other error again."""
        if error.errno not in REFUSALS:
            raise error
        self.refused += 1

    def send_rows(self, frames: Messages, labels: NDArray[Any]) -> None:
        """Send one frame for each label, from the first rows on.

        Args:
            frames: Rows that contain complete frames, with their labels.
            labels: The labels of the frames; only their number matters here.
        """
        sent = 0
        while sent < len(labels):
            try:
                sent += frames.send(self._sock, sent, len(labels))
            except InterruptedError:
                continue
            except OSError as error:
                self._count_refusal(error)
                sent += 1


class DatagramReceiver:
    """Reads the datagrams that wait in a socket, in order of arrival.

    Other senders are rejected here, and not by connecting the socket: a connected socket receives
    datagrams from one source port only, and the source port is the label.

    Args:
        sock: The socket.
        limit: Maximum number of datagrams that are read at once.
        largest: Maximum length of a datagram in bytes. A longer one is truncated, and fails its
            checks.
        timestamps: The kernel stamps each datagram with the time of its arrival (CLOCK_REALTIME).
            The time is correct even if the process was delayed.
        peer: IPv4 address of the only sender whose datagrams are accepted; None for every sender.

    Attributes:
        foreign: Number of datagrams from other senders, which were discarded.
        until_s: Time until which all datagrams have been read: the arrival of the last one if more
            may wait, and otherwise infinity.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        limit: int = 64,
        largest: int = 2048,
        timestamps: bool = False,
        peer: str | None = None,
    ) -> None:
        self._sock = sock
        self._limit = limit
        self._largest = largest
        self._peer = peer
        self._control_bytes = socket.CMSG_SPACE(_TIMESPEC.size) if timestamps else 0
        self._stamps: list[bytes] = []
        self._ports: list[int] = []
        self.foreign = 0
        self.until_s = math.inf
        if timestamps:
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def receive(self) -> list[bytes]:
        """Return the waiting datagrams of the peer; the list is empty if there are none."""
        datagrams: list[bytes] = []
        self._stamps = []
        self._ports = []
        self.until_s = math.inf
        for _ in range(self._limit):
            try:
                data, control, _, source = self._sock.recvmsg(
                    self._largest, self._control_bytes, socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                break
            if self._peer is not None:
                if source[0] != self._peer:
                    self.foreign += 1
                    continue
                self._ports.append(source[1])
            datagrams.append(data)
            self._stamps += [stamp for _, _, stamp in control]
        else:
            if self._control_bytes:
                self.until_s = _seconds(control[0][2])
        return datagrams

    def arrival_times_s(self, count: int) -> list[float]:
        """Return the times at which datagrams of the last ``receive`` reached the kernel.

        The receiver must have ``timestamps``. The times are seconds of CLOCK_REALTIME. Subtract
        ``time.clock_gettime(CLOCK_REALTIME) - time.monotonic()`` for the monotonic clock.

        Args:
            count: Number of datagrams, from the first one on.
        """
        return list(map(_seconds, self._stamps[:count]))

    def source_ports(self) -> list[int]:
        """Return the source ports of the datagrams of the last ``receive``.

        The receiver must have a ``peer``.
        """
        return self._ports


def _seconds(stamp: bytes) -> float:
    seconds, nanoseconds = _TIMESPEC.unpack(stamp)
    return float(seconds + nanoseconds * 1e-9)


class RowReceiver:
    """Reads the datagrams that wait in a socket into the rows of a batch.

    Lengths and times of arrival (CLOCK_REALTIME, stamped by the kernel) are written to the batch.

    Args:
        sock: The socket.
        batch: The batch, whose number of rows is the maximum number of datagrams at once.
        peer: IPv4 address of the only sender whose datagrams are accepted.

    Attributes:
        foreign: Number of datagrams from other senders, which were discarded.
        until_s: As of ``DatagramReceiver``.
    """

    until_s = math.inf

    def __init__(self, sock: socket.socket, batch: BatchReceiver, peer: str) -> None:
        rows = batch.rows
        self._sock = sock
        self._messages = Messages(rows)
        self._batch = batch
        self.foreign = 0
        self._peer = int.from_bytes(socket.inet_aton(peer), sys.byteorder)
        # struct sockaddr_in has the IP address in its second word. The control message has the time
        # stamp after a header of 16 bytes.
        self._names = np.zeros((len(rows), _NAME_BYTES // 4), np.uint32)
        self._control = np.zeros((len(rows), _CONTROL_BYTES // 8), np.int64)
        table = self._messages.table
        table["name"] = addresses_of(self._names)
        table["control"] = addresses_of(self._control)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def receive(self) -> int:
        """Read waiting datagrams into the first rows, and return the number of the peer's."""
        table = self._messages.table
        batch = self._batch
        # The kernel replaces these lengths by those of the last datagram.
        table["name_bytes"] = _NAME_BYTES
        table["control_bytes"] = _CONTROL_BYTES
        count = self._messages.receive(self._sock)
        batch.lengths[:count] = table["length"][:count]
        batch.times[:count] = self._control[:count, 2] + self._control[:count, 3] * 1e-9
        self.until_s = batch.times[-1].item() if count == len(batch.times) else math.inf
        peer_rows = np.flatnonzero(self._names[:count, 1] == self._peer)
        peer_count = len(peer_rows)
        if peer_count < count:
            self.foreign += count - peer_count
            for values in (batch.rows, batch.lengths, batch.times):
                values[:peer_count] = values[peer_rows]
        return peer_count


def read_waiting_datagrams(sock: socket.socket, limit: int = 256) -> Iterator[bytes]:
    """Read the datagrams that wait in a non-blocking socket, at most ``limit``."""
    for _ in range(limit):
        try:
            yield sock.recv(_MAX_DATAGRAM_BYTES)
        except BlockingIOError:
            return


def socket_drops(sock: socket.socket) -> int:
    """Return the number of datagrams that found the socket's buffer full since it was opened."""
    counters = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * (_DROPS_INDEX + 1))
    return int.from_bytes(counters[4 * _DROPS_INDEX :], "little")
