"""The I/O listener: serves the subfiles below a root to any number of clients, in one thread.
`python -m sfio_emu.adapters.listener --root DIR --listen [NAME@]HOST:PORT`, or a `Listener` in a thread."""

from __future__ import annotations

import argparse
import logging
import os
import select
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from pathlib import Path

from sfio_emu import wire
from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.adapters.sockets import VECTORS, watch_peer
from sfio_emu.bodies import NONCE_BYTES
from sfio_emu.listener.connection import Identity, ServerConnection
from sfio_emu.listener.operations import FileRange, Rejections
from sfio_emu.listener.pool import BufferPool

DEFAULT_MEMORY_BYTES = 32 << 20
DEFAULT_MESSAGE_BYTES = (1 << 20) + 4096
MAX_SILENCE_S = 5.0
MAX_DRAIN_S = 2.0  # how long a refused client may go on sending
LOG = logging.getLogger(__name__)


@dataclass(kw_only=True)
class _Client:
    stream: socket.socket
    connection: ServerConnection
    events: int
    active_s: float


class Listener:
    """Serves clients of the given listening sockets, each with its own directory.

    `sockets`: (listening socket, directory) pairs. `memory_bytes` bounds the buffers of all messages together,
    `message_bytes` those of one. A client that holds a buffer others wait for and sends nothing for MAX_SILENCE_S is
    dropped. `sieve`: many small runs near one another are moved as one span. `key`: only who has it is served.
    """

    def __init__(
        self,
        sockets: Sequence[tuple[socket.socket, Path]],
        *,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        message_bytes: int = DEFAULT_MESSAGE_BYTES,
        sieve: bool = True,
        key: bytes | None = None,
    ) -> None:
        self._key, self._machine = key, _machine_id()
        self._pool = BufferPool(memory_bytes, min(message_bytes, memory_bytes))
        self._sieve = sieve
        self._poll = select.poll()
        self._listening: dict[int, tuple[socket.socket, RootedSubfiles, Rejections]] = {}
        self._clients: dict[int, _Client] = {}
        self._starving: list[int] = []
        self._draining: dict[int, float] = {}
        for listening, directory in sockets:
            listening.setblocking(False)
            self._listening[listening.fileno()] = (listening, RootedSubfiles(directory), Rejections())
            self._poll.register(listening.fileno(), select.POLLIN)
        self._wake_reader, self._wake_writer = os.pipe()
        self._poll.register(self._wake_reader, select.POLLIN)
        self._stopping = False

    def serve_forever(self) -> None:
        """Serve until `close` is called (from any thread); then everything is closed."""
        while not self._stopping:
            for number, _ in self._poll.poll(1000 if self._starving or self._draining else None):
                if number in self._listening:
                    self._accept(*self._listening[number])
                elif number in self._draining:
                    self._drain(number)
                elif number in self._clients:
                    self._serve(number)
            self._serve_starving()
            for number in [number for number, until_s in self._draining.items() if until_s < time.monotonic()]:
                self._drop(number)
        for number in list(self._clients):
            self._drop(number)
        for listening, subfiles, _ in self._listening.values():
            listening.close()
            subfiles.dispose()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def close(self) -> None:
        """Let `serve_forever` end."""
        self._stopping = True
        os.write(self._wake_writer, b"x")

    def _accept(self, listening: socket.socket, subfiles: RootedSubfiles, rejections: Rejections) -> None:
        try:
            stream, _ = listening.accept()
        except OSError:  # the client is gone again, or no descriptor is left: the others are served on
            return
        stream.setblocking(False)
        watch_peer(stream, 4 * MAX_SILENCE_S)
        identity = Identity(nonce=os.urandom(NONCE_BYTES), machine=self._machine, key=self._key)
        connection = ServerConnection(subfiles, self._pool, rejections, identity=identity, sieve=self._sieve)
        self._clients[stream.fileno()] = _Client(
            stream=stream, connection=connection, events=select.POLLIN, active_s=time.monotonic()
        )
        self._poll.register(stream.fileno(), select.POLLIN)

    def _serve(self, number: int) -> None:
        client = self._clients[number]
        client.active_s = time.monotonic()
        try:
            events = _move(client.stream, client.connection)
            if client.connection.closed and not events:  # refused, and told so
                client.stream.shutdown(socket.SHUT_WR)
                self._draining[number] = time.monotonic() + MAX_DRAIN_S
                events = select.POLLIN
        except OSError:
            events = 0
        except Exception:  # no mistake made for one client may end the service of the others
            LOG.exception("a connection is ended: its request could not be carried out")
            events = 0
        if not events and not client.connection.starved:
            self._drop(number)
            return
        if client.connection.starved:
            self._starving.append(number)
        if events != client.events:
            client.events = events
            self._poll.modify(number, events)

    def _serve_starving(self) -> None:
        """Serve clients that wait for a buffer, the longest waiting first; drop silent ones that hold a buffer meanwhile."""
        waiting, self._starving = self._starving, []
        for place, number in enumerate(waiting):
            if number not in self._clients:
                continue
            self._serve(number)
            if self._starving:
                self._starving = [number, *waiting[place + 1 :]]
                break
        if self._starving:
            now_s = time.monotonic()
            for number, client in list(self._clients.items()):
                if client.connection.holds_buffer and now_s - client.active_s > MAX_SILENCE_S:
                    self._drop(number)

    def _drain(self, number: int) -> None:
        """Throw away what a refused client still sends: closed too early, the kernel would reset it before it has read why."""
        try:
            if not self._clients[number].stream.recv_into(self._pool.scratch):
                self._drop(number)
        except BlockingIOError:
            return
        except OSError:
            self._drop(number)

    def _drop(self, number: int) -> None:
        client = self._clients.pop(number)
        self._draining.pop(number, None)
        self._poll.unregister(number)
        client.connection.abandon()
        client.stream.close()


def _move(stream: socket.socket, connection: ServerConnection) -> int:
    """Receive, serve and answer what can be now; the events to wait for, 0 at the end or where a buffer lacks.

    After one message the others have their turn.
    """
    for _ in range(4):
        while pieces := connection.outgoing():
            try:
                _send(stream, connection, pieces)
            except BlockingIOError:
                return select.POLLOUT
        places = connection.incoming()
        if not places:
            return 0
        try:
            count = stream.recv_into(places[0])
        except BlockingIOError:
            return select.POLLIN
        if not count:
            return 0
        connection.received(count)
    return select.POLLOUT if connection.outgoing() else select.POLLIN


def _send(stream: socket.socket, connection: ServerConnection, pieces: Sequence[memoryview | FileRange]) -> None:
    """Send what can be sent at once: bytes in one call, or a range of a file."""
    first = pieces[0]
    if isinstance(first, FileRange):
        connection.send_range(first, stream.fileno())
        return
    views = list(takewhile(lambda piece: isinstance(piece, memoryview), islice(pieces, VECTORS)))
    more = len(views) < len(pieces)
    connection.sent(stream.sendmsg(views, (), socket.MSG_MORE if more else 0))  # type: ignore[arg-type]


def _machine_id() -> bytes:
    """16 bytes that listeners on this machine have in common, and others do not."""
    with suppress(OSError, ValueError):
        return uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes
    return os.urandom(16)


def open_listening_socket(address: str, port: int) -> socket.socket:
    """A listening TCP socket."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(256)
    except OSError:
        listening.close()
        raise
    return listening


def _work_in_batches() -> None:
    """Where a client shares the processor, let it fill a socket before this process wakes: a sixth more throughput."""
    with suppress(OSError):  # a sandbox may forbid it; nothing but speed is lost
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _parse_listen(text: str) -> tuple[str, str, int]:
    name, _, place = text.rpartition("@")
    address, colon, port = place.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or "/" in name or name in (".", ".."):
        raise argparse.ArgumentTypeError(f"{text!r} is no [NAME@]HOST:PORT")
    return name, address, int(port)


def _size(text: str, *, most: int = wire.MAX_LIMIT) -> int:
    """Bytes of an option; that of the wrong one is named by the parser."""
    if not (text.isascii() and text.isdigit() and wire.MIN_LIMIT <= int(text) <= most):
        bounds = f"{wire.MIN_LIMIT} to {most}".replace(str(2**62), "2^62")
        raise argparse.ArgumentTypeError(f"{text!r} is no size that can be: give bytes, {bounds}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until killed; one line "listening [NAME@]HOST:PORT" on stdout for each address when all are ready."""
    parser = argparse.ArgumentParser(prog="python -m sfio_emu.adapters.listener", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="directory of the subfiles; no path leaves it")
    parser.add_argument("--listen", type=_parse_listen, action="append", required=True, metavar="[NAME@]HOST:PORT",
                        help="address to serve; with a name its files lie in ROOT/NAME; port 0: any free one")  # fmt: skip
    parser.add_argument("--memory", type=partial(_size, most=2**62), default=DEFAULT_MEMORY_BYTES, metavar="BYTES",
                        help="bound of the buffers of all messages together (default: %(default)s)")  # fmt: skip
    parser.add_argument("--message", type=_size, default=DEFAULT_MESSAGE_BYTES, metavar="BYTES",
                        help="largest message (default: %(default)s)")  # fmt: skip
    parser.add_argument("--no-sieve", dest="sieve", action="store_false",
                        help="move each run by a call of its own, also many small ones near one another")  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        sockets = [
            (open_listening_socket(address, port), options.root / name) for name, address, port in options.listen
        ]
        listener = Listener(sockets, memory_bytes=options.memory, message_bytes=options.message, sieve=options.sieve)
    except (OSError, ValueError) as fault:
        print(f"the listener cannot start: {fault}", file=sys.stderr)
        return 2
    for (name, address, _), (listening, _) in zip(options.listen, sockets, strict=True):
        print(f"listening {name + '@' if name else ''}{address}:{listening.getsockname()[1]}", flush=True)
    _work_in_batches()
    try:
        listener.serve_forever()
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
