"""The process of receivers: it accepts connections, checks messages, and reports complete ones.

One process serves all receivers of a machine. A receiver that is killed during a run has a separate
process.
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

# The maximum number of bytes of one system call.
_READ_BYTES = 1 << 18
# The maximum number of connections that wait to be accepted by one listening socket.
_BACKLOG = 1024


class Receiver:
    """The receivers of one process."""

    def __init__(self, sockets: NodeSockets, nodes: Sequence[str], messages: MessageSet) -> None:
        """Prepare the receivers.

        Args:
            sockets: Opens sockets of the nodes.
            nodes: The nodes.
            messages: All messages of the run.
        """
        self._sockets = sockets
        self._messages = messages
        self._poll = select.epoll()
        self._listening: dict[int, socket.socket] = {}
        self._readers: dict[int, tuple[socket.socket, MessageReader]] = {}
        # Files of messages that are incomplete.
        self._files: dict[int, IO[bytes]] = {}
        own_nodes = set(nodes)
        self._numbers = [n for n, ends in enumerate(messages.ends) if ends[1] in own_nodes]
        # The node and the part of each listening socket.
        self._listeners = dict.fromkeys(messages.ends[number][1:] for number in self._numbers)
        self._inbox = Inbox({n: messages.payloads.checksum(n) for n in self._numbers})
        self._buffer = memoryview(bytearray(_READ_BYTES))

    def run(self, pipe: Connection) -> None:
        """Receive messages and execute orders until the pipe is closed (EOFError)."""
        for node, part in self._listeners:
            self._listen(node, BULK_PORT + part)
        self._poll.register(pipe.fileno(), select.EPOLLIN)
        pipe.send(Ready())
        while True:
            for file, _ in self._poll.poll():
                if file in self._readers:
                    self._read(file, pipe)
                elif file in self._listening:
                    self._accept(self._listening[file])
                else:
                    pipe.recv()
                    pipe.send(self._counted())

    def _listen(self, node: str, tcp_port: int) -> None:
        sock = self._sockets.open(node, socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reset_on_close(sock)
        sock.bind(("0.0.0.0", tcp_port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)
        self._listening[sock.fileno()] = sock
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _counted(self) -> Counted:
        counts = []
        for number in self._numbers:
            counts.append((number, int(self._inbox.has(number))))
        return Counted(counts=tuple(counts))

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = listening.accept()
                sock.setblocking(False)
                self._readers[sock.fileno()] = (sock, MessageReader())
                self._poll.register(sock.fileno(), select.EPOLLIN)

    def _read(self, file: int, pipe: Connection) -> None:
        """Read from a connection; it is closed if it ended or sent no message."""
        sock, reader = self._readers[file]
        try:
            count = sock.recv_into(self._buffer)
            for event in reader.receive(self._buffer[:count]):
                if isinstance(event, MessageArrived):
                    # A delayed acknowledgement would find the circuit removed, and the sender
                    # would retransmit.
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    self._arrived(event, pipe)
                elif self._messages.store is not None:
                    self._store(event)
        except BlockingIOError:
            return
        except (OSError, MessageError):
            count = 0
        if count == 0:
            self._poll.unregister(file)
            del self._readers[file]
            sock.close()

    def _arrived(self, event: MessageArrived, pipe: Connection) -> None:
        """Deliver and report a message."""
        number = event.header.transfer
        at_s = time.monotonic()
        if self._inbox.take(event):
            self._complete(number)
        intact = self._inbox.has(number)
        pipe.send(
            MessageDone(transfer=number, attempt=event.header.attempt, intact=intact, at_s=at_s)
        )

    def _store(self, event: MessageStarted | PayloadPart) -> None:
        """Write the payload of a message to its temporary file."""
        number = event.header.transfer
        if number >= self._messages.stored or self._inbox.has(number):
            return
        if isinstance(event, MessageStarted):
            if number in self._files:
                self._files[number].close()
            path = self._path(number, ".part")
            # An existing file, or a symbolic link, must not be written through.
            path.unlink(missing_ok=True)
            self._files[number] = path.open("xb")
        elif number in self._files:
            self._files[number].write(event.payload)

    def _complete(self, number: int) -> None:
        """Give a message's file its final name, which only verified messages have."""
        file = self._files.pop(number, None)
        if file is not None:
            file.close()
            self._path(number, ".part").rename(self._path(number, ""))

    def _path(self, number: int, suffix: str) -> Path:
        assert self._messages.store is not None
        source, sink, _ = self._messages.ends[number]
        return self._messages.store / f"{number:06d}-{source}-{sink}{suffix}".replace("/", "_")
