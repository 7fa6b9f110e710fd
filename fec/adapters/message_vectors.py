"""recvmmsg of the C library over one buffer of equal rows: many datagrams a system call.

Laid out for 64-bit Linux (amd64, arm64), the only place where streams run on real sockets.
"""

import ctypes
import errno
import os
import socket
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
