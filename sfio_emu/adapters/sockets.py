"""Connections to listeners over TCP, and the loop that moves the bytes of several conversations at once.
A listener whose host no longer answers is given up within the time limit; the kernel watches the connection."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from sfio_emu.errors import ListenerLost, PeerError, UsageError
from sfio_emu.ports import Connection, Conversation

VECTORS = 1024
DEFAULT_TIMEOUT_S = 2.0
STALL_FACTOR = 15.0


class TcpConnection:
    """A connected stream socket, not blocking."""

    def __init__(self, host: str, stream: socket.socket) -> None:
        self.host = host
        self.stream = stream

    def fileno(self) -> int:
        return self.stream.fileno()

    def close(self) -> None:
        self.stream.close()


class TcpConnections:
    """Connections to the listeners at `addresses`: (address, port) by host name.

    `open_socket(host)` makes the unconnected socket (inside another network namespace, say). `timeout_s` bounds how
    long a connection may take and how long a host may be silent at the level of TCP, `stall_s` how long a listener
    whose host is alive may move no byte (15 times `timeout_s` unless given).
    """

    def __init__(
        self,
        addresses: Mapping[str, tuple[str, int]],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        stall_s: float | None = None,
        open_socket: Callable[[str], socket.socket] | None = None,
    ) -> None:
        self._addresses = dict(addresses)
        self._timeout_s = timeout_s
        self._stall_s = STALL_FACTOR * timeout_s if stall_s is None else stall_s
        self._open_socket = open_socket or (lambda host: socket.socket(socket.AF_INET, socket.SOCK_STREAM))

    def connect(self, host: str) -> TcpConnection:
        """Raises `ListenerLost` within the time limit, `UsageError` where no listener of that name is known."""
        address = self._addresses.get(host)
        if address is None:
            known = ", ".join(sorted(self._addresses)) or "none"
            raise UsageError(f"no listener is known for the host {host!r} of the file name: known are {known}")
        stream = self._open_socket(host)
        try:
            stream.settimeout(self._timeout_s)
            stream.connect(address)
            watch_peer(stream, self._timeout_s)
            stream.setblocking(False)
        except OSError as fault:
            stream.close()
            raise ListenerLost(host, f"no connection to its listener at {address[0]}:{address[1]}: {fault}") from fault
        return TcpConnection(host, stream)

    def carry(self, talks: Sequence[tuple[Connection, Conversation]]) -> Mapping[str, PeerError]:
        """Move bytes until each conversation is finished or broken; what broke, by host."""
        broken: dict[str, PeerError] = {}
        live = {connection.fileno(): (connection, talk) for connection, talk in talks}
        poll = select.poll()
        wanted: dict[int, int] = {}
        progress_s = dict.fromkeys(live, time.monotonic())
        ready = [(number, select.POLLOUT) for number in live]
        while live:
            for number, happened in ready:
                if happened & select.POLLOUT:  # gather for all hosts while the cache holds this part of memory
                    live[number][1].outgoing()
            for number, happened in ready:
                connection, talk = live[number]
                try:
                    events = _pump(_stream(connection), talk, happened)
                except BlockingIOError:
                    events = wanted.get(number, select.POLLIN | select.POLLOUT)
                except PeerError as fault:
                    broken[connection.host], events = fault, 0
                except OSError as fault:
                    broken[connection.host], events = ListenerLost(connection.host, _say(fault)), 0
                if not events:
                    del live[number]
                    if wanted.pop(number, None) is not None:
                        poll.unregister(number)
                elif wanted.get(number) != events:
                    poll.register(number, events)
                    wanted[number] = events
            if not live:
                break
            ready = poll.poll(min(self._timeout_s, 1.0) * 1000)
            now_s = time.monotonic()
            progress_s.update((number, now_s) for number, _ in ready)
            for number, (connection, _) in list(live.items()):
                if now_s - progress_s[number] > self._stall_s:
                    text = f"its listener has moved no byte for {self._stall_s:g} s"
                    broken[connection.host] = ListenerLost(connection.host, text)
                    del live[number]
                    poll.unregister(number)
        return broken


def _pump(stream: socket.socket, talk: Conversation, ready: int) -> int:
    """Receive and send what there is at one go; the events to wait for, 0 when the conversation is finished.

    One slice only: then the other hosts have theirs, cut from the same part of memory while the cache holds it.
    """
    if ready & ~select.POLLOUT:
        count = stream.recvmsg_into(list(islice(talk.incoming(), VECTORS)))[0]
        if not count:
            raise ConnectionResetError(errno.ECONNRESET, "its listener closed the connection")
        talk.received(count)
    if ready & select.POLLOUT:
        pieces = talk.outgoing()
        if pieces:
            talk.sent(stream.sendmsg(islice(pieces, VECTORS)))
    if talk.outgoing():
        return select.POLLIN | select.POLLOUT
    return 0 if talk.finished else select.POLLIN


def _stream(connection: Connection) -> socket.socket:
    assert isinstance(connection, TcpConnection)
    return connection.stream


def _say(fault: OSError) -> str:
    if isinstance(fault, (ConnectionResetError, BrokenPipeError)):
        return "its listener is gone (connection closed)"
    if fault.errno in (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"no answer from it any more ({fault.strerror})"
    return f"the connection to its listener broke: {fault}"


def watch_peer(stream: socket.socket, timeout_s: float) -> None:
    """Let the kernel give up a silent peer within `timeout_s`: unacknowledged data as well as an idle wait."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    step_s = max(1, int(timeout_s / 2))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, step_s)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, step_s)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(750 * timeout_s))


__all__ = ["DEFAULT_TIMEOUT_S", "TcpConnection", "TcpConnections", "watch_peer"]
