"""The process that owns the sockets of senders of a run: it opens their connections and writes the messages it is
given.

One loop over epoll, which decides nothing: what is sent when comes as orders, and only a connection that breaks is
reported.
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

_WRITE_BYTES = 1 << 17
_CONNECT_AGAIN_S, _CONNECT_AT_ONCE = 4.0, 64
_SO_MAX_PACING_RATE = 47
_TCP_INFO_BYTES, _TOTAL_RETRANS_AT, _BYTES_RETRANS_AT, _TOTAL_RTO_AT = 248, 100, 208, 240
"""Of struct tcp_info: packets and, since Linux 4.19, bytes of data sent again; since 6.7 time-outs."""


@dataclass
class _Outgoing:
    """A connection and the messages that wait for it: (number, attempt, pieces still to be sent)."""

    sock: socket.socket
    watched: bool = False
    waiting: deque[tuple[int, int, deque[memoryview]]] = field(default_factory=deque)


class Sender:
    """Some senders of a run; raises CapabilityError where a connection is refused or does not come."""

    def __init__(self, sockets: NodeSockets, nodes: Container[str], messages: MessageSet) -> None:
        self._sockets = sockets
        self._messages = messages
        self._connections = [one for one in dict.fromkeys(messages.ends) if one[0] in nodes]
        self._poll = select.epoll()
        self._by_ends: dict[Ends, _Outgoing] = {}
        self._by_file: dict[int, _Outgoing] = {}

    def run(self, port: Connection) -> None:
        self._poll.register(port.fileno(), select.EPOLLIN)
        self._connect_all()
        port.send(Ready())
        while True:
            for file, _ in self._poll.poll():
                if file == port.fileno():
                    self._execute(port)
                else:
                    self._write(self._by_file[file], port)

    def _execute(self, port: Connection) -> None:
        order = port.recv()
        if isinstance(order, Send):
            for number, attempt in order.messages:
                self._send(number, attempt)
        else:
            first = {ends: n for n, ends in reversed(list(enumerate(self._messages.ends)))}
            counts = tuple(
                (first[ends], *_retransmitted(o.sock)) for ends, o in self._by_ends.items()
            )
            port.send(Counted(counts=counts))

    def _connect_all(self) -> None:
        """Open the persistent connections, some at a time: a thousand first packets at once are more than switches look
        up.

        One that is not there after some seconds begins again from another port: what a switch remembers of its first
        packets may outlive their repetitions.
        """
        every = self._connections
        until = time.monotonic() + ANSWER_S / 2
        for first in range(0, len(every), _CONNECT_AT_ONCE):
            left = every[first : first + _CONNECT_AT_ONCE]
            while left:
                left = self._connect_some(left)
                if left and time.monotonic() > until:
                    raise CapabilityError(
                        f"no connection from {left[0][0]} to {left[0][1]} in {ANSWER_S / 2:g} s"
                    )

    def _connect_some(self, every: Sequence[Ends]) -> list[Ends]:
        """Make these connections; those that had no answer in time are closed and returned."""
        waiting = select.epoll()
        missing = {}
        for ends in every:
            file = self._open(ends).sock.fileno()
            missing[file] = ends
            waiting.register(file, select.EPOLLOUT)
        until = time.monotonic() + _CONNECT_AGAIN_S
        while missing and (left := until - time.monotonic()) > 0:
            for file, _ in waiting.poll(left):
                error = self._by_file[file].sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise CapabilityError(f"a connection was refused ({os.strerror(error)})")
                waiting.unregister(file)
                del missing[file]
        waiting.close()
        for ends in missing.values():
            self._drop(ends)
        return list(missing.values())

    def _open(self, ends: Ends, attempt: int = 1) -> _Outgoing:
        source, sink = ends[:2]
        sock = self._sockets.open(source, socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        reset_on_close(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pacing = self._messages.pacing.get(ends)
        if pacing is not None:
            pacing_bps = pacing.first_bps if attempt == 1 else pacing.again_bps
            sock.setsockopt(
                socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("@Q", round(pacing_bps / 8))
            )
        with contextlib.suppress(BlockingIOError):
            sock.connect((self._sockets.addresses[sink], BULK_PORT + ends[2]))
        outgoing = self._by_ends[ends] = self._by_file[sock.fileno()] = _Outgoing(sock=sock)
        return outgoing

    def _send(self, number: int, attempt: int) -> None:
        ends = self._messages.ends[number]
        if attempt > 1:
            self._drop(ends)
            self._open(ends, attempt)
        outgoing = self._by_ends[ends]
        header = MessageHeader(
            transfer=number, attempt=attempt, length=self._messages.message_bytes
        ).encode()
        payload = self._messages.payloads.payload(number)
        end = trailer(self._messages.payloads.checksum(number))
        outgoing.waiting.append(
            (number, attempt, deque([memoryview(header), payload, memoryview(end)]))
        )
        if not outgoing.watched:
            self._poll.register(outgoing.sock.fileno(), select.EPOLLOUT)
            outgoing.watched = True

    def _drop(self, ends: Ends) -> None:
        outgoing = self._by_ends.pop(ends)
        del self._by_file[outgoing.sock.fileno()]
        if outgoing.watched:
            self._poll.unregister(outgoing.sock.fileno())
        outgoing.sock.close()

    def _write(self, outgoing: _Outgoing, port: Connection) -> None:
        number, attempt, pieces = outgoing.waiting[0]
        try:
            while pieces:
                sent = outgoing.sock.send(
                    pieces[0][:_WRITE_BYTES], 0 if len(pieces) == 1 else socket.MSG_MORE
                )
                if sent < len(pieces[0]):
                    pieces[0] = pieces[0][sent:]
                else:
                    pieces.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._stop_watching(outgoing)
            outgoing.waiting.clear()
            port.send(ConnectionBroke(transfer=number, attempt=attempt))
            return
        outgoing.waiting.popleft()
        if not outgoing.waiting:
            self._stop_watching(outgoing)

    def _stop_watching(self, outgoing: _Outgoing) -> None:
        self._poll.unregister(outgoing.sock.fileno())
        outgoing.watched = False


def _retransmitted(sock: socket.socket) -> TcpRetransmissions:
    """What TCP has sent again on this connection; zeros for what the kernel does not count."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return TcpRetransmissions(
        bytes=_counted(info, "=Q", _BYTES_RETRANS_AT),
        packets=_counted(info, "=I", _TOTAL_RETRANS_AT),
        timeouts=_counted(info, "=H", _TOTAL_RTO_AT),
    )


def _counted(info: bytes, form: str, at: int) -> int:
    return (
        int(struct.unpack_from(form, info, at)[0]) if len(info) >= at + struct.calcsize(form) else 0
    )
