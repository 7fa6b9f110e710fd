"""The process of senders: it opens their connections, and sends messages as ordered.

It decides nothing. Orders say what is sent when. It reports only connections that break.
"""

import contextlib
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from testbed.bulk.circuit_rules import BULK_PORT
from testbed.bulk.coordinator import Send
from testbed.bulk.emulated.agent_process import ANSWER_S, NodeSockets, reset_on_close
from testbed.bulk.measurements import TcpRetransmissions
from testbed.bulk.messages import (
    ConnectionBroke,
    Counted,
    MessageHeader,
    MessageSet,
    Ready,
    trailer,
)
from testbed.bulk.plan import Ends
from testbed.errors import CapabilityError

# The maximum number of bytes of one system call.
_WRITE_BYTES = 1 << 17
# A connection that is not established after this time is opened again.
_CONNECT_AGAIN_S = 4.0
# The number of connections that are opened at the same time.
_CONNECT_AT_ONCE = 64
# From the kernel's header asm-generic/socket.h; Python has no name for it.
_SO_MAX_PACING_RATE = 47
# Positions in struct tcp_info: retransmitted packets, retransmitted bytes (since Linux 4.19), and
# time-outs (since Linux 6.7).
_TCP_INFO_BYTES = 248
_TOTAL_RETRANS_AT = 100
_BYTES_RETRANS_AT = 208
_TOTAL_RTO_AT = 240


@dataclass
class _WaitingMessage:
    """A message and the pieces of it that have not been sent."""

    number: int
    attempt: int
    pieces: deque[memoryview]


@dataclass
class _Outgoing:
    """A connection and the messages that wait for it.

    Attributes:
        sock: The socket.
        watched: Whether the loop waits until the socket is writable.
        waiting: The messages, in order.
    """

    sock: socket.socket
    watched: bool = False
    waiting: deque[_WaitingMessage] = field(default_factory=deque)


class Sender:
    """The senders of one process."""

    def __init__(self, sockets: NodeSockets, nodes: Container[str], messages: MessageSet) -> None:
        """Prepare the senders.

        Args:
            sockets: Opens sockets of the nodes.
            nodes: The nodes.
            messages: All messages of the run.
        """
        self._sockets = sockets
        self._messages = messages
        self._connections = [ends for ends in dict.fromkeys(messages.ends) if ends[0] in nodes]
        self._poll = select.epoll()
        self._by_ends: dict[Ends, _Outgoing] = {}
        self._by_file: dict[int, _Outgoing] = {}

    def run(self, pipe: Connection) -> None:
        """Establish the connections, and execute orders until the pipe is closed (EOFError).

        Raises:
            CapabilityError: A connection is refused, or not established in time.
        """
        self._poll.register(pipe.fileno(), select.EPOLLIN)
        self._connect_all()
        pipe.send(Ready())
        while True:
            for file, _ in self._poll.poll():
                if file == pipe.fileno():
                    self._execute(pipe)
                elif file in self._by_file:
                    # An order of the same poll may have closed the connection.
                    self._write(self._by_file[file], pipe)

    def _execute(self, pipe: Connection) -> None:
        order = pipe.recv()
        if isinstance(order, Send):
            for number, attempt in order.messages:
                self._send(number, attempt)
        else:
            pipe.send(self._counted())

    def _counted(self) -> Counted:
        first_message: dict[Ends, int] = {}
        for number, ends in enumerate(self._messages.ends):
            first_message.setdefault(ends, number)
        counts = []
        for ends, outgoing in self._by_ends.items():
            counts.append((first_message[ends], *_retransmitted(outgoing.sock)))
        return Counted(counts=tuple(counts))

    def _connect_all(self) -> None:
        """Establish the persistent connections.

        Only some are opened at the same time, because switches cannot look up a thousand first
        packets at once. A connection without answer after some seconds is opened again, from
        another port. A switch may remember a wrong decision about its first packet for longer than
        TCP repeats it.
        """
        until_s = time.monotonic() + ANSWER_S / 2
        for first in range(0, len(self._connections), _CONNECT_AT_ONCE):
            missing = self._connections[first : first + _CONNECT_AT_ONCE]
            while missing:
                missing = self._connect_some(missing)
                if missing and time.monotonic() > until_s:
                    source, sink, _ = missing[0]
                    raise CapabilityError(
                        f"no connection from {source} to {sink} in {ANSWER_S / 2:g} s"
                    )

    def _connect_some(self, connections: Sequence[Ends]) -> list[Ends]:
        """Establish connections. Close those without answer in time, and return their ends."""
        poll = select.epoll()
        missing = {}
        for ends in connections:
            file = self._open(ends).sock.fileno()
            missing[file] = ends
            poll.register(file, select.EPOLLOUT)
        until_s = time.monotonic() + _CONNECT_AGAIN_S
        while missing and (left_s := until_s - time.monotonic()) > 0:
            for file, _ in poll.poll(left_s):
                error = self._by_file[file].sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise CapabilityError(f"a connection was refused ({os.strerror(error)})")
                poll.unregister(file)
                del missing[file]
        poll.close()
        for ends in missing.values():
            self._drop(ends)
        return list(missing.values())

    def _open(self, ends: Ends, attempt: int = 1) -> _Outgoing:
        """Begin to connect."""
        source, sink, part = ends
        sock = self._sockets.open(source, socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        reset_on_close(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pacing = self._messages.pacing.get(ends)
        if pacing is not None:
            rate_bps = pacing.first_bps if attempt == 1 else pacing.again_bps
            bytes_per_s = struct.pack("@Q", round(rate_bps / 8))
            sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, bytes_per_s)
        with contextlib.suppress(BlockingIOError):
            sock.connect((self._sockets.addresses[sink], BULK_PORT + part))
        outgoing = _Outgoing(sock=sock)
        self._by_ends[ends] = outgoing
        self._by_file[sock.fileno()] = outgoing
        return outgoing

    def _send(self, number: int, attempt: int) -> None:
        """Queue a message; a repeated one gets a new connection."""
        ends = self._messages.ends[number]
        if attempt > 1:
            self._drop(ends)
            self._open(ends, attempt)
        outgoing = self._by_ends[ends]
        header = MessageHeader(
            transfer=number, attempt=attempt, length=self._messages.message_bytes
        )
        payloads = self._messages.payloads
        pieces = deque(
            [
                memoryview(header.encode()),
                payloads.payload(number),
                memoryview(trailer(payloads.checksum(number))),
            ]
        )
        outgoing.waiting.append(_WaitingMessage(number, attempt, pieces))
        if not outgoing.watched:
            self._poll.register(outgoing.sock.fileno(), select.EPOLLOUT)
            outgoing.watched = True

    def _drop(self, ends: Ends) -> None:
        """Close a connection."""
        outgoing = self._by_ends.pop(ends)
        del self._by_file[outgoing.sock.fileno()]
        if outgoing.watched:
            self._poll.unregister(outgoing.sock.fileno())
        outgoing.sock.close()

    def _write(self, outgoing: _Outgoing, pipe: Connection) -> None:
        """Send as much of the next message as the socket accepts."""
        message = outgoing.waiting[0]
        pieces = message.pieces
        try:
            while pieces:
                # The kernel fills packets while there is more of the message.
                flags = 0 if len(pieces) == 1 else socket.MSG_MORE
                sent_bytes = outgoing.sock.send(pieces[0][:_WRITE_BYTES], flags)
                if sent_bytes < len(pieces[0]):
                    pieces[0] = pieces[0][sent_bytes:]
                else:
                    pieces.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._stop_watching(outgoing)
            outgoing.waiting.clear()
            pipe.send(ConnectionBroke(transfer=message.number, attempt=message.attempt))
            return
        outgoing.waiting.popleft()
        if not outgoing.waiting:
            self._stop_watching(outgoing)

    def _stop_watching(self, outgoing: _Outgoing) -> None:
        self._poll.unregister(outgoing.sock.fileno())
        outgoing.watched = False


def _retransmitted(sock: socket.socket) -> TcpRetransmissions:
    """Return the retransmissions of a connection; 0 for figures that the kernel does not have."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return TcpRetransmissions(
        bytes=_field(info, "=Q", _BYTES_RETRANS_AT),
        packets=_field(info, "=I", _TOTAL_RETRANS_AT),
        timeouts=_field(info, "=H", _TOTAL_RTO_AT),
    )


def _field(info: bytes, form: str, position: int) -> int:
    """Return a field of struct tcp_info, or 0 if the kernel's structure is shorter."""
    if len(info) < position + struct.calcsize(form):
        return 0
    return int(struct.unpack_from(form, info, position)[0])
