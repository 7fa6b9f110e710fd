"""Sockets of the stream's ends: labelled frames out of a raw socket, datagrams in. Sockets come opened.

A UDP socket has one source port, so labelled packets leave as whole Ethernet frames: Scapy designs the headers once for
each length, the data path writes the label into them. Compiled ends send and receive rows of an array, many a call, by
sendmmsg and recvmmsg of the C library, as 64-bit Linux lays them out.
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

REFUSALS = (errno.ENOBUFS, errno.ENETDOWN)
"""A packet socket's answers where the interface drops the frame or is down."""

_LABEL = struct.Struct(">H")
_SO_MEMINFO, _DROPS_INDEX = 55, 8
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")
_WORDS = ("iov", "iov_count", "control", "control_bytes", "flags")
_MESSAGE = np.dtype(
    [("name", "u8"), ("name_bytes", "u4"), *((name, "u8") for name in _WORDS), ("length", "u4")],
    True,
)
"""struct mmsghdr."""
_NAME_BYTES, _CONTROL_BYTES = 16, 32
"""struct sockaddr_in; a time stamp's control message."""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
_libc.recvmmsg.argtypes = (*_libc.sendmmsg.argtypes, ctypes.c_void_p)


class Messages:
    """Each row of an array as a message."""

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self.rows, self._parts = rows, np.empty((len(rows), 2), np.uint64)
        self._parts[:, 0], self._parts[:, 1] = addresses_of(rows), rows.shape[1]
        self.table = np.zeros(len(rows), _MESSAGE)
        self.table["iov"], self.table["iov_count"] = addresses_of(self._parts), 1
        self._at = self.table.ctypes.data

    def send(self, sock: socket.socket, first: int, stop: int) -> int:
        """Rows first .. stop - 1; how many went, before one that did not: OSError where that is the first."""
        return self._called(
            _libc.sendmmsg(sock.fileno(), self._at + first * _MESSAGE.itemsize, stop - first, 0)
        )

    def receive(self, sock: socket.socket) -> int:
        """Fill the first rows with what waits; how many."""
        try:
            return self._called(
                _libc.recvmmsg(sock.fileno(), self._at, len(self.rows), socket.MSG_DONTWAIT, None)
            )
        except (BlockingIOError, InterruptedError):
            return 0

    def _called(self, count: int) -> int:
        if count < 0:
            raise OSError(number := ctypes.get_errno(), os.strerror(number))
        return count


def addresses_of(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Where each row lies."""
    return rows.ctypes.data + np.arange(len(rows), dtype=np.uint64) * np.uint64(rows.strides[0])


class FrameSender:
    """Sends datagrams from one host to another as frames, each with a label as its UDP source port.

    ``sock``: AF_PACKET, SOCK_RAW, bound to the sending interface. ``refused`` counts frames that the interface did not
    take: its queue was full, it dropped them (a fault on the host's own cable), or it was down. They are lost like any
    other; a UDP socket would not even tell.
    """

    def __init__(self, sock: socket.socket, template: FrameTemplate) -> None:
        self._sock, self.template = sock, template
        self.refused = 0
        self._headers: dict[int, bytearray] = {}

    def send(self, label: int, payload: bytes) -> None:
        """One datagram; blocks while the socket's own buffer is full."""
        headers = self._headers.get(len(payload))
        if headers is None:
            headers = self._headers[len(payload)] = bytearray(
                self.template.headers_for(len(payload))
            )
        _LABEL.pack_into(headers, self.template.label_offset, label)
        try:
            self._sock.sendmsg((headers, payload))
        except OSError as error:
            self._refuse(error)

    def _refuse(self, error: OSError) -> None:
        if error.errno not in REFUSALS:
            raise error
        self.refused += 1

    def send_rows(self, frames: Messages, labels: NDArray[Any]) -> None:
        """The first rows, which are whole frames, one of each of these labels."""
        done = 0
        while done < len(labels):
            try:
                done += frames.send(self._sock, done, len(labels))
            except InterruptedError:
                continue
            except OSError as error:
                self._refuse(error)
                done += 1


class DatagramReceiver:
    """Takes what is in a datagram socket, without waiting.

    ``largest``: bytes of the longest datagram expected (a longer one is cut off there, and fails its checks);
    ``timestamps``: have the kernel stamp each datagram as it arrives (CLOCK_REALTIME), so that a receiver that was kept
    waiting still knows when; ``peer``: an IPv4 address, what others send is counted in ``foreign`` and thrown away. (A
    socket that is connected takes datagrams of one port only, and their source port is their label.) Without loss of
    order. ``until_s``: all that came earlier was taken: the time of the last one where more may wait, else infinity.
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
        self.foreign, self.until_s = 0, math.inf
        if timestamps:
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def receive(self) -> list[bytes]:
        """At most ``most`` waiting datagrams, in order of arrival; empty where none waits, or none of the peer's."""
        found: list[bytes] = []
        self._stamps, self._ports, self.until_s = [], [], math.inf
        for _ in range(self._most):
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
            found.append(data)
            self._stamps += [stamp for _, _, stamp in control]
        else:
            if self._control_bytes:
                self.until_s = _seconds(control[0][2])
        return found

    def arrival_times_s(self, count: int) -> list[float]:
        """When the first ``count`` datagrams of the last ``receive`` reached the kernel: seconds of CLOCK_REALTIME.

        Only with ``timestamps``. Take time.clock_gettime(CLOCK_REALTIME) - time.monotonic() for the other clock.
        """
        return list(map(_seconds, self._stamps[:count]))

    def source_ports(self) -> list[int]:
        """Of the datagrams of the last ``receive``; only with ``peer``."""
        return self._ports


def _seconds(stamp: bytes) -> float:
    seconds, nanoseconds = _TIMESPEC.unpack(stamp)
    return float(seconds + nanoseconds * 1e-9)


class RowReceiver:
    """``DatagramReceiver`` with the kernel's time stamps into a batch, with their lengths and times (of
    CLOCK_REALTIME). ``peer``: whose alone are taken."""

    until_s = math.inf

    def __init__(self, sock: socket.socket, batch: BatchReceiver, peer: str) -> None:
        rows = batch.rows
        self._sock, self._messages, self._batch, self.foreign = sock, Messages(rows), batch, 0
        self._peer = int.from_bytes(socket.inet_aton(peer), sys.byteorder)
        self._names = np.zeros((len(rows), _NAME_BYTES // 4), np.uint32)
        self._control = np.zeros((len(rows), _CONTROL_BYTES // 8), np.int64)
        table = self._messages.table
        table["name"], table["control"] = addresses_of(self._names), addresses_of(self._control)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def receive(self) -> int:
        """Take what waits, as many as there are rows; how many are the peer's."""
        table, batch = self._messages.table, self._batch
        table["name_bytes"], table["control_bytes"] = _NAME_BYTES, _CONTROL_BYTES
        count = self._messages.receive(self._sock)
        batch.lengths[:count] = table["length"][:count]
        batch.times[:count] = self._control[:count, 2] + self._control[:count, 3] * 1e-9
        self.until_s = batch.times[-1].item() if count == len(batch.times) else math.inf
        own = np.flatnonzero(self._names[:count, 1] == self._peer)
        if len(own) < count:
            self.foreign += count - len(own)
            for held in (batch.rows, batch.lengths, batch.times):
                held[: len(own)] = held[own]
        return len(own)


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
