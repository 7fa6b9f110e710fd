"""A process that owns the sockets of receivers: it accepts connections, checks every message and reports those that are
complete.

One process serves all receivers; where one is to die in a run, it has a process of its own.
"""

import contextlib
import select
import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from testbed.bulk.circuit_rules import BULK_PORT
from testbed.bulk.emulated.agent_process import NodeSockets, reset_on_close
from testbed.bulk.messages import (
    Counted,
    Inbox,
    MessageArrived,
    MessageDone,
    MessageError,
    MessageReader,
    MessageSet,
    MessageStarted,
    PayloadPart,
    Ready,
)

_READ_BYTES = 1 << 18
_BACKLOG = 1024


class Receiver:
    """Some receivers of a run."""

    def __init__(self, sockets: NodeSockets, nodes: Sequence[str], messages: MessageSet) -> None:
        self._sockets = sockets
        self._messages = messages
        self._poll = select.epoll()
        self._listening: dict[int, socket.socket] = {}
        self._readers: dict[int, tuple[socket.socket, MessageReader]] = {}
        self._files: dict[int, IO[bytes]] = {}
        own = set(nodes)
        self._numbers = [n for n, ends in enumerate(messages.ends) if ends[1] in own]
        self._doors = dict.fromkeys(messages.ends[n][1:] for n in self._numbers)
        self._inbox = Inbox({n: messages.payloads.checksum(n) for n in self._numbers})
        self._buffer = memoryview(bytearray(_READ_BYTES))

    def run(self, port: Connection) -> None:
        for node, part in self._doors:
            sock = self._sockets.open(node, socket.AF_INET, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reset_on_close(sock)
            sock.bind(("0.0.0.0", BULK_PORT + part))
            sock.listen(_BACKLOG)
            sock.setblocking(False)
            self._listening[sock.fileno()] = sock
            self._poll.register(sock.fileno(), select.EPOLLIN)
        self._poll.register(port.fileno(), select.EPOLLIN)
        port.send(Ready())
        while True:
            for file, _ in self._poll.poll():
                if file in self._readers:
                    self._read(file, port)
                elif file in self._listening:
                    self._accept(self._listening[file])
                else:
                    port.recv()
                    port.send(
                        Counted(counts=tuple((n, int(self._inbox.has(n))) for n in self._numbers))
                    )

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = listening.accept()
                sock.setblocking(False)
                self._readers[sock.fileno()] = (sock, MessageReader())
                self._poll.register(sock.fileno(), select.EPOLLIN)

    def _read(self, file: int, port: Connection) -> None:
        sock, reader = self._readers[file]
        try:
            count = sock.recv_into(self._buffer)
            for event in reader.receive(self._buffer[:count]):
                if isinstance(event, MessageArrived):
                    # Acknowledged at once: a sender that waits for it repeats itself, when its circuit is gone.
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    self._arrived(event, port)
                elif self._messages.store is not None:
                    self._keep(event)
        except BlockingIOError:
            return
        except (OSError, MessageError):
            count = 0
        if count == 0:
            self._poll.unregister(file)
            del self._readers[file]
            sock.close()

    def _arrived(self, event: MessageArrived, port: Connection) -> None:
        number = event.header.transfer
        at = time.monotonic()
        if self._inbox.take(event):
            self._complete(number)
        intact = self._inbox.has(number)
        port.send(
            MessageDone(transfer=number, attempt=event.header.attempt, intact=intact, at_s=at)
        )

    def _keep(self, event: MessageStarted | PayloadPart) -> None:
        number = event.header.transfer
        if number >= self._messages.stored or self._inbox.has(number):
            return
        if isinstance(event, MessageStarted):
            if number in self._files:
                self._files[number].close()
            part = self._place(number, ".part")
            part.unlink(missing_ok=True)  # what stood there, a link too, is not written through
            self._files[number] = part.open("xb")
        elif number in self._files:
            self._files[number].write(event.payload)

    def _complete(self, number: int) -> None:
        """Only a whole and verified message gets the name of one."""
        file = self._files.pop(number, None)
        if file is not None:
            file.close()
            self._place(number, ".part").rename(self._place(number, ""))

    def _place(self, number: int, ending: str) -> Path:
        assert self._messages.store is not None
        source, sink, _ = self._messages.ends[number]
        return self._messages.store / f"{number:06d}-{source}-{sink}{ending}".replace("/", "_")
