"""One client of a listener at its socket: bytes in and out, how long it has taken, how slow it may be; and what is
logged of refused messages and lost clients, limited so that no client can fill a disk with it."""

from __future__ import annotations

import fcntl
import logging
import resource
import select
import socket
import struct
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from sfio_emu.adapters.sockets import VECTORS
from sfio_emu.listener.connection import ServerConnection
from sfio_emu.listener.reader import BufferPool

LOG = logging.getLogger("sfio_emu.listener")
LINES_AT_ONCE = 5
PERIOD_S = 10.0
MAX_KINDS = 256


class LimitedLog:
    """At most LINES_AT_ONCE lines in PERIOD_S seconds of each kind and client address; how many were left out is said
    later."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[tuple[str, str], list[float]] = {}  # begin of the period, lines in it

    def warn(self, kind: str, peer: str, text: str) -> None:
        """One line about the client at `peer` (address:port)."""
        now_s, key = self._clock(), (kind, peer.rpartition(":")[0])
        if len(self._counts) >= MAX_KINDS and key not in self._counts:
            key = (kind, "others")
        period = self._counts.setdefault(key, [now_s, 0])
        if now_s - period[0] > PERIOD_S:
            left_out = int(period[1]) - LINES_AT_ONCE
            if left_out > 0:
                LOG.warning(
                    "%s: %d more such lines about clients at %s were left out",
                    kind,
                    left_out,
                    key[1],
                )
            period[:] = [now_s, 0]
        period[1] += 1
        if period[1] <= LINES_AT_ONCE:
            LOG.warning("%s %s: %s", kind, peer, text)


DEFAULT_MEMORY_BYTES = 64 << 20
DEFAULT_MESSAGE_BYTES = (2 << 20) + 4096
MAX_CLIENTS = 8192
MAX_FILES = 65536
DESCRIPTORS_RESERVED = 64
STEPS = 4  # head, body, answer, and the beginning of what follows


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What all clients together may take of a listener, and one of its patience.

    `memory_bytes` for the buffers of all messages, `message_bytes` for those of one. How many clients are served at
    once, how many files are open for all of them, how long one may take until its first whole message, how slow a
    message may arrive: after `grace_s` at `least_rate` bytes a second; and how long a client's host may be silent (it
    gives signs of life while it waits, but not over a network that takes its way away for so long)."""

    memory_bytes: int = DEFAULT_MEMORY_BYTES
    message_bytes: int = DEFAULT_MESSAGE_BYTES
    clients: int = MAX_CLIENTS
    files: int = MAX_FILES
    greeting_s: float = 20.0
    grace_s: float = 30.0
    least_rate: float = 4096.0
    silence_s: float = 20.0

    @classmethod
    def of_process(
        cls, memory_bytes: int = DEFAULT_MEMORY_BYTES, message_bytes: int = DEFAULT_MESSAGE_BYTES
    ) -> Limits:
        """Half of what this process may open for clients, half for files."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        half = (
            MAX_FILES
            if soft == resource.RLIM_INFINITY
            else max(16, (soft - DESCRIPTORS_RESERVED) // 2)
        )
        return cls(
            memory_bytes=memory_bytes, message_bytes=min(message_bytes, memory_bytes), clients=min(MAX_CLIENTS, half),
            files=min(MAX_FILES, half),
        )  # fmt: skip


class Client:
    """A connected client. `used_s`: how long it was served of late; `greeted`: it has sent a whole message; `syncing`:
    it waits for files to be on the medium."""

    def __init__(self, stream: socket.socket, connection: ServerConnection, peer: str) -> None:
        self.stream, self.connection, self.peer = stream, connection, peer
        self.events = select.POLLIN
        self.received_s = self.active_s = time.monotonic()
        self.used_s = 0.0
        self.greeted = self.syncing = False
        self._began_s: float | None = None  # the message that is arriving
        self._arrived_bytes = 0
        self._lowat = 1

    def too_slow(self, limits: Limits, now_s: float) -> str:
        """Why it is not to be waited for any longer; "" where it is."""
        if not self.greeted and now_s - self.received_s > limits.greeting_s:
            return f"it has sent no whole message for {limits.greeting_s:g} s"
        if self._began_s is None or self.connection.outgoing() or self.connection.reader.starved:
            return ""
        taken_s, arrived = now_s - self._began_s, self._arrived_bytes
        if taken_s > limits.grace_s:
            arrived += _readable_bytes(self.stream)
            if taken_s > limits.grace_s + arrived / limits.least_rate:
                return f"its message arrives too slowly: {arrived} bytes in {taken_s:.0f} s"
        return ""

    def move(self, pool: BufferPool, *, gone: bool) -> int:
        """Receive, serve and answer what can be now; the events to wait for, 0 at the end or where a buffer is missing.

        After one message the others have their turn. `gone`: nothing more will come.
        """
        connection = self.connection
        for _ in range(STEPS):
            answered = bool(connection.outgoing())
            while connection.outgoing():
                try:
                    self._send(connection.outgoing())
                except BlockingIOError:
                    return select.POLLOUT
            if answered and self._lowat == 1 and not connection.closed:
                return select.POLLIN
            if (pool.scarce or self._lowat != 1) and self._must_wait(pool.scarce):
                return 0 if gone else select.POLLIN | select.POLLRDHUP
            places = connection.incoming()
            if not places:
                return 0
            try:
                count = self.stream.recv_into(places[0])
            except BlockingIOError:
                return select.POLLIN
            if not count:
                return 0
            connection.received(count)
            self._note_arrived(count)
        return select.POLLOUT if connection.outgoing() else select.POLLIN

    def _note_arrived(self, count: int) -> None:
        if self.connection.reader.mid_message:
            if self._began_s is None:
                self._began_s, self._arrived_bytes = time.monotonic(), 0
            self._arrived_bytes += count
        else:
            self._began_s, self.greeted = None, True

    def _must_wait(self, scarce: bool) -> bool:
        """Where buffers are scarce, none is given to a message that is still to arrive: it waits in the kernel,
        whole."""
        due = self.connection.reader.awaited_bytes if scarce else 0
        if due:
            self._set_lowat(due)
            enough = min(due, self.stream.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))
            if _readable_bytes(self.stream) < enough:
                return True
        self._set_lowat(1)
        return False

    def _set_lowat(self, count: int) -> None:
        """Let the kernel say that there is something to read from so many bytes on."""
        if self._lowat != count:
            if (
                count > 1
            ):  # the kernel grants no wider a window than is requested, rounded down: ask for more first
                self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2 * count)
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._lowat = count

    def _send(self, pieces: Sequence[memoryview]) -> None:
        """Send what can be sent by one call."""
        count = (
            self.stream.send(pieces[0])
            if len(pieces) == 1
            else self.stream.sendmsg(islice(pieces, VECTORS))
        )
        self.connection.sent(count)


def _readable_bytes(stream: socket.socket) -> int:
    """Bytes that have arrived and wait in the kernel."""
    (count,) = struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))
    return int(count)
