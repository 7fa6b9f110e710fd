"""Connections to listeners over TCP, and the loop that transfers the bytes of conversations.

Two kinds of silence are distinguished. If the path to a listener is dead, the kernel sends and
receives nothing back, not even acknowledgements of window probes. This is an error within the time
limit. If the host of a listener answers, but the listener itself does not, its disk is slow, or the
process was stopped. The client waits 15 times as long for such a listener.
"""

import errno
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from sfio_emu.adapters.key_files import key_from_environment
from sfio_emu.adapters.local_users import is_foreign_listener
from sfio_emu.errors import ListenerLost, PeerError, UsageError, positive_seconds, whole_number
from sfio_emu.ports import Connection, Conversation

# The maximum number of buffers in one system call (UIO_MAXIOV of Linux).
VECTORS = 1024

# The time limit for connecting and for silent hosts, unless the caller gives one.
DEFAULT_TIMEOUT_S = 2.0

# An environment variable. If it is set, a client without a key also uses listeners of other users
# on its machine.
_EVERYBODY = "SFIO_WITHOUT_KEY"

# A listener whose host answers is waited for this many times longer than a silent host.
STALL_FACTOR = 15.0

# After receiving fewer bytes than this, the socket is probably empty.
MIN_BURST_BYTES = 16 << 10

# The maximum that the kernel accepts for TCP_KEEPIDLE and TCP_KEEPINTVL.
MAX_KEEPALIVE_S = 32767

# The conversations are checked for silence at most every half second.
_MAX_CHECK_INTERVAL_S = 0.5

# A path is dead if nothing has come back for this share of the time limit after the first check
# that saw a retransmission. The retransmission itself begins only after a part of the limit.
_DEAD_SHARE = 0.6

# Fields of struct tcp_info: retransmits, probes, time since the last data were sent, and since the
# last acknowledgement arrived, both in milliseconds.
TCP_INFO = struct.Struct("<2x2B40xI8xI")


class TcpConnections:
    """Connections to listeners; implements `sfio_emu.ports.Connections`.

    Args:
        addresses: (address, port) of each listener by the name of its I/O node.
        timeout_s: The time limit for connecting, and for the silence of a host at the level of TCP.
        stall_s: How long a listener whose host answers may transfer no byte; by default 15 times
            `timeout_s`.
        open_socket: Returns an unconnected socket to an I/O node, for instance in another network
            namespace.
        key: The key of the run, which the listeners must also have; by default that of
            SFIO_KEY_FILE. Without a key, only listeners that require none are used.
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
        if stall_s is None:
            self._stall_s = STALL_FACTOR * self._timeout_s
        else:
            self._stall_s = positive_seconds(stall_s, "stall_s")
        self._open_socket = open_socket or self._open_tcp_socket

    def _open_tcp_socket(self, host: str) -> socket.socket:
        address, _ = self._addresses[host]
        return socket.socket(family_of(address))

    @property
    def hosts(self) -> Sequence[str]:
        """The names of all I/O nodes, sorted."""
        return sorted(self._addresses)

    def connect(self, host: str) -> Connection:
        """Connect to the listener of an I/O node.

        Raises:
            ListenerLost: The listener does not answer within the time limit.
            UsageError: The host is unknown, or its listener is another user's.
        """
        if host not in self._addresses:
            hint = f" of the file name: known are {', '.join(self.hosts)}"
            if not self._addresses:
                hint = (
                    f": set SFIO_LISTENERS to {host}=ADDRESS:PORT (commas between several), "
                    "or give a session of your own (sfio_emu.use)"
                )
            raise UsageError(f"no listener is known for the host {host!r}{hint}")
        address, port = self._addresses[host]
        stream = self._open_socket(host)
        try:
            stream.settimeout(self._timeout_s)
            stream.connect((address.strip("[]"), port))
            watch_listener(stream, self._timeout_s)
            self._refuse_other_user(host, stream)
            stream.setblocking(False)
        except (OSError, TypeError) as fault:
            # `connect` raises TypeError for some texts that are no host names.
            stream.close()
            raise ListenerLost(
                host, f"no connection to its listener at {address}:{port}: {fault}"
            ) from fault
        return Connection(host=host, stream=stream, key=self._key)

    def _refuse_other_user(self, host: str, stream: socket.socket) -> None:
        """Raise UsageError if another user of this machine listens, and there is no key."""
        if self._key is not None or os.environ.get(_EVERYBODY):
            return
        if is_foreign_listener(stream):
            address, port = self._addresses[host]
            stream.close()
            raise UsageError(
                f"the listener of {host} at {address}:{port} is a process of another user; share a "
                f"key with it (SFIO_KEY_FILE), or set {_EVERYBODY}=1 to give it data nevertheless"
            )

    def carry(
        self, conversations: Sequence[tuple[Connection, Conversation]]
    ) -> Mapping[str, PeerError]:
        """Transfer bytes until each conversation is finished or broken.

        Returns:
            The errors of the broken conversations, by host.
        """
        return _Transfer(conversations, self._timeout_s, self._stall_s).run()


class _Peer(NamedTuple):
    """A conversation and its socket."""

    host: str
    stream: socket.socket
    conversation: Conversation


class _Transfer:
    """The transfer of several conversations, each identified by the descriptor of its socket.

    The conversations take turns. Each sends or receives one slice, until none can go on without
    waiting. In this way, the slices come from the same region of memory, which the processor's
    cache holds. Only then the kernel is polled.

    Args:
        conversations: The connections and conversations.
        timeout_s: How long a host may be silent at the level of TCP.
        stall_s: How long a listener whose host answers may transfer no byte.
    """

    def __init__(
        self,
        conversations: Sequence[tuple[Connection, Conversation]],
        timeout_s: float,
        stall_s: float,
    ) -> None:
        self._timeout_s = timeout_s
        self._stall_s = stall_s
        self._poll = select.poll()
        self._live: dict[int, _Peer] = {}
        self._broken: dict[str, PeerError] = {}
        for connection, conversation in conversations:
            host = connection.host
            descriptor = connection.stream.fileno()
            if descriptor < 0:
                self._broken[host] = ListenerLost(host, "the connection is closed")
            else:
                self._live[descriptor] = _Peer(host, connection.stream, conversation)

        # The `poll` events for which a socket is registered.
        self._events: dict[int, int] = {}

        # The time at which the socket was last ready, on the monotonic clock.
        self._active_s = dict.fromkeys(self._live, time.monotonic())

        # The time since which the kernel's packets are not acknowledged, on the monotonic clock.
        self._unanswered_since_s: dict[int, float] = {}

    def run(self) -> dict[str, PeerError]:
        """Transfer until all conversations have finished or broken; return the errors by host."""
        live = self._live
        check_interval_s = min(self._timeout_s / 8, _MAX_CHECK_INTERVAL_S)
        checked_s = time.monotonic()
        ready = [(descriptor, select.POLLOUT) for descriptor in live]
        while live:
            readable = [descriptor for descriptor, events in ready if events & ~select.POLLOUT]
            writable = [descriptor for descriptor, events in ready if events & select.POLLOUT]
            self._take_turns(readable, _receive)
            self._take_turns(writable, _send)
            now_s = time.monotonic()
            for descriptor, _ in ready:
                if descriptor in live:
                    self._active_s[descriptor] = now_s
                    self._register(descriptor, live[descriptor].conversation)
            if not live:
                break
            ready = self._poll.poll(check_interval_s * 1000)
            now_s = time.monotonic()
            if now_s - checked_s > check_interval_s:
                checked_s = now_s
                for descriptor in list(live):
                    self._check_silence(descriptor, now_s)
        return self._broken

    def _check_silence(self, descriptor: int, now_s: float) -> None:
        """Give up a conversation that has been silent for too long."""
        if now_s - self._active_s[descriptor] > self._stall_s:
            self._drop(
                descriptor,
                f"its listener has transferred no byte for {self._stall_s:g} s: "
                "its disk is slow, or the process was stopped",
            )
        elif not _is_unanswered(self._live[descriptor].stream):
            self._unanswered_since_s.pop(descriptor, None)
        else:
            since_s = self._unanswered_since_s.setdefault(descriptor, now_s)
            if now_s - since_s >= _DEAD_SHARE * self._timeout_s:
                self._drop(
                    descriptor,
                    "no answer from it any more (data sent to it are not acknowledged)",
                )

    def _take_turns(
        self, descriptors: list[int], step: Callable[[socket.socket, Conversation], bool]
    ) -> None:
        """Let each conversation take a step in turn, until none can go on."""
        while descriptors:
            able = []
            for descriptor in descriptors:
                if descriptor not in self._live:
                    continue
                _, stream, conversation = self._live[descriptor]
                try:
                    if step(stream, conversation):
                        able.append(descriptor)
                except BlockingIOError:
                    continue
                except (PeerError, OSError) as fault:
                    self._drop(descriptor, fault)
            descriptors = able

    def _register(self, descriptor: int, conversation: Conversation) -> None:
        """Register the events that a conversation waits for, or remove it if it is finished."""
        if conversation.outgoing():
            events = select.POLLIN | select.POLLOUT
        elif conversation.finished:
            self._forget(descriptor)
            return
        else:
            events = select.POLLIN
        if self._events.get(descriptor) != events:
            self._poll.register(descriptor, events)
            self._events[descriptor] = events

    def _drop(self, descriptor: int, fault: PeerError | OSError | str) -> None:
        """Note the error of a conversation, and remove it."""
        host = self._live[descriptor].host
        if isinstance(fault, OSError):
            fault = _describe(fault)
        if isinstance(fault, str):
            fault = ListenerLost(host, fault)
        self._broken[host] = fault
        self._forget(descriptor)

    def _forget(self, descriptor: int) -> None:
        del self._live[descriptor]
        if self._events.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)


def _receive(stream: socket.socket, conversation: Conversation) -> bool:
    """Receive once, and return whether there may be more."""
    buffers = conversation.incoming()
    if len(buffers) == 1:
        count = stream.recv_into(buffers[0])
    else:
        count, _, _, _ = stream.recvmsg_into(list(islice(buffers, VECTORS)))
    if not count:
        raise ConnectionResetError(errno.ECONNRESET, "its listener closed the connection")
    conversation.received(count)
    return count >= MIN_BURST_BYTES


def _send(stream: socket.socket, conversation: Conversation) -> bool:
    """Send a slice, and return whether there was one."""
    pieces = conversation.outgoing()
    if not pieces:
        return False
    if len(pieces) == 1:
        count = stream.send(pieces[0])
    else:
        count = stream.sendmsg(islice(pieces, VECTORS))
    conversation.sent(count)
    return True


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of an address or host name; IPv6 addresses have colons."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _checked(addresses: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """Return the addresses, or raise UsageError if they are not (address, port) by host name."""
    if not isinstance(addresses, Mapping):
        raise UsageError(
            f"the addresses are of type {type(addresses).__name__}: give {{host: (address, port)}}"
        )
    for host, pair in addresses.items():
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise UsageError(
                f"the address of the listener of {host} is {pair!r}: give (address, port)"
            )
        whole_number(pair[1], f"port of the listener of {host}", 1, 65535)
    return dict(addresses)


def _describe(fault: OSError) -> str:
    if isinstance(fault, (ConnectionResetError, BrokenPipeError)):
        return "its listener is gone (connection closed)"
    if fault.errno in (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"no answer from it any more ({fault.strerror})"
    return f"the connection to its listener broke: {fault}"


def _is_unanswered(stream: socket.socket) -> bool:
    """Return whether the other host has not answered the kernel's last packets.

    The kernel has retransmitted data, or has probed a closed window twice, and has received nothing
    since. A live host may leave one probe unanswered, because it answers no more than two per
    second.
    """
    info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size)
    retransmits, probes, last_sent_ms, last_ack_ms = TCP_INFO.unpack(info)
    return bool(probes > 1 or (retransmits and last_sent_ms < last_ack_ms))


def watch_listener(stream: socket.socket, timeout_s: float) -> None:
    """Let the kernel end an idle connection to a host that is silent for `timeout_s`.

    If the time allows it, the kernel sends several keep-alive probes, because one may be lost. This
    does not concern data in transit. The kernel's limit for these, TCP_USER_TIMEOUT, would also end
    connections to listeners that are alive and busy.
    """
    idle_s = max(1, int(timeout_s / 2))
    interval_s = max(1, int(timeout_s / 8))
    _set_keep_alive(stream, idle_s, interval_s)
    probes = max(1, int((timeout_s - idle_s) / interval_s))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)


def watch_peer(stream: socket.socket, timeout_s: float) -> None:
    """Let the kernel end a connection to a peer that is silent for `timeout_s`.

    This concerns idle connections, unacknowledged data, and data that the peer does not receive.
    """
    interval_s = max(1, int(timeout_s / 2))
    _set_keep_alive(stream, interval_s, interval_s)
    # Three quarters of the limit, in milliseconds, because the kernel checks this one only when its
    # retransmission timer expires.
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(750 * timeout_s))


def _set_keep_alive(stream: socket.socket, idle_s: int, interval_s: int) -> None:
    """Send small segments at once, and keep-alive probes after `idle_s` every `interval_s`."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, min(idle_s, MAX_KEEPALIVE_S))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, min(interval_s, MAX_KEEPALIVE_S))
