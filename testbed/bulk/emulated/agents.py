"""The processes that own the sockets of many hosts: one for all senders, one for all receivers, more where one is to die.

Sending and receiving are loops over epoll that decide nothing; a process is told what to send and tells what has arrived.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import resource
import select
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from testbed.bulk.circuit_rules import BULK_PORT, Pair
from testbed.bulk.messages import (
    Arrived,
    Began,
    Inbox,
    MessageError,
    MessageHeader,
    MessageReader,
    Part,
    Payloads,
    trailer,
)
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.errors import CapabilityError
from testbed.model.wiring import Wiring

_READ_BYTES = 1 << 18
_WRITE_BYTES = 1 << 17
_BACKLOG = 1024
_CONNECT_S = 60.0
_CONNECT_AGAIN_S, _CONNECT_AT_ONCE = 4.0, 64
_PR_SET_PDEATHSIG = 1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_TCP_INFO_BYTES, _TOTAL_RETRANS_AT, _BYTES_RETRANS_AT = 216, 100, 208
"""Of struct tcp_info: packets and, since Linux 4.19, bytes of data sent again."""


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Every message that may be sent in a run, by number: its end points; and what all of them contain.

    ``send_buffer_bytes``: of each connection, so that no sender has more under way than the queues on its path can hold;
    None leaves it to the kernel. ``store``: a directory that keeps the first ``stored`` messages, None for none.
    """

    pairs: tuple[Pair, ...]
    payloads: Payloads
    message_bytes: int
    send_buffer_bytes: int | None = None
    store: Path | None = None
    stored: int = 0


class AgentProcess:
    """A forked process at the other end of ``pipe``: told things by ``tell``, heard by ``hear`` when ``pipe`` is readable."""

    def __init__(self, role: str, nodes: Sequence[str], run: Callable[[Connection], None]) -> None:
        context = multiprocessing.get_context("fork")
        self.role, self.nodes = role, tuple(nodes)
        self.pipe, child = context.Pipe()
        self._process = context.Process(target=_child, args=(child, self.pipe, run), daemon=True)
        self._process.start()
        child.close()

    def tell(self, *words: Any) -> None:
        """Pass an order on; one that has died is found when it is heard."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(words)

    def hear(self, timeout_s: float = _CONNECT_S) -> tuple[Any, ...]:
        """The next thing it tells. EOFError where it has died; CapabilityError where it gave up or says nothing in time."""
        if not self.pipe.poll(timeout_s):
            raise CapabilityError(f"the {self.role} of bulk transfers says nothing for {timeout_s:g} s")
        try:
            words: tuple[Any, ...] = self.pipe.recv()
        except ConnectionResetError:
            raise EOFError from None
        if words[0] == "error":
            raise CapabilityError(f"the {self.role} of bulk transfers failed: {words[1]}")
        return words

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        self._process.join(2)
        self.pipe.close()


def _child(pipe: Connection, other: Connection, run: Callable[[Connection], None]) -> None:
    other.close()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(PermissionError):  # an ordinary user's processes wait their turn
        os.setpriority(os.PRIO_PROCESS, 0, -5)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()
    gc.disable()
    try:
        run(pipe)
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the run is over
    except Exception as error:  # noqa: BLE001 - whatever went wrong must reach the parent, which names the process
        with contextlib.suppress(OSError):
            pipe.send(("error", f"{type(error).__name__}: {error}"))
    os._exit(0)


@dataclass
class _Outgoing:
    """A connection and the messages that wait for it: (number, attempt, pieces still to be sent)."""

    sock: socket.socket
    watched: bool = False
    waiting: deque[tuple[int, int, deque[memoryview]]] = field(default_factory=deque)


class SendingAgent:
    """All senders of a run. Orders: ("connect",), ("send", ((number, attempt), ...)), ("count",), ("stop",).

    Tells ("connected", count), ("broke", number, attempt), ("repeated", (bytes, packets) by pair), ("stopped",).
    """

    def __init__(self, net: EmulatedNetwork, wiring: Wiring, jobs: Jobs) -> None:
        self._net, self._wiring, self._jobs = net, wiring, jobs
        self._poll = select.epoll()
        self._by_pair: dict[Pair, _Outgoing] = {}
        self._by_file: dict[int, _Outgoing] = {}

    def run(self, pipe: Connection) -> None:
        self._poll.register(pipe.fileno(), select.EPOLLIN)
        while True:
            for file, _ in self._poll.poll():
                if file != pipe.fileno():
                    self._write(self._by_file[file], pipe)
                    continue
                order = pipe.recv()
                if order[0] == "connect":
                    pipe.send(("connected", self._connect_all()))
                elif order[0] == "send":
                    for number, attempt in order[1]:
                        self._send(number, attempt)
                elif order[0] == "count":
                    pipe.send(("repeated", {pair: _sent_again(o.sock) for pair, o in self._by_pair.items()}))
                else:
                    pipe.send(("stopped",))

    def _connect_all(self) -> int:
        """Open the persistent connections, some at a time: a thousand first packets at once are more than switches look up.

        One that is not there after some seconds begins anew from another port: what a switch remembers of its first packets may
        outlive their repetitions.
        """
        pairs = list(dict.fromkeys(self._jobs.pairs))
        until = time.monotonic() + _CONNECT_S / 2
        for first in range(0, len(pairs), _CONNECT_AT_ONCE):
            left = pairs[first : first + _CONNECT_AT_ONCE]
            while left:
                left = self._connect_some(left)
                if left and time.monotonic() > until:
                    raise CapabilityError(f"no connection from {left[0][0]} to {left[0][1]} in {_CONNECT_S / 2:g} s")
        return len(self._by_pair)

    def _connect_some(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Connect these pairs; those that had no answer in time are closed and returned."""
        waiting = select.epoll()
        missing = {}
        for pair in pairs:
            file = self._open(pair).sock.fileno()
            missing[file] = pair
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
        for pair in missing.values():
            self._drop(pair)
        return list(missing.values())

    def _open(self, pair: Pair) -> _Outgoing:
        source, sink = self._wiring.host_at(pair[0]), self._wiring.host_at(pair[1])
        sock = self._net.open_socket(source.name, socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._jobs.send_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._jobs.send_buffer_bytes)
        with contextlib.suppress(BlockingIOError):
            sock.connect((sink.ip, BULK_PORT))
        outgoing = self._by_pair[pair] = self._by_file[sock.fileno()] = _Outgoing(sock=sock)
        return outgoing

    def _send(self, number: int, attempt: int) -> None:
        pair = self._jobs.pairs[number]
        if attempt > 1:
            self._drop(pair)
            self._open(pair)
        outgoing = self._by_pair[pair]
        header = MessageHeader(transfer=number, attempt=attempt, length=self._jobs.message_bytes).encode()
        payload = self._jobs.payloads.payload(number)
        end = trailer(self._jobs.payloads.checksum(number))
        outgoing.waiting.append((number, attempt, deque([memoryview(header), payload, memoryview(end)])))
        if not outgoing.watched:
            self._poll.register(outgoing.sock.fileno(), select.EPOLLOUT)
            outgoing.watched = True

    def _drop(self, pair: Pair) -> None:
        outgoing = self._by_pair.pop(pair)
        del self._by_file[outgoing.sock.fileno()]
        if outgoing.watched:
            self._poll.unregister(outgoing.sock.fileno())
        outgoing.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        outgoing.sock.close()

    def _write(self, outgoing: _Outgoing, pipe: Connection) -> None:
        number, attempt, pieces = outgoing.waiting[0]
        try:
            while pieces:
                sent = outgoing.sock.send(pieces[0][:_WRITE_BYTES], 0 if len(pieces) == 1 else socket.MSG_MORE)
                if sent < len(pieces[0]):
                    pieces[0] = pieces[0][sent:]
                else:
                    pieces.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._stop_watching(outgoing)
            outgoing.waiting.clear()
            pipe.send(("broke", number, attempt))
            return
        outgoing.waiting.popleft()
        if not outgoing.waiting:
            self._stop_watching(outgoing)

    def _stop_watching(self, outgoing: _Outgoing) -> None:
        self._poll.unregister(outgoing.sock.fileno())
        outgoing.watched = False


def _sent_again(sock: socket.socket) -> tuple[int, int]:
    """(bytes of data, packets) that TCP has sent again on this connection; zeros where the kernel does not tell."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    if len(info) < _TCP_INFO_BYTES:
        return 0, 0
    octets: int = struct.unpack_from("=Q", info, _BYTES_RETRANS_AT)[0]
    packets: int = struct.unpack_from("=I", info, _TOTAL_RETRANS_AT)[0]
    return octets, packets


class ReceivingAgent:
    """Some receivers of a run. Order: ("stop",). Tells ("listening",), ("done", number, attempt, intact, time on the
    monotonic clock), ("stopped", deliveries by number)."""

    def __init__(self, net: EmulatedNetwork, wiring: Wiring, nodes: Sequence[str], jobs: Jobs) -> None:
        self._net, self._wiring, self._nodes, self._jobs = net, wiring, nodes, jobs
        self._poll = select.epoll()
        self._listening: dict[int, socket.socket] = {}
        self._readers: dict[int, tuple[socket.socket, MessageReader]] = {}
        self._files: dict[int, IO[bytes]] = {}
        mine = set(nodes)
        numbers = [n for n, pair in enumerate(jobs.pairs) if pair[1] in mine]
        self._inbox = Inbox({n: jobs.payloads.checksum(n) for n in numbers})
        self._deliveries = dict.fromkeys(numbers, 0)
        self._buffer = memoryview(bytearray(_READ_BYTES))

    def run(self, pipe: Connection) -> None:
        for node in self._nodes:
            sock = self._net.open_socket(self._wiring.host_at(node).name, socket.AF_INET, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("0.0.0.0", BULK_PORT))
            sock.listen(_BACKLOG)
            sock.setblocking(False)
            self._listening[sock.fileno()] = sock
            self._poll.register(sock.fileno(), select.EPOLLIN)
        self._poll.register(pipe.fileno(), select.EPOLLIN)
        pipe.send(("listening",))
        while True:
            for file, _ in self._poll.poll():
                if file in self._readers:
                    self._read(file, pipe)
                elif file in self._listening:
                    self._accept(self._listening[file])
                else:
                    pipe.recv()
                    pipe.send(("stopped", self._deliveries))

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = listening.accept()
                sock.setblocking(False)
                self._readers[sock.fileno()] = (sock, MessageReader())
                self._poll.register(sock.fileno(), select.EPOLLIN)

    def _read(self, file: int, pipe: Connection) -> None:
        sock, reader = self._readers[file]
        try:
            count = sock.recv_into(self._buffer)
            for event in reader.receive(self._buffer[:count]):
                if isinstance(event, Arrived):
                    # Acknowledged at once: a sender that waits for it repeats itself, when its circuit is gone.
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    self._arrived(event, pipe)
                elif self._jobs.store is not None:
                    self._keep(event)
        except BlockingIOError:
            return
        except (OSError, MessageError):
            count = 0
        if count == 0:
            self._poll.unregister(file)
            del self._readers[file]
            sock.close()

    def _arrived(self, event: Arrived, pipe: Connection) -> None:
        number = event.header.transfer
        at = time.monotonic()
        if self._inbox.take(event):
            self._deliveries[number] += 1
            self._complete(number)
        pipe.send(("done", number, event.header.attempt, self._inbox.has(number), at))

    def _keep(self, event: Began | Part) -> None:
        number = event.header.transfer
        if number >= self._jobs.stored or self._inbox.has(number):
            return
        if isinstance(event, Began):
            if number in self._files:
                self._files[number].close()
            self._files[number] = self._place(number, ".part").open("wb")
        elif number in self._files:
            self._files[number].write(event.payload)

    def _complete(self, number: int) -> None:
        """Only a whole and verified message gets the name of one."""
        file = self._files.pop(number, None)
        if file is not None:
            file.close()
            self._place(number, ".part").rename(self._place(number, ""))

    def _place(self, number: int, ending: str) -> Path:
        assert self._jobs.store is not None
        source, sink = self._jobs.pairs[number]
        return self._jobs.store / f"{number:06d}-{source}-{sink}{ending}"
