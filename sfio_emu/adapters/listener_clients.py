"""The clients of a listener, their limits, and the log.

A `Client` transfers the bytes of one connection, and measures the time that it takes. `LimitedLog`
logs refused messages and lost clients, but limits the number of lines, so that no client can fill
the disk.
"""

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

# The maximum number of lines of one kind about one address within one period.
LINES_AT_ONCE = 5
PERIOD_S = 10.0

# The maximum number of different kinds and addresses. Further addresses are counted together.
MAX_KINDS = 256

# The buffers of all messages together, and of one message: data of 2 MiB, and their runs.
DEFAULT_MEMORY_BYTES = 64 << 20
DEFAULT_MESSAGE_BYTES = (2 << 20) + 4096
# The limits of connected clients and of open files, if the process may have enough descriptors.
MAX_CLIENTS = 8192
MAX_FILES = 65536

# Descriptors of the process that are used for neither clients nor files.
DESCRIPTORS_RESERVED = 64

# A client is served for this many steps in a row: its message's header, body, its answer, and the
# beginning of the next message.
STEPS = 4


class LimitedLog:
    """A log that limits the lines of each kind about each client address.

    At most `LINES_AT_ONCE` lines are written in `PERIOD_S` seconds. The number of lines that were
    left out is logged later.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

        # By kind and address: the beginning of the period, and the number of lines in it.
        self._counts: dict[tuple[str, str], list[float]] = {}

    def warn(self, kind: str, peer: str, text: str) -> None:
        """Log a line about a client, unless there are too many.

        Args:
            kind: The kind of event.
            peer: The client, "address:port".
            text: The line.
        """
        now_s = self._clock()
        key = (kind, peer.rpartition(":")[0])
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


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The resources of a listener that clients may use.

    Attributes:
        memory_bytes: The buffers of all messages together.
        message_bytes: The buffer of one message.
        clients: The number of clients.
        files: The number of open files of all clients together.
        greeting_s: The time from the connection of a client to the end of its first message.
        grace_s: The time of any message. A message that takes longer must arrive with `least_rate`.
        least_rate: The minimum rate of a slow message in bytes per second.
        silence_s: The time for which the host of a client may send no TCP segment. Hosts answer
            keep-alive probes even while their clients wait.
    """

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
        """Return limits that fit the process's limit of descriptors.

        Half of the descriptors are for clients, and half for files.

        Args:
            memory_bytes: The buffers of all messages together.
            message_bytes: The buffer of one message.
        """
        soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        half = MAX_FILES
        if soft_limit != resource.RLIM_INFINITY:
            half = max(16, (soft_limit - DESCRIPTORS_RESERVED) // 2)
        return cls(
            memory_bytes=memory_bytes,
            message_bytes=min(message_bytes, memory_bytes),
            clients=min(MAX_CLIENTS, half),
            files=min(MAX_FILES, half),
        )


class Client:
    """A connected client.

    Args:
        stream: The socket, which does not block.
        connection: The protocol with the client.
        peer: The client, "address:port".

    Attributes:
        events: The `poll` events that the client waits for.
        received_s: The time at which it connected, on the monotonic clock.
        active_s: The time at which it was last served, on the monotonic clock.
        used_s: For how many seconds it was served recently. The listener reduces this number by a
            tenth at every tick.
        greeted: Whether it has sent a complete message.
        syncing: Whether a helper thread works on its request.
    """

    def __init__(self, stream: socket.socket, connection: ServerConnection, peer: str) -> None:
        self.stream = stream
        self.connection = connection
        self.peer = peer
        self.events = select.POLLIN
        self.received_s = time.monotonic()
        self.active_s = self.received_s
        self.used_s = 0.0
        self.greeted = False
        self.syncing = False

        # The message that is arriving: when it began, and the number of bytes that have arrived.
        self._began_s: float | None = None
        self._arrived_bytes = 0

        # From this number of bytes on, `poll` reports the socket as readable.
        self._min_readable_bytes = 1

    def too_slow(self, limits: Limits, now_s: float) -> str:
        """Return why the client is too slow, or "" if it is not.

        Args:
            limits: The limits.
            now_s: The present time on the monotonic clock.
        """
        if not self.greeted and now_s - self.received_s > limits.greeting_s:
            return f"it has sent no complete message for {limits.greeting_s:g} s"
        if self._began_s is None or self.connection.outgoing() or self.connection.reader.starved:
            return ""
        duration_s = now_s - self._began_s
        if duration_s > limits.grace_s:
            arrived = self._arrived_bytes + _readable_bytes(self.stream)
            if duration_s > limits.grace_s + arrived / limits.least_rate:
                return f"its message arrives too slowly: {arrived} bytes in {duration_s:.0f} s"
        return ""

    def move(self, pool: BufferPool, *, gone: bool) -> int:
        """Receive, carry out and answer what is possible without waiting.

        After one message, the other clients have their turn.

        Args:
            pool: The message buffers.
            gone: Whether the client has closed its sending direction, so that nothing more arrives.

        Returns:
            The `poll` events to wait for; 0 at the end of the connection, or while no buffer is
            free.
        """
        connection = self.connection
        for _ in range(STEPS):
            had_answer = bool(connection.outgoing())
            while connection.outgoing():
                try:
                    self._send(connection.outgoing())
                except BlockingIOError:
                    return select.POLLOUT
            if had_answer and self._min_readable_bytes == 1 and not connection.closed:
                return select.POLLIN
            is_delayed = self._min_readable_bytes != 1
            if (pool.scarce or is_delayed) and self._must_wait(pool.scarce):
                return 0 if gone else select.POLLIN | select.POLLRDHUP
            buffers = connection.incoming()
            if not buffers:
                return 0
            try:
                count = self.stream.recv_into(buffers[0])
            except BlockingIOError:
                return select.POLLIN
            if not count:
                return 0
            connection.received(count)
            self._note_arrived(count)
        return select.POLLOUT if connection.outgoing() else select.POLLIN

    def _note_arrived(self, count: int) -> None:
        if not self.connection.reader.mid_message:
            self._began_s = None
            self.greeted = True
            return
        if self._began_s is None:
            self._began_s = time.monotonic()
            self._arrived_bytes = 0
        self._arrived_bytes += count

    def _must_wait(self, scarce: bool) -> bool:
        """Return whether the client must wait until its message has arrived in the kernel.

        While buffers are scarce, a message gets one only when all of it has arrived, so that slow
        clients do not occupy the buffers.
        """
        due = self.connection.reader.awaited_bytes if scarce else 0
        if due:
            self._set_min_readable(due)
            # The kernel may grant less than was requested.
            granted = self.stream.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
            if _readable_bytes(self.stream) < min(due, granted):
                return True
        self._set_min_readable(1)
        return False

    def _set_min_readable(self, count: int) -> None:
        """Let `poll` report the socket as readable when `count` bytes have arrived."""
        if self._min_readable_bytes != count:
            if count > 1:
                # The kernel opens the receive window no wider than is requested here, rounded down.
                # Request more first, so that `count` bytes fit into it.
                self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2 * count)
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._min_readable_bytes = count

    def _send(self, pieces: Sequence[memoryview]) -> None:
        """Send as much as one system call can."""
        if len(pieces) == 1:
            count = self.stream.send(pieces[0])
        else:
            count = self.stream.sendmsg(islice(pieces, VECTORS))
        self.connection.sent(count)


def _readable_bytes(stream: socket.socket) -> int:
    """Return the number of bytes that have arrived in the kernel."""
    (count,) = struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))
    return int(count)
