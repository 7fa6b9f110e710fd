"""Connections to listeners over TCP, and the loop that moves the bytes of several conversations at once.

Two kinds of silence are distinguished. A *way that is dead*: the kernel sends and nothing comes back, not even for a
window that is closed; given up within the time limit. A *listener that stands still*: its host answers, the listener
does not, because its disk is slow or it was stopped; waited for 15 times as long.
"""

import errno
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from sfio_emu.adapters.key_files import key_from_environment
from sfio_emu.adapters.local_users import is_foreign_listener
from sfio_emu.errors import ListenerLost, PeerError, UsageError, positive_seconds, whole_number
from sfio_emu.ports import Connection, Conversation

VECTORS = 1024
DEFAULT_TIMEOUT_S = 2.0
# A variable; it lets a client without a key use listeners of other users on its machine.
_EVERYBODY = "SFIO_WITHOUT_KEY"
STALL_FACTOR = 15.0
MIN_BURST_BYTES = 16 << 10
MAX_KEEPALIVE_S = 32767  # what the kernel takes
TCP_INFO = struct.Struct(
    "<2x2B40xI8xI"
)  # of tcp_info: retransmits, probes, ms since data were sent, since something was acknowledged


class TcpConnections:
    """Connections to the listeners at `addresses`: (address, port) by host name.

    `open_socket(host)` makes the unconnected socket (inside another network namespace, say). `timeout_s` bounds how
    long a connection may take and how long a host may be silent at the level of TCP, `stall_s` how long a listener
    whose host is alive may move no byte (15 times `timeout_s` unless given). `key`: of the run, which the listeners
    must have too (default: that of SFIO_KEY_FILE); without one only listeners that require none are used.
    """

    def __init__(
        self,
        addresses: Mapping[str, tuple[str, int]],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        stall_s: float | None = None,
        open_socket: Callable[[str], socket.socket] | None = None,
        key: bytes | None = None,
    ) -> None:
        self._addresses = _checked(addresses)
        self._timeout_s = positive_seconds(timeout_s, "time-out")
        self._key = key_from_environment() if key is None else key
        self._stall_s = (
            STALL_FACTOR * self._timeout_s
            if stall_s is None
            else positive_seconds(stall_s, "stall_s")
        )
        self._open_socket = open_socket or (
            lambda host: socket.socket(family_of(self._addresses[host][0]))
        )

    @property
    def hosts(self) -> Sequence[str]:
        """The names of all I/O nodes, sorted."""
        return sorted(self._addresses)

    def connect(self, host: str) -> Connection:
        """Raises `ListenerLost` within the time limit, `UsageError` where no listener of that name is known."""
        address = self._addresses.get(host)
        if address is None:
            hint = f" of the file name: known are {', '.join(self.hosts)}"
            if not self._addresses:
                hint = f": set SFIO_LISTENERS to {host}=ADDRESS:PORT (commas between several), or give a session of your"
                hint += " own (sfio_emu.use)"
            raise UsageError(f"no listener is known for the host {host!r}{hint}")
        stream = self._open_socket(host)
        try:
            stream.settimeout(self._timeout_s)
            stream.connect((address[0].strip("[]"), address[1]))
            watch_listener(stream, self._timeout_s)
            self._refuse_other_user(host, stream)
            stream.setblocking(False)
        except (OSError, TypeError) as fault:  # the latter for what is no host name
            stream.close()
            raise ListenerLost(
                host, f"no connection to its listener at {address[0]}:{address[1]}: {fault}"
            ) from fault
        return Connection(host=host, stream=stream, key=self._key)

    def _refuse_other_user(self, host: str, stream: socket.socket) -> None:
        """Raise UsageError if another user of this machine listens and no key says who is who."""
        if self._key is not None or os.environ.get(_EVERYBODY):
            return
        if is_foreign_listener(stream):
            address, port = self._addresses[host]
            stream.close()
            raise UsageError(
                f"the listener of {host} at {address}:{port} is a process of another user; share a "
                f"key with it (SFIO_KEY_FILE), or set {_EVERYBODY}=1 to hand it data nevertheless"
            )

    def carry(
        self, conversations: Sequence[tuple[Connection, Conversation]]
    ) -> Mapping[str, PeerError]:
        """Move bytes until each conversation is finished or broken; what broke, by host."""
        return _Carriage(conversations, self._timeout_s, self._stall_s).run()


class _Carriage:
    """Conversations under way, by descriptor.

    Whoever can move bytes moves a slice in turn until nobody can: so the slices are those of the same part of
    memory, which the cache holds. Only then the kernel is polled.
    """

    def __init__(
        self,
        conversations: Sequence[tuple[Connection, Conversation]],
        timeout_s: float,
        stall_s: float,
    ) -> None:
        self._live = {
            connection.stream.fileno(): (connection.host, connection.stream, conversation)
            for connection, conversation in conversations
        }
        self._live.pop(-1, None)
        self._poll = select.poll()
        self._timeout_s, self._stall_s = timeout_s, stall_s
        self._required: dict[int, int] = {}
        self._moved_s = dict.fromkeys(
            self._live, time.monotonic()
        )  # when something came or was sent last
        self._dead_s: dict[
            int, float
        ] = {}  # since when the kernel has sent what is not acknowledged
        self._broken: dict[str, PeerError] = {
            connection.host: ListenerLost(
                connection.host, "the connection is closed"
            )  # the sockets are collected too
            for connection, _ in conversations
            if connection.stream.fileno() < 0
        }

    def run(self) -> dict[str, PeerError]:
        live = self._live
        look_s = min(
            self._timeout_s / 8, 0.5
        )  # how often a conversation in which nothing moves is looked at
        looked_s = time.monotonic()
        ready = [(number, select.POLLOUT) for number in live]
        while live:
            self._move(
                [number for number, happened in ready if happened & ~select.POLLOUT], _receive
            )
            self._move([number for number, happened in ready if happened & select.POLLOUT], _send)
            now_s = time.monotonic()
            for number, _ in ready:
                if number in live:
                    self._moved_s[number] = now_s
                    self._await(number, live[number][2])
            if not live:
                break
            ready = self._poll.poll(look_s * 1000)
            now_s = time.monotonic()
            if now_s - looked_s > look_s:
                looked_s = now_s
                for number in list(live):
                    self._look(number, now_s)
        return self._broken

    def _look(self, number: int, now_s: float) -> None:
        """Give up a conversation that has been silent for too long, or whose way is dead."""
        _, stream, _ = self._live[number]
        if now_s - self._moved_s[number] > self._stall_s:
            self._drop(
                number,
                f"its listener has moved no byte for {self._stall_s:g} s: its disk is slow, or it was stopped",
            )
        elif not _unanswered(stream):
            self._dead_s.pop(number, None)
        elif now_s - self._dead_s.setdefault(number, now_s) >= 0.6 * self._timeout_s:
            self._drop(
                number, "no answer from it any more (what is sent to it is not acknowledged)"
            )

    def _move(
        self, numbers: list[int], step: Callable[[socket.socket, Conversation], bool]
    ) -> None:
        """Let each take a step in turn, again and again, until none can go on."""
        while numbers:
            able = []
            for number in numbers:
                if number not in self._live:
                    continue
                _, stream, conversation = self._live[number]
                try:
                    if step(stream, conversation):
                        able.append(number)
                except BlockingIOError:
                    continue
                except (PeerError, OSError) as fault:
                    self._drop(number, fault)
            numbers = able

    def _await(self, number: int, conversation: Conversation) -> None:
        """Ask the kernel for what the conversation waits for; forget it when it is finished."""
        events = (
            select.POLLIN | select.POLLOUT
            if conversation.outgoing()
            else 0
            if conversation.finished
            else select.POLLIN
        )
        if not events:
            self._forget(number)
        elif self._required.get(number) != events:
            self._poll.register(number, events)
            self._required[number] = events

    def _drop(self, number: int, fault: PeerError | OSError | str) -> None:
        host = self._live[number][0]
        if not isinstance(fault, PeerError):
            fault = ListenerLost(host, fault if isinstance(fault, str) else _describe(fault))
        self._broken[host] = fault
        self._forget(number)

    def _forget(self, number: int) -> None:
        del self._live[number]
        if self._required.pop(number, None) is not None:
            self._poll.unregister(number)


def _receive(stream: socket.socket, conversation: Conversation) -> bool:
    """Receive once; whether more may be there."""
    places = conversation.incoming()
    one = len(places) == 1
    count = (
        stream.recv_into(places[0])
        if one
        else stream.recvmsg_into(list(islice(places, VECTORS)))[0]
    )
    if not count:
        raise ConnectionResetError(errno.ECONNRESET, "its listener closed the connection")
    conversation.received(count)
    return count >= MIN_BURST_BYTES


def _send(stream: socket.socket, conversation: Conversation) -> bool:
    """Send a slice; whether there was one."""
    pieces = conversation.outgoing()
    if not pieces:
        return False
    conversation.sent(
        stream.send(pieces[0]) if len(pieces) == 1 else stream.sendmsg(islice(pieces, VECTORS))
    )
    return True


def family_of(address: str) -> socket.AddressFamily:
    """That of an IPv6 address, which has colons, or that of IPv4."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _checked(addresses: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """The addresses; raises `UsageError` where they are not (address, port) by host name."""
    if not isinstance(addresses, Mapping):
        raise UsageError(
            f"the addresses are of type {type(addresses).__name__}: give {{host: (address, port)}}"
        )
    for host, place in addresses.items():
        if not (isinstance(place, (tuple, list)) and len(place) == 2 and isinstance(place[0], str)):
            raise UsageError(
                f"the address of the listener of {host} is {place!r}: give (address, port)"
            )
        whole_number(place[1], f"port of the listener of {host}", 1, 65535)
    return dict(addresses)


def _describe(fault: OSError) -> str:
    if isinstance(fault, (ConnectionResetError, BrokenPipeError)):
        return "its listener is gone (connection closed)"
    if fault.errno in (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"no answer from it any more ({fault.strerror})"
    return f"the connection to its listener broke: {fault}"


def _unanswered(stream: socket.socket) -> bool:
    """Whether the kernel has sent data again, or probed a closed window twice, and has received nothing since. (A host
    that lives may leave one such question unanswered: it answers no more than two a second.)"""
    info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size)
    retransmits, probes, last_sent_ms, last_ack_ms = TCP_INFO.unpack(info)
    return bool(probes > 1 or (retransmits and last_sent_ms < last_ack_ms))


def watch_listener(stream: socket.socket, timeout_s: float) -> None:
    """Let the kernel give up an idle wait for a host that is silent for `timeout_s`, and for more than one of its
    questions where there is time for several: one may be lost among other packets. (Not what is sent: the kernel's
    own limit for that, TCP_USER_TIMEOUT, would also end a connection to a listener that is alive and busy.)"""
    idle_s, step_s = max(1, int(timeout_s / 2)), max(1, int(timeout_s / 8))
    _keep_alive(stream, idle_s, step_s)
    stream.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_KEEPCNT, max(1, int((timeout_s - idle_s) / step_s))
    )


def watch_peer(stream: socket.socket, timeout_s: float) -> None:
    """Let the kernel give up a silent peer within `timeout_s`: unacknowledged data, data not taken, and an idle
    wait."""
    step_s = max(1, int(timeout_s / 2))
    _keep_alive(stream, step_s, step_s)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(750 * timeout_s))


def _keep_alive(stream: socket.socket, idle_s: int, step_s: int) -> None:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, min(idle_s, MAX_KEEPALIVE_S))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, min(step_s, MAX_KEEPALIVE_S))
